"""Questions of those who watch a shared partition, and of those who have no application in it yet.

They are those of an embedded partition. All that ask who uses what read the whole partition, whatever they ask about:
here they are not the small pieces that they are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from ugm.configuration import PartitionConfig
from ugm.decision import Decision
from ugm.identity import UserGroup
from ugm.operation_lock import OperationLock
from ugm.partition.application import ApplicationInfo
from ugm.partition.explanation import Explanation
from ugm.partition.model_set import ModelSet
from ugm.partition.reports import ApplicationReport, OwnedAllocation, RequestReport
from ugm.partition.snapshot import Pace, PartitionSnapshot
from ugm.partition.survey import LimitUtilization
from ugm.partition.view import PartitionView
from ugm.queues import Placement, QueueState
from ugm.resources import Resource
from ugm.shared.engine import Engine, Need
from ugm.tracking import EffectiveLimit, GroupUsage, UserUsage

__all__ = ["SharedSurvey"]

T = TypeVar("T")


class SharedSurvey:
    """What a `ugm.shared.SharedView` can be asked besides; see there."""

    __slots__ = ("_reader",)

    def __init__(self, reader: Engine) -> None:
        self._reader: Final = reader

    def _one(self, application_id: object, question: Callable[[PartitionView], T], *, whole: bool = False) -> T:
        known = (application_id,) if isinstance(application_id, str) else ()
        with self._reader.lock:
            return self._reader.ask(
                Need(applications=known, whole=whole),
                lambda tools: question(PartitionView(tools.state, ModelSet((), OperationLock()))),
            )

    def _all(self, question: Callable[[PartitionView], T]) -> T:
        with self._reader.lock:
            return self._reader.everything(
                lambda state, _: question(PartitionView(state, ModelSet((), OperationLock())))
            )

    @property
    def config(self) -> PartitionConfig | None:
        """The configuration in force; None for none."""
        return self._one(None, lambda view: view.config)

    # Names

    def user_names(self) -> tuple[str, ...]:
        """Do what `ugm.partition.survey.Survey.user_names` does."""
        return self._all(lambda view: view.user_names())

    def group_names(self) -> tuple[str, ...]:
        """Do what `ugm.partition.survey.Survey.group_names` does."""
        return self._all(lambda view: view.group_names())

    def application_ids(self) -> tuple[str, ...]:
        """Do what `ugm.partition.survey.Survey.application_ids` does."""
        return self._all(lambda view: view.application_ids())

    def allocation_ids(self) -> tuple[str, ...]:
        """Do what `ugm.partition.survey.Survey.allocation_ids` does."""
        return self._all(lambda view: view.allocation_ids())

    def queue_paths(self) -> tuple[str, ...]:
        """Do what `ugm.partition.survey.Survey.queue_paths` does."""
        return self._all(lambda view: view.queue_paths())

    # Pieces

    def user(self, name: str) -> UserUsage | None:
        """Do what `ugm.partition.survey.Survey.user` does."""
        return self._all(lambda view: view.user(name))

    def group(self, name: str) -> GroupUsage | None:
        """Do what `ugm.partition.survey.Survey.group` does."""
        return self._all(lambda view: view.group(name))

    def user_utilization(self, name: str) -> LimitUtilization | None:
        """Do what `ugm.partition.survey.Survey.user_utilization` does."""
        return self._all(lambda view: view.user_utilization(name))

    def group_utilization(self, name: str) -> LimitUtilization | None:
        """Do what `ugm.partition.survey.Survey.group_utilization` does."""
        return self._all(lambda view: view.group_utilization(name))

    def user_share(self, name: str) -> float | None:
        """Do what `ugm.partition.survey.Survey.user_share` does."""
        return self._all(lambda view: view.user_share(name))

    def group_share(self, name: str) -> float | None:
        """Do what `ugm.partition.survey.Survey.group_share` does."""
        return self._all(lambda view: view.group_share(name))

    def queue_alone(self, queue_path: str) -> QueueState | None:
        """Do what `ugm.partition.survey.Survey.queue_alone` does."""
        return self._all(lambda view: view.queue_alone(queue_path))

    def pending(self, queue_path: str) -> tuple[int, Resource]:
        """Do what `ugm.partition.survey.Survey.pending` does."""
        return self._all(lambda view: view.pending(queue_path))

    # Several things at one moment

    def snapshot(self, pace: Pace | None = None) -> PartitionSnapshot:
        """Do what `ugm.partition.reports.Reports.snapshot` does."""
        return self._all(lambda view: view.snapshot(pace))

    def user_usage(self, name: str) -> UserUsage | None:
        """Do what `ugm.partition.reports.Reports.user_usage` does."""
        return self._all(lambda view: view.user_usage(name))

    def applications_by_id(self, application_ids: Iterable[str]) -> tuple[ApplicationInfo, ...]:
        """Do what `ugm.partition.reports.Reports.applications_by_id` does."""
        return self._all(lambda view: view.applications_by_id(application_ids))

    def allocations_by_id(self, allocation_ids: Iterable[str]) -> tuple[OwnedAllocation, ...]:
        """Do what `ugm.partition.reports.Reports.allocations_by_id` does."""
        return self._all(lambda view: view.allocations_by_id(allocation_ids))

    def request_report(self, application_id: str, usage: Resource, *, most: int = 3) -> RequestReport:
        """Do what `ugm.partition.reports.Reports.request_report` does."""
        return self._all(lambda view: view.request_report(application_id, usage, most=most))

    def request_report_for(
        self,
        user: UserGroup,
        queue: str,
        usage: Resource,
        tags: Mapping[str, str] | None = None,
        *,
        quota: Resource | None = None,
        most: int = 3,
    ) -> RequestReport:
        """Do what `ugm.partition.reports.Reports.request_report_for` does."""
        return self._all(lambda view: view.request_report_for(user, queue, usage, tags, quota=quota, most=most))

    def application_report(self, application_id: str, *, waiting: int = 10, most: int = 3) -> ApplicationReport | None:
        """Do what `ugm.partition.reports.Reports.application_report` does."""
        return self._all(lambda view: view.application_report(application_id, waiting=waiting, most=most))

    # Somebody without an application

    def placement_for(self, user: UserGroup, queue: str = "", tags: Mapping[str, str] | None = None) -> Placement:
        """Do what `ugm.partition.survey.Survey.placement_for` does."""
        return self._all(lambda view: view.placement_for(user, queue, tags))

    def check_for(
        self,
        user: UserGroup,
        queue_path: str,
        usage: Resource,
        tags: Mapping[str, str] | None = None,
        *,
        quota: Resource | None = None,
    ) -> Decision:
        """Do what `ugm.partition.survey.Survey.check_for` does."""
        return self._all(lambda view: view.check_for(user, queue_path, usage, tags, quota=quota))

    def explain_for(
        self,
        user: UserGroup,
        queue_path: str,
        usage: Resource,
        tags: Mapping[str, str] | None = None,
        *,
        quota: Resource | None = None,
        most: int = 3,
    ) -> Explanation:
        """Do what `ugm.partition.survey.Survey.explain_for` does."""
        return self._all(lambda view: view.explain_for(user, queue_path, usage, tags, quota=quota, most=most))

    def limits_for(
        self, user: UserGroup, queue_path: str, *, quota: Resource | None = None
    ) -> tuple[tuple[EffectiveLimit, ...], Resource | None]:
        """Do what `ugm.partition.survey.Survey.limits_for` does."""
        return self._all(lambda view: view.limits_for(user, queue_path, quota=quota))
