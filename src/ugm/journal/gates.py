"""The lock of a partition that has a journal: what happens under it is written before its call returns.

The lock is taken through one of three gates: by those who only read, by those who give back, and by those who let the
books grow. All three guard the same; they differ in what they ask of the journal first, and in what they wait for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Lock, local
from types import TracebackType
from typing import Final, TypeAlias, final

from ugm.journal.errors import JournalError
from ugm.journal.records import written_events
from ugm.journal.writer import Writer
from ugm.partition.events import Event
from ugm.partition.feed import Feed

__all__ = ["Deferral", "Gate", "Recorder"]


#: Events that happened in one go, behind the number of the first.
_Told: TypeAlias = tuple[int, tuple[Event, ...]]


class Deferral:
    """What a thread has noted and does not wait for: how far it goes, and what is to be told then."""

    __slots__ = ("number", "untold")

    number: int
    untold: tuple[_Told, ...]

    def __init__(self) -> None:
        self.number = 0
        self.untold = ()


@final
class Recorder:
    """From the books to the journal, and then to those who follow the partition."""

    __slots__ = ("_deferrals", "_feed", "_is_followed", "_untold", "lock", "writer")

    #: Set before the partition is used.
    writer: Writer
    #: What happened while it was in doubt. Empty if nobody follows: what is kept costs memory, and time to collect it.
    _untold: deque[_Told]

    def __init__(self, feed: Feed) -> None:
        self._feed: Final = feed
        self._is_followed: Final = feed.is_followed
        self.lock: Final = Lock()
        self._deferrals: Final = local()
        self._untold = deque()

    def add(self, event: Event) -> None:
        """Note an event, under the lock."""
        self._feed.add(event)

    def collect(self) -> tuple[int, tuple[Event, ...]]:
        """Hand what has happened over to the journal, under the lock, and return it.

        Raises:
            JournalError: it cannot be said in a journal, such as an amount of thousands of digits.
        """
        first, events = self._feed.take()
        try:
            data = written_events(events)
            if data:
                self.writer.note(data)
        except BaseException as error:
            # Even if somebody has only interrupted this: the books know something now that the journal does not.
            failure = self.writer.give_up(error)
            if isinstance(error, Exception):
                raise failure from error
            raise
        return first, events

    def conclude(self, number: int, first: int, events: tuple[Event, ...]) -> None:
        """Wait until a change is durable and tell of events, or leave both to whoever has deferred it."""
        deferral: Deferral | None = getattr(self._deferrals, "current", None)
        if deferral is not None:
            deferral.number = number
            if events and self._is_followed:
                deferral.untold += ((first, events),)
            return
        try:
            self.writer.acknowledge(number)
        except JournalError:
            if events and self._is_followed:
                self._untold.append((first, events))
            raise
        if events and self._is_followed:
            self._tell(((first, events),))

    def defer(self, deferral: Deferral | None) -> Deferral | None:
        """Let this thread wait for nothing, and collect that instead, or wait with None; return what it did before."""
        before: Deferral | None = getattr(self._deferrals, "current", None)
        self._deferrals.current = deferral
        return before

    def tell(self, deferral: Deferral, failure: JournalError | None) -> None:
        """Tell of all that was deferred, or keep it until what is in doubt is written."""
        if failure is not None:
            self._untold += deferral.untold
        elif self._is_followed:
            self._tell(deferral.untold)

    def _tell(self, untold: Iterable[_Told]) -> None:
        with suppress(IndexError):
            while True:
                self._feed.tell(*self._untold.popleft())
        for first, events in untold:
            self._feed.tell(first, events)


@final
class Gate:
    """One way to take the lock of a partition.

    Args:
        recorder: what happens under the lock goes there.
        require: asked for leave first; what it raises goes to the caller, and nothing has changed.
    """

    __slots__ = ("_recorder", "_require")

    def __init__(self, recorder: Recorder, require: Callable[[], None] | None = None) -> None:
        self._recorder: Final = recorder
        self._require: Final = require

    def __enter__(self) -> None:
        recorder, require = self._recorder, self._require
        if require is None:
            recorder.lock.acquire()
            return
        # Before the lock: in a forked process it may be held by a thread that is not there.
        recorder.writer.require_owner()
        recorder.lock.acquire()
        try:
            require()
        except BaseException:
            recorder.lock.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        recorder = self._recorder
        if self._require is None:
            recorder.lock.release()
            return
        try:
            first, events = recorder.collect()
            number = recorder.writer.number
            if not recorder.writer.is_shared:
                # Before anybody else can see it. Should that fail, it is told below.
                with suppress(JournalError):
                    recorder.writer.acknowledge(number)
        finally:
            recorder.lock.release()
        # Whoever is told that there was nothing to do has to rely on what was done before.
        recorder.conclude(number, first, events)
