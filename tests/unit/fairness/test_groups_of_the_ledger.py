"""The accounts and the exact usage of users that are not listed, when all claims of the ledger are charged again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from ugm import Partition, Resource, UserGroup, parse_config
from ugm.config import PartitionConfig
from ugm.fairness import ContinuousUsage, FairShares, ShareTree
from ugm.partition import AbstractPartition
from ugm.store import open_partition

CORE: Final = Resource(vcore=1000)


def config(ops: int | None = 3, decay: str = "halflife: 1000") -> PartitionConfig:
    """Return a configuration with the shares of ``ops``, and a limit of ``ben``; None for no shares."""
    shares = f"ugm: {{fairshare: {{accounts: {{lab: 1, ops: {ops}}}, defaultshares: 1, {decay}}}}}, "
    limits = "limits: [{users: [ben], maxresources: {vcore: 1}}]"
    return parse_config(f"partitions: [{{{'' if ops is None else shares}{limits}, queues: [{{name: a}}]}}]").partition()


def usage(partition: AbstractPartition) -> dict[str, str]:
    """Return the exact usage of each ranked user by path."""
    [report] = (report for report in partition.model_reports() if report.model == "FairShares")
    return {one["path"]: one["usage"] for one in report.state["users"]}


class Scene:
    """A partition in memory or with a store. ``ann`` has an application of ``lab`` and one of ``ops``."""

    partition: Any

    def __init__(self, path: Path | None = None, shares: PartitionConfig | None = None, **options: Any) -> None:  # noqa: ANN401 - as the partition
        self.now = 1000
        self._path = path
        chosen = shares or config()
        if path is None:
            self.partition = Partition(chosen, clock=lambda: self.now, **options)
        else:
            self.partition = open_partition(path, chosen, clock=lambda: self.now)
        for group in ("lab", "ops"):
            self.partition.submit(group, UserGroup("ann", (group,)), "root.a")
        self.partition.submit("ben", UserGroup("ben", ("lab",)), "root.a")

    def use_both(self) -> None:
        """Let ``ann`` use something in ``lab``, and then in ``ops``."""
        for group in ("lab", "ops"):
            assert self.partition.allocate(group, group, CORE)
            self.now += 10

    def open_again(self) -> None:
        """Open the store again."""
        assert self._path is not None
        self.partition.close()
        self.partition = open_partition(self._path, clock=lambda: self.now)


def test_an_earlier_claim_is_held(tmp_path: Path) -> None:
    """After a restart, an allocation that began before the last one does not move its user."""
    scene = Scene(tmp_path / "j")
    scene.use_both()
    scene.partition.release("ops")
    before = usage(scene.partition)
    assert list(before) == ["ops/ann"]
    for _ in range(3):
        scene.open_again()
        assert usage(scene.partition) == before
    scene.partition.close()


@pytest.mark.parametrize("first", [3, None])
def test_another_configuration(tmp_path: Path, first: int | None) -> None:
    """Other shares move nobody, and new ones do not depend on the order of the ledger."""
    scene = Scene(tmp_path / "j", config(first))
    scene.use_both()
    scene.partition.resize("lab", Resource(vcore=2000))
    scene.partition.configure(config(2))
    before = usage(scene.partition)
    assert list(before) == ["ops/ann" if first else "lab/ann"]
    for _ in range(2):
        scene.open_again()
        assert usage(scene.partition) == before
    scene.partition.close()


def test_replaced_shares_of_the_program() -> None:
    """New shares of the program take the groups from the ledger."""

    def made() -> FairShares:
        return FairShares(ShareTree({"lab": 1, "ops": 3}, {}), ContinuousUsage(half_life=9), default_shares=1)

    shares = made()
    scene = Scene(shares=config(None), models=[shares])
    assert scene.partition.allocate("one", "lab", CORE)
    scene.partition.replace_model(shares, made())
    assert list(usage(scene.partition)) == ["lab/ann"]
