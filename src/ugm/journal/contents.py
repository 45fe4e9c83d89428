"""The contents of a log, read from the beginning to the end and replayed.

A log begins with the state of a partition, which is empty until the first compaction, and continues with changes. Files
and databases store the same rows; a `LogReader` yields them, and `JournalContents` decodes them.

Invariant: a log is read completely, or an error is raised. Every row has a valid checksum, the numbers of the changes
have no gaps, and the last number is at least that of the last acknowledged change. The last condition can be checked
only after all changes were read, so `replay` may raise an error at its end.

A row with a valid checksum can still have wrong content, for example after faulty memory. To check all values when they
are decoded would take too long. Instead, records are applied within `JournalContents.decoding`, which reports every
failure as damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol

from ugm._json_values import Json
from ugm.errors import printable
from ugm.journal.ack_marker import read_ack_marker
from ugm.journal.change_data import LoggedOperation, config_after, decode_change
from ugm.journal.client_sessions import NO_SESSION, SessionTable, is_session_row
from ugm.journal.errors import JournalDamagedError, JournalError
from ugm.journal.file_writer import ChangeRow, change_row
from ugm.journal.store import FORMAT
from ugm.journal.store_reader import StoredChange, open_reader
from ugm.partition.allocation import Allocation
from ugm.partition.checkpoint import Checkpoint, restore
from ugm.partition.checkpoint_codec import decode_checkpoint
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.event_codec import from_json
from ugm.partition.events import Event
from ugm.partition.replay import replay_events
from ugm.partition.state import PartitionState
from ugm.partition.stored_config import config_from_data

__all__ = [
    "DECODING_ERRORS",
    "JournalContents",
    "JournalEntry",
    "LogReader",
    "StartState",
    "decode_change_row",
    "decoding_failure",
    "open_contents",
    "replay",
    "replay_entry",
]

#: The errors of decoding and of applying data that this module did not encode.
DECODING_ERRORS: Final = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError),
    # A row has too few values.
    StopIteration,
)

_EMPTY: Final = Checkpoint(closed=False, nodes={}, total=None, queues=(), applications=(), allocations=())


class StartState(NamedTuple):
    """The state before the first change in a journal."""

    #: The number and the instant of the last change before; 0 for none.
    number: int
    at: int
    #: The number of rows in the history.
    history: int
    #: The first instant for which usage is known; 0 for all.
    usage_since: int
    compiled: CompiledConfig
    checkpoint: Checkpoint
    #: The rows of the client sessions; see `ugm.journal.client_sessions.SessionTable.restore`.
    sessions: tuple[bytes, ...] = ()


class JournalEntry(NamedTuple):
    """A change in a journal."""

    number: int
    #: In milliseconds since 1970.
    at: int
    operations: tuple[LoggedOperation, ...]

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of all operations."""
        if len(self.operations) == 1:
            return self.operations[0].events
        return tuple(event for operation in self.operations for event in operation.events)


@contextmanager
def open_contents(path: str) -> Iterator[JournalContents]:
    """Open a journal of this or of another process for reading.

    Raises:
        JournalError: the file is not a journal, or is one of another version.
        JournalDamagedError: the journal is damaged.
    """
    # The marker is read first: a writer may add changes meanwhile.
    mark = read_ack_marker(path)
    with open_reader(path) as reader:
        if reader.version != FORMAT:
            is_older = reader.version < FORMAT
            age, remedy = ("older", "; upgrade it with ugm journal compact") if is_older else ("newer", "")
            reason = f"its format version {reader.version} is {age} than the supported version {FORMAT}{remedy}"
            raise JournalError(path, reason)
        reader.check()
        yield JournalContents(reader, mark.number if mark else 0)


class LogReader(Protocol):
    """The rows of a log at one moment."""

    def rows(self, table: str) -> Iterator[bytes]:
        """Yield the rows of the ``snapshot`` or of the ``history``."""
        ...

    def changes(self, after: int) -> Iterator[StoredChange]:
        """Yield the changes after *after*, without gaps."""
        ...

    def damaged(self, reason: str) -> JournalDamagedError:
        """Make the error that reports damage after the last row that was read."""
        ...


