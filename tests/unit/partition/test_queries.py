"""What can be asked of a partition: check, headroom, explain, and everything that it shows."""

from __future__ import annotations

import json

import pytest

from support.partition_fixtures import BOB, SUE, Licences, changing_nothing, memory, partition_of, refused, started
from ugm import Manager, Partition, RequestError, Resource, TrackingType, UserGroup, UserInQueue
from ugm.quotatree import QuotaManager
from ugm.tracking import QueueTracker

LIMITS = "{users: [sue], maxresources: {memory: 6, gpu: 3}}, {groups: [dev, '*'], maxresources: {memory: 20}}"


@pytest.fixture(name="partition")
def _partition() -> Partition:
    partition = partition_of("{name: a, resources: {max: {memory: 8}}}, {name: b}", limits=LIMITS)
    started(partition, "app", 5)
    return partition


@pytest.mark.parametrize("usage", [memory(1), memory(2), Resource(gpu=4, vcore=1), Resource()], ids=str)
def test_check_agrees_with_allocate(partition: Partition, usage: Resource) -> None:
    """A check says what an allocation is told, and changes nothing."""
    for application_id in ["app", "new"]:
        partition.submit(application_id, SUE, "root.a")
        with changing_nothing(partition):
            expected = partition.check(application_id, usage)
        assert partition.allocate(f"{application_id} more", application_id, usage) == expected


def test_check_chooses_no_group(partition: Partition) -> None:
    """A check answers for the group that would be chosen, and chooses none."""
    partition.submit("new", BOB, "root.b")
    with changing_nothing(partition):
        assert [violation.name for violation in partition.check("new", memory(30)).violations] == ["dev"]

    application = partition.application("new")
    assert application is not None
    assert application.group is None


# Headroom


def test_headroom(partition: Partition) -> None:
    """For each limited resource, headroom is the minimum that any limit or the cluster leaves; it may be negative."""
    assert partition.headroom("app") == Resource(memory=1, gpu=3)
    partition.add_node("n", Resource(memory=5, vcore=4))
    assert partition.headroom("app") == Resource(gpu=0, memory=0, vcore=4)
    partition.adopt("ghost", "app", memory(5))
    assert partition.headroom("app") == Resource(gpu=0, memory=-5, vcore=4)
    assert partition_of(models=[Licences(1)]).headroom(UserInQueue(SUE, "root.a")) is None


def test_queue_headroom(partition: Partition) -> None:
    """The headroom of a queue is that of its quotas alone, with or without the size of the cluster."""
    partition.add_node("n", Resource(memory=6, vcore=4))

    assert partition.queue_headroom("ROOT.A") == Resource(memory=1, vcore=4)
    assert partition.queue_headroom("root.a", cluster=False) == memory(3)
    assert partition.queue_headroom("root.b", cluster=False) is None
    assert partition.queue_headroom("root.b") == Resource(memory=1, vcore=4)
    assert partition.queue_maximum("root.a") == Resource(memory=6, vcore=4)


# Who holds what


def test_explain_names_the_largest_holders(partition: Partition) -> None:
    """Each limit in the way is told with who holds most below it: the largest first, then by id."""
    for name, amount, user in [("c", 1, BOB), ("b", 1, BOB), ("d", 1, BOB)]:
        started(partition, name, amount, user=user)

    with changing_nothing(partition):
        explanation = partition.explain("app", memory(2))
    assert str(explanation) == (
        "denied, waiting can help:\n"
        "  user 'sue' in root: 2 memory requested, 5 of 6 used, 1 too much (limit for 'sue')\n"
        "    held by 'app' of 'sue' in root.a: 5\n"
        "  queue root.a: 2 memory requested, 8 of 8 used, 2 too much\n"
        "    held by 'app' of 'sue' in root.a: 5\n"
        "    held by 'b' of 'bob' in root.a: 1\n"
        "    held by 'c' of 'bob' in root.a: 1"
    )
    assert [len(holders) for holders in partition.explain("app", memory(2), max_holders=1).holders] == [1, 1]


def test_explain_names_nobody_elsewhere() -> None:
    """An application outside the queue of a limit, or without the resource, is not a holder."""
    partition = partition_of("{name: a, resources: {max: {memory: 5}}}, {name: ab}")
    started(partition, "app", 5)
    started(partition, "outside", 5, "root.ab")
    started(partition, "nothing", 0)

    assert [[holder.application_id for holder in held] for held in partition.explain("app", memory(1)).holders] == [
        ["app"]
    ]


def test_explain_names_those_who_run() -> None:
    """Where the number of applications is short, those who run are named, each with 1."""
    partition = partition_of("{name: a, maxapplications: 2}")
    for name in ["two", "one"]:
        started(partition, name, 1)
    partition.submit("three", SUE, "root.a")

    assert str(partition.explain("three", memory(1))) == (
        "denied, waiting can help:\n"
        "  queue root.a: 2 of 2 applications running, 1 more requested\n"
        "    held by 'one' of 'sue' in root.a\n"
        "    held by 'two' of 'sue' in root.a"
    )


