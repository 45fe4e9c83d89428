"""Questions to a partition a piece at a time, and of those who have no application in it."""

from __future__ import annotations

from fractions import Fraction

import pytest

from support.partition_fixtures import SUE, Licences, changing_nothing, config, memory, partition_of, started
from ugm import Partition, RequestError, Resource, UserInQueue

LIMITS = '{groups: [dev], maxresources: {memory: 8}}, {users: ["*"], maxresources: {memory: 10}, maxapplications: 4}'
QUEUES = "{name: a, resources: {max: {memory: 9}}}, {name: b}"


@pytest.mark.parametrize(
    ("limits", "count", "gpu", "share", "resource"),
    [
        (LIMITS, 1, 0, Fraction(3, 10), "memory"),
        (LIMITS, 3, 0, Fraction(3, 4), None),
        ("", 1, 0, Fraction(0), None),
        ("{users: [sue], maxresources: {memory: 10, gpu: 0}}", 1, 2, Fraction(3), "gpu"),
    ],
)
def test_utilization(limits: str, count: int, gpu: int, share: Fraction, resource: str | None) -> None:
    """The nearest limit is the one of which the largest part is used; a limit of 0 counts as fully used."""
    partition = partition_of(QUEUES, limits=limits)
    for number in range(count):
        started(partition, f"app-{number}", 3 if count == 1 else 1)
    partition.adopt("gpus", "app-0", Resource(gpu=gpu))
    found = partition.user_utilization("sue")

    assert found is not None
    assert (found.share, found.resource, found.running_applications) == (share, resource, count)
    assert found.to_dict()["share"] == float(share)
    assert partition.user_utilization("ann") is partition.group_utilization("ops") is None


def test_queue_alone() -> None:
    """A queue alone is told without those below it, and without what is used there."""
    partition = partition_of("{name: p, queues: [{name: a}]}")
    started(partition, "app", 3, "root.p.a")
    parent, child = partition.queue_alone("root.p"), partition.queue_alone("root.P.A")

    assert parent is not None
    assert child is not None
    assert (parent.usage, parent.children, parent.is_leaf) == (Resource(), (), False)
    assert (child.usage, child.applications) == (memory(3), ("app",))


def test_pending() -> None:
    """What is pending in a queue itself is told with its sum."""
    partition = partition_of(QUEUES)
    started(partition, "app", 3)
    partition.request("x", "app", Resource(memory=2))
    partition.request("y", "app", Resource(memory=3, gpu=1))

    assert partition.pending("root.a") == (2, Resource(memory=5, gpu=1))
    assert partition.pending("root") == (0, Resource())


@pytest.mark.parametrize("amount", range(1, 12))
def test_check_of_a_user_in_a_queue(amount: int) -> None:
    """The answer is that which the first allocation of a new application gets, and asking changes nothing."""
    partition = partition_of(QUEUES, limits=LIMITS)
    started(partition, "app", 3)
    with changing_nothing(partition):
        decision = partition.check(UserInQueue(SUE, "root.a"), memory(amount))
    partition.submit("new", SUE, "root.a")

    assert decision == partition.allocate("new", "new", memory(amount))


def test_check_of_a_user_asks_other_models() -> None:
    """Other quota models are asked, too, and none is charged."""
    licences = Licences(2)
    partition = partition_of(QUEUES, models=[licences])

    assert [
        violation.kind for violation in partition.check(UserInQueue(SUE, "root.a"), Resource(licence=3)).violations
    ] == ["licence"]
    assert licences.used == 0


def test_check_of_a_user_in_a_queue_that_would_be_created() -> None:
    """A queue that is not there counts as created from the template above it."""
    rules, root = "{name: provided, create: true}", ", childtemplate: {resources: {max: {memory: 5}}}"
    partition = Partition(config(QUEUES, rules, root=root))
    assert partition.place(SUE, "root.new").queue_path == "root.new"
    with changing_nothing(partition):
        decision = partition.check(UserInQueue(SUE, "root.new"), memory(6))
    partition.submit("new", SUE, "root.new")

    assert not decision
    assert decision == partition.allocate("new", "new", memory(6))


def test_limits_of_a_user() -> None:
    """The limits and the headroom are those of a new application."""
    partition = partition_of(QUEUES, limits=LIMITS)
    started(partition, "app", 3)
    subject = UserInQueue(SUE, "root.a")
    limits, headroom = partition.limits(subject), partition.headroom(subject)
    partition.submit("new", SUE, "root.a")

    assert limits == partition.limits("new") == partition.limits(subject)
    assert headroom == partition.headroom("new") == memory(5)


def test_a_path_that_is_none() -> None:
    """What is no path is refused."""
    with pytest.raises(RequestError):
        partition_of().check(UserInQueue(SUE, "a..b"), memory(1))
