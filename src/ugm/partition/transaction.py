"""Transactions: the steps of every change of a partition.

A change of a partition takes six steps. `Transactions.run` and `Transactions.run_release` run them in this order:

1. *Decide.* A function of another module reads the state and decides. It applies its decision to the state at once, and
   lists in the undo list how to undo each step.
2. *Record.* With every step it records an event: the change as a value.
3. *Write.* The events go to the transaction log, if the partition has one: that of a journal or that of a leader. If
   it does not accept them, the change is undone. If the disk fails later, the change stays and is in doubt; step 5
   raises the error.
4. *Finish.* Clearing the undo list makes the change final in memory, and the lock is released.
5. *Wait.* If there is a transaction log, the caller waits until its change is durable, so that it survives a crash.
6. *Notify.* Subscribers get the events.

The state changes before the log is written, because later decisions of the same operation depend on it. No other
thread sees the difference, because the lock is held until the change is final.

A partition without subscribers and without a log records no events, and only steps 1 and 4 remain. The fast path of
`ugm.partition.fast_path` performs them itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, ParamSpec, Protocol, TypeVar, final

from ugm._json_values import JsonObject
from ugm.errors import RequestError
from ugm.operation_lock import CHANGING, OperationLock
from ugm.partition.event_outbox import EventOutbox
from ugm.partition.events import Event

__all__ = ["TransactionLog", "Transactions"]

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")


class TransactionLog(Protocol):
    """The object that makes the changes of a partition durable: for a journal, or for the leader of a service."""

    @property
    def number(self) -> int:
        """The number of the last change."""
        ...

    def require_ready(self) -> None:
        """Check, without the lock, that this process and this thread may change the partition.

        Raises:
            ReentrantCallError: a signal handler or finalizer has interrupted this thread in the middle of a call.
        """
        ...

    def prepare(self, needs_space: bool) -> None:  # noqa: FBT001 - a keyword takes longer
        """Check, under the lock, that a change can be written.

        Args:
            needs_space: whether enough space for later releases must be left.
        """
        ...

    def write(self, events: Sequence[Event]) -> None:
        """Write the events of a change, under the lock."""
        ...

    def is_written(self) -> bool:
        """Return whether `write` has written the current change, although it may not have returned."""
        ...

    def mark_committed(self) -> None:
        """Note, under the lock, that the current change is final."""
        ...

    def wait(self, change: int, event: int) -> bool:
        """Wait, without the lock, until everything up to a change in the log is durable.

        Args:
            change: the number of the change.
            event: the number of the last event until then.

        Returns:
            False if the thread does not wait, because it gets its result later.
        """
        ...

    def release_locks(self) -> None:
        """Release every lock that this thread still holds after an exception."""
        ...


@final
class _NoLog:
    """The log of a partition that only has subscribers."""

    __slots__ = ()

    number = 0

    def require_ready(self) -> None:
        pass

    def prepare(self, needs_space: bool) -> None:  # noqa: FBT001 - as above
        pass

    def write(self, events: Sequence[Event]) -> None:
        pass

    def is_written(self) -> bool:
        return False

    def mark_committed(self) -> None:
        pass

    def wait(self, change: int, event: int) -> bool:  # noqa: ARG002 - as in the protocol
        return True

    def release_locks(self) -> None:
        pass


_NO_LOG: Final = _NoLog()


def _call(call: tuple[Callable[..., T], tuple[Any, ...], JsonObject]) -> T:
    function, args, kwargs = call
    return function(*args, **kwargs)


@final
class Transactions:
    """Runs the changes of one partition, one at a time.

    Args:
        lock: the lock of the partition.
        outbox: receives the events for the subscribers; None if the partition has neither subscribers nor a log.
        log: the durable log, if there is one.
    """

    __slots__ = ("_events", "_forgetting", "_lock", "_log", "_outbox")

    #: The number of the first event of the current change, and its events. Replaced by one assignment.
    _events: tuple[int, list[Event]]

    def __init__(self, lock: OperationLock, outbox: EventOutbox | None, log: TransactionLog | None = None) -> None:
        self._lock: Final = lock
        self._outbox: Final = outbox
        self._log: Final[TransactionLog] = log or _NO_LOG
        self._events = (1, [])
        #: The undo step of the first event of a change.
        self._forgetting: Final = (self._forget_events, ())
        if self.are_recorded:
            lock.commit_point = self

    @property
    def are_recorded(self) -> bool:
        """True if changes are recorded as events."""
        return self._outbox is not None

    # Running a change

    def run(self, decide: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a change that may need space in the log: a grant, a submission, a configuration."""
        if self._outbox is None:
            return self._lock.run(decide, *args, **kwargs)
        return self.run_recorded(_call, (decide, args, kwargs), True)  # noqa: FBT003 - as above

    def run_release(self, decide: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a change that only releases or ends something, which must succeed even if the log has no space left."""
        if self._outbox is None:
            return self._lock.run(decide, *args, **kwargs)
        return self.run_recorded(_call, (decide, args, kwargs), False)  # noqa: FBT003 - as above

    def run_recorded(self, decide: Callable[[A], T], argument: A, needs_space: bool) -> T:  # noqa: FBT001 - as above
        """Run a change with one argument in a partition that records events: the hot path of a leader."""
        log, lock = self._log, self._lock
        # Before the lock: in a forked process, it may be held by a thread that does not exist there.
        # Before the block: its handler must not release the locks of a call that this call has interrupted.
        log.require_ready()
        try:
            try:
                with lock:
                    epoch = lock.valid_epoch
                    lock.valid_epoch = CHANGING
                    answer, change, event = self._execute(epoch, decide, argument, needs_space)
            except BaseException as error:
                lock.release_after_error(error)
                raise
            if log.wait(change, event):
                self._deliver(event)
        except BaseException as error:
            self._end_failed(error)
            raise
        return answer

    def _deliver(self, event: int) -> None:
        outbox = self._outbox
        if outbox is not None and outbox.has_subscribers:
            outbox.deliver(event)

    def _end_failed(self, error: BaseException) -> None:
        log = self._log
        try:
            # A `with` block that was interrupted at its end still holds its lock. The committing thread needs it. The
            # release below is for an interruption of the wait.
            log.release_locks()
            if isinstance(error, RequestError):
                # The caller may rely on the state that the error describes, so that state must be durable, too.
                event = self._events[0] - 1
                if log.wait(log.number, event):
                    self._deliver(event)
        finally:
            log.release_locks()

    def _execute(
        self,
        epoch: object,
        decide: Callable[[A], T],
        argument: A,
        needs_space: bool,  # noqa: FBT001 - a keyword takes longer
    ) -> tuple[T, int, int]:
        """Decide, record, write and finish. Return the answer, and the numbers of the last change and event."""
        lock, log = self._lock, self._log
        if epoch is not lock.epoch:
            lock.recover()
        try:
            log.prepare(needs_space)
            if lock.begin is not None:
                lock.begin(changes=True)
            answer = decide(argument)
            log.write(self._events[1])
        except BaseException as error:
            lock.abort(error)
            raise
        lock.undo.clear()
        self.publish()
        if not lock.needs_rebuild:
            lock.valid_epoch = lock.epoch
        return answer, log.number, self._events[0] - 1

    # Recording

    def record(self, event: Event) -> None:
        """Record an event of the current change."""
        events = self._events[1]
        if not events:
            self._lock.undo.append(self._forgetting)
        events.append(event)

    def mark(self) -> int:
        """Return the place behind the events of the current change."""
        return len(self._events[1])

    def retract(self, mark: int, kept: type[Event]) -> None:
        """Forget the events behind a mark, except those of one class, because their effects were undone."""
        events = self._events[1]
        events[mark:] = [event for event in events[mark:] if type(event) is kept]

    def _forget_events(self) -> None:
        self._events = (self._events[0], [])

    # After a change has become final, even if it was interrupted

    def is_written(self) -> bool:
        """Return whether the log has the current change."""
        return self._log.is_written()

    def publish(self) -> None:
        """Pass the events of the current change on to the outbox, once the change is final; under the lock."""
        self._log.mark_committed()
        first, events = self._events
        if not events:
            return
        if self._outbox is not None and self._outbox.has_subscribers:
            # If an interruption arrives after this line, the same batch is added again.
            self._outbox.add(first, tuple(events))
        self._events = (first + len(events), [])
