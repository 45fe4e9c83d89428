"""The compiled form of a configuration: its limits, queues, placement rules and models as the engine uses them.

Compiling validates the configuration, and takes time proportional to its size. So it is done before the lock of the
partition is taken, and an invalid configuration changes nothing. Under the lock,
`ugm.partition.state.PartitionState.replace_config` puts the compiled form in force.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Final, NamedTuple, Self

from ugm._declared_models import ModelDefinition, definitions_of
from ugm.configuration import PartitionConfig, PlacementRule
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
            return cls(Limits.compile(None), QueueSpecs.compile(None), PlacementRules(), (), None, _version_of(None))
        # The limits come first, because they check the type of the configuration.
        limits, specs = Limits.compile(config), QueueSpecs.compile(config.root)
        rules, models = PlacementRules(config.placement_rules), definitions_of(config)
        return cls(limits, specs, rules, models, config, _version_of(config))


def _version_of(config: PartitionConfig | None) -> str:
    content = json.dumps(config_to_data(config), sort_keys=True)
    return blake2b(content.encode(), digest_size=_VERSION_SIZE).hexdigest()
