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
>>> exposed(manager)["users"][0].queues.usage
Resource(memory=4)
"""

from ugm.testing import invariants, strategies
from ugm.testing.invariants import *  # noqa: F403 - all checks, listed once
from ugm.testing.partition_machine import PartitionMachine
from ugm.testing.partition_model import PartitionModel
from ugm.testing.strategies import *  # noqa: F403 - as above

__all__ = ["PartitionMachine", "PartitionModel"]
__all__ += invariants.__all__
__all__ += strategies.__all__
