"""A record with a valid checksum and wrong content is reported as damage by every reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from support.partition_fixtures import SUE, memory
from ugm import InvariantError, parse_config
from ugm.cli import commands
from ugm.fairness import ContinuousUsage
from ugm.identity import UserGroup
from ugm.journal import JournalDamagedError, compact, export, inspect, load_usage, open_partition, usage
from ugm.journal.declared_past import declared_accounts
from ugm.journal.file_writer import change_row
from ugm.journal.follower import Follower
from ugm.journal.locations import log_at
from ugm.journal.store import connect, row_checksum
from ugm.partition.event_codec import to_json
from ugm.partition.usage_feed import UsageFeed

MODELS = parse_config(
    """
    partitions:
    - queues: [{name: a}]
      ugm:
        budgets: [{name: b, queue: root.a, amounts: {memory: 100}, unit: hour, mode: admit}]
        fairshare: {defaultshares: 1}
    """
).partition()
#: The number of the change that `overwrite` replaces.
ALLOCATED = 4
KEY = {"k": 1}


@pytest.fixture(name="path")
def _path(quick_folder: Path) -> Path:
    """A journal with the models of a configuration, whose last changes are a grant and a release."""
    with open_partition(quick_folder / "journal", MODELS, clock=lambda: 10**9) as partition:
        partition.submit("app", SUE, "root.a")
        partition.add_node("n", memory(100))
        partition.allocate("x", "app", memory(10))
        partition.release("x")
        assert partition.journal.number == ALLOCATED + 1
    return quick_folder / "journal"


def overwrite(path: Path, data: object, number: int = ALLOCATED) -> None:
    """Replace the data of a change, with a valid checksum."""
    with closing(connect(str(path))) as connection:
        [at] = connection.execute("SELECT at FROM changes WHERE number = ?", (number,)).fetchone()
        encoded = data if isinstance(data, bytes) else to_json(data)
        _, _, *row = change_row(number, at, encoded)
        connection.execute("UPDATE changes SET data = ?, sum = ? WHERE number = ?", (*row, number))


def overwrite_row(path: Path, table: str, tag: object, data: object) -> None:
    """Replace the data of the first row with a tag in the snapshot or the history, with a valid checksum."""
    with closing(connect(str(path))) as connection:
        rows = connection.execute(f"SELECT position, data FROM {table}").fetchall()  # noqa: S608 - a constant
        position = next(position for position, row in rows if json.loads(row)[0] == tag)
        encoded = to_json(data)
        update = f"UPDATE {table} SET data = ?, sum = ? WHERE position = ?"  # noqa: S608 - as above
        connection.execute(update, (encoded, row_checksum(position, encoded), position))


def fails(reader: Callable[[], object], readable: int = ALLOCATED - 1) -> None:
    """Require that a reader reports the damage, and which changes can be read."""
    with pytest.raises(JournalDamagedError, match="a record cannot be decoded: ") as caught:
        reader()
    assert caught.value.readable == readable
    str(caught.value).encode()


@pytest.mark.parametrize(
    "data",
    [
        [["-", KEY, "app", {"memory": 10}]],
        [["-", "unknown", "app", {"memory": 10}]],
        [["-", "x", "app", None]],
        [["+", "x", "app", {"memory": 10}, "held", 0, KEY, 1]],
        [["+", "x", KEY, {"memory": 10}]],
        [["+", "x", "app", {"memory": "many"}]],
        [["+", "x", "app", {"\ud800": "many"}]],
        [["size", "x", "unknown", {"memory": 10}, {"memory": 20}]],
        [["failing", KEY]],
        [["link", "app"]],
        [["quota", KEY, {"memory": 1}]],
        [[[]]],
        [7],
    ],
)
def test_a_change(path: Path, data: object) -> None:
    """Inspection and opening agree, and neither the journal nor its lock is affected."""
    overwrite(path, data)

    fails(lambda: inspect(path))
    fails(lambda: open_partition(path))
    fails(lambda: open_partition(path))
    result = CliRunner().invoke(commands.ugm, ["journal", "verify", str(path)])
    assert result.exit_code == 1
    assert result.stderr.endswith(f"changes up to number {ALLOCATED - 1} are readable\n")


READERS: dict[str, Callable[[Path], object]] = {
    "follower": Follower,
    "compact": compact,
    "usage": lambda path: usage(path, "user"),
    "accounts": lambda path: declared_accounts(log_at(path).open_contents(), 10**9),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("event", [["+", "x", "unknown", {"memory": 10}], ["+", "x", KEY, {"memory": 10}]])
def test_each_reader(path: Path, event: object, reader: Callable[[Path], object]) -> None:
    """A grant for an application that does not exist is damage."""
    overwrite(path, [event])

    fails(lambda: reader(path))


def test_export(path: Path) -> None:
    """The items before the damage are exported."""
    overwrite(path, [["+", "x", "app", {"memory": 10}, "held", 0, 0, 1], ["end", "app"]])
    found: list[Any] = []

    fails(lambda: found.extend(export(path)))
    assert [item["number"] for item in found] == [0, 1, 2, 3]


def test_a_follower_that_has_begun(path: Path) -> None:
    """A follower reports a change that does not fit its state, and again when it has loaded the whole log."""
    follower = Follower(path)
    with open_partition(path) as partition:
        partition.allocate("y", "app", memory(1))
    overwrite(path, [["-", "unknown", "app", {"memory": 1}]], ALLOCATED + 2)

    fails(follower.poll, ALLOCATED + 1)
    fails(follower.poll, ALLOCATED + 1)
    follower.close()


def test_the_head_under_a_follower(path: Path) -> None:
    """A follower that looks for newer changes reports that it cannot decode the number of the snapshot."""
    follower = Follower(path)
    with open_partition(path) as partition:
        partition.journal.compact()
        partition.allocate("y", "app", memory(1))
    overwrite_row(path, "snapshot", ALLOCATED + 1, [KEY])

    fails(follower.poll, ALLOCATED + 1)
    follower.close()


@pytest.mark.parametrize(
    ("tag", "data"),
    [
        ("allocations", ["allocations", ["y", "app", {"memory": 10}, "held"]]),
        ("allocations", ["allocations", ["y", "unknown", {"memory": 10}]]),
        ("application", ["application", [1], "sue", [], "root.a", {}, "root.a", "soft", False, None, *[True] * 4]),
        ("model", ["model", "budgets", [1], {}]),
        ("model", ["model", "budgets", "", {"now": 0}]),
    ],
)
def test_the_snapshot(path: Path, tag: str, data: object) -> None:
    """Damage of the state before the first change is reported as well."""
    with open_partition(path) as partition:
        partition.allocate("y", "app", memory(10))
        partition.journal.compact()
    overwrite_row(path, "snapshot", tag, data)

    # Inspection reads the models after all changes.
    fails(lambda: inspect(path), ALLOCATED + 2 if tag == "model" else 0)
    fails(lambda: open_partition(path), 0)


def snapshot_row(path: Path, *tag: object) -> list[Any]:
    """Return the row of the snapshot that begins with some values."""
    with closing(connect(str(path))) as connection:
        rows = [json.loads(data) for (data,) in connection.execute("SELECT data FROM snapshot")]
    return next(row for row in rows if row[: len(tag)] == list(tag))


@pytest.mark.parametrize("place", [0, 1])
def test_the_head_of_the_snapshot(path: Path, place: int) -> None:
    """The number and the instant of a snapshot are integers."""
    with open_partition(path) as partition:
        partition.journal.compact()
    head = snapshot_row(path, ALLOCATED + 1)
    head[place] = ""
    overwrite_row(path, "snapshot", ALLOCATED + 1, head)

    readers: list[Callable[[Path], object]] = [inspect, open_partition, *HISTORY_READERS.values()]
    for reader in readers:
        fails(lambda: reader(path), 0)  # noqa: B023 - called at once


@pytest.mark.parametrize("wrong", [{"now": 1e308}, {"settled": "1"}, {"bonus": 0.5}])
def test_saved_budgets(path: Path, wrong: dict[str, object]) -> None:
    """The numbers of saved budgets are integers."""
    with open_partition(path) as partition:
        partition.journal.compact()
    row = snapshot_row(path, "model", "budgets")
    past = row[3]
    [[*key, period, settled, bonus]] = past["accounts"]
    changed = {"now": past["now"], "settled": settled, "bonus": bonus} | wrong
    past["now"], past["accounts"] = changed["now"], [[*key, period, changed["settled"], changed["bonus"]]]
    overwrite_row(path, "snapshot", "model", row)

    fails(lambda: open_partition(path), 0)
    fails(lambda: inspect(path), ALLOCATED + 1)


def test_the_history(path: Path) -> None:
    """Inspection reads the history, which opening needs only for some models."""
    with open_partition(path, clock=lambda: (10**12 + 5000) / 1000) as partition:
        partition.allocate("y", "app", memory(10))
    with open_partition(path, clock=lambda: (10**12 + 9000) / 1000) as partition:
        partition.release("y")
        partition.journal.compact()
    overwrite_row(path, "history", "used", ["used", "app", "sue"])

    fails(lambda: inspect(path), ALLOCATED + 3)
    fails(lambda: usage(path, "user"), 0)
    fails(lambda: load_usage(path, UsageFeed(ContinuousUsage(half_life=60))), 0)


HISTORY_READERS: dict[str, Callable[[Path], object]] = {
    "usage": lambda path: usage(path, "user"),
    "compact": compact,
    "load_usage": lambda path: load_usage(path, UsageFeed(ContinuousUsage(half_life=60))),
}


@pytest.mark.parametrize("reader", HISTORY_READERS.values(), ids=HISTORY_READERS)
@pytest.mark.parametrize(
    "values",
    [
        ["app", "sue", "root.a", None, [["x", 9000, {"memory": 10}]]],
        ["app", "sue", "root.a", None, [[5000, None, {"memory": 10}]]],
        ["app", "sue", "root.a", None, [[5000, 9000.5, {"memory": 10}]]],
        ["app", "sue", "root.a", None, [[5000, 9000, {"memory": "10"}]]],
        ["app", "sue", "root.a", None, [[5000, 9000, ["memory"]]]],
        ["app", 7, "root.a", None, [[5000, 9000, {"memory": 10}]]],
        ["app", "sue", "root.a", 7, [[5000, 9000, {"memory": 10}]]],
        ["app", "sue", "root.a", None, [[5000, 9000, {"memory": 10}]], [["elastic group", 7]]],
    ],
)
def test_usage_in_the_history(path: Path, values: list[object], reader: Callable[[Path], object]) -> None:
    """A value of another type in the usage before a compaction is damage for every function that reads it."""
    with open_partition(path, clock=lambda: (10**12 + 5000) / 1000) as partition:
        partition.allocate("y", "app", memory(10))
    with open_partition(path, clock=lambda: (10**12 + 9000) / 1000) as partition:
        partition.release("y")
        partition.journal.compact()
    overwrite_row(path, "history", "used", ["used", *values])

    fails(lambda: reader(path), 0)


def test_inconsistent_content(path: Path) -> None:
    """A record that can be applied, but leads to other counters, is found by the self-check of both functions."""
    overwrite(path, [["+", "x", "app", {"memory": 10}], ["+", "y", "app", {"memory": 10}]])
    overwrite(path, [["+", "y", "app", {"memory": 10}]], ALLOCATED + 1)

    for reader in (inspect, open_partition):
        with pytest.raises(InvariantError, match="its allocations add up to"):
            reader(path)


def test_models_that_differ(path: Path) -> None:
    """Inspection verifies the declared models like opening."""
    overwrite(path, [["-", "x", "app", {}]], ALLOCATED + 1)

    for reader in (inspect, open_partition):
        with pytest.raises(InvariantError, match="quota model"):
            reader(path)


def test_an_error_of_the_program(path: Path) -> None:
    """An exception of a function of the program is not taken for damage."""

    def owner(_user: UserGroup, _queue_path: str) -> str:
        raise KeyError("owner")

    with pytest.raises(KeyError, match="owner"):
        load_usage(path, UsageFeed(ContinuousUsage(half_life=60), owner=owner))
