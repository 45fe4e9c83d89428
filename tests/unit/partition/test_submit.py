"""Applications enter a partition: submitted and placed, or listed where they were before."""

from __future__ import annotations

from typing import Any

import pytest

from support.partition_fixtures import BOB, SUE, changing_nothing, memory, partition_of, refused, started
from ugm import Partition, RequestError, Resource, UserGroup

CREATING = "{name: tag, value: namespace, create: true}, {name: provided}"


@pytest.fixture(name="partition")
def _partition() -> Partition:
    partition = partition_of("{name: a}, {name: p, parent: true}")
    started(partition, "app", 3)
    return partition


@pytest.mark.parametrize(
    "other",
    [
        {"user": UserGroup("bob", ("dev",))},
        {"queue": "root.b"},
        {"tags": {"namespace": "n"}},
        {"gang_style": "hard"},
    ],
    ids=str,
)
def test_submitted_otherwise(partition: Partition, other: dict[str, Any]) -> None:
    """An id that stands for an application is refused for another submission."""
    with refused(
        partition,
        "application_id 'app': the id is in use with another ",
        RequestError,
    ):
        partition.submit("app", **{"user": SUE, "queue": "root.a", **other})


def test_submitted_again(partition: Partition) -> None:
    """The same submission once more is answered with the queue in which the application is."""
    partition.configure(None)
    placement = partition.submit("app", SUE, "root.a", tags={})
    assert (placement.queue_path, placement.creates, str(placement)) == ("root.a", False, "already placed in root.a")


def test_submitted_again_by_its_queue() -> None:
    """The queue may be named in any case, and where rules found one, by what they found."""
    partition = partition_of("{name: a}, {name: b}", "{name: fixed, value: root.a, create: false}")
    partition.submit("new", SUE, "Root.B")
    with changing_nothing(partition):
        for queue in ["root.B", "root.a", "ROOT.A"]:
            assert partition.submit("new", SUE, queue).queue_path == "root.a"
        partition.adopt_application("new", SUE, "root.a")
    with refused(
        partition,
        "application_id 'new': the id is in use with another ",
        RequestError,
    ):
        partition.adopt_application("new", SUE, "root.c")


def test_rejected(partition: Partition) -> None:
    """An application for which there is no queue is not listed, and nothing is created for it."""
    before = partition.queue()
    placement = partition.submit("new", SUE, "root.p")
    assert str(placement) == (
        "rejected, no rule selected a queue:\n  provided (there are no placement rules): root.p is not a leaf"
    )
    assert (partition.application("new"), partition.queue()) == (None, before)


def test_created() -> None:
    """Where a rule may create, the queue is created with the application, and a placement says so."""
    partition = partition_of(rules=CREATING)
    placement = partition.submit("new", SUE, tags={"namespace": "Team.X"})
    assert str(placement) == "placed in new queue root.team_dot_x by placementrules[0] tag namespace"
    assert partition.submit("next", BOB, tags={"namespace": "team.x"}).creates is False


def test_tags_are_copied() -> None:
    """What a caller does to its tags later is its own business."""
    partition = partition_of()
    tags = {"namespace": "n"}
    partition.submit("new", SUE, "root.a", tags=tags)
    tags["namespace"] = "m"
    application = partition.application("new")
    assert application is not None
    assert application.tags == {"namespace": "n"}
    with refused(
        partition,
        "application_id 'new': the id is in use with another ",
        RequestError,
    ):
        partition.submit("new", SUE, "root.a", tags=tags)


def test_rejected_leaves_nothing() -> None:
    """A rejected submission may come again, with anything else."""
    partition = partition_of("{name: a, submitacl: bob}")
    with changing_nothing(partition):
        placement = partition.submit("new", SUE, "root.a", quota=memory(1))
    assert str(placement).endswith(": user 'sue' may not submit to root.a")
    assert partition.submit("new", BOB, "root.a")


def test_path_in_any_case(partition: Partition) -> None:
    """A queue is the same in any case, to all calls."""
    assert partition.submit("new", SUE, "Root.A").queue_path == "root.a"
    assert partition.queue("ROOT.a") == partition.queue("root.a")
    assert partition.queue_headroom("ROOT.A") == partition.queue_headroom("root.a")


