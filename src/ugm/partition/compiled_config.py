"""The configuration of a partition, compiled off the lock and ready to be put in force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, Self

from ugm.queues import PlacementRules, QueueSettings, QueueSpecs, RuleConfig
from ugm.tracking.limits import Limits, PartitionLimits, QueueLimits

__all__ = ["CompiledConfig", "PartitionQueue", "PartitionSettings"]


class PartitionQueue(QueueSettings, QueueLimits, Protocol):
    """A queue of a configuration, with its quota and the limits of users and groups."""

    @property
    def queues(self) -> Sequence[PartitionQueue]:
        """The queues directly below."""
        ...


class PartitionSettings(PartitionLimits, Protocol):
    """A partition of a configuration."""

    @property
    def root(self) -> PartitionQueue:
        """The queue above all others."""
        ...

    @property
    def placement_rules(self) -> Sequence[RuleConfig]:
        """How applications find their queue."""
        ...


class CompiledConfig(NamedTuple):
    """A configuration, ready to be put in force by one assignment after the other, none of which can fail."""

    limits: Limits
    specs: QueueSpecs
    rules: PlacementRules
    #: What all this was compiled from.
    config: PartitionSettings | None
    #: Identifies what the configuration says. An equal one that replaces this one takes it over, so that earlier plans
    #: stay valid.
    version: object

    @property
    def rule_configs(self) -> tuple[RuleConfig, ...]:
        """What the rules were compiled from, for comparing."""
        return () if self.config is None else tuple(self.config.placement_rules)

    @classmethod
    def of(cls, config: PartitionSettings | None) -> Self:
        """Compile a configuration; None has no limits, and a root without queues.

        Raises:
            RequestError: something in it cannot be used.
        """
        if config is None:
            return cls(Limits.compile(None), QueueSpecs.compile(None), PlacementRules.compile(()), None, object())
        # What is no partition at all is told by the limits.
        limits, specs = Limits.compile(config), QueueSpecs.compile(config.root)
        return cls(limits, specs, PlacementRules.compile(config.placement_rules), config, object())
