"""The usage of one partition over time, from its store.

The store has the exact usage of every application. A series is its average in each step of the last hour, day or week.
The server keeps nothing: each answer is read from the store, which another process may be writing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ugm.events import ConfigurationChanged
from ugm.partition.events import events_of
from ugm.server.history import WorkTimes
from ugm.store import StoreReader, UsageQuery, UsageRow
from ugm.store.reader import StoreLocation

__all__ = ["RANGES", "UsageSeries", "earlier_changes", "usage_series"]


#: The length of each range of time until now, and of the steps in it, in seconds.
RANGES: Final = {"hour": (3600, 60), "day": (86_400, 900), "week": (604_800, 7200)}
#: The only tree of elastic groups has this name; all others are quota trees.
_ELASTIC: Final = "elastic"
#: The number of the last changes from which the server learns what happened before it started.
_MOST_CHANGES: Final = 100_000


class UsageSeries(NamedTuple):
    """The usage of a subject in the steps of a range of time."""

    #: The length of a step in seconds. The last step is not complete.
    step: int
    #: The beginnings of the steps, in seconds since 1970.
    times: tuple[int, ...]
    #: The averages in base units, by resource; None for steps of which usage is no longer known.
    usage: Mapping[str, list[int | None]]


def usage_series(
    location: StoreLocation, at: float, kind: str, tree: str, name: str, chosen: tuple[int, int]
) -> UsageSeries:
    """Return the average usage of a subject in each step of a range.

    Args:
        location: the store.
        at: the end of the range, in seconds since 1970.
        kind: ``group``, ``queue``, ``tree_node`` or ``user``. A queue includes the queues below it, and so do nodes.
        tree: the tree of nodes.
        name: the name of the subject.
        chosen: one of `RANGES`.

    Raises:
        StoreError: the store cannot be read.
    """
    span, step = chosen
    with StoreReader(location) as reader:
        now = max(0, round(at * 1000))
        first = max(0, now // 1000 // step * step - span)
        known = reader.usage_since
        begin = max(first, -(-known // 1000))
        query = _query(kind, tree, name)._replace(since=begin, period=step)
        rows = reader.usage(query, now) if begin * 1000 < now else ()
    times = tuple(range(first, max(first + 1, -(-now // 1000)), step))
    usage: dict[str, list[int | None]] = {}
    for row in rows:
        _add(usage, times, step, known, row)
    return UsageSeries(step, times, usage)


def _query(kind: str, tree: str, name: str) -> UsageQuery:
    """Return a query for the usage of a subject; that of a queue has one row for each queue below."""
    match kind:
        case "queue":
            return UsageQuery("queue", queue=name)
        case "tree_node" if tree == _ELASTIC:
            return UsageQuery("elastic-group", names={name})
        case "tree_node":
            return UsageQuery("quota-node", names={f"{tree}/{name}"})
        case _:
            return UsageQuery("group" if kind == "group" else "user", names={name})


def _add(usage: dict[str, list[int | None]], times: tuple[int, ...], step: int, known: int, row: UsageRow) -> None:
    """Add the average of a row to the usage of a subject."""
    index, length = int(row.begin) // step - times[0] // step, round((row.end - row.begin) * 1000)
    for resource, total in row.amounts.items():
        column = usage.get(resource)
        if column is None:
            column = usage[resource] = [None if (at + step) * 1000 <= known else 0 for at in times]
        column[index] = (column[index] or 0) + total // length


def earlier_changes(location: StoreLocation) -> tuple[WorkTimes, list[tuple[float, ConfigurationChanged]]]:
    """Return what the last changes in a store tell, at most 100,000 of those that it keeps.

    Returns:
        The times of submissions and requests, and the changes of the configuration, with their times in seconds since
        1970.

    Raises:
        StoreError: the store cannot be read.
    """
    times, configurations = WorkTimes(), list[tuple[float, ConfigurationChanged]]()
    with StoreReader(location) as reader:
        after = max(reader.oldest - 1, reader.number - _MOST_CHANGES, 0)
        while transactions := reader.changes(after):
            after = transactions[-1].number
            for transaction in transactions:
                for event in events_of(transaction.changes):
                    times.apply(event, transaction.at / 1000)
                    if isinstance(event, ConfigurationChanged):
                        configurations.append((transaction.at / 1000, event))
    return times, configurations
