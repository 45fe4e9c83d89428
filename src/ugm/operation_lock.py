"""The lock of an engine: one operation at a time, and recovery after an interrupted operation.

The problem: an exception from outside (Ctrl-C, an alarm, a watchdog, exhausted memory or stack) can arrive between any
two instructions. The state must then be the state before or after the operation, and the lock must be free.

The idea: three rules make every operation safe.

1. *One instruction makes an operation final.* A small operation is a single assignment. A larger one first puts the
   inverse of each of its steps into the list `OperationLock.undo`. It is final when this list is cleared.
2. *Counters can be rebuilt.* They follow from the ledger. While an operation runs, `OperationLock.valid_epoch` is
   `CHANGING`. If the next operation finds this value, the one before was interrupted. Then it executes the undo list,
   which is empty if the interrupted operation was final, and rebuilds all counters.
3. *The lock is always released.* A ``with`` block alone does not ensure this: an exception between the last instruction
   of the block and the release of the lock skips the release. So the lock knows its owner, and a handler outside of the
   block releases it if it is still held. No ``try`` statement may stand directly in the block: in CPython no handler
   protects the first instruction of such a statement.

The cost: a rebuild takes time proportional to the size of the ledger. It happens only after an interruption, not after
misuse or a denial. The hot paths of the engines take the lock themselves, and compare `valid_epoch` with the epoch that
they need anyway, so the protection costs them a few instructions. All other operations use `OperationLock.run`.
"""

from __future__ import annotations

from _thread import RLock
from collections.abc import Callable
from contextlib import suppress
from dis import opmap
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeAlias, TypeVar

from ugm.errors import ReentrantCallError, UgmError

__all__ = ["CHANGING", "Begin", "CommitPoint", "OperationLock", "OwnedLock", "Step", "exclusive", "locked"]

P = ParamSpec("P")
T = TypeVar("T")


#: The instruction of a ``raise`` statement.
_RAISE: Final = opmap["RAISE_VARARGS"]


class _Changing:
    """The type of `CHANGING`."""

    __slots__ = ()


#: The value of `OperationLock.valid_epoch` while an operation runs, and after one that was interrupted.
CHANGING: Final = _Changing()


#: A function that undoes a step, with its arguments. It must have the same effect when it is called twice, or read
#: `OperationLock.repeats`.
Step: TypeAlias = tuple[Callable[..., None], tuple[Any, ...]]


def _depth_in_text(lock: RLock) -> int:
    """Return how often the thread that holds *lock* has taken it, for early releases of Python 3.11 and 3.12.

    Their locks have no method for it, and their text no longer changes: ``<... count=2 at 0x...>``.
    """
    return int(repr(lock).partition(" count=")[2].split(maxsplit=1)[0])


