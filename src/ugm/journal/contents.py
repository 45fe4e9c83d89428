"""The contents of a journal, read from the beginning to the end.

A journal begins with the state of a partition, which is empty until the first compaction, and continues with changes.
It is read completely or not at all: after the last change it is certain that none is missing, up to the last change
that was ever acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple, TypeVar

from ugm.journal.ack_marker import read_ack_marker
from ugm.journal.errors import JournalDamagedError, JournalError
from ugm.journal.store import FORMAT
from ugm.journal.store_reader import StoreReader, open_reader
from ugm.partition.checkpoint import Checkpoint, restore
from ugm.partition.checkpoint_codec import decode_checkpoint
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.event_codec import Json, decode_events, from_json
from ugm.partition.events import ConfigurationChanged, Event
from ugm.partition.replay import replay_events
from ugm.partition.state import PartitionState
from ugm.partition.stored_config import config_from_data

__all__ = ["JournalContents", "JournalEntry", "StartState", "open_contents", "replay"]

_T = TypeVar("_T")

#: The errors of decoding data that this module did not encode.
_DECODING_ERRORS: Final = (ValueError, TypeError, LookupError)

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


class JournalEntry(NamedTuple):
    """A change in a journal."""

    number: int
    #: In milliseconds since 1970.
    at: int
    events: tuple[Event, ...]


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
            age = "an older" if reader.version < FORMAT else "a newer"
            raise JournalError(path, f"it is of {age} version, {reader.version}; this is {FORMAT}")
        reader.check()
        yield JournalContents(reader, mark.number if mark else 0)


class JournalContents:
    """The contents of one journal, as `open_contents` returns them."""

    __slots__ = ("_acknowledged", "_reader", "start")

    def __init__(self, reader: StoreReader, acknowledged: int) -> None:
        self._reader: Final = reader
        self._acknowledged: Final = acknowledged
        self.start: Final = self._start()

    def _start(self) -> StartState:
        rows = list(self._reader.rows("snapshot"))
        if not rows:
            return StartState(0, 0, 0, 0, CompiledConfig.of(None), _EMPTY)
        return self._decoded(lambda: self._snapshot(rows))

    def _snapshot(self, rows: list[bytes]) -> StartState:
        number, at, count, history, usage_since, settings = from_json(rows[0])
        if count != len(rows):
            raise self._reader.damaged(f"the snapshot has {len(rows)} of {count} rows")
        return StartState(
            number, at, history, usage_since, CompiledConfig.of(config_from_data(settings)), decode_checkpoint(rows[1:])
        )

    def history(self) -> Iterator[Json]:
        """Yield the records about the time before the first change."""
        count = 0
        for row in self._reader.rows("history"):
            count += 1
            yield self._decoded(partial(from_json, row))
        if count != self.start.history:
            raise self._reader.damaged(f"the history has {count} of {self.start.history} rows")

    def changes(self) -> Iterator[JournalEntry]:
        """Yield all changes."""
        compiled, last = self.start.compiled, self.start.number
        for number, at, data in self._reader.changes(last):
            try:
                events = decode_events(data, compiled)
            except _DECODING_ERRORS as error:
                raise self._undecodable(error) from error
            for event in events:
                if type(event) is ConfigurationChanged:
                    compiled = event.after
            yield JournalEntry(number, at, events)
            last = number
        if last < self._acknowledged:
            raise self._reader.damaged(f"it ends with change {last}, but {self._acknowledged} were acknowledged")

    def _decoded(self, decode: Callable[[], _T]) -> _T:
        """Decode data whose checksum is valid."""
        try:
            return decode()
        except _DECODING_ERRORS as error:
            raise self._undecodable(error) from error

    def _undecodable(self, error: Exception) -> JournalDamagedError:
        return self._reader.damaged(f"a record cannot be decoded: {error}")


def replay(
    contents: JournalContents, state: PartitionState, observe: Callable[[JournalEntry], None] | None = None
) -> tuple[int, int]:
    """Apply a journal to an empty state, and return the number and the instant of the last change.

    Args:
        contents: the journal.
        state: the empty state.
        observe: a function that is called with every change.
    """
    number, at, _, _, compiled, checkpoint = contents.start
    state.replace_config(compiled)
    restore(state, checkpoint)
    for entry in contents.changes():
        number, at, events = entry
        replay_events(state, events)
        if observe is not None:
            observe(entry)
    return number, at
