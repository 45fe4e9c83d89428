"""Declared budgets of a partition with a journal: a restart or a compaction at any point changes nothing."""

from __future__ import annotations

from contextlib import ExitStack, closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from ugm import RequestError, Resource, UserGroup
from ugm.budgets import Budget, BudgetChange, Budgets
from ugm.configuration import BudgetConfig, Extensions, PartitionConfig, PlacementRule, QueueConfig
from ugm.journal import JournaledPartition, compact, open_partition
from ugm.journal.declared_past import declared_models
from ugm.journal.follower import Follower
from ugm.journal.log import Candidate

START = 1_795_435_200
#: Groups and tags without limits, which the usage of ended applications does not show.
USERS = (UserGroup("sue", ("ops", "lab")), UserGroup("ben", ("lab",)), UserGroup("eve"))
RULE = PlacementRule("provided", create=True)


def gpu(amount: int) -> Resource:
    """Return some GPUs."""
    return Resource(gpu=amount)


def declaring(*budgets: BudgetConfig) -> PartitionConfig:
    """Return a configuration with some budgets."""
    return PartitionConfig(queues=(QueueConfig("root"),), placement_rules=(RULE,), ugm=Extensions(budgets=budgets))


EACH = BudgetConfig("each", user="*", amounts=gpu(50_000), period="day", carry="all")
LAB = BudgetConfig("lab", group="lab", amounts=gpu(20), unit="hour", period="week", zone="Asia/Kathmandu")
ALL = BudgetConfig("all", amounts=Resource(units=10**6), queue="root.a", weights={"gpu": Fraction(3)}, mode="admit")
CONFIGS = (
    declaring(EACH, LAB, ALL),
    declaring(EACH, BudgetConfig("lab", group="lab", amounts=gpu(9), unit="hour", period="week", zone=LAB.zone)),
    declaring(ALL, BudgetConfig("each", user="*", amounts=gpu(50_000), period="day", carry="capped", cap=gpu(9))),
    declaring(),
    declaring(LAB),
)


class Restarted:
    """A partition with declared budgets that is closed and opened again."""

    def __init__(self, path: Path, config: PartitionConfig = CONFIGS[0]) -> None:
        self.path, self.now = path, START * 1000
        self.partition = self.opened(config)

    def opened(self, config: PartitionConfig | None = None) -> JournaledPartition:
        """Open the journal; by default without any argument that says something about budgets."""
        return open_partition(self.path, config, clock=lambda: self.now / 1000)

    def close(self) -> None:
        """Close the journal."""
        self.partition.journal.close()

    def restart(self, *, compacts: bool = False) -> None:
        """Expect that a restart changes nothing, now and later."""
        now, before = self.now, self.shown()
        self.close()
        if compacts:
            compact(self.path)
        self.now = now
        self.partition = self.opened()
        assert self.shown() == before
        # The clock of a partition never goes back.
        self.close()
        self.now = now
        self.partition = self.opened()

    def shown(self) -> list[Any]:
        """Return the accounts now and later."""
        self.partition.verify()
        shown = []
        for later in (0, 7_300_000, 86_400_000, 40 * 86_400_000):
            self.now += later
            shown.append(self.partition.budget_accounts())
        return shown


@pytest.mark.parametrize("compacts", [False, True])
def test_a_restart_keeps_accounts(tmp_path: Path, *, compacts: bool) -> None:
    """Settled usage, carry-over, refills and set amounts are in the journal, also after a compaction."""
    made = Restarted(tmp_path / "j")
    for number, user in enumerate(USERS[:2]):
        made.partition.submit(user.name, user, "root.a.x")
        assert made.partition.allocate(f"{number}", user.name, gpu(2), duration=3600)
    made.now += 1_800_700
    made.partition.change_budget(BudgetChange.refill("each", gpu(5), owner="ben", reason="why", change_id="1"))
    made.partition.change_budget(BudgetChange.set("lab", gpu(10**6)))
    made.partition.release("1")
    made.partition.complete("ben")
    made.now += 3 * 86_400_000
    made.restart(compacts=compacts)
    assert not made.partition.change_budget(
        BudgetChange.refill("each", gpu(5), owner="ben", reason="why", change_id="1")
    )
    found = {(one.budget, one.owner): one for one in made.partition.budget_accounts()}
    assert (found["lab", "lab"].limit, found["lab", "lab"].settled) == (10**6, 2 * (1800 + 1800 + 3 * 86_400))
    assert found["all", "root.a"].settled == 3 * 2 * (1800 + 3 * 86_400 + 1800)
    made.partition.configure(CONFIGS[1])
    made.restart(compacts=compacts)
    made.close()


def test_a_compaction_keeps_the_start(tmp_path: Path) -> None:
    """Budgets began before the compaction."""
    with closing(Restarted(tmp_path / "journal")) as made:
        before = made.partition.model_reports()[0].definition
        assert before is not None
        assert before["start"] == START
        made.now += 5000 * 1000
        made.partition.submit("later", USERS[0], "root.a")

        made.restart(compacts=True)

        assert made.partition.model_reports()[0].definition == before


def test_a_stored_past_without_a_start() -> None:
    """Journals that an earlier version has compacted do not contain the start."""
    model = Budgets([Budget("lab", group="lab", amounts=gpu(20))], start=START)
    past = {name: value for name, value in model.save().items() if name != "start"}
    loaded = Budgets(model.budgets)

    loaded.load(past)

    assert loaded.definition() == model.definition()
    assert loaded.save() == model.save()


