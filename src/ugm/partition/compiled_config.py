"""The compiled form of a configuration: its limits, queues, placement rules and models as the engine uses them.

Compiling validates the configuration, and takes time proportional to its size. So it is done before the lock of the
partition is taken, and an invalid configuration changes nothing. Under the lock,
`ugm.partition.state.PartitionState.replace_config` puts the compiled form in force.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, NamedTuple, Self

from ugm._declared_models import ModelDefinition, definitions_of
from ugm._thresholds import require_thresholds
from ugm.configuration import PartitionConfig, PlacementRule
from ugm.identity import TrackingType
from ugm.partition.config_schedule import NEVER, ActiveEntries, ConfigSchedule
from ugm.partition.pending_limits import PendingLimits, PendingMaximum
from ugm.partition.stored_config import config_to_data
from ugm.queues import PlacementRules
from ugm.queues.specs import QueueSpecs
from ugm.tracking.limits import Limits

__all__ = ["CompiledConfig"]

#: The length of a version in bytes.
_VERSION_SIZE: Final = 8


class CompiledConfig(NamedTuple):
    """A configuration, compiled."""

    limits: Limits
    specs: QueueSpecs
    rules: PlacementRules
    #: The definitions of the declared quota models.
    models: tuple[ModelDefinition, ...]
    #: The configuration that was compiled; None for none.
    config: PartitionConfig | None
    #: Identifies the content of the configuration. It is the same in every process, so a plan that was made at one
    #: leader of a service can be applied at the next one.
    version: str
    #: None if nothing limits pending work.
    pending: PendingLimits | None = None
    #: The limits that change with the time; None if none do.
    schedule: ConfigSchedule | None = None
    #: For each scheduled place of the configuration the entry in force; None before the first reading of a clock.
    active: ActiveEntries | None = None
    #: The second at which the limits in force may change.
    changes_at: int = -NEVER

    def pending_maxima(self) -> Iterator[tuple[str, TrackingType, str, PendingMaximum]]:
        """Yield every limit on pending work; see `PendingLimits.all_maxima`."""
        return iter(()) if self.pending is None else self.pending.all_maxima()

    @property
    def needs_allocations(self) -> bool:
        """True if the effects of the configuration depend on single allocations, and not only on their sums."""
        return bool(self.models) or self.pending is not None

    @property
    def rule_configs(self) -> tuple[PlacementRule, ...]:
        """The placement rules before they were compiled, for comparison."""
        return () if self.config is None else self.config.placement_rules

    @classmethod
    def of(cls, config: PartitionConfig | None) -> Self:
        """Compile a configuration; None gives a root without queues or limits.

        Raises:
            RequestError: the value is not a `PartitionConfig`, or a partition cannot use the configuration.
        """
        if config is None:
            return cls(Limits.compile(None), QueueSpecs.compile(None), PlacementRules(), (), None, _version_of(None))
        # The limits come first, because they check the type of the configuration.
        limits, specs = Limits.compile(config), QueueSpecs.compile(config.root)
        rules, models = PlacementRules(config.placement_rules), definitions_of(config)
        require_thresholds(config.ugm.thresholds)
        pending, schedule = PendingLimits.compile(config), ConfigSchedule.compile(config)
        return cls(limits, specs, rules, models, config, _version_of(config), pending, schedule)

    def with_active(self, active: ActiveEntries | None) -> Self:
        """Return the configuration with the given entries of its schedule in force; unchanged if *active* is None."""
        if self.schedule is None or active is None:
            return self
        limits, specs = self.schedule.compiled(active)
        return self._replace(limits=limits, specs=specs, active=active)

    def unscheduled_specs(self) -> QueueSpecs:
        """Return the queues with the limits of the times without a scheduled one."""
        if self.schedule is None or self.active is None:
            return self.specs
        return self.schedule.compiled((None,) * len(self.active))[1]

    def at(self, second: int) -> Self:
        """Return the configuration with the limits that are in force at a second.

        Before the first call, the limits of a schedule are not in force.
        """
        if self.schedule is None:
            return self
        active, changes_at = self.schedule.active(second), self.schedule.next_change(second)
        in_force = self if active == self.active else self.with_active(active)
        return in_force._replace(changes_at=changes_at)


def _version_of(config: PartitionConfig | None) -> str:
    content = json.dumps(config_to_data(config), sort_keys=True)
    return blake2b(content.encode(), digest_size=_VERSION_SIZE).hexdigest()
