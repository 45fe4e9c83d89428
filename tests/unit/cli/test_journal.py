"""The commands that look after a journal."""

from __future__ import annotations

import csv
import json
from contextlib import closing
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from support.partition_fixtures import BOB, SUE, config, memory
from ugm import Resource, UserGroup
from ugm.cli import commands
from ugm.errors import printable
from ugm.journal import inspect, open_partition
from ugm.journal.store import connect

#: 2026-10-31T22:00 in UTC.
START = 1_793_484_000_000
HOUR = 3_600_000
STRANGE = ("[/x]", "[bold]ben[/bold]", "sue\x1b[31m")


@pytest.fixture(name="file")
def _file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal: sue holds a core and 2 GiB for four hours, over the turn of a month, and bob something else."""
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


def run(*arguments: object) -> Result:
    """Run the command as a user would."""
    return CliRunner().invoke(commands.ugm, list(map(str, arguments)))


def test_verify(file: Path) -> None:
    """A journal that is well is said to be."""
    result = run("journal", "verify", file)

    assert (result.stdout, result.exit_code) == ("quota: 8 changes, no problems found\n", 0)


def test_verify_while_it_is_used(file: Path) -> None:
    """Whoever only looks disturbs nobody."""
    with open_partition(file) as partition:
        partition.allocate("more", "app", memory(1))

        assert run("journal", "verify", file).stdout == "quota: 9 changes, no problems found\n"


def test_verify_damage(file: Path) -> None:
    """Damage is told with what is readable, and ends with status 1."""
    with closing(connect(str(file))) as connection:
        connection.execute("UPDATE changes SET data = x'5b5d' WHERE number = 5")
    result = run("journal", "verify", file)

    assert result.stderr == f"journal {file.absolute()}: change 5 is damaged; changes up to number 4 are readable\n"
    assert result.exit_code == 1


def test_show(file: Path) -> None:
    """A summary, and the last changes."""
    assert run("journal", "show", file, "--last", "2").stdout.splitlines() == [
        "last change 8 at 2026-11-01T02:30:00.000Z, never compacted",
        "2 applications with 1 allocation in 2 queues",
        "7 2026-11-01T02:30:00.000Z released y",
        "8 2026-11-01T02:30:00.000Z asked z",
    ]


def test_show_json(file: Path) -> None:
    """The same for programs."""
    printed = json.loads(run("journal", "show", file, "--last", "1", "--json").stdout)

    assert (printed["number"], printed["at"], printed["applications"]) == (8, "2026-11-01T02:30:00.000Z", 2)
    assert printed["changes"][0]["at"] == printed["at"]
    assert [event["event"] for event in printed["changes"][0]["events"]] == ["asked"]


def test_compact(file: Path) -> None:
    """The state takes the place of the changes."""
    before = inspect(file)
    result = run("journal", "compact", file)

    assert (result.stdout, result.exit_code) == ("quota: compacted 8 changes into 8 rows\n", 0)
    assert inspect(file) == replace(before, compacted=8)


def test_compact_while_it_is_used(file: Path) -> None:
    """A journal that is in use is left to who uses it."""
    with open_partition(file):
        result = run("journal", "compact", file)

    assert result.exit_code == 1
    assert "has it open for writing" in result.stderr


def test_backup(file: Path) -> None:
    """A journal that is in use is copied to a new file, and never to an existing one."""
    with open_partition(file):
        result = run("journal", "backup", file, "copy")
        again = run("journal", "backup", file, "copy")
        other = run("journal", "backup", file, "other", "--json")

    assert (result.stdout, result.exit_code) == ("quota: copied to copy\n", 0)
    assert json.loads(other.stdout) == {"file": "quota", "target": "other"}
    assert inspect("copy") == inspect("other") == inspect(file)
    assert "the file already exists" in again.stderr
    assert again.exit_code == 1


def test_export(file: Path) -> None:
    """Everything is one JSON object a line: the state at the beginning, then the changes."""
    lines = [json.loads(line) for line in run("journal", "export", file).stdout.splitlines()]
    assert [line["number"] for line in lines] == list(range(9))
    run("journal", "compact", file)
    lines = [json.loads(line) for line in run("journal", "export", file).stdout.splitlines()]

    assert [line.get("number") for line in lines] == [8, None, None, None]
    assert lines[1]["submission"]["user"] == {"name": "sue", "groups": ["dev"]}
    assert lines[3]["allocation_id"] == "z"


def test_export_of_a_damaged_journal(file: Path) -> None:
    """What is readable is printed, before the error."""
    with closing(connect(str(file))) as connection:
        connection.execute("UPDATE changes SET data = x'5b5d' WHERE number = 5")
    result = run("journal", "export", file)

    assert [json.loads(line)["number"] for line in result.stdout.splitlines()] == [0, 1, 2, 3, 4]
    assert result.exit_code == 1


def test_usage_csv(file: Path) -> None:
    """CSV has fixed columns, and exact amounts with their units."""
    assert run("usage", file, "--by", "user", "--until", "2026-11-01T02:30", "--format", "csv").stdout.splitlines() == [
        "from,until,kind,name,resource,amount,unit",
        *(line for line in usage_rows() if line),
    ]


def usage_rows() -> list[str]:
    """Return the rows of both users, up to the present."""
    result = run("usage", "quota", "--by", "user", "--format", "json")
    lines = json.loads(result.stdout)["lines"]
    assert [line["name"] for line in lines] == ["bob", "sue"]
    assert [line["resource_seconds"] for line in lines] == [
        {"gpu": "1800"},
        {"memory": str(2 * 2**30 * 14_400), "vcore": "14400000"},
    ]
    amounts = {
        "gpu": "1800,gpu-seconds",
        "memory": f"{2 * 2**30 * 14_400},byte-seconds",
        "vcore": "14400,core-seconds",
    }
    return [
        f"2026-10-31T22:00:00.000Z,2026-11-01T02:30:00.000Z,user,{line['name']},{resource},{amounts[resource]}"
        for line in lines
        for resource in line["resource_seconds"]
    ]


def test_usage_json(file: Path) -> None:
    """JSON has the times of CSV: ISO 8601 in UTC, whatever the time zone of the calendar."""
    options = ("--by", "user", "--until", "2026-11-01T01:00+01:00", "--zone", "Europe/Berlin", "--per", "month")
    lines = json.loads(run("usage", file, *options, "--json").stdout)["lines"]

    assert [(line["begin"], line["end"]) for line in lines] == [
        ("2026-10-31T22:00:00.000Z", "2026-10-31T23:00:00.000Z"),
        ("2026-10-31T23:00:00.000Z", "2026-11-01T00:00:00.000Z"),
    ]
    rows = run("usage", file, *options, "--format", "csv").stdout.splitlines()[1:]
    assert sorted({tuple(row.split(",")[:2]) for row in rows}) == [(line["begin"], line["end"]) for line in lines]
    assert run("usage", file, *options, "--format", "json").stdout == run("usage", file, *options, "--json").stdout


def test_verify_json(file: Path) -> None:
    """The result for programs."""
    printed = json.loads(run("journal", "verify", file, "--json").stdout)

    assert (printed["file"], printed["sound"], printed["number"]) == ("quota", True, 8)
    assert printed["at"] == "2026-11-01T02:30:00.000Z"


def test_verify_json_of_nothing(tmp_path: Path) -> None:
    """Where nothing has happened yet there is no instant."""
    with open_partition(tmp_path / "new"):
        pass

    assert json.loads(run("journal", "verify", tmp_path / "new", "--json").stdout)["at"] is None


def test_compact_json(file: Path) -> None:
    """What compacting has done, for programs."""
    printed = json.loads(run("journal", "compact", file, "--json").stdout)

    assert (printed["file"], printed["changes"], printed["snapshot_rows"] + printed["history_rows"]) == ("quota", 8, 8)


def test_export_has_instants(file: Path) -> None:
    """The instants of an export are in the same format."""
    lines = [json.loads(line) for line in run("journal", "export", file).stdout.splitlines()]

    assert [line["at"] for line in lines[:2]] == [None, "2026-10-31T22:00:00.000Z"]


def test_usage_table(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables count core hours and GiB hours, here month by month."""
    monkeypatch.setenv("COLUMNS", "140")
    printed = run("usage", file, "--by", "user", "--per", "month", "--until", "2026-11-01T01:00").stdout

    rows = [line.split()[-3:] for line in printed.splitlines() if "sue" in line]
    assert rows == [["sue", "2.000", "4.000"], ["sue", "1.000", "2.000"]]


