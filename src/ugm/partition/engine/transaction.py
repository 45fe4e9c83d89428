"""Transactions: the steps of every change of a partition.

1. *Decide.* A function reads the state and decides. It writes rows as it decides, and each change of a row is listed.
2. *Write.* The changes go to the log, if the partition has one: that of a store or that of a leader.
   If the log does not accept them, everything listed is put back.
3. *Finish.* The list is replaced by an empty one, which makes the change final in memory. The lock is released.
4. *Wait.* If there is a log, the caller waits until its change is durable. If the disk fails now, the change stays and
   is in doubt, and the call raises the error.
5. *Notify.* Subscribers get the events.

Later decisions of an operation depend on earlier ones, so rows are written before the log. No other thread sees the
difference, because the lock is held until the change is final.

*The clock.* A call may need the time in several places, and a store stamps the change as well. Different readings
within one call would make its result depend on the speed of the machine, and could not be replayed. So each call has
one reading. If a quota model or a schedule depends on the time, every call reads the clock when it begins. Otherwise
only a call that needs the time reads it, once. A partition with a store takes the reading that stamps the change. A
reading is never earlier than the one before: if the source goes back, the clock stands still until the source has
passed the last reading.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, ParamSpec, Protocol, TypeAlias, TypeVar, final

from ugm.arguments import require_items
from ugm.engine_lock import CHANGING, EngineLock, OwnedLock, call_function
from ugm.errors import ReentrantCallError, RequestError
from ugm.partition.events import Event, Subscriber, events_of

#: Returns the seconds since 1970, for example `time.time`. Fractions are allowed.
Clock: TypeAlias = Callable[[], float]
#: The first and the last second that `datetime` supports, in the years 1 and 9999.
_FIRST: Final = -62_135_596_800
_LAST: Final = 253_402_300_799


def seconds() -> int:
    """Return the time of the system clock, in whole seconds since 1970."""
    return time.time_ns() // 1_000_000_000


def require_time(argument: str, value: object) -> float:
    """Return a time in seconds since 1970 that `datetime` supports, after checking it."""
    # Comparisons with NaN are false.
    if isinstance(value, (int, float)) and not isinstance(value, bool) and _FIRST <= value < _LAST + 1:
        return value
    raise RequestError(argument, value, "expected seconds since 1970, before the year 10000")


class TimeSource(Protocol):
    """The object that stamps the changes of a partition, for example the clock of a store."""

    def second(self) -> int:
        """Return the time now, for a query."""

    def second_of_change(self) -> int:
        """Return the time that stamps the current change."""


@final
class PartitionClock:
    """The time of one partition; used under its lock.

    Args:
        read: returns the seconds since 1970.
    """

    def __init__(self, read: Clock = seconds) -> None:
        if not callable(read):
            raise RequestError("clock", read, "expected a function that returns seconds")
        self._of_query = self._of_change = read
        #: The last reading.
        self.latest: int = _FIRST
        #: Whether every call reads the clock when it begins.
        self.is_read_first: bool = False

    def follow(self, source: TimeSource) -> None:
        """Take the time from the object that stamps the changes."""
        self._of_query, self._of_change = source.second, source.second_of_change

    def now(self, *, changes: bool) -> int:
        """Return the reading of the current call.

        Args:
            changes: whether the call is a change, which a store stamps.

        Raises:
            RequestError: the clock returned an unusable value.
        """
        return self.latest if self.is_read_first else self.read(changes=changes)

    def read(self, *, changes: bool) -> int:
        """Read the clock for the current call, once; see `now`."""
        now = self._of_change() if changes else self._of_query()
        if type(now) is not int:
            now = int(require_time("clock", now) // 1)
        if self.latest <= now <= _LAST:
            self.latest = now
            return now
        require_time("clock", now)
        return self.latest


_LOGGER: Final = logging.getLogger(__name__)
#: The number of the first event, the events of one operation, and the list of its changes.
_Batch: TypeAlias = tuple[int, tuple[Event, ...], object]


@final
class EventOutbox:
    """The batches of events that are not delivered yet, and their subscribers.

    Every event has a number. Each is delivered at least once, in the order of the numbers, by one thread at a time. A
    batch leaves the outbox when all subscribers have returned. If a delivery is interrupted, the next operation
    delivers the same batch again, with the same numbers.

    Args:
        subscribers: the functions that are called with each batch.

    Raises:
        RequestError: the subscribers are not several objects, or one is not callable.
    """

    def __init__(self, subscribers: Iterable[Subscriber]) -> None:
        self._subscribers: Final[tuple[Subscriber, ...]] = require_items("subscribers", subscribers)
        for subscriber in self._subscribers:
            if not callable(subscriber):
                raise RequestError("subscribers", subscriber, "expected a callable")
        self.has_subscribers: Final = bool(self._subscribers)
        self._batches: Final[deque[_Batch]] = deque()
        #: The last batch that was delivered.
        self._delivered: _Batch = (1, (), None)
        #: The number of the last event that was added.
        self.last_event: int = 0
        #: Held by the thread that delivers.
        self._delivery: Final = OwnedLock()
        #: The last event that a subscriber itself has caused; written by the thread that delivers.
        self._due = 0

    def add(self, events: tuple[Event, ...], source: object) -> None:
        """Add the events of an operation, which makes it final; the caller holds the lock.

        Args:
            events: the events.
            source: the list of the changes of the operation.
        """
        first = self.last_event + 1
        self._batches.append((first, events, source))
        self.last_event = first + len(events) - 1

    def has(self, source: object) -> bool:
        """Return whether the events of an operation were added, in a call that may have been interrupted."""
        for first, events, added in (self._delivered, *tuple(self._batches)):
            self.last_event = first + len(events) - 1
            if added is source:
                return True
        return False

    def deliver(self, last: int) -> None:
        """Deliver all batches that begin at most with the event number *last*; without the lock of the partition.

        Events that a subscriber itself causes are delivered after it has returned.
        """
        if not self._batches:
            return
        if self._delivery.is_owned():
            # A subscriber of this thread has called the partition. The delivery in progress continues up to here.
            self._due = max(self._due, last)
            return
        try:
            with self._delivery:
                self._deliver(last)
        except BaseException:
            self._delivery.release_to(0)
            raise

    def _deliver(self, last: int) -> None:
        batches = self._batches
        while batches:
            first, events, _ = batch = batches[0]
            if first > last and first > self._due:
                return
            for subscriber in self._subscribers:
                try:
                    subscriber(first, events)
                except Exception:
                    text = "subscriber %r failed on %d events from number %d on"
                    _LOGGER.exception(text, subscriber, len(events), first)
            self._delivered = batch
            batches.popleft()


P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")


class TransactionLog(Protocol):
    """The object that makes the changes of a partition durable: for a store, or for the leader of a service."""

    @property
    def position(self) -> int:
        """A number that grows whenever `write` has written changes, although it may not have returned."""

    def require_ready(self) -> None:
        """Check, without the lock, that this process and this thread may change the partition.

        Raises:
            ReentrantCallError: a signal handler or finalizer has interrupted this thread in the middle of a call.
        """

    def prepare(self) -> None:
        """Begin a change, under the lock."""

    def write(self, changes: Sequence[object]) -> None:
        """Write the changes of an operation, under the lock."""

    def wait(self, change: int, event: int) -> bool:
        """Wait, without the lock, until everything up to a change in the log is durable.

        Args:
            change: the position of the log after the change.
            event: the number of the last event until then.

        Returns:
            False if the thread does not wait, because it gets its result later.
        """

    def release_locks(self) -> None:
        """Release every lock that this thread still holds after an exception."""


@final
class Transactions:
    """Runs the changes of one partition, one at a time.

    Args:
        lock: the lock of the partition.
        outbox: receives the events for the subscribers; None if the partition has neither subscribers nor a log.
        log: the durable log, if there is one.
        put_back: puts back all rows and calls of models that are listed in the lock.
    """

    def __init__(
        self, lock: EngineLock, outbox: EventOutbox | None, log: TransactionLog | None, put_back: Callable[[], None]
    ) -> None:
        self._lock: Final = lock
        self._outbox: Final = outbox
        self._log: Final = log
        #: The position of the log after the last final change.
        self._position: int = 0 if log is None else log.position
        self._put_back: Final = put_back
        #: Whether events are recorded. The initial state of a partition is not.
        self.is_recording: bool = False
        lock.revert = self._finish_or_put_back

    def start_recording(self) -> None:
        """Record events from now on."""
        self.is_recording = True
        self._lock.commit = self._commit

    # Running a change

    def run(self, decide: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a change, which a function makes under the lock."""
        return self.change(call_function, (decide, args, kwargs))

    def change(self, decide: Callable[[A], T], argument: A) -> T:
        """Run a change with one argument, which a function makes under the lock."""
        lock, log = self._lock, self._log
        prepare: Callable[[], None] | None = None
        if log is not None:
            # Before the lock: in a forked process, it may be held by a thread that does not exist there.
            log.require_ready()
            prepare = self._prepare
        elif lock.begin is not None:
            prepare = self._prepare
        # Outside of the block, whose handler releases the lock: the interrupted operation of this thread keeps it.
        if lock.is_owned():
            raise ReentrantCallError
        try:
            with lock:
                epoch, lock.valid_epoch = lock.valid_epoch, CHANGING
                answer = lock.run_locked(epoch, prepare, decide, argument)
                if self._outbox is None:
                    return answer
                change, event = 0 if log is None else log.position, self._outbox.last_event
            if log is None or log.wait(change, event):
                self._outbox.deliver(event)
        except BaseException as error:
            lock.release_to(0)
            if log is not None:
                self._end_failed(log, error)
            raise
        return answer

    def _prepare(self) -> None:
        """Prepare for a change."""
        if self._log is not None:
            self._position = self._log.position
            self._log.prepare()
        if self._lock.begin is not None:
            self._lock.begin(changes=True)

    def _end_failed(self, log: TransactionLog, error: BaseException) -> None:
        try:
            # The committing thread needs the locks.
            log.release_locks()
            if isinstance(error, RequestError):
                # The caller may rely on the state that the error describes, so that state must be durable, too.
                event = 0 if self._outbox is None else self._outbox.last_event
                if log.wait(log.position, event) and self._outbox is not None:
                    self._outbox.deliver(event)
        finally:
            log.release_locks()

    # Finishing a change, under the lock

    def _commit(self) -> None:
        """Write the changes of an operation to the log, pass them on, and make them final."""
        lock, outbox = self._lock, self._outbox
        events = events_of(lock.changes) if outbox is not None and outbox.has_subscribers else ()
        if self._log is not None:
            self._log.write(lock.changes)
        if events and outbox is not None:
            outbox.add(events, lock.changes)
        lock.changes = []
        if self._log is not None:
            # Last: until the list is replaced, the log tells whether the change is final.
            self._position = self._log.position

    def _finish_or_put_back(self) -> None:
        """End an operation that was interrupted: it is final if the log or the outbox has its changes."""
        changes, outbox, log = self._lock.changes, self._outbox, self._log
        is_added = outbox is not None and self.is_recording and outbox.has(changes)
        if not is_added and not (log is not None and changes and log.position > self._position):
            self._put_back()
            return
        events = events_of(changes)
        if events and outbox is not None and outbox.has_subscribers and not is_added:
            outbox.add(events, changes)
        self._lock.finish()
        if log is not None:
            self._position = log.position
