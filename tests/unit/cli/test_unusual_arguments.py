"""Arguments that no file or server can have are errors of usage, and files that cannot be read are named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from support.partition_fixtures import config
from ugm.cli import commands
from ugm.journal import JournalError, inspect, open_partition

#: Longer than a name of a file can be.
LONG = "x" * 300
#: A regular file whose first page cannot be read.
UNREADABLE = "/proc/self/mem"


@pytest.fixture(name="journal")
def _journal(quick_folder: Path) -> Path:
    path = quick_folder / "journal"
    with open_partition(path, config("{name: a}")):
        pass
    return path


def run(*arguments: object) -> Result:
    """Run a command, which must not raise anything but its exit status."""
    result = CliRunner().invoke(commands.ugm, list(map(str, arguments)))
    assert isinstance(result.exception, SystemExit | None)
    return result


@pytest.mark.parametrize(
    "arguments",
    [
        ["budgets", LONG],
        ["order", LONG],
        ["explain", LONG, "--user", "sue"],
        ["serve", LONG],
        ["top", LONG, "--once"],
        ["top", f"{LONG}:8080", "--once"],
        ["budgets", f"{LONG}:8080"],
        ["usage", LONG, "--by", "user"],
        ["journal", "verify", LONG],
        ["simulate", LONG],
        ["validate", LONG],
        ["diff", LONG, LONG],
        ["export", LONG],
    ],
)
def test_long_names(arguments: list[str]) -> None:
    """A name that is too long is that of a missing file or server."""
    result = run(*arguments)

    assert result.exit_code in (1, 2)
    assert result.stderr


@pytest.mark.parametrize("command", [["budgets"], ["order"], ["top", "--once"], ["explain", "--user", "sue"]])
@pytest.mark.parametrize("url", ["http://[", "https://[::1", "http://host:99999", "http://host:port", "host:99999"])
def test_invalid_urls(command: list[str], url: str) -> None:
    """A URL that is not valid is an error of usage, with the reason."""
    result = run(*command, url)

    assert result.exit_code == 2
    assert "is not the URL of a server: " in result.stderr.replace("\n", " ")


def test_long_names_of_copies(journal: Path) -> None:
    """A copy whose name is too long cannot be written."""
    result = run("journal", "backup", journal, journal.with_name(LONG))

    assert result.exit_code == 1
    assert "File name too long" in result.stderr
    # The name is short enough, but that of its WAL is not.
    assert run("journal", "backup", journal, journal.with_name("x" * 253)).exit_code == 1


def test_long_folder_of_a_page(tmp_path: Path) -> None:
    """A page cannot be written into a folder that cannot exist."""
    (tmp_path / "log").touch()
    result = run("simulate", tmp_path / "log", "--html", f"{LONG}/page.html")

    assert result.exit_code == 2


def test_very_many_changes(journal: Path) -> None:
    """The number of changes to show is bounded."""
    assert run("journal", "show", journal, "--last", "1000000").exit_code == 0
    assert run("journal", "show", journal, "--last", "9" * 20).exit_code == 2


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the file exists only on Linux")
@pytest.mark.parametrize("command", [["journal", "verify"], ["journal", "export"], ["budgets"]])
def test_unreadable_files(command: list[str]) -> None:
    """The error names a file that cannot be read, and does not blame the output."""
    result = run(*command, UNREADABLE)

    assert result.exit_code == 1
    assert result.stderr.endswith("/mem: it cannot be read: Input/output error\n")
    with pytest.raises(JournalError, match="Input/output error"):
        inspect(UNREADABLE)
