"""Endpoints that show usage over time, from the store of a partition."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from ugm.errors import RequestError
from ugm.identity import canonical_path, is_below
from ugm.partition import OwnerLimits
from ugm.server.http.payloads import ApiError, Payload
from ugm.server.interface.fields import Name
from ugm.server.interface.route import Routes
from ugm.server.interface.state import ServedPartition
from ugm.server.views.model_trees import trees_of
from ugm.server.views.stored_usage import RANGES, UsageSeries, usage_series

__all__ = ["ROUTES"]

ROUTES: Final = Routes()
_PATH: Final = "/partition/{partition}/usage_history"
_CSV_UNITS: Final = {"vcore": "millicores", "memory": "bytes"}


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

    def series(self, served: ServedPartition) -> UsageSeries:
        """Return the usage over time."""
        name, tree = self.stored, self.tree if self.kind == "tree_node" else ""
        if served.store is None:
            raise ApiError(404, "store-missing", "the partition has no store, so its usage over time is not known")
        return usage_series(served.store, served.now(), self.kind, tree, name, RANGES[self.range])

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
    found: dict[str, int] = {}
    for limit in limits.effective:
        if all(is_below(path, limit.queue_path) for path in limits.queue_paths):
            for resource, most in (limit.max_resources or {}).items():
                found[resource] = min(most, found.get(resource, most))
    return found


@dataclass(frozen=True, slots=True)
class UsageHistory:
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


@ROUTES.get(_PATH)
def usage_history(served: ServedPartition, *, query: Subject) -> UsageHistory:
    """Return the usage of a queue, user, group or node of a tree in the last hour, day or week, and its limits."""
    series, limits = query.series(served), query.limits(served)
    usage = dict(sorted(series.usage.items()))
    return UsageHistory(query.kind, query.name, query.range, series.step, served.now(), series.times, usage, limits)


@ROUTES.get(f"{_PATH}.csv", media_types=("text/csv",))
def usage_history_csv(served: ServedPartition, *, query: Subject) -> Annotated[Payload, str]:
    """Return the same usage as CSV: one row for each step and resource. Amounts are in base units."""
    series, text = query.series(served), StringIO()
    writer = csv.writer(text)
    writer.writerow(["time", "resource", "unit", "usage"])
    for resource, column in sorted(series.usage.items()):
        unit = _CSV_UNITS.get(resource, "units")
        for at, value in zip(series.times, column, strict=True):
            time = datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
            writer.writerow([time, resource, unit, "" if value is None else value])
    return Payload(200, text.getvalue().encode(), "text/csv; charset=utf-8")
