"""Budgets: scenarios with every decision and every account after each step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from support.vectors import cases, vectors
from ugm import Decision, Partition, Resource, UserGroup, parse_config
from ugm.budgets import Budget, BudgetMode, Budgets, BudgetViolation, Carry, Period
from ugm.model import BudgetChange

ALL = vectors("budgets/budgets")
CONFIG = parse_config(
    "partitions: [{queues: [{name: root}], placementrules: [{name: provided, create: true}]}]"
).partition()


def budget_of(given: Mapping[str, Any]) -> Budget:
    """Return a recorded budget."""
    owner = {} if given["scope"] == "queue" else {given["scope"]: given["name"]}
    return Budget(
        given["id"],
        amounts=Resource(given["amounts"]),
        queue=given["queue"],
        period=Period(given["period"]),
        carry=Carry(given["carry"]),
        cap=Resource(given["cap"]),
        mode=BudgetMode(given["mode"]),
        **owner,
    )


class Play:
    """A scenario in a partition whose clock is that of the steps."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        self.now = case["start"]
        self.budgets = Budgets(map(budget_of, case["budgets"]), start=case["start"])
        self.partition = Partition(CONFIG, models=[self.budgets], clock=lambda: self.now)
        # A step may be earlier than the start, so the clock is read before.
        self.partition.verify()

    def application(self, step: Mapping[str, Any]) -> str:
        """Submit the application of a step, and return its id. Only leaf queues take applications."""
        name = f"{step['user']}/{step['group']}/{step['queue']}"
        self.partition.submit(name, UserGroup(step["user"], filter(None, [step["group"]])), f"{step['queue']}.leaf")
        return name

    def run(self, step: Mapping[str, Any]) -> Decision:
        """Execute a step, and return the decision."""
        self.now = step["at"]
        match step["op"]:
            case "allocate" | "adopt" as operation:
                arguments = step["id"], self.application(step), Resource(step["usage"])
                found = getattr(self.partition, operation)(*arguments, duration=step["lasts"])
                return found if operation == "allocate" else Decision()
            case "release":
                self.partition.release(step["id"])
            case "resize":
                return self.partition.resize(step["id"], Resource(step["usage"]))
            case "set":
                # The time of the model is that of the last call.
                self.partition.verify()
                self.budgets.change(BudgetChange.set(step["budget"], Resource(step["amounts"])))
            case "read":
                pass
        return Decision()


@pytest.mark.parametrize("case", cases(ALL, name="id", sample=4))
def test_scenario(case: Mapping[str, Any]) -> None:
    """Decisions, violations with their class, and accounts are the recorded ones after each step."""
    play = Play(case)
    for step, expected in zip(case["steps"], case["expect"], strict=True):
        decision = play.run(step)
        assert decision.allowed == expected["allowed"], step
        if not decision:
            assert [_plain(one) for one in decision.violations] == expected["violations"], step
            assert ("wait" if decision.can_wait else "never") == expected["class"], step
        play.partition.verify()
        accounts = {(one.budget, one.owner, one.resource): one for one in play.budgets.accounts()}
        for *key, limit, settled, committed, remaining, renews in expected["accounts"]:
            found = accounts.get(tuple(key)) or _unseen(play.budgets, key)
            assert found[3:8] == (limit, settled, committed, remaining, renews), (step, key)


def _plain(violation: Any) -> list[Any]:  # noqa: ANN401 - of a budget
    assert isinstance(violation, BudgetViolation)
    return [violation.name, violation.limit_name, violation.resource, "wait" if violation.can_wait else "never"]


def _unseen(budgets: Budgets, key: list[str]) -> Any:  # noqa: ANN401 - an account
    """Return an account to which nothing was charged."""
    found = budgets.accounts(UserGroup(key[1]))
    return next(one for one in found if [*one[:3]] == key)
