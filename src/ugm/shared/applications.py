"""Applications of a shared partition: as in a `ugm.Partition`, each call one change of the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from ugm.arguments import require_amounts
from ugm.identity import UserGroup
from ugm.partition._submission import group_of, placed_path, style_of, submission_of
from ugm.partition.application import ApplicationInfo
from ugm.queues import Placement
from ugm.resources import Resource
from ugm.shared.calls import Calls, texts
from ugm.shared.engine import Need, Tools

__all__ = ["Applications"]

T = TypeVar("T")


class Applications(Calls):
    """The operations on applications; see `ugm.shared.SharedPartition`."""

    __slots__ = ()

    def submit(
        self,
        application_id: str,
        user: UserGroup,
        queue: str = "",
        *,
        tags: Mapping[str, str] | None = None,
        quota: Resource | None = None,
        gang_style: str = "soft",
    ) -> Placement:
        """Do what `ugm.Partition.submit` does."""
        submission = submission_of(application_id, user, queue, tags)
        style, most = style_of(gang_style), require_amounts("quota", quota)
        return self._do(Need((application_id,)), lambda tools: tools.life.submit(submission, style, most))

    def adopt_application(
        self,
        application_id: str,
        user: UserGroup,
        queue_path: str,
        *,
        tags: Mapping[str, str] | None = None,
        quota: Resource | None = None,
        gang_style: str = "soft",
        group: str | None = "",
    ) -> None:
        """Do what `ugm.Partition.adopt_application` does."""
        submission = submission_of(application_id, user, placed_path(queue_path), tags)
        style, most, chosen = style_of(gang_style), require_amounts("quota", quota), group_of(group)
        self._do(Need((application_id,)), lambda tools: tools.life.adopt(submission, style, most, chosen))

    def complete(self, application_id: str) -> ApplicationInfo:
        """Do what `ugm.Partition.complete` does."""
        return self._end(application_id, lambda tools: tools.life.complete(application_id))

    def fail(self, application_id: str) -> tuple[str, ...]:
        """Do what `ugm.Partition.fail` does."""
        return self._end(application_id, lambda tools: tools.life.fail(application_id))

    def remove(self, application_id: str) -> tuple[str, ...]:
        """Do what `ugm.Partition.remove` does."""
        return self._end(application_id, lambda tools: tools.life.remove(application_id))

    def time_out_gang(self, application_id: str) -> tuple[str, ...]:
        """Do what `ugm.Partition.time_out_gang` does."""
        return self._end(application_id, lambda tools: tools.life.time_out_gang(application_id))

    def _end(self, application_id: str, operation: Callable[[Tools], T]) -> T:
        return self._do(Need(texts(application_id), whole=True), operation)

    def close(self) -> tuple[str, ...]:
        """Do what `ugm.Partition.close` does: first nothing more is taken, then one application after the other fails.

        If that is interrupted, closing once more goes on with it.
        """

        def closed(tools: Tools) -> None:
            tools.state.closed = True

        self._do(Need(structural=True), closed)
        told: list[str] = []
        for application in self.applications():
            told += self.fail(application.application_id)
        return tuple(told)
