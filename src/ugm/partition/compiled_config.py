"""The compiled form of a configuration: everything that a partition needs to put it in force.

Compiling may fail and takes time in the size of the configuration, so it happens without the lock. Putting a compiled
configuration in force is a sequence of assignments, none of which can fail.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from ugm.configuration import PartitionConfig, PlacementRule
from ugm.queues import PlacementRules
from ugm.queues.specs import QueueSpecs
from ugm.tracking.limits import Limits

__all__ = ["CompiledConfig"]


class CompiledConfig(NamedTuple):
    """A configuration, compiled."""

    limits: Limits
    specs: QueueSpecs
    rules: PlacementRules
    #: The configuration that was compiled; None for none.
    config: PartitionConfig | None
    #: Identifies the content of the configuration. An equal configuration that replaces this one keeps the version, so
    #: that earlier plans stay valid.
    version: object

    @property
    def rule_configs(self) -> tuple[PlacementRule, ...]:
        """The placement rules before they were compiled, for comparison."""
        return () if self.config is None else self.config.placement_rules

    @classmethod
    def of(cls, config: PartitionConfig | None) -> Self:
        """Compile a configuration; None has no limits, and a root without queues.

        Raises:
            RequestError: the value is not a `PartitionConfig`, or a partition cannot use the configuration.
        """
        if config is None:
            return cls(Limits.compile(None), QueueSpecs.compile(None), PlacementRules.compile(()), None, object())
        # The limits come first, because they check the type of the configuration.
        limits, specs = Limits.compile(config), QueueSpecs.compile(config.root)
        return cls(limits, specs, PlacementRules.compile(config.placement_rules), config, object())
