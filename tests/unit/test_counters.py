"""The kernel: counters, chains, check and charge."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from ugm import Resource, TrackingType
from ugm.counters import Counter, Layout, Limit, charge, fits
from ugm.decision import exceeded

NAMES = ("memory", "vcore", "gpu", "pods")


@dataclass
class Team:
    """An owner of counters."""

    kind: TrackingType = TrackingType.GROUP
    name: str = "dev"
    counters: dict[str, Counter] = field(default_factory=dict)


def counter(limit: Resource, layout: Layout, applications: int = 0) -> Counter:
    """Return a counter without usage."""
    return Counter(Team(), "root", Limit(limit, applications), layout)


def test_naming_a_resource_and_asking_nothing_of_it_is_looked_at_again() -> None:
    """A request of 0 of a resource over its limit is compared limit by limit: only a queue denies it."""
    layout = Layout(NAMES)
    subject = counter(Resource(memory=1, vcore=1, gpu=1), layout)
    charge([subject], layout.vector(Resource(memory=5, gpu=5)))

    assert not fits([subject], layout.vector(Resource(memory=0, vcore=1)))
    assert exceeded([subject], layout.vector(Resource(memory=0, vcore=1, gpu=0))) == ()


@pytest.mark.parametrize("amount", [2**128, 2**256, 2**256 + 1, 2**256 + 2, 2**300])
@pytest.mark.parametrize("name", ["memory", "vcore", "gpu"])
def test_no_amount_is_too_large_to_deny(name: str, amount: int) -> None:
    """A limit denies any larger amount, and the reported amounts are exact."""
    layout = Layout(["gpu"])
    subject = counter(Resource({name: 1}), layout)

    assert not fits([subject], layout.vector(Resource({name: amount})))
    assert [each.requested for each in exceeded([subject], layout.vector(Resource({name: amount})))] == [amount]
