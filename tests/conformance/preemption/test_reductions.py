"""Every recorded reduction: due queues, excess, targets, shares, victims and timers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from support.preemption_cases import world_of
from support.vectors import vectors
from ugm import Resource
from ugm.preemption import QueueFacts, ReductionTimer, World, plan_reductions

FILES: Final = ("preemption/laws", "reduction/yunikorn_quota_change")


def recorded(kind: str) -> list[Any]:
    """Return the recorded cases of a kind as parameters."""
    found = ((name, case) for name in FILES for case in vectors(name))
    return [pytest.param(case, id=f"{name}-{case['id']}") for name, case in found if case["kind"] == kind]


@pytest.mark.parametrize("case", recorded("reduction"))
def test_reduction(case: Mapping[str, Any]) -> None:
    """A plan reduces the recorded queues by the recorded victims."""
    timers = [ReductionTimer(one["queue"], one["since"]) for one in case["timers"]]
    plan = plan_reductions(world_of(case), timers, case["now"], overshoot=case["options"]["overshoot"])

    answer = {
        "due": [one.queue_path for one in plan.queues],
        "plans": {
            one.queue_path: {
                "excess": dict(one.excess),
                "target": dict(one.target),
                "shares": {path: dict(share) for path, share in one.shares.items()},
            }
            for one in plan.queues
            if one.excess
        },
        "victims": [victim.allocation_id for victim in plan.victims],
        "left": {one.queue_path: dict(one.left) for one in plan.queues if one.left},
    }
    assert answer == case["expected"]
    assert plan.is_optimal


def reduced(world: World, queue_path: str, target: Mapping[str, int]) -> Any:  # noqa: ANN401 - the recorded form
    """Return the plan for a queue whose maximum is so low that *target* is its excess."""
    usage = Resource()
    for one in world.allocations:
        if f"{one.queue_path}.".startswith(f"{queue_path}."):
            usage += one.usage
    maximum = Resource({name: usage.get(name, 0) - amount for name, amount in target.items()})
    queues = [
        one._replace(maximum=maximum, reduction_delay=1) if one.queue_path == queue_path else one
        for one in world.queues
    ]
    return plan_reductions(world._replace(queues=queues), [ReductionTimer(queue_path, 0)], now=1)


@pytest.mark.parametrize("case", recorded("excess"))
def test_target(case: Mapping[str, Any]) -> None:
    """The target is the part of the excess that guarantees permit."""
    world = world_of(case)
    queues = [one._replace(reduction_delay=1) for one in world.queues]
    plan = plan_reductions(world._replace(queues=queues), [ReductionTimer(case["queue"], 0)], now=1)

    assert [dict(one.target.without_zeros()) for one in plan.queues] == (
        [case["expected"]["target"]] if plan.queues else []
    )
    assert bool(plan.queues) or not case["expected"]["target"]


@pytest.mark.parametrize("case", recorded("shares"))
def test_shares(case: Mapping[str, Any]) -> None:
    """A target is divided in proportion to what may be taken, in whole units."""
    plan = reduced(world_of(case), case["queue"], case["target"])

    assert {path: dict(share) for path, share in plan.queues[0].shares.items()} == case["expected"]["shares"]


@pytest.mark.parametrize("case", recorded("candidates"))
def test_candidates(case: Mapping[str, Any]) -> None:
    """Preemptible allocations that are not terminating and use a resource of the target may be evicted."""
    world = world_of(case)
    usage = {one.allocation_id: one.usage for one in world.allocations}
    found = set()
    for name, amounts in usage.items():
        # Every allocation alone, in its own world, is evicted if it may be.
        alone = world._replace(allocations=[one for one in world.allocations if one.allocation_id == name])
        target = {resource: amounts.get(resource, 0) for resource in case["target"] or () if amounts.get(resource, 0)}
        if target and reduced(alone, case.get("queue", "root"), target).victims:
            found.add(name)

    assert sorted(found) == sorted(case["expected"]["candidates"] or ())


@pytest.mark.parametrize("case", recorded("clock"))
def test_timer(case: Mapping[str, Any]) -> None:
    """A timer runs while usage is above the maximum and the delay is on, and a restart changes nothing."""
    state = dict(case["start"])
    timers: dict[str, int] = {}
    due = []
    for event in case["events"]:
        state |= {name: value for name, value in event.items() if name in state}
        node = QueueFacts("root", Resource(state["max"] or {}), reduction_delay=state["delay"])
        exceeded = any(state["usage"].get(name, 0) > maximum for name, maximum in node.maximum.items())
        timers = {"root": timers.get("root", event["at"])} if exceeded and node.reduction_delay else {}
        due.append(timers["root"] + node.reduction_delay if timers else None)

    assert due == case["expected"]["due"]
