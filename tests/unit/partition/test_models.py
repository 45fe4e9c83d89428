"""Quota models of models in a partition: asked, charged, refunded and failing at every point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.partition_fixtures import (
    BOB,
    SUE,
    BrokenError,
    Licences,
    Waiting,
    changing_nothing,
    memory,
    partition_of,
    shown,
    started,
)
from ugm import AllocationRequest, Claim, Decision, Partition, Resource, Violation
from ugm.model import SetupViolation


def licences(amount: int) -> Resource:
    """Return some licences."""
    return Resource(licence=amount)


# A model of ten lines


class Budget:
    """A quota model of ten lines: every user may spend so much."""

    def __init__(self, limit: int) -> None:
        self.limit, self.spent = limit, dict[str, int]()

    def check(self, claim: Claim) -> list[Violation]:
        """Deny more than the budget."""
        spent, requested, user = self.spent.get(claim.user.name, 0), claim.usage.get("coins", 0), claim.user.name
        fits = spent + requested <= self.limit
        return [] if fits else [Violation("budget", user, "", "", "coins", self.limit, spent, requested)]

    def charge(self, claim: Claim) -> None:
        """Spend."""
        self.spent[claim.user.name] = self.spent.get(claim.user.name, 0) + claim.usage.get("coins", 0)

    def refund(self, claim: Claim) -> None:
        """Take it back."""
        self.spent[claim.user.name] -= claim.usage.get("coins", 0)


def test_model_of_ten_lines() -> None:
    """A model with check, charge and refund takes part in every decision."""
    budget = Budget(5)
    partition = partition_of(models=[budget])
    partition.submit("app", SUE, "root.a")
    assert partition.allocate("1", "app", Resource(coins=4))

    assert str(partition.allocate("2", "app", Resource(coins=2))) == (
        "denied, waiting can help:\n  budget 'sue': 2 coins requested, 4 of 5 used, 1 too much"
    )
    partition.submit("other", BOB, "root.a")
    assert partition.allocate("2", "other", Resource(coins=2))
    assert partition.resize("1", Resource(coins=5))
    partition.remove("app")
    assert budget.spent == {"sue": 0, "bob": 2}


def test_all_models_are_named() -> None:
    """A denial names the limits of users, groups and queues, and then those of all models, in their order."""
    partition = partition_of("{name: a, resources: {max: {licence: 1}}}", models=[Licences(3), Licences(2)])
    partition.submit("app", SUE, "root.a")

    decision = partition.allocate("1", "app", licences(4))
    assert [(violation.kind, violation.limit) for violation in decision.violations] == [
        ("queue", 1),
        ("licence", 3),
        ("licence", 2),
    ]
    assert partition.check("app", licences(4)) == decision


def test_claim() -> None:
    """A model is told all about an allocation, in the same words when it is charged and when it is refunded."""
    model = Waiting()
    partition = partition_of(models=[model])
    partition.submit("app", SUE, "ROOT.A", tags={"namespace": "n"})
    partition.allocate("1", "app", licences(1), priority=-4, preemptible=False, placeholder=True)

    assert model.charged["1"] == Claim("1", "app", licences(1), "root.a", SUE, {"namespace": "n"}, -4, False)  # noqa: FBT003 - a claim is a tuple
    partition.release("1")
    assert model.state() == (0, {}, {})


def test_nothing_is_charged_that_a_queue_denies() -> None:
    """What users, groups or queues deny is charged to no model; what a model denies, to no queue."""
    model = Waiting(5)
    partition = partition_of("{name: a, resources: {max: {memory: 5}}}", models=[model])
    started(partition, "app", 5)
    before = model.state()

    for usage in [memory(1), licences(6), Resource(memory=1, licence=6)]:
        with changing_nothing(partition):
            assert not partition.allocate("more", "app", usage)
            assert not partition.allocate_all(
                [AllocationRequest("x", "app", licences(1)), AllocationRequest("more", "app", usage)]
            )
            assert not partition.resize("app", usage + memory(5))
        assert model.state() == before


def test_less_is_never_denied() -> None:
    """A model that has lowered its limit since is not asked about what only shrinks, nor about a placeholder's heir."""
    model = Waiting(9)
    partition = partition_of(models=[model])
    partition.submit("app", SUE, "root.a")
    for name in ("held", "room"):
        assert partition.allocate(name, "app", licences(4), placeholder=name == "room")
    model.limit = 0

    assert partition.resize("held", licences(3))
    assert partition.replace("room", "real", licences(4))
    state = model.state()
    assert isinstance(state, tuple)
    assert state[0] == 7
    with changing_nothing(partition):
        assert not partition.resize("held", Resource(licence=2, memory=1))