class JournalContents:
    """The contents of one log.

    Args:
        reader: its rows.
        acknowledged: the number of the last change that was acknowledged.
    """

    __slots__ = ("_acknowledged", "_reader", "start")

    def __init__(self, reader: LogReader, acknowledged: int) -> None:
        self._reader: Final[LogReader] = reader
        self._acknowledged: Final = acknowledged
        self.start: Final = self._start()

    def _start(self) -> StartState:
        rows = list(self._reader.rows("snapshot"))
        if not rows:
            return StartState(0, 0, 0, 0, CompiledConfig.of(None), _EMPTY)
        with self.decoding():
            return self._snapshot(rows)

    def _snapshot(self, rows: list[bytes]) -> StartState:
        number, at, count, history, usage_since, settings = from_json(rows[0])
        if not type(number) is type(at) is int:
            raise ValueError("the number or the instant of the snapshot is not an integer")
        if count != len(rows):
            raise self._reader.damaged(f"the snapshot has {len(rows)} of {count} rows")
        sessions = tuple(filter(is_session_row, rows))
        state_rows = [row for row in rows[1:] if not is_session_row(row)] if sessions else rows[1:]
        compiled = CompiledConfig.of(config_from_data(settings))
        return StartState(number, at, history, usage_since, compiled, decode_checkpoint(state_rows), sessions)

    def stored_rows(self, table: str) -> Iterator[bytes]:
        """Yield the rows of the ``snapshot`` or of the ``history`` as they are stored."""
        return self._reader.rows(table)

    def stored_changes(self) -> Iterator[ChangeRow]:
        """Yield the changes as they are stored, with their checksums."""
        return (change_row(*change) for change in self._reader.changes(self.start.number))

    def history(self) -> Iterator[Json]:
        """Yield the records about the time before the first change."""
        count = 0
        for row in self._reader.rows("history"):
            count += 1
            with self.decoding():
                record = from_json(row)
            yield record
        if count != self.start.history:
            raise self._reader.damaged(f"the history has {count} of {self.start.history} rows")

    def allocations(self) -> Iterator[Allocation]:
        """Yield the allocations before the first change, for a caller whose own errors are not damage."""
        with self.decoding():
            yield from self.start.checkpoint.allocations

    def changes(self) -> Iterator[JournalEntry]:
        """Yield all changes."""
        compiled, last = self.start.compiled, self.start.number
        for change in self._reader.changes(last):
            try:
                entry = decode_change_row(change, compiled)
            except DECODING_ERRORS as error:
                raise self.damaged(decoding_failure(error)) from error
            for operation in entry.operations:
                compiled = config_after(operation.events, compiled)
            yield entry
            last = change.number
        if last < self._acknowledged:
            raise self._reader.damaged(f"it ends with change {last}, but {self._acknowledged} were acknowledged")

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """Decode or apply records whose checksums are valid, and report every failure as damage.

        The block contains no code of a caller of ugm, such as a quota model: its errors are not damage.

        Raises:
            JournalDamagedError: the content of a record is wrong.
        """
        try:
            yield
        except DECODING_ERRORS as error:
            raise self.damaged(decoding_failure(error)) from error

    def damaged(self, reason: str) -> JournalDamagedError:
        """Make the error that reports damage after the last row that was read."""
        return self._reader.damaged(reason)


def decoding_failure(error: Exception) -> str:
    """Return the reason of the damage that one of `DECODING_ERRORS` has shown."""
    text = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    # The text may contain a part of the record.
    return f"a record cannot be decoded: {printable(text)}"


def decode_change_row(change: StoredChange, before: CompiledConfig) -> JournalEntry:
    """Return the change of a row.

    Args:
        change: the row.
        before: the configuration in force before the change.

    Raises:
        ValueError: the data are not those of a change; or another of `DECODING_ERRORS`.
    """
    number, at, data = change
    return JournalEntry(number, at, decode_change(data, before))


def replay(
    contents: JournalContents,
    state: PartitionState,
    observe: Callable[[JournalEntry], None] | None = None,
    *,
    sessions: SessionTable | None = None,
) -> tuple[int, int]:
    """Apply a journal to an empty state, and return the number and the instant of the last change.

    Args:
        contents: the journal.
        state: the empty state.
        observe: a function that is called with every change.
        sessions: an empty table of client sessions, to which the journal is applied as well.

    Raises:
        JournalDamagedError: the journal is damaged.
    """
    number, at, _, _, compiled, checkpoint, session_rows = contents.start
    with contents.decoding():
        state.replace_config(compiled)
        restore(state, checkpoint)
        if sessions is not None:
            sessions.restore(session_rows)
        for entry in contents.changes():
            number, at, _ = entry
            replay_entry(entry, state, sessions)
            if observe is not None:
                observe(entry)
    return number, at


def replay_entry(entry: JournalEntry, state: PartitionState, sessions: SessionTable | None = None) -> None:
    """Apply a change to the state before it.

    Raises:
        ValueError: the change does not fit the state; or another of `DECODING_ERRORS`. The state is inconsistent then.
    """
    by = NO_SESSION
    for records, events in entry.operations:
        replay_events(state, events)
        if sessions is not None:
            by = sessions.apply(records, events, entry.at, by)
