"""Exports of entries that limit only pending work, which Apache YuniKorn does not have."""

from __future__ import annotations

import pytest

from ugm import Manager, Resource, UserGroup, parse_config
from ugm.config import dump_config, export_config

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