def test_explain_names_members_of_the_wildcard_group() -> None:
    """The holders of the group wildcard are all who are charged to it."""
    partition = partition_of(limits="{groups: [x, '*'], maxresources: {memory: 5}}")
    started(partition, "one", 2, user=UserGroup("eve", ("y",)))
    started(partition, "two", 3, user=UserGroup("ann", ("z",)))

    (holders,) = partition.explain("one", memory(1)).holders
    assert [holder.to_dict() for holder in holders] == [
        {"application_id": "two", "user": "ann", "queue_path": "root.a", "amount": 3},
        {"application_id": "one", "user": "eve", "queue_path": "root.a", "amount": 2},
    ]


def test_explain_names_nobody_for_what_never_fits(partition: Partition) -> None:
    """Holders are those who could make room: for a request that is above one of the limits nobody can."""
    explanation = partition.explain("app", memory(7))

    assert [violation.can_wait for violation in explanation.decision.violations] == [False, True]
    assert explanation.holders == ((), ())
    assert "held by" not in str(explanation)
    violations = explanation.to_dict()["violations"]
    assert [violation["holders"] for violation in violations] == [[], []]  # type: ignore[attr-defined] # a list
    assert partition.explain(UserInQueue(SUE, "root.a"), memory(7)).holders == ((), ())


def test_repr(partition: Partition) -> None:
    """A partition, a manager and a tracker can be told apart in a debugger, even while their lock is held."""
    manager = Manager()
    manager.increase("root.a", "app", memory(1), SUE)
    tracker = manager.get_user_tracker("sue")
    with partition._state.active_limits.lock, manager._lock:
        assert repr(partition) == "<Partition queues=3 applications=1 allocations=1>"
        assert repr(manager) == "<Manager users=1 groups=0>"
        assert repr(tracker) == "<UserTracker 'sue' applications=1>"
    assert repr(QueueTracker("dev", TrackingType.GROUP)) == "<QueueTracker of group 'dev' applications=0>"
    assert repr(QuotaManager()) == "<QuotaManager mode=maintenance trees=0 consumers=0>"


def test_explain_limits_of_other_models() -> None:
    """Who holds what of another model's limit, only that model knows."""
    partition = partition_of(models=[Licences(1)])
    started(partition, "app", 1)

    explanation = partition.explain("app", Resource(licence=2))
    assert str(explanation) == (
        "denied, waiting cannot help:\n  licence 'solver': 2 licence requested, never more than 1 allowed"
    )
    assert json.loads(json.dumps(explanation.to_dict()))["violations"][0]["holders"] == []


# What is shown


def test_applications_of_a_queue(partition: Partition) -> None:
    """Applications are listed by id: all of them, or those in and below a queue."""
    started(partition, "b", 1, "root.b", BOB)
    partition.submit("a", BOB, "root.a")

    assert [application.application_id for application in partition.applications()] == ["a", "app", "b"]
    assert [application.application_id for application in partition.applications("root.A")] == ["a", "app"]
    assert partition.applications("root") == partition.applications()
    with refused(partition, "queue_path 'root.c': there is no such queue", RequestError):
        partition.applications("root.c")


def test_allocations_of_an_application(partition: Partition) -> None:
    """Allocations are listed by id: all of them, or those of one application, pending ones included."""
    started(partition, "b", 1, "root.b", BOB)
    partition.request("a", "app", memory(1), priority=-1, preemptible=False)

    assert [allocation.allocation_id for allocation in partition.allocations()] == ["a", "app", "b"]
    assert next(allocation.to_dict() for allocation in partition.allocations("app")) == {
        "allocation_id": "a",
        "application_id": "app",
        "usage": {"memory": 1},
        "state": "pending",
        "placeholder": False,
        "priority": -1,
        "preemptible": False,
        "until": None,
        "duration": None,
        "node": None,
        "label": None,
    }


def test_application_for_json(partition: Partition) -> None:
    """An application is shown with all that it has, in words that JSON has."""
    partition.submit("b", SUE, "root.b", tags={"namespace": "n"})
    partition.allocate("p", "b", Resource(memory=1, vcore=0), placeholder=True)
    partition.preempt("p")
    partition.request("q", "b", memory(1))

    application = partition.application("b")
    assert application is not None
    assert json.loads(json.dumps(application.to_dict())) == {
        "application_id": "b",
        "user": {"name": "sue", "groups": ["dev"]},
        "queue_path": "root.b",
        "state": "running",
        "group": "dev",
        "usage": {"memory": 1},
        "allocations": 1,
        "terminating": 1,
        "placeholders": 1,
        "pending": 1,
        "tags": {"namespace": "n"},
    }
