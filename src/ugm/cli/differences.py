"""The differences between two configurations, partition by partition, and their output by ``ugm diff``.

The comparison covers the settings that ``ugm`` enforces: queues with their quotas, templates and access lists, limits,
and placement rules. It ignores comments, formatting, and settings that only a scheduler uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

from ugm.cli.tables import section, shown, table
from ugm.config import PartitionConfig, PlacementRule, SchedulerConfig
from ugm.errors import RequestError
from ugm.partition import Changes, Detail, changes

__all__ = ["PartitionDifference", "differences", "render_differences"]

#: The detail of a queue that is added or removed without settings.
_NO_DETAIL: Final = Detail("", "", "")

_COLOURS: Final = {"+": "green", "-": "red", "~": "yellow"}


class PartitionDifference(NamedTuple):
    """The difference of one partition; false if there is none."""

    name: str
    before: PartitionConfig | None
    after: PartitionConfig | None
    changes: Changes

    @property
    def change(self) -> str:
        """The kind of the change: ``added``, ``removed``, ``changed`` or ``none``."""
        if self.before is None:
            return "added"
        if self.after is None:
            return "removed"
        return "changed" if self.changes else "none"

    def __bool__(self) -> bool:
        return self.change != "none"

    def to_dict(self) -> dict[str, object]:
        """Return the difference for JSON."""
        return {"partition": self.name, "change": self.change, **self.changes.to_dict()}


def differences(old: SchedulerConfig, new: SchedulerConfig, name: str | None = None) -> list[PartitionDifference]:
    """Compare all partitions of two configurations, or one by its name; those of the old configuration come first.

    Raises:
        RequestError: neither configuration has a partition with that name.
    """
    before = {partition.name: partition for partition in old.partitions}
    after = {partition.name: partition for partition in new.partitions}
    names = list({**before, **after}) if name is None else [name.lower()]
    if not before.keys() | after.keys() >= set(names):
        existing = ", ".join(repr(each) for each in {**before, **after})
        raise RequestError("partition", name, f"no such partition in either file (existing: {existing or 'none'})")
    return [_difference(each, before.get(each), after.get(each)) for each in names]


def _difference(name: str, before: PartitionConfig | None, after: PartitionConfig | None) -> PartitionDifference:
    return PartitionDifference(name, before, after, changes(before, after))


def render_differences(found: list[PartitionDifference], console: Console, *, title: str) -> None:
    """Print differences for people."""
    console.print(f"\n[bold]{shown(title)}[/bold]", highlight=False)
    for difference in filter(None, found):
        change = "" if difference.change == "changed" else f" ({difference.change})"
        console.print(f"\npartition [bold]{shown(difference.name)}[/bold]{change}", highlight=False)
        _render(difference, console)
    if not any(found):
        console.print("\n  [dim]no changes[/dim]")
    console.print()


def _render(difference: PartitionDifference, console: Console) -> None:
    queues, limits, _, orders = difference.changes
    if queues:
        section(console, "Queues", _queue_table(difference.changes))
    if limits:
        section(console, "Limits", _limit_table(difference.changes))
    if orders:
        rows = table("", "queue", folded=("queue",))
        for path in orders:
            rows.add_row(_signed("~"), shown(path))
        section(console, "Order of groups, which determines the group of a user", rows)
    if difference.changes.placement_rules:
        section(console, "Placement rules", _rule_table(difference))


def _queue_table(found: Changes) -> Table:
    rows = table("", "queue", "what", "before", "after", folded=("queue", "before", "after"))
    for change in found.queues:
        _add(rows, [_signed(change.sign), shown(change.queue_path)], change.details() or [_NO_DETAIL])
    return rows


def _limit_table(found: Changes) -> Table:
    rows = table("", "queue", "limit for", "what", "before", "after", folded=("queue", "limit for", "before", "after"))
    for change in found.limits:
        whose = [shown(change.queue_path), shown(f"{change.kind} {change.name}")]
        _add(rows, [_signed(change.sign), *whose], change.details())
    return rows


def _add(rows: Table, first: list[str], details: Iterable[Detail]) -> None:
    """Add a row for each detail, with the *first* cells before the first of them."""
    for detail in details:
        rows.add_row(*first, *map(shown, detail))
        first = [""] * len(first)


def _rule_table(difference: PartitionDifference) -> Table:
    """Return a table of all rules, because their order matters; added and removed rules have a sign."""
    before, after = (
        [_rule(rule) for rule in side.placement_rules] if side else [] for side in (difference.before, difference.after)
    )
    rows = table("", "rule", folded=("rule",))
    for operation, start, end, new_start, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        for rule in before[start:end]:
            rows.add_row("" if operation == "equal" else _signed("-"), shown(rule))
        for rule in after[new_start:new_end] if operation != "equal" else ():
            rows.add_row(_signed("+"), shown(rule))
    return rows


def _rule(rule: PlacementRule) -> str:
    return ", ".join(_parts(rule))


def _parts(rule: PlacementRule) -> Iterator[str]:
    yield f"{rule.name} {rule.value}".strip()
    if rule.create:
        yield "creates queues"
    if rule.filter.users or rule.filter.groups:
        named = [
            f"{kind} {' '.join(names)}"
            for kind, names in (("users", rule.filter.users), ("groups", rule.filter.groups))
            if names
        ]
        yield f"{rule.filter.type or 'allow'} {' and '.join(named)}"
    if rule.parent is not None:
        yield f"below ({_rule(rule.parent)})"


def _signed(sign: str) -> str:
    return f"[{_COLOURS[sign]}]{sign}[/]"
