"""What a journal says, read from the beginning to the end and nothing left out.

A journal begins with the state of a partition, which is empty until it is compacted for the first time, and goes on
with changes. It is read as a whole or not at all: whoever has been through all changes knows that none is missing, up
to the last one that was ever acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from ugm.journal.ack_marker import read_ack_marker
from ugm.journal.errors import JournalDamagedError, JournalError
from ugm.journal.records import from_json, read_events, read_image
from ugm.journal.store import FORMAT, StoreReader, open_reader
from ugm.partition.checkpoint import Checkpoint, restore
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.events import ConfigurationChanged, Event
from ugm.partition.replay import replay_events
from ugm.partition.settings import read_settings
from ugm.partition.state import PartitionState

__all__ = ["JournalContents", "JournalEntry", "StartState", "open_contents", "replay"]

_T = TypeVar("_T")

#: What reading raises that was written by something else.
_MEANINGLESS: Final = (ValueError, TypeError, LookupError)

_NOTHING: Final = Checkpoint(closed=False, nodes={}, total=None, queues=(), applications=(), allocations=())


class StartState(NamedTuple):
    """Where the changes of a journal begin."""

    #: The last change before them, and its instant; 0 for none.
    number: int
    at: int
    #: How many rows the history has.
    history: int
    #: From when on it is known who used what; 0 for always.
    usage_since: int
    compiled: CompiledConfig
    image: Checkpoint


class JournalEntry(NamedTuple):
    """A change, as it was told."""

    number: int
    #: In milliseconds since 1970.
    at: int
    events: tuple[Event, ...]


@contextmanager
def open_contents(path: str) -> Iterator[JournalContents]:
    """Read a journal, of this or of another process.

    Raises:
        JournalError: it is no journal, or of another version.
        JournalDamagedError: it is damaged.
    """
    # First what was acknowledged, then the journal: a writer may be at work.
    known = read_ack_marker(path)
    with open_reader(path) as found:
        if found.version != FORMAT:
            age = "an older" if found.version < FORMAT else "a newer"
            raise JournalError(path, f"it is of {age} version, {found.version}; this is {FORMAT}")
        found.check()
        yield JournalContents(found, known.number if known else 0)


class JournalContents:
    """What one journal says."""

    __slots__ = ("_acknowledged", "_reading", "start")

    def __init__(self, found: StoreReader, acknowledged: int) -> None:
        self._reading: Final = found
        self._acknowledged: Final = acknowledged
        self.start: Final = self._start()

    def _start(self) -> StartState:
        rows = list(self._reading.rows("snapshot"))
        if not rows:
            return StartState(0, 0, 0, 0, CompiledConfig.of(None), _NOTHING)
        return self._read(lambda: self._snapshot(rows))

    def _snapshot(self, rows: list[bytes]) -> StartState:
        number, at, count, history, usage_since, settings = from_json(rows[0])
        if count != len(rows):
            raise self._reading.damaged(f"the snapshot has {len(rows)} of {count} rows")
        return StartState(
            number, at, history, usage_since, CompiledConfig.of(read_settings(settings)), read_image(rows[1:])
        )

    def history(self) -> Iterator[Any]:
        """Yield what is kept of the time before the changes, as it was written."""
        count = 0
        for row in self._reading.rows("history"):
            count += 1
            yield self._read(partial(from_json, row))
        if count != self.start.history:
            raise self._reading.damaged(f"the history has {count} of {self.start.history} rows")

    def changes(self) -> Iterator[JournalEntry]:
        """Yield all changes."""
        compiled, last = self.start.compiled, self.start.number
        for number, at, data in self._reading.changes(last):
            try:
                events = read_events(data, compiled)
            except _MEANINGLESS as error:
                raise self._meaningless(error) from error
            for event in events:
                if type(event) is ConfigurationChanged:
                    compiled = event.after
            yield JournalEntry(number, at, events)
            last = number
        if last < self._acknowledged:
            raise self._reading.damaged(f"it ends with change {last}, but {self._acknowledged} were acknowledged")

    def _read(self, read: Callable[[], _T]) -> _T:
        """Read what has a good checksum."""
        try:
            return read()
        except _MEANINGLESS as error:
            raise self._meaningless(error) from error

    def _meaningless(self, error: Exception) -> JournalDamagedError:
        return self._reading.damaged(f"what is written there means nothing: {error}")


def replay(
    contents: JournalContents, state: PartitionState, follow: Callable[[JournalEntry], None] | None = None
) -> tuple[int, int]:
    """Let books that hold nothing hold what a journal says, and return its last change and the instant of it.

    Args:
        contents: the journal.
        state: the empty state to fill.
        follow: called with every change.
    """
    number, at, _, _, compiled, image = contents.start
    state.swap(compiled)
    restore(state, image)
    for entry in contents.changes():
        number, at, events = entry
        replay_events(state, events)
        if follow is not None:
            follow(entry)
    return number, at
