"""Fair shares of a partition: usage by time, users that are not listed, changes, and reopening."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest

from ugm import Partition, RequestError, Resource, UserGroup, parse_config
from ugm.config import PartitionConfig
from ugm.fairness import BinnedUsage, FairShares, ShareTree
from ugm.partition import AbstractPartition
from ugm.store import open_partition

CORE: Final = Resource(vcore=1000)
BINS: Final = "bin: 100, bins: 4, decay: 1/2, weights: {vcore: 1/1000}"


def config(shares: str, policy: str = "share") -> PartitionConfig:
    """Return a configuration with the queue ``prod`` and some shares."""
    queue = f"{{name: prod, properties: {{application.sort.policy: {policy}}}}}"
    return parse_config(f"partitions: [{{queues: [{queue}], ugm: {{fairshare: {{{shares}}}}}}}]").partition()


class Scene:
    """A partition with a clock that the test moves."""

    def __init__(self, make: Callable[..., Any], shares: str = f"users: {{ana: 1, ben: 1}}, {BINS}") -> None:
        self.now = 0
        self.partition: Any = make(config(shares), clock=lambda: self.now)

    def run(self, user: str, seconds: int, *groups: str) -> None:
        """Let a user use one core for some seconds."""
        name = f"{user}-{self.now}"
        self.partition.submit(name, UserGroup(user, groups), "root.prod")
        assert self.partition.allocate(name, name, CORE)
        self.now += seconds
        assert self.partition.release(name)
        self.partition.remove(name)

    def wait(self, *users: str) -> list[str]:
        """Return the users in scheduling order, who each have a request."""
        for user in users:
            self.partition.submit(user, UserGroup(user), "root.prod")
            self.partition.request(f"{user}.0", user, CORE)
        return order(self.partition)


def order(partition: AbstractPartition) -> list[str]:
    """Return the users in scheduling order."""
    return [turn.user for turn in partition.order()]


def usage(partition: AbstractPartition) -> dict[str, Fraction]:
    """Return the usage of each ranked user."""
    [report] = partition.model_reports()
    return {one["user"]: Fraction(one["usage"]) for one in report.state["users"]}


def test_passes_and_wake_ups_use_the_same_order() -> None:
    """A pass reads the ranks once; every wake-up reads them again."""
    scene = Scene(Partition)
    scene.run("ana", 60)
    scene.partition.add_node("n", CORE)
    scene.wait("ana", "ben")

    assert [head.request.application_id for head in scene.partition.scheduling_pass()] == ["ben", "ana"]
    assert [request.application_id for request in scene.partition.wake()] == ["ben"]
    scene.run("ben", 300)
    assert order(scene.partition) == ["ana", "ben"]
    assert [request.application_id for request in scene.partition.wake()] == ["ana"]


def test_usage_survives_a_restart(tmp_path: Path) -> None:
    """A partition that is opened again has the usage of its store and of what runs."""
    path = str(tmp_path / "j")

    def opened_with(shares: PartitionConfig, clock: Callable[[], int]) -> AbstractPartition:
        return open_partition(path, shares, clock=clock)

    scene = Scene(opened_with)
    scene.run("ana", 60)
    scene.partition.submit("run", UserGroup("ben"), "root.prod")
    scene.partition.allocate("run.0", "run", CORE)
    scene.now += 30
    before = usage(scene.partition)
    scene.partition.close()

    for _ in range(2):
        with open_partition(path, clock=lambda: scene.now) as opened:
            assert usage(opened) == before == {"ana": 60, "ben": 30}
            opened.verify()


ACCOUNTS: Final = f"accounts: {{lab: 1, ops: 3}}, users: {{lab/sue: 1}}, defaultshares: 1, {BINS}"


def places(partition: AbstractPartition) -> dict[str, str]:
    """Return the usage of each ranked user by path."""
    [report] = (report for report in partition.model_reports() if report.model == "FairShares")
    return {one["path"]: one["usage"] for one in report.state["users"]}


def test_added_and_changed_shares_after_a_restart(tmp_path: Path) -> None:
    """Shares that are added begin without a past, and those of another decay continue, also after a restart."""
    path = str(tmp_path / "j")
    none = parse_config("partitions: [{queues: [{name: prod}]}]").partition()
    scene = Scene(lambda _, clock: open_partition(path, none, clock=clock))
    scene.run("sue", 40)
    scene.partition.configure(config(ACCOUNTS))
    scene.run("ben", 30)
    scene.partition.configure(config(ACCOUNTS.replace(BINS, "halflife: 50")))
    scene.run("ann", 20)
    before = places(scene.partition)
    assert before["lab/sue"] == "0"
    for _ in range(3):
        scene.partition.close()
        scene.partition = open_partition(path, clock=lambda: scene.now)
        assert places(scene.partition) == before
    scene.partition.close()


def test_changed_shares_keep_the_usage() -> None:
    """Other shares keep the usage; another decay begins with the value of now; without shares, nothing is kept."""
    scene = Scene(Partition)
    scene.run("ana", 100)
    scene.partition.submit("run", UserGroup("ben"), "root.prod")
    scene.partition.allocate("run.0", "run", CORE)
    scene.now += 100
    assert usage(scene.partition) == {"ana": 25, "ben": 50}

    plan = scene.partition.plan(config(f"users: {{ana: 9, ben: 1}}, {BINS}"))
    assert str(plan) == "~ share user 'ana': shares 1 -> 9"
    scene.partition.apply(plan)
    assert usage(scene.partition) == {"ana": 25, "ben": 50}
    scene.partition.configure(config("users: {ana: 9, ben: 1}, bin: 100, bins: 2, weights: {vcore: 1/1000}"))
    assert usage(scene.partition) == {"ana": 25, "ben": 50}
    scene.now += 10
    assert usage(scene.partition) == {"ana": 25, "ben": 60}
    scene.partition.verify()
    scene.partition.configure(config("users: {ana: 9, ben: 1, eva: 2}", policy="fifo"))
    assert usage(scene.partition)["eva"] == 0


def test_verification() -> None:
    """A usage that is not that of the held claims is reported."""
    scene = Scene(Partition)
    [model] = scene.partition._models.all
    scene.partition.verify()
    model.usage.add_use("ana", CORE, 0)

    with pytest.raises(Exception, match="the usage of 'ana' counts other claims"):
        scene.partition.verify()


def test_misuse() -> None:
    """The shares of a program need a tree, a measure of usage and names that differ."""
    measure, tree = BinnedUsage(bin=1, decay=1, bins=1), ShareTree({"a": 1, "b": 1}, {"a/x": 1, "b/x": 1})
    for arguments in ((None, measure), (ShareTree({}, {}), None), (tree, measure)):
        with pytest.raises(RequestError):
            FairShares(*arguments)
    with pytest.raises(RequestError):
        FairShares(ShareTree({}, {}), measure, default_shares=-1)
    with pytest.raises(RequestError):
        FairShares(ShareTree({}, {}), measure).explain("a", "b")