# Recovery


def test_adopted_application() -> None:
    """An application is listed where it was, whatever rules and lists say, with its group."""
    partition = partition_of("{name: a, submitacl: ' '}", limits="{groups: [dev, ops], maxresources: {memory: 5}}")
    partition.adopt_application("old", SUE, "root.A", group="ops", gang_style="hard", tags={"namespace": "n"})
    assert partition.adopt("1", "old", memory(2)) == ()

    application = partition.application("old")
    assert application is not None
    assert (application.queue_path, application.group, application.tags) == ("root.a", "ops", {"namespace": "n"})
    assert [group.group_name for group in partition.groups()] == ["ops"]
    partition.verify()


@pytest.mark.parametrize(("group", "chosen"), [("", "dev"), (None, None)])
def test_adopted_without_a_group(group: str | None, chosen: str | None) -> None:
    """The group may be left to be chosen, and it may be said that there is none."""
    partition = partition_of(limits="{groups: [dev], maxresources: {memory: 5}}")
    partition.adopt_application("old", SUE, "root.a", group=group)
    partition.adopt("1", "old", memory(2))
    application = partition.application("old")
    assert application is not None
    assert application.group == chosen


def test_adopted_again(partition: Partition) -> None:
    """The same application may be listed again, its path in any case, and not as another."""
    partition.adopt_application("old", SUE, "root.a")
    with changing_nothing(partition):
        partition.adopt_application("old", SUE, "ROOT.A")
    with refused(
        partition,
        "application_id 'old': the id is in use with another ",
        RequestError,
    ):
        partition.adopt_application("old", BOB, "root.a")


def test_adopted_in_a_queue_that_is_missing() -> None:
    """A missing queue is created, with the template and the quota that it had."""
    partition = partition_of("{name: p, parent: true, childtemplate: {resources: {max: {gpu: 2}}}}")
    partition.adopt_application("one", SUE, "root.p.x")
    partition.adopt_application("two", SUE, "root.p.y", quota=Resource(disk=3))
    assert partition.queue_maximum("root.p.x") == Resource(gpu=2)
    assert partition.headroom("two") == Resource(disk=3)
    queue = partition.queue("root.p.x")
    assert queue is not None
    assert (queue.is_draining, queue.is_leaf) == (False, True)


def test_adopted_below_a_leaf(partition: Partition) -> None:
    """Below a leaf nothing is created any more: the queue is drained, and the leaf is a leaf."""
    partition.adopt_application("old", SUE, "root.a.x.y")
    queue_info = partition.queue("root.a")
    assert queue_info is not None
    assert [(queue.queue_path, queue.is_draining) for queue in queue_info.walk()] == [
        ("root.a", False),
        ("root.a.x", True),
        ("root.a.x.y", True),
    ]
    assert partition.submit("new", SUE, "root.a")
    assert not partition.submit("other", SUE, "root.a.x.y")
    partition.complete("old")
    assert partition.queue("root.a.x") is None


def test_adopted_below_what_is_draining() -> None:
    """In a queue that is about to go, applications are listed and no more are taken; its template holds."""
    partition = partition_of("{name: p, parent: true, childtemplate: {resources: {max: {gpu: 2}}}}", CREATING)
    partition.adopt_application("one", SUE, "root.p.x")
    partition.configure(None)
    partition.adopt_application("two", SUE, "root.p.y")
    assert partition.headroom("two") == Resource(gpu=2)
    assert str(partition.submit("new", SUE, "root.p.y")).endswith(": root.p.y is draining")
    partition.verify()


def test_adopted_in_a_parent() -> None:
    """An application that was in a leaf which is a parent now is listed there."""
    partition = partition_of("{name: p, queues: [{name: x}]}")
    partition.adopt_application("old", SUE, "root.p")
    assert partition.adopt("1", "old", memory(1)) == ()
    assert not partition.submit("new", SUE, "root.p")
    partition.verify()


def test_submitted_with_other_groups(partition: Partition) -> None:
    """The groups of a user are those of the first submission; a repetition with those of today is the same."""
    before = partition.application("app")
    partition.submit("app", UserGroup("sue", ("other",)), "root.a")

    assert partition.application("app") == before
