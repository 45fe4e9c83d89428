"""The strategies of `ugm.testing.PartitionMachine`: mostly existing objects, and sometimes arbitrary values.

`hypothesis.strategies.runner` draws the machine itself, so that the strategies can use the ids in the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from hypothesis import strategies as st

from ugm import AllocationRequest, Resource
from ugm.testing.partition_model import PartitionModel
from ugm.testing.strategies import ALLOCATIONS, RESOURCES, SUBMITTED, allocation_requests, resources


class Driven(Protocol):
    """The part of a machine that the strategies use."""

    model: PartitionModel
    #: The earlier requests.
    made: list[AllocationRequest]


_T = TypeVar("_T")

_QUEUES_REQUESTED: tuple[str, ...] = (
    "",
    "root.a",
    "root.b",
    "root.ab",
    "root.a.b",
    "Root.A.AB",
    "b",
    "x.y",
    "root",
    "no queue",
    "root.b.a.ab",
)
_QUEUES_ADOPTED: tuple[str, ...] = ("root.a", "root.b", "root.b.ab", "Root.AB", "root.a.b.ab")
_TAGS: tuple[dict[str, str], ...] = ({}, {"namespace": "ab"}, {"namespace": "b"}, {"namespace": "root.a.b"})
TAGS = st.sampled_from(_TAGS)
ENDINGS = st.sampled_from(("time_out_gang", "time_out_gang", "time_out_gang", "complete", "fail", "remove"))
NODES = st.sampled_from(("n-1", "n-2", "n-3"))

QUOTAS = st.sampled_from(
    [None, None, None, *(Resource(memory=most) for most in (5, 12)), Resource({"nvidia.com/gpu": 4})]
)
OFFERS = resources(largest=60) | resources(("memory", "vcore", "fpga"), smallest=5, largest=60)
#: Sometimes a resource without limits, and possibly without nodes.
USAGES = resources() | resources(largest=3) | resources(largest=3) | resources((*RESOURCES, "fpga"))


def _of(pool: str, otherwise: Sequence[str]) -> st.SearchStrategy[str]:
    """Draw an id, mostly of an existing object."""

    def draw(machine: Driven) -> st.SearchStrategy[str]:
        known = sorted(getattr(machine.model, pool))
        return _mostly(st.sampled_from(known or otherwise), st.sampled_from(otherwise))

    return st.runner().flatmap(draw)


def _mostly(frequent: st.SearchStrategy[_T], rare: st.SearchStrategy[_T]) -> st.SearchStrategy[_T]:
    return st.integers(0, 7).flatmap(lambda drawn: rare if drawn == 7 else frequent)  # noqa: PLR2004 - one in eight


def _fresh_ask(machine: Driven) -> st.SearchStrategy[AllocationRequest]:
    """Draw an allocation with an unused id, of an existing application."""
    ids = [name for name in ALLOCATIONS if name not in machine.model.held] or ALLOCATIONS
    return st.builds(
        lambda request, allocation_id, application_id: request._replace(
            allocation_id=allocation_id, application_id=application_id
        ),
        allocation_requests(USAGES),
        st.sampled_from(ids),
        APPLICATIONS_THERE,
    )


def _request(machine: Driven) -> st.SearchStrategy[AllocationRequest]:
    """Draw an allocation; sometimes an earlier request, as schedulers repeat requests, or an arbitrary one."""
    pending = [
        AllocationRequest(*one[:3], *one[4:7], one.duration, one.node) for one in machine.model.entries(pending=True)
    ]
    again = st.sampled_from([*pending, *machine.made]) if pending or machine.made else _fresh_ask(machine)
    return _mostly(_fresh_ask(machine) | _fresh_ask(machine) | again, allocation_requests(USAGES))


def placeholders(machine: Driven) -> list[str]:
    """Return the ids of the held placeholders."""
    return sorted(one.allocation_id for one in machine.model.entries() if one.placeholder)


def _made_or(otherwise: Sequence[str]) -> st.SearchStrategy[str]:
    """Draw a queue, half of the time a dynamic one."""
    anything = st.sampled_from(otherwise)
    return st.runner().flatmap(
        lambda machine: anything | st.sampled_from(sorted(machine.model.queues.made) or otherwise)
    )


#: Queues for submissions and for adoptions.
QUEUES_REQUESTED = _made_or(_QUEUES_REQUESTED)
QUEUES_ADOPTED = _made_or(_QUEUES_ADOPTED)
HOMES = st.sampled_from(_QUEUES_ADOPTED)
APPLICATIONS_THERE = _of("applications", SUBMITTED)
NEW_APPLICATIONS = st.runner().flatmap(
    lambda machine: st.sampled_from([name for name in SUBMITTED if name not in machine.model.applications] or SUBMITTED)
)
ALLOCATIONS_THERE = _of("held", ALLOCATIONS)
ASKS = st.runner().flatmap(_request)
FRESH_ASKS = st.runner().flatmap(_fresh_ask)
GANGS = st.lists(FRESH_ASKS, max_size=3) | st.lists(ASKS, max_size=3)
