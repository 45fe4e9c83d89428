"""The state of queues at one moment, as immutable values for status pages and schedulers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import final

from ugm._config_fields import to_data
from ugm.queues.queue import Queue
from ugm.resources import Resource, as_float, sum_of

__all__ = ["QueueState", "queue_state"]


@final
@dataclass(frozen=True, slots=True)
class QueueState:
    """The state of one queue at one moment, with the queues below it."""

    queue_path: str
    #: True if applications may be submitted to it.
    is_leaf: bool
    #: True if the configuration names it; otherwise placement has created it, or it is draining.
    is_managed: bool
    #: True if it accepts no more applications, see ``Queue.draining``.
    is_draining: bool
    #: Its own maximum, which for the root is the size of the cluster; None for no limit.
    max_resources: Resource | None
    #: 0 for no limit.
    max_applications: int
    guaranteed: Resource | None
    #: The usage in and below it, without zeros.
    usage: Resource
    #: The number of applications that run in and below it.
    running_applications: int
    #: The ids of the applications that were submitted to it and have not ended, sorted.
    applications: tuple[str, ...]
    #: Sorted by path.
    children: tuple[QueueState, ...] = ()

    @property
    def share(self) -> Fraction | None:
        """The largest fraction of usage and guarantee over all guaranteed resources; None without a guarantee.

        A scheduler that serves the queue with the smallest share first gives every queue its guarantee before any
        queue gets more.
        """
        shares = [Fraction(self.usage.get(name, 0), most) for name, most in (self.guaranteed or {}).items() if most]
        return max(shares, default=None)

    def walk(self) -> Iterator[QueueState]:
        """Yield the queue and all queues below it, parents before children."""
        yield self
        for child in self.children:
            yield from child.walk()

    def to_dict(self) -> dict[str, object]:
        """Return the queue for JSON, with the names of the attributes and the share as a decimal number."""
        shown = {each.name: to_data(getattr(self, each.name)) for each in fields(self)}
        children = [child.to_dict() for child in self.children]
        return {**shown, "children": children, "share": None if self.share is None else as_float(self.share)}


def queue_state(queue: Queue, cluster: Resource | None, *, alone: bool = False) -> QueueState:
    """Return the current state of a queue; takes time linear in the number of its applications.

    Args:
        queue: the queue.
        cluster: the size of the cluster, which is the maximum of the root; None for no limit.
        alone: if true, leave out the queues below and their usage.
    """
    below = () if alone else sorted(queue.children)
    children = tuple(queue_state(queue.children[name], cluster) for name in below)
    running = [held for held in (tenant.held() for tenant in queue.applications.values()) if held is not None]
    quota = queue.quota
    return QueueState(
        queue_path=queue.queue_path,
        is_leaf=queue.is_leaf,
        is_managed=queue.managed,
        is_draining=queue.draining,
        max_resources=cluster if queue.parent is None else quota.max_resources,
        max_applications=quota.max_applications,
        guaranteed=quota.guaranteed,
        usage=sum_of((*running, *(child.usage for child in children))),
        running_applications=len(running) + sum(child.running_applications for child in children),
        applications=tuple(sorted(queue.applications)),
        children=children,
    )
