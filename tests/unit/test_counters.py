"""The kernel: counters, chains, check and charge."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ugm import RequestError, Resource, TrackingType
from ugm.counters import UNLIMITED, Counter, Layout, Limit, charge, fits, fits_one_more, refund, try_charge
from ugm.decision import exceeded
from ugm.testing import resources

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


def used(subject: Counter) -> dict[str, int]:
    """Return the usage of each counted resource, without zeros."""
    return {name: amount for name, amount in subject.used().items() if amount}


vectors = resources(NAMES)
chains = st.lists(resources(NAMES, largest=20), min_size=1, max_size=4)


@given(chains, vectors)
def test_fits_if_every_limit_leaves_it(limits: list[Resource], usage: Resource) -> None:
    """A request fits a chain exactly if no counter limits a requested resource to less."""
    layout = Layout(NAMES)
    chain = [counter(limit, layout) for limit in limits]
    expected = all(amount <= limit.get(name, amount) for limit in limits for name, amount in usage.items() if amount)

    assert fits(chain, layout.vector(usage)) is expected


@given(chains, vectors)
def test_admit_charges_all_or_none(limits: list[Resource], usage: Resource) -> None:
    """Every counter is charged if the request fits all of them, and none otherwise."""
    layout = Layout(NAMES)
    chain = [counter(limit, layout) for limit in limits]
    admitted = try_charge(chain, chain, layout.vector(usage))
    expected = dict(usage.without_zeros()) if admitted else {}

    assert admitted is fits([counter(limit, layout) for limit in limits], layout.vector(usage))
    assert [used(subject) for subject in chain] == [expected] * len(chain)


@given(chains, vectors, vectors)
def test_refund_undoes_charge(limits: list[Resource], usage: Resource, other: Resource) -> None:
    """A refund restores every counter exactly, whether or not the charge fitted."""
    layout = Layout(NAMES)
    chain = [counter(limit, layout) for limit in limits]
    charge(chain, layout.vector(other))
    before = [used(subject) for subject in chain]
    charge(chain, layout.vector(usage))
    refund(chain, layout.vector(usage))

    assert [used(subject) for subject in chain] == before == [dict(other.without_zeros())] * len(chain)


@given(chains, vectors, resources(NAMES, largest=20))
def test_another_limit_keeps_the_usage(limits: list[Resource], usage: Resource, limit: Resource) -> None:
    """Replacing a limit changes the free amount, not the used amount."""
    layout = Layout(NAMES)
    for first in limits:
        subject = counter(first, layout)
        charge([subject], layout.vector(usage))
        subject.replace_limit(Limit(limit))

        assert used(subject) == dict(usage.without_zeros())
        assert all(subject.free(name) == most - usage.get(name, 0) for name, most in limit.items())


def test_counted_without_being_held() -> None:
    """A counter that is charged but not checked denies nothing."""
    layout = Layout()
    held, counted = counter(Resource(memory=9), layout), counter(Resource(memory=1), layout)

    assert try_charge([held], [held, counted], layout.vector(Resource(memory=5)))
    assert counted.free("memory") == -4


def test_naming_a_resource_and_asking_nothing_of_it_is_looked_at_again() -> None:
    """A request of 0 of a resource over its limit is compared limit by limit: only a queue denies it."""
    layout = Layout(NAMES)
    subject = counter(Resource(memory=1, vcore=1, gpu=1), layout)
    charge([subject], layout.vector(Resource(memory=5, gpu=5)))

    assert not fits([subject], layout.vector(Resource(memory=0, vcore=1)))
    assert exceeded([subject], layout.vector(Resource(memory=0, vcore=1, gpu=0))) == ()


def test_what_no_limit_names_is_not_counted() -> None:
    """Resources that are not in the layout are not counted."""
    layout = Layout(["gpu"])
    subject = counter(Resource(gpu=1), layout)

    assert try_charge([subject], [subject], layout.vector(Resource(pods=10**6)))
    assert used(subject) == {}


def test_not_limited_is_counted_exactly() -> None:
    """The usage of a resource that a counter does not limit is exact, at any size."""
    layout = Layout()
    subject = counter(Resource(memory=1), layout)
    charge([subject], layout.vector(Resource(vcore=UNLIMITED + 7)))

    assert used(subject) == {"vcore": UNLIMITED + 7}


@pytest.mark.parametrize("amount", [2**128, 2**256, 2**256 + 1, 2**256 + 2, 2**300])
@pytest.mark.parametrize("name", ["memory", "vcore", "gpu"])
def test_no_amount_is_too_large_to_deny(name: str, amount: int) -> None:
    """A limit denies any larger amount, and the reported amounts are exact."""
    layout = Layout(["gpu"])
    subject = counter(Resource({name: 1}), layout)

    assert not fits([subject], layout.vector(Resource({name: amount})))
    assert [each.requested for each in exceeded([subject], layout.vector(Resource({name: amount})))] == [amount]


def test_one_more_application() -> None:
    """An application fits until the maximum number runs; 0 is no limit."""
    layout = Layout()
    subject = counter(Resource(), layout, applications=1)

    assert fits_one_more([subject])
    subject.running = 1
    assert not fits_one_more([counter(Resource(), layout), subject])
    subject.replace_limit(Limit(Resource(), 0))
    assert fits_one_more([subject])


@pytest.mark.parametrize("name", ["memory", "vcore", "gpu", "pods"])
def test_negative_requests_are_refused(name: str) -> None:
    """A negative request is refused, for every resource."""
    with pytest.raises(RequestError) as caught:
        Layout(["gpu"]).vector(Resource({name: -1}))

    assert str(caught.value).endswith(f": the amount of {name} is negative")
