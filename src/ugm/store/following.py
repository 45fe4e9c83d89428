"""A partition that follows a store, which another process may be writing.

It answers queries about the state after the last change that it has read. `FollowingPartition.refresh` reads the
changes since then, without a replay of the history.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final, Literal, Self, final

from ugm.arguments import require_group_limits
from ugm.engine_lock import EngineLock
from ugm.events import Subscriber
from ugm.partition import Partition
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.row_follower import RowFollower
from ugm.partition.engine.transaction import Clock, EventOutbox
from ugm.partition.events import events_of
from ugm.store.errors import StoreError
from ugm.store.partition import restored_parts
from ugm.store.reader import StoreLocation, StoreReader, Transaction

__all__ = ["FollowingPartition", "read_partition"]


def read_partition(
    location: StoreLocation,
    *,
    subscribers: Iterable[Subscriber] = (),
    group_limits: Literal["always", "unless-user-limited"] = "always",
    clock: Clock = time.time,
) -> FollowingPartition:
    """Return a partition with the state of a store, which another process may be writing.

    Models that the program of the other process has added are not known here.

    Args:
        location: as for `ugm.store.open_partition`.
        subscribers: as for `ugm.Partition`. They receive the events of the changes that `FollowingPartition.refresh`
            reads; denials are not stored.
        group_limits: as for `ugm.Partition`.
        clock: a function that returns the seconds since 1970; fractions are allowed.

    Raises:
        RequestError: an argument is invalid.
        StoreDamagedError: the store is damaged.
        StoreError: there is no store, or it cannot be read.
    """
    outbox = EventOutbox(subscribers)
    return FollowingPartition(location, outbox, clock, user_limits_win=require_group_limits(group_limits))


@final
class _ReadOnlyLog:
    """The log of a partition that is never changed; a `ugm.partition.engine.transaction.TransactionLog`."""

    __slots__ = ("_location",)

    number: Final = 0

    def __init__(self, location: StoreLocation) -> None:
        self._location: Final = location

    def require_ready(self) -> None:
        """Refuse a change.

        Raises:
            StoreError: always.
        """
        raise StoreError(str(self._location), "this partition follows a store and cannot be changed")

    def prepare(self) -> None:
        """Never called."""

    def write(self, changes: Sequence[object]) -> None:
        """Never called."""

    def is_written(self) -> bool:
        """Return that nothing is written."""
        return False

    def mark_committed(self) -> None:
        """Do nothing."""

    def wait(self, change: int, event: int) -> bool:  # noqa: ARG002 - as in the protocol
        """Return that nothing has to be waited for."""
        return True

    def release_locks(self) -> None:
        """Do nothing, because there are none."""


@final
class FollowingPartition(Partition):
    """A partition that follows a store; `read_partition` creates it.

    Every change raises `StoreError`. As a context manager it closes its connection.
    """

    __slots__ = ("_change_clock", "_clock", "_follower", "_outbox", "_reader", "_user_limits_win", "at", "number")

    #: The number of the last change that is known, and its instant in milliseconds since 1970.
    number: int
    at: int
    #: None if an error has left the state incomplete, so that it has to be read again.
    _follower: RowFollower | None

    def __init__(self, location: StoreLocation, outbox: EventOutbox, clock: Clock, *, user_limits_win: bool) -> None:
        self._reader: Final = StoreReader(location)
        self._outbox: Final = outbox
        self._clock: Final = clock
        self._user_limits_win: Final = user_limits_win
        try:
            self._load(location)
        except BaseException:
            self._reader.close()
            raise

    def _load(self, location: StoreLocation) -> None:
        """Read everything."""
        lock = EngineLock()
        models, loaded = ModelSet((), lock), self._reader.load()
        state, self._change_clock = restored_parts(loaded, models, lock, user_limits_win=self._user_limits_win)
        self._assemble(state, models, self._outbox, _ReadOnlyLog(location))
        self._restore_limits(loaded.at // 1000)
        self._change_clock.clock = self._clock
        self.number, self.at = loaded.number, loaded.at
        self._follower = RowFollower(state, models, self._rebuild_at_once, is_counted=True)
        lock.mark_consistent()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()

    @property
    def has_added_models(self) -> bool:
        """True if the program of the leader has models that are not known here."""
        return bool(self._state.row.added_models)

    def refresh(self) -> int:
        """Read the changes since the last call, and return the number of the last one.

        If so much has changed that old changes are deleted already, everything is read again. Subscribers then miss the
        events in between.

        Raises:
            StoreError: the store cannot be read; a later call may succeed.
        """
        while True:
            follower = self._follower
            found = None if follower is None else self._reader.changes(self.number)
            if follower is None or found is None:
                self._load(self._reader.location)
                return self.number
            if not found:
                return self.number
            # Models get the time of each change, and not the present one.
            self._change_clock.clock = None
            try:
                self._lock.run(self._apply, found, follower)
            finally:
                self._change_clock.clock = self._clock
            self._outbox.deliver(self._outbox.last_event)

    def _apply(self, transactions: Sequence[Transaction], follower: RowFollower) -> None:
        self._follower = None
        for transaction in transactions:
            self._change_clock.repeat(transaction.at)
            follower.apply(transaction.changes)
            events = events_of(transaction.changes)
            if events and self._outbox.has_subscribers:
                self._outbox.add(events, transaction.changes)
            self.number, self.at = transaction.number, transaction.at
        follower.catch_up()
        self._follower = follower

    def _rebuild_at_once(self) -> None:
        """Make everything again that follows from the rows, with the limits of the present time."""
        self._state.rebuild()
        self._restore_limits(self.at // 1000)
        self._follow_config()
