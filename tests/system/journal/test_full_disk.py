"""A full disk: releases are accepted, and neither compacting nor reopening reduces their number."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import pytest

from support.journal_processes import writer
from support.partition_fixtures import SUE, config
from ugm import AllocationRequest, Resource
from ugm.journal import JournaledPartition, JournalError, compact, inspect, open_partition
from ugm.journal.store_reader import open_reader

pytestmark = pytest.mark.ci

#: Allocations of which all can be released only with more space than there is: their names are long.
_IDS: Final = [f"{number:0250}" for number in range(5700)]
_FULL: Final = "the disk is full; only releases are accepted"


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Iterator[Path]:
    """A path on a file system with little more space than the journal needs."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["/bin/mount", "-t", "tmpfs", "-o", "size=4500k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:  # noqa: S603 - of this test
        pytest.skip("this user may not mount a file system")
    yield folder / "journal"
    subprocess.run(["/bin/umount", "--lazy", str(folder)], check=True)  # noqa: S603 - as above


def opened(path: Path) -> JournaledPartition:
    """Open a journal with a constant clock, so that equal changes take equal space."""
    return open_partition(path, None if path.exists() else config("{name: a}"), clock=lambda: 10**9)


def filled(path: Path) -> JournaledPartition:
    """Return a partition on a full disk."""
    partition = opened(path)
    partition.submit("app", SUE, "root.a")
    partition.allocate_all([AllocationRequest(name, "app", Resource()) for name in _IDS])
    partition.journal.close()
    partition = opened(path)
    partition.allocate("first", "app", Resource())
    fill_disk(path)
    grow(partition)
    return partition


def grow(partition: JournaledPartition) -> None:
    """Allocate until the disk is full."""
    number = 0
    with suppress(JournalError):
        while partition.allocate(f"more {number}", "app", Resource()):
            number += 1
    with pytest.raises(JournalError, match=_FULL):
        partition.allocate("more", "app", Resource())


def given_back(partition: JournaledPartition) -> int:
    """Release until this fails, and return the number of acknowledged releases."""
    count = 0
    with suppress(JournalError):
        for name in _IDS:
            partition.release(name)
            count += 1
    return count


def nothing(partition: JournaledPartition) -> JournaledPartition:
    """Do nothing."""
    return partition


def compacting(partition: JournaledPartition) -> JournaledPartition:
    """Try to compact three times."""
    for _ in range(3):
        with pytest.raises(JournalError, match="it cannot be compacted: database or disk is full"):
            partition.journal.compact()
    return partition


def reopening(partition: JournaledPartition) -> JournaledPartition:
    """Close the journal and open it on the full disk three times."""
    for _ in range(3):
        partition.journal.close()
        partition = opened(Path(partition.journal.path))
    return partition


def compacting_while_it_is_closed(partition: JournaledPartition) -> JournaledPartition:
    """Close the journal, try to compact the file, and open it."""
    path = Path(partition.journal.path)
    partition.journal.close()
    with pytest.raises(JournalError, match="disk is full"):
        compact(path)
    return opened(path)


def compacting_while_it_is_read(partition: JournaledPartition) -> JournaledPartition:
    """Try to compact while a reader prevents the truncation of the WAL."""
    with open_reader(partition.journal.path) as source:
        list(source.rows("snapshot"))
        with pytest.raises(JournalError, match="it cannot be compacted"):
            partition.journal.compact()
    return partition


def dying(partition: JournaledPartition) -> JournaledPartition:
    """Kill a process during a compaction, and open the journal."""
    path = Path(partition.journal.path)
    partition.journal.close()
    child = os.fork()
    if not child:
        pytest.MonkeyPatch().setattr(sqlite3, "connect", dying_connection(sqlite3.connect))
        opened(path).journal.compact()
        os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert Path(f"{path}-wal").stat().st_size > 2**18
    return opened(path)


