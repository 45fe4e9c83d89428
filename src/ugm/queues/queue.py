"""One queue: its quota, its counter and its applications."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, final

from ugm.counters import Counter, Layout, Limit, charge
from ugm.identity import TrackingType, UserGroup
from ugm.queues.acl import path_allows
from ugm.queues.specs import NO_QUOTA, QueueSpec, Quota
from ugm.resources import Resource, sum_of

__all__ = ["Queue", "QueueApplication"]


class QueueApplication(Protocol):
    """The part of an application that its queue depends on."""

    def held(self) -> Mapping[str, int] | None:
        """Return the held amounts by resource name; None if the application is not running."""
        ...


@final
@dataclass(slots=True, eq=False, repr=False)
class Queue:
    """A queue of a `QueueTree`.

    Only the root, and queues that limit or guarantee something, have a counter. The usage of other queues is computed
    on demand.

    Args:
        spec: the settings of the queue, from the configuration or from the template of a queue above.
        parent: the queue above; None for the root.
        counters: the index of counters that all queues of a tree share.
        managed: true if the configuration names the queue.
    """

    kind: ClassVar[TrackingType] = TrackingType.QUEUE

    spec: QueueSpec
    parent: Queue | None
    #: The counters of the whole tree that have running applications.
    counters: dict[str, Counter]
    #: True if the configuration names it; otherwise it is deleted when it is empty.
    managed: bool = field(kw_only=True)
    #: True if an earlier configuration named it.
    was_configured: bool = False
    #: A maximum that replaces the one of `spec`: the quota of a namespace.
    quota_override: Resource | None = None
    queue_path: str = field(init=False)
    #: The same path, as the owner of a counter.
    name: str = field(init=False)
    #: By the last part of their path.
    children: dict[str, Queue] = field(init=False, default_factory=dict)
    #: All applications that were submitted to it and have not ended.
    applications: dict[str, QueueApplication] = field(init=False, default_factory=dict)
    #: Its counter.
    counter: Counter | None = field(init=False, default=None)
    #: The counters of the queue and of those above it, leaf to root. Invariant: exactly those that have one.
    chain: tuple[Counter, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        self.queue_path = self.name = self.spec.queue_path
        if self.parent is not None:
            self.parent.children[self.queue_path.rpartition(".")[2]] = self

    @property
    def is_leaf(self) -> bool:
        """True if applications may be submitted to it."""
        return not self.spec.is_parent

    @property
    def draining(self) -> bool:
        """True if it accepts no more applications.

        The configuration no longer names it, or it could not be created again, because its parent is draining
        or has become a leaf.
        """
        if self.managed or self.parent is None:
            return False
        return self.was_configured or self.parent.draining or not self.parent.spec.is_parent

    @property
    def is_idle(self) -> bool:
        """True if it has neither applications nor child queues, and may be deleted."""
        return not self.applications and not self.children

    @property
    def quota(self) -> Quota:
        """The maximum and the guarantee of the queue."""
        quota = self.spec.quota
        return quota if self.quota_override is None else quota._replace(max_resources=self.quota_override)

    @property
    def template(self) -> Quota:
        """The quota of a queue created directly below: the template of the nearest queue upward that has one."""
        return next((queue.spec.template for queue in self.lineage() if queue.spec.template is not None), NO_QUOTA)

    def restore_quota(self, quota_override: Resource | None) -> None:
        """Restore an earlier `quota_override`; the counter is rebuilt later."""
        self.quota_override = quota_override

    def lineage(self) -> Iterator[Queue]:
        """Yield the queue and the queues above it, leaf to root."""
        queue: Queue | None = self
        while queue is not None:
            yield queue
            queue = queue.parent

    def below(self) -> Iterator[Queue]:
        """Yield the queue and all queues below it, parents before children, in the order of their names."""
        yield self
        for name in sorted(self.children):
            yield from self.children[name].below()

    def may_submit(self, user: UserGroup) -> bool:
        """Return whether a user may submit applications to the queue, or to a queue that is created below it."""
        return path_allows(
            (acl for queue in self.lineage() for acl in (queue.spec.submit_acl, queue.spec.admin_acl)), user
        )

    def connect(self, layout: Layout, cluster: Resource | None) -> None:
        """Update the counter and the chain of the queue, and of all queues below it, to the configuration.

        Takes time linear in the number of queues, and of the applications below every counter that has to be created.

        Args:
            layout: the resources that are counted.
            cluster: the size of the cluster, which is the maximum of the root; None for no limit.
        """
        limit = self.limit(cluster)
        if limit is None:
            self.counters.pop(self.queue_path, None)
            self.counter = None
        elif self.counter is not None and self.counter.layout is layout:
            self.counter.replace_limit(limit)
        else:
            self.counter = self._counted(Counter(self, self.queue_path, limit, layout))
        above = () if self.parent is None else self.parent.chain
        self.chain = above if self.counter is None else (self.counter, *above)
        for child in self.children.values():
            child.connect(layout, cluster)

    def limit(self, cluster: Resource | None) -> Limit | None:
        """Return the limit of the counter; None if the queue needs no counter."""
        most, applications, guaranteed = self.quota
        if self.parent is None:
            return Limit(cluster or Resource(), applications, closed=cluster is not None, place=self.queue_path)
        if most is None and guaranteed is None and not applications:
            return None
        return Limit(most or Resource(), applications, place=self.queue_path)

    def _counted(self, counter: Counter) -> Counter:
        """Charge a new counter with all running applications below."""
        for held in self.running():
            charge([counter], counter.layout.vector(Resource(held)))
            counter.running += 1
        if counter.running:
            self.counters[self.queue_path] = counter
        else:
            self.counters.pop(self.queue_path, None)
        return counter

    def running(self) -> Iterator[Mapping[str, int]]:
        """Yield the held amounts of every running application in or below the queue."""
        for queue in self.below():
            for tenant in queue.applications.values():
                held = tenant.held()
                if held is not None:
                    yield held

    def usage(self) -> Resource:
        """Return the usage in and below the queue, without zeros; takes time linear in the number of applications."""
        return sum_of(self.running())