def test_a_compaction_in_the_background_keeps_accounts(tmp_path: Path) -> None:
    """The process that compacts stores the past of budgets."""
    made = Restarted(tmp_path / "j")
    made.partition.submit("sue", USERS[0], "root.a.x")
    made.partition.allocate("0", "sue", gpu(2), duration=3600)
    made.now += 1_800_700
    made.partition.release("0")
    made.partition.remove("sue")
    made.partition.journal.compact_in_background().result()
    made.now += 500
    made.restart()
    made.close()


def test_budgets_of_the_program_keep_changes(tmp_path: Path) -> None:
    """Changes of budgets that the program adds are repeated after a restart, also from before a compaction."""

    def opened() -> tuple[JournaledPartition, Budgets]:
        own = Budgets([Budget("own", amounts=gpu(100))], start=START)
        return open_partition(tmp_path / "j", CONFIGS[0], models=[own], clock=lambda: START), own

    partition, own = opened()
    partition.change_budget(BudgetChange.refill("own", gpu(7), change_id="1"))
    for compacts in (False, True):
        before = own.accounts()
        if compacts:
            partition.journal.compact()
        partition.journal.close()
        partition, own = opened()
        assert own.accounts() == before
        assert not partition.change_budget(BudgetChange.refill("own", gpu(7), change_id="1"))
    partition.journal.close()


def test_a_refused_change_is_not_in_the_journal(tmp_path: Path) -> None:
    """Only changes that were made are stored."""
    made = Restarted(tmp_path / "j")
    number = made.partition.journal.number
    with pytest.raises(RequestError):
        made.partition.change_budget(BudgetChange.refill("none", gpu(1)))
    made.partition.change_budget(BudgetChange.refill("lab", gpu(1), change_id="1"))
    made.partition.change_budget(BudgetChange.refill("lab", gpu(1), change_id="1"))
    assert made.partition.journal.number == number + 1
    made.close()


def change(data: st.DataObject, partition: JournaledPartition, number: int) -> None:
    """Make one change of a partition."""
    name, owner = f"a-{data.draw(st.integers(0, number))}", data.draw(st.sampled_from(USERS)).name
    usage, duration = gpu(data.draw(st.integers(0, 3))), data.draw(st.integers(1, 200_000))
    known = partition.allocation(name)
    match data.draw(st.sampled_from(["allocate", "adopt", "request", "release", "resize", "configure", "set", "move"])):
        case "allocate" | "adopt" | "request" as operation if known is None:
            getattr(partition, operation)(name, owner, usage, duration=duration)
        case "release":
            partition.release(name)
        case "resize" if known is not None and known.state != "pending":
            partition.resize(name, usage)
        case "configure":
            partition.configure(data.draw(st.sampled_from(CONFIGS)))
        case "set" | "move" as operation:
            budget = data.draw(st.sampled_from(["each", "lab", "all"]))
            amounts = Resource({"units" if budget == "all" else "gpu": data.draw(st.integers(0, 10**5))})
            made = BudgetChange.set(budget, amounts)
            if operation == "move":
                made = BudgetChange.refill(budget, amounts, owner=owner if budget == "each" else "", change_id=name)
            try:
                partition.change_budget(made)
            except RequestError:
                assert budget not in {one.name for one in (partition.config or PartitionConfig()).ugm.budgets} or name


@settings(max_examples=examples(15), deadline=None)
@given(data=st.data())
def test_a_restart_at_any_point_changes_nothing(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever has happened, a journal that is opened without arguments has the same accounts."""
    with closing(Restarted(tmp_path_factory.mktemp("journal") / "j", data.draw(st.sampled_from(CONFIGS)))) as made:
        for user in USERS:
            made.partition.submit(user.name, user, data.draw(st.sampled_from(["root.a.x", "root.b"])))
        for number in range(data.draw(st.integers(1, 14))):
            change(data, made.partition, number)
            made.now += data.draw(st.sampled_from([0, 1, 999, 70_000, 86_400_000, 40 * 86_400_000]))
            if data.draw(st.integers(0, 4)) == 0:
                made.restart(compacts=data.draw(st.booleans()))
        made.restart(compacts=data.draw(st.booleans()))


def usage_of(model: object, now: int) -> list[Any]:
    """Return the accounts of budgets now and later, and everything that is stored of them."""
    assert isinstance(model, Budgets)
    shown: list[Any] = [model.save()]
    for later in (0, 7_300, 40 * 86_400):
        model.at(now + later)
        shown.append(model.accounts())
    return shown


@settings(max_examples=examples(15), deadline=None)
@given(data=st.data())
def test_a_process_that_takes_over_has_the_accounts(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """A process that has followed the log has the same budgets as one that reads it, whenever they were declared."""
    with ExitStack() as cleanup:
        made = Restarted(tmp_path_factory.mktemp("journal") / "j", data.draw(st.sampled_from(CONFIGS)))
        # Drawing ends some examples in the middle.
        cleanup.callback(made.close)
        for user in USERS:
            made.partition.submit(user.name, user, data.draw(st.sampled_from(["root.a.x", "root.b"])))
        follower = Follower(made.path)
        cleanup.callback(follower.close)
        for number in range(data.draw(st.integers(1, 14))):
            change(data, made.partition, number)
            made.now += data.draw(st.sampled_from([0, 1, 999, 70_000, 86_400_000]))
            match data.draw(st.sampled_from(["poll", "compact", "go on"])):
                case "poll":
                    follower.poll()
                case "compact":
                    made.partition.journal.compact()
        made.close()
        taken = follower.lead(Candidate(), clock=lambda: made.now / 1000)
        cleanup.callback(taken.journal.close)
        expected = declared_models(taken.state.compiled.models, taken.log.open_contents())

        now = made.now // 1000
        assert [one.definition for one in taken.declared] == [one.definition for one in expected]
        assert [usage_of(one.model, now) for one in taken.declared] == [usage_of(one.model, now) for one in expected]