class OwnedLock(RLock):  # type: ignore[misc, unused-ignore] # it can be subclassed, although the stubs forbid it
    """A lock that can be released safely after an exception, even if a ``with`` block has already released it."""

    __slots__ = ()

    def release_if_held(self) -> None:
        """Release the lock if this thread still holds it, because the end of a ``with`` block was skipped."""
        try:
            self.release()
        except RuntimeError:
            # The usual case: the block has released it.
            return

    def hold(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function while the lock is held. An interruption leaves the lock as it was, free or held."""
        depth = self.own_depth()
        try:
            with self:
                return work(*args, **kwargs)
        except BaseException:
            while self.own_depth() > depth:
                self.release()
            raise

    def own_depth(self) -> int:
        """Return how often this thread has taken the lock; 0 if another thread holds it."""
        return self.depth() if self.is_owned() else 0

    #: Returns whether this thread holds the lock. `threading.Condition` calls the same method.
    is_owned: Callable[[], bool] = RLock._is_owned  # type: ignore[attr-defined, unused-ignore]  # noqa: SLF001

    #: Returns how often this thread has taken the lock. A count of our own could be wrong after an interruption.
    depth: Callable[..., int] = getattr(RLock, "_recursion_count", _depth_in_text)


class CommitPoint(Protocol):
    """The part of an engine that knows whether a log has the current operation, which must not be undone then."""

    def is_written(self) -> bool:
        """Return whether the current operation has been written."""
        ...

    def publish(self) -> None:
        """Pass the events of the current operation, which is final, on to the subscribers; under the lock."""
        ...


class Begin(Protocol):
    """A function that is called before an operation."""

    def __call__(self, *, changes: bool) -> None:
        """Prepare for an operation.

        Args:
            changes: whether the operation is a change whose time the transaction log has read.
        """
        ...


class OperationLock(OwnedLock):  # type: ignore[misc, unused-ignore]
    """A lock that detects interrupted operations.

    Attributes:
        epoch: a new object whenever the limits in force change; set by the engine.
        valid_epoch: the epoch whose counters are correct: `epoch` between operations, `CHANGING` during an operation
            and after an interrupted one.
        undo: the undo steps of the current operation, in the order of its changes. Clearing the list makes it final.
        repeats: whether the current undo step may have been executed before, in a call that was interrupted.
        needs_rebuild: whether all counters must be rebuilt before the next operation, although this one continues.
        begin: called before each operation, under the lock; set by an engine that needs the time; None if not needed.
        rebuild: recomputes everything that follows from the ledger; set by the engine.
        harmless_error: an exception of foreign code that was raised before anything had changed.
        commit_point: knows whether a log has an interrupted operation; None if only the undo list makes it final.
    """

    __slots__ = (
        "_undoing",
        "begin",
        "commit_point",
        "epoch",
        "harmless_error",
        "needs_rebuild",
        "rebuild",
        "repeats",
        "undo",
        "valid_epoch",
    )

    epoch: object
    #: Compared by identity with epochs of the type that the engine uses.
    valid_epoch: Any
    undo: list[Step]
    repeats: bool
    needs_rebuild: bool
    begin: Begin | None
    rebuild: Callable[[], None]
    harmless_error: BaseException | None
    commit_point: CommitPoint | None

    def __init__(self) -> None:
        self.epoch = self.valid_epoch = object()
        self.undo = []
        self.repeats = self.needs_rebuild = False
        self.begin = None
        self.rebuild = _rebuild_nothing
        self.harmless_error = None
        self.commit_point = None
        self._undoing: Step | None = None

    # Operations

    def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation under the lock and return its result.

        Raises:
            ReentrantCallError: this thread is in the middle of another operation under the same lock.
        """
        try:
            with self:
                epoch, self.valid_epoch = self.valid_epoch, CHANGING
                return self.run_locked(epoch, work, *args, **kwargs)
        except BaseException as error:
            self.release_after_error(error)
            raise

    def run_locked(self, epoch: object, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation under the lock that is held. It first recovers if *epoch* is not the current one."""
        if epoch is not self.epoch:
            self.recover()
        try:
            if self.begin is not None:
                self.begin(changes=False)
            result = work(*args, **kwargs)
        except BaseException as error:
            self.abort(error)
            raise
        self._finish()
        return result

    def _finish(self) -> None:
        """End an operation that has returned. Its changes are not undone from now on."""
        self.undo.clear()
        if not self.needs_rebuild:
            self.valid_epoch = self.epoch

    def abort(self, error: BaseException) -> None:
        """End an operation that has raised *error*, and undo its changes."""
        # Errors of the engine are raised before anything changes. After any other error, counters may be wrong.
        is_clean = not (self.undo or self.needs_rebuild) and (error is self.harmless_error or _is_from_engine(error))
        self.harmless_error = None
        self._undo_unfinished()
        if is_clean:
            self.valid_epoch = self.epoch
        elif isinstance(error, Exception):
            # The next operation would rebuild. Now is better: the program may read a quota model before that.
            with suppress(Exception):
                self._rebuild_all()
                self.valid_epoch = self.epoch

    # Interruptions

    def release_after_error(self, error: BaseException) -> None:
        """Release the lock after an exception if the ``with`` block of the caller may not have released it.

        If a function of ugm raised the exception, the block has ended in the usual way. If the lock is still held then,
        its holder is an operation that a signal handler or finalizer interrupted to make this call.
        """
        traceback = error.__traceback__
        raised_in = traceback and traceback.tb_next
        if raised_in is None or not _is_in_engine(raised_in):
            self.release_if_held()

    def recover(self) -> None:
        """Undo an interrupted operation that is not final, and rebuild what follows from the ledger.

        Raises:
            ReentrantCallError: nothing was interrupted, but this thread is in the middle of another operation.
        """
        if self.depth() > 1:
            raise ReentrantCallError
        self._undo_unfinished()
        self._rebuild_all()

    def _undo_unfinished(self) -> None:
        if self.commit_point is not None and self.commit_point.is_written():
            self.undo.clear()
        self.roll_back()

    def roll_back(self, mark: int = 0) -> None:
        """Undo the steps behind the first *mark*, last first."""
        while len(self.undo) > mark:
            step = self.undo[-1]
            self.repeats, self._undoing = self._undoing is step, step
            function, arguments = step
            function(*arguments)
            self.undo.pop()
        self._undoing = None

    def _rebuild_all(self) -> None:
        self.rebuild()
        self.needs_rebuild = False
        if self.commit_point is not None:
            self.commit_point.publish()

    def mark_consistent(self) -> None:
        """Accept the current state as consistent, because the engine has just been built outside of an operation."""
        self.undo.clear()
        self.valid_epoch = self.epoch


def _is_from_engine(error: BaseException) -> bool:
    """Return whether an error was raised by ugm itself, and not by something else in the middle of an operation.

    A signal handler has a function of its own. An exception that another thread has sent arrives at any instruction.
    """
    if not isinstance(error, UgmError) or isinstance(error, ReentrantCallError):
        return False
    step, last = error.__traceback__, None
    while step is not None:
        if not _is_in_engine(step):
            return False
        step, last = step.tb_next, step
    return last is not None and last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE


def _is_in_engine(step: TracebackType) -> bool:
    return str(step.tb_frame.f_globals.get("__name__")).startswith("ugm.")


def _rebuild_nothing() -> None:
    """Do nothing, because the engine is not complete yet."""


class _Locked(Protocol):
    """An object whose operations exclude one another."""

    @property
    def _lock(self) -> OperationLock: ...


S = TypeVar("S", bound=_Locked)


def exclusive(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Run a method under the lock of its object."""

    @wraps(method)
    def operation(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._lock.run(method, self, *args, **kwargs)

    return operation


class _Owned(Protocol):
    """An object with a lock."""

    _lock: OwnedLock


OwnerT = TypeVar("OwnerT", bound=_Owned)


def locked(method: Callable[Concatenate[OwnerT, P], T]) -> Callable[Concatenate[OwnerT, P], T]:
    """Run a method under the lock of its object, for objects whose changes recover in their own way.

    The lock is free afterwards, even if the method is interrupted. Frequent methods contain such statements themselves.
    """

    @wraps(method)
    def guarded(self: OwnerT, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._lock.hold(method, self, *args, **kwargs)

    return guarded
