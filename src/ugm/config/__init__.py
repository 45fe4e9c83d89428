"""Queue configurations: read from YAML, checked as a whole, immutable.

`load_config` and `parse_config` return a `SchedulerConfig`, or raise one `ugm.ConfigError` that lists everything that
is wrong, each with its line and column. This package alone imports pydantic and yaml.
"""

from __future__ import annotations

from ugm.config.export import Exported, LeftOut, export_config
from ugm.config.text import Review, dump_config, load_config, parse_config, review_config, review_file
from ugm.configuration import (
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

__all__ = [
    "ChildTemplate",
    "Exported",
    "Extensions",
    "FilterConfig",
    "LeftOut",
    "LimitConfig",
    "NodeSortPolicy",
    "PartitionConfig",
    "PlacementRule",
    "PreemptionConfig",
    "QueueConfig",
    "QueueResources",
    "Review",
    "SchedulerConfig",
    "UserGroupResolver",
    "dump_config",
    "export_config",
    "load_config",
    "parse_config",
    "review_config",
    "review_file",
]
