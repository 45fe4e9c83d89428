"""For the tests of programs that embed ugm: strategies, a naive model, a state machine, and invariants.

Needs `hypothesis <https://hypothesis.readthedocs.io>`_, the extra ``ugm[testing]``; nothing else in ugm imports this
package.

- `ugm.testing.strategies` draws resources, users, queue paths, configurations and requests.
- `ugm.testing.invariants` holds what is true of every tracker at every moment, as functions that raise.
- `ugm.testing.model` answers every question about limits by going through a list of grants: slow, and easy to believe.
- `ugm.testing.machine` drives a tracker and the model side by side.

A test of one's own scheduler may be as short as this:

>>> from ugm import Manager, Resource, UserGroup
>>> manager = Manager()
>>> manager.increase("root.prod", "app-1", Resource(memory=4), UserGroup("sue")).allowed
True
>>> verify_all(manager)
>>> exposed(manager)["users"]["sue"]["queues"]["root.prod"]["usage"]
{'memory': 4}
"""

from ugm.testing.invariants import check_never_above, check_sums, exposed, verify_all
from ugm.testing.machine import TrackerMachine
from ugm.testing.model import Grant, InForce, Model, Place
from ugm.testing.strategies import (
    LimitSpec,
    PartitionSpec,
    QueueSpec,
    limits,
    partitions,
    queue_paths,
    request_streams,
    requests,
    resource_names,
    resources,
    users,
)

__all__ = [
    "Grant",
    "InForce",
    "LimitSpec",
    "Model",
    "PartitionSpec",
    "Place",
    "QueueSpec",
    "TrackerMachine",
    "check_never_above",
    "check_sums",
    "exposed",
    "limits",
    "partitions",
    "queue_paths",
    "request_streams",
    "requests",
    "resource_names",
    "resources",
    "users",
    "verify_all",
]
