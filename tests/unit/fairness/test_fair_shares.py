"""Fair shares of a partition: usage by time, users that are not listed, changes, and reopening."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from ugm import Partition, RequestError, Resource, UserGroup, parse_config
from ugm.config import PartitionConfig
from ugm.fairness import BinnedUsage, ContinuousUsage, FairShares, ShareTree
from ugm.partition import AbstractPartition
from ugm.store import open_partition

CORE: Final = Resource(vcore=1000)
BINS: Final = "bin: 100, bins: 4, decay: 1/2, weights: {vcore: 1/1000}"


def config(shares: str | None = f"users: {{ana: 1, ben: 1}}, {BINS}", policy: str = "share") -> PartitionConfig:
    """Return a configuration with the queue ``prod``, a limit of ``ben``, and some shares or none."""
    queue = f"{{name: prod, properties: {{application.sort.policy: {policy}}}}}"
    limits = "limits: [{users: [ben], maxresources: {vcore: 1}}]"
    extensions = "" if shares is None else f", ugm: {{fairshare: {{{shares}}}}}"
    return parse_config(f"partitions: [{{queues: [{queue}], {limits}{extensions}}}]").partition()


class Scene:
    """A partition in memory, or with a store that can be opened again, and a clock that the test moves."""

    partition: Any

    def __init__(self, shares: PartitionConfig | None = None, path: Path | None = None, **options: Any) -> None:  # noqa: ANN401 - as the partition
        self.now, self._path = 0, path
        chosen = shares or config()
        if path is None:
            self.partition = Partition(chosen, clock=lambda: self.now, **options)
        else:
            self.partition = open_partition(path, chosen, clock=lambda: self.now)

    def run(self, user: str, seconds: int) -> None:
        """Let a user use one core for some seconds."""
        name = f"{user}-{self.now}"
        self.partition.submit(name, UserGroup(user), "root.prod")
        assert self.partition.allocate(name, name, CORE)
        self.now += seconds
        assert self.partition.release(name)
        self.partition.remove(name)

    def submit_in_both(self) -> None:
        """Submit an application of ``ann`` in ``lab``, and one in ``ops``."""
        for group in ("lab", "ops"):
            self.partition.submit(group, UserGroup("ann", (group,)), "root.prod")

    def use_both(self) -> None:
        """Let ``ann`` use something in ``lab``, and then in ``ops``."""
        self.submit_in_both()
        for group in ("lab", "ops"):
            assert self.partition.allocate(group, group, CORE)
            self.now += 10

    def require_same_after_restarts(self) -> dict[str, str]:
        """Open the store again and again, expect the same usage of each ranked user by path, and return it."""
        assert self._path is not None
        before = places(self.partition)
        for _ in range(3):
            self.partition.close()
            self.partition = open_partition(self._path, clock=lambda: self.now)
            assert places(self.partition) == before
            self.partition.verify()
        self.partition.close()
        return before


def order(partition: AbstractPartition) -> list[str]:
    """Return the users in scheduling order."""
    return [turn.user for turn in partition.order()]


def places(partition: AbstractPartition) -> dict[str, str]:
    """Return the usage of each ranked user by path."""
    [report] = (report for report in partition.model_reports() if report.model == "FairShares")
    return {one["path"]: one["usage"] for one in report.state["users"]}


def test_passes_and_wake_ups_use_the_same_order() -> None:
    """A pass reads the ranks once; every wake-up reads them again."""
    scene = Scene()
    scene.run("ana", 60)
    scene.partition.add_node("n", CORE)
    for user in ("ana", "ben"):
        scene.partition.submit(user, UserGroup(user), "root.prod")
        scene.partition.request(f"{user}.0", user, CORE)

    assert [head.request.application_id for head in scene.partition.scheduling_pass()] == ["ben", "ana"]
    assert [request.application_id for request in scene.partition.wake()] == ["ben"]
    scene.run("ben", 300)
    assert order(scene.partition) == ["ana", "ben"]
    assert [request.application_id for request in scene.partition.wake()] == ["ana"]


def test_usage_survives_a_restart(tmp_path: Path) -> None:
    """A partition that is opened again has the usage of its store and of what runs."""
    scene = Scene(path=tmp_path / "j")
    scene.run("ana", 60)
    scene.partition.submit("run", UserGroup("ben"), "root.prod")
    scene.partition.allocate("run.0", "run", CORE)
    scene.now += 30
    assert scene.require_same_after_restarts() == {"ana": "60", "ben": "30"}


ACCOUNTS: Final = f"accounts: {{lab: 1, ops: 3}}, users: {{lab/sue: 1}}, defaultshares: 1, {BINS}"


def test_added_and_changed_shares_after_a_restart(tmp_path: Path) -> None:
    """Shares that are added begin without a past, and those of another decay continue, also after a restart."""
    scene = Scene(config(None), tmp_path / "j")
    scene.run("sue", 40)
    scene.partition.configure(config(ACCOUNTS))
    scene.run("ben", 30)
    scene.partition.configure(config(ACCOUNTS.replace(BINS, "halflife: 50")))
    scene.run("ann", 20)
    assert scene.require_same_after_restarts()["lab/sue"] == "0"


def in_groups(ops: int = 3) -> PartitionConfig:
    """Return a configuration with the shares of two groups."""
    return config(f"accounts: {{lab: 1, ops: {ops}}}, defaultshares: 1, halflife: 1000")


def test_an_earlier_claim_is_held(tmp_path: Path) -> None:
    """After a restart, an allocation that began before the last one does not move its user."""
    scene = Scene(in_groups(), tmp_path / "j")
    scene.use_both()
    scene.partition.release("ops")
    assert list(scene.require_same_after_restarts()) == ["ops/ann"]


@pytest.mark.parametrize("first", [in_groups(), config(None)], ids=["shares", "no shares"])
def test_another_configuration(tmp_path: Path, first: PartitionConfig) -> None:
    """Other shares move nobody, and new ones do not depend on the order of the ledger."""
    scene = Scene(first, tmp_path / "j")
    scene.use_both()
    scene.partition.resize("lab", Resource(vcore=2000))
    scene.partition.configure(in_groups(2))
    assert list(scene.require_same_after_restarts()) == ["lab/ann" if first == config(None) else "ops/ann"]


def test_replaced_shares_of_the_program() -> None:
    """New shares of the program take the groups from the ledger."""

    def made() -> FairShares:
        return FairShares(ShareTree({"lab": 1, "ops": 3}, {}), ContinuousUsage(half_life=9), default_shares=1)

    shares = made()
    scene = Scene(config(None), models=[shares])
    scene.submit_in_both()
    assert scene.partition.allocate("one", "lab", CORE)
    scene.partition.replace_model(shares, made())
    assert list(places(scene.partition)) == ["lab/ann"]


def test_changed_shares_keep_the_usage() -> None:
    """Other shares keep the usage; another decay begins with the value of now; without shares, nothing is kept."""
    scene = Scene()
    scene.run("ana", 100)
    scene.partition.submit("run", UserGroup("ben"), "root.prod")
    scene.partition.allocate("run.0", "run", CORE)
    scene.now += 100
    assert places(scene.partition) == {"ana": "25", "ben": "50"}

    plan = scene.partition.plan(config(f"users: {{ana: 9, ben: 1}}, {BINS}"))
    assert str(plan) == "~ share user 'ana': shares 1 -> 9"
    scene.partition.apply(plan)
    assert places(scene.partition) == {"ana": "25", "ben": "50"}
    scene.partition.configure(config("users: {ana: 9, ben: 1}, bin: 100, bins: 2, weights: {vcore: 1/1000}"))
    assert places(scene.partition) == {"ana": "25", "ben": "50"}
    scene.now += 10
    assert places(scene.partition) == {"ana": "25", "ben": "60"}
    scene.partition.verify()
    scene.partition.configure(config("users: {ana: 9, ben: 1, eva: 2}", policy="fifo"))
    assert places(scene.partition)["eva"] == "0"


def test_verification() -> None:
    """A usage that is not that of the held claims is reported."""
    scene = Scene()
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
