"""The commands for a store."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from support.commands import run
from support.partition_fixtures import BOB, SUE, config, memory
from ugm import Resource
from ugm.store import open_partition

#: 2026-10-31T22:00 in UTC.
START = 1_793_484_000_000
HOUR = 3_600_000


@pytest.fixture(name="file")
def _file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store: sue holds a core and 2 GiB for four hours, over the turn of a month, and bob something else."""
    now = [START]
    with open_partition(tmp_path / "quota", config("{name: a}"), clock=lambda: now[0] / 1000) as partition:
        partition.submit("app", SUE, "root.a")
        partition.submit("bob", BOB, "root.a")
        partition.allocate("x", "app", Resource(vcore=1000, memory=2 * 2**30))
        now[0] += 4 * HOUR
        partition.release("x")
        partition.allocate("y", "bob", Resource(gpu=1))
        now[0] += HOUR // 2
        partition.release("y")
        partition.request("z", "app", memory(1))
    monkeypatch.chdir(tmp_path)
    return Path("quota")


def test_verify(file: Path) -> None:
    """A sound store is reported with the number of its changes."""
    result = run("store", "verify", file)

    assert (result.stdout, result.exit_code) == ("quota: 8 changes, no problems found\n", 0)


def test_damage(file: Path) -> None:
    """Damage is an error with status 1."""
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE allocation SET usage = '[]'")
    result = run("store", "verify", file)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr


def test_info(file: Path) -> None:
    """A summary, as text and for programs."""
    assert run("store", "info", file).stdout.splitlines() == [
        "last change 8 at 2026-11-01T02:30:00.000Z",
        "2 applications, 1 allocation, 0 nodes",
    ]
    printed = json.loads(run("store", "info", file, "--json").stdout)
    assert (printed["number"], printed["at"], printed["applications"]) == (8, "2026-11-01T02:30:00.000Z", 2)


def test_info_of_nothing(tmp_path: Path) -> None:
    """A location without a store is an error."""
    (tmp_path / "empty").touch()
    result = run("store", "info", tmp_path / "empty")

    assert result.exit_code == 1
    assert "there is no store" in result.stderr


def test_backup(file: Path) -> None:
    """A store that is in use is copied to a new file, and never to an existing one."""
    with open_partition(file):
        result = run("store", "backup", file, "copy")
        again = run("store", "backup", file, "copy")
        other = run("store", "backup", file, "other", "--json")

    assert (result.stdout, result.exit_code) == ("quota: copied to copy\n", 0)
    assert json.loads(other.stdout) == {"store": "quota", "target": "other"}
    assert run("store", "info", "copy").stdout == run("store", "info", file).stdout
    assert "there is a store already" in again.stderr
    assert again.exit_code == 1


def test_changes(file: Path) -> None:
    """Every change is one JSON object with its events; later ones can be chosen."""
    changes = [json.loads(line) for line in run("store", "changes", file).stdout.splitlines()]

    assert [one["number"] for one in changes] == list(range(1, 9))
    assert [event["event"] for one in changes[-2:] for event in one["events"]] == ["released", "asked"]
    assert json.loads(run("store", "changes", file, "--after", 6, "--json").stdout) == changes[6:]


def test_trim(file: Path) -> None:
    """Usage before a date is deleted."""
    deleted = run("store", "trim", file, "--before", "2026-11-01", "--json")
    assert json.loads(deleted.stdout) == {"store": "quota", "before": "2026-11-01"}
    assert run("usage", file, "--by", "user", "--since", "2026-10-31").exit_code == 1


