"""Who is answered when: what takes long goes to threads, one at a time, and what is asked twice is answered once.

The interpreter runs one thread at a time. So a second thread that writes JSON would not make the server faster, but
would take more from the program that schedules. Requests for the same that wait for their turn share one answer, which
is made after the last of them has come in: nobody is told anything that was true only before the question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar, final

from ugm.server.errors import ApiError

__all__ = ["RequestCoalescer"]

_T = TypeVar("_T")


@final
class RequestCoalescer(Generic[_T]):
    """The requests that wait for a thread.

    Args:
        most: how many may wait, those that share an answer counted once.
    """

    __slots__ = ("_most", "_running", "_turn", "_waiting")

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._turn: Final = asyncio.Semaphore(1)
        #: What is asked for, to the answer that will be made.
        self._waiting: Final[dict[Hashable, asyncio.Task[_T]]] = {}
        #: Those that are being made; a task that nobody refers to may vanish.
        self._running: Final[set[asyncio.Task[_T]]] = set()

    @property
    def is_full(self) -> bool:
        """Whether no more may wait."""
        return len(self._waiting) >= self._most

    async def take(
        self, key: Hashable, make: Callable[[], _T], is_gone: Callable[[], Awaitable[bool]] | None = None
    ) -> _T:
        """Return what *make* returns, called in a thread when it is its turn.

        Args:
            key: what is asked for.
            make: what answers it.
            is_gone: whether the client has gone away, so that nobody needs the answer; None if others may need it.

        Raises:
            ApiError: too many wait, or the client has gone.
        """
        task = self._waiting.get(key)
        if task is None:
            if self.is_full:
                raise ApiError(503, "busy", "too many requests are waiting")
            task = self._waiting[key] = asyncio.create_task(self._make(key, make, is_gone))
            self._running.add(task)
            task.add_done_callback(self._done)
        # One client that goes away takes nothing from the others.
        return await asyncio.shield(task)

    async def _make(self, key: Hashable, make: Callable[[], _T], is_gone: Callable[[], Awaitable[bool]] | None) -> _T:
        async with self._turn:
            # Whoever asks from now on is given a newer answer.
            del self._waiting[key]
            if is_gone is not None and await is_gone():
                raise ApiError(400, "client-gone", "the client has gone away")
            return await asyncio.to_thread(make)

    def _done(self, task: asyncio.Task[_T]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            # Looked at, so that it is not reported as lost where everybody has gone away.
            task.exception()
