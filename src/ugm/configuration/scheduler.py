"""The values of a configuration: queues, limits, placement rules, quota models, partitions; and findings of rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Final, Literal, NamedTuple, TypeAlias, final

from ugm.configuration.fields import ConfigValue
from ugm.errors import Problem, RequestError
from ugm.identity import ROOT, is_text
from ugm.resources import Resource

__all__ = [
    "DEFAULT_PARTITION",
    "AcceptedNames",
    "BudgetCarry",
    "BudgetConfig",
    "BudgetModeName",
    "BudgetPeriod",
    "BudgetUnit",
    "ChildTemplate",
    "ElasticConfig",
    "ElasticGroup",
    "Extensions",
    "FairShareConfig",
    "FilterConfig",
    "GroupSource",
    "GroupSourceKind",
    "LimitConfig",
    "LimitExtensions",
    "NodeSortPolicy",
    "PartitionConfig",
    "PlacementRule",
    "PreemptionConfig",
    "QueueConfig",
    "QueueResources",
    "QuotaNodeConfig",
    "QuotaTreeConfig",
    "QuotaTreeDocument",
    "QuotaTreeRules",
    "ScheduledLimit",
    "SchedulerConfig",
    "ThresholdConfig",
    "UserGroupResolver",
]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledLimit(ConfigValue):
    """An entry of a schedule: other maxima of a limit or queue at certain hours, days or dates.

    While the entry applies, each maximum that it sets replaces that of the limit or queue.
    """

    #: The days on which the hours begin, such as ``mon-fri`` or ``sat,sun``; empty for every day.
    days: str = ""
    #: A span of hours, such as ``08:00-18:00`` or ``22:00-06:00``; empty for the whole day.
    hours: str = ""
    #: The date from which it applies, such as ``2026-12-24`` or ``2026-12-24T18:00``; empty for no such date.
    start: str = field(default="", metadata={"yaml": "from"})
    #: The date from which it applies no more; empty for no such date.
    until: str = ""
    #: The time zone of all of these.
    zone: str = "UTC"
    #: None for no change.
    max_resources: Resource | None = None
    #: 0 for no change.
    max_applications: int = 0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LimitExtensions(ConfigValue):
    """The settings of a limit or queue that Apache YuniKorn does not have, under its key ``ugm``.

    They limit pending work, which counts for no other limit, and change maxima by a schedule.
    """

    #: The maximum number of pending requests; 0 means unlimited.
    max_pending: int = field(default=0, metadata={"counts": "pending"})
    #: The maximum sum of the amounts of pending requests. None means unlimited; so does a missing resource.
    max_pending_resources: Resource | None = None
    #: The maximum number of applications from their submission to their end, waiting or running; 0 means unlimited.
    max_submitted: int = field(default=0, metadata={"counts": "submitted"})
    #: The first entry that applies at a time counts.
    schedule: tuple[ScheduledLimit, ...] = ()
    #: Of a queue: the variants that amounts of any variant are assigned to first; those of queues below come before.
    prefer: tuple[str, ...] = ()


#: The fields that limit a number of objects, by their kind in `ugm.decision.COUNTED_KINDS`.
COUNTED_FIELDS: Final = {
    each.metadata["counts"]: each.name for each in fields(LimitExtensions) if "counts" in each.metadata
}


@final
@dataclass(frozen=True, slots=True)
class LimitConfig(ConfigValue):
    """The limit of each of the named users, and of each of the named groups, in a queue.

    The limit is not a sum over the names: each of them may use that much. The wildcard ``*`` stands for every user,
    each for itself, or for all groups together, that no entry before it names.
    """

    #: A human-readable description; nothing depends on it.
    label: str = field(default="", kw_only=True, metadata={"yaml": "limit"})
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    #: None means unlimited; so does a missing resource.
    max_resources: Resource | None = None
    #: 0 means unlimited.
    max_applications: int = 0
    ugm: LimitExtensions = field(default=LimitExtensions(), kw_only=True)


@final
@dataclass(frozen=True, slots=True)
class FilterConfig(ConfigValue):
    """The users and groups that a placement rule applies to."""

    #: ``allow``, ``deny`` or empty, which is ``allow``; case-insensitive.
    type: str = ""
    #: Several names; or one, which may be a regular expression.
    users: tuple[str, ...] = ()
    #: As `users`.
    groups: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class PlacementRule(ConfigValue):
    """A rule that finds the queue of an application."""

    #: ``provided``, ``user``, ``tag`` or ``fixed``; case-insensitive.
    name: str = ""
    #: True if a queue that does not exist is created.
    create: bool = field(default=False, kw_only=True)
    filter: FilterConfig = field(default=FilterConfig(), kw_only=True)
    #: The rule that finds the queue above.
    parent: PlacementRule | None = field(default=None, kw_only=True)
    #: The queue of a ``fixed`` rule, or the name of the tag of a ``tag`` rule; other rules have no value.
    value: str = field(default="", kw_only=True)


#: The property of queues for which requests reserve capacity.
RESERVATION: Final = "ugm.reservation"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class QueueResources(ConfigValue):
    """The guaranteed resources of a queue and its maximum."""

    #: None guarantees nothing.
    guaranteed: Resource | None = None
    #: None means unlimited; so does a missing resource.
    max: Resource | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChildTemplate(ConfigValue):
    """The settings of queues that placement creates below a queue."""

    #: 0 means unlimited.
    max_applications: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    resources: QueueResources = QueueResources()


@final
@dataclass(frozen=True, slots=True)
class QueueConfig(ConfigValue):
    """A queue, with everything below it."""

    #: In lower case.
    name: str = field(default="", metadata={"normal": str.lower})
    #: The setting ``parent`` of the file; see `parent`.
    declared_parent: bool = field(default=False, kw_only=True, metadata={"yaml": "parent"})
    resources: QueueResources = field(default=QueueResources(), kw_only=True)
    #: 0 means unlimited.
    max_applications: int = field(default=0, kw_only=True)
    properties: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    #: The users and groups that may administer the queue and submit applications to it.
    admin_acl: str = field(default="", kw_only=True)
    #: The users and groups that may submit applications.
    submit_acl: str = field(default="", kw_only=True)
    child_template: ChildTemplate | None = field(default=None, kw_only=True)
    queues: tuple[QueueConfig, ...] = field(default=(), kw_only=True)
    #: Their order decides which group of a user is charged.
    limits: tuple[LimitConfig, ...] = field(default=(), kw_only=True)
    ugm: LimitExtensions = field(default=LimitExtensions(), kw_only=True)

    def walk(self, path: str = ROOT) -> Iterator[tuple[str, QueueConfig]]:
        """Yield the queue and all queues below it, with their paths, parents before children.

        Args:
            path: the path of the queue.
        """
        yield path, self
        for child in self.queues:
            yield from child.walk(f"{path}.{child.name}")

    @property
    def parent(self) -> bool:
        """True if other queues may be below the queue; applications then cannot be in it."""
        return self.declared_parent or bool(self.queues) or self.name == ROOT

    @property
    def max_resources(self) -> Resource | None:
        """The maximum of the queue; None means unlimited, and so does a missing resource."""
        return self.resources.max

    @property
    def guaranteed(self) -> Resource | None:
        """The guaranteed resources of the queue."""
        return self.resources.guaranteed


#: The properties of a claim that can name its group in a quota model.
GroupSourceKind: TypeAlias = Literal["tag", "namespace", "queue", "user", "group"]
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


#: The root of the elastic groups. It has no limits, and shares what the system and default groups leave of the cluster.
ROOT_GROUP: Final = "koordinator-root-quota"


@final
@dataclass(frozen=True, slots=True)
class ElasticGroup(ConfigValue):
    """An elastic group. It may violate the rules, for example with a minimum above the maximum.

    >>> team = ElasticGroup("team", min=Resource.parse(vcore="2"), max=Resource.parse(vcore="8"))
    >>> team.weight
    Resource(vcore=8000)
    """

    #: Unique among all groups.
    name: str = ""
    #: The parent group; an empty text means the root.
    parent: str = field(default=ROOT_GROUP, metadata={"normal": lambda name: name or ROOT_GROUP})
    #: The guaranteed amounts; 0 of a missing resource.
    min: Resource = field(default=Resource(), metadata={"signed": True})
    #: The maximum amounts. Only resources that it names are counted for the group.
    max: Resource = field(default=Resource(), metadata={"signed": True})
    #: The weights for dividing what is left over; None means `max`. A missing resource has no weight.
    shared_weight: Resource | None = field(default=None, metadata={"signed": True})
    #: Whether other groups may use the part of the minimum that the group does not request.
    allow_lent: bool = True
    #: Whether the group is a parent of other groups and accepts no pods itself.
    is_parent: bool = False
    #: Pods in these namespaces belong to the group if they name no group.
    namespaces: tuple[str, ...] = ()
    #: The namespace of the Kubernetes object of the group.
    namespace: str = ""
    #: The tree of the group, if there are several; all groups of a tree have the same id. Empty for no id.
    tree_id: str = ""
    #: Whether the group is the root of its tree; its minimum is then not compared with that of its parent.
    is_root: bool = False
    #: Whether to skip the rules on sums of minimums.
    force_update: bool = False
    #: Resources whose maximum must not be lowered below the reported usage.
    strict_max: tuple[str, ...] = ()
    #: The usage that the Kubernetes object reports; only compared with `strict_max`.
    reported_used: Resource = field(default=Resource(), metadata={"yaml": None})

    @property
    def weight(self) -> Resource:
        """The weights in force: `max` if there are none, or only zeros."""
        weight = self.shared_weight
        return weight if weight is not None and any(weight.amounts.values()) else self.max


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticConfig(ConfigValue):
    """The elastic groups of a partition: a `ugm.elastic.ElasticModel`."""

    groups: tuple[ElasticGroup, ...] = ()
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


#: The name of a partition that has none.
DEFAULT_PARTITION: Final = "default"
#: The names of users and groups that limits and filters may contain; see `ugm.config.located`.
AcceptedNames: TypeAlias = Literal["yunikorn", "any"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionConfig(ConfigValue):
    """The kinds of preemption that a scheduler uses; None leaves the choice to the scheduler."""

    enabled: bool | None = None
    quota_preemption_enabled: bool | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSortPolicy(ConfigValue):
    """The order in which a scheduler tries nodes."""

    #: ``fair``, ``binpacking`` or empty, which is ``fair``.
    type: str = ""
    #: Resources that are not named weigh 1.
    resource_weights: Mapping[str, float] = field(default_factory=dict)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class UserGroupResolver(ConfigValue):
    """The service from which a scheduler learns the groups of a user."""

    type: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdConfig(ConfigValue):
    """The shares of limits whose crossing is reported; see `ugm.partition.ThresholdWatch`."""

    #: In percent of each limit, from 1 to 100; empty for no reports.
    shares: tuple[int, ...] = ()
    #: The percentage points by which usage has to fall below a share before its next crossing is reported.
    hysteresis: int = 5


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Extensions(ConfigValue):
    """The settings of a partition that Apache YuniKorn does not have, under the one key ``ugm``."""

    #: The names of users and groups that limits and filters may contain: ``yunikorn``, those that Apache YuniKorn
    #: accepts, or ``any``.
    names: AcceptedNames = "yunikorn"
    #: None for no elastic groups.
    elastic: ElasticConfig | None = None
    quota_trees: tuple[QuotaTreeConfig, ...] = ()
    quota_tree_rules: QuotaTreeRules = field(default=QuotaTreeRules())
    budgets: tuple[BudgetConfig, ...] = ()
    #: None for no shares of users.
    fair_share: FairShareConfig | None = None
    thresholds: ThresholdConfig = ThresholdConfig()
    #: The resources that requests and limits may name; empty for any.
    resources: tuple[str, ...] = ()
    #: The variants of each family of resources, in the order of preference; see `ugm.families`.
    families: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionConfig(ConfigValue):
    """A set of nodes with its own tree of queues."""

    #: In lower case; ``default`` if the file has no name, or an empty one.
    name: str = field(default=DEFAULT_PARTITION, metadata={"normal": lambda name: name.lower() or DEFAULT_PARTITION})
    #: As in the file, with or without the root queue; see `root`.
    queues: tuple[QueueConfig, ...] | None = None
    placement_rules: tuple[PlacementRule, ...] = ()
    #: As in the file; see `root`.
    limits: tuple[LimitConfig, ...] = ()
    preemption: PreemptionConfig = PreemptionConfig()
    node_sort_policy: NodeSortPolicy = NodeSortPolicy()
    user_group_resolver: UserGroupResolver = UserGroupResolver()
    #: Where Apache YuniKorn writes the dumps of its state; ignored.
    state_dump_file_path: str = ""
    #: A file without this key is a file of Apache YuniKorn.
    ugm: Extensions = Extensions()

    @property
    def root_inserted(self) -> bool:
        """True if the file leaves the root queue out."""
        return self.queues is None or len(self.queues) != 1 or self.queues[0].name != ROOT

    @property
    def root(self) -> QueueConfig:
        """The root queue: inserted if the file leaves it out, and with the limits of the partition if it has none."""
        if self.queues is None or self.root_inserted:
            return QueueConfig(ROOT, queues=self.queues or (), limits=self.limits)
        root = self.queues[0]
        return replace(root, limits=self.limits) if self.limits and not root.limits else root


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig(ConfigValue):
    """All partitions of one file."""

    partitions: tuple[PartitionConfig, ...] = ()
    #: A scheduler writes it when it exports a configuration; it is not checked.
    checksum: str = ""
    #: Probable mistakes that the reader of a text or file has found, in the order of the text; not a part of the value.
    warnings: tuple[Problem, ...] = field(default=(), compare=False, repr=False, metadata={"yaml": None})

    def partition(self, name: str | None = None) -> PartitionConfig:
        """Return a partition by name; without a name the only one, or else the one called ``default``.

        Raises:
            RequestError: there is no such partition.
        """
        if name is None and len(self.partitions) == 1:
            return self.partitions[0]
        if not is_text(name or ""):
            raise RequestError("partition", name, "expected the name of a partition")
        wanted = (name or DEFAULT_PARTITION).lower()
        for partition in self.partitions:
            if partition.name == wanted:
                return partition
        names = ", ".join(repr(partition.name) for partition in self.partitions)
        raise RequestError("partition", wanted, f"no such partition (defined: {names or 'none'})", "partition-unknown")


#: The largest threshold in percent: all of the limit.
_ALL: Final = 100
#: The keys and positions that lead to a value of a configuration, from the outside.
Path: TypeAlias = tuple[str | int, ...]


class Finding(NamedTuple):
    """A violation of a rule, and its place."""

    path: Path
    code: str
    #: The human-readable message.
    message: str
    #: The paths of the values, present or missing, that the finding depends on; empty if it depends only on the value
    #: at `path`. The finding is suppressed if one of them could not be read, because it may be wrong.
    sources: tuple[Path, ...] = ()

    def below(self, path: Path) -> Finding:
        """Return the finding with its paths below another path."""
        sources = tuple((*path, *source) for source in self.sources)
        return self._replace(path=(*path, *self.path), sources=sources)


def threshold_findings(thresholds: ThresholdConfig) -> Iterator[Finding]:
    """Yield the problems of declared thresholds, with their paths below the thresholds.

    Each is from 1 to 100 percent and occurs once, and the hysteresis is less than the smallest. So a limit without
    usage is below all of them.
    """
    shares = thresholds.shares
    for at, share in enumerate(shares):
        if not 1 <= share <= _ALL:
            message = f"the threshold is {share} % (allowed: 1 to {_ALL})"
            yield Finding(("shares", at), "threshold-share-invalid", message)
        elif share in shares[:at]:
            yield Finding(("shares", at), "threshold-duplicate", f"the threshold {share} % occurs twice")
    smallest = min(shares, default=_ALL)
    if thresholds.hysteresis >= smallest > 0:
        message = f"the hysteresis is {thresholds.hysteresis} % (allowed: less than the smallest threshold, {smallest})"
        yield Finding(("hysteresis",), "threshold-hysteresis-too-large", message, (("hysteresis",), ("shares",)))


def require_thresholds(thresholds: ThresholdConfig) -> None:
    """Check declared thresholds.

    Raises:
        RequestError: a rule is violated.
    """
    for problem in threshold_findings(thresholds):
        raise RequestError("config", "thresholds", problem.message)
