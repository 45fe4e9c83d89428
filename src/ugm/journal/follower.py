"""Following a log: a second process keeps the state of a partition, and takes over when the leader fails.

The problem: a process that begins to lead has to replay the log. With a million allocations that takes many seconds.

The idea: a `Follower` has replayed the log before, and applies new changes as they come. To take over it becomes the
leader of the log, applies the last changes, and begins to write.

Invariant: the state is that after change `Follower.number`. A process that has lost its leadership adds no changes. So
after the follower has become the leader and applied the last changes, its state is complete.

The cost: the memory of a second partition, and of a third one while the log is loaded again after a compaction. If the
configuration declares budgets or fair shares, the follower keeps them up to date as well, with their claims. To take
over takes as long as applying the last changes, however long the log is. The state is verified when it is loaded, and
not when the process takes over.
"""

from __future__ import annotations

from contextlib import ExitStack
from threading import Event as Flag
from time import monotonic, time
from typing import Final, NamedTuple, final

from ugm.journal.client_sessions import SessionTable
from ugm.journal.contents import (
    DECODING_ERRORS,
    JournalEntry,
    decode_change_row,
    decoding_failure,
    replay,
    replay_entry,
)
from ugm.journal.declared_past import DeclaredPast, have_past
from ugm.journal.errors import JournalDamagedError, JournalError, JournalHeldError
from ugm.journal.locations import LogLocation, log_at
from ugm.journal.log import Candidate, LeaderRecord, LogTail
from ugm.journal.opening import OpenLog, open_restored
from ugm.journal.store_reader import CHANGES_AT_ONCE, StoredChange
from ugm.operation_lock import OperationLock
from ugm.partition.clock import Clock
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.events import ConfigurationChanged
from ugm.partition.self_check import verify
from ugm.partition.state import PartitionState

__all__ = ["Follower", "Lag"]

#: The pause between two reads of the log, in seconds.
_PAUSE: Final = 0.02


class Lag(NamedTuple):
    """The distance between a follower and the log."""

    #: The number of changes in the log that the follower has not applied.
    changes: int
    #: The seconds since the follower had applied all changes of the log.
    seconds: float


