"""Budgets that the configuration of a partition declares, and changes of them by an operator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from support.declared_models import BY_QUEUE, ELASTIC, GROUPS, TREE
from ugm import Partition, RequestError, Resource, UserGroup
from ugm.budgets import BudgetChange
from ugm.configuration import BudgetConfig, ElasticConfig, Extensions, PartitionConfig, QueueConfig
from ugm.events import BudgetChanged, Event

HOUR, DAY = 3600, 86_400
#: November 23, 2026, at noon in UTC.
NOON = 1_795_435_200
SUE = UserGroup("sue", ("lab",))


def gpu(amount: int) -> Resource:
    """Return some GPUs."""
    return Resource(gpu=amount)


def declaring(*budgets: BudgetConfig, **extensions: Any) -> PartitionConfig:  # noqa: ANN401 - of `Extensions`
    """Return a configuration with the queues ``a`` and ``b``, and some budgets."""
    return PartitionConfig(queues=(QueueConfig("a"), QueueConfig("b")), ugm=Extensions(budgets=budgets, **extensions))


def lab(hours: int = 10, **options: Any) -> BudgetConfig:  # noqa: ANN401 - of `BudgetConfig`
    """Return a budget of GPU hours of a group in a month."""
    return BudgetConfig("lab", group="lab", amounts=gpu(hours), unit="hour", **{"period": "month", **options})


class Setting:
    """A partition with declared budgets, whose clock is set."""

    def __init__(self, *budgets: BudgetConfig, **extensions: Any) -> None:  # noqa: ANN401 - of `Extensions`
        self.now, self.events = NOON, list[Event]()
        self.partition = Partition(declaring(*budgets, **extensions), subscribers=[self.note], clock=lambda: self.now)
        for queue in ("a", "b"):
            self.partition.submit(queue, SUE, f"root.{queue}")

    def note(self, _first: int, events: Iterable[Event]) -> None:
        """Collect the events."""
        self.events += events

    def remaining(self) -> dict[tuple[str, str], int | Fraction]:
        """Return the hours that remain in each account now."""
        self.partition.verify()
        return {(one.budget, one.owner): Fraction(one.remaining) / HOUR for one in self.partition.budget_accounts()}


def test_groups_and_nodes_have_budgets() -> None:
    """A budget of an elastic group or of a quota node counts everything in it and below."""
    parent = GROUPS[0].__class__("all", is_parent=True, min=gpu(8), max=gpu(8))
    elastic = ElasticConfig(groups=(parent, *(replace(one, parent="all") for one in GROUPS)), group_by=BY_QUEUE)
    budgets = (
        BudgetConfig("group", elastic_group="a", amounts=gpu(10), unit="hour"),
        BudgetConfig("parent", elastic_group="all", amounts=gpu(10), unit="hour"),
        BudgetConfig("node", quota_node="t/b", amounts=gpu(10), unit="hour"),
        BudgetConfig("root", quota_node="t/root", amounts=gpu(10), unit="hour"),
    )
    setting = Setting(*budgets, elastic=elastic, quota_trees=(TREE,))
    assert setting.partition.allocate("0", "a", gpu(1), duration=HOUR)
    assert setting.partition.allocate("1", "b", gpu(2), duration=HOUR)

    assert setting.remaining() == {("group", "a"): 9, ("parent", "all"): 7, ("node", "t/b"): 8, ("root", "t/root"): 7}
    setting.partition.configure(declaring(*budgets, elastic=ELASTIC, quota_trees=(TREE,)))
    setting.partition.configure(declaring(*budgets[2:], quota_trees=(TREE,)))
    assert setting.remaining() == {("node", "t/b"): 8, ("root", "t/root"): 7}


# Changes by an operator


def test_changes_by_an_operator() -> None:
    """Budgets are set, refilled and moved, each with an event that has the reason."""
    setting = Setting(lab(), BudgetConfig("each", user="*", amounts=gpu(1), unit="hour"))
    changes = [
        BudgetChange.set("lab", gpu(20 * HOUR), reason="ticket 7"),
        BudgetChange.refill("each", gpu(4 * HOUR), owner="sue"),
        BudgetChange.transfer("lab", "each", gpu(2 * HOUR), recipient_owner="sue"),
    ]

    assert all(map(setting.partition.change_budget, changes))
    assert setting.remaining() == {("lab", "lab"): 18, ("each", "sue"): 7}
    assert [one.change for one in setting.events if isinstance(one, BudgetChanged)] == changes


def test_a_repeated_change_has_no_effect() -> None:
    """A change with an id is made once, and its id belongs to it."""
    setting = Setting(lab())
    change = BudgetChange.refill("lab", gpu(HOUR), change_id="x")

    assert [setting.partition.change_budget(change) for _ in range(2)] == [True, False]
    setting.partition.configure(declaring(lab(11)))
    assert not setting.partition.change_budget(change)
    assert setting.remaining() == {("lab", "lab"): 12}
    with pytest.raises(RequestError, match="another change had this id"):
        setting.partition.change_budget(change._replace(reason="another one"))


@pytest.mark.parametrize(
    "change",
    [
        BudgetChange.set("none", gpu(1)),
        BudgetChange.set("lab", Resource(vcore=1)),
        BudgetChange.refill("lab", Resource(vcore=1)),
        BudgetChange.refill("lab", gpu(1), owner="ops"),
        BudgetChange.refill("each", gpu(1)),
        BudgetChange.transfer("lab", "none", gpu(1)),
        BudgetChange.transfer("lab", "lab", gpu(1)),
        BudgetChange.transfer("lab", "each", gpu(99 * HOUR), recipient_owner="sue"),
        BudgetChange.set("lab", gpu(1))._replace(owner="lab"),
        BudgetChange.refill("lab", gpu(1))._replace(recipient="each"),
        BudgetChange.transfer("lab", "each", gpu(1))._replace(recipient=""),
        BudgetChange.refill("lab", gpu(1))._replace(reason="x" * 1001),
        ("refill", "lab", gpu(1)),
    ],
    ids=str,
)
def test_an_invalid_change_has_no_effect(change: Any) -> None:  # noqa: ANN401 - a wrong argument
    """A change that is refused leaves all accounts as they are."""
    setting = Setting(lab(), BudgetConfig("each", user="*", amounts=gpu(1), unit="hour"))
    with pytest.raises(RequestError):
        setting.partition.change_budget(change)
    assert setting.remaining() == {("lab", "lab"): 10}


# Plans


def test_a_plan_says_whom_it_would_stop_and_when() -> None:
    """A plan lists the accounts that would run out, or earlier than now, at the current rate."""
    setting = Setting(lab(1000))
    setting.partition.allocate("0", "a", gpu(1), duration=2 * HOUR)
    setting.now += HOUR
    planned = declaring(lab(6, carry="all"))

    plan = setting.partition.plan(planned)
    assert [str(one) for one in plan.exhausting] == [
        "budget 'lab' in root: no more gpu for 'lab' from 2026-11-23 18:00:00 UTC until 2026-12-01 00:00:00 UTC"
    ]
    assert "would run out:" in str(plan)
    assert plan.to_dict()["exhausting"][0]["begins"] == NOON + 6 * HOUR
    setting.partition.apply(plan, confirm=True)
    assert setting.partition.budget_accounts()[0].exhausted == NOON + 6 * HOUR
    assert setting.partition.plan(planned).exhausting == ()
    assert [one.name for one in setting.partition.plan(declaring(lab(1, carry="all"))).newly_exceeded] == ["lab"]
