"""The lock of an engine: one operation at a time, and recovery after an interrupted one.

An exception from outside (Ctrl-C, an alarm, exhausted memory) can arrive between any two instructions. The state must
then be that before or after the operation, and the lock must be free. Three rules make every operation safe:

1. *Every fact that changes is listed first* in `EngineLock.changes`, with its old value. The operation is final when
   the list is emptied. Until then, `revert` puts the old values back.
2. *Everything else follows from the facts.* While an operation runs, `EngineLock.valid_epoch` is `CHANGING`. If the
   next operation finds this value, the one before was interrupted. It reverts the listed changes, rebuilds all
   counters, and only then decides. Misuse that an operation finds before it has changed anything needs no rebuild.
3. *The lock is always released.* An exception between the last instruction of a ``with`` block and the release of the
   lock skips the release, so a handler outside of the block releases it.

A rebuild takes time in proportion to the number of allocations, and happens only after an interruption or an unexpected
error.
"""

from __future__ import annotations

from _thread import RLock
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from ugm.errors import ReentrantCallError, UgmError

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")

#: The value of `EngineLock.valid_epoch` while an operation runs, and after one that was interrupted.
CHANGING: Final[Any] = None


def _depth_in_text(lock: RLock) -> int:
    """Return how often the thread that holds *lock* has taken it, for releases of Python without a method for it."""
    return int(repr(lock).partition(" count=")[2].split(maxsplit=1)[0])


