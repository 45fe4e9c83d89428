"""A test kit for programs that embed ugm: strategies, naive models, state machines and invariants.

The package needs `hypothesis <https://hypothesis.readthedocs.io>`_, which the extra ``testing`` installs.

- `ugm.testing.strategies` draws resources, users, queue paths, configurations and requests.
- `ugm.testing.invariants` checks the invariants of trackers and partitions.
- `ugm.testing.invariants` compares the running work of a scheduler with its partition.
- `ugm.testing.tracker_model` computes every answer from a list of grants: slow, and easy to check by reading.
- `ugm.testing.tracker_machine` compares a tracker with this model, as a state machine of hypothesis.
- `ugm.testing.partition_model` and `ugm.testing.partition_machine` do the same for a partition, with its queues,
  placement rules, allocations and further quota models; `ugm.testing.strategies` draws its configurations
  and requests.

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
from ugm.testing.partition_model_state import PartitionModelState, SubmittedApplication
from ugm.testing.queue_model import DynamicQueue, QueueAllowance, QueueModel
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
from ugm.testing.tracker_machine import TrackerMachine
from ugm.testing.tracker_model import Grant, LimitInForce, Place, TrackerModel

__all__ = [
    "DynamicQueue",
    "Grant",
    "LimitInForce",
    "PartitionMachine",
    "PartitionModel",
    "PartitionModelState",
    "Place",
    "QueueAllowance",
    "QueueModel",
    "RunningWorkError",
    "SubmittedApplication",
    "TrackerMachine",
    "TrackerModel",
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