def dying_connection(connect: Callable[..., sqlite3.Connection]) -> Callable[..., sqlite3.Connection]:
    """Return a factory of connections that kill the process when the disk is full."""

    class Dying(sqlite3.Connection):
        def execute(self, sql: str, *arguments: object) -> sqlite3.Cursor:
            try:
                return super().execute(sql, *arguments)  # type: ignore[arg-type]
            except sqlite3.OperationalError:
                os.kill(os.getpid(), signal.SIGKILL)
                raise

    return lambda *arguments, **options: connect(*arguments, **options, factory=Dying)


@pytest.fixture(name="usual", scope="module")
def _usual() -> dict[str, int]:
    """The number of releases that succeed without other operations; measured by the first test."""
    return {}


WAYS: Final = [compacting, reopening, compacting_while_it_is_closed, compacting_while_it_is_read, dying]


@pytest.mark.parametrize("way", WAYS)
def test_failures_do_not_cost_releases(
    path: Path, usual: dict[str, int], way: Callable[..., JournaledPartition]
) -> None:
    """Failing operations on a full disk do not reduce the number of releases that succeed."""
    if not usual:
        with suppress(JournalError), filled(path) as partition:
            usual["releases"] = given_back(partition)
        for file in path.parent.iterdir():
            file.unlink()
    partition = way(filled(path))
    count = given_back(partition)
    assert count >= usual["releases"] > 2000
    path.with_name("ballast").unlink()
    partition.journal.close()
    with opened(path) as partition:
        left = [name for name in _IDS if partition.allocation(name)]
        # The one that failed was in doubt, and is written once there is room.
        assert len(_IDS) - len(left) - count in (0, 1)
        partition.verify()


@pytest.mark.parametrize("how", ["close", "kill"])
@pytest.mark.parametrize("left", [0, 8192, 65536])
def test_opening_on_a_full_disk(path: Path, how: Literal["close", "kill"], left: int) -> None:
    """The reserve is released for opening a journal, which is not reported as damaged."""
    with writer(path, how):
        pass
    path.with_name("spare").write_bytes(bytes(max(left, 1)))
    fill_disk(path)
    if left:
        path.with_name("spare").unlink()
    with suppress(JournalError):
        inspect(path)
    with opened(path) as partition:
        for name in ("a", "b", "c"):
            assert partition.release(name)
    with opened(path) as partition:
        assert partition.allocation_ids() == ()


def fill_disk(path: Path) -> None:
    """Fill the disk of a journal."""
    with path.with_name("ballast").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass


def test_a_reader_on_a_full_disk(path: Path) -> None:
    """A reader without space for the shared memory of SQLite does not report damage."""
    with writer(path):
        pass
    path.with_name("spare").write_bytes(bytes(8192))
    fill_disk(path)
    path.with_name("spare").unlink()
    with pytest.raises(JournalError) as caught:
        inspect(path)
    assert type(caught.value) is JournalError


def test_compacting_frees_space(path: Path) -> None:
    """A compaction to a small state succeeds on a full disk, and allocations are accepted again."""
    partition = filled(path)
    assert given_back(partition) > 2000
    path.with_name("ballast").unlink()
    for allocation_id in partition.allocation_ids():
        partition.release(allocation_id)
    fill_disk(path)
    grow(partition)
    size = path.stat().st_size
    partition.journal.compact()
    assert path.stat().st_size < size / 4
    partition.submit("more", SUE, "root.a")
    assert partition.allocate("more", "more", Resource())
    partition.journal.close()
    with opened(path) as partition:
        assert partition.allocation_ids() == ("more",)


def test_an_interrupted_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted compaction leaves no open transaction, which would contain later changes."""
    path = tmp_path / "journal"
    with open_partition(path, config("{name: a}")) as partition:
        partition.submit("app", SUE, "root.a")
        monkeypatch.setattr("ugm.journal.compaction.checksummed_rows", interrupt)
        with pytest.raises(KeyboardInterrupt):
            partition.journal.compact()
        monkeypatch.undo()
        partition.allocate("a", "app", Resource())
        with open_reader(str(path)) as found:
            assert len(list(found.changes(0))) == partition.journal.number
    with open_partition(path) as partition:
        assert partition.allocation_ids() == ("a",)


def interrupt(*_: object) -> None:
    """Raise an exception from outside."""
    raise KeyboardInterrupt
