"""Laws of sharing among elastic groups: true of every tree, and of every order of events."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.elastic_strategies import amounts, counts, sharers, valid_trees
from ugm import Resource
from ugm.elastic import ElasticGroup, ElasticQuota, ElasticTree, Pod, Sharer, SharingResult, share
from ugm.elastic.runtime import FillLevel


def exactly_fair(left: int, needs: dict[str, tuple[int, int]]) -> dict[str, Fraction]:
    """Return the exact weighted max-min fair shares, from weights and needs."""
    gives, rest, whole = {}, Fraction(left), sum(weight for weight, _ in needs.values())
    for name, (weight, need) in sorted(needs.items(), key=lambda one: Fraction(one[1][1], one[1][0])):
        gives[name] = min(Fraction(need), rest * weight / whole)
        rest, whole = rest - gives[name], whole - weight
    return gives


def hungry_of(shared: SharingResult, given: list[Sharer]) -> list[Sharer]:
    """Return the groups with a weight that request more than their share before the rounds."""
    return [one for one in given if one.request > shared.floor[one.name] and one.weight > 0]


@given(counts, sharers())
def test_minimum_is_granted(available: int, given: list[Sharer]) -> None:
    """If the sum of the minimums is available, every group gets its request up to its minimum."""
    shared = share(available, given)

    if available >= sum(one.min for one in given):
        assert all(shared.runtime[one.name] >= min(one.request, one.min) for one in given)


@given(counts, sharers())
def test_nothing_is_left_while_a_group_is_hungry(available: int, given: list[Sharer]) -> None:
    """If something is left over, every group with a weight has its request."""
    shared = share(available, given)

    if shared.unused > 0:
        assert all(shared.runtime[one.name] >= one.request for one in given if one.weight > 0)


@given(counts, sharers())
def test_no_more_than_there_is(available: int, given: list[Sharer]) -> None:
    """With scaling, the sum of the shares never exceeds the available amount."""
    assert share(available, given).unused >= 0


@given(counts, sharers())
def test_only_minimums_exceed_what_there_is(available: int, given: list[Sharer]) -> None:
    """Without scaling, runtimes exceed the available amount only if the minimums do, and nothing is borrowed."""
    shared = share(available, given, scale=False)

    if shared.unused < 0:
        assert sum(shared.floor.values()) > available
        assert shared.runtime == shared.floor


@given(counts, sharers())
def test_fair_up_to_a_unit_for_each_round(available: int, given: list[Sharer]) -> None:
    """Every hungry group gets its exact weighted max-min fair share, up to one unit for each round."""
    shared = share(available, given)
    needs = {one.name: (one.weight, one.request - shared.floor[one.name]) for one in hungry_of(shared, given)}
    left = max(available - sum(shared.floor.values()), 0)

    for name, exact in exactly_fair(left, needs).items():
        assert abs(shared.runtime[name] - shared.floor[name] - exact) <= len(shared.rounds)


pods = st.builds(
    Pod,
    st.uuids().map(str),
    amounts(st.integers(0, 9)),
    st.sampled_from(["g0", "g1", "g2", "g3"]),
    priority=st.integers(0, 3),
    preemptible=st.sampled_from([True, True, False]),
    started=st.none() | st.integers(0, 5),
)


@given(valid_trees(), amounts(st.integers(0, 120)), st.lists(pods, max_size=12, unique_by=lambda pod: pod.name))
def test_revoking_ends_overuse(groups: list[ElasticGroup], total: Resource, running: list[Pod]) -> None:
    """A plan that is carried out leaves no overuse, except of non-preemptible pods."""
    quota = ElasticQuota(ElasticTree(total, groups))
    for pod in running:
        quota.adopt(pod)
    for name in [group.name for group in reversed(groups)]:
        quota.carry_out(quota.plan_revoke(name))
        again = quota.plan_revoke(name)

        # A group that frees a part of what it is over may request less, and so be over again by firm pods below it.
        assert again.victims == () or not again.remaining or quota.tree.node(name).children
        if not any(not pod.preemptible for pod in quota.pods_in(name)) and not quota.tree.node(name).children:
            assert quota.plan_revoke(name).excess == Resource()


@pytest.mark.parametrize("most", [9, 100, 10**9])
def test_level_is_a_close_lower_bound(most: int) -> None:
    """Whatever changed before, the bound of a part is at most the part, also of a larger amount, and close to it."""
    rng = Random(most)
    level, children = FillLevel(), [(rng.randint(1, most), rng.randint(1, most)) for _ in range(6)]
    for child in children:
        level.count(*child, 1)
    for _ in range(300):
        level.count(*children.pop(rng.randrange(6)), -1)
        children.append((rng.randint(1, most), rng.randint(1, most)))
        level.count(*children[-1], 1)
        left = rng.randint(1, sum(need for need, _ in children))
        bounds = [level.least_part(*child, left) for child in children]
        named = {str(place): (weight, need) for place, (need, weight) in enumerate(children)}
        exact = exactly_fair(left, named)
        for amount in (left, left + rng.randint(0, most)):
            shared = share(amount, [Sharer(name, need, 0, weight) for name, (weight, need) in named.items()]).runtime
            assert all(bound <= shared[str(place)] for place, bound in enumerate(bounds))
        assert all(bound >= exact[str(place)] - 6 * 7 - 1 for place, bound in enumerate(bounds))