def test_heirs_that_are_no_equals() -> None:
    """A model is asked about what takes the place of a placeholder and is less willing to go, or goes first."""
    model = Waiting(4)
    partition = partition_of(models=[model])
    partition.submit("app", SUE, "root.a")
    assert partition.allocate("room", "app", licences(4), placeholder=True)
    partition.request("firm", "app", licences(4), preemptible=False)
    partition.request("first", "app", licences(4), priority=1)
    model.limit = 0

    with changing_nothing(partition):
        assert not partition.replace("room", "firm", licences(4))
        assert not partition.replace("room", "first", licences(4))


def test_retry_charges_once() -> None:
    """What is repeated asks no model."""
    model = Waiting()
    partition = partition_of(models=[model])
    started(partition, "app", 1)
    model.calls.clear()

    assert partition.allocate("app", "app", memory(1))
    assert partition.allocate_all([AllocationRequest("app", "app", memory(1))])
    assert partition.adopt("app", "app", memory(1)) == ()
    assert partition.resize("app", memory(1))
    assert not partition.release("never")
    assert model.calls == []


def test_granted_at_the_first_question() -> None:
    """A model is asked once about what is granted, and charged once."""
    model = Waiting()
    partition = partition_of(models=[model])
    partition.submit("app", SUE, "root.a")
    assert partition.allocate_evicting("1", "app", memory(1))
    assert model.calls == ["check", "charge"]


def test_adopt_checks_nothing() -> None:
    """What exists is charged to all models without a check."""
    model = Waiting(0)
    partition = partition_of(models=[model])
    partition.submit("app", SUE, "root.a")
    assert partition.adopt("1", "app", licences(3)) == ()
    assert (model.used, model.calls) == (3, ["charge"])


def test_gang_is_checked_one_by_one() -> None:
    """A model sees each of a gang after those before it; if it denies one, it has none of them."""
    model = Waiting(5)
    partition = partition_of(models=[model])
    partition.submit("app", SUE, "root.a")

    decision = partition.allocate_all(
        [AllocationRequest("1", "app", licences(3)), AllocationRequest("2", "app", licences(3))]
    )
    assert decision == Decision((Violation("licence", "solver", "", "", "licence", 5, 3, 3),))
    assert model.state() == (0, {}, {})


def gang(*usages: Resource) -> list[AllocationRequest]:
    """Return requests of the application, numbered from 1."""
    return [AllocationRequest(str(number), "app", usage) for number, usage in enumerate(usages, 1)]


def test_denied_gang_names_all_limits() -> None:
    """A denied gang names every limit that denies one of its allocations, also those after the first denied one."""
    model, budget = Waiting(5), Budget(3)
    partition = partition_of("{name: a, resources: {max: {memory: 1}}}", models=[model, budget])
    partition.submit("app", SUE, "root.a")

    with changing_nothing(partition):
        decision = partition.allocate_all(
            gang(licences(3), licences(4), Resource(coins=2), Resource(coins=2, memory=2))
        )
    assert decision == Decision(
        (
            Violation("queue", "root.a", "root.a", "", "memory", 1, 0, 2),
            Violation("licence", "solver", "", "", "licence", 5, 3, 4),
            Violation("budget", "sue", "", "", "coins", 3, 2, 2),
        )
    )
    assert (model.state(), budget.spent) == ((0, {}, {}), {"sue": 0})


