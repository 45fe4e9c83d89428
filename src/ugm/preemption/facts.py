"""The input of a plan as plain data: queues, allocations and the request.

A planner knows no partition. It gets these values, which are copied under the lock of a partition or built by a test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, final

from ugm.resources import Resource

__all__ = [
    "DEFAULT_DELAY",
    "AllocationFacts",
    "PlacedRequest",
    "PreemptionPolicy",
    "PreemptionRequest",
    "QueueFacts",
    "World",
]

#: The delay of preemption if no queue sets one, in seconds.
DEFAULT_DELAY: Final = 30

_NOTHING: Final = Resource()


class PreemptionPolicy(StrEnum):
    """The property ``preemption.policy`` of a queue."""

    #: Neither of the other two. It ends the effect of `DISABLED` from a queue above.
    DEFAULT = "default"
    #: A request from inside the queue preempts nothing outside of it. Not inherited.
    FENCE = "fence"
    #: Nothing in the queue is preempted, nor in queues below that set no policy.
    DISABLED = "disabled"


class QueueFacts(NamedTuple):
    """The settings of a queue that a plan depends on."""

    queue_path: str
    #: A resource that is missing is not limited, unless the maximum is closed.
    maximum: Resource = _NOTHING
    #: Whether a resource that is missing from the maximum is not available, as in a cluster with nodes.
    is_closed: bool = False
    guaranteed: Resource = _NOTHING
    #: None if the queue does not set it.
    policy: PreemptionPolicy | None = None
    #: The property ``preemption.delay`` in seconds; None if the queue does not set it.
    delay: int | None = None
    #: The property ``quota.preemption.delay`` in seconds; 0 if the queue takes no part in reductions.
    reduction_delay: int = 0


class AllocationFacts(NamedTuple):
    """A granted allocation."""

    allocation_id: str
    application_id: str
    queue_path: str
    usage: Resource
    priority: int = 0
    preemptible: bool = True
    is_terminating: bool = False
    #: The node that it runs on; None if it is unknown.
    node: str | None = None


class PlacedRequest(NamedTuple):
    """A request for which an earlier plan made room, and which counts as granted.

    The queues need its queue and usage only. The limits of users, groups and quota models need the rest.
    """

    queue_path: str
    usage: Resource
    allocation_id: str = ""
    application_id: str = ""
    priority: int = 0
    preemptible: bool = True
    #: The promised duration in seconds, if there is one.
    duration: int | None = None
    #: The node that it will run on; None if it is unknown.
    node: str | None = None


class PreemptionRequest(NamedTuple):
    """The request that a plan makes room for."""

    allocation_id: str
    application_id: str
    queue_path: str
    usage: Resource
    priority: int = 0
    #: The time since which the request has been waiting, in seconds.
    since: int = 0
    #: Whether allocations may be evicted for it.
    may_preempt: bool = True


@final
class World(NamedTuple):
    """The queues and allocations of a partition at one moment.

    The order of the queues has no effect. Every parent of a queue is present.
    """

    queues: Sequence[QueueFacts]
    #: In the order of the ledger, oldest first.
    allocations: Sequence[AllocationFacts]
    placed: Sequence[PlacedRequest] = ()
    #: The nodes that the request may run on, with the amounts that are free there; None if nodes do not matter.
    nodes: Mapping[str, Resource] | None = None
