"""Journals that earlier versions wrote are opened, read and continued."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from support.recorded_journals import JOURNALS, NOW, described, usage_described
from ugm import Resource, UserGroup
from ugm.cli import commands
from ugm.journal import compact, export, inspect, open_partition
from ugm.journal.store import FORMAT
from ugm.journal.store_reader import read_format

#: What each of them is called, with the folder: the version, and how it was left.
NAMES = sorted(f"{folder.name}/{name}" for folder in JOURNALS.iterdir() for name in ("closed", "killed"))


@pytest.fixture(name="journal", params=NAMES)
def _journal(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A copy of a recorded journal, with its expected content."""
    original = JOURNALS / request.param
    for file in original.parent.glob(f"{original.name}*"):
        shutil.copy(file, tmp_path)
    meaning = (original.parent / "meaning.json").read_text("utf-8")
    # The state had another name when the journals were recorded.
    return tmp_path / original.name, json.loads(meaning.replace('"state": "going"', '"state": "terminating"'))


def expect(path: Path, meaning: dict[str, Any]) -> None:
    """Expect this content of a journal; opening it also verifies it."""
    with open_partition(path, clock=lambda: NOW / 1000) as partition:
        assert described(partition) == meaning["state"]
    assert usage_described(path) == meaning["usage"]


def test_it_is_opened(journal: tuple[Path, dict[str, Any]]) -> None:
    """The state and the usage over time are as they were, twice."""
    path, meaning = journal
    with open_partition(path, clock=lambda: NOW / 1000) as partition:
        assert partition.journal.number == meaning["number"]
    expect(path, meaning)
    expect(path, meaning)
    assert read_format(str(path)) == FORMAT


def test_it_is_read(journal: tuple[Path, dict[str, Any]]) -> None:
    """A journal can be read without being opened, and does not change."""
    path, meaning = journal
    before = path.read_bytes()
    summary = inspect(path)

    assert summary.number == meaning["number"]
    assert summary.allocations == len(meaning["state"]["allocations"])
    assert summary.applications == len(meaning["state"]["applications"])
    assert usage_described(path) == meaning["usage"]
    assert len(list(export(path))) > summary.number - summary.compacted
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "arguments", [["journal", "verify"], ["journal", "show", "--last", "9"], ["journal", "export"]]
)
def test_the_command_reads_it(journal: tuple[Path, dict[str, Any]], arguments: list[str]) -> None:
    """The commands for journals work."""
    path, meaning = journal
    result = CliRunner().invoke(commands.ugm, [*arguments, str(path)])

    assert (result.exit_code, result.stderr) == (0, "")
    assert str(meaning["number"]) in result.stdout


def test_the_command_shows_usage(journal: tuple[Path, dict[str, Any]]) -> None:
    """The command for usage works."""
    path, _ = journal
    result = CliRunner().invoke(commands.ugm, ["usage", str(path), "--by", "queue", "--format", "json"])

    assert result.exit_code == 0
    assert "root.batch" in result.stdout


def test_it_is_compacted(journal: tuple[Path, dict[str, Any]]) -> None:
    """A compaction, closed or open, does not change the content."""
    path, meaning = journal
    assert compact(path).changes > 0
    expect(path, meaning)
    with open_partition(path, clock=lambda: NOW / 1000) as partition:
        partition.journal.compact()
        partition.journal.backup(f"{path}-copy")
    expect(path, meaning)
    expect(Path(f"{path}-copy"), meaning)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_it_is_continued(journal: tuple[Path, dict[str, Any]], *, is_compacted: bool) -> None:
    """All applications and allocations can continue and end, and new ones can begin."""
    path, meaning = journal
    with open_partition(path, clock=lambda: NOW / 1000) as partition:
        number = partition.journal.number
        assert not partition.allocate("more", "batch-1", Resource(memory=1))
        assert partition.resize("late", Resource(memory=60))
        assert partition.allocate("pending-1", "batch-1", Resource(memory=33), priority=7)
        assert partition.submit("new", UserGroup("sue", ("dev",)), "root.batch")
        assert partition.journal.number == number + 3
    if is_compacted:
        compact(path)
    with open_partition(path, clock=lambda: (NOW + 1) / 1000) as partition:
        assert "pending-1" in [
            allocation_info.allocation_id
            for allocation_info in partition.allocations()
            if allocation_info.state == "held"
        ]
        for allocation in meaning["state"]["allocations"]:
            assert partition.release(allocation["id"])
        for application in meaning["state"]["applications"]:
            if application["id"] in partition.application_ids():
                partition.remove(application["id"])
        partition.verify()
        assert partition.application_ids() == ("new",)
        assert partition.users() == ()
    with open_partition(path) as partition:
        assert partition.application_ids() == ("new",)
