"""Every recorded plan for a request: outcome, victims, cost, and the law that protects each other allocation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest

from support.preemption_cases import request_of, world_of
from support.vectors import vectors
from ugm import Resource
from ugm.identity import ancestors
from ugm.preemption import (
    AllocationFacts,
    Outcome,
    PreemptionPlan,
    PreemptionPolicy,
    PreemptionRequest,
    QueueFacts,
    World,
    plan_preemption,
)
from ugm.preemption.eligibility import PreemptionProtection, Situation
from ugm.preemption.queue_usage_tree import QueueUsageTree
from ugm.resources import sum_of

FILES: Final = ("laws", "yunikorn_guarantee", "yarn_capacity")
#: The outcomes and laws that have another name in the recorded answers.
RECORDED: Final[Mapping[str, str]] = {
    Outcome.AWAITS_TERMINATING: "awaits_going",
    Outcome.MUST_NOT_PREEMPT: "unwilling",
    PreemptionProtection.TERMINATING: "going",
    PreemptionProtection.NOT_PREEMPTIBLE: "opted_out",
    PreemptionProtection.SAME_APPLICATION: "application",
    PreemptionProtection.FREES_NOTHING: "useless",
    PreemptionProtection.NOT_ENTITLED: "unclaimed",
    PreemptionProtection.NOT_NEEDED: "spared",
}


def recorded(kind: str) -> list[Any]:
    """Return the recorded cases of a kind as parameters."""
    found = ((name, case) for name in FILES for case in vectors(f"preemption/{name}"))
    return [pytest.param(case, id=f"{name}-{case['id']}") for name, case in found if case["kind"] == kind]


def answer(plan: PreemptionPlan) -> dict[str, Any]:
    """Return a plan in the form of the recorded answers."""
    cost = plan.cost
    return {
        "outcome": RECORDED.get(plan.outcome, plan.outcome),
        "due": plan.due,
        "victims": [victim.allocation_id for victim in plan.victims],
        "count": cost and cost.count,
        "waste": cost and str(cost.waste),
        "others": {name: RECORDED.get(law, law) for name, law in plan.others.items()},
    }


@pytest.mark.parametrize("case", recorded("ask"))
def test_plan(case: Mapping[str, Any]) -> None:
    """A plan has the recorded victims, and protects every other allocation for the recorded reason."""
    plan = plan_preemption(world_of(case), request_of(case), case["now"])

    expected = case["expected"]
    assert {name: answer(plan)[name] for name in expected} == expected
    assert plan.is_optimal


def situation_of(case: Mapping[str, Any], requesting: str) -> Situation:
    """Return what a request of a queue for one unit of everything would see, in a cluster that is full."""
    usage, guaranteed = case["usage"], case["guaranteed"]
    named = (*usage, *guaranteed, requesting, case["seen_from"])
    paths = {path for name in named for path in ancestors(name)}
    resources = {name for amounts in (*usage.values(), *guaranteed.values()) for name in amounts}
    full = Resource(dict.fromkeys(resources, 0))
    queues = [
        QueueFacts(path, full if path == "root" else Resource(), guaranteed=Resource(guaranteed.get(path) or {}))
        for path in paths
    ]
    allocations = [
        AllocationFacts(path, "app", path, Resource(usage[path]) - below(usage, path)) for path in sorted(usage)
    ]
    one_of_each = Resource(dict.fromkeys(resources, 1))
    request = PreemptionRequest("ask", "asking", requesting, one_of_each)
    return Situation(QueueUsageTree(World(queues, allocations)), request)


def below(usage: Mapping[str, Any], path: str) -> Resource:
    """Return the usage of the queues directly below a queue."""
    return sum_of(amounts for name, amounts in usage.items() if name.rpartition(".")[0] == path)


def without_empty(amounts: Mapping[str, Mapping[str, int] | None]) -> dict[str, dict[str, int]]:
    """Return the amounts of each queue that has some. A recorded answer may also name the other queues."""
    return {path: dict(one) for path, one in amounts.items() if one}


@pytest.mark.parametrize("case", recorded("standing"))
def test_room_below_guarantees(case: Mapping[str, Any]) -> None:
    """A queue has as much room as the fullest guarantee between it and the victim leaves."""
    room = {}
    for path in case["guaranteed"]:
        situation = situation_of(case, path)
        level = situation.roles[case["seen_from"]].level
        claims = {name: situation.claims_to(level, [name]) for name in situation.request.usage}
        room[path] = {
            name: 1 - max(map(situation.claims.__getitem__, found)) for name, found in claims.items() if found
        }

    assert without_empty(room) == without_empty(case["expected"]["room"])


@pytest.mark.parametrize("case", recorded("above"))
def test_amounts_above_guarantees(case: Mapping[str, Any]) -> None:
    """A queue may lose the least that it and the queues above it hold above their guarantees."""
    situation = situation_of(case, case["seen_from"])
    expected = case["expected"]["above"]
    found = {}
    for path in expected:
        node = situation.tree.nodes.get(path)
        least = dict(node.kept) if node else {}
        for point in situation.roles[path].bounds if node else ():
            least[point[1]] = min(least.get(point[1], 0), situation.bounds[point])
        found[path] = {name: amount for name, amount in least.items() if amount > 0}

    assert without_empty(found) == without_empty(expected)


class Rebalancing:
    """Pending requests of one size that are placed one after the other, by plans where they do not fit.

    Args:
        case: the recorded case.
        order: the leaves, the one whose allocations are the oldest first.
    """

    def __init__(self, case: Mapping[str, Any], order: Iterable[str]) -> None:
        self.unit = case["unit"]
        self.queues = [
            QueueFacts(
                one["path"],
                Resource(r=one["max"]),
                guaranteed=Resource(r=one["guaranteed"]),
                policy=PreemptionPolicy(one["preemption"]) if "preemption" in one else None,
            )
            for one in case["tree"]
        ]
        self.guaranteed = {one["path"]: one["guaranteed"] for one in case["tree"]}
        self.pending = dict(case["pending"])
        kept_back = case.get("kept_back", {})
        self.allocations = [
            AllocationFacts(
                f"{application}-{number}",
                application,
                leaf,
                Resource(r=self.unit),
                preemptible=number >= kept_back.get(leaf, {}).get(application, 0) // self.unit,
            )
            for leaf in order
            for application, amount in case["held"][leaf].items()
            for number in range(amount // self.unit)
        ]
        self.taken: list[AllocationFacts] = []

    def run(self) -> None:
        """Place requests until none has a plan."""
        while any(self._place(leaf) for leaf in sorted(self.pending)):
            pass

    def _place(self, leaf: str) -> bool:
        held = sum(self.unit for one in self.allocations if one.queue_path == leaf)
        if self.pending[leaf] < self.unit or held + self.unit > self.guaranteed[leaf]:
            return False
        request = PreemptionRequest(f"new-{leaf}-{self.pending[leaf]}", "new", leaf, Resource(r=self.unit))
        plan = plan_preemption(World(self.queues, self.allocations), request, now=30)
        if plan.outcome not in {Outcome.FITS, Outcome.PLAN}:
            return False
        victims = {victim.allocation_id for victim in plan.victims}
        self.taken += [one for one in self.allocations if one.allocation_id in victims]
        granted = AllocationFacts(request.allocation_id, "new", leaf, request.usage, preemptible=False)
        self.allocations = [one for one in self.allocations if one.allocation_id not in victims] + [granted]
        self.pending[leaf] -= self.unit
        return True

    def by_queue(self) -> Counter[str]:
        """Return the amount that was taken from each leaf."""
        return Counter(dict.fromkeys({one.queue_path for one in self.taken}, 0)) + Counter(
            one.queue_path for one in self.taken for _ in range(self.unit)
        )


def rebalancings() -> list[Any]:
    """Return the recorded rebalancings; those of large clusters are ``deep``."""
    return [
        pytest.param(*one.values, id=one.id, marks=pytest.mark.deep if one.values[0]["tree"][0]["max"] > 500 else ())
        for one in recorded("rebalance")
    ]


@pytest.mark.parametrize("case", rebalancings())
def test_rebalancing(case: Mapping[str, Any]) -> None:
    """Requests below their guarantees take the recorded amounts from the queues above theirs."""
    expected = case["expected"]
    leaves = list(case["held"])
    bounds: dict[str, list[int]] = {}
    for leaf in leaves:
        rest = [one for one in leaves if one != leaf]
        taken = []
        # The oldest allocations are the last victims, and the youngest the first.
        for order in ([leaf, *rest], [*rest, leaf]):
            rebalancing = Rebalancing(case, order)
            rebalancing.run()
            assert [len(rebalancing.taken) * case["unit"]] == expected["total_taken"]
            taken.append(rebalancing.by_queue()[leaf])
            by_application = Counter(one.application_id for one in rebalancing.taken)
            fixed = {name: by_application[name] * case["unit"] for name in expected["by_application"]}
            assert fixed == expected["by_application"]
        bounds[leaf] = taken

    assert {leaf: pair for leaf, pair in bounds.items() if pair[1]} == expected["taken_from"]