def test_denied_gang_counts_denied_allocations() -> None:
    """An allocation of a gang is checked as if those before it had been granted, even if a model has denied them."""
    partition = partition_of(models=[Waiting(5), Budget(3)])
    partition.submit("app", SUE, "root.a")

    decision = partition.allocate_all(gang(Resource(licence=6, coins=2), Resource(coins=2)))
    assert [str(violation) for violation in decision.violations] == [
        "licence 'solver': 6 licence requested, never more than 5 allowed",
        "budget 'sue': 2 coins requested, 2 of 3 used, 1 too much",
    ]


def test_denied_gang_that_can_never_fit() -> None:
    """If waiting cannot help one allocation, the violation of its limit is the one that is reported."""
    partition = partition_of(models=[Waiting(5)])
    partition.submit("app", SUE, "root.a")

    decision = partition.allocate_all(gang(licences(3), licences(3), licences(6), licences(7)))
    assert decision == Decision((Violation("licence", "solver", "", "", "licence", 5, 6, 6),))
    assert not decision.can_wait


def test_denied_gang_names_models_of_one_name() -> None:
    """Limits of two models are two violations, even if they have the same name."""
    partition = partition_of(models=[Licences(3), Licences(2)])
    partition.submit("app", SUE, "root.a")

    decision = partition.allocate_all(gang(licences(4), licences(4)))
    assert [violation.limit for violation in decision.violations] == [3, 2]


class UnknownUser(SetupViolation):
    """The denial of a user without a ration."""

    __slots__ = ()
    reason = "has no ration"


class Rations(Budget):
    """A model that cannot charge claims of users that it does not know."""

    def check(self, claim: Claim) -> list[Violation]:
        """Deny users without a ration."""
        return super().check(claim) if claim.user.name == "sue" else [UnknownUser.of("ration", claim.user.name)]

    def charge(self, claim: Claim) -> None:
        """Spend the ration of a known user."""
        assert claim.user.name == "sue"
        super().charge(claim)


def test_denied_gang_without_a_setup() -> None:
    """An allocation for which a model is not set up is charged to no model, and the others are checked nevertheless."""
    partition = partition_of(models=[Rations(3)])
    partition.submit("app", SUE, "root.a")
    partition.submit("other", BOB, "root.a")

    with changing_nothing(partition):
        decision = partition.allocate_all(
            [AllocationRequest("0", "other", Resource(coins=1)), *gang(Resource(coins=2), Resource(coins=2))]
        )
    assert str(decision) == (
        "denied, waiting cannot help:\n"
        "  ration 'bob': has no ration\n"
        "  budget 'sue': 2 coins requested, 2 of 3 used, 1 too much"
    )


# Demand


def test_demand() -> None:
    """A model that wants to know what waits is told so from the ask until it is granted or withdrawn."""
    model = Waiting()
    partition = partition_of(models=[model])
    partition.submit("app", SUE, "root.a")
    for name in "123":
        partition.request(name, "app", licences(1))
    partition.request("1", "app", licences(1))
    assert list(model.waiting) == ["1", "2", "3"]

    partition.allocate("1", "app", licences(1))
    partition.release("2")
    assert (list(model.waiting), list(model.charged)) == (["3"], ["1"])
    partition.remove("app")
    assert model.state() == (0, {}, {})


@pytest.mark.parametrize("end", [Partition.fail, Partition.time_out_gang, lambda one, _: one.terminate(confirm=True)])
def test_demand_that_ends(end: Callable[[Partition, str], object]) -> None:
    """What waits is withdrawn with its application, or with its gang."""
    model = Waiting()
    partition = partition_of(models=[model])
    partition.submit("app", SUE, "root.a", gang_style="hard")
    partition.request("1", "app", licences(1), placeholder=True)
    end(partition, "app")
    assert model.state() == (0, {}, {})


# Evictions


def evicting(gives_up: tuple[str, ...]) -> tuple[Partition, Waiting]:
    """Return a partition where all three licences are taken, one by each allocation, and a model that gives up some."""
    model = Waiting(3, gives_up=gives_up)
    partition = partition_of("{name: a, resources: {max: {licence: 2}}}, {name: b}", models=[model])
    for name, where in [("mine", "root.a"), ("1", "root.b"), ("2", "root.b")]:
        partition.submit(name, SUE, where)
        assert partition.allocate(name, name, licences(1))
    return partition, model


