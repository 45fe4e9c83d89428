"""Endpoints that show usage over time, from `ugm.server.usage_history`."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from io import StringIO
from itertools import pairwise
from typing import Final

from ugm.errors import RequestError
from ugm.identity import canonical_path
from ugm.server.cooperative import cooperatively
from ugm.server.payloads import ApiError, Payload
from ugm.server.series import TIERS, Metric, SeriesView, Subject
from ugm.server.state import Query, RequestContext, ServedPartition
from ugm.server.usage_history import UsageHistory

__all__ = ["KINDS", "MEASURES", "sparklines", "usage_history", "usage_history_csv"]

#: The kinds of subjects.
KINDS: Final = ("group", "queue", "tree_node", "user")
#: The measures of sparklines.
MEASURES: Final = ("denials", "pending", "pending_allocations", "running_applications", "usage")
#: Measures that are null where a sample has no value; all others are 0.
_OPTIONAL: Final = frozenset(("limit", "guaranteed", "minimum", "runtime", "application_limit"))
#: The columns of CSV: the measures with a resource, and those without.
_CSV_AMOUNTS: Final = ("usage", "pending", "limit", "guaranteed", "minimum", "runtime", "request", "borrowed", "lent")
_CSV_COUNTS: Final = ("running_applications", "application_limit", "pending_allocations", "denials")
_CSV_UNITS: Final = {"vcore": "millicores", "memory": "bytes"}
_DEFAULT_RANGE: Final = TIERS[0].name
_DEFAULT_POINTS: Final = 60
_STEPS: Final = {tier.name: tier.step for tier in TIERS}
_SPANS: Final = {tier.name: tier.span for tier in TIERS}


def usage_history(served: ServedPartition, request: RequestContext) -> object:
    """Return the samples of one queue, user, group or node of a tree in the last hour, day or week."""
    query, now = request.query, served.usage_history.now()
    name = query.get("range", _DEFAULT_RANGE)
    view = _read(served.usage_history, _subject(query, query["name"]), name, now)
    amounts: dict[str, dict[str, Sequence[int | None]]] = {}
    for (measure, resource), values in sorted(view.values.items()):
        if resource:
            amounts.setdefault(measure, {})[resource] = values
    return {
        "kind": query["kind"],
        "name": query["name"],
        "range": name,
        "step": _STEPS[name],
        "as_of": now / 1000,
        "times": [at / 1000 for at in view.times],
        "amounts": amounts,
        "counts": {measure: values for (measure, resource), values in sorted(view.values.items()) if not resource},
    }


def usage_history_csv(served: ServedPartition, request: RequestContext) -> Payload:
    """Return the same samples as CSV, with fixed columns: one row for each time and resource.

    A subject without amounts has rows without a resource. Amounts are in base units, which the column ``unit`` names.
    """
    query = request.query
    name = query.get("range", _DEFAULT_RANGE)
    view = _read(served.usage_history, _subject(query, query["name"]), name, served.usage_history.now())
    resources = sorted({resource for _, resource in view.values if resource}) or [""]
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(["time", "resource", "unit", *_CSV_AMOUNTS, *_CSV_COUNTS])
    for index, at in enumerate(view.times):
        for resource in resources:
            metrics = (*((measure, resource) for measure in _CSV_AMOUNTS), *((measure, "") for measure in _CSV_COUNTS))
            values = (view.values[metric][index] if metric in view.values else None for metric in metrics)
            row = [_time_text(at), resource, _CSV_UNITS.get(resource, "" if not resource else "units")]
            writer.writerow([*row, *("" if value is None else value for value in values)])
    return Payload(200, text.getvalue().encode(), "text/csv; charset=utf-8")


def _time_text(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def sparklines(served: ServedPartition, request: RequestContext) -> object:
    """Return one measure of many queues, users, groups or nodes, with fewer samples, and its newest limit."""
    query, history = request.query, served.usage_history
    now, name = history.now(), query.get("range", _DEFAULT_RANGE)
    metric = query.get("measure", "usage"), query.get("resource", "")
    limit = _limit_of(metric)
    after, step = int(query.get("after", 0)), _coarse_step(name, query.get("points", _DEFAULT_POINTS))
    times = history.store.times(name, now)
    kept = [index for index in _last_of_steps(times, step) if times[index] > after]
    series, limits = dict[str, list[int | None]](), dict[str, int | None]()
    for one in cooperatively(query["names"]):
        subject = _subject(query, one)
        view = _read(history, subject, name, now, {metric, limit}.__contains__)
        by_time = dict(zip(view.times, view.values.get(metric, ()), strict=False))
        since = _known_since(history, subject, metric, view)
        series[one] = [by_time.get(times[index], None if times[index] < since else 0) for index in kept]
        limits[one] = next(reversed(view.values.get(limit, ())), None)
    return {
        "as_of": now / 1000,
        "newest": times[-1] if times else 0,
        "times": [times[index] / 1000 for index in kept],
        "values": series,
        "limits": limits,
    }


def _limit_of(metric: Metric) -> Metric:
    measure, resource = metric
    return ("application_limit", "") if measure == "running_applications" else ("limit", resource)


def _coarse_step(name: str, points: int) -> int:
    """Return the milliseconds between the points of a range, a multiple of the step of its samples."""
    count = max(1, -(-_SPANS[name] // (_STEPS[name] * points)))
    return count * _STEPS[name] * 1000


def _last_of_steps(times: Sequence[int], step: int) -> Iterator[int]:
    """Yield the index of the last sample in each step; these do not change when later samples follow."""
    for index, at in enumerate(times):
        if index + 1 == len(times) or times[index + 1] // step != at // step:
            yield index


def _subject(query: Query, name: str) -> Subject:
    kind = query["kind"]
    if kind == "tree_node":
        if "tree" not in query:
            raise ApiError(400, "query-invalid", "tree: missing")
        return kind, query["tree"], name
    if kind != "queue":
        return kind, name
    try:
        return kind, canonical_path(name)
    except RequestError as error:
        raise ApiError(404, "queue-unknown", str(error)) from None


def _read(
    history: UsageHistory,
    subject: Subject,
    name: str,
    now: int,
    wanted: Callable[[Metric], bool] = lambda _metric: True,
) -> SeriesView:
    """Return the samples of a subject, with the denials since the previous sample instead of those so far.

    A missing value is 0, or None if it is not known because the sample is from before the start of the server.
    """
    view = history.store.read(subject, name, now, wanted)
    values: dict[Metric, Sequence[int | None]] = {}
    for metric, column in view.values.items():
        if metric[0] in _OPTIONAL:
            values[metric] = column
            continue
        since = _known_since(history, subject, metric, view)
        filled = [value if value is not None or at < since else 0 for at, value in zip(view.times, column, strict=True)]
        values[metric] = _differences(filled) if metric[0] == "denials" else filled
    return view._replace(values=values)


def _known_since(history: UsageHistory, subject: Subject, metric: Metric, view: SeriesView) -> int:
    """Return the time before which a missing value is unknown."""
    started, column = history.known_since(""), view.values.get(metric, ())
    if subject[0] == "tree_node" and not any(one for at, one in zip(view.times, column, strict=False) if at < started):
        # A journal knows only the trees that the configuration declares.
        return started
    return history.known_since(metric[0])


def _differences(totals: Sequence[int | None]) -> list[int | None]:
    """Return the increase at each sample; after a restart of the counter, that since the restart."""
    if not totals:
        return []
    return [None, *(_increase(before, now) for before, now in pairwise(totals))]


def _increase(before: int | None, now: int | None) -> int | None:
    if before is None or now is None:
        return None
    return now - before if now >= before else now
