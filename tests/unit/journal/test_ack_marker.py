"""An ack marker that cannot be read or written now is an outage of the journal, and no damage."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.journal_fixtures import begin
from support.partition_fixtures import memory
from ugm.journal import JournalDamagedError, JournalError, JournalHeldError, backup, compact, inspect, open_partition
from ugm.journal.follower import Follower
from ugm.journal.locations import log_at


@pytest.fixture(name="path")
def _path(quick_folder: Path) -> Path:
    with begin(quick_folder / "journal"):
        pass
    return quick_folder / "journal"


def without_descriptors(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Let a method of paths fail for ack markers, as if too many files were open."""
    original: Callable[..., Any] = getattr(Path, method)

    def fail(path: Path, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - handed on
        if "-acked" in path.name:
            raise OSError(errno.EMFILE, "Too many open files", str(path))
        return original(path, *arguments, **options)

    monkeypatch.setattr(Path, method, fail)


def unavailable(reader: Callable[[], object], path: Path) -> None:
    """Require that a call fails with an error that names the marker."""
    with pytest.raises(JournalError, match="Too many open files") as caught:
        reader()
    assert not isinstance(caught.value, JournalDamagedError)
    assert caught.value.path == str(path)
    assert f"{path}-acked" in str(caught.value)


@pytest.mark.parametrize("reader", [inspect, open_partition, compact, Follower])
def test_reading(path: Path, monkeypatch: pytest.MonkeyPatch, reader: Callable[[Path], object]) -> None:
    """Whoever reads the journal can do so later."""
    with monkeypatch.context() as patch:
        without_descriptors(patch, "read_bytes")
        unavailable(lambda: reader(path), path)

    assert inspect(path).number == 2


def test_reading_while_it_is_open(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Followers and copies report the outage, and others still see that the journal is in use."""
    follower = Follower(path)
    with open_partition(path) as partition, monkeypatch.context() as patch:
        partition.allocate("x", "app", memory(1))
        without_descriptors(patch, "read_bytes")

        unavailable(follower.poll, path)
        unavailable(follower.lag, path)
        unavailable(log_at(path).tail().last_number, path)
        unavailable(lambda: backup(path, path.with_name("copy")), path)
        with pytest.raises(JournalHeldError):
            open_partition(path)
    assert follower.poll() == 1


@pytest.mark.parametrize("opened", [open_partition, compact])
def test_writing(path: Path, monkeypatch: pytest.MonkeyPatch, opened: Callable[[Path], object]) -> None:
    """A journal whose marker cannot be written is not opened for writing."""
    with monkeypatch.context() as patch:
        without_descriptors(patch, "open")
        unavailable(lambda: opened(path), path)

    assert inspect(path).number == 2


def test_names_that_are_too_long(path: Path) -> None:
    """The names of the files next to a journal are longer than its own."""
    long = path.rename(path.with_name("x" * 252))

    with pytest.raises(JournalError, match="File name too long"):
        inspect(long)
