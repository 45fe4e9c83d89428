"""Names of users and groups, settings under the key ``ugm``, and exports: what a configuration may contain."""

from __future__ import annotations

import pytest

from support.config_cases import problems_of
from ugm import Manager, Partition, Resource, UserGroup, parse_config
from ugm.config import dump_config, export_config
from ugm.configuration import Extensions
from ugm.configuration.fields import field_shapes

USERS = ["8f3c2a10-11aa", "auth0|123", "ana@x.org", "Jane Doe", "CORP\\ana", "üser", 'name\'s "x"', "#1", "1", "~", "-"]
GROUPS = ["ml team", "8-gpus", "team/vision", "dev", "研究"]
TEXT = """
partitions:
- ugm: {names: any}
  limits:
  - {users: USERS, maxresources: {vcore: 8}}
  - {groups: GROUPS, maxresources: {vcore: 12}}
  queues: [{name: a}]
"""

KEYS = f"known here: {', '.join(sorted(shape.yaml_name for shape in field_shapes(Extensions)))}"


def configuration() -> str:
    """Return a configuration that names users and groups as identity providers do."""
    quoted = ["[" + ", ".join("'" + name.replace("'", "''") + "'" for name in names) + "]" for names in (USERS, GROUPS)]
    return TEXT.replace("USERS", quoted[0]).replace("GROUPS", quoted[1])


def test_names_of_identity_providers_are_enforced() -> None:
    """A limit can name every user and group that identity providers create; it holds for exactly that name."""
    partition = Partition(parse_config(configuration()).partition())
    for number, name in enumerate(USERS):
        partition.submit(f"app-{number}", UserGroup(name), "root.a")
        assert partition.allocate(f"one-{number}", f"app-{number}", Resource(vcore=8000))
        denied = partition.allocate(f"two-{number}", f"app-{number}", Resource(vcore=1))
        assert [violation.limit_name for violation in denied.violations] == [name]
    for number, name in enumerate(GROUPS):
        partition.submit(f"group-{number}", UserGroup(f"u-{number}", (name,)), "root.a")
        denied = partition.allocate(f"three-{number}", f"group-{number}", Resource(vcore=12001))
        assert [violation.limit_name for violation in denied.violations] == [name]


@pytest.mark.parametrize(
    ("settings_text", "problem"),
    [
        (
            "{name: any}",
            f"2:9 field-unknown\npartitions[0].ugm.name\nunknown field 'name'; did you mean 'names'?; {KEYS}",
        ),
        ("{names: some}", "2:16 choice-invalid\npartitions[0].ugm.names\nexpected 'yunikorn' or 'any', found 'some'"),
        ("{names: [any]}", "2:9 choice-invalid\npartitions[0].ugm.names\nexpected 'yunikorn' or 'any', found a list"),
        ("any", "2:8 wrong-type\npartitions[0].ugm\nexpected a mapping, found 'any'"),
    ],
)
def test_unknown_settings(settings_text: str, problem: str) -> None:
    """A setting that does not exist, or has no such value, is a problem with its place."""
    assert problems_of(f"partitions:\n- ugm: {settings_text}\n  queues: []\n") == [problem]


@pytest.mark.parametrize("name", ["a,b", " a", "a ", "a\u00a0b", "a\u200bb", "a\tb", "", "x" * 257])
def test_names_that_are_never_valid(name: str) -> None:
    """A name is printable, has no comma, no space at either end, and at most 256 characters."""
    quoted = '"' + name.encode("ascii", "backslashreplace").decode().replace("\\xa0", "\\u00a0") + '"'
    for kind in ("user", "group"):
        limit = f"limits: [{{{kind}s: [{quoted}], maxapplications: 1}}]"
        (problem,) = problems_of(f"partitions: [{{ugm: {{names: any}}, queues: [], {limit}}}]")
        assert f"limit-{kind}-name-invalid" in problem


# Exports


def test_export() -> None:
    """An export has neither the settings nor the names that the peer does not accept, and lists them."""
    exported = export_config(parse_config(configuration()))

    assert [part.path for part in exported.left_out][:3] == [
        "partitions[0].limits[0].users[0]",
        "partitions[0].limits[0].users[1]",
        "partitions[0].limits[0].users[3]",
    ]
    assert len(exported.left_out) == 14
    assert str(exported.left_out[0]).endswith(
        "user '8f3c2a10-11aa' is left out: Apache YuniKorn does not accept the name"
    )
    limits = exported.config.partition().limits
    assert [(limit.users, limit.groups) for limit in limits] == [(("ana@x.org",), ()), ((), ("dev",))]
    assert parse_config(dump_config(exported.config)) == exported.config
    assert "ugm" not in dump_config(exported.config)


STAYS = "the entry limits nothing, but stays: without it, other limits would apply"


def tree(root: str, mid: str, leaf: str) -> str:
    """Return a configuration with limits in three queues."""
    queues = f"[{{name: mid, limits: [{mid}], queues: [{{name: leaf, limits: [{leaf}]}}]}}]"
    return f"partitions: [{{limits: [{root}], queues: {queues}}}]"


@pytest.mark.parametrize(
    ("root", "mid", "leaf"),
    [
        ("{users: ['*'], maxresources: {a: 5}}", "{users: [ana], PENDING}", "{users: [ana], maxresources: {a: 9}}"),
        ("{users: [ana], PENDING}", "{users: ['*'], maxresources: {a: 5}}", "{users: [ana], maxresources: {a: 9}}"),
        ("", "{users: [ana], PENDING}, {users: ['*'], maxresources: {a: 5}}", ""),
        ("{groups: [ops, '*'], maxresources: {a: 5}}", "{groups: [dev], PENDING}", ""),
        ("", "{groups: [dev], PENDING}, {groups: ['*'], maxresources: {a: 5}}", ""),
    ],
)
def test_entries_that_exempt_a_name(root: str, mid: str, leaf: str) -> None:
    """An entry without a maximum stays if it keeps other limits from its names, so the export is valid and equal."""
    given = parse_config(tree(root, mid, leaf).replace("PENDING", "ugm: {maxpending: 1}"))
    exported = export_config(given)
    read = parse_config(dump_config(exported.config))

    assert [one.message for one in exported.left_out] == ["the limits on pending work are left out", STAYS]
    user = UserGroup("ana", ("dev",))
    before, after = (Manager(one.partition()).headroom("root.mid.leaf", "app", user) for one in (given, read))
    names = ("a", "memory")
    assert after is not None
    assert [after.get(name) for name in names] == [(before or Resource()).get(name) for name in names]
