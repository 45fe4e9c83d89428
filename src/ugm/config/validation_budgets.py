"""The rules of declared budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ugm._documents.places import Path
from ugm.config.findings import Finding, LocatedPartition
from ugm.configuration import BudgetConfig
from ugm.errors import RequestError, quote
from ugm.identity import MAX_NAME, canonical_path, is_name

__all__ = ["BUDGET_RULES"]

#: The fields that name the owner of a budget.
_OWNERS: Final = ("user", "group", "elastic_group", "quota_node")


def budgets_have_names(located: LocatedPartition) -> Iterator[Finding]:
    """Every budget has a name of its own."""
    first: dict[str, int] = {}
    for at, budget, path in _budgets(located):
        place, name = (*path, "name"), budget.name
        if not is_name(name):
            message = f"the budget has no name (allowed: 1 to {MAX_NAME} characters)"
            yield Finding(place, "budget-name-invalid", message)
        elif first.setdefault(name, at) != at:
            message = f"the budget {quote(name)} already exists (budgets[{first[name]}])"
            yield Finding(place, "budget-name-duplicate", message, (place, (*path[:-1], first[name], "name")))


def budgets_limit_something(located: LocatedPartition) -> Iterator[Finding]:
    """A budget limits at least one resource, and with weights exactly one number."""
    for _, budget, path in _budgets(located):
        place = (*path, "amounts")
        if not budget.amounts:
            yield Finding(place, "budget-amounts-missing", "the budget limits no resource", (path,))
        elif budget.weights and len(budget.amounts) > 1:
            message = f"a budget with weights limits one number, not {len(budget.amounts)}"
            yield Finding(place, "budget-weights-amounts", message, (place, (*path, "weights")))


def budgets_have_one_owner(located: LocatedPartition) -> Iterator[Finding]:
    """A budget belongs to a user, a group, an elastic group, a quota node or a queue."""
    for _, budget, path in _budgets(located):
        owners = [field for field in _OWNERS if getattr(budget, field)]
        for field in owners[1:]:
            message = f"the budget has several owners: {' and '.join(map(_key, owners))} (allowed: one)"
            places = tuple((*path, _key(each)) for each in owners)
            yield Finding((*path, _key(field)), "budget-owner-several", message, places)
        for field in owners[:1]:
            if not is_name(getattr(budget, field)):
                message = f"the owner of the budget is not a name (allowed: 1 to {MAX_NAME} characters)"
                yield Finding((*path, _key(field)), "budget-owner-invalid", message)


def _key(field: str) -> str:
    return field.replace("_", "")


def budget_queues_are_paths(located: LocatedPartition) -> Iterator[Finding]:
    """The queue of a budget is a queue path. The queue need not exist yet."""
    for _, budget, path in _budgets(located):
        try:
            canonical_path(budget.queue)
        except RequestError as error:
            message = f"{quote(budget.queue)} is not a queue path: {error.reason}"
            yield Finding((*path, "queue"), "budget-queue-invalid", message)


def budgets_carry_over_periods(located: LocatedPartition) -> Iterator[Finding]:
    """Only a budget with a period carries something over, and only up to a cap if it has one."""
    for _, budget, path in _budgets(located):
        carry, cap = (*path, "carry"), (*path, "cap")
        if budget.carry != "none" and budget.period == "none":
            message = "the budget carries over, but has no period"
            yield Finding(carry, "budget-carry-without-period", message, (carry, (*path, "period")))
        if budget.carry == "capped" and not budget.cap:
            message = "the budget carries over up to a cap, but sets no cap"
            yield Finding(cap, "budget-cap-missing", message, (carry, cap))
        elif budget.cap and budget.carry != "capped":
            message = "the budget sets a cap, but carry is not 'capped'"
            yield Finding(cap, "budget-cap-unused", message, (carry, cap))
        for name in budget.cap:
            if name not in budget.amounts:
                message = f"the budget does not limit {quote(name)}"
                yield Finding((*cap, name), "budget-cap-unused", message, (cap, (*path, "amounts")))


def budget_zones_exist(located: LocatedPartition) -> Iterator[Finding]:
    """The time zone of a budget is in the database of time zones."""
    # Imported late: most configurations declare no budgets.
    from ugm.budgets.calendar import Period, calendar_of  # noqa: PLC0415 - as above

    for _, budget, path in _budgets(located):
        try:
            calendar_of(Period.DAY, budget.zone)
        except RequestError:
            message = f"there is no time zone {quote(budget.zone)}"
            yield Finding((*path, "zone"), "budget-zone-unknown", message)


def budget_groups_exist(located: LocatedPartition) -> Iterator[Finding]:
    """The elastic group or quota node of a budget is declared in the same partition."""
    extensions = located.partition.ugm
    groups = set() if extensions.elastic is None else {group.name for group in extensions.elastic.groups}
    nodes = {f"{one.tree.name}/{node.name}" for one in extensions.quota_trees for node in one.tree.nodes}
    declared = (*located.path, "ugm", "elastic"), (*located.path, "ugm", "quotatrees")
    for _, budget, path in _budgets(located):
        if budget.elastic_group and budget.elastic_group not in groups:
            place = (*path, "elasticgroup")
            message = f"there is no elastic group {quote(budget.elastic_group)}"
            yield Finding(place, "budget-group-unknown", message, (place, declared[0]))
        if budget.quota_node and budget.quota_node not in nodes:
            place = (*path, "quotanode")
            message = f"there is no quota node {quote(budget.quota_node)} (expected: tree/node)"
            yield Finding(place, "budget-node-unknown", message, (place, declared[1]))


def _budgets(located: LocatedPartition) -> Iterator[tuple[int, BudgetConfig, Path]]:
    """Yield the position, the value and the path of each budget."""
    for at, budget in enumerate(located.partition.ugm.budgets):
        yield at, budget, (*located.path, "ugm", "budgets", at)


BUDGET_RULES: Final[tuple[Callable[[LocatedPartition], Iterator[Finding]], ...]] = (
    budgets_have_names,
    budgets_limit_something,
    budgets_have_one_owner,
    budget_queues_are_paths,
    budgets_carry_over_periods,
    budget_zones_exist,
    budget_groups_exist,
)
