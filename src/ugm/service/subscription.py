"""Subscriptions to the events of a partition, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from threading import TIMEOUT_MAX, Thread, current_thread
from types import TracebackType
from typing import Final, Self, final

from ugm._daemon_pool import DaemonPool
from ugm.arguments import require_seconds
from ugm.service.addresses import LeaderAccess, parse_addresses
from ugm.service.errors import ServiceError, UnavailableError
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
    called, when events are missing because the log was compacted meanwhile or is damaged, or when an exception such as
    `SystemExit` ends its thread; `wait` raises an error then. As a context manager it is closed at the end.

    Args:
        access: the way to the leader.
        reader: the subscriber, and the events that it has handled.

    Raises:
        DeadlineError: no leader accepts the subscription within the deadline.
        UnavailableError: the system has no thread or no file descriptor for it.
        ProtocolError: it is refused, for example because the events after a number are not available any more.
    """

    __slots__ = ("_ended", "_loop", "_names", "_reader", "_task", "_thread")

    _loop: asyncio.AbstractEventLoop
    _task: asyncio.Task[None]

    def __init__(self, access: LeaderAccess, reader: EventReader) -> None:
        self._reader: Final = reader
        self._names: Final = tuple(map(str, parse_addresses(access.addresses)))
        #: Complete when the subscription has ended.
        self._ended: Final[Future[None]] = Future()
        begun: Future[None] = Future()
        self._thread: Final = Thread(target=self._work, args=(access, begun), name="ugm subscription", daemon=True)
        try:
            self._start_thread()
            begun.result()
        except BaseException:
            # A thread that has not begun ends when it finds this, and one that has is ended here.
            if not begun.cancel() and begun.exception() is None:
                self._cancel()
            raise

    def _start_thread(self) -> None:
        try:
            self._thread.start()
        except RuntimeError as error:
            raise UnavailableError(self._names, f"a subscription has no thread: {error}") from error

    def _work(self, access: LeaderAccess, begun: Future[None]) -> None:
        """Follow the events, and report the end and its reason to the threads that wait for it."""
        try:
            self._run(access, begun)
        finally:
            ended = UnavailableError(self._names, "the thread of a subscription has ended")
            for waiting in (begun, self._ended):
                if not waiting.done():
                    waiting.set_exception(ended)

    def _run(self, access: LeaderAccess, begun: Future[None]) -> None:
        failure: ServiceError | None = None
        try:
            with asyncio.Runner() as runner:
                runner.get_loop().set_default_executor(DaemonPool("ugm subscription"))
                runner.run(self._follow(access, begun))
        except InvalidStateError:
            # The call that subscribes was interrupted.
            return
        except ServiceError as error:
            failure = error
        except BaseException as error:  # noqa: BLE001 - it is delivered
            failure = UnavailableError(self._names, f"the thread of a subscription failed: {error!r}")
            failure.__cause__ = error
        self._deliver(failure, self._ended if begun.done() else begun)

    def _deliver(self, failure: ServiceError | None, waiting: Future[None]) -> None:
        if failure is None:
            waiting.set_result(None)
            return
        if waiting is self._ended:
            _LOGGER.error("a subscription has ended: %s", failure)
        waiting.set_exception(failure)

    async def _follow(self, access: LeaderAccess, begun: Future[None]) -> None:
        """Follow the events until the subscription is closed.

        Raises:
            ServiceError: it cannot begin, or it has ended.
            InvalidStateError: the call that subscribes does not wait any more.
        """
        self._loop, self._task = asyncio.get_running_loop(), await EventStream(access, self._reader).begin()
        begun.set_result(None)
        await asyncio.wait((self._task,))
        if not self._task.cancelled():
            self._task.result()

    @property
    def number(self) -> int:
        """All events up to this number were handled; ``subscribe`` continues after it."""
        return self._reader.number

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
        self._cancel()
        if self._thread is not current_thread():
            self._thread.join()

    def _cancel(self) -> None:
        # The loop may have ended.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._task.cancel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
