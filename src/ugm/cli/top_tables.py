"""The tables of ``ugm top``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from ugm._json_values import JsonMapping
from ugm.cli.fitting import Column, FittedTable
from ugm.cli.output import bar, counted
from ugm.cli.top_state import RowSelection
from ugm.errors import number_text, printable
from ugm.resources import MEMORY, format_amount
from ugm.server.metric_table import is_in_bytes
from ugm.server.natural_order import natural_key

__all__ = ["render_summary", "render_tables"]

#: The width of a bar in characters.
_WIDTH: Final = 20

#: The longest exact number of bytes.
_LONGEST: Final = 7
_UNITS: Final = tuple(
    (suffix, 2**exponent) for suffix, exponent in (("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))
)

_AMOUNTS: Final = (
    Column("resource", least=8),
    Column("", omitted=9),
    Column("share", is_number=True),
    Column("used", is_number=True),
    Column("of", is_number=True),
)
_WAITING: Final = Column("waiting", is_number=True, omitted=1)
_APPLICATIONS: Final = Column("apps", is_number=True, omitted=8)
_DENIAL_COLUMNS: Final = (
    Column("application", least=12),
    Column("times", is_number=True, omitted=2),
    Column("limit", least=12),
    Column("resource", least=8, omitted=1),
    Column("used", is_number=True),
    Column("of", is_number=True),
    Column("requested", is_number=True, omitted=3),
    Column("more", is_number=True, omitted=4),
)
_SINGULAR: Final = {"users": "user", "groups": "group"}


class _QueueRow(NamedTuple):
    """A queue with one resource of its maximum; without a maximum, the resource is None."""

    queue: JsonMapping
    resource: str | None
    share: float


def render_summary(partition: JsonMapping) -> Text:
    """Return the line with the sizes of a partition."""
    counts = ", ".join(
        counted(partition[f"{noun}s"], noun) for noun in ("user", "group", "queue", "application", "allocation")
    )
    return Text(printable(f"partition {partition['name']}: {counts}"), style="bold")


def render_tables(view: JsonMapping, query: RowSelection) -> RenderableType:
    """Return the tables for the terminal.

    Args:
        view: the responses of the server, by name: queues, users, groups, denials; any of them may be missing.
        query: the selection and order; users, groups and denials are selected and ordered already.
    """
    tables: list[FittedTable] = []
    if "queues" in view and (rows := _queue_rows(view["queues"], query)):
        tables.append(_queue_table(rows, query))
    tables += [
        _utilization_table(kind, view[kind], query)
        for kind in ("users", "groups")
        if kind in view and view[kind]["utilizations"]
    ]
    if view.get("denials"):
        tables.append(_denial_table(view["denials"], query))
    if not tables:
        return Text("nothing to show", style="dim")
    return Group(tables[0], *(part for each in tables[1:] for part in (Text(), each)))


# Queues


def _queue_rows(root: JsonMapping | None, query: RowSelection) -> list[_QueueRow]:
    """Return the selected rows in the order of the query; maxima alone are of interest in the order of shares."""
    found = [] if root is None else list(_all_queue_rows(root))
    if query.sort == "share":
        found = [row for row in found if row.resource is not None]
    text = query.search.lower()
    selected = [row for row in found if text in row.queue["queue_path"].lower()]
    selected.sort(key=lambda row: (-_rank(row, query.sort), natural_key(row.queue["queue_path"]), row.resource or ""))
    return (selected[::-1] if query.is_reversed else selected)[: query.lines]


def _all_queue_rows(queue: JsonMapping) -> Iterator[_QueueRow]:
    maximum = queue["max_resources"] or {}
    for name, most in maximum.items():
        used = queue["usage"].get(name, 0)
        yield _QueueRow(queue, name, used / most if most else float(used > 0))
    if not maximum:
        yield _QueueRow(queue, None, 0.0)
    for child in queue["children"]:
        yield from _all_queue_rows(child)


def _rank(row: _QueueRow, sort: str) -> float:
    ranks = {
        "share": row.share,
        "name": 0,
        "waiting": row.queue["pending_allocations"],
        "applications": row.queue["applications"],
    }
    return float(ranks[sort])


def _queue_table(rows: Sequence[_QueueRow], query: RowSelection) -> FittedTable:
    columns = (
        Column("queue", least=16),
        *_AMOUNTS,
        _kept_if_sorted(_APPLICATIONS, query),
        _kept_if_sorted(_WAITING, query),
    )
    return FittedTable(columns, map(_queue_cells, rows), _title("Queues", "closest to their maximum", query))


def _queue_cells(row: _QueueRow) -> Sequence[str | Text]:
    queue, name = row.queue, row.resource
    counts = _count(queue["applications"]), _count(queue["pending_allocations"])
    if name is None:
        return queue["queue_path"], Text("no maximum", style="dim"), "", "", "", "", *counts
    amounts = _amount(name, queue["usage"].get(name, 0)), _amount(name, queue["max_resources"][name])
    return queue["queue_path"], name, *_share(row.share), *amounts, *counts


# Users and groups


def _utilization_table(kind: str, page: JsonMapping, query: RowSelection) -> FittedTable:
    owner, queue = Column(_SINGULAR[kind], least=12), Column("queue", least=8, omitted=2)
    columns = (owner, queue, *_AMOUNTS, _kept_if_sorted(_APPLICATIONS, query), _kept_if_sorted(_WAITING, query))
    rows = map(_utilization_cells, page["utilizations"][: query.lines])
    return FittedTable(columns, rows, f"{_title(kind.capitalize(), 'closest to a limit', query)}, of {page['total']:,}")


def _utilization_cells(entry: JsonMapping) -> Sequence[str | Text]:
    limit, name = entry["limit"], entry["resource"]
    counts = _count(entry["running_applications"]), _count(entry["pending_allocations"])
    if limit is None:
        return entry["name"], "", Text("no limit", style="dim"), "", "", "", "", *counts
    if name is None:
        amounts = str(limit["running_applications"]), str(limit["max_applications"])
    else:
        amounts = _amount(name, limit["usage"][name]), _amount(name, limit["max_resources"][name])
    return entry["name"], limit["queue_path"], name or "applications", *_share(entry["share"]), *amounts, *counts


# Denials


def _denial_table(records: Sequence[JsonMapping], query: RowSelection) -> FittedTable:
    title = "Denied, oldest first" if query.is_reversed else "Denied"
    return FittedTable(_DENIAL_COLUMNS, map(_denial_cells, records[: query.lines]), title)


def _denial_cells(record: JsonMapping) -> Sequence[str]:
    violations = record["decision"]["violations"]
    first, others = violations[0], len(violations) - 1
    where = f" in {first['queue_path']}" if first["queue_path"] not in ("", first["name"]) else ""
    name = first["resource"]
    numbers = first["used"], first["limit"], first["requested"]
    amounts = map(str, numbers) if name is None else (_amount(name, number) for number in numbers)
    limit = f"{first['kind']} {first['name']}{where}"
    application = record["asks"][0]["application_id"]
    return application, str(record["times"]), limit, name or "applications", *amounts, f"+{others}" if others else ""


# Cells


def _share(share: float) -> tuple[Text, str]:
    return bar(share, _WIDTH), f"{share:.0%}"


def _amount(name: str, amount: int) -> str:
    """Format an amount; long numbers of bytes are rounded down, so that less than a limit never looks like the limit.

    >>> _amount("memory", 3 * 2**30), _amount("memory", 3 * 2**30 - 1), _amount("ephemeral-storage", 2**42)
    ('3Gi', '2.9Gi', '4Ti')
    """
    in_bytes = is_in_bytes(name)
    text = format_amount(MEMORY if in_bytes else name, amount)
    if not in_bytes or len(text) <= _LONGEST:
        return text
    suffix, multiplier = next((unit for unit in _UNITS if unit[1] <= abs(amount)), _UNITS[-1])
    tenths = amount * 10 // multiplier
    return f"{number_text(tenths // 10)}.{tenths % 10}{suffix}"


def _count(number: int) -> str:
    return f"{number:,}" if number else ""


def _kept_if_sorted(column: Column, query: RowSelection) -> Column:
    """Return a column that is never omitted if rows are sorted by it."""
    sorts = {"apps": "applications"}
    return column._replace(omitted=0) if sorts.get(column.heading, column.heading) == query.sort else column


def _title(what: str, closest: str, query: RowSelection) -> str:
    if query.sort == "share" and not query.is_reversed:
        return f"{what} {closest}"
    return f"{what} by {query.sort}{', reversed' if query.is_reversed else ''}"
