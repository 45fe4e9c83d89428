"""Subscriptions to the events of a partition in a service.

The problem: a client needs every event once it is durable, in order, also when another process begins to lead. It may
handle events slowly.

The idea: a subscription has a connection of its own and follows the changes of rows by their numbers. After a reconnect
it continues after the last change that was handled. While the subscriber works, nothing is read, so the service bounds
what waits. The events are computed from the changes, as for the subscribers of a partition in memory.

Every event has a number. It consists of the number of the change and of the position in the change, so it is the same
at every leader.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future
from contextlib import suppress
from threading import TIMEOUT_MAX, Thread, current_thread
from time import monotonic
from typing import Final, Self, final

from ugm.arguments import require_seconds
from ugm.errors import RequestError
from ugm.events import Subscriber
from ugm.partition.events import events_of
from ugm.service.addresses import AddressChoice, LeaderAccess, parse_addresses
from ugm.service.connection import Transport, open_transport
from ugm.service.errors import DeadlineError, ProtocolError, ServiceError, UnavailableError
from ugm.service.wire import (
    OLDEST_VERSION,
    VERSION,
    ChangeMessage,
    Follow,
    Hello,
    Moved,
    Ping,
    Refused,
    ServiceMessage,
    line,
)
from ugm.store.row_tables import decode_changes

__all__ = ["AsyncSubscription", "Subscription"]

_LOGGER: Final = logging.getLogger(__name__)

#: The bound of the number of events in a change, as far as event numbers are concerned.
_EVENTS: Final = 1 << 24
#: Without any message for this long, the leader gets a ping; without one for twice as long, the subscription connects
#: to the next address. The pause between two attempts. Both in seconds.
_SILENCE: Final = 1.0
_PAUSE: Final = 0.05
#: The codes of refusals after which another attempt may succeed.
_PASSING: Final = frozenset({"session-unknown", "too-many-sessions"})
_PING: Final = line(Ping())


@final
class AsyncSubscription:
    """A subscription to the events of a partition, for asyncio; `AsyncConnectedPartition.subscribe` returns it.

    It continues after a reconnect, and when another process leads. As an asynchronous context manager it is closed.

    Args:
        access: the way to the leader.
        subscriber: the function that is called with the events of each operation.
        after: the number of the last event that was handled; None to begin with the next change.

    Raises:
        RequestError: an argument is invalid.
    """

    def __init__(self, access: LeaderAccess, subscriber: Subscriber, after: int | None) -> None:
        if not callable(subscriber):
            raise RequestError("subscriber", subscriber, "expected a callable")
        if after is not None and (type(after) is not int or after < 0):
            raise RequestError("after", after, "expected the number of an event")
        self._access: Final = access
        self._subscriber: Final = subscriber
        self._choice: Final = AddressChoice(parse_addresses(access.addresses))
        #: All events up to this number were handled; ``subscribe`` continues after it.
        self.number: int = after or 0
        #: The number of the last change that was handled; -1 to begin with the next one.
        self._change = -1 if after is None else max(0, (after + 1) // _EVENTS - 1)
        self._transport: Transport | None = None
        self._begun: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        self._lost: Final = asyncio.Event()
        self._failure: BaseException | None = None
        self._reason = "it does not answer"
        self._task: Final = asyncio.create_task(self._follow())

    @classmethod
    async def begin(cls, access: LeaderAccess, subscriber: Subscriber, after: int | None) -> Self:
        """Subscribe, and return when the leader has accepted it.

        Raises:
            DeadlineError: no leader accepts it within the deadline.
            ProtocolError: it is refused.
        """
        made = cls(access, subscriber, after)
        await asyncio.wait((made._begun, made._task), timeout=access.deadline, return_when=asyncio.FIRST_COMPLETED)
        if made._task.done():
            made._task.result()
        if not made._begun.done():
            await made.close()
            raise DeadlineError(made._choice.names, made._reason)
        return made

    async def wait(self) -> None:
        """Wait until the subscription ends; see `Subscription.wait`."""
        await asyncio.wait((self._task,))
        if not self._task.cancelled():
            self._task.result()

    async def close(self) -> None:
        """End the subscription."""
        self._task.cancel()
        await asyncio.wait((self._task,))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _follow(self) -> None:
        """Follow the changes until an error ends the subscription."""
        while True:
            address = self._choice.next()
            try:
                self._lost.clear()
                self._transport = await open_transport(address, self._access.tls, self._receive, self._lost.set)
                name = f"{self._access.client} (events)"[-256:]
                hello = Hello(OLDEST_VERSION, VERSION, name, self._access.token, is_reader=True)
                self._transport.write(line(hello) + line(Follow(self._change)))
                await self._watch(self._transport)
            except (OSError, TimeoutError) as error:
                self._reason = str(error) or "it does not answer"
            finally:
                if self._transport is not None:
                    self._transport.abort()
            if self._failure is not None:
                raise self._failure
            if not self._choice.has_suggestion:
                await asyncio.sleep(_PAUSE)

    async def _watch(self, transport: Transport) -> None:
        """Wait until the connection is lost, or its process does not answer."""
        while not self._lost.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._lost.wait(), _SILENCE / 2)
            silence = monotonic() - transport.heard_at
            if silence > 2 * _SILENCE:
                return
            if silence > _SILENCE / 2:
                transport.write(_PING)

    def _receive(self, messages: list[ServiceMessage]) -> None:
        for message in messages:
            if self._lost.is_set():
                return
            if isinstance(message, ChangeMessage):
                try:
                    self._handle(message)
                except ProtocolError as error:
                    self._end(error)
                except BaseException as error:
                    self._end(error)
                    raise
            elif isinstance(message, Moved):
                self._choice.suggest(message.address)
                self._lost.set()
            elif isinstance(message, Refused):
                self._reason = message.reason
                if message.code in _PASSING:
                    self._lost.set()
                else:
                    self._end(ProtocolError(message.code, message.reason))

    def _end(self, error: BaseException) -> None:
        self._failure = error
        self._lost.set()

    def _handle(self, message: ChangeMessage) -> None:
        """Pass the events of a change to the subscriber."""
        if not self._begun.done():
            self._begun.set_result(None)
        try:
            events = events_of(decode_changes(bytes(message.changes)))
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise ProtocolError("malformed", f"a change cannot be decoded: {error}") from error
        first = (message.number + 1) * _EVENTS - len(events)
        if events and first + len(events) - 1 > self.number:
            try:
                self._subscriber(first, events)
            except Exception:
                _LOGGER.exception("a subscriber failed on %d events from number %d on", len(events), first)
            self.number = first + len(events) - 1
        self._change = message.number


@final
class Subscription:
    """A subscription to the events of a partition; `ConnectedPartition.subscribe` returns it.

    A thread of its own calls the subscriber with the events of one operation at a time, in order, once they are
    durable. The subscription continues after a reconnect, and when another process leads. It ends when `close` is
    called, when events are missing because old changes were deleted meanwhile, or when an exception such as
    `SystemExit` ends its thread; `wait` raises an error then. As a context manager it is closed at the end.

    Args:
        access: the way to the leader.
        subscriber: the function that is called with the events of each operation.
        after: the number of the last event that was handled; None to begin with the next change.

    Raises:
        RequestError: an argument is invalid.
        DeadlineError: no leader accepts the subscription within the deadline.
        UnavailableError: the system has no thread for it.
        ProtocolError: it is refused, for example because the events after a number are not available any more.
    """

    _loop: asyncio.AbstractEventLoop
    _subscription: AsyncSubscription

    def __init__(self, access: LeaderAccess, subscriber: Subscriber, after: int | None) -> None:
        self._names: Final = tuple(map(str, parse_addresses(access.addresses)))
        self._ended: Final[Future[None]] = Future()
        begun: Future[None] = Future()
        arguments = (access, subscriber, after, begun)
        self._thread: Final = Thread(target=self._run, args=arguments, name="ugm-subscription", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            raise UnavailableError(self._names, f"a subscription has no thread: {error}") from error
        begun.result()

    def _run(self, access: LeaderAccess, subscriber: Subscriber, after: int | None, begun: Future[None]) -> None:
        async def follow() -> None:
            self._loop = asyncio.get_running_loop()
            self._subscription = await AsyncSubscription.begin(access, subscriber, after)
            begun.set_result(None)
            await self._subscription.wait()

        failure: BaseException | None = None
        try:
            asyncio.run(follow())
        except (ServiceError, RequestError) as error:
            failure = error
        except BaseException as error:  # noqa: BLE001 - delivered
            failure = UnavailableError(self._names, f"the thread of a subscription failed: {error!r}")
            failure.__cause__ = error
        waiting = self._ended if begun.done() else begun
        if failure is None:
            self._ended.set_result(None)
        else:
            if waiting is self._ended:
                _LOGGER.error("a subscription has ended: %s", failure)
            waiting.set_exception(failure)

    @property
    def number(self) -> int:
        """All events up to this number were handled; ``subscribe`` continues after it."""
        return self._subscription.number

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the subscription ends, or for some seconds, and return whether it has ended.

        Raises:
            RequestError: *timeout* is not a number of seconds.
            ProtocolError: it has ended because the leader refuses it, for example because events are missing.
            UnavailableError: it has ended because its thread has failed, for example in the subscriber.
        """
        try:
            self._ended.result(None if timeout is None else min(require_seconds("timeout", timeout), TIMEOUT_MAX))
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """End the subscription. No call of the subscriber is in progress then, unless it is the caller."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._subscription._task.cancel)  # noqa: SLF001 - of this module
        if self._thread is not current_thread():
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
