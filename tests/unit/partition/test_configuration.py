"""Another configuration: planned, applied, and put in force at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.partition_fixtures import CREATING, OLD, config, memory, refused, under_old
from ugm import Partition

NEW = config(
    "{name: a, resources: {max: {memory: 4}}, submitacl: sue}, {name: c, maxapplications: 2}",
    rules=CREATING,
    limits="{users: [sue], maxresources: {memory: 8}, maxapplications: 3}, {groups: [dev], maxresources: {gpu: 1}}",
)


@pytest.fixture(name="partition")
def _partition() -> Partition:
    return under_old()


# Plans


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


def test_apply_twice(partition: Partition) -> None:
    """A plan is for the configuration that was in force when it was made; one that is in force changes nothing."""
    plan = partition.plan(config("{name: a}, {name: b}"))
    other = partition.plan(NEW)
    partition.apply(plan, confirm=True)
    partition.apply(plan, confirm=True)
    with refused(partition, "plan 'outdated': it was made for a different configuration than the one in force"):
        partition.apply(other, confirm=True)


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


# In force


def test_refused_configuration(partition: Partition) -> None:
    """What is no partition is refused, and the old configuration is still in force."""
    calls: list[Callable[[Any], object]] = [partition.configure, partition.plan]
    for call in calls:
        with refused(partition, "config <class 'str'>: expected one partition, such as config.partition()"):
            call("partitions: []")
    with refused(partition, "author 7: a name is a text of 1 to 256 characters"):
        partition.configure(OLD, 7)  # type: ignore[arg-type]  # misuse


def test_plan_counts_who_is_over_already(partition: Partition) -> None:
    """Limits that are exceeded already are counted, and not listed among those that would be."""
    partition.adopt("ghost", "app", memory(5))
    plan = partition.plan(config("{name: a, resources: {max: {memory: 9}}}, {name: b}"))
    assert str(plan) == "- user limit 'sue' in root: memory 9\nalready exceeded: 1 limit"
