"""The data of one change: the operations in it, each with its session records and events.

A change of a partition without clients is one operation. Its data are the rows of its events. The leader of a service
commits many operations as one change. Its data are the rows of all of them, in order:

- An operation begins with the rows of its session records, if there are any. The rows of its events follow.
- If an operation has no session records, an empty row separates it from the operation before.
- The events of an operation belong to the session of the last `SessionProgress` record in the change before them.

Operations are kept apart because the replay of an operation ends with removing the applications that it left idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ugm._json_values import Json
from ugm.journal.client_sessions import SESSION_TAGS, SessionRecord, decode_record, record_row
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.event_codec import decode_rows, event_rows, from_json
from ugm.partition.events import ConfigurationChanged, Event

__all__ = ["SEPARATOR", "LoggedOperation", "add_operation", "config_after", "decode_change"]

#: The row between two operations.
SEPARATOR: Final[list[Json]] = []


class LoggedOperation(NamedTuple):
    """An operation in a change."""

    #: They precede the events.
    records: tuple[SessionRecord, ...]
    events: tuple[Event, ...]


def add_operation(rows: list[Json], records: Sequence[SessionRecord], events: Iterable[Event]) -> None:
    """Add an operation to the rows of a change, whose data are `ugm.partition.event_codec.to_json` of all rows."""
    if rows and not records:
        rows.append(SEPARATOR)
    rows += map(record_row, records)
    rows += event_rows(events)


def decode_change(data: bytes, before: CompiledConfig) -> tuple[LoggedOperation, ...]:
    """Return the operations of a change.

    Args:
        data: the data of the change.
        before: the configuration in force before the change.

    Raises:
        ValueError: the data are not those of a change; or another error of decoding.
    """
    operations: list[LoggedOperation] = []
    records: list[SessionRecord] = []
    rows: list[Json] = []
    for row in from_json(data):
        begins = not row or row[0] in SESSION_TAGS
        if begins and rows:
            operations.append(_operation(records, rows, before))
            before = config_after(operations[-1].events, before)
            records, rows = [], []
        if not begins:
            rows.append(row)
        elif row:
            records.append(decode_record(row))
    operations.append(_operation(records, rows, before))
    return tuple(operations)


def _operation(records: Sequence[SessionRecord], rows: Sequence[Json], before: CompiledConfig) -> LoggedOperation:
    return LoggedOperation(tuple(records), decode_rows(rows, before))


def config_after(events: Iterable[Event], before: CompiledConfig) -> CompiledConfig:
    """Return the configuration in force after some events."""
    for event in events:
        if type(event) is ConfigurationChanged:
            before = event.after
    return before
