"""Limits on pending work: requests that wait, and submitted applications."""

from __future__ import annotations

from support.config_cases import places_of
from support.partition_fixtures import BOB, SUE, changing_nothing, memory
from ugm import Partition, Resource, UserGroup, UserInQueue, parse_config
from ugm.config import dump_config, export_config
from ugm.partition import PendingHeadroom

LIMITS = """
partitions:
- placementrules: [{name: provided, create: true}]
  queues:
  - name: root
    limits:
    - {limit: each, users: [zoe, "*"], maxapplications: 9, ugm: {maxpending: 2, maxsubmitted: 2}}
    - {limit: team, groups: [dev], ugm: {maxpendingresources: {memory: 10, gpu: 0}}}
    queues:
    - name: a
      ugm: {maxpending: 3, maxsubmitted: 3}
    - {name: b, parent: true, ugm: {maxsubmitted: 1}}
"""
CONFIG = parse_config(LIMITS).partition()


def filled(**options: object) -> Partition:
    """Return a partition with an application of each of two users of one group."""
    partition = Partition(CONFIG, **options)  # type: ignore[arg-type]  # handed on
    for name, user in (("sue", SUE), ("bob", BOB)):
        assert partition.submit(name, user, "root.a")
    return partition


def texts(violations: tuple[object, ...]) -> list[str]:
    """Return the text of each violation."""
    return [str(violation) for violation in violations]


def test_amounts_of_a_group() -> None:
    """The amounts of pending requests count together for a group; a resource that is not requested denies nothing."""
    partition = filled()
    assert partition.request("s1", "sue", memory(6))
    denied = partition.request("b1", "bob", Resource(memory=5, gpu=1))

    assert texts(denied.violations) == [
        "group 'dev' in root: 1 gpu requested, never more than 0 may be pending (limit for 'dev')",
        "group 'dev' in root: 5 memory requested, 6 of 10 pending, 1 too much (limit for 'dev')",
    ]
    assert not denied.can_wait
    assert partition.request("b1", "bob", Resource(memory=4, vcore=100))


def test_submitted_applications() -> None:
    """An application counts from its submission to its end, also while it runs."""
    partition = filled()
    assert partition.submit("sue-2", SUE, "root.a")
    assert partition.allocate("s", "sue", memory(1))
    with changing_nothing(partition):
        rejected = partition.submit("sue-3", SUE, "root.b.new")
    assert not rejected
    assert str(rejected) == (
        "rejected, too many applications:\n"
        "  user 'sue' in root: 2 of 2 applications submitted, 1 more requested (limit for '*')"
    )
    assert partition.place(SUE, "root.a") == rejected._replace(
        trials=partition.place(SUE, "root.a").trials, violations=partition.place(SUE, "root.a").violations
    )
    assert {one.kind for one in partition.place(SUE, "root.a").violations} == {"submitted user", "submitted queue"}
    assert partition.submit("sue", SUE, "root.a"), "a repeated submission"
    partition.remove("sue")
    assert partition.submit("sue-3", SUE, "root.a")
    assert partition.submit("zoe", UserGroup("zoe"), "root.b.new")
    assert not partition.submit("bob-2", BOB, "root.b.other")
    partition.verify()


def test_headroom_and_limits() -> None:
    """The headroom is the minimum over all limits on pending work; it does not reduce that of allocations."""
    partition = filled()
    partition.request("s1", "sue", memory(6))

    assert partition.pending_headroom("sue") == PendingHeadroom(1, Resource(memory=4, gpu=0), 1)
    assert partition.pending_headroom("bob") == PendingHeadroom(2, Resource(memory=4, gpu=0), 1)
    assert partition.pending_headroom(UserInQueue(UserGroup("eve"), "root.b.x")) == PendingHeadroom(2, None, 1)
    assert partition.headroom("sue") is None
    found = {limit.kind: limit for limit in partition.limits("sue")}
    assert set(found) == {"user", "pending user", "submitted user", "pending group"} | {
        "pending queue",
        "submitted queue",
    }
    assert (found["pending user"].max_applications, found["pending user"].running_applications) == (2, 1)
    assert (found["submitted queue"].max_applications, found["submitted queue"].running_applications) == (3, 2)
    assert found["pending group"].usage == Resource(memory=6, gpu=0)
    assert found["pending group"].place == "root limits[1]"
    assert partition.explain("sue", memory(1)).limits == partition.limits("sue")
    assert partition.explain("sue", memory(1)).headroom is None
    assert Partition().pending_headroom(UserInQueue(SUE, "root.a")) == PendingHeadroom()


def test_lowered_limit_and_plan() -> None:
    """A limit below the pending work is listed as exceeded, in a plan as well; nothing is withdrawn."""
    partition = filled()
    for name in ("s1", "s2"):
        partition.request(name, "sue", memory(1))
    lowered = parse_config(
        LIMITS.replace("maxpending: 2, maxsubmitted: 2", "maxpending: 1, maxsubmitted: 1")
    ).partition()
    plan = partition.plan(lowered)
    assert texts(plan.newly_exceeded) == ["user 'sue' in root: 2 of 1 requests pending (limit for '*')"]
    partition.configure(lowered)

    assert partition.exceeded_limits() == plan.exceeded
    assert partition.pending_headroom("sue").requests == -1
    assert partition.request("s1", "sue", memory(1)).allowed, "a repeated request"
    assert not partition.request("s3", "sue", memory(1))
    partition.configure(None)
    assert partition.request("s3", "sue", memory(1))
    partition.verify()


def test_export() -> None:
    """The export has no limits on pending work, and no entries that set nothing else; each is listed."""
    exported = export_config(parse_config(LIMITS))

    assert sorted(str(one) for one in exported.left_out) == [
        "partitions[0].queues[0].limits[0].ugm: the limits on pending work are left out",
        "partitions[0].queues[0].limits[1].ugm: the limits on pending work are left out",
        "partitions[0].queues[0].queues[0].ugm: the limits on pending work are left out",
        "partitions[0].queues[0].queues[1].ugm: the limits on pending work are left out",
    ]
    text = dump_config(exported.config)
    assert "pending" not in text
    assert "team" not in text
    parse_config(text)


def test_invalid_settings_have_a_place() -> None:
    """Every invalid setting is reported with its line and column."""
    text = LIMITS.replace("maxpending: 3", "maxpending: -3").replace("memory: 10", "memory: ten")
    assert places_of(text, "partitions[0].queues[0].") == [
        "8:72 limits[1].ugm.maxpendingresources.memory quantity-invalid",
        "11:25 queues[0].ugm.maxpending count-invalid",
    ]
