"""Budgets in a partition: denials with their outlook, scopes, weights, refills and transfers, and cost."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from ugm import Partition, RequestError, Resource, UserGroup, Violation, parse_config
from ugm.budgets import Budget, Budgets, Carry, Period
from ugm.model import BudgetChange, Claim

#: November 23, 2026, at noon in UTC.
NOON = 1_795_435_200
SUE, BEN, EVE = UserGroup("sue", ("lab", "ops")), UserGroup("ben", ("ops",)), UserGroup("eve")
CONFIG = parse_config(
    "partitions: [{queues: [{name: a, resources: {max: {gpu: 100}}, queues: [{name: x}]}, {name: b}]}]"
).partition()


class Setting:
    """A partition with budgets, whose clock is set."""

    def __init__(self, *budgets: Budget, **options: Any) -> None:  # noqa: ANN401 - arguments of `Budgets`
        self.now = NOON
        self.model = Budgets(budgets, **options)
        self.partition = Partition(CONFIG, models=[self.model], clock=lambda: self.now)
        for user in (SUE, BEN, EVE):
            self.partition.submit(user.name, user, "root.a.x")
            self.partition.submit(f"{user.name}-b", user, "root.b", tags={"team": "ml"})

    def allocate(self, name: str, application: str, amount: int = 1, duration: int | None = 3600) -> str:
        """Allocate some GPUs, and return the decision as a text."""
        return str(self.partition.allocate(name, application, gpu(amount), duration=duration))

    def owners(self, user: UserGroup, path: str = "root.a.x") -> list[tuple[str, str]]:
        """Return the budgets that cover a user in a queue, with the owners of their accounts."""
        return [(one.budget, one.owner) for one in self.model.accounts(user, path)]

    def remaining(self) -> list[int | Fraction]:
        """Return what remains in every account now."""
        self.partition.verify()
        return [one.remaining for one in self.model.accounts()]


def gpu(amount: int) -> Resource:
    """Return some GPUs."""
    return Resource(gpu=amount)


def hours(number: int) -> Resource:
    """Return some GPU hours."""
    return gpu(number * 3600)


def test_a_denial_says_that_promised_allocations_may_end_early() -> None:
    """A request that fits without the promises of others fits if they end early, and never if all are used."""
    setting = Setting(Budget("lab", group="lab", amounts=hours(4)))
    setting.allocate("1", "sue", duration=3 * 3600)

    assert setting.allocate("2", "sue", 2) == (
        "denied, waiting can help:\n"
        "  budget 'lab' in root: 2 gpu-hours requested, 3 of 4 used or promised; "
        "fits only if allocations end before their promised ends, the last of which is in 3 h (limit for 'lab')"
    )
    setting.partition.release("1")
    assert setting.allocate("2", "sue", 2) == "allowed"


def test_a_denial_says_that_waiting_cannot_help() -> None:
    """More than the whole budget never fits, and neither does a claim without a promise."""
    setting = Setting(Budget("month", amounts=hours(4), period=Period.MONTH), Budget("once", amounts=hours(4)))

    assert setting.allocate("1", "sue", 5) == (
        "denied, waiting cannot help:\n"
        "  budget 'month' in root: 5 gpu-hours requested, 0 of 4 used or promised; "
        "cannot fit, even after the renewal (limit for 'root')\n"
        "  budget 'once' in root: 5 gpu-hours requested, 0 of 4 used or promised; "
        "cannot fit, because the budget is never renewed (limit for 'root')"
    )
    assert "gpu requested without a promised duration" in setting.allocate("1", "sue", duration=None)


def test_owners_of_accounts() -> None:
    """A wildcard counts those that no budget of its queue names; a group is the first that one names."""
    amounts = hours(1)
    setting = Setting(
        Budget("sue", user="sue", amounts=amounts),
        Budget("each", user="*", amounts=amounts),
        Budget("each-in-a", user="*", amounts=amounts, queue="root.A"),
        Budget("ops", group="ops", amounts=amounts),
        Budget("rest", group="*", amounts=amounts),
        Budget("lab-in-b", group="lab", amounts=amounts, queue="root.b"),
        Budget("b", amounts=amounts, queue="root.b"),
    )

    assert setting.owners(SUE) == [("sue", "sue"), ("each-in-a", "sue"), ("ops", "ops")]
    assert setting.owners(BEN) == [("each", "ben"), ("each-in-a", "ben"), ("ops", "ops")]
    assert setting.owners(EVE) == [("each", "eve"), ("each-in-a", "eve")]
    assert setting.owners(UserGroup("ada", ("x",)))[2:] == [("rest", "*")]
    assert setting.owners(SUE, "root.b") == [("sue", "sue"), ("ops", "ops"), ("lab-in-b", "lab"), ("b", "root.b")]


def test_elastic_groups_and_quota_nodes() -> None:
    """A claim counts for its group or node and for those above, where they were when it was charged."""
    parents = {"ml": ["ml", "science"]}

    def chain(claim: Claim) -> list[str]:
        return parents.get(claim.tags.get("team", ""), [])

    setting = Setting(
        Budget("science", elastic_group="science", amounts=hours(8)),
        Budget("ml", quota_node="ml", amounts=hours(8)),
        elastic_groups=chain,
        quota_nodes=chain,
    )
    parents["ml"] = []
    setting.allocate("0", "sue-b")
    parents["ml"] = ["ml", "science"]
    # It is not charged, although its group is one of them now.
    setting.partition.verify()
    setting.partition.release("0")
    setting.allocate("1", "sue-b")
    setting.allocate("2", "sue")
    assert setting.remaining() == [7 * 3600, 7 * 3600]
    parents["ml"] = ["ml"]
    setting.now += 1800
    setting.partition.release("1")
    assert setting.remaining() == [8 * 3600 - 1800] * 2
    with pytest.raises(RequestError, match="a function that returns the elastic groups of a claim is needed"):
        Budgets([Budget("science", elastic_group="science", amounts=hours(8))])


def test_a_reset_keeps_what_is_settled() -> None:
    """After a reset, charging the same claims again restores the accounts, with what is used and what is promised."""
    model = Budgets([Budget("each", user="*", amounts=hours(9), period=Period.DAY, carry=Carry.ALL)])
    claims = [
        Claim(name, "app", gpu(1), "root.b", SUE, until=until)
        for name, until in (("1", NOON + 7200), ("2", None), ("3", NOON + 60))
    ]
    for now, method, given in ((NOON, "charge", claims), (NOON + 1800, "refund", claims[2:])):
        model.at(now)
        for claim in given:
            getattr(model, method)(claim)
    before = model.accounts()
    model.reset()
    assert model.accounts() != before
    for claim in reversed(claims[:2]):
        model.charge(claim)

    assert model.accounts() == before
    assert not model.verify({claim.allocation_id: claim for claim in claims[:2]}, {})


def test_weights() -> None:
    """Several resources are one number, exactly."""
    weights = {"gpu": Fraction(1, 3), "vcore": Fraction(1, 2)}
    setting = Setting(Budget("bill", amounts=Resource(units=100), weights=weights))
    decision = setting.partition.allocate("1", "sue", Resource(gpu=1, vcore=1, memory=10**9), duration=60)

    assert decision
    assert setting.remaining() == [50]
    setting.now += 1
    setting.partition.verify()
    (account,) = setting.model.accounts()
    assert (account.settled, account.committed) == (Fraction(5, 6), Fraction(295, 6))
    assert account.to_dict()["settled"] == "5/6"
    assert setting.partition.headroom("eve-b", duration=1) == Resource(gpu=150, vcore=100) - Resource(gpu=0, vcore=100)
    assert setting.partition.allocate("2", "eve-b", Resource(memory=10**9), duration=None)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Budget("", amounts=hours(1)), "name"),
        (lambda: Budget("b", amounts=Resource()), "must limit at least one resource"),
        (lambda: Budget("b", amounts=gpu(-1)), "is negative"),
        (lambda: Budget("b", amounts=hours(1), user="sue", group="lab"), "at most one owner"),
        (lambda: Budget("b", amounts=hours(1), period="day"), "expected one of none, day, week"),  # type: ignore[arg-type]
        (lambda: Budget("b", amounts=hours(1), carry=Carry.ALL), "carries nothing over"),
        (lambda: Budget("b", amounts=hours(1), cap=hours(1)), "only a budget that carries over up to a cap"),
        (lambda: Budget("b", amounts=hours(1), zone="Nowhere"), "there is no such time zone"),
        (lambda: Budget("b", amounts=hours(1), queue="x"), "queue"),
        (lambda: Budget("b", amounts=hours(1), quota_node="*"), "only users and groups"),
        (lambda: Budget("b", amounts=hours(1), weights={"gpu": 0.5}), "must be an int or Fraction"),  # type: ignore[dict-item]
        (lambda: Budget("b", amounts=Resource(a=1, b=1), weights={"gpu": 1}), "limits one number"),
        (lambda: Budgets([Budget("b", amounts=hours(1))] * 2), "occurs twice"),
        (lambda: Budgets(["b"]), "expected a Budget"),  # type: ignore[list-item]
        (lambda: Budgets([], start=1.5), "expected whole seconds"),  # type: ignore[arg-type]
        (lambda: Budgets([]).change(BudgetChange.set("b", hours(1))), "have not begun"),
        (lambda: BudgetChange.refill("each", gpu(-1), owner="sue"), "is negative"),
        (lambda: BudgetChange.refill("each", gpu(1), owner="*" * 257), "owner .* a name is a text"),
        (lambda: BudgetChange.transfer("each", "", gpu(1)), "recipient .* a name is a text"),
        (lambda: Setting(start=0).model.change(BudgetChange.set("b", hours(1))), "there is no such budget"),
    ],
)
def test_misuse(make: Callable[[], object], problem: str) -> None:
    """A wrong budget is an error that says what is expected."""
    with pytest.raises(RequestError, match=problem):
        make()


def test_misuse_of_accounts() -> None:
    """Only limited resources and existing accounts can be changed."""
    model = Setting(
        Budget("lab", group="lab", amounts=hours(1)), Budget("each", user="*", amounts=hours(1)), start=NOON
    ).model
    changes = [
        (BudgetChange.set("lab", Resource(vcore=1)), "expected an amount of each resource of the budget: gpu"),
        (BudgetChange.refill("lab", Resource(vcore=1)), "does not limit vcore"),
        (BudgetChange.refill("lab", hours(1), owner="ops"), "has one account, that of 'lab'"),
        (BudgetChange.refill("each", hours(1)), "a name is a text"),
    ]
    for change, problem in changes:
        with pytest.raises(RequestError, match=re.escape(problem)):
            model.change(change)
    assert [one.remaining for one in model.accounts()] == [3600]


USED_UP = """
partitions: [{queues: [{name: q}], ugm: {budgets: [{name: lab, user: '*', amounts: {gpu: 1}, unit: second, %s}]}}]
"""


def denial(options: str, duration: int | None) -> Violation:
    """Return the denial of 2 GPUs for a duration after 10 GPU seconds of a budget of 1 were used."""
    now = 1_795_435_200
    partition = Partition(parse_config(USED_UP % options).partition(), clock=lambda: now)
    partition.submit("app", UserGroup("ana"), "root.q")
    partition.adopt("running", "app", Resource(gpu=1), duration=10)
    now += 10
    partition.release("running")
    (violation,) = partition.allocate("next", "app", Resource(gpu=2), duration=duration).violations
    return violation


@pytest.mark.parametrize("options", ["mode: admit", "mode: safe", "mode: admit, period: month"])
def test_promise_is_named(options: str) -> None:
    """A denial names the amount that the request promises to use."""
    violation = denial(options, duration=60)
    assert violation.requested == 120
    assert "120 gpu-seconds requested, 10 of 1 used or promised; " in str(violation)


@pytest.mark.parametrize("options", ["mode: admit", "mode: admit, period: month"])
def test_no_promise(options: str) -> None:
    """A denial of a request without a promise names no requested amount."""
    text = str(denial(options, duration=None))
    assert "requested" not in text
    assert "10 of 1 gpu-seconds used or promised; " in text


def test_size_does_not_matter() -> None:
    """A budget that admits requests until it is used up admits one of any size in the next period."""
    assert denial("mode: admit, period: month", duration=10**9).can_wait


def test_a_budget_that_needs_a_duration_for_people() -> None:
    """The text for a request without a promised end requires the duration, and states no amounts."""
    text = "{name: month, user: '*', amounts: {gpu: 10, vcore: 3}, unit: hour}"
    partition = Partition(
        parse_config(f"partitions: [{{queues: [{{name: q}}], ugm: {{budgets: [{text}]}}}}]").partition()
    )
    partition.submit("app", UserGroup("ana"), "root.q")
    shown = partition.allocate("a", "app", Resource(gpu=1)).for_people()
    assert (
        shown == "The budget month needs to know how long the work takes. State the duration, or ask an administrator."
    )
    shown = partition.allocate("a", "app", Resource(gpu=2), duration=36_000).for_people()
    assert shown.startswith(
        "The budget month allows 10 GPU hours (used or promised: 0 GPU hours), and the request is for 20"
    )
    shown = partition.allocate("a", "app", Resource(vcore=1500), duration=36_000).for_people()
    assert "allows 3 core hours (used or promised: 0 core hours), and the request is for 15 core hours." in shown
