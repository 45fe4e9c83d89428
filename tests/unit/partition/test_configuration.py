"""Another configuration: compared, planned, applied, and put in force at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.partition_fixtures import CREATING, OLD, config, memory, refused, under_old
from ugm import Partition, parse_config
from ugm.partition import Changes, changes

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


def compared(old: str, new: str) -> Changes:
    """Compare the queues below two roots, given as YAML."""
    before, after = (parse_config(f"partitions: [{{queues: [{queues}]}}]").partition() for queues in (old, new))
    return changes(before, after)


QUOTA = "{name: a, resources: {max: {vcore: 4}, guaranteed: {vcore: 2}}}"
USERS = "{name: a, limits: [{users: [%s], maxapplications: 2, maxresources: {vcore: 4, memory: 4Gi}}]}"
GROUPS = "{name: a, limits: [{groups: [dev], maxapplications: 1}, {groups: [test], maxapplications: 1}%s]}"
TURNED = "{name: a, limits: [%s{groups: [test], maxapplications: 1}, {groups: [dev], maxapplications: 1}]}"
OPS = "{groups: [ops], maxapplications: 1}"
FULL = (
    "{name: a, parent: true, childtemplate: {maxapplications: 2, resources: {guaranteed: {vcore: 1}}}, "
    "submitacl: 'sue ops', adminacl: '*'}"
)
REST = "template guaranteed vcore 1; submit ACL 'sue ops'; admin ACL '*'"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (QUOTA, QUOTA, "no changes"),
        ("", "{name: a}", "+ queue root.a"),
        ("", QUOTA, "+ queue root.a: maximum vcore 4; guaranteed vcore 2"),
        (QUOTA, "", "- queue root.a: maximum vcore 4; guaranteed vcore 2"),
        (QUOTA, QUOTA.replace("4", "5"), "~ queue root.a: maximum vcore 4 -> 5"),
        (QUOTA, "{name: a, resources: {max: {vcore: 4}}}", "~ queue root.a: guaranteed vcore 2 -> none"),
        (
            QUOTA,
            QUOTA.replace("a,", "a, parent: true, childtemplate: {},"),
            "~ queue root.a: parent none -> yes; template none -> empty",
        ),
        ("", FULL, f"+ queue root.a: parent yes; template maximum applications 2; {REST}"),
        (USERS % "a", "{name: a}", "- user limit 'a' in root.a: memory 4Gi; vcore 4; applications 2"),
        (USERS % "a", (USERS % "a").replace("2", "3"), "~ user limit 'a' in root.a: applications 2 -> 3"),
        (
            USERS % "a",
            (USERS % "a").replace("maxapplications: 2, ", ""),
            "~ user limit 'a' in root.a: applications 2 -> none",
        ),
        (GROUPS % "", TURNED % "", "~ order of the group limits in root.a"),
        (GROUPS % "", GROUPS % f", {OPS}", "+ group limit 'ops' in root.a: applications 1"),
        (
            GROUPS % "",
            TURNED % f"{OPS}, ",
            "+ group limit 'ops' in root.a: applications 1\n~ order of the group limits in root.a",
        ),
    ],
)
def test_changes(old: str, new: str, text: str) -> None:
    """Every added, removed or changed part is a line, with the properties that differ."""
    found = compared(old, new)

    assert str(found) == text
    assert bool(found) == (text != "no changes")
    shown = found.to_dict()
    assert [one["name"] for one in shown["queues"]] == [one.name for one in found.queues]
    assert shown["group_orders"] == list(found.group_orders)


def test_placement_rules() -> None:
    """Other placement rules are a change, and a line of the text."""
    before, after = (
        parse_config(f"partitions: [{{queues: [{{name: a}}], placementrules: [{{name: {rule}}}]}}]").partition()
        for rule in ("provided", "user")
    )

    assert str(changes(before, after)) == "~ placement rules"
    assert not changes(before, before)
    assert str(changes(before, None)) == "- queue root.a\n~ placement rules"
