"""The differences between two configurations, partition by partition, and their output by ``ugm diff``.

The comparison covers the settings that ``ugm`` enforces: queues with their quotas, templates and access lists, limits,
and placement rules. It ignores comments, formatting, and settings that only a scheduler uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ugm.cli.output import section, shown, table
from ugm.config import PartitionConfig, PlacementRule, SchedulerConfig
from ugm.configuration.model_kinds import unmapped_queues
from ugm.errors import RequestError
from ugm.partition import Changes, ConfigChange, Detail, LimitRisk, changes
from ugm.partition.config.changes import lowered_limits
from ugm.partition.config.compiled import CompiledConfig

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

    @property
    def risks(self) -> tuple[LimitRisk, ...]:
        """The limits that fall by more than 10 %; a plan has to be confirmed if it has any."""
        return tuple(lowered_limits(CompiledConfig.of(self.before), CompiledConfig.of(self.after)))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The queues in which a declared quota model of the new configuration denies every request."""
        return tuple(map(str, unmapped_queues(self.after)))

    def __bool__(self) -> bool:
        return self.change != "none"

    def to_dict(self) -> dict[str, object]:
        """Return the difference for JSON."""
        risks = [risk.to_dict() for risk in self.risks]
        found = {"risks": risks, "warnings": list(self.warnings)}
        return {"partition": self.name, "change": self.change, **self.changes.to_dict(), **found}


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
        raise RequestError(
            "partition", name, f"no such partition in either file (existing: {existing or 'none'})", "partition-unknown"
        )
    return [
        PartitionDifference(each, before.get(each), after.get(each), changes(before.get(each), after.get(each)))
        for each in names
    ]


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
    queues, limits, _, orders, models, schedules = difference.changes
    if queues:
        section(console, "Queues", _change_table(queues))
    if limits:
        section(console, "Limits", _change_table(limits))
    if orders:
        rows = table("", "queue", rows=((_sign("~"), path) for path in orders), folded=("queue",))
        section(console, "Order of groups, which determines the group of a user", rows)
    if difference.changes.placement_rules:
        section(console, "Placement rules", _rule_table(difference))
    if models:
        section(console, "Quota models", _change_table(models))
    if schedules:
        section(console, "Schedules", _change_table(schedules))
    if difference.risks:
        rows = table("limit", rows=((str(risk),) for risk in difference.risks), folded=("limit",))
        section(console, "Risks: limits that fall by more than 10 %", rows)
    if difference.warnings:
        rows = table("queue", rows=((warning,) for warning in difference.warnings), folded=("queue",))
        section(console, "Warnings: queues that deny every request", rows)


def _change_table(found: Iterable[ConfigChange]) -> Table:
    changed = [([each.sign, each.part], each.details() or [_NO_DETAIL]) for each in found]
    rows = [row for first, details in changed for row in _rows(first, details)]
    return table("", "part", "what", "before", "after", rows=rows, folded=("part", "before", "after"))


def _rows(first: Sequence[str], details: Iterable[Detail]) -> Iterator[list[str | Text]]:
    """Yield a row for each detail, with the *first* cells, the sign and the subject, only in the first row."""
    sign, *subject = first
    cells: list[str | Text] = [_sign(sign), *subject]
    for detail in details:
        yield [*cells, *detail]
        cells = [""] * len(first)


def _rule_table(difference: PartitionDifference) -> Table:
    """Return a table of all rules, because their order matters; added and removed rules have a sign."""
    before, after = (
        [", ".join(_parts(rule)) for rule in side.placement_rules] if side else []
        for side in (difference.before, difference.after)
    )
    rows: list[tuple[str | Text, str]] = []
    for operation, start, end, new_start, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if operation == "equal":
            rows += [("", rule) for rule in before[start:end]]
        else:
            rows += [(_sign("-"), rule) for rule in before[start:end]]
            rows += [(_sign("+"), rule) for rule in after[new_start:new_end]]
    return table("", "rule", rows=rows, folded=("rule",))


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
        yield f"below ({', '.join(_parts(rule.parent))})"


def _sign(sign: str) -> Text:
    return Text(sign, style=_COLOURS[sign])
