"""The queues of a configuration, compiled: quotas, templates and access control lists by queue path.

Compiling checks everything that can be wrong with a configuration that a program has built, before anything changes.
A `QueueTree` is then reshaped to the result, which never changes itself.

Source: Apache YuniKorn, resource quota management.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self, final

from ugm.configuration import ChildTemplate, QueueConfig
from ugm.errors import RequestError
from ugm.identity import ROOT, canonical_path
from ugm.queues.acl import Acl
from ugm.resources import Resource

__all__ = ["NO_QUOTA", "QueueSpec", "QueueSpecs", "Quota"]


class Quota(NamedTuple):
    """The maximum of a queue, and its guarantee."""

    #: None means unlimited, and so does a missing resource; an amount of 0 allows none of a resource.
    max_resources: Resource | None = None
    #: 0 means unlimited.
    max_applications: int = 0
    guaranteed: Resource | None = None

    @property
    def names(self) -> frozenset[str]:
        """The resources that have to be counted for the quota."""
        return frozenset((*(self.max_resources or ()), *(self.guaranteed or ())))


#: The quota that neither limits nor guarantees anything.
NO_QUOTA: Final = Quota()


@final
@dataclass(frozen=True, slots=True)
class QueueSpec:
    """One queue of a configuration, compiled."""

    queue_path: str
    is_parent: bool = False
    quota: Quota = NO_QUOTA
    #: The quota of queues that are created below; None leaves it to the queue above.
    template: Quota | None = None
    submit_acl: Acl | None = None
    admin_acl: Acl | None = None

    @property
    def names(self) -> frozenset[str]:
        """The resources that have to be counted for the queue, and for queues that are created below it."""
        return self.quota.names | (self.template or NO_QUOTA).names


@final
class QueueSpecs:
    """All queues of a configuration by path; there is always a root."""

    __slots__ = ("by_path", "names")

    def __init__(self, by_path: Mapping[str, QueueSpec]) -> None:
        #: Parents before their children.
        self.by_path: Final = by_path
        #: The resources that any queue limits or guarantees, including queues that may be created.
        self.names: Final[frozenset[str]] = frozenset().union(*(spec.names for spec in by_path.values()))

    @classmethod
    def compile(cls, root: QueueConfig | None) -> Self:
        """Compile the queues of a configuration; None is a root that limits nothing and takes no applications.

        Raises:
            RequestError: a queue has an invalid name or access control list, or two queues have the same path.
        """
        if root is None:
            return cls({ROOT: QueueSpec(ROOT, is_parent=True)})
        by_path: dict[str, QueueSpec] = {}
        for path, queue in root.walk():
            if path in by_path:
                raise RequestError("queues", path, "two queues have this path")
            by_path[path] = _spec(canonical_path(path), queue)
        # The maximum of the root is the size of the cluster.
        applications = by_path[ROOT].quota.max_applications
        by_path[ROOT] = replace(by_path[ROOT], is_parent=True, quota=Quota(max_applications=applications))
        return cls(by_path)


def _spec(path: str, queue: QueueConfig) -> QueueSpec:
    template = queue.child_template
    return QueueSpec(
        path,
        queue.parent,
        _quota(queue),
        None if template is None else _quota(template),
        Acl.parse(queue.submit_acl),
        Acl.parse(queue.admin_acl),
    )


def _quota(settings: QueueConfig | ChildTemplate) -> Quota:
    resources = settings.resources
    return Quota(resources.max or None, settings.max_applications, resources.guaranteed or None)