def test_evictions_are_told() -> None:
    """A denial says what would let the request in, and releases nothing."""
    partition, model = evicting(("1",))
    before = model.state()
    with changing_nothing(partition):
        decision = partition.allocate("more", "mine", licences(1))
        assert partition.check("mine", licences(1)) == decision

    assert model.state() == before
    assert str(decision) == (
        "denied, waiting can help:\n"
        "  licence 'solver': 1 licence requested, 3 of 3 used, 1 too much\n"
        "  evicting '1' would make room"
    )
    assert str(partition.explain("mine", licences(1))) == str(decision)


class Noting(Licences):
    """Licences that note what they check, and give up an allocation."""

    def __init__(self) -> None:
        super().__init__(1)
        self.checked: list[Claim] = []

    def check(self, claim: Claim) -> list[Violation]:
        """Note the claim."""
        self.checked.append(claim)
        return list(super().check(claim))

    def evictions(self, _claim: Claim) -> tuple[str]:
        """Give up the only allocation."""
        return ("held",)


def test_checks_of_an_eviction() -> None:
    """A model checks a request once, and once more after the evictions."""
    model = Noting()
    partition = partition_of("{name: a}", models=[model])
    partition.submit("app", SUE, "root.a")
    partition.adopt("held", "app", licences(1))

    assert partition.allocate_evicting("more", "app", licences(1))
    assert len(model.checked) == 2
    assert model.checked[0] == model.checked[1]
    partition.verify()


def test_evict() -> None:
    """With *evict*, what the model gives up is released everywhere, and the request is granted."""
    partition, model = evicting(("1",))
    decision = partition.allocate_evicting("more", "mine", licences(1))

    assert str(decision) == "allowed, evicting '1'"
    assert list(model.charged) == ["mine", "2", "more"]
    assert [allocation.allocation_id for allocation in partition.allocations()] == ["2", "mine", "more"]
    application = partition.application("1")
    assert application is not None
    assert application.state.value == "completing"
    partition.verify()


def test_evict_the_last_of_a_failing_application() -> None:
    """A failing application whose last allocation is evicted has failed."""
    partition, _ = evicting(("1",))
    partition.fail("1")
    assert partition.allocate_evicting("more", "mine", licences(1))
    assert partition.application("1") is None
    partition.verify()


def test_evictions_that_do_not_help() -> None:
    """Where a queue stands in the way all the same, nothing is given up, and nothing is said to help."""
    partition, model = evicting(("1", "2"))
    before = model.state()
    with changing_nothing(partition):
        decision = partition.allocate_evicting("more", "mine", licences(2))
        assert partition.check("mine", licences(2)) == decision
    assert model.state() == before
    assert ([violation.kind for violation in decision.violations], decision.evictions) == (["queue", "licence"], ())


def test_evictions_that_make_room_in_a_queue() -> None:
    """What is given up makes room in users, groups and queues, too."""
    partition, _ = evicting(("mine",))
    assert partition.allocate_evicting("more", "mine", licences(1)).evictions == ("mine",)
    partition.verify()


def test_too_little_given_up() -> None:
    """If the request does not fit after the evictions that a model names, everything is as before."""
    partition, model = evicting(("2",))
    before = model.state()
    with changing_nothing(partition):
        decision = partition.allocate_evicting("more", "1", licences(2))
    assert model.state() == before
    assert str(decision) == (
        "denied, waiting can help:\n  licence 'solver': 2 licence requested, 3 of 3 used, 2 too much"
    )


