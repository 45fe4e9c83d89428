"""The configuration of a scheduler as plain frozen values.

`ugm.config` reads these values from YAML and writes them; programs and tests may build them directly. A
`ugm.Partition` and a `ugm.Manager` are configured with a `PartitionConfig`, and a store keeps the same value.

The values mirror the file. The YAML name of a field is its name here without underscores, except ``limit`` (here
`LimitConfig.label`), ``parent`` (here `QueueConfig.declared_parent`) and ``from`` (here `ScheduledLimit.start`).

A value is immutable, compares by content, and checks the type of each field when it is built. The rules of a whole
configuration, for example that no two queues have the same path, are checked by `ugm.config` for a file and by the
partition that uses the configuration. This package does not need yaml.
"""

from ugm.configuration import scheduler
from ugm.configuration.scheduler import *  # noqa: F403 - its `__all__` is the list of the public names

__all__: list[str] = []
__all__ += scheduler.__all__
