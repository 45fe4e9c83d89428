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

import logging
from dataclasses import replace
from threading import TIMEOUT_MAX
from typing import Final, Self, final

from ugm.arguments import require_seconds
from ugm.errors import RequestError
from ugm.events import Subscriber
from ugm.partition.events import events_of
from ugm.service.addresses import LeaderAccess
from ugm.service.connection import LeaderConnection, LoopThread
from ugm.service.errors import ProtocolError
from ugm.service.wire import ChangeMessage, Follow, Link, ServiceMessage, line
from ugm.store.row_tables import decode_changes

__all__ = ["AsyncSubscription", "Subscription"]

_LOGGER: Final = logging.getLogger(__name__)

#: The bound of the number of events in a change, as far as event numbers are concerned.
_EVENTS: Final = 1 << 24


@final
class AsyncSubscription(LeaderConnection):
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
        super().__init__(replace(access, read_only=True))
        self._subscriber: Final = subscriber
        #: All events up to this number were handled; ``subscribe`` continues after it.
        self.number: int = after or 0
        #: The number of the last change that was handled; -1 to begin with the next one.
        self._change = -1 if after is None else max(0, (after + 1) // _EVENTS - 1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _begin(self, link: Link[ServiceMessage]) -> None:
        link.send(line(Follow(self._change)))

    def _awaited_since(self, now: float) -> float:  # noqa: ARG002 - as in the base class
        return 0.0

    def _receive(self, messages: list[ServiceMessage]) -> None:
        for message in messages:
            if self._lost.is_set():
                return
            if not isinstance(message, ChangeMessage):
                self._handle(message)
                continue
            try:
                self._take(message)
            except ProtocolError as error:
                self._fail(error)
            except BaseException as error:
                self._fail(error)
                raise

    def _take(self, message: ChangeMessage) -> None:
        """Pass the events of a change to the subscriber."""
        self._ready.set()
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
class Subscription(LoopThread[AsyncSubscription]):
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

    def __init__(self, access: LeaderAccess, subscriber: Subscriber, after: int | None) -> None:
        super().__init__("ugm-subscription", access, lambda: AsyncSubscription(access, subscriber, after))

    @property
    def number(self) -> int:
        """All events up to this number were handled; ``subscribe`` continues after it."""
        return self._connection.number

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
