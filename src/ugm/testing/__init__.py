"""A test kit for programs that embed ugm: strategies, a naive model, a state machine and invariants.

The package needs `hypothesis <https://hypothesis.readthedocs.io>`_, which the extra ``testing`` installs.

- `ugm.testing.strategies` draws resources, users, queue paths, configurations and requests.
- `ugm.testing.invariants` checks the invariants of trackers and partitions, and compares the running work of a
  scheduler with its partition.
- `ugm.testing.partition_model` computes every answer from lists of applications and allocations: slow, and easy to
  check by reading.
- `ugm.testing.partition_machine` compares a partition and its quota models with this model, as a state machine of
  hypothesis.

A test of a scheduler can be as short as this:

>>> from ugm import Manager, Resource, UserGroup
>>> manager = Manager()
>>> manager.increase("root.prod", "app-1", Resource(memory=4), UserGroup("sue")).allowed
True
>>> verify_all(manager)
>>> exposed(manager)["users"]["sue"]["queues"]["root.prod"]["usage"]
{'memory': 4}
"""

from ugm.testing.invariants import (
    RunningWorkError,
    check_never_above,
    check_running,
    exposed,
    exposed_partition,
    verify_all,
)
from ugm.testing.partition_machine import PartitionMachine
from ugm.testing.partition_model import PartitionModel
from ugm.testing.strategies import (
    allocation_requests,
    full_partitions,
    limits,
    partitions,
    placement_rules,
    queue_paths,
    quotas,
    request_streams,
    requests,
    resource_names,
    resources,
    users,
)

__all__ = [
    "PartitionMachine",
    "PartitionModel",
    "RunningWorkError",
    "allocation_requests",
    "check_never_above",
    "check_running",
    "exposed",
    "exposed_partition",
    "full_partitions",
    "limits",
    "partitions",
    "placement_rules",
    "queue_paths",
    "quotas",
    "request_streams",
    "requests",
    "resource_names",
    "resources",
    "users",
    "verify_all",
]
