"""The self-check: damage of every kind is found and named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.tracking_fixtures import BOB, ONE, SUE, group, partition, user
from ugm import InvariantError, Manager
from ugm.tracking.holding import Holding, OwnerUsageTree


@pytest.fixture(name="manager")
def _manager() -> Manager:
    manager = Manager(partition({"root": [user("sue", memory=9)], "root.a": [group("dev", applications=9)]}))
    manager.increase("root.a", "app-1", ONE, SUE)
    manager.increase("root.b", "app-1", ONE, SUE)
    return manager


def sue(manager: Manager) -> OwnerUsageTree:
    """Return the usage tree of sue."""
    return manager._index.users["sue"]


def holding(manager: Manager) -> Holding:
    """Return the first holding of sue's application."""
    return manager._index.holdings["app-1"]


DAMAGE: dict[str, tuple[Callable[[Manager], object], str]] = {
    "usage": (
        lambda manager: setattr(sue(manager).counters["root"], "free_memory", 8),
        "user 'sue' counts 1 memory in root, but its applications hold 2",
    ),
    "applications": (
        lambda manager: setattr(sue(manager).counters["root"], "running", 2),
        "user 'sue' counts 2 applications in root, but its applications hold 1",
    ),
    "counter missing": (lambda manager: sue(manager).counters.clear(), "user 'sue' does not count root"),
    "tracker missing": (
        lambda manager: manager._index.users.clear(),
        "user 'sue' is charged 'app-1' but is not tracked",
    ),
    "holding missing": (
        lambda manager: manager._index.holdings.clear(),
        "user 'sue' lists other holdings than are charged to it",
    ),
    "two groups": (
        lambda manager: setattr(holding(manager).sibling, "group", None),
        "application 'app-1' is charged to more than one user or group",
    ),
    "one queue twice": (
        lambda manager: setattr(holding(manager).sibling, "queue_path", "root.a"),
        "application 'app-1' is listed twice in one queue",
    ),
}


@pytest.mark.parametrize(("damage", "finding"), DAMAGE.values(), ids=DAMAGE)
def test_damage(manager: Manager, damage: Callable[[Manager], object], finding: str) -> None:
    """The self-check reports every counter or index that does not agree with the holdings."""
    manager.verify()
    damage(manager)

    with pytest.raises(InvariantError) as caught:
        manager.verify()
    assert any(found.endswith(finding) for found in caught.value.findings), caught.value.findings


def test_idle_trackers_are_not_behind(manager: Manager) -> None:
    """A tracker that is idle since the limits changed passes the self-check."""
    manager.update_config(partition({"root": [user("sue", gpu=9)], "root.b": [user("*", memory=9)]}))
    manager.verify()
    manager.increase("root.b", "app-2", ONE, BOB)
    manager.verify()
