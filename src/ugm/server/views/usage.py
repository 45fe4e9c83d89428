"""Endpoints that show the usage of a partition over time, from its store.

The store has the exact usage of every application. A series is its average in each step of the last hour, day or week.
The server keeps nothing: each answer is read from the store, which another process may be writing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from ugm.errors import RequestError
from ugm.events import ConfigurationChanged
from ugm.identity import canonical_path, is_below
from ugm.partition import OwnerLimits
from ugm.partition.events import events_of
from ugm.resources import smallest_amounts
from ugm.server.history import WorkTimes
from ugm.server.http.payloads import ApiError
from ugm.server.interface.route import PARTITION, Routes, ServedPartition
from ugm.server.interface.schemas import Name
from ugm.server.views.model_trees import trees_of
from ugm.store import StoreReader, UsageQuery
from ugm.store.reader import StoreLocation

#: The length of each range of time until now, and of the steps in it, in seconds.
RANGES: Final = {"hour": (3600, 60), "day": (86_400, 900), "week": (604_800, 7200)}
#: The only tree of elastic groups has this name; all others are quota trees.
_ELASTIC: Final = "elastic"
#: The number of the last changes from which the server learns what happened before it started.
_MOST_CHANGES: Final = 100_000


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


ROUTES: Final = Routes()


class Subject(Struct, forbid_unknown_fields=True):
    """A queue, user, group or node of a tree, and a range of time."""

    kind: Literal["group", "queue", "tree_node", "user"]
    name: Annotated[str, Meta(min_length=1, max_length=4096)]
    tree: Name = ""
    range: Literal["day", "hour", "week"] = "hour"

    @property
    def stored(self) -> str:
        """The name in the store.

        Raises:
            ApiError: the name is not valid, or the tree is missing.
        """
        if self.kind == "tree_node" and not self.tree:
            raise ApiError(400, "query-invalid", "tree: missing")
        try:
            return canonical_path(self.name) if self.kind == "queue" else self.name
        except RequestError as error:
            raise ApiError(404, "queue-unknown", str(error)) from None

    @property
    def query(self) -> UsageQuery:
        """The query for the usage; a queue includes the queues below it, and so do nodes."""
        name = self.stored
        match self.kind:
            case "queue":
                return UsageQuery("queue", queue=name)
            case "tree_node" if self.tree == _ELASTIC:
                return UsageQuery("elastic-group", names={name})
            case "tree_node":
                return UsageQuery("quota-node", names={f"{self.tree}/{name}"})
            case _:
                return UsageQuery("group" if self.kind == "group" else "user", names={name})

    def series(self, served: ServedPartition) -> tuple[tuple[int, ...], Mapping[str, list[int | None]]]:
        """Return the usage in each step of the range until now, of which the last step is not complete.

        Returns:
            The beginnings of the steps, in seconds since 1970, and the averages in base units by resource; None for
            steps of which usage is no longer known.

        Raises:
            ApiError: the subject is not valid, or the partition has no store.
            StoreError: the store cannot be read.
        """
        query, (span, step) = self.query, RANGES[self.range]
        if served.store is None:
            raise ApiError(404, "store-missing", "the partition has no store, so its usage over time is not known")
        with StoreReader(served.store) as reader:
            now = max(0, round(served.now() * 1000))
            first = max(0, now // 1000 // step * step - span)
            known = reader.usage_since
            begin = max(first, -(-known // 1000))
            rows = reader.usage(query._replace(since=begin, period=step), now) if begin * 1000 < now else ()
        times = tuple(range(first, max(first + 1, -(-now // 1000)), step))
        unknown = [None if (at + step) * 1000 <= known else 0 for at in times]
        usage: dict[str, list[int | None]] = {}
        for row in rows:
            index, length = int(row.begin) // step - first // step, round((row.end - row.begin) * 1000)
            for resource, total in row.amounts.items():
                column = usage.setdefault(resource, list(unknown))
                column[index] = (column[index] or 0) + total // length
        return times, dict(sorted(usage.items()))

    def limits(self, served: ServedPartition) -> dict[str, int]:
        """Return the present limits."""
        name = self.stored
        if self.kind == "tree_node":
            trees = trees_of(served.partition.model_reports())
            nodes = next((one.nodes for one in trees if one.name == self.tree), {})
            amounts = nodes[name].amounts if name in nodes else {}
            return dict(amounts.get("max") or amounts.get("quota") or {})
        snapshot = served.partition.snapshot()
        if self.kind == "queue":
            queue = snapshot.queue(name)
            return {} if queue is None else dict(queue.max_resources or {})
        return _covering(snapshot.limits_of_user(name) if self.kind == "user" else snapshot.limits_of_group(name))


def _covering(limits: OwnerLimits) -> dict[str, int]:
    """Return the smallest limits of those that count all work of a user or group, so that they compare with its sum."""
    paths = limits.queue_paths
    covering = (one for one in limits.effective if all(is_below(path, one.queue_path) for path in paths))
    return dict(smallest_amounts(amount for one in covering for amount in (one.max_resources or {}).items()) or {})


class UsageHistory(Struct):
    """The usage of one subject over time, and its present limits."""

    kind: str
    name: str
    range: str
    #: The length of a step in seconds. The last step is not complete.
    step: int
    as_of: float
    times: tuple[int, ...]
    usage: Mapping[str, list[int | None]]
    limits: Mapping[str, int]


@ROUTES.get(f"{PARTITION}/usage_history")
def usage_history(served: ServedPartition, *, query: Subject) -> UsageHistory:
    """Return the usage of a queue, user, group or node of a tree in the last hour, day or week, and its limits."""
    times, usage = query.series(served)
    own = query.kind, query.name, query.range, RANGES[query.range][1]
    return UsageHistory(*own, served.now(), times, usage, query.limits(served))
