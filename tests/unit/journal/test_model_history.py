"""Models that depend on the past: a restart changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from ugm import Claim, Resource, UserGroup, Violation, parse_config
from ugm.budgets import Budget, BudgetMode, Budgets, Carry, Period
from ugm.fairness import BinnedUsage
from ugm.journal import JournaledPartition, load_usage, open_partition
from ugm.partition import RunningAllocation, UsageFeed
from ugm.partition.checkpoint import checkpoint_of

CONFIG = parse_config(
    "partitions: [{queues: [{name: root}], placementrules: [{name: provided, create: true}]}]"
).partition()
START = 1_795_435_200
AMOUNTS = Resource(gpu=50_000, memory=10**6)
USERS = (UserGroup("sue", ("lab",)), UserGroup("ben", ("ops", "lab")), UserGroup("eve"))


def budgets() -> Budgets:
    """Return budgets of all kinds."""
    return Budgets(
        [
            Budget("each", user="*", amounts=AMOUNTS, period=Period.DAY, carry=Carry.ALL),
            Budget("lab", group="lab", amounts=AMOUNTS, period=Period.WEEK, zone="Asia/Kathmandu"),
            Budget("rest", group="*", amounts=AMOUNTS, period=Period.MONTH),
            Budget("all", amounts=AMOUNTS, queue="root.a"),
        ],
        start=START,
    )


class Restarted:
    """A partition with budgets that is closed and opened again."""

    def __init__(self, folder: Path) -> None:
        self.path, self.now = folder / "journal", START * 1000
        self.model = budgets()
        self.partition = self.opened()

    def opened(self) -> JournaledPartition:
        """Open the journal."""
        return open_partition(self.path, CONFIG, models=[self.model], clock=lambda: self.now / 1000)

    def close(self) -> None:
        """Close the journal."""
        self.partition.journal.close()

    def restart(self) -> None:
        """Expect that a restart with new budgets changes nothing."""
        self.partition.verify()
        before = self.model.accounts()
        self.partition.journal.close()
        self.model = budgets()
        self.partition = self.opened()
        self.partition.verify()
        assert self.model.accounts() == before


@pytest.mark.parametrize("compacts", [False, True])
def test_a_restart_keeps_past_usage(tmp_path: Path, *, compacts: bool) -> None:
    """Settled usage and carry-over come from the journal, also from before a compaction."""
    made = Restarted(tmp_path)
    for number, user in enumerate(USERS[:2]):
        made.partition.submit(user.name, user, "root.a.x")
        made.partition.allocate(f"{number}", user.name, Resource(gpu=2), duration=3600)
    made.partition.request("later", "sue", Resource(gpu=1), duration=60)
    made.now += 1_800_700
    made.partition.resize("0", Resource(gpu=1, memory=5))
    made.restart()
    made.partition.release("1")
    made.now += 3 * 86_400_000
    if compacts:
        made.partition.journal.compact()
    made.partition.allocate("later", "sue", Resource(gpu=1), duration=60)
    made.partition.preempt("0")
    made.restart()
    assert any(one.settled for one in made.model.accounts())
    made.partition.journal.close()


WILDCARD_LIMITS = """
partitions:
- queues: [{name: a}]
  limits: [{groups: [dev], maxresources: {gpu: 9}}, {groups: ["*"], maxresources: {gpu: 9}}]
  ugm: {fairshare: {defaultshares: 1, bin: 60, bins: 9}}
"""


@pytest.mark.parametrize("group", ["ops", "dev"])
def test_a_compaction_keeps_the_charged_group(tmp_path: Path, group: str) -> None:
    """Past usage of an application that has ended counts for its group, also if a wildcard was charged for it."""
    made, user = Restarted(tmp_path), UserGroup("sue", (group,))
    made.partition.configure(parse_config(WILDCARD_LIMITS).partition())
    made.partition.submit("app", user, "root.a")
    assert made.partition.allocate("0", "app", Resource(gpu=2), duration=60)
    made.now += 60_000
    made.partition.remove("app")
    made.partition.journal.compact()
    made.restart()
    made.partition.journal.close()
    load_usage(made.path, UsageFeed(usage := BinnedUsage(bin=60, decay=1, bins=9)))

    assert [one.settled for one in made.model.accounts() if one.owner == "*"] == [120, 0]
    assert sum(usage.bins("sue", START)) == 120


@settings(max_examples=examples(15), deadline=None)
@given(data=st.data())
def test_a_restart_at_any_point_changes_nothing(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever has happened, new budgets that are opened from the journal have the same accounts."""
    with closing(Restarted(tmp_path_factory.mktemp("journal"))) as made:
        for user in USERS:
            made.partition.submit(user.name, user, data.draw(st.sampled_from(["root.a.x", "root.b"])))
        for number in range(data.draw(st.integers(1, 14))):
            name, owner = f"a-{data.draw(st.integers(0, number))}", data.draw(st.sampled_from(USERS)).name
            usage = Resource(gpu=data.draw(st.integers(0, 3)), memory=data.draw(st.integers(0, 2)))
            duration = data.draw(st.none() | st.integers(1, 200_000))
            partition = made.partition
            match data.draw(st.sampled_from(["allocate", "adopt", "request", "release", "resize", "audit", "replace"])):
                case "allocate" | "adopt" | "request" as operation if partition.allocation(name) is None:
                    getattr(partition, operation)(name, owner, usage, duration=duration)
                case "replace" if partition.allocation(name) is partition.allocation(f"{name}-real") is None:
                    partition.adopt(name, owner, usage, placeholder=True, duration=duration)
                    partition.replace(name, f"{name}-real", usage)
                case "release":
                    partition.release(name)
                case "resize" if (known := partition.allocation(name)) is not None and known.state != "pending":
                    partition.resize(name, usage)
                case "audit":
                    partition.reconcile(partition.audit([RunningAllocation(name, owner, usage)]))
            made.now += data.draw(st.sampled_from([0, 1, 999, 70_000, 86_400_000, 40 * 86_400_000]))
            if data.draw(st.integers(0, 4)) == 0:
                made.restart()
        made.restart()


