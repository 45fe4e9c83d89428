"""The differences between two configurations of a partition, for people and as data."""

from __future__ import annotations

import pytest

from ugm import parse_config
from ugm.partition import Changes, changes


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
