"""What `ugm.testing.PartitionMachine` draws: mostly what fits the things that are there, now and then anything.

What `hypothesis.strategies.runner` draws is the machine itself, so that ids can be those of what the model holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from hypothesis import strategies as st

from ugm import AllocationRequest, Resource
from ugm.testing.partition_model import PartitionModel
from ugm.testing.partition_strategies import ALLOCATIONS, SUBMITTED, allocation_requests
from ugm.testing.strategies import RESOURCES, resources

__all__ = [
    "ALLOCATIONS_THERE",
    "APPLICATIONS_THERE",
    "ASKS",
    "ENDINGS",
    "GANGS",
    "HOMES",
    "NEW_APPLICATIONS",
    "NODES",
    "OFFERS",
    "QUEUES_ADOPTED",
    "QUEUES_ASKED",
    "QUOTAS",
    "TAGS",
    "USAGES",
    "fresh_asks",
    "placeholders",
]


class Driven(Protocol):
    """A machine, as far as drawing goes."""

    model: PartitionModel
    #: The asks so far.
    made: list[AllocationRequest]


_QUEUES_ASKED: tuple[str, ...] = (
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
TAGS: tuple[dict[str, str], ...] = ({}, {"namespace": "ab"}, {"namespace": "b"}, {"namespace": "root.a.b"})
ENDINGS = ("time_out_gang", "time_out_gang", "time_out_gang", "complete", "fail", "remove")
NODES = ("n-1", "n-2", "n-3")

QUOTAS = st.sampled_from(
    [None, None, None, *(Resource(memory=most) for most in (5, 12)), Resource({"nvidia.com/gpu": 4})]
)
OFFERS = resources(largest=60) | resources(("memory", "vcore", "fpga"), smallest=5, largest=60)
#: Now and then something that no limit and perhaps no node names.
USAGES = resources() | resources(largest=3) | resources(largest=3) | resources((*RESOURCES, "fpga"))


def _of(pool: str, otherwise: Sequence[str]) -> st.SearchStrategy[str]:
    """Draw an id: nearly always of something that there is."""

    def draw(machine: Driven) -> st.SearchStrategy[str]:
        known = sorted(getattr(machine.model, pool))
        return _mostly(st.sampled_from(known or otherwise), st.sampled_from(otherwise))

    return st.runner().flatmap(draw)


def _mostly(usual: st.SearchStrategy[Any], rare: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 7).flatmap(lambda drawn: rare if drawn == 7 else usual)  # noqa: PLR2004 - one in eight


def fresh_asks(machine: Driven) -> st.SearchStrategy[AllocationRequest]:
    """Draw an allocation under an id that stands for nothing, of an application that there is."""
    ids = [name for name in ALLOCATIONS if name not in machine.model.held] or ALLOCATIONS
    return st.builds(
        lambda request, allocation_id, application_id: request._replace(
            allocation_id=allocation_id, application_id=application_id
        ),
        allocation_requests(USAGES),
        st.sampled_from(ids),
        APPLICATIONS_THERE,
    )


def _asked(machine: Driven) -> st.SearchStrategy[AllocationRequest]:
    """Draw an allocation; now and then one that was asked before, or anything: schedulers repeat themselves."""
    pending = [AllocationRequest(*one[:3], *one[4:]) for one in machine.model.entries(pending=True)]
    again = st.sampled_from([*pending, *machine.made]) if pending or machine.made else fresh_asks(machine)
    return _mostly(fresh_asks(machine) | fresh_asks(machine) | again, allocation_requests(USAGES))


def placeholders(machine: Driven) -> list[str]:
    """Return the ids of the placeholders that are held."""
    return sorted(one.allocation_id for one in machine.model.entries() if one.placeholder)


def _made_or(otherwise: Sequence[str]) -> st.SearchStrategy[str]:
    """Draw a queue: as often as not one that the configuration does not name."""
    anything = st.sampled_from(otherwise)
    return st.runner().flatmap(
        lambda machine: anything | st.sampled_from(sorted(machine.model.queues.made) or otherwise)
    )


#: What to submit to, and where applications may have been before.
QUEUES_ASKED = _made_or(_QUEUES_ASKED)
QUEUES_ADOPTED = _made_or(_QUEUES_ADOPTED)
HOMES = st.sampled_from(_QUEUES_ADOPTED)
APPLICATIONS_THERE = _of("applications", SUBMITTED)
NEW_APPLICATIONS = st.runner().flatmap(
    lambda machine: st.sampled_from([name for name in SUBMITTED if name not in machine.model.applications] or SUBMITTED)
)
ALLOCATIONS_THERE = _of("held", ALLOCATIONS)
ASKS = st.runner().flatmap(_asked)
GANGS = st.lists(st.runner().flatmap(fresh_asks), max_size=3) | st.lists(ASKS, max_size=3)
