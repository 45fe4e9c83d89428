"""Subscriptions to the events of a partition, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread, current_thread
from types import TracebackType
from typing import Final, Self, final

from ugm.service.addresses import LeaderAccess
from ugm.service.event_stream import EventReader, EventStream

__all__ = ["AsyncSubscription", "Subscription"]

_LOGGER: Final = logging.getLogger(__name__)


@final
class AsyncSubscription:
    """A subscription to the events of a partition in an asyncio loop; see `Subscription`.

    The subscriber is called in the loop. As an asynchronous context manager the subscription is closed at the end.
    """

    __slots__ = ("_reader", "_task")

    def __init__(self, reader: EventReader, task: asyncio.Task[None]) -> None:
        self._reader: Final = reader
        self._task: Final = task

    @classmethod
    async def begin(cls, access: LeaderAccess, reader: EventReader) -> Self:
        """Subscribe, and return when the leader has accepted the subscription."""
        return cls(reader, await EventStream(access, reader).begin())

    @property
    def number(self) -> int:
        """All events up to this number were handled; ``subscribe`` continues after it."""
        return self._reader.number

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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


@final
class Subscription:
    """A subscription to the events of a partition.

    A thread of its own calls the subscriber with the events of one operation at a time, in order, once they are
    durable. The subscription continues after a reconnect, and when another process leads. It ends when `close` is
    called, or when events are missing because the log was compacted meanwhile; `wait` raises that error. As a context
    manager it is closed at the end.

    Args:
        access: the way to the leader.
        reader: the subscriber, and the events that it has handled.

    Raises:
        DeadlineError: no leader accepts the subscription within the deadline.
        ProtocolError: it is refused, for example because the events after a number are not available any more.
    """

    __slots__ = ("_ended", "_loop", "_reader", "_task", "_thread")

    _loop: asyncio.AbstractEventLoop
    _task: asyncio.Task[None]

    def __init__(self, access: LeaderAccess, reader: EventReader) -> None:
        self._reader: Final = reader
        #: Complete when the subscription has ended.
        self._ended: Final[Future[None]] = Future()
        begun: Future[None] = Future()
        self._thread: Final = Thread(target=self._work, args=(access, begun), name="ugm subscription", daemon=True)
        self._thread.start()
        begun.result()

    def _work(self, access: LeaderAccess, begun: Future[None]) -> None:
        asyncio.run(self._follow(access, begun))

    async def _follow(self, access: LeaderAccess, begun: Future[None]) -> None:
        try:
            self._loop, self._task = asyncio.get_running_loop(), await EventStream(access, self._reader).begin()
        except Exception as error:  # noqa: BLE001 - it is delivered
            begun.set_exception(error)
            return
        begun.set_result(None)
        await asyncio.wait((self._task,))
        failure = None if self._task.cancelled() else self._task.exception()
        if failure is None:
            self._ended.set_result(None)
        else:
            _LOGGER.error("a subscription has ended: %s", failure)
            self._ended.set_exception(failure)

    @property
    def number(self) -> int:
        """All events up to this number were handled; ``subscribe`` continues after it."""
        return self._reader.number

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the subscription ends, or for some seconds, and return whether it has ended.

        Raises:
            ProtocolError: it has ended because the leader refuses it, for example because events are missing.
        """
        try:
            self._ended.result(timeout)
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """End the subscription. No call of the subscriber is in progress then, unless it is the caller."""
        # The loop may have ended.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._task.cancel)
        if self._thread is not current_thread():
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
