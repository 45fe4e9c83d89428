"""The partition interface: every operation of a partition, described once.

A program that uses a partition should depend on `AbstractPartition` alone. Then it works with every implementation:

- `ugm.Partition` keeps everything in memory;
- `ugm.journal.JournaledPartition` also writes every change to a journal before the call returns;
- `ugm.service.RemotePartition` calls the leader of a service, which has the partition.

All arguments and results are values, so they can be sent to another process.
The operations are declared in one abstract class per subject, of which `AbstractPartition` is composed.
Implementations inherit their docstrings and repeat none of them.
"""

from ugm.partition.interface.partition import AbstractPartition

__all__ = ["AbstractPartition"]
