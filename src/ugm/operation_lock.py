"""The lock of an engine: one operation at a time, and recovery after an operation that was interrupted.

An exception from outside (Ctrl-C, an alarm, a watchdog, no memory, no stack) can arrive between any two instructions.
Three rules make every operation safe against it:

1. *The ledger changes in one step.* Either one assignment is the whole change, or the steps before it are listed in
   `OperationLock.undo`, and emptying that list is the step that commits the change.
2. *Everything else follows from the ledger.* While an operation runs, `OperationLock.settled` is `CHANGING`. An
   operation that finds this value knows that an earlier one was interrupted. It undoes what was not committed and
   rebuilds all counters before it decides anything.
3. *The lock is released whatever happens.* A ``with`` block does not suffice: an exception between the last instruction
   of the block and the call that releases the lock skips that call. So the lock knows its owner, and an outer handler
   releases it if it is still held.
   The handler has to be outside of the block, and no ``try`` statement may stand directly in the block: CPython
   protects the first instruction of such a statement by no handler at all.

A rebuild takes time in the size of the ledger. It happens after an interruption only, not after misuse or a denial.

The hot paths of the engines take the lock themselves and compare `settled` with the epoch that they need anyway, so
that the protection costs them a few instructions. All other operations use `OperationLock.run`.
"""

from __future__ import annotations

import re
from _thread import RLock
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeAlias, TypeVar

from ugm.errors import ReentrantCallError, RequestError, UgmError

__all__ = ["CHANGING", "OperationLock", "Outlet", "OwnedLock", "Step", "exclusive", "giving", "growing"]

P = ParamSpec("P")
T = TypeVar("T")


class _Changing:
    """The type of `CHANGING`."""

    __slots__ = ()


#: The value of `OperationLock.settled` while an operation runs, and after one that was interrupted.
CHANGING: Final = _Changing()


#: A function that undoes a step, with its arguments. It must give the same result when it is called twice, or look at
#: `OperationLock.repeats`.
Step: TypeAlias = tuple[Callable[..., None], tuple[Any, ...]]


class OwnedLock(RLock):  # type: ignore[misc, unused-ignore] # it may be subclassed, whatever the stubs say
    """A lock that can be released after an exception without knowing whether a ``with`` block has done so."""

    __slots__ = ()

    def let_go(self) -> None:
        """Release the lock if this thread still holds it: the release at the end of a ``with`` block was skipped."""
        try:
            self.release()
        except RuntimeError:
            # The usual case: the block has released it.
            return

    def depth(self) -> int:
        """Return how many times the lock was taken by the thread that holds it; 0 if none does."""
        found = re.search(r"count=(\d+)", repr(self))
        return int(found[1]) if found else 1

    #: Returns whether this thread holds the lock. `threading.Condition` calls the same method.
    is_owned: Callable[[], bool] = RLock._is_owned  # type: ignore[attr-defined, unused-ignore]  # noqa: SLF001

    def locked(self) -> bool:
        """Return whether any thread holds the lock."""
        return self.depth() > 0


class Outlet(Protocol):
    """Where the changes of an engine go: to subscribers, to a journal."""

    def require_ready(self) -> None:
        """Make sure that this process may change the engine, and that this thread is not in the middle of a call."""
        ...

    def prepare(self, *, grows: bool) -> None:
        """Make sure, under the lock, that a change can be written; *grows* says that it may need room later."""
        ...

    def write(self) -> object:
        """Write what the current operation has changed, under the lock, and return what `conclude` waits for."""
        ...

    def is_written(self) -> bool:
        """Return whether the current operation has been written: then it must not be undone any more."""
        ...

    def publish(self) -> None:
        """Hand the events of the current operation, which is committed, to the subscribers; under the lock."""
        ...

    def conclude(self, written: object) -> None:
        """Wait until everything that was written is durable, and notify the subscribers; without the lock."""
        ...

    def let_go(self) -> None:
        """Release every lock that this thread still holds after an exception."""
        ...