@pytest.mark.parametrize("seconds", [1, 17, 60, 99])
def test_a_compaction_between_a_change_and_its_undoing(tmp_path: Path, seconds: int) -> None:
    """Fair shares with a half-life are the same to the last digit as without the compaction and the restart."""
    config = parse_config(
        "partitions: [{ugm: {fairshare: {defaultshares: 1, halflife: 61}}, queues: [{name: a}]}]"
    ).partition()
    times = [START]
    partitions = {
        name: open_partition(tmp_path / name, config, clock=lambda: times[0]) for name in ("one", "compacted")
    }

    for partition in partitions.values():
        partition.submit("app", USERS[0], "root.a")
        partition.allocate("first", "app", Resource(vcore=7 * seconds))
    times[0] += seconds
    for partition in partitions.values():
        partition.allocate("second", "app", Resource(vcore=7919))
    partitions["compacted"].journal.compact()
    partitions["compacted"].journal.close()
    partitions["compacted"] = open_partition(tmp_path / "compacted", config, clock=lambda: times[0])
    for partition in partitions.values():
        partition.release("second")
    times[0] += 1234

    found = [partition.model_reports()[0].state["users"] for partition in partitions.values()]
    for partition in partitions.values():
        partition.journal.close()
    assert found[0] == found[1]


@pytest.mark.parametrize("first", ["ana", "ben"])
def test_usage_at_the_same_time_before_a_compaction(tmp_path: Path, first: str) -> None:
    """Applications that have run side by side before a compaction are not taken for each other."""
    now = START * 1000

    def opened() -> JournaledPartition:
        budget = Budget("science", elastic_group="science", amounts=Resource(gpu=10), mode=BudgetMode.ADMIT)
        model = Budgets([budget], elastic_groups=lambda claim: ["science"] * (claim.user.name == "ana"), start=START)
        return open_partition(tmp_path / "j", CONFIG, models=[model], clock=lambda: now / 1000)

    partition = opened()
    users = [first, *({"ana", "ben"} - {first})]
    for user in users:
        partition.submit(user, UserGroup(user), "root.q")
        partition.allocate(user, user, Resource(gpu=1))
        now += 1000
    now += 9_000
    for user in reversed(users):
        partition.release(user)
        now += 1000
    before = partition.budget_accounts()
    assert before[0].settled == {"ana": 12, "ben": 10}[first]

    for _ in range(2):
        partition.journal.compact()
        partition.journal.close()
        partition = opened()
        assert partition.budget_accounts() == before
    partition.journal.close()


class OneHolder:
    """A model that grants one allocation, and replaces it by one of a higher priority."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin again."""
        self.holder: Claim | None = None

    def at(self, now: int) -> None:
        """Ignore the time."""

    def check(self, claim: Claim) -> Iterator[Violation]:  # noqa: ARG002 - of the interface
        """Deny a second allocation."""
        if self.holder is not None:
            yield Violation("holder", "one", "", "", "gpu", 1, 1, 1)

    def charge(self, claim: Claim) -> None:
        """Note the holder."""
        self.holder = claim

    def refund(self, claim: Claim) -> None:  # noqa: ARG002 - as above
        """Note that there is none."""
        self.holder = None

    def evictions(self, claim: Claim) -> Iterator[str]:
        """Propose the holder."""
        if self.holder is not None and self.holder.priority < claim.priority:
            yield self.holder.allocation_id


@pytest.mark.parametrize("application", ["one", "two"])
def test_an_eviction_of_the_past(tmp_path: Path, application: str) -> None:
    """The victim ends before the allocation begins that takes its place, also when a model repeats the past."""
    with open_partition(tmp_path / "j", CONFIG, models=[OneHolder()]) as partition:
        for name in ("one", "two"):
            partition.submit(name, USERS[0], "root.q")
        partition.allocate("one-0", "one", Resource(gpu=1))
        assert partition.allocate_evicting("new", application, Resource(gpu=1), priority=1).evictions == ("one-0",)
        state = checkpoint_of(partition._state)
        partition.verify()

    model = OneHolder()
    with open_partition(tmp_path / "j", models=[model]) as partition:
        assert model.holder is not None
        assert model.holder.allocation_id == "new"
        assert not partition.allocate("second", "two", Resource(gpu=1))
        assert checkpoint_of(partition._state) == state
