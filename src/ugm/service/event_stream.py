"""The stream of events from the leader to a process that subscribes to a partition.

The problem: a client needs every event once it is durable, in order, also when another process begins to lead. It may
handle events slowly, and may call the partition meanwhile.

The idea: a subscription has a connection of its own and follows the changes in the log by their numbers. After a
reconnect it continues after the last change that was handled. While the subscriber works, nothing is read, so the
leader bounds what waits. The leader sends the data of the log, which `ugm.journal.change_data` decodes.

Every event has a number. It consists of the number of the change in the log and of the position in the change, so it is
the same at every leader. Numbers grow, with gaps between changes.

Denials are not in the log. If the subscriber wants them, the leader sends them between the changes. They have no number
of their own, and denials while the connection is lost are not delivered.

Invariant: a change counts as handled when the subscriber has returned for all of its events.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from typing import Final, final

from ugm.configuration import PartitionConfig
from ugm.errors import RequestError
from ugm.events import Event, Subscriber
from ugm.journal.change_data import config_after, decode_change
from ugm.journal.contents import DECODING_ERRORS
from ugm.partition.compiled_config import CompiledConfig
from ugm.service.addresses import Address, AddressChoice, LeaderAccess, parse_addresses
from ugm.service.denials import decode_denials
from ugm.service.errors import DeadlineError, ProtocolError
from ugm.service.last_failure import LastFailure
from ugm.service.wire import (
    FINAL_REFUSALS,
    FOLLOW_REFUSALS,
    MAX_ANSWERS,
    SESSION_UNKNOWN,
    VERSION,
    Bye,
    ChangeMessage,
    DenialMessage,
    Follow,
    FrameReader,
    Hello,
    LeaderMessage,
    Moved,
    Ping,
    Refused,
    Welcome,
    decode_leader_message,
    frame,
    tls_refusals,
)

__all__ = ["EventReader", "EventStream"]

_LOGGER: Final = logging.getLogger(__name__)

#: The bound of the number of events in a change, as far as event numbers are concerned.
_EVENTS: Final = 1 << 24
_CHUNK: Final = 1 << 18
_PING: Final = frame(Ping())
#: It distinguishes the session of a subscription from that of the calls.
_SUFFIX: Final = " (events)"
#: Without any message for this long, the leader gets a ping; without an answer to it for this long, the subscription
#: connects to the next address. The maximum time to connect, and the time between attempts. All in seconds.
_SILENCE: Final = 1.0
_PATIENCE: Final = 1.0
_CONNECT: Final = 1.0
_PAUSE: Final = 0.05


@final
class EventReader:
    """Passes the events of changes to a subscriber.

    Args:
        subscriber: the function that is called with the events of each operation.
        config: the configuration in force now.
        after: the number of the last event that was handled; None to begin with the next change.
        denials: whether denials are passed as well.

    Raises:
        RequestError: an argument is invalid.
    """

    __slots__ = ("_after", "_before", "_subscriber", "change", "denials", "number")

    #: The number of the last change that was handled; -1 to begin with the next one.
    change: int
    #: All events up to this number were handled.
    number: int

    def __init__(
        self, subscriber: Subscriber, config: PartitionConfig | None, after: int | None, *, denials: bool = False
    ) -> None:
        if not callable(subscriber):
            raise RequestError("subscriber", subscriber, "expected a callable")
        if after is not None and (type(after) is not int or after < 0):
            raise RequestError("after", after, "expected the number of an event")
        self._subscriber: Final = subscriber
        self.denials: Final = denials
        self._after: Final = after or 0
        self.number = self._after
        # Some events of the change with the last event may not have been handled.
        self.change = -1 if after is None else max(0, (after + 1) // _EVENTS - 1)
        # A log begins without a configuration.
        self._before = CompiledConfig.of(config if self.change else None)

    def begin(self, change: int) -> None:
        """Note the change after which the leader sends all changes."""
        if self.change < 0:
            self._note(change)

    def _note(self, change: int) -> None:
        self.change, self.number = change, (change + 1) * _EVENTS - 1

    def handle(self, message: ChangeMessage) -> None:
        """Call the subscriber with the events of a change.

        Raises:
            ProtocolError: the change cannot be decoded.
        """
        try:
            operations = decode_change(message.data, self._before)
        except DECODING_ERRORS as error:
            raise ProtocolError("malformed", f"a change cannot be decoded: {error}") from error
        first = message.number * _EVENTS
        for _, events in operations:
            last = first + len(events) - 1
            if events and last > self._after:
                self._call(first, events)
            first = last + 1
            self._before = config_after(events, self._before)
        self._note(message.number)

    def handle_denials(self, message: DenialMessage) -> None:
        """Call the subscriber with each denial. They have the number of the last event before them.

        Raises:
            ProtocolError: the denials cannot be decoded.
        """
        try:
            denials = decode_denials(message.data)
        except RequestError as error:
            raise ProtocolError("malformed", f"a denial cannot be decoded: {error}") from error
        for denied in denials:
            self._call(self.number, (denied,))

    def _call(self, first: int, events: tuple[Event, ...]) -> None:
        try:
            self._subscriber(first, events)
        except Exception:
            text = "subscriber %r failed on %d events from number %d on"
            _LOGGER.exception(text, self._subscriber, len(events), first)


@final
class EventStream:
    """The connection of a subscription, in one asyncio loop."""

    def __init__(self, access: LeaderAccess, reader: EventReader) -> None:
        self._access: Final = access
        self._choice: Final = AddressChoice(parse_addresses(access.addresses))
        self._reader: Final = reader
        self._session = ""
        self._term = 0
        #: Why there is no connection.
        self._failure: Final = LastFailure()
        #: Set when the leader has accepted the subscription.
        self.has_begun: Final = asyncio.Event()

    async def begin(self) -> asyncio.Task[None]:
        """Follow the changes in a task, and return it when the leader has accepted the subscription.

        Raises:
            DeadlineError: no leader accepts it within the deadline.
            ProtocolError: it is refused.
        """
        task = asyncio.create_task(self._run())
        begun = asyncio.create_task(self.has_begun.wait())
        try:
            await asyncio.wait((task, begun), timeout=self._access.deadline, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            # Nobody gets the task, also if the leader has just accepted the subscription.
            task.cancel()
            raise
        finally:
            begun.cancel()
        if task.done():
            task.result()
        if not self.has_begun.is_set():
            task.cancel()
            raise DeadlineError(self._choice.names, self._failure.reason)
        return task

    async def _run(self) -> None:
        """Follow the changes until this is cancelled.

        Raises:
            ProtocolError: the leader refuses the subscription for good.
        """
        while True:
            address = self._choice.next()
            try:
                await self._follow(address)
            except (OSError, EOFError) as error:
                self._failure.note(address, error)
                if isinstance(error, TimeoutError):
                    self._choice.avoid(address)
            except ProtocolError as error:
                self._failure.note(address, error)
                if error.problem in FINAL_REFUSALS | FOLLOW_REFUSALS:
                    raise
                if error.problem == SESSION_UNKNOWN:
                    self._session = ""
            if not self._choice.has_suggestion:
                await asyncio.sleep(_PAUSE)

    async def _follow(self, address: Address) -> None:
        """Follow the changes over one connection until it ends.

        Raises:
            OSError: the connection is lost.
            ProtocolError: the leader refuses the subscription.
        """
        async with asyncio.timeout(_CONNECT):
            reader, writer = await self._dial(address)
        try:
            client = f"{self._access.client}{_SUFFIX}"
            writer.write(frame(Hello(VERSION, client, self._access.token, self._session, 0)))
            async for message in _messages(reader, writer):
                self._handle(message, writer)
        except asyncio.CancelledError:
            writer.write(frame(Bye()))
            raise
        finally:
            writer.close()

    async def _dial(self, address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if address.path:
            return await asyncio.open_unix_connection(address.path)
        tls = (self._access.tls or ssl.create_default_context()) if address.is_encrypted else None
        with tls_refusals(address):
            return await asyncio.open_connection(address.host, address.port, ssl=tls)

    def _handle(self, message: LeaderMessage, writer: asyncio.StreamWriter) -> None:
        if type(message) is ChangeMessage:
            if message.data:
                self._reader.handle(message)
            else:
                self._reader.begin(message.number)
                self.has_begun.set()
        elif type(message) is DenialMessage:
            self._reader.handle_denials(message)
        elif type(message) is Welcome:
            if message.term < self._term:
                raise ConnectionResetError(f"its term {message.term} is over")
            self._session, self._term = message.session, message.term
            writer.write(frame(Follow(self._reader.change, self._reader.denials)))
        elif type(message) is Moved:
            self._choice.suggest(message.address)
            raise ConnectionResetError(message.reason)
        elif type(message) is Refused:
            raise ProtocolError(message.code, message.reason)


async def _messages(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> AsyncIterator[LeaderMessage]:
    """Yield the messages of the leader.

    Raises:
        OSError: the connection is lost, or the leader does not answer.
    """
    frames = FrameReader(MAX_ANSWERS)
    while True:
        try:
            async with asyncio.timeout(_SILENCE):
                data = await reader.read(_CHUNK)
        except TimeoutError:
            writer.write(_PING)
            async with asyncio.timeout(_PATIENCE):
                data = await reader.read(_CHUNK)
        if not data:
            raise ConnectionResetError("the leader closed the connection")
        for each in frames.feed(data):
            yield decode_leader_message(each)
