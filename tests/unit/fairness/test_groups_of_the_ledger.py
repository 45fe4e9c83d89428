"""The accounts and the exact usage of users that are not listed, when all claims of the ledger are charged again."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from support.interruption_points import Interruption, points_in
from ugm import AllocationRequest, Partition, Resource, UserGroup, parse_config
from ugm.config import PartitionConfig
from ugm.errors import RequestError
from ugm.fairness import BinnedUsage, ContinuousUsage, FairShares, ShareTree
from ugm.fairness.declared import declared_shares
from ugm.partition import AbstractPartition
from ugm.store import open_partition

CORE: Final = Resource(vcore=1000)
MUCH: Final = Resource(vcore=5000)


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


@contextmanager
def interrupting(monkeypatch: pytest.MonkeyPatch, place: type, name: str, *, after: bool) -> Iterator[None]:
    """Interrupt the next call of a method, before it or after it."""
    method: Callable[..., Any] = getattr(place, name)

    def interrupt(*arguments: Any) -> None:  # noqa: ANN401 - as the method
        if after:
            method(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(place, name, interrupt)
        with pytest.raises(KeyboardInterrupt):
            yield


def test_interrupted_at_the_next_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recovery keeps the groups of an operation that was final before."""
    scene = Scene()
    scene.use_both()
    with interrupting(monkeypatch, FairShares, "at", after=False):
        scene.partition.release("lab")
    assert list(usage(scene.partition)) == ["ops/ann"]


def test_interrupted_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    """A charge that failed stays undone if the recovery is interrupted, too."""
    scene = Scene()
    assert scene.partition.allocate("lab", "lab", CORE)
    [model] = scene.partition._models.all
    with interrupting(monkeypatch, type(model._groups), "charge", after=True):
        scene.partition.allocate("ops", "ops", CORE)
    with interrupting(monkeypatch, type(model._groups), "reset", after=False):
        usage(scene.partition)
    assert scene.partition.allocation("ops") is None
    assert list(usage(scene.partition)) == ["lab/ann"]


def test_interrupted_configuration() -> None:
    """Wherever the change of the shares is interrupted, users stay in their accounts with exactly the same usage."""
    scene = Scene()

    @contextmanager
    def prepared() -> Iterator[Callable[[], object]]:
        nonlocal scene
        scene = Scene()
        scene.use_both()
        scene.partition.release("ops")
        scene.now += 7
        yield lambda: scene.partition.configure(config(2))

    points = [point for point in points_in(prepared) if "fairness" in point.code.co_filename][::9]
    with prepared():
        expected = usage(scene.partition)
    for point in points:
        with prepared() as call:
            interruption = Interruption(point)
            interruption.run(call)
        assert interruption.has_raised
        assert usage(scene.partition) == expected
        scene.partition.verify()
    assert len(points) > 30


@pytest.mark.parametrize("decay", ["halflife: 7", "halflife: 86400", "bin: 10, bins: 5, decay: 1/2"])
def test_exact_usage(tmp_path: Path, decay: str) -> None:
    """Compactions and denied gangs leave no trace in any digit."""
    scene, chance = Scene(tmp_path / "j", config(decay=decay)), random.Random(decay)
    held: list[str] = []
    for number in range(40):
        scene.now += chance.randrange(50)
        name = chance.choice(["lab", "ops"])
        gang = [AllocationRequest(f"g{number}", name, CORE), AllocationRequest(f"h{number}", "ben", MUCH)]
        assert not scene.partition.allocate_all(gang)
        if chance.random() < 0.5 or not held:
            held.append(f"x{number}")
            assert scene.partition.allocate(held[-1], name, Resource(vcore=chance.randrange(1, 5000)))
        else:
            scene.partition.release(held.pop(chance.randrange(len(held))))
        if number % 10 == 9:
            before = usage(scene.partition)
            scene.open_again()
            assert usage(scene.partition) == before
    scene.partition.close()


@pytest.mark.parametrize(
    "record",
    [
        {"now": "x", "usage": [], "groups": {}},
        {"now": 0, "usage": [["a", 0, 0]], "groups": {}},
        {"now": 0, "usage": [[5, 0, 0, "5"]], "groups": {}},
        {"now": 0, "usage": [["a", 0, 0, "NaN"]], "groups": {}},
        {"now": 0, "usage": [["a", 0, "1", "5"]], "groups": {}},
        {"now": 0, "usage": [["a", 0, 0, {"sign": 0}]], "groups": {}},
        {"now": 0, "usage": [["a", 0, 0, [[0, "1", "0"]]]], "groups": {}},
        {"now": 0, "usage": [], "groups": {"a": "lab"}},
        {"now": 0, "usage": [], "groups": {"a": [1]}},
        {"now": 0, "usage": [], "groups": [1]},
    ],
    ids=str,
)
@pytest.mark.parametrize("decay", ["halflife: 7", "bin: 10, bins: 5"])
def test_damaged_past(record: dict[str, object], decay: str) -> None:
    """A past of another form is an error that the store reports."""
    fair_share = config(decay=decay).ugm.fair_share
    assert fair_share is not None
    with pytest.raises((LookupError, ValueError, TypeError, ArithmeticError, RequestError)):
        declared_shares(fair_share).load(record)


def test_owners_that_have_used_nothing() -> None:
    """An owner whose use has begun and ended in the same second is forgotten."""
    measure = BinnedUsage(bin=10, decay=1, bins=2)
    measure.add_use("ann", CORE, 5)
    measure.remove_use("ann", CORE, 5)
    assert measure.owners == ()
