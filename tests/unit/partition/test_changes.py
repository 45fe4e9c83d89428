"""What differs between two configurations of a partition, for people and as data."""

from __future__ import annotations

import pytest

from ugm import parse_config
from ugm.partition import Changes, changes


def compared(old: str, new: str) -> Changes:
    """Compare the queues below two roots, given as YAML."""
    before, after = (parse_config(f"partitions: [{{queues: [{queues}]}}]").partition() for queues in (old, new))
    return changes(before, after)


QUOTA = "{name: a, resources: {max: {vcore: 4}, guaranteed: {vcore: 2}}}"
USERS = "{name: a, limits: [{users: [%s], maxapplications: 2, maxresources: {vcore: 4}}]}"
GROUPS = "{name: a, limits: [{groups: [dev], maxapplications: 1}, {groups: [test], maxapplications: 1}%s]}"
TURNED = "{name: a, limits: [%s{groups: [test], maxapplications: 1}, {groups: [dev], maxapplications: 1}]}"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (QUOTA, QUOTA, "no changes"),
        ("", "{name: a}", "+ queue root.a"),
        ("", QUOTA, "+ queue root.a: maximum vcore 4; guaranteed vcore 2"),
        (QUOTA, "", "- queue root.a: maximum vcore 4; guaranteed vcore 2"),
        (QUOTA, QUOTA.replace("4", "5"), "~ queue root.a: maximum vcore 4 -> vcore 5"),
        (QUOTA, "{name: a, resources: {max: {vcore: 4}}}", "~ queue root.a: guaranteed vcore 2 -> none"),
        (
            QUOTA,
            QUOTA.replace("a,", "a, parent: true, childtemplate: {},"),
            "~ queue root.a: parent none -> yes; template none -> empty",
        ),
        (GROUPS % "", TURNED % "", "~ order of the group limits in root.a"),
        ("", "{name: a, maxapplications: 1}", "+ queue root.a: maximum 1 application"),
        (USERS % "a", "{name: a}", "- limit in root.a for user 'a': vcore 4, 2 applications"),
        (
            USERS % "a",
            (USERS % "a").replace("2", "3"),
            "~ limit in root.a for user 'a': vcore 4, 2 applications -> vcore 4, 3 applications",
        ),
    ],
)
def test_text(old: str, new: str, said: str) -> None:
    """Every change is a line: what comes, goes or changes, and from what to what."""
    assert str(compared(old, new)) == said


def test_details_of_a_queue() -> None:
    """A queue that changes tells what differs piece by piece, with an empty text where there is nothing."""
    (change,) = compared(QUOTA, "{name: a, maxapplications: 3, resources: {max: {vcore: 4}}}").queues

    result = (("guaranteed vcore", "2", ""), ("maximum applications", "", "3"))
    assert (change.sign, change.details()) == ("~", result)


@pytest.mark.parametrize(("old", "new", "sign"), [("", QUOTA, "+"), (QUOTA, "", "-"), (QUOTA, "{name: a}", "~")])
def test_sign_of_a_queue(old: str, new: str, sign: str) -> None:
    """A queue comes, goes or changes."""
    assert [change.sign for change in compared(old, new).queues] == [sign]


@pytest.mark.parametrize(("old", "new", "sign"), [("", "%s", "+"), ("%s", "", "-"), ("%s", "%s", "~")])
def test_sign_of_a_limit(old: str, new: str, sign: str) -> None:
    """A limit comes, goes or changes."""
    limits = [f", {{groups: [ops], maxapplications: {count}}}" for count in (1, 2)]
    sides = [GROUPS % text.replace("%s", limit) for text, limit in zip((old, new), limits, strict=True)]

    assert [change.sign for change in compared(*sides).limits] == [sign]


def test_groups_in_another_order() -> None:
    """Another order of groups that keep their limits is a change; one that comes or goes between them is another."""
    ops = "{groups: [ops], maxapplications: 1}"

    assert compared(GROUPS % "", TURNED % "").group_orders == ("root.a",)
    assert compared(GROUPS % "", TURNED % f"{ops}, ").group_orders == ("root.a",)
    assert compared(GROUPS % "", GROUPS % f", {ops}").group_orders == ()
    assert compared(GROUPS % "", TURNED % "").to_dict()["group_orders"] == ["root.a"]
    assert compared(GROUPS % "", TURNED % "")


def test_details_of_a_limit() -> None:
    """A limit that changes tells which amounts differ."""
    limit = "{name: a, limits: [{users: [sue], maxapplications: 2, maxresources: {vcore: %s, memory: 4Gi}}]}"
    (change,) = compared(limit % 4, limit.replace("maxapplications: 2, ", "") % 5).limits

    assert change.details() == (("vcore", "4", "5"), ("applications", "2", ""))


def test_everything_of_a_queue() -> None:
    """A new queue tells all that it is given: what it is, its quota, its template, and its access lists."""
    given = (
        "childtemplate: {maxapplications: 2, resources: {guaranteed: {vcore: 1}}}, submitacl: 'sue ops', adminacl: '*'"
    )
    (change,) = compared("", f"{{name: a, parent: true, {given}}}").queues

    assert change.details() == (
        ("parent", "", "yes"),
        ("template maximum applications", "", "2"),
        ("template guaranteed vcore", "", "1"),
        ("submit ACL", "", "'sue ops'"),
        ("admin ACL", "", "'*'"),
    )


def test_placement_rules() -> None:
    """Other placement rules are a change, and a line of the text."""
    before, after = (
        parse_config(f"partitions: [{{queues: [{{name: a}}], placementrules: [{{name: {rule}}}]}}]").partition()
        for rule in ("provided", "user")
    )

    assert str(changes(before, after)) == "~ placement rules"
    assert not changes(before, before)
