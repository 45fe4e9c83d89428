"""The kind of budgets that a configuration declares: their model, and the rules for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, final

from ugm._json_values import JsonMapping
from ugm.budgets.budget import Budget, BudgetMode, Carry, ChainFinder
from ugm.budgets.model import Budgets
from ugm.configuration import BudgetConfig, BudgetUnit, PartitionConfig
from ugm.configuration.fields import setting_texts
from ugm.configuration.model_kinds import ModelDefinition, ModelKind, ModelPart, ReportedUse
from ugm.configuration.scheduler import Finding, Path
from ugm.configuration.schedules import zone_of
from ugm.errors import RequestError, quote
from ugm.identity import MAX_NAME, canonical_path, is_name
from ugm.model import BUDGET, AccountState, Period, ReportingModel

#: The seconds of each time unit.
UNITS: Final[Mapping[BudgetUnit, int]] = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}


def declared_budget(config: BudgetConfig) -> Budget:
    """Return the budget that a configuration declares.

    Raises:
        RequestError: a field is invalid.

    >>> from ugm import Resource
    >>> declared_budget(BudgetConfig("lab", group="lab", amounts=Resource(gpu=100), unit="hour")).amounts
    Resource(gpu=360000)
    """
    seconds = UNITS[config.unit]
    return Budget(
        config.name,
        amounts=config.amounts * seconds,
        user=config.user or None,
        group=config.group or None,
        elastic_group=config.elastic_group or None,
        quota_node=config.quota_node or None,
        queue=config.queue,
        period=Period(config.period),
        carry=Carry(config.carry),
        cap=config.cap * seconds,
        mode=BudgetMode(config.mode),
        zone=config.zone,
        weights=dict(config.weights),
    )


#: The path of the budgets in a partition.
_BUDGETS: Final[Path] = ("ugm", "budgets")
#: The fields that name the owner of a budget.
_OWNERS: Final = ("user", "group", "elastic_group", "quota_node")


class _Content(NamedTuple):
    """All budgets of a configuration, with the models whose groups and nodes they limit."""

    budgets: tuple[BudgetConfig, ...]
    #: The definitions of elastic groups and quota trees; empty if no budget limits one of them.
    groups: tuple[ModelDefinition, ...]
    trees: tuple[ModelDefinition, ...]


@final
class _BudgetKind(ModelKind):
    def definitions(self, config: PartitionConfig, before: Sequence[ModelDefinition]) -> Iterator[ModelDefinition]:
        """Return the one definition of all budgets."""
        budgets = config.ugm.budgets
        limits_groups, limits_nodes = any(one.elastic_group for one in budgets), any(one.quota_node for one in budgets)
        groups = tuple(one for one in before if limits_groups and one.setting == "elastic")
        trees = tuple(one for one in before if limits_nodes and one.setting == "quota_trees")
        yield ModelDefinition("budgets", "budgets", "", _Content(budgets, groups, trees))

    def build(self, content: _Content) -> Budgets:
        """Return the model."""
        groups, nodes = map(_owner_finder, (content.groups, content.trees))
        return Budgets(map(declared_budget, content.budgets), elastic_groups=groups, quota_nodes=nodes)

    def parts(self, definition: ModelDefinition) -> Iterator[ModelPart]:
        """Yield the budgets."""
        for budget in definition.content.budgets:
            yield ("budget", budget.name), setting_texts(budget, "name")

    def findings(self, config: PartitionConfig) -> Iterator[Finding]:
        """Yield the violations of the rules of budgets."""
        yield from _names_differ(config.ugm.budgets)
        for at, budget in enumerate(config.ugm.budgets):
            for rule in (_limits_something, _has_one_owner, _names_what_exists, _carries_over_periods):
                yield from (finding.below((*_BUDGETS, at)) for finding in rule(budget))
        yield from _budget_groups_exist(config)

    def uses(self, state: JsonMapping) -> Iterator[ReportedUse]:
        """Yield the use of each account."""
        for account in map(AccountState.from_dict, state["accounts"]):
            used = account.settled + account.committed
            owner = account.owner, account.scope, account.resource
            yield ReportedUse(BUDGET, account.budget, *owner, used, account.limit)


KIND: Final = _BudgetKind()


def _owner_finder(definitions: Iterable[ModelDefinition]) -> ChainFinder | None:
    """Return a function that returns the owners of a claim in some models; None without models."""
    # The owners depend only on the application of a claim, so models without claims can tell them.
    models = [model for each in definitions if isinstance(model := each.build(), ReportingModel)]
    return (lambda claim: [name for model in models for _, name in model.owners(claim)]) if models else None


def _names_differ(budgets: Iterable[BudgetConfig]) -> Iterator[Finding]:
    """Every budget has a name of its own."""
    first: dict[str, int] = {}
    for at, budget in enumerate(budgets):
        place, name = (*_BUDGETS, at, "name"), budget.name
        if not is_name(name):
            message = f"the budget has no name (allowed: 1 to {MAX_NAME} characters)"
            yield Finding(place, "budget-name-invalid", message)
        elif first.setdefault(name, at) != at:
            message = f"the budget {quote(name)} already exists (budgets[{first[name]}])"
            yield Finding(place, "budget-name-duplicate", message, (place, (*_BUDGETS, first[name], "name")))


# The rules for each budget by itself. Paths start at the budget.


def _limits_something(budget: BudgetConfig) -> Iterator[Finding]:
    """A budget limits at least one resource, and with weights exactly one number."""
    amounts: Path = ("amounts",)
    if not budget.amounts:
        yield Finding(amounts, "budget-amounts-missing", "the budget limits no resource", ((),))
    elif budget.weights and len(budget.amounts) > 1:
        message = f"a budget with weights limits one number, not {len(budget.amounts)}"
        yield Finding(amounts, "budget-weights-amounts", message, (amounts, ("weights",)))


def _has_one_owner(budget: BudgetConfig) -> Iterator[Finding]:
    """A budget belongs to a user, a group, an elastic group, a quota node or a queue."""
    owners = {field.replace("_", ""): getattr(budget, field) for field in _OWNERS if getattr(budget, field)}
    keys = [*owners]
    for key in keys[1:]:
        message = f"the budget has several owners: {' and '.join(keys)} (allowed: one)"
        yield Finding((key,), "budget-owner-several", message, tuple((each,) for each in keys))
    if keys and not is_name(owners[keys[0]]):
        message = f"the owner of the budget is not a name (allowed: 1 to {MAX_NAME} characters)"
        yield Finding((keys[0],), "budget-owner-invalid", message)


def _names_what_exists(budget: BudgetConfig) -> Iterator[Finding]:
    """The queue of a budget is a queue path, and its time zone exists. The queue need not exist yet."""
    try:
        canonical_path(budget.queue)
    except RequestError as error:
        message = f"{quote(budget.queue)} is not a queue path: {error.reason}"
        yield Finding(("queue",), "budget-queue-invalid", message)
    try:
        zone_of(budget.zone)
    except RequestError:
        yield Finding(("zone",), "budget-zone-unknown", f"there is no time zone {quote(budget.zone)}")


def _carries_over_periods(budget: BudgetConfig) -> Iterator[Finding]:
    """Only a budget with a period carries something over, and only up to a cap if it has one."""
    carry, cap = ("carry",), ("cap",)
    if budget.carry != "none" and budget.period == "none":
        message = "the budget carries over, but has no period"
        yield Finding(carry, "budget-carry-without-period", message, (carry, ("period",)))
    if budget.carry == "capped" and not budget.cap:
        message = "the budget carries over up to a cap, but sets no cap"
        yield Finding(cap, "budget-cap-missing", message, (carry, cap))
    elif budget.cap and budget.carry != "capped":
        message = "the budget sets a cap, but carry is not 'capped'"
        yield Finding(cap, "budget-cap-unused", message, (carry, cap))
    for name in budget.cap:
        if name not in budget.amounts:
            message = f"the budget does not limit {quote(name)}"
            yield Finding(("cap", name), "budget-cap-unused", message, (cap, ("amounts",)))


def _budget_groups_exist(config: PartitionConfig) -> Iterator[Finding]:
    """The elastic group or quota node of a budget is declared in the same partition."""
    extensions = config.ugm
    groups = set() if extensions.elastic is None else {group.name for group in extensions.elastic.groups}
    nodes = {f"{one.tree.name}/{node.name}" for one in extensions.quota_trees for node in one.tree.nodes}
    for at, budget in enumerate(extensions.budgets):
        if budget.elastic_group and budget.elastic_group not in groups:
            place: Path = (*_BUDGETS, at, "elasticgroup")
            message = f"there is no elastic group {quote(budget.elastic_group)}"
            yield Finding(place, "budget-group-unknown", message, (place, ("ugm", "elastic")))
        if budget.quota_node and budget.quota_node not in nodes:
            place = (*_BUDGETS, at, "quotanode")
            message = f"there is no quota node {quote(budget.quota_node)} (expected: tree/node)"
            yield Finding(place, "budget-node-unknown", message, (place, ("ugm", "quotatrees")))
