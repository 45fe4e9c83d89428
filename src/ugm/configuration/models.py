"""Quota models that a partition declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, TypeAlias, final

from ugm._config_fields import ConfigValue
from ugm.identity import ROOT
from ugm.resources import Resource

__all__ = [
    "BudgetCarry",
    "BudgetConfig",
    "BudgetModeName",
    "BudgetPeriod",
    "BudgetUnit",
    "ElasticConfig",
    "ElasticGroupConfig",
    "FairShareConfig",
    "GroupSource",
    "GroupSourceKind",
    "QuotaNodeConfig",
    "QuotaTreeConfig",
    "QuotaTreeDocument",
    "QuotaTreeRules",
    "VictimChoice",
]

#: The properties of a claim that can name its group in a quota model.
GroupSourceKind: TypeAlias = Literal["tag", "namespace", "queue", "user", "group"]

#: The choice of the consumers that a quota tree preempts; see `ugm.quotatree.VictimPolicy`.
VictimChoice: TypeAlias = Literal["first-found", "fewest"]

#: The periods, the carry-over, the modes and the time units of a budget; see `ugm.budgets.Budget`.
BudgetPeriod: TypeAlias = Literal["none", "day", "week", "month", "quarter", "year"]
BudgetCarry: TypeAlias = Literal["none", "all", "capped"]
BudgetModeName: TypeAlias = Literal["safe", "admit"]
BudgetUnit: TypeAlias = Literal["second", "minute", "hour", "day"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSource(ConfigValue):
    """A property of a claim that names its group: an elastic group, or a leaf of a quota tree.

    Of several sources, the first one that has a name for a claim decides, even if there is no group of that name. A
    misspelt name therefore never removes a limit.
    """

    #: ``tag`` is a tag of the application, ``namespace`` its tag ``namespace``, ``queue`` its queue, ``user`` its user,
    #: and ``group`` a group of its user.
    source: GroupSourceKind = "tag"
    #: The name of the tag. ``namespace`` has a default, and only it and ``tag`` use a tag.
    tag: str = ""
    #: The group of each value of the property; other values have no group. A queue belongs to the group of the nearest
    #: queue path at it or above it, and a user to that of its first listed group. If it is empty, the value itself is
    #: the group: of a queue its last name, and of the groups of a user the first.
    names: Mapping[str, str] = field(default_factory=dict)


@final
@dataclass(frozen=True, slots=True)
class ElasticGroupConfig(ConfigValue):
    """An elastic group; the fields mean the same as those of `ugm.elastic.ElasticGroup`."""

    name: str = ""
    #: The parent group; empty for the root.
    parent: str = field(default="", kw_only=True)
    min: Resource = field(default=Resource(), kw_only=True)
    max: Resource = field(default=Resource(), kw_only=True)
    shared_weight: Resource | None = field(default=None, kw_only=True)
    allow_lent: bool = field(default=True, kw_only=True)
    is_parent: bool = field(default=False, kw_only=True)
    namespaces: tuple[str, ...] = field(default=(), kw_only=True)
    namespace: str = field(default="", kw_only=True)
    #: Empty for no id.
    tree_id: str = field(default="", kw_only=True)
    is_root: bool = field(default=False, kw_only=True)
    force_update: bool = field(default=False, kw_only=True)
    strict_max: tuple[str, ...] = field(default=(), kw_only=True)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticConfig(ConfigValue):
    """The elastic groups of a partition: a `ugm.elastic.ElasticModel`."""

    groups: tuple[ElasticGroupConfig, ...] = ()
    #: The amounts that the groups share. None for those of the nodes; before the first node is registered, only the
    #: maximums limit.
    total: Resource | None = None
    #: Whether minimums are scaled down if their sum exceeds the available amount.
    scale_min: bool = True
    #: Whether groups may use up to their maximum, instead of up to their runtime.
    ignore_runtime: bool = False
    #: Whether the limits of the groups above a group apply as well.
    check_parents: bool = True
    #: Whether allocations in the default group may be evicted for each other.
    preempt_in_default: bool = False
    #: The sources of the group of a claim. If it is empty: the tag ``quota.scheduling.koordinator.sh/name``, then the
    #: namespace.
    group_by: tuple[GroupSource, ...] = ()
    #: Whether claims without a group are accepted if no default group is configured.
    unrestricted: bool = False


@final
@dataclass(frozen=True, slots=True)
class QuotaNodeConfig(ConfigValue):
    """A node of a quota tree."""

    name: str = ""
    #: Empty for the root.
    parent: str = field(default="", kw_only=True)
    #: Whether consumers below the node must not borrow from above it.
    hard: bool = field(default=False, kw_only=True)
    #: In base units, by resource.
    quota: Mapping[str, int] = field(default_factory=dict, kw_only=True)


@final
@dataclass(frozen=True, slots=True)
class QuotaTreeDocument(ConfigValue):
    """The content of a document with a quota tree."""

    name: str = ""
    #: The resources that the tree counts; if it is empty, ``cpu``, ``memory`` and ``nvidia.com/gpu``.
    resources: tuple[str, ...] = field(default=(), kw_only=True)
    nodes: tuple[QuotaNodeConfig, ...] = field(default=(), kw_only=True)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaTreeConfig(ConfigValue):
    """A quota tree of a partition: a `ugm.quotatree.TreeModel`, or a part of a `ugm.quotatree.ForestModel`."""

    tree: QuotaTreeDocument = QuotaTreeDocument()
    #: The forest of the tree; empty for none. The trees of a forest are charged together.
    forest: str = ""
    #: The sources of the leaf of a claim.
    group_by: tuple[GroupSource, ...] = ()
    #: The leaf of claims for which no source has a name; empty for none.
    default_group: str = ""
    #: Whether the tree does not limit claims without a leaf; otherwise they are denied.
    unrestricted: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaTreeRules(ConfigValue):
    """The rules that all quota trees of a partition share; see `ugm.quotatree.QuotaManager`."""

    victims: VictimChoice = "first-found"
    requeue_rejected: bool = False
    check_unrequested: bool = False


@final
@dataclass(frozen=True, slots=True)
class BudgetConfig(ConfigValue):
    """A budget; the fields mean the same as those of `ugm.budgets.Budget`."""

    name: str = ""
    #: At most one of the next four is set. Without any, the budget is that of its queue.
    user: str = field(default="", kw_only=True)
    group: str = field(default="", kw_only=True)
    elastic_group: str = field(default="", kw_only=True)
    #: The name of the tree, a slash, and the name of the node.
    quota_node: str = field(default="", kw_only=True)
    queue: str = field(default=ROOT, kw_only=True, metadata={"normal": str.lower})
    #: Amounts times the time unit.
    amounts: Resource = field(default=Resource(), kw_only=True)
    #: The time unit of the amounts and of the cap.
    unit: BudgetUnit = field(default="second", kw_only=True)
    period: BudgetPeriod = field(default="none", kw_only=True)
    carry: BudgetCarry = field(default="none", kw_only=True)
    cap: Resource = field(default=Resource(), kw_only=True)
    mode: BudgetModeName = field(default="safe", kw_only=True)
    zone: str = field(default="UTC", kw_only=True)
    weights: Mapping[str, Fraction] = field(default_factory=dict, kw_only=True)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FairShareConfig(ConfigValue):
    """The shares of users and the decay of their usage: a `ugm.fairness.FairShares`.

    Usage has a half-life, or counts in bins. Exact numbers are texts such as ``1/2`` or ``0.5``.
    """

    #: The shares of each account by path: a number, or ``parent``; see `ugm.fairness.ShareTree`.
    accounts: Mapping[str, str] = field(default_factory=dict)
    #: The shares of each user by path.
    users: Mapping[str, str] = field(default_factory=dict)
    #: The shares of each user that is not listed. It belongs to the account that has the name of one of its groups, the
    #: first that there is, or else to none. With 0, users that are not listed come after all others.
    default_shares: int = 0
    #: In seconds; 0 for bins, or for a week if there are none.
    half_life: int = 0
    #: The length of a bin in seconds.
    bin: int = 0
    #: The number of bins that count.
    bins: int = 0
    #: The factor of each bin relative to the next younger one.
    decay: str = "1"
    #: The weight of a unit of each resource; a resource that is not listed does not count. Empty for cores alone.
    weights: Mapping[str, str] = field(default_factory=dict)
