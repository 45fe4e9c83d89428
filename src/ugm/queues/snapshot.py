"""Queues as they were at one moment: frozen values for people, pages and schedulers that order queues."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from ugm.queues.queue import Queue
from ugm.resources import Resource, as_float, sum_of

__all__ = ["QueueState", "queue_state"]


class QueueState(NamedTuple):
    """One queue at one moment, with the queues below it."""

    queue_path: str
    #: Whether applications may be submitted to it.
    is_leaf: bool
    #: Whether the configuration names it; otherwise placement has created it, or it is draining.
    is_managed: bool
    #: Whether it takes no more applications, because it has left the configuration.
    is_draining: bool
    #: The most that may be used in and below it, the queues above apart; None for no limit. The root's is the cluster.
    max_resources: Resource | None
    #: 0 for no limit.
    max_applications: int
    guaranteed: Resource | None
    #: What is used in and below it, without zeros.
    usage: Resource
    #: How many applications run in and below it.
    running_applications: int
    #: The applications that were submitted to it and have not ended, running or not, sorted.
    applications: tuple[str, ...]
    #: Sorted by path.
    children: tuple[QueueState, ...] = ()

    @property
    def share(self) -> Fraction | None:
        """How much of its guarantee the queue uses: the largest fraction over all guaranteed resources.

        None where nothing is guaranteed. A scheduler that serves the queue with the smallest share first gives every
        queue what it is guaranteed before any gets more.
        """
        shares = [Fraction(self.usage.get(name, 0), most) for name, most in (self.guaranteed or {}).items() if most]
        return max(shares, default=None)

    def walk(self) -> Iterator[QueueState]:
        """Yield the queue and all queues below it, parents before children."""
        yield self
        for child in self.children:
            yield from child.walk()

    def to_dict(self) -> dict[str, Any]:
        """Return the queue for JSON, in the same words as its attributes, with the share as a decimal number."""
        amounts = ("max_resources", "guaranteed", "usage")
        told = {name: None if value is None else dict(value) for name in amounts for value in [getattr(self, name)]}
        share = None if self.share is None else as_float(self.share)
        children = [child.to_dict() for child in self.children]
        return {**self._asdict(), **told, "share": share, "applications": list(self.applications), "children": children}


def queue_state(queue: Queue, cluster: Resource | None, *, alone: bool = False) -> QueueState:
    """Return a queue as it is now; takes time in the number of applications there.

    Args:
        queue: the queue.
        cluster: what the root may use; None for no limit.
        alone: whether the queues below it, and what is used there, are left out.
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