def test_usage_csv(file: Path) -> None:
    """CSV has fixed columns, and exact amounts with their units; JSON has the same amounts by name."""
    columns = "2026-10-31T22:00:00.000Z,2026-11-01T02:30:00.000Z,user"
    memory = 2 * 2**30 * 14_400
    assert run("usage", file, "--by", "user", "--until", "2026-11-01T02:30", "--csv").stdout.splitlines() == [
        "from,until,kind,name,resource,amount,unit",
        f"{columns},bob,gpu,1800,gpu-seconds",
        f"{columns},sue,memory,{memory},byte-seconds",
        f"{columns},sue,vcore,14400,core-seconds",
    ]
    lines = json.loads(run("usage", file, "--by", "user", "--json").stdout)["lines"]
    assert {line["name"]: line["resource_seconds"] for line in lines} == {
        "bob": {"gpu": "1800"},
        "sue": {"memory": str(memory), "vcore": "14400000"},
    }


def test_usage_json(file: Path) -> None:
    """JSON has the times of CSV: ISO 8601 in UTC, whatever the time zone of the calendar."""
    options = ("--by", "user", "--until", "2026-11-01T01:00+01:00", "--zone", "Europe/Berlin", "--per", "month")
    lines = json.loads(run("usage", file, *options, "--json").stdout)["lines"]

    assert [(line["begin"], line["end"]) for line in lines] == [
        ("2026-10-31T22:00:00.000Z", "2026-10-31T23:00:00.000Z"),
        ("2026-10-31T23:00:00.000Z", "2026-11-01T00:00:00.000Z"),
    ]
    month = run("usage", file, "--by", "user", "--month", "2026-10", "--csv").stdout.splitlines()
    period = "2026-10-01T00:00:00.000Z,2026-11-01T00:00:00.000Z,user,sue"
    assert month[1:] == [f"{period},memory,15461882265600,byte-seconds", f"{period},vcore,7200,core-seconds"]
    rows = run("usage", file, *options, "--csv").stdout.splitlines()[1:]
    assert sorted({tuple(row.split(",")[:2]) for row in rows}) == [(line["begin"], line["end"]) for line in lines]


def test_usage_table(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables count core hours and GiB hours, here month by month."""
    monkeypatch.setenv("COLUMNS", "140")
    printed = run("usage", file, "--by", "user", "--per", "month", "--until", "2026-11-01T01:00").stdout

    rows = [line.split()[-3:] for line in printed.splitlines() if "sue" in line]
    assert rows == [["sue", "2.000", "4.000"], ["sue", "1.000", "2.000"]]

    monkeypatch.setenv("COLUMNS", "30")
    printed = run("usage", file, "--by", "user", "--until", "2026-11-01T01:00:30").stdout
    assert [line.split() for line in printed.splitlines()] == [
        ["usage", "by", "user,", "in", "hours"],
        ["from", "2026-10-31", "22:00+00:00", "until", "2026-11-01", "01:00:30+00:00"],
        ["user", "core", "GiB"],
        ["sue", "3.008", "6.017"],
    ]


def test_usage_of_an_unused_queue(file: Path) -> None:
    """A queue without usage, perhaps a misspelt one, is named on the standard error."""
    result = run("usage", file, "--by", "user", "--queue", "root.none", "--json")

    assert (result.exit_code, json.loads(result.stdout)["lines"]) == (0, [])
    assert result.stderr == "ugm: no usage in this time in and below the queue root.none\n"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--since", "yesterday"], "expected a date such as 2026-10-01 or 2026-10-01T08:00, found 'yesterday'"),
        (["--zone", "Nowhere"], "unknown time zone 'Nowhere'"),
        (["--month", "November"], "expected a month such as 2026-11, found 'November'"),
        (["--month", "2026-11", "--since", "2026-11-01"], "--month replaces --since and --until"),
        (["--since", "2026-11-02", "--until", "2026-11-01"], "--since is after --until"),
        (["--csv", "--json"], "--csv and --json exclude each other"),
    ],
)
def test_usage_misuse(file: Path, options: list[str], text: str) -> None:
    """What cannot be asked is wrong usage."""
    result = run("usage", file, "--by", "user", *options)

    assert result.exit_code == 2
    assert text in " ".join(result.stderr.replace("│", " ").split())
