"""The transaction log of a partition with a store: the link between its operations and the store.

An operation passes its changes to `StoreLog.write` under the lock of the partition. When the store has accepted them,
they are final in memory. After the lock was released, `StoreLog.wait` returns when they are *durable*. If a call is
interrupted in between, its changes are written all the same, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import local
from typing import Final, NamedTuple, final

from ugm.partition.engine.transaction import Clock
from ugm.partition.rows import Change
from ugm.store.row_tables import ROW_TABLES
from ugm.store.store import Store
from ugm.store.usage import stored_time

__all__ = ["ChangeClock", "Position", "StoreLog", "stored_changes"]


def stored_changes(changes: Sequence[object]) -> list[Change]:
    """Return the changes of an operation that a store keeps: those of rows, and those of budgets."""
    return [one for one in changes if type(one) is Change and one.table in ROW_TABLES]


@final
class ChangeClock:
    """The time of the changes of a partition: milliseconds since 1970 that never go back.

    An operation has the time of its change; see `ugm.partition.engine.transaction`.

    Args:
        at: the instant of the last change.
        clock: returns the seconds since 1970, with fractions; None if only `repeat` sets the time.
    """

    __slots__ = ("_of_change", "at", "clock")

    #: The last reading.
    at: int
    #: The reading of the current change; None if there is none yet.
    _of_change: int | None

    def __init__(self, at: int, clock: Clock | None) -> None:
        self.at = at
        self.clock: Clock | None = clock
        self._of_change = None

    def _read(self) -> int:
        if self.clock is not None:
            self.at = max(self.at, stored_time("clock", self.clock()))
        return self.at

    def begin(self) -> None:
        """Begin a change."""
        self._of_change = None

    def second(self) -> int:
        """Return the time now in seconds, for a query."""
        return self._read() // 1000

    def second_of_change(self) -> int:
        """Return the time of the current change in seconds."""
        return self.of_change() // 1000

    def of_change(self) -> int:
        """Return the time of the current change in milliseconds."""
        if self._of_change is None:
            self._of_change = self._read()
        return self._of_change

    def repeat(self, at: int) -> None:
        """Take the time of a change that is repeated."""
        self.at = max(self.at, at)


class Position(NamedTuple):
    """The last change and the last event of an operation that does not wait for the disk."""

    change: int
    event: int


@final
class StoreLog:
    """Writes the changes of a partition to its store; a `ugm.partition.engine.transaction.TransactionLog`.

    Args:
        store: the store.
        clock: the time of the changes.
    """

    __slots__ = ("_before", "_deferred", "clock", "store")

    def __init__(self, store: Store, clock: ChangeClock) -> None:
        self.store: Final = store
        self.clock: Final = clock
        #: The number of the last change before the current operation.
        self._before = store.number
        #: Of each thread: None, or a list with the position of an operation that does not wait.
        self._deferred: Final = local()

    @property
    def number(self) -> int:
        """The number of the last change."""
        return self.store.number

    def require_ready(self) -> None:
        """Check that this process has opened the store, and has not closed it.

        Raises:
            StoreError: it has not.
        """
        self.store.require_owner()

    def prepare(self) -> None:
        """Begin a change."""
        self._before = self.store.number
        self.clock.begin()

    def write(self, changes: Sequence[object]) -> None:
        """Write the changes of an operation.

        Raises:
            RequestError: a value cannot be stored.
            StoreError: earlier changes are in doubt, and cannot be written now either.
        """
        stored = stored_changes(changes)
        if stored:
            self.store.append(stored, self.clock.of_change())

    def is_written(self) -> bool:
        """Return whether the store has accepted the current change."""
        return self.store.number > self._before

    def mark_committed(self) -> None:
        """Note that the current change is final."""
        self._before = self.store.number

    def wait(self, change: int, event: int) -> bool:
        """Wait until a change is durable, unless this thread defers that.

        Raises:
            StoreError: it is in doubt.
        """
        positions: list[Position] | None = getattr(self._deferred, "positions", None)
        if positions is not None:
            positions.append(Position(change, event))
            return False
        self.store.wait(change)
        return True

    def defer(self, positions: list[Position] | None) -> list[Position] | None:
        """Let the operations of this thread add their positions to a list and not wait; None to let them wait.

        Return the list before.
        """
        before: list[Position] | None = getattr(self._deferred, "positions", None)
        self._deferred.positions = positions
        return before

    def release_locks(self) -> None:
        """Release every lock that this thread still holds after an exception."""
        self.store.release_locks()
