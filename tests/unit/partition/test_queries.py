"""What can be asked of a partition: check, headroom, explain, and everything that it shows."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from support.failing_models import ResettableFailing
from support.partition_fixtures import BOB, SUE, Licences, NodesOfUsers, changing_nothing, memory, partition_of, started
from ugm import Claim, Manager, Partition, Resource, TrackingType, UserInQueue
from ugm.model import ReportingModel
from ugm.quotatree import QuotaManager
from ugm.tracking import EffectiveLimit, QueueTracker

LIMITS = "{users: [sue], maxresources: {memory: 6, gpu: 3}}, {groups: [dev, '*'], maxresources: {memory: 20}}"


@pytest.fixture(name="partition")
def _partition() -> Partition:
    partition = partition_of("{name: a, resources: {max: {memory: 8}}}, {name: b}", limits=LIMITS)
    started(partition, "app", 5)
    return partition


# Headroom


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


class CountedNodes(NodesOfUsers, ReportingModel):
    """Limits that are not amounts of a resource."""

    def limits(self, claim: Claim) -> list[EffectiveLimit]:
        """Return the limit of a user."""
        one, used = Resource(node=1), Resource(node=len(self.held))
        return [EffectiveLimit("nodes of user", claim.user.name, "", "", "nodes", one, 0, used, 0)]

    def headroom(self, claim: Claim) -> None:
        """Return that no resource is limited."""


def test_headroom_without_amounts() -> None:
    """An explanation has the headroom that a query returns, also if models limit something else."""
    partition = partition_of(models=[CountedNodes()])
    partition.submit("a", SUE, "root.a")
    assert partition.allocate("a-0", "a", memory(1), node="n1")

    assert partition.headroom("a") is None
    assert partition.explain("a", memory(1)).headroom is None
    report = partition.application_report("a")
    assert report is not None
    assert report.headroom is None


def test_evictions_are_told() -> None:
    """A denial says what would let the request in, and releases nothing."""
    model, licence = ResettableFailing(3, gives_up=("1",)), Resource(licence=1)
    partition = partition_of("{name: a, resources: {max: {licence: 2}}}, {name: b}", models=[model])
    for name, where in [("mine", "root.a"), ("1", "root.b"), ("2", "root.b")]:
        partition.submit(name, SUE, where)
        assert partition.allocate(name, name, licence)
    before = model.state()
    with changing_nothing(partition):
        decision = partition.allocate("more", "mine", licence)
        assert partition.check("mine", licence) == decision

    assert model.state() == before
    assert str(decision) == (
        "denied, waiting can help:\n"
        "  licence 'solver': 1 licence requested, 3 of 3 used, 1 too much\n"
        "  evicting '1' would make room"
    )
    assert str(partition.explain("mine", licence)) == str(decision)


# What is shown


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


UTILIZATION = (
    '{groups: [dev], maxresources: {memory: 8}}, {users: ["*"], maxresources: {memory: 10}, maxapplications: 4}'
)
TWO = "{name: a, resources: {max: {memory: 9}}}, {name: b}"


@pytest.mark.parametrize(
    ("limits", "count", "gpu", "share", "resource"),
    [
        (UTILIZATION, 1, 0, Fraction(3, 10), "memory"),
        (UTILIZATION, 3, 0, Fraction(3, 4), None),
        ("", 1, 0, Fraction(0), None),
        ("{users: [sue], maxresources: {memory: 10, gpu: 0}}", 1, 2, Fraction(3), "gpu"),
    ],
)
def test_utilization(limits: str, count: int, gpu: int, share: Fraction, resource: str | None) -> None:
    """The nearest limit is the one of which the largest part is used; a limit of 0 counts as fully used."""
    partition = partition_of(TWO, limits=limits)
    for number in range(count):
        started(partition, f"app-{number}", 3 if count == 1 else 1)
    partition.adopt("gpus", "app-0", Resource(gpu=gpu))
    found = partition.snapshot().limits_of_user("sue").utilization

    assert (found.share, found.resource, found.running_applications) == (share, resource, count)
    assert found.to_dict()["share"] == float(share)