@final
class Follower:
    """Keeps the state of a log that another process writes.

    One thread at a time calls `poll`, `follow`, `lead` and `close`. Other threads read `state` under `lock`.

    Args:
        location: the log.
        user_limits_win: whether a user with a limit of its own is exempt from group limits.

    Raises:
        JournalDamagedError: the log is damaged.
        JournalError: the log cannot be read.
        InvariantError: the state is inconsistent; that is a bug in ugm.
    """

    __slots__ = (
        "_is_changing",
        "_log",
        "_past",
        "_tail",
        "_user_limits_win",
        "at",
        "complete_at",
        "lock",
        "number",
        "sessions",
        "state",
    )

    #: The state after change `number`, and its lock. Both are replaced after the log had to be loaded again. Readers of
    #: the old state can go on.
    state: PartitionState
    lock: OperationLock
    sessions: SessionTable
    #: The number and the instant of the last change that was applied.
    number: int
    at: int
    #: Whether the state and the number may be those of different changes, because an exception has interrupted a call.
    #: The log is loaded again then.
    _is_changing: bool
    #: The declared models that depend on the past; None if there are none.
    _past: DeclaredPast | None
    #: The state has all changes that were acknowledged before this time of the monotonic clock.
    complete_at: float

    def __init__(self, location: LogLocation, *, user_limits_win: bool = False) -> None:
        self._log: Final = log_at(location)
        self._user_limits_win: Final = user_limits_win
        self._tail: Final[LogTail] = self._log.tail()
        self._load()

    def _load(self) -> None:
        """Replay the whole log."""
        started, lock, sessions, last = monotonic(), OperationLock(), SessionTable(), (0, 0)
        state = PartitionState(CompiledConfig.of(None), user_limits_win=self._user_limits_win, lock=lock)
        past = None
        if self._log.exists():
            with self._log.open_contents() as contents:
                last = replay(contents, state, sessions=sessions)
                if have_past(state.compiled.models):
                    past = DeclaredPast.of(contents)
            verify(state)
        lock.mark_consistent()
        self._is_changing = True
        self._past = past
        self.state, self.lock, self.sessions, self.complete_at = state, lock, sessions, started
        self.number, self.at = last
        self._is_changing = False

    # Following

    def poll(self, *, acknowledged: bool = True) -> int:
        """Apply new changes, and return their number; 0 if there are none.

        Args:
            acknowledged: whether to leave out changes that are perhaps not durable yet.

        Raises:
            JournalDamagedError: the log is damaged.
            JournalError: the log cannot be read now.
        """
        started, before = monotonic(), self.number
        changes = self._tail.changes(before, acknowledged=acknowledged)
        if changes is None or self._is_changing:
            self._load()
        else:
            # The lock is free between two changes, so queries do not wait long.
            for change in changes:
                self.lock.run(self._apply, change)
            if len(changes) < CHANGES_AT_ONCE:
                self.complete_at = started
        return self.number - before

    def _apply(self, change: StoredChange) -> None:
        try:
            entry = decode_change_row(change, self.state.compiled)
            self._is_changing = True
            self._replay(entry)
        except DECODING_ERRORS as error:
            raise JournalDamagedError(self._log.location, decoding_failure(error), self.number) from error
        self.number, self.at = entry.number, entry.at
        self._is_changing = False

    def _replay(self, entry: JournalEntry) -> None:
        if self._past is None and _declares_past(entry):
            self._past = DeclaredPast.begin(self.state, self.at)
        replay_entry(entry, self.state, self.sessions)
        if self._past is not None:
            self._past.process(entry)
            if not self._past.models:
                self._past = None

    def follow(self, stop: Flag, pause: float = _PAUSE) -> None:
        """Apply new changes until a flag is set. While the log cannot be read, the lag grows.

        Raises:
            JournalDamagedError: the log is damaged.
        """
        while not stop.is_set():
            try:
                while self.poll():
                    if stop.is_set():
                        return
            except JournalDamagedError:
                raise
            except JournalError:
                # The log may be available again later; `lag` tells how old the state is.
                stop.wait(pause)
            stop.wait(pause)

    def lag(self) -> Lag:
        """Return the distance from the log.

        Raises:
            JournalError: the log cannot be read now.
        """
        return Lag(max(0, self._tail.last_number() - self.number), self.age)

    @property
    def age(self) -> float:
        """The seconds since the state was last known to be complete."""
        return monotonic() - self.complete_at

    def find_leader(self) -> LeaderRecord | None:
        """Return the leader of the log; see `ugm.journal.log.Log.find_leader`."""
        return self._tail.find_leader()

    # Taking over

    def lead(
        self,
        candidate: Candidate,
        *,
        replacing: LeaderRecord | None = None,
        group_commit: bool = True,
        clock: Clock = time,
    ) -> OpenLog:
        """Become the leader with the state of this follower, which is closed then.

        Args:
            candidate: this process, as others see it.
            replacing: a silent leader that this process replaces, as `find_leader` has returned it.
            group_commit: whether a thread commits the changes of several callers.
            clock: a function that returns the seconds since 1970; fractions are allowed.

        Raises:
            JournalHeldError: another process leads. The follower can go on.
            JournalError: the log cannot be read or written.
        """
        if replacing is None:
            self._require_free()
        with ExitStack() as undo:
            leadership = self._log.lead(candidate, replacing=replacing)
            undo.callback(leadership.release)
            while self.poll(acknowledged=False):
                pass
            last = self.number, self.at
            declared = () if self._past is None else self._past.models
            opened = open_restored(
                self._log, leadership, self.state, self.sessions, last, declared, group_commit=group_commit, clock=clock
            )
            undo.pop_all()
        self.close()
        return opened

    def _require_free(self) -> None:
        """Check that no leader was active a moment ago, without the cost of an attempt to lead."""
        leader = self.find_leader() if self._log.reconnect_time else None
        if leader is not None and leader.silent_for < self._log.reconnect_time:
            raise JournalHeldError(self._log.location, None)

    def close(self) -> None:
        """Free the connection to the log."""
        self._tail.close()


def _declares_past(entry: JournalEntry) -> bool:
    """Return whether a change puts a configuration in force that declares models which depend on the past."""
    return any(type(event) is ConfigurationChanged and have_past(event.after.models) for event in entry.events)
