"""A partition copied at one moment, and the reports that combine several things of one moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from random import Random
from typing import Final

import pytest

from support.partition_fixtures import SUE, config, memory, partition_of, started
from ugm import Partition, RequestError, Resource, UserGroup, UserInQueue
from ugm.partition import LimitUtilization, PartitionSnapshot
from ugm.queues import QueueState

_TEAM: Final = "limits: [{users: [ana], maxresources: {memory: 7}, maxapplications: 3}, "
QUEUES: Final = (
    "{name: p, parent: true, resources: {guaranteed: {memory: 4}, max: {memory: 40}}, queues: [{name: x}, {name: y}], "
    "childtemplate: {resources: {max: {memory: 9}}}}, "
    f"{{name: q, resources: {{max: {{memory: 30, gpu: 4}}}}, maxapplications: 9, {_TEAM}"
    "{groups: [dev], maxresources: {memory: 20}, maxapplications: 3}]}"
)
LIMITS: Final = (
    '{users: ["*"], maxresources: {memory: 15}, maxapplications: 4}, {groups: [ops], maxresources: {gpu: 3}}'
)
RULES: Final = "{name: provided, create: true}"
USERS: Final = (UserGroup("ana", ("dev",)), UserGroup("ben", ("ops", "dev")), UserGroup("cy"))


def busy(seed: int) -> Partition:
    """Return a partition after some hundred random operations."""
    partition = partition_of(QUEUES, RULES, LIMITS)
    work(partition, Random(seed), range(300))
    return partition


def work(partition: Partition, random: Random, numbers: range) -> None:
    """Make random operations."""
    for number in numbers:
        name, app = f"a{number % 60}", f"app{random.randrange(12)}"
        action = random.randrange(7)
        if action == 0 and partition.application(app) is None:
            partition.submit(app, random.choice(USERS), random.choice(("root.p.x", "root.p.y", "root.p.new", "root.q")))
        elif action == 1 and partition.application(app):
            if partition.allocation(name) is None:
                partition.request(name, app, Resource(memory=random.randrange(9)))
        elif action in (2, 3) and partition.application(app) and not partition.allocation(name):
            partition.allocate(name, app, Resource(memory=random.randrange(6), gpu=random.randrange(2)))
        elif action == 4:
            partition.release(name)
        elif action == 5 and number % 50 == 0:
            partition.add_node(f"n{number}", Resource(memory=100, gpu=random.randrange(5)))
        elif action == 6 and number % 9 == 0 and (found := partition.application(app)) and not found.allocations:
            partition.remove(app)


@pytest.mark.parametrize("seed", range(6))
def test_snapshot_says_what_the_partition_says(seed: int) -> None:
    """Whatever is worked out from a copy is what the partition itself answers at that moment."""
    partition = busy(seed)
    snapshot = partition.snapshot()

    assert snapshot.queue() == partition.queue()
    assert snapshot.queue_paths == partition.queue_paths()
    assert snapshot.group_names == partition.group_names()
    assert tuple(snapshot.group(name) for name in snapshot.group_names) == partition.groups()
    assert set(partition.user_names()) <= set(snapshot.user_names)
    for path in snapshot.queue_paths:
        assert snapshot.queue_headroom(path) == partition.queue_headroom(path)
        assert snapshot.queue_maximum(path) == partition.queue_maximum(path)
    assert all(partition.user_usage(name) == snapshot.user(name) for name in snapshot.user_names)
    for user in partition.users():
        assert (user.user_name in snapshot.pending_of_users) or snapshot.user(user.user_name) == user


@pytest.mark.parametrize("seed", range(6))
def test_snapshot_knows_who_is_close_to_a_limit(seed: int) -> None:
    """The share of everybody is that of the partition, and so is what is pending in every queue."""
    partition = busy(seed)
    snapshot = partition.snapshot()

    def same(one: LimitUtilization | None, other: LimitUtilization) -> bool:
        return one is not None and (
            (one.name, one.usage, one.running_applications, one.share)
            == (other.name, other.usage, other.running_applications, other.share)
        )

    assert all(
        same(partition.user_utilization(name), snapshot.user_utilization(name)) for name in partition.user_names()
    )
    assert all(
        same(partition.group_utilization(name), snapshot.group_utilization(name)) for name in snapshot.group_names
    )
    for name in snapshot.user_names:
        assert snapshot.user_share(name) == float(snapshot.user_utilization(name).share)
        assert {limit.name for limit in snapshot.user_limits(name)} <= {name}
    leaves = [
        path for path in snapshot.queue_paths if not any(other.startswith(f"{path}.") for other in snapshot.queue_paths)
    ]
    for path in leaves:
        waiting = snapshot.pending_in_queues.get(path)
        assert ((waiting.item_count, waiting.amounts) if waiting else (0, Resource())) == partition.pending(path)


def test_user_with_nothing_but_pending_work() -> None:
    """A user whose allocations are all pending is there, with the limits that hold where they are."""
    partition = partition_of(limits='{users: ["*"], maxresources: {memory: 1}}')
    partition.submit("app", SUE, "root.a")
    partition.request("x", "app", memory(5))
    snapshot = partition.snapshot()
    (users,) = [snapshot.user("sue")]

    assert snapshot.user_names == ("sue",)
    assert users is not None
    assert (users.queues.usage, users.queues.running_applications) == (Resource(), ())
    assert users.queues.max_resources == memory(1)
    assert [child.queue_path for child in users.queues.children] == ["root.a"]
    assert snapshot.pending_of_users["sue"].amounts == memory(5)
    assert snapshot.user_utilization("sue").share == 0
    assert partition.user_usage("sue") == users
    assert partition.snapshot().user("ben") is None
    assert partition.user_usage("ben") is None


@pytest.mark.parametrize("seed", range(3))
def test_snapshot_of_parts(seed: int) -> None:
    """A snapshot that is made of the parts of another one gives the same answers."""
    original = busy(seed).snapshot()
    copy = PartitionSnapshot.of(original.compiled, original.parts())

    assert (copy.config, copy.cluster, copy.nodes) == (original.config, original.cluster, original.nodes)
    assert copy.queue() == original.queue()
    assert copy.pending_in_queues == original.pending_in_queues
    for name in original.user_names:
        assert copy.user(name) == original.user(name)
        assert copy.user_utilization(name) == original.user_utilization(name)
    assert [copy.group_limits(name) for name in copy.group_names] == [
        original.group_limits(name) for name in original.group_names
    ]


def answers(snapshot: PartitionSnapshot) -> list[object]:
    """Return all answers of a snapshot."""
    names = [*snapshot.user_names, *snapshot.group_names]
    return [
        (snapshot.cluster, snapshot.nodes, snapshot.usage(), snapshot.queue(), snapshot.queue_paths),
        (snapshot.user_names, snapshot.group_names, snapshot.usage_of_users, snapshot.usage_of_groups),
        (snapshot.pending_in_queues, snapshot.pending_of_users, snapshot.pending_of_groups),
        [(snapshot.queue_headroom(path), snapshot.queue_maximum(path)) for path in snapshot.queue_paths],
        [(snapshot.user(name), snapshot.user_utilization(name), snapshot.user_share(name)) for name in names],
        [(snapshot.group(name), snapshot.group_utilization(name), snapshot.group_share(name)) for name in names],
    ]


@pytest.mark.parametrize("is_remote", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_snapshot_that_follows_another(seed: int, *, is_remote: bool) -> None:
    """A snapshot that takes over values of an earlier one gives the same answers as one that does not."""
    partition, random = partition_of(QUEUES, RULES, LIMITS), Random(seed)
    snapshot = partition.snapshot()
    for step in range(12):
        work(partition, random, range(40 * step, 40 * step + 40))
        if step == 6:
            partition.submit("placed", SUE, "root.p.placed")
            partition.set_queue_quota("root.p.placed", memory(25))
        if step == 8:
            partition.configure(config(QUEUES.replace("memory: 7", "memory: 6"), RULES, LIMITS))
        fresh = partition.snapshot()
        if is_remote:
            copied = partition.snapshot()
            snapshot = PartitionSnapshot.of(copied.compiled, copied.parts()).following(snapshot)
        else:
            snapshot = partition.snapshot(None, snapshot)
        assert answers(snapshot) == answers(fresh)


def test_snapshot_shares_what_has_not_changed() -> None:
    """Queues, users and limits without a change are the objects of the earlier snapshot, and others are not."""
    partition = partition_of("{name: a}, {name: b}", limits='{users: ["*"], maxresources: {memory: 10}}')
    started(partition, "app", 3)
    partition.submit("other", UserGroup("ben"), "root.b")
    partition.allocate("x", "other", memory(1))
    first = partition.snapshot()
    limits = first.limits_of_user("sue"), first.limits_of_user("ben")
    before = first.queue("root.a"), first.queue("root.b"), first.queue()
    partition.allocate("y", "other", memory(1))
    second = partition.snapshot(None, first)

    assert second.queue("root.a") is before[0]
    assert second.limits_of_user("sue") is limits[0]
    assert second.usage_of_users["sue"] is first.usage_of_users["sue"]
    assert second.limits_of_user("ben").share == 0.2 != limits[1].share
    assert second.queue("root.b") != before[1]
    assert second.queue() != before[2]


def test_snapshot_does_not_follow() -> None:
    """What happens after the copy does not show in it, also not in what is worked out late."""
    partition = partition_of()
    started(partition, "app", 3)
    partition.submit("late", SUE, "root.a")
    partition.request("wait", "late", memory(2))
    snapshot = partition.snapshot()
    partition.release("app")
    partition.remove("app")
    partition.allocate("wait", "late", memory(2))

    assert snapshot.usage() == memory(3)
    assert snapshot.pending_in_queues["root.a"].amounts == memory(2)
    assert (snapshot.application_count, snapshot.allocation_count) == (2, 2)


def moved(partition: Partition) -> Iterator[None]:
    """Move one unit from one queue to another, again and again; never is more than one in use."""
    while True:
        for app in ("one", "two"):
            assert partition.allocate(app, app, memory(1))
            yield
            partition.release(app)


def test_no_snapshot_shows_what_never_was() -> None:
    """While a unit moves between two queues, no copy shows it in both, or above the maximum of the queue above."""
    names = ", ".join(f"{{name: q{number}}}" for number in range(60))
    partition = partition_of(f"{{name: top, resources: {{max: {{memory: 1}}}}, queues: [{names}]}}")
    partition.submit("one", SUE, "root.top.q0")
    partition.submit("two", SUE, "root.top.q59")
    stop, moving = threading.Event(), moved(partition)

    def move() -> None:
        while not stop.is_set():
            next(moving)

    thread = threading.Thread(target=move)
    thread.start()
    try:
        used = [_used(partition.snapshot()) for _ in range(300)]
    finally:
        stop.set()
        thread.join()

    assert all(above == below <= 1 for above, below in used)


def _used(snapshot: PartitionSnapshot) -> tuple[int, int]:
    top = snapshot.queue("root.top")
    assert isinstance(top, QueueState)
    return top.usage.get("memory", 0), sum(child.usage.get("memory", 0) for child in top.children)


def test_explanation() -> None:
    """An explanation has the decision, the holders, the limits and the headroom of one moment."""
    partition = partition_of(limits='{users: ["*"], maxresources: {memory: 8}}')
    started(partition, "app", 6)
    report = partition.explain("app", memory(3), max_holders=1)

    assert (report.decision, report.queue_path) == (partition.check("app", memory(3)), "root.a")
    assert [[holder.amount for holder in holders] for holders in report.holders] == [[6]]
    assert report.limits == partition.limits("app")
    assert report.headroom == partition.headroom("app") == memory(2)
    with pytest.raises(RequestError):
        partition.explain("nothing", memory(1))


def test_explanation_of_a_submission() -> None:
    """A report for a user without an application starts with the placement."""
    partition = partition_of(limits='{users: ["*"], maxresources: {memory: 8}}')
    report, nowhere = (partition.explain_submission(SUE, queue, memory(9)) for queue in ("root.A", ""))

    assert report.explanation == partition.explain(UserInQueue(SUE, "root.a"), memory(9))
    assert report.explanation.limits == partition.limits(UserInQueue(SUE, "root.a"))
    assert (nowhere.allowed, nowhere.queue_path, nowhere.explanation.limits) == (False, None, ())
    assert nowhere.explanation.headroom is None


def test_application_report() -> None:
    """The report of an application explains its first pending allocations, in the order of their ids."""
    partition = partition_of(limits='{users: ["*"], maxresources: {memory: 8}}')
    started(partition, "app", 6)
    for name in ("b", "c", "a"):
        partition.request(name, "app", memory(3))
    report = partition.application_report("app", max_pending=2)

    assert report is not None
    assert report.application == partition.application("app")
    assert [(one.allocation.allocation_id, one.user) for one, _ in report.pending] == [("a", "sue"), ("b", "sue")]
    assert all(why == partition.explain("app", memory(3)) for _, why in report.pending)
    assert partition.application_report("nothing") is None


def test_lines_by_id() -> None:
    """Several applications or allocations are read in one piece; those that do not exist are left out."""
    partition = partition_of()
    started(partition, "app", 6)
    (one,) = partition.allocations_by_id(["nothing", "app"])

    assert one.to_dict() == {
        **partition.allocations()[0].to_dict(),
        "user": "sue",
        "group": None,
        "queue_path": "root.a",
    }
    assert partition.applications_by_id(["app", "nothing"]) == partition.applications()
