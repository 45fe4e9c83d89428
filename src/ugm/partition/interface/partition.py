"""The interface of all partitions."""

from __future__ import annotations

from ugm.partition.interface.administration import AbstractAdministration
from ugm.partition.interface.allocations import AbstractAllocations
from ugm.partition.interface.applications import AbstractApplications
from ugm.partition.interface.objects import AbstractObjectQueries
from ugm.partition.interface.scheduling import AbstractScheduling
from ugm.partition.interface.subjects import AbstractSubjectQueries

__all__ = ["AbstractPartition"]


class AbstractPartition(
    AbstractAllocations,
    AbstractApplications,
    AbstractScheduling,
    AbstractAdministration,
    AbstractSubjectQueries,
    AbstractObjectQueries,
):
    """The operations of a partition: queues, users, groups, applications and their allocations.

    Any number of threads may call any operation at any time. Each operation takes effect as a whole or not at all.
    Every operation that changes the partition can be repeated without harm: a caller that did not receive the answer
    repeats the call.

    If an exception interrupts an operation, it has either taken effect completely or not at all, and no lock is held.
    A signal handler, finalizer or quota model that calls an operation in the middle of another operation of the same
    thread gets a `ugm.ReentrantCallError`.
    """

    __slots__ = ()

    def close(self) -> None:
        """Release the files, connections and processes that this object holds. The partition and its applications stay.

        A partition in memory holds nothing of this kind, so it can be used afterwards.
        """