class OwnedLock(RLock):  # type: ignore[misc, unused-ignore] # it can be subclassed, although the stubs forbid it
    """A lock that can be released safely after an exception, even if a ``with`` block has already released it."""

    __slots__ = ()

    def hold(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function while the lock is held. An interruption leaves the lock as it was, free or held."""
        depth = self.own_depth()
        try:
            with self:
                return work(*args, **kwargs)
        except BaseException:
            self.release_to(depth)
            raise

    def release_to(self, depth: int) -> None:
        """Release the lock until this thread has taken it *depth* times."""
        while self.own_depth() > depth:
            self.release()

    def own_depth(self) -> int:
        """Return how often this thread has taken the lock; 0 if another thread holds it."""
        return self.depth() if self.is_owned() else 0

    #: Returns whether this thread holds the lock. `threading.Condition` calls the same method.
    is_owned: Callable[[], bool] = RLock._is_owned  # type: ignore[attr-defined, unused-ignore]  # noqa: SLF001

    #: Returns how often this thread has taken the lock. A count of our own could be wrong after an interruption.
    depth: Callable[..., int] = getattr(RLock, "_recursion_count", _depth_in_text)


def call_function(call: tuple[Callable[..., T], tuple[Any, ...], dict[str, Any]]) -> T:
    """Call a function with its positional and named arguments."""
    function, args, kwargs = call
    return function(*args, **kwargs)


class EngineLock(OwnedLock):  # type: ignore[misc, unused-ignore]
    """A lock that detects interrupted operations.

    Attributes:
        epoch: a new object whenever the limits in force change; set by the engine.
        valid_epoch: the epoch whose counters are correct: `epoch` between operations, `CHANGING` during an operation
            and after an interrupted one.
        changes: what the current operation has changed, in its order. Replaced by an empty list when it is final.
        unsettled: whether counters differ from the facts, so that everything must be rebuilt before the next operation.
        begin: called before each operation, under the lock, with the argument ``changes``: whether the operation is a
            change whose time the log has read. None if the engine needs nothing.
        follow: called with the changes of an operation just before it becomes final; None without a follower.
        commit: makes an operation with changes final, by calling `finish`; None if nothing else has to be done.
        revert: puts back the `changes`, unless the operation is final; set by the engine.
        rebuild: recomputes everything that follows from the facts; set by the engine.
    """

    __slots__ = ("begin", "changes", "commit", "epoch", "follow", "rebuild", "revert", "unsettled", "valid_epoch")

    epoch: object
    #: Compared by identity with epochs of the type that the engine uses.
    valid_epoch: Any
    changes: list[Any]
    unsettled: bool
    begin: Callable[..., None] | None
    follow: Callable[[list[Any]], None] | None
    commit: Callable[[], None] | None
    revert: Callable[[], None]
    rebuild: Callable[[], None]

    def __init__(self) -> None:
        self.epoch = self.valid_epoch = object()
        self.changes = []
        self.unsettled = False
        self.begin = None
        self.follow = None
        self.commit = None
        self.revert = self.finish
        self.rebuild = _rebuild_nothing

    def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation under the lock and return its result.

        Raises:
            ReentrantCallError: this thread is in the middle of another operation under the same lock.
        """
        return self.call(call_function, (work, args, kwargs))

    def call(self, work: Callable[[A], T], argument: A, /) -> T:
        """Run an operation with one argument under the lock, like `run`."""
        # Outside of the block, whose handler releases the lock: the interrupted operation of this thread keeps it.
        if self.is_owned():
            raise ReentrantCallError
        try:
            with self:
                epoch, self.valid_epoch = self.valid_epoch, CHANGING
                return self.run_locked(epoch, None if self.begin is None else self.begin_query, work, argument)
        except BaseException:
            self.release_to(0)
            raise

    def run_locked(self, epoch: object, begin: Callable[[], None] | None, work: Callable[[A], T], argument: A, /) -> T:
        """Run an operation under the lock that is held. It first recovers if *epoch* is not the current one."""
        if epoch is not self.epoch:
            self.recover()
        try:
            if begin is not None:
                begin()
            result = work(argument)
            if self.changes:
                if self.follow is not None:
                    self.follow(self.changes)
                if self.commit is None:
                    self.changes = []
                else:
                    self.commit()
        except BaseException as error:
            self.abort(error)
            raise
        if not self.unsettled:
            self.valid_epoch = self.epoch
        return result

    def begin_query(self) -> None:
        """Prepare for an operation that is no change, or whose time no log has read."""
        if self.begin is not None:
            self.begin(changes=False)

    def finish(self) -> None:
        """Make the operation final."""
        self.changes = []

    def abort(self, error: BaseException) -> None:
        """End an operation that has raised *error*, and put back its changes."""
        # A handler that has called the engine in the middle of this operation has got a `ReentrantCallError`.
        is_own = isinstance(error, UgmError) and not isinstance(error, ReentrantCallError)
        if self.changes or self.unsettled or not is_own:
            if not isinstance(error, Exception):
                # The next operation recovers.
                return
            self.recover()
        self.valid_epoch = self.epoch

    def recover(self) -> None:
        """Put back the changes of an operation that is not final, and rebuild what follows from the facts."""
        self.revert()
        self.rebuild()
        self.unsettled = False

    def mark_consistent(self) -> None:
        """Accept the current state as consistent, because the engine has just been built outside of an operation."""
        self.changes = []
        self.valid_epoch = self.epoch


def _rebuild_nothing() -> None:
    """Do nothing, because the engine is not complete yet."""


class ReadLocked(Protocol):
    """A function that runs a query under the lock of some objects, and returns its result."""

    def __call__(self, query: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the query."""


class _Locked(Protocol):
    """An object whose operations exclude one another."""

    @property
    def _lock(self) -> EngineLock: ...


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
    """Run a method under the lock of its object, for objects whose changes recover in their own way."""

    @wraps(method)
    def guarded(self: OwnerT, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._lock.hold(method, self, *args, **kwargs)

    return guarded


ClassT = TypeVar("ClassT", bound=type[Any])


def all_locked(owner: ClassT) -> ClassT:
    """Let every public method of a class hold the lock of its object, as `locked` does."""
    for name, method in list(vars(owner).items()):
        if isinstance(method, FunctionType) and not name.startswith("_"):
            setattr(owner, name, locked(method))
    return owner