@pytest.mark.parametrize("name", ["more", "waits", "unknown"])
def test_evictions_of_what_is_not_held(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What is not held cannot be given up: not the request itself, nothing pending, nothing unknown."""
    partition, model = evicting((name,))
    partition.request("waits", "1", licences(1))
    monkeypatch.setattr(model, "evictions", lambda _: (name,))
    with changing_nothing(partition):
        assert partition.allocate_evicting("more", "mine", licences(1)).evictions == ()


def test_no_evictions_if_one_model_gives_up_nothing() -> None:
    """As long as one model that denies gives up nothing, nothing is evicted."""
    generous, strict = Waiting(1, gives_up=("1",)), Licences(1)
    partition = partition_of(models=[generous, strict])
    partition.submit("app", SUE, "root.a")
    partition.allocate("1", "app", licences(1))
    with changing_nothing(partition):
        assert partition.allocate_evicting("2", "app", licences(1)).evictions == ()


# Models that raise

GRANTED: dict[str, Callable[[Partition], Any]] = {
    "check": lambda p: p.check("app", licences(1)),
    "explain": lambda p: p.explain("app", licences(1)),
    "request": lambda p: p.request("new", "app", licences(1)),
    "allocate": lambda p: p.allocate("new", "app", licences(1)),
    "allocate what waits": lambda p: p.allocate("waits", "app", licences(1)),
    "allocate the first": lambda p: p.allocate("new", "fresh", licences(1)),
    "allocate with evictions": lambda p: p.allocate_evicting("new", "app", licences(4)),
    "allocate what waits with evictions": lambda p: p.allocate_evicting("big", "app", licences(4)),
    "gang": lambda p: p.allocate_all(
        [AllocationRequest("waits", "app", licences(1)), AllocationRequest("new", "fresh", licences(1))]
    ),
    "replace": lambda p: p.replace("p", "new", licences(2)),
    "replace by what waits": lambda p: p.replace("p", "waits", licences(1)),
    "resize": lambda p: p.resize("1", licences(2)),
    "adopt": lambda p: p.adopt("new", "fresh", licences(9)),
    "adopt what waits": lambda p: p.adopt("waits", "app", licences(1)),
}
CALLS = {"check": 4, "charge": 2, "refund": 2, "add_pending": 1, "remove_pending": 2, "evictions": 1}
POINTS = [(call, time, which) for call, most in CALLS.items() for time in range(1, most + 1) for which in (0, 1)]


def failing() -> tuple[Partition, list[Waiting]]:
    """Return a partition in which something of every kind is going on, with two models."""
    models = [Waiting(5, gives_up=("1", "2")) for _ in range(2)]
    partition = partition_of(limits="{groups: [dev], maxresources: {licence: 9}}", models=models)
    for name in ["app", "fresh"]:
        partition.submit(name, SUE, "root.a")
    for name in "12":
        assert partition.allocate(name, "app", licences(1))
    assert partition.allocate("p", "app", licences(1), placeholder=True)
    partition.request("waits", "app", licences(1))
    partition.request("big", "app", licences(4))
    return partition, models


@pytest.mark.parametrize("operation", GRANTED.values(), ids=GRANTED)
def test_model_raises(operation: Callable[[Partition], Any]) -> None:
    """Wherever a model raises, the error goes on, and every counter of everybody is as before."""
    raised = 0
    for call, time, which in POINTS:
        partition, models = failing()
        before = [model.state() for model in models]
        shown_before = shown(partition)[:-1]
        models[which].fail_at(call, time)
        try:
            operation(partition)
        except BrokenError:
            raised += 1
            assert [model.state() for model in models] == before, (call, time, which)
            assert shown(partition)[:-1] == shown_before, (call, time, which)
        partition.verify()
    assert raised


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("call", ["refund", "remove_pending"])
@pytest.mark.parametrize("operation", ["release", "remove", "fail", "terminate"])
def test_model_raises_while_giving_back(operation: str, call: str, which: int) -> None:
    """A model that fails to take something back keeps nobody else from it, and the call may be repeated."""
    partition, models = failing()
    arguments = {"release": ("waits" if call == "remove_pending" else "1",), "terminate": ()}.get(operation, ("app",))
    options = {"confirm": True} if operation == "terminate" else {}
    models[which].fail_at(call)
    try:
        getattr(partition, operation)(*arguments, **options)
    except BrokenError:
        partition.verify()
        getattr(partition, operation)(*arguments, **options)
    partition.verify()

    other = models[1 - which]
    allocations = {allocation.allocation_id: allocation.state.value for allocation in partition.allocations()}
    assert set(other.waiting) == {name for name, state in allocations.items() if state == "pending"}
    assert set(other.charged) == {name for name, state in allocations.items() if state != "pending"}
