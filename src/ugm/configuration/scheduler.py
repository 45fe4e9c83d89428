"""Partitions, and the scheduler that has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias, final

from ugm._config_fields import ConfigValue
from ugm.configuration.limits import LimitConfig
from ugm.configuration.models import BudgetConfig, ElasticConfig, FairShareConfig, QuotaTreeConfig, QuotaTreeRules
from ugm.configuration.placement import PlacementRule
from ugm.configuration.queues import QueueConfig
from ugm.errors import Problem, RequestError
from ugm.identity import ROOT, is_text

__all__ = [
    "DEFAULT_PARTITION",
    "AcceptedNames",
    "Extensions",
    "NodeSortPolicy",
    "PartitionConfig",
    "PreemptionConfig",
    "SchedulerConfig",
    "ThresholdConfig",
    "UserGroupResolver",
]

#: The name of a partition that has none.
DEFAULT_PARTITION: Final = "default"

#: The names of users and groups that limits and filters may contain; see `ugm.config.names`.
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
