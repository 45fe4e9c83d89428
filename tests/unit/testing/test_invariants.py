"""The checks of `ugm.testing` find usage above limits, and counters that do not follow from what is held."""

from __future__ import annotations

import pytest

from support.tracking_fixtures import ONE, SUE, group, partition, user
from ugm import InvariantError, Manager, Partition, Resource, parse_config
from ugm.testing import check_never_above, verify_all


def test_verify_all_of_a_partition() -> None:
    """A partition can be checked like a manager; a counter that has drifted is found, and so is a limit exceeded."""
    limits = "partitions: [{limits: [{users: ['*'], maxresources: {memory: 4}}], queues: [{name: a}]}]"
    checked = Partition(parse_config(limits).partition())
    checked.submit("app", SUE, "root.a")
    checked.allocate("app-0", "app", Resource(memory=3))
    verify_all(checked)
    check_never_above(checked)
    checked.adopt("app-1", "app", Resource(memory=3))
    verify_all(checked)
    with pytest.raises(InvariantError, match=r"^user 'sue' in root: 6 of 4 memory used, 2 too much"):
        check_never_above(checked)
    checked._state.tree.root.chain[0].free_memory += 1
    with pytest.raises(InvariantError):
        verify_all(checked)


def test_never_above_finds_both() -> None:
    """Whoever uses or runs more than is allowed is named, users and groups."""
    manager = Manager(partition({"root.a": [user("sue", memory=1), group("dev", applications=1)]}))
    for application in ("app-1", "app-2"):
        manager.adopt("root.a", application, ONE, SUE)

    with pytest.raises(InvariantError) as caught:
        check_never_above(manager)
    assert caught.value.findings == (
        "user 'sue' in root.a: 2 of 1 memory used, 1 too much (limit for 'sue')",
        "group 'dev' in root.a: 2 of 1 applications running (limit for 'dev')",
    )


def test_verify_all_has_the_manager_recompute() -> None:
    """Damage to a counter that nobody shows is found all the same."""
    manager = Manager(partition({"root": [user("sue", memory=9)]}))
    manager.increase("root.a", "app-1", ONE, SUE)
    sue = manager.get_user_tracker("sue")
    assert sue is not None
    sue._tree.counters["root"].free_memory += 5

    with pytest.raises(InvariantError) as caught:
        verify_all(manager)
    assert str(caught.value) == "user 'sue' counts -4 memory in root, but its applications hold 1"
