"""Questions of those who watch a shared partition, and of those who have no application in it yet.

They are those of an embedded partition. All that ask who uses what read the whole partition, whatever they ask about:
here they are not the small pieces that they are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from ugm.configuration import PartitionConfig
from ugm.identity import UserGroup
from ugm.operation_lock import OperationLock
from ugm.partition.application import ApplicationInfo
from ugm.partition.model_set import ModelSet
from ugm.partition.partition import Partition
from ugm.partition.reports import ApplicationReport, OwnedAllocation, SubmissionReport
from ugm.partition.snapshot import CooperativeIteration, PartitionSnapshot
from ugm.partition.state import PartitionState
from ugm.partition.utilization import LimitUtilization
from ugm.queues import Placement, QueueState
from ugm.resources import Resource
from ugm.shared.engine import Engine, Need
from ugm.tracking import GroupUsage, UserUsage

__all__ = ["SharedSurvey", "partition_around"]

T = TypeVar("T")


def partition_around(state: PartitionState) -> Partition:
    """Return a partition that answers questions about a state."""
    partition = Partition.__new__(Partition)
    partition._assemble(state, ModelSet((), OperationLock()))  # noqa: SLF001 - a friend until it goes
    return partition


class SharedSurvey:
    """What a `ugm.shared.SharedView` can be asked besides; see there."""

    __slots__ = ("_reader",)

    def __init__(self, reader: Engine) -> None:
        self._reader: Final = reader

    def _one(self, application_id: object, question: Callable[[Partition], T], *, whole: bool = False) -> T:
        known = (application_id,) if isinstance(application_id, str) else ()
        with self._reader.lock:
            return self._reader.ask(
                Need(applications=known, whole=whole),
                lambda tools: question(partition_around(tools.state)),
            )

    def _all(self, question: Callable[[Partition], T]) -> T:
        with self._reader.lock:
            return self._reader.everything(lambda state, _: question(partition_around(state)))

    @property
    def config(self) -> PartitionConfig | None:
        """The configuration in force; None for none."""
        return self._one(None, lambda view: view.config)

    # Names

    def user_names(self) -> tuple[str, ...]:
        """Do what `ugm.Partition.user_names` does."""
        return self._all(lambda view: view.user_names())

    def group_names(self) -> tuple[str, ...]:
        """Do what `ugm.Partition.group_names` does."""
        return self._all(lambda view: view.group_names())

    def application_ids(self) -> tuple[str, ...]:
        """Do what `ugm.Partition.application_ids` does."""
        return self._all(lambda view: view.application_ids())

    def allocation_ids(self) -> tuple[str, ...]:
        """Do what `ugm.Partition.allocation_ids` does."""
        return self._all(lambda view: view.allocation_ids())

    def queue_paths(self) -> tuple[str, ...]:
        """Do what `ugm.Partition.queue_paths` does."""
        return self._all(lambda view: view.queue_paths())

    # Pieces

    def user(self, name: str) -> UserUsage | None:
        """Do what `ugm.Partition.user` does."""
        return self._all(lambda view: view.user(name))

    def group(self, name: str) -> GroupUsage | None:
        """Do what `ugm.Partition.group` does."""
        return self._all(lambda view: view.group(name))

    def user_utilization(self, name: str) -> LimitUtilization | None:
        """Do what `ugm.Partition.user_utilization` does."""
        return self._all(lambda view: view.user_utilization(name))

    def group_utilization(self, name: str) -> LimitUtilization | None:
        """Do what `ugm.Partition.group_utilization` does."""
        return self._all(lambda view: view.group_utilization(name))

    def queue_alone(self, queue_path: str) -> QueueState | None:
        """Do what `ugm.Partition.queue_alone` does."""
        return self._all(lambda view: view.queue_alone(queue_path))

    def pending(self, queue_path: str) -> tuple[int, Resource]:
        """Do what `ugm.Partition.pending` does."""
        return self._all(lambda view: view.pending(queue_path))

    # Several things at one moment

    def snapshot(self, iterate: CooperativeIteration | None = None) -> PartitionSnapshot:
        """Do what `ugm.Partition.snapshot` does."""
        return self._all(lambda view: view.snapshot(iterate))

    def user_usage(self, name: str) -> UserUsage | None:
        """Do what `ugm.Partition.user_usage` does."""
        return self._all(lambda view: view.user_usage(name))

    def applications_by_id(self, application_ids: Iterable[str]) -> tuple[ApplicationInfo, ...]:
        """Do what `ugm.Partition.applications_by_id` does."""
        return self._all(lambda view: view.applications_by_id(application_ids))

    def allocations_by_id(self, allocation_ids: Iterable[str]) -> tuple[OwnedAllocation, ...]:
        """Do what `ugm.Partition.allocations_by_id` does."""
        return self._all(lambda view: view.allocations_by_id(allocation_ids))

    def explain_submission(
        self,
        user: UserGroup,
        queue: str,
        usage: Resource,
        tags: Mapping[str, str] | None = None,
        *,
        quota: Resource | None = None,
        most: int = 3,
    ) -> SubmissionReport:
        """Do what `ugm.Partition.explain_submission` does."""
        return self._all(lambda view: view.explain_submission(user, queue, usage, tags, quota=quota, most=most))

    def application_report(self, application_id: str, *, waiting: int = 10, most: int = 3) -> ApplicationReport | None:
        """Do what `ugm.Partition.application_report` does."""
        return self._all(lambda view: view.application_report(application_id, waiting=waiting, most=most))

    def place(self, user: UserGroup, queue: str = "", tags: Mapping[str, str] | None = None) -> Placement:
        """Do what `ugm.Partition.place` does."""
        return self._all(lambda view: view.place(user, queue, tags))
