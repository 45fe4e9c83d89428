"""The cost of an operation does not grow: it executes the same number of lines at two sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from support.line_counts import lines_run_by
from support.tracking_fixtures import ONE, SUE, group, partition, user
from ugm import Manager, Resource, UserGroup
from ugm.configuration import PartitionConfig

QUEUE: Final = "root.x.y"

BY_QUEUE: Final = {
    "root": [user("*", memory=10**9, gpu=10**9), group("dev", memory=10**9)],
    "root.x": [user("sue", memory=10**6, applications=10**6)],
    "root.x.y": [user("*", memory=10**6), group("dev", "*", memory=10**6)],
}
LIMITS: Final = partition(BY_QUEUE)

#: Every operation on the way of a request, for an application that runs and for one that does not.
OPERATIONS: Final[dict[str, Callable[[Manager], object]]] = {
    "increase": lambda manager: manager.increase(QUEUE, "app-1", ONE, SUE),
    "increase-other-size": lambda manager: manager.increase(QUEUE, "app-1", Resource(memory=7, gpu=1), SUE),
    "start": lambda manager: manager.increase(QUEUE, "new", ONE, SUE),
    "start-new-user": lambda manager: manager.increase(QUEUE, "newer", ONE, UserGroup("new", ("dev",))),
    "denied": lambda manager: manager.increase(QUEUE, "app-1", Resource(memory=10**10), SUE),
    "decrease": lambda manager: manager.decrease_tracked_resource(QUEUE, "app-1", ONE, remove_app=False, user=SUE),
    "end": lambda manager: manager.decrease_tracked_resource(QUEUE, "new", ONE, remove_app=True, user=SUE),
    "check": lambda manager: manager.check(QUEUE, "another", ONE, SUE),
    "headroom": lambda manager: manager.headroom(QUEUE, "app-1", SUE),
    "can_run_app": lambda manager: manager.can_run_app(QUEUE, "another", SUE),
    "adopt": lambda manager: manager.adopt(QUEUE, "another", ONE, SUE),
    "replace": lambda manager: manager.replace(QUEUE, "app-1", ONE, Resource(memory=2), SUE),
    "effective_limits": lambda manager: manager.effective_limits(SUE, QUEUE),
}


def prepared(config: PartitionConfig) -> Manager:
    """Return a manager in which sue runs one application."""
    manager = Manager(config)
    manager.increase(QUEUE, "app-1", Resource(memory=9), SUE)
    return manager


def costs(manager: Manager) -> dict[str, int]:
    """Return the cost of each operation."""
    return {name: lines_run_by(partial(operation, manager)) for name, operation in OPERATIONS.items()}


def test_users() -> None:
    """The number of users makes no difference."""

    def crowded(others: int) -> Manager:
        manager = prepared(LIMITS)
        for number in range(others):
            manager.increase(QUEUE, f"other-{number}", ONE, UserGroup(f"user-{number}", ("dev",)))
        return manager

    assert costs(crowded(200)) == costs(crowded(4_000))


def test_queues() -> None:
    """The number of queues makes no difference, whether configured or in use."""

    def crowded(others: int) -> Manager:
        manager = prepared(
            partition({**BY_QUEUE, **{f"root.x.q{number}": [user("sue", memory=9)] for number in range(others)}})
        )
        for number in range(others):
            manager.increase(f"root.x.q{number}", f"other-{number}", ONE, SUE)
        return manager

    assert costs(crowded(100)) == costs(crowded(2_000))


def test_after_a_swap() -> None:
    """After a change of the configuration the number of users makes no difference: only one of them is updated."""

    def crowded(others: int) -> Manager:
        manager = prepared(partition({}))
        for number in range(others):
            manager.increase(QUEUE, f"other-{number}", ONE, UserGroup(f"user-{number}"))
        manager.update_config(LIMITS)
        return manager

    assert costs(crowded(200)) == costs(crowded(4_000))
