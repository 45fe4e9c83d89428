"""What `ugm.testing` gives to other programs: that it finds what it is there to find."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from support.tracking_fixtures import NOTHING, ONE, SUE, group, partition, user
from ugm import (
    InvariantError,
    Manager,
    Partition,
    Resource,
    UserGroup,
    parse_config,
)
from ugm.configuration import PartitionConfig, QueueConfig
from ugm.testing import (
    TrackerMachine,
    check_never_above,
    check_sums,
    verify_all,
)
from ugm.tracking import GroupUsage, QueueUsage, Tracker, UserUsage


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
    with pytest.raises(InvariantError, match="user 'sue' uses 6 memory in root, where the limit is 4"):
        check_never_above(checked)
    checked._state.tree.root.chain[0].free_memory += 1
    with pytest.raises(InvariantError):
        verify_all(checked)


class Told:
    """A tracker with given answers."""

    def __init__(self, users: tuple[UserUsage, ...], groups: tuple[GroupUsage, ...] = ()) -> None:
        self._users = users
        self._groups = groups

    def increase_tracked_resource(self, *_: object) -> bool:
        """Grant nothing."""
        return False

    def decrease_tracked_resource(self, *_: object, **__: object) -> None:
        """Do nothing."""

    def get_user_resources(self, user: UserGroup) -> Resource | None:
        """Return what the root of a user shows."""
        return next((usage.queues.usage for usage in self._users if usage.user_name == user.name), None)

    def get_group_resources(self, group: str) -> Resource | None:
        """Return nothing for any group."""
        return next((NOTHING for usage in self._groups if usage.group_name == group), None)

    def get_users_resources(self) -> tuple[UserUsage, ...]:
        """Return the given answer."""
        return self._users

    def get_groups_resources(self) -> tuple[GroupUsage, ...]:
        """Return the given answer."""
        return self._groups


def queue(path: str, usage: Resource, applications: tuple[str, ...], *children: QueueUsage) -> QueueUsage:
    """Return a queue without limits."""
    return QueueUsage(path, usage, applications, None, 0, children)


def findings(tracker: Tracker) -> tuple[str, ...]:
    """Return what is wrong with the sums of a tracker."""
    with pytest.raises(InvariantError) as caught:
        check_sums(tracker)
    return caught.value.findings


def test_sums_of_one_user() -> None:
    """Negative usage, more usage or applications below than above, and empty queues are found."""
    children = (
        queue("root.a", Resource(memory=-1, vcore=2), ("app-1", "app-2")),
        queue("root.b", NOTHING, ()),
    )
    root = queue("root", Resource(vcore=1), ("app-1",), *children)

    assert findings(Told((UserUsage("sue", {}, root),))) == (
        "user 'sue' uses 1 vcore more below root than in it",
        "user 'sue' runs 'app-2' below root but not in it",
        "user 'sue' uses -1 memory in root.a",
        "user 'sue' is listed in root.b without a running application",
    )


def test_never_above_finds_both() -> None:
    """Whoever uses or runs more than is allowed is named, users and groups."""
    manager = Manager(partition({"root.a": [user("sue", memory=1), group("dev", applications=1)]}))
    for application in ("app-1", "app-2"):
        manager.adopt("root.a", application, ONE, SUE)

    with pytest.raises(InvariantError) as caught:
        check_never_above(manager)
    assert caught.value.findings == (
        "user 'sue' uses 2 memory in root.a, where the limit is 1",
        "group 'dev' runs 2 applications in root.a, where the limit is 1",
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


# The model


# The machine


class NoGroups(TrackerMachine):
    """A tracker that forgets the groups of its users."""

    def make_tracker(self, config: PartitionConfig) -> Tracker:
        """Return a manager under a configuration without group limits."""
        return Manager(_without_groups(config))


def _without_groups(config: PartitionConfig) -> PartitionConfig:
    def strip(queue: QueueConfig) -> QueueConfig:
        kept = tuple(limit for limit in queue.limits if limit.users)
        return QueueConfig(queue.name, limits=kept, queues=tuple(strip(child) for child in queue.queues))

    return PartitionConfig(queues=(strip(config.root),))


class Deaf(TrackerMachine):
    """A tracker that grants nothing."""

    def make_tracker(self, config: PartitionConfig) -> Tracker:
        """Return a tracker that ignores its configuration."""
        assert config.root.name == "root"
        return Told(())


class Lenient(TrackerMachine):
    """A tracker that is not as strict as it should be."""

    def make_tracker(self, config: PartitionConfig) -> Tracker:
        """Return a manager that logs misuse."""
        return Manager(config, strict=False)


@pytest.mark.parametrize("machine", [NoGroups, Deaf, pytest.param(Lenient, marks=pytest.mark.ci)])
def test_machine_finds_it(machine: type[TrackerMachine]) -> None:
    """A tracker that departs from the model is found out."""
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(machine, settings=settings(max_examples=200, database=None, phases=[Phase.generate]))