@pytest.fixture(name="strange")
def _strange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal with names that rich or a terminal would interpret."""
    now = [START]
    with open_partition(tmp_path / "quota", config("{name: a}"), clock=lambda: now[0] / 1000) as partition:
        for name in STRANGE:
            partition.submit(f"app {name}", UserGroup(name), "root.a")
            partition.allocate(f"one {name}", f"app {name}", Resource({"[/gpu]": 1, "tpu\x1b[31m": 1}))
        now[0] += HOUR
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    return Path("quota")


@pytest.mark.parametrize("by", ["user", "application"])
def test_usage_table_has_literal_names(strange: Path, by: str) -> None:
    """Rich does not interpret names of owners and resources, and a terminal gets no control sequences from them."""
    result = run("usage", strange, "--by", by, "--until", "2026-10-31T23:00")

    assert result.exit_code == 0
    headings = next(line for line in result.stdout.splitlines() if line.startswith("from"))
    assert "[/gpu]" in headings
    assert r"tpu\x1b[31m" in headings
    for name in STRANGE:
        assert printable(name) in result.stdout
    assert "\x1b" not in result.stdout


def test_show_escapes_names(strange: Path) -> None:
    """A terminal gets no control sequences from the ids of allocations."""
    printed = run("journal", "show", strange, "--last", 99).stdout

    assert r"one sue\x1b[31m" in printed
    assert "\x1b" not in printed


def test_usage_csv_has_names_as_they_are(strange: Path) -> None:
    """Names in a pipe are those of the journal, also with control sequences."""
    printed = run("usage", strange, "--by", "user", "--until", "2026-10-31T23:00", "--format", "csv").stdout

    assert {row["name"] for row in csv.DictReader(StringIO(printed))} == set(STRANGE)


def test_json_has_names_as_they_are(strange: Path) -> None:
    """JSON escapes control sequences, so that a pipe gets them."""
    lines = json.loads(run("usage", strange, "--by", "user", "--until", "2026-10-31T23:00", "--json").stdout)["lines"]
    exported = map(json.loads, run("journal", "export", strange).stdout.splitlines())
    events = [event for entry in exported for event in entry.get("events", ())]

    assert {line["name"] for line in lines} == set(STRANGE)
    assert {event["application_id"] for event in events if "application_id" in event} >= {
        f"app {one}" for one in STRANGE
    }


def test_usage_in_a_time_zone(file: Path) -> None:
    """Dates are those of the zone."""
    options = ("--zone", "Europe/Berlin", "--since", "2026-11-01", "--until", "2026-11-01T01:00", "--format", "json")
    [line] = json.loads(run("usage", file, "--by", "group", *options).stdout)["lines"]

    assert line["name"] == "dev"
    assert line["resource_seconds"]["vcore"] == "3600000"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--since", "yesterday"], "expected a date such as 2026-10-01 or 2026-10-01T08:00, found 'yesterday'"),
        (["--zone", "Nowhere"], "unknown time zone 'Nowhere'"),
    ],
)
def test_usage_misuse(file: Path, options: list[str], text: str) -> None:
    """What cannot be asked is wrong usage."""
    result = run("usage", file, "--by", "user", *options)

    assert result.exit_code == 2
    assert text in " ".join(result.stderr.replace("│", " ").split())
