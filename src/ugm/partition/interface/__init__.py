"""The operations of a partition, each once: its signature, its docstring and the call of the engine behind it.

There is one class for each subject, of which `AbstractPartition` is composed. `parts` has the engine on which they
work. A program that uses a partition should depend on `AbstractPartition` alone. Then it works with every partition:

- `ugm.Partition` keeps everything in memory;
- `ugm.store.StoredPartition` also writes every change to a store before the call returns;
- `ugm.service.RemotePartition` calls the leader of a service, which has the partition.

All arguments and results are values, so they can be sent to another process.
"""

from ugm.partition.interface.administration import AdministrationOperations
from ugm.partition.interface.allocations import WorkOperations
from ugm.partition.interface.queries import QueryOperations

__all__ = ["AbstractPartition"]


class AbstractPartition(WorkOperations, AdministrationOperations, QueryOperations):
    """The operations of a partition: queues, users, groups, applications and their allocations.

    Any number of threads may call any operation at any time. Each operation takes effect as a whole or not at all.
    Every operation that changes the partition can be repeated without harm: a caller that did not receive the answer
    repeats the call.

    If an exception interrupts an operation, it has either taken effect completely or not at all, and no lock is held.
    A signal handler, finalizer or quota model that calls an operation in the middle of another operation of the same
    thread gets a `ugm.ReentrantCallError`.
    """

    def close(self) -> None:
        """Release the files, connections and processes that this object holds. The partition and its applications stay.

        A partition in memory holds nothing of this kind, so it can be used afterwards.
        """