class OperationLock(OwnedLock):  # type: ignore[misc, unused-ignore]
    """A lock that notices interrupted operations.

    Attributes:
        token: stands for the settled state; another object whenever the limits in force change.
        settled: *token* between operations, `CHANGING` during one and after an interruption.
        undo: the steps of the current operation that have to be undone if it does not commit, in their order.
        repeats: whether the step that is undone now may have been undone before, in a call that was interrupted.
        unsettled: whether everything has to be rebuilt before the next operation, though this one goes on.
        rebuild: recomputes everything that follows from the ledger; set by the engine.
        harmless: an exception of foreign code that came before anything had changed.
        outlet: where changes go; None if nobody follows them.
    """

    __slots__ = ("_undoing", "harmless", "outlet", "rebuild", "repeats", "settled", "token", "undo", "unsettled")

    token: object
    #: Compared by identity with tokens of the type that the engine uses.
    settled: Any
    undo: list[Step]
    repeats: bool
    unsettled: bool
    rebuild: Callable[[], None]
    harmless: BaseException | None
    outlet: Outlet | None

    def __init__(self) -> None:
        self.token = self.settled = object()
        self.undo = []
        self.repeats = self.unsettled = False
        self.rebuild = _nothing
        self.harmless = None
        self.outlet = None
        self._undoing: Step | None = None

    # Operations

    def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation under the lock and return its result.

        Raises:
            ReentrantCallError: this thread is in the middle of another operation under the same lock.
        """
        try:
            with self:
                settled, self.settled = self.settled, CHANGING
                return self.attempt(settled, work, *args, **kwargs)
        except BaseException as error:
            self.let_go_after(error)
            raise

    def attempt(self, settled: object, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation under the lock that is held, after recovery if *settled* is not the settled state."""
        if settled is not self.token:
            self.recover()
        try:
            result = work(*args, **kwargs)
        except BaseException as error:
            self._withdraw(error)
            raise
        self.undo.clear()
        if self.outlet is not None:
            self.outlet.publish()
        if not self.unsettled:
            self.settled = self.token
        return result

    def grow(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation that changes the engine and may need room: a grant, a submission, a configuration."""
        if self.outlet is None:
            return self.run(work, *args, **kwargs)
        return self._change(self.outlet, True, lambda: work(*args, **kwargs))  # noqa: FBT003

    def give(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation that changes the engine and only gives back or ends something."""
        if self.outlet is None:
            return self.run(work, *args, **kwargs)
        return self._change(self.outlet, False, lambda: work(*args, **kwargs))  # noqa: FBT003

    def _change(self, outlet: Outlet, grows: bool, work: Callable[[], T]) -> T:  # noqa: FBT001
        written: object = None
        # Before the lock: in a forked process it may be held by a thread that does not exist there.
        # Before the block: a signal handler must not release what the interrupted call of its thread has locked.
        outlet.require_ready()
        try:
            try:
                result, written = self.run(self._written, outlet, grows, work)
            except RequestError:
                # The caller may rely on what was found, so that has to be durable as well.
                outlet.conclude(written)
                raise
            outlet.conclude(written)
        except BaseException:
            outlet.let_go()
            raise
        return result

    def _written(self, outlet: Outlet, grows: bool, work: Callable[[], T]) -> tuple[T, object]:  # noqa: FBT001
        outlet.prepare(grows=grows)
        result = work()
        return result, outlet.write()

    # Interruptions

    def let_go_after(self, error: BaseException) -> None:
        """Release the lock after an exception, if the ``with`` block of the caller may not have done so.

        An exception that was raised in a function of ugm, called in the block, has left the block in the usual way. If
        the lock is still held then, it is held by an operation that was interrupted by a signal handler or finalizer,
        which made this call.
        """
        traceback = error.__traceback__
        raised_in = traceback and traceback.tb_next
        if raised_in is None or not _is_of_engine(raised_in):
            self.let_go()

    def recover(self) -> None:
        """Undo what an interrupted operation did not commit, and rebuild what follows from the ledger.

        Raises:
            ReentrantCallError: nothing was interrupted, but this thread is in the middle of another operation.
        """
        if self.depth() > 1:
            raise ReentrantCallError
        self._undo_uncommitted()
        self._rebuild_all()

    def _undo_uncommitted(self) -> None:
        if self.outlet is not None and self.outlet.is_written():
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

    def _withdraw(self, error: BaseException) -> None:
        """End an operation that has raised."""
        # Errors of the engine are raised before anything changes. After any other, counters may be off.
        is_clean = not (self.undo or self.unsettled) and (error is self.harmless or _is_from_engine(error))
        self.harmless = None
        self._undo_uncommitted()
        if is_clean:
            self.settled = self.token
        elif isinstance(error, Exception):
            # The next operation would do it. Now is better: the program may look into a quota model before that.
            with suppress(Exception):
                self._rebuild_all()
                self.settled = self.token

    def _rebuild_all(self) -> None:
        self.rebuild()
        self.unsettled = False
        if self.outlet is not None:
            self.outlet.publish()

    def settle(self) -> None:
        """Take everything that was done without an operation for committed: the engine has just been built."""
        self.undo.clear()
        self.settled = self.token


def _is_from_engine(error: BaseException) -> bool:
    """Return whether an error was raised by ugm itself, and not by a signal handler in the middle of an operation."""
    if not isinstance(error, UgmError) or isinstance(error, ReentrantCallError):
        return False
    step = error.__traceback__
    while step is not None:
        if not _is_of_engine(step):
            return False
        step = step.tb_next
    return True


def _is_of_engine(step: TracebackType) -> bool:
    return str(step.tb_frame.f_globals.get("__name__")).startswith("ugm.")


def _nothing() -> None:
    """Rebuild nothing: the engine is not complete yet."""


class _Locked(Protocol):
    """An object whose operations exclude one another."""

    @property
    def _lock(self) -> OperationLock: ...


S = TypeVar("S", bound=_Locked)


def exclusive(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Run a method that only reads under the lock of its object, for the whole of its work."""

    @wraps(method)
    def operation(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._lock.run(method, self, *args, **kwargs)

    return operation


def growing(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Run a method with `OperationLock.grow`."""

    @wraps(method)
    def operation(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._lock.grow(method, self, *args, **kwargs)

    return operation


def giving(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Run a method with `OperationLock.give`."""

    @wraps(method)
    def operation(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._lock.give(method, self, *args, **kwargs)

    return operation
