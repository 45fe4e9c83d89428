"""Another configuration: planned, applied, and put in force at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.partition_fixtures import (
    CREATING,
    OLD,
    SUE,
    TEMPLATE,
    changing_nothing,
    config,
    memory,
    partition_of,
    refused,
    shown,
    under_old,
)
from ugm import Partition, Resource
from ugm.config import PartitionConfig

NEW = config(
    "{name: a, resources: {max: {memory: 4}}, submitacl: sue}, {name: c, maxapplications: 2}",
    rules=CREATING,
    limits="{users: [sue], maxresources: {memory: 8}, maxapplications: 3}, {groups: [dev], maxresources: {gpu: 1}}",
)


@pytest.fixture(name="partition")
def _partition() -> Partition:
    return under_old()


# Plans


def test_plan_changes_nothing(partition: Partition) -> None:
    """A plan says what would be, and nothing happens."""
    with changing_nothing(partition):
        partition.plan(NEW)
        partition.plan(None)


def test_plan_for_people(partition: Partition) -> None:
    """A plan names every change, the limits that would be exceeded, and the queues that would drain."""
    assert str(partition.plan(NEW)) == (
        "~ queue root.a: maximum memory 9 -> 4; submit ACL none -> 'sue'\n"
        "- queue root.b\n"
        "+ queue root.c: maximum applications 2\n"
        "~ user limit 'sue' in root: memory 9 -> 8; applications none -> 3\n"
        "+ group limit 'dev' in root: gpu 1\n"
        "~ placement rules\n"
        "would be exceeded:\n"
        "  queue root.a: 7 of 4 memory used, 3 too much\n"
        "draining:\n"
        "  root.b accepts no new applications, and still has 'left'"
    )


def test_plan_for_programs(partition: Partition) -> None:
    """A plan is told in JSON, with the same facts."""
    plan = json.loads(json.dumps(partition.plan(NEW).to_dict()))

    assert [change["name"] for change in plan["changes"]["queues"]] == ["root.a", "root.b", "root.c"]
    assert plan["changes"]["queues"][2]["before"] is None
    assert plan["changes"]["limits"][0] == {
        "kind": "user limit",
        "name": "sue",
        "queue_path": "root",
        "before": {"memory": "9"},
        "after": {"memory": "8", "applications": "3"},
    }
    assert plan["changes"]["placement_rules"] is True
    assert (
        [over["name"] for over in plan["exceeded"]] == [over["name"] for over in plan["newly_exceeded"]] == ["root.a"]
    )
    assert plan["draining"] == [{"queue_path": "root.b", "applications": ["left"]}]


def test_plan_without_changes(partition: Partition) -> None:
    """The configuration in force changes nothing."""
    plan = partition.plan(OLD)
    assert (str(plan), bool(plan.changes), plan.exceeded, plan.draining) == ("no changes", False, (), ())


def test_plan_tells_who_is_over_more_than_now(partition: Partition) -> None:
    """Who is over as much already is not newly over."""
    partition.adopt("ghost", "app", memory(5))
    exceeded = partition.plan(config("{name: a, resources: {max: {memory: 9}}}, {name: b}")).exceeded
    assert [over.name for over in exceeded] == ["root.a"]

    plan = partition.plan(config("{name: a, resources: {max: {memory: 10}}}, {name: b, resources: {max: {memory: 0}}}"))
    assert [over.name for over in plan.exceeded] == ["root.a", "root.b"]
    assert [over.name for over in plan.newly_exceeded] == ["root.b"]


@pytest.mark.parametrize("new", [OLD, NEW, None], ids=["old", "new", "none"])
def test_plan_says_what_comes(partition: Partition, new: PartitionConfig | None) -> None:
    """After a plan is applied, who is over is who it said."""
    partition.add_node("n", Resource(memory=7, gpu=1))
    partition.adopt("ghost", "app", Resource(disk=3))
    plan = partition.plan(new)
    partition.apply(plan, confirm=True)
    assert partition.exceeded_limits() == plan.exceeded
    partition.verify()


def test_plan_keeps_what_was_made() -> None:
    """A plan knows queues that were made, their quotas, and those that are draining already."""
    partition = partition_of(f"{TEMPLATE}, {{name: q}}", CREATING)
    partition.submit("app", SUE, "root.p.x", quota=Resource(gpu=5))
    partition.allocate("1", "app", Resource(gpu=5))
    partition.configure(config("{name: q}", CREATING))
    plan = partition.plan(None)

    assert plan.exceeded == ()
    assert [queue.queue_path for queue in plan.draining] == ["root.p.x"]


def test_plan_keeps_groups() -> None:
    """A plan knows the group that an application is charged to, whatever it would be given now."""
    partition = partition_of(limits="{groups: [dev], maxresources: {memory: 9}}")
    partition.adopt_application("app", SUE, "root.a", group="ops")
    partition.adopt("1", "app", memory(5))
    plan = partition.plan(config("{name: a}", limits="{groups: [dev, ops], maxresources: {memory: 4}}"))
    assert [(over.kind, over.name) for over in plan.exceeded] == [("group", "ops")]


def test_plan_leaves_out_who_does_not_run(partition: Partition) -> None:
    """An application that has not started, or holds nothing any more, is over no limit, and leaves with its queue."""
    partition.submit("idle", SUE, "root.b")
    partition.release("left")
    plan = partition.plan(config("{name: a, resources: {max: {memory: 9}}}"))
    assert (plan.exceeded, [queue.applications for queue in plan.draining]) == ((), [("idle", "left")])


def test_apply_twice(partition: Partition) -> None:
    """A plan is for the configuration that was in force when it was made; one that is in force changes nothing."""
    plan = partition.plan(config("{name: a}, {name: b}"))
    other = partition.plan(NEW)
    partition.apply(plan, confirm=True)
    partition.apply(plan, confirm=True)
    with refused(partition, "plan 'outdated': it was made for a different configuration than the one in force"):
        partition.apply(other, confirm=True)


def test_apply_again_after_an_equal_configuration(partition: Partition) -> None:
    """A plan that is in force also changes nothing if an equal configuration has replaced it."""
    plan = partition.plan(config("{name: a}, {name: b}"))
    partition.apply(plan, confirm=True)
    partition.configure(config("{name: a}, {name: b}"))
    partition.apply(plan, confirm=True)
    assert partition.plan(None).base.version == plan.compiled.version


def test_apply_elsewhere(partition: Partition) -> None:
    """A plan can be applied in every partition of an equal configuration, such as the same one at the next leader."""
    plan, empty, other = partition.plan(NEW), Partition(), Partition(OLD)
    with refused(empty, "plan 'outdated': it was made for a different configuration than the one in force"):
        empty.apply(plan, confirm=True)
    other.apply(plan, confirm=True)
    assert other.config == NEW


def test_equal_configuration_keeps_plans(partition: Partition) -> None:
    """A plan is valid while the configuration equals the one that it was made for, also if it is put in force again."""
    plan = partition.plan(NEW)
    partition.configure(None)
    with refused(partition, "plan 'outdated': it was made for a different configuration than the one in force"):
        partition.apply(plan, confirm=True)
    partition.configure(OLD)
    partition.apply(plan, confirm=True)
    assert partition.config == NEW


def test_apply_later(partition: Partition) -> None:
    """What was allocated since does not matter to a plan."""
    plan = partition.plan(NEW)
    partition.allocate("more", "app", memory(1))
    partition.apply(plan, confirm=True)
    assert [over.used for over in partition.exceeded_limits()] == [9, 8]


# In force


def test_configure_evicts_nobody(partition: Partition) -> None:
    """Lowered limits deny growth and evict nobody."""
    before = partition.allocations()
    partition.configure(config("{name: a, resources: {max: {memory: 1}}}, {name: b}"))
    assert partition.allocations() == before
    assert not partition.allocate("more", "app", memory(1))
    assert partition.resize("app", memory(3))
    partition.verify()


def test_configure_forth_and_back(partition: Partition) -> None:
    """A configuration and back again leaves everything as it was."""
    before = shown(partition)
    for new in [NEW, None, OLD]:
        partition.configure(new)
        partition.verify()
    assert shown(partition) == before


def test_queue_loses_its_limit(partition: Partition) -> None:
    """A queue that loses its limit while something runs there counts no more, and all still adds up."""
    partition.configure(config("{name: a}, {name: b}"))
    partition.verify()
    partition.release("app")
    partition.configure(OLD)
    partition.verify()


def test_refused_configuration(partition: Partition) -> None:
    """What is no partition is refused, and the old configuration is still in force."""
    calls: list[Callable[[Any], object]] = [partition.configure, partition.plan]
    for call in calls:
        with refused(partition, "config <class 'str'>: expected one partition, such as config.partition()"):
            call("partitions: []")
    with refused(partition, "author 7: a name is a text of 1 to 256 characters"):
        partition.configure(OLD, 7)  # type: ignore[arg-type]  # misuse


def test_new_queue_counts_what_runs(partition: Partition) -> None:
    """A queue that gets its first limit has counted all that runs below it."""
    partition.configure(
        config("{name: a, parent: true, maxapplications: 1, queues: [{name: x, maxapplications: 1}]}, {name: b}")
    )
    queue = partition.queue("root.a")
    assert queue is not None
    assert (queue.usage, queue.running_applications) == (memory(7), 1)
    partition.verify()


def test_plan_counts_who_is_over_already(partition: Partition) -> None:
    """Limits that are exceeded already are counted, and not listed among those that would be."""
    partition.adopt("ghost", "app", memory(5))
    plan = partition.plan(config("{name: a, resources: {max: {memory: 9}}}, {name: b}"))
    assert str(plan) == "- user limit 'sue' in root: memory 9\nalready exceeded: 1 limit"
