"""Queue configurations: read from YAML, checked as a whole, immutable.

`load_config` and `parse_config` return a `SchedulerConfig`, or raise one `ugm.ConfigError` that lists everything that
is wrong, each with its line and column. This package alone imports pydantic and yaml.
"""

from __future__ import annotations

from ugm.config.schema import (
    ChildTemplate,
    Extensions,
    FilterConfig,
    LimitConfig,
    NodeSortPolicy,
    PartitionConfig,
    PlacementRule,
    PreemptionConfig,
    QueueConfig,
    QueueResources,
    SchedulerConfig,
    UserGroupResolver,
)
from ugm.config.text import dump_config, load_config, parse_config

__all__ = [
    "ChildTemplate",
    "Extensions",
    "FilterConfig",
    "LimitConfig",
    "NodeSortPolicy",
    "PartitionConfig",
    "PlacementRule",
    "PreemptionConfig",
    "QueueConfig",
    "QueueResources",
    "SchedulerConfig",
    "UserGroupResolver",
    "dump_config",
    "load_config",
    "parse_config",
]
