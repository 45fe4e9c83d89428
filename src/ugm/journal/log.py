"""The log of a partition: its changes in durable storage, and the right to write them.

A log is a journal file, for processes of one machine, or a schema in PostgreSQL, for processes of many machines. Both
have the same interface, so partitions, readers and followers work with either.

The problem: only one process may decide. That process may be stopped, cut off from the others, or replaced, and does
not notice this at once.

The idea: the process with the right to write is the *leader*. Every leadership has a *term*, a number that only grows.
The log ensures that a process whose leadership is over cannot write: PostgreSQL refuses changes of an earlier term, and
a file is locked by its leader. So two leaders can never both write the change with number *n*.

Invariant: no clock decides who leads. The instant at which the leader was last active only indicates when another
process should try to replace it.

The modules ``file_log`` and ``postgres.log`` implement the four interfaces of this module: `Log` finds and reads the
log, `Leadership` is the right to write it, `LogWriter` writes, and `LogTail` reads the newest changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from math import inf
from pathlib import Path
from typing import ClassVar, Final, Protocol

from ugm.journal.background import BackgroundCompaction
from ugm.journal.client_sessions import SessionTable
from ugm.journal.compaction import Compaction, RunExclusively
from ugm.journal.contents import JournalContents
from ugm.journal.errors import JournalError
from ugm.journal.file_writer import ChangeRow
from ugm.journal.leader_record import Candidate, LeaderRecord
from ugm.journal.store_reader import StoredChange
from ugm.partition.state import PartitionState

__all__ = ["Candidate", "LeaderRecord", "Leadership", "Log", "LogTail", "LogWriter", "SentCommit"]


class SentCommit(Protocol):
    """A commit that was sent to the log, and whose answer has not been received yet."""

    @property
    def connection(self) -> object:
        """The connection; the same object for all commits that were sent over it."""
        ...

    @property
    def is_sent(self) -> bool:
        """True if the message has left this process completely. Otherwise a thread has to send the rest."""
        ...

    def fileno(self) -> int:
        """Return the descriptor of the socket, which is readable when a part of the answer has arrived.

        Raises:
            OSError: the connection was closed.
        """
        ...

    def result(self, timeout: float = 0) -> bool | None:
        """Return whether the change is durable; False if this is uncertain, and None if there is no answer yet.

        Args:
            timeout: the time to wait for a part of the answer, in seconds.
        """
        ...


class LogWriter(Protocol):
    """Commits rows to a log; one thread at a time uses it. `ugm.journal.change_queue.ChangeQueue` calls it."""

    @property
    def term(self) -> int:
        """The term in which it writes; 0 if terms are not counted."""
        ...

    @property
    def has_reserve(self) -> bool:
        """True if space is reserved for releases."""
        ...

    def restore_reserve(self) -> None:
        """Reserve space for releases again.

        Raises:
            JournalError: there is too little space.
        """
        ...

    def commit(self, rows: Sequence[ChangeRow]) -> JournalError | None:
        """Write rows durably, and return the error if this fails. Rows that were written already are accepted."""
        ...

    def send(self, row: ChangeRow) -> SentCommit | None:
        """Send a row without waiting for the answer; return None if the log cannot do this, or not now.

        No other method may be called until `SentCommit.result` has returned a value. If the change is not durable then,
        `commit` repeats it.
        """
        ...

    def renew(self) -> None:
        """Record that the leader is active."""
        ...

    def close(self) -> None:
        """End writing and free all resources."""
        ...


class Leadership(Protocol):
    """The right to write a log."""

    @property
    def term(self) -> int:
        """The number of this leadership; 0 if terms are not counted."""
        ...

    def restore(self, state: PartitionState, sessions: SessionTable) -> tuple[int, int]:
        """Apply the log to an empty state and table, and return the number and the instant of the last change."""
        ...

    def start_writing(self, last: tuple[int, int]) -> LogWriter:
        """Return the writer for the changes after *last*."""
        ...

    def require_in_place(self) -> None:
        """Check that the path of the log still leads to the same file.

        Raises:
            JournalError: it was moved, replaced or deleted.
        """
        ...

    def compact(self, run_exclusively: RunExclusively, *, usage_since: int | None) -> Compaction:
        """Replace the changes by the state that they led to.

        Args:
            run_exclusively: stops the writer while it calls a function.
            usage_since: the first instant for which usage is kept; None to keep all.
        """
        ...

    def start_compaction(self, run_exclusively: RunExclusively, *, usage_since: int | None) -> BackgroundCompaction:
        """Begin to compact the log in the background, in steps of a few milliseconds.

        Args:
            run_exclusively: stops the writer while it calls one step.
            usage_since: the first instant for which usage is kept; None to keep all.
        """
        ...

    def release(self) -> None:
        """Give up the right."""
        ...


class LogTail(Protocol):
    """Reads a log repeatedly, from the last change that was read."""

    def last_number(self) -> int:
        """Return the number of the last change in the log.

        Raises:
            JournalError: the log cannot be read now.
        """
        ...

    def find_leader(self) -> LeaderRecord | None:
        """Return the leader; see `Log.find_leader`.

        Raises:
            JournalError: the log cannot be read now.
        """
        ...

    def changes(self, after: int, *, acknowledged: bool = True, size: float = inf) -> Sequence[StoredChange] | None:
        """Return changes after *after*, in order.

        None if the changes were compacted, or if the log has no change *after*. The reader must begin again then. There
        are fewer than `CHANGES_AT_ONCE` only if the log has no more, or if their size has reached the bound.

        Args:
            after: the number of the last change that was read.
            acknowledged: whether to omit changes that are perhaps not durable yet. A new leader needs all of them.
            size: a bound for the data of the changes in bytes. Only the last change may exceed it.

        Raises:
            JournalError: the log cannot be read now.
        """
        ...

    def close(self) -> None:
        """Free all resources."""
        ...


class Log(ABC):
    """A log, whether it exists already or not.

    Args:
        location: the path or address as it is shown, without passwords.
    """

    __slots__ = ("location",)

    #: A leader that was active within this time, in seconds, is replaced only by a candidate that names it in
    #: `replacing`.
    reconnect_time: ClassVar[float] = 0.0

    def __init__(self, location: str) -> None:
        self.location: Final = location

    def __str__(self) -> str:
        return self.location

    @abstractmethod
    def exists(self) -> bool:
        """Return whether the log has been created.

        Raises:
            JournalError: this cannot be determined now.
        """

    @abstractmethod
    def open_contents(self) -> AbstractContextManager[JournalContents]:
        """Open the log for reading, as it is now."""

    @abstractmethod
    def tail(self) -> LogTail:
        """Open the log for following it."""

    @abstractmethod
    def find_leader(self) -> LeaderRecord | None:
        """Return the leader; None if there is none, or if no process may replace it."""

    @abstractmethod
    def lead(self, candidate: Candidate, *, replacing: LeaderRecord | None = None) -> Leadership:
        """Become the leader.

        Args:
            candidate: this process.
            replacing: a leader that is silent, as `find_leader` has returned it, and that this process replaces; None
                if there is none.

        Raises:
            JournalHeldError: another process leads, perhaps one that has replaced the leader first.
            JournalError: the log cannot be written.
        """

    @abstractmethod
    def compact(self, *, usage_since: int | None) -> Compaction:
        """Compact the log; a partition may use a log in PostgreSQL meanwhile, but not a file."""

    @abstractmethod
    def fill(self, contents: JournalContents) -> None:
        """Write the contents of another log into this one, which must be empty.

        Raises:
            RequestError: this log exists already.
            JournalError: it cannot be written.
        """

    @abstractmethod
    def backup(self, target: Path) -> None:
        """Write a copy of all acknowledged changes to a new journal file, while a leader may write the log.

        Raises:
            JournalError: the log cannot be read, or the copy cannot be written.
        """
