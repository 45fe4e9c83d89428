"""The scheduling order over REST and in the command, for every storage."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import time
from typing import Final, TypeVar

import pytest

from support.clocks import Clock
from support.commands import run
from support.partition_fixtures import BOB, SUE, config, memory
from support.server_fixtures import PREFIX, client, create_partition, running, served
from ugm import Partition, parse_config
from ugm.partition import AbstractPartition
from ugm.store import StoredPartition, open_partition


def fill(partition: AbstractPartition) -> None:
    """Submit applications with requests."""
    for name, priority in (("x", 0), ("y", 5)):
        partition.submit(name, SUE, "root.a")
        partition.request(f"{name}.0", name, memory(3), priority=priority)


def test_command_with_a_store(tmp_path: Path) -> None:
    """The command reads a store, while a partition may use it."""
    path = tmp_path / "store"
    with open_partition(path, config("{name: a, resources: {max: {memory: 4}}}")) as partition:
        fill(partition)
        turns = json.loads(run("order", str(path), "--json").stdout)["turns"]
        text = run("order", str(path)).stdout

    assert [(one["allocation_id"], one["fits"], one["blocked_by"]) for one in turns] == [
        ("y.0", True, ""),
        ("x.0", False, "root.a"),
    ]
    assert "1  root.a is the only one in root with pending requests; y comes before x by priority: 5 against 0" in text


GROUPS: Final = """
partitions:
- queues: [{name: a}, {name: b}]
  ugm:
    elastic:
      total: {memory: 8}
      groups: [{name: a, min: {memory: 6}, max: {memory: 8}}, {name: b, min: {memory: 2}, max: {memory: 2}}]
      groupby: [{source: queue}]
"""


def fill_groups(partition: AbstractPartition) -> None:
    """Let two groups use the same amount, of which one is guaranteed more, and wait."""
    for name in ("b", "a"):
        partition.submit(name, SUE, f"root.{name}")
        partition.allocate(f"{name}.0", name, memory(2))
        partition.request(f"{name}.1", name, memory(1))


@pytest.mark.usefixtures("storage")
def test_groups_over_rest() -> None:
    """The order descends through the groups of a quota model if a client names its tree."""
    partition = create_partition(parse_config(GROUPS).partition())
    fill_groups(partition)
    server = client(partition)
    found = server.get(f"{PREFIX}/order", params={"tree": "elastic groups"}).json()["turns"]

    assert [one["allocation_id"] for one in found] == ["a.1", "b.1"]
    assert found[0]["reasons"][0] == "root.a comes before root.b by the ratio of its usage: 2/3 against 1"
    assert [one["allocation_id"] for one in server.get(f"{PREFIX}/order").json()["turns"]] == ["b.1", "a.1"]
    assert server.get(f"{PREFIX}/order", params={"limit": 1}).json() == {"turns": [partition.order()[0].to_dict()]}
    assert server.get(f"{PREFIX}/order", params={"tree": "company"}).json()["code"] == "tree-unknown"


def test_groups_in_the_command(tmp_path: Path) -> None:
    """The command asks a server or a store for the order by groups."""
    partition = create_partition(parse_config(GROUPS).partition())
    fill_groups(partition)
    with running(served(partition)) as port:
        found = run("order", f"localhost:{port}", "--tree", "elastic groups", "--json")
    assert [one["allocation_id"] for one in json.loads(found.stdout)["turns"]] == ["a.1", "b.1"]

    with open_partition(tmp_path / "store", parse_config(GROUPS).partition()) as stored:
        fill_groups(stored)
        assert run("order", str(tmp_path / "store"), "--tree", "elastic groups", "--json").stdout == found.stdout


#: A kind of partition.
_Kind = TypeVar("_Kind", Partition, StoredPartition)
SHARES: Final = """
partitions:
- queues: [{name: a, properties: {application.sort.policy: share}}]
  ugm: {fairshare: {accounts: {lab: 1}, users: {lab/sue: 1, bob: 1}, weights: {memory: 1}}}
"""


def filled_shared(create: Callable[..., _Kind]) -> _Kind:
    """Return a partition in which one user has used something, and both wait."""
    clock = Clock(time() - 2)
    partition = create(parse_config(SHARES).partition(), clock=clock)
    for user in (SUE, BOB):
        partition.submit(user.name, user, "root.a")
    partition.allocate("sue.0", "sue", memory(3))
    clock.now += 2
    for name in ("sue", "bob"):
        partition.request(f"{name}.1", name, memory(1))
    return partition


def test_shares_over_rest() -> None:
    """The server lists the users by their shares, and explains the order of two of them."""
    partition = filled_shared(Partition)
    found = client(partition).get(f"{PREFIX}/shares", params={"first": "sue", "second": "bob"}).json()

    assert [(one["path"], one["place"], one["rank"], one["level"]) for one in found["users"]] == [
        ("bob", 1, 2, "infinity"),
        ("lab/sue", 2, 1, "1"),
    ]
    assert found["explanation"]["text"] == ("lab/sue comes after bob: lab has level 1/2, bob has level infinity")
    assert [(one["path"], one["level"]) for one in found["accounts"]] == [("lab", "1/2")]
    listed = client(partition).get(f"{PREFIX}/shares", params={"search": "LAB", "limit": 1}).json()
    assert (listed["total"], listed["explanation"], len(listed["accounts"])) == (1, None, 1)
    assert client(partition).get(f"{PREFIX}/shares", params={"search": "bob"}).json()["accounts"] == []
    assert [turn.user for turn in partition.order()] == ["bob", "sue"]


def test_explained_shares_of_a_store(tmp_path: Path) -> None:
    """The command reads the shares and the past usage from a store, and explains the order of two users."""
    path = tmp_path / "store"
    with filled_shared(partial(open_partition, path)):
        found = json.loads(run("order", str(path), "--explain", "bob", "lab/sue", "--json").stdout)
        text = run("order", str(path), "--explain", "bob", "sue").stdout

    assert [one["user"] for one in found["turns"]] == ["bob", "sue"]
    assert found["explanation"]["text"] == "bob comes before lab/sue: bob has level infinity, lab has level 1/2"
    assert "bob comes before lab/sue: bob has level infinity, lab has level 1/2" in text


def test_no_shares_to_explain(tmp_path: Path) -> None:
    """To explain shares that are not declared is wrong usage, and unknown users are an error."""
    for name, settings in (("plain", config("{name: a}")), ("shared", parse_config(SHARES).partition())):
        open_partition(tmp_path / name, settings).close()

    assert run("order", str(tmp_path / "plain"), "--explain", "a", "b").exit_code == 2
    assert run("order", str(tmp_path / "shared"), "--explain", "a", "b").exit_code == 1
