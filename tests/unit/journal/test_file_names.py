"""A journal has one writer and shows all of its changes under each of its names."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from time import sleep
from typing import Final, Literal

import pytest

from support.journal_fixtures import begin
from support.journal_processes import elsewhere, fill, forked, killed, opened, race, read, writer
from support.partition_fixtures import memory
from support.tracking_fixtures import Wrong
from ugm import RequestError
from ugm.journal import (
    JournalDamagedError,
    JournaledPartition,
    JournalError,
    JournalHeldError,
    compact,
    export,
    inspect,
    open_partition,
    usage,
)
from ugm.journal.store import connect

ELSEWHERE: Final = "it is in use under another name, or was not closed under another name"
MOVED: Final = "the file was moved, replaced or deleted while it was open"


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def ids(partition: JournaledPartition) -> list[str]:
    """Return the allocations of a partition."""
    return list(partition.allocation_ids())


def expect_all(*paths: Path) -> None:
    """Expect that a closed journal shows all three allocations under each name."""
    for path in paths:
        assert elsewhere(read, path) == ["read"] * 3
        with open_partition(path) as partition:
            assert ids(partition) == ["a", "b", "c"]
            partition.verify()


# Several names


def hard(path: Path, other: Path) -> None:
    """Add a hard link to a file."""
    other.hardlink_to(path)


def symbolic(path: Path, other: Path) -> None:
    """Add a symbolic link to a file."""
    other.symlink_to(path)


def renamed(path: Path, other: Path) -> None:
    """Rename a file."""
    path.rename(other)


@pytest.mark.parametrize("link", [hard, symbolic, renamed])
def test_another_name_has_no_second_writer(path: Path, link: Callable[[Path, Path], None]) -> None:
    """While a process writes the file, its other name is refused; after closing, both names are complete."""
    other = path.with_name("other")
    with writer(path) as process:
        link(path, other)
        whose = f"process {process}" if link is symbolic else "another process"
        assert elsewhere(opened, other) == f"JournalHeldError {whose} has it open for writing"
        with pytest.raises(JournalHeldError):
            compact(other)
    if not path.exists():
        bring(path, other)
    expect_all(*{other, path} if path.exists() else {other})


def bring(path: Path, other: Path) -> None:
    """Rename the other files of a journal that was renamed while it was open."""
    for ending in ("-wal", "-acked"):
        if Path(f"{path}{ending}").exists():
            Path(f"{path}{ending}").rename(f"{other}{ending}")


@pytest.mark.parametrize("link", [hard, symbolic, renamed])
def test_another_name_in_the_same_process(path: Path, link: Callable[[Path, Path], None]) -> None:
    """Within one process, the error names this process."""
    other = path.with_name("other")
    with begin(path) as partition:
        fill(partition, "a", "b")
        link(path, other)
        with pytest.raises(JournalHeldError) as caught:
            open_partition(other)
        assert caught.value.holder == os.getpid()
        if link is not renamed:
            assert inspect(other).allocations == 2
            fill(partition, "c")
    if link is renamed:
        bring(path, other)
        with open_partition(other) as partition:
            fill(partition, "c")
    expect_all(other)


def test_every_name_in_turn(path: Path) -> None:
    """A journal that was written under one name can be continued under another."""
    others = [path.with_name(f"other{number}") for number in range(3)]
    begin(path).journal.close()
    for other in others:
        hard(path, other)
    for number, name in enumerate([*others, path, *others]):
        with open_partition(name) as partition:
            assert len(ids(partition)) == number
            fill(partition, f"a{number}")
            partition.journal.compact()
            fill(partition, f"b{number}")
            partition.release(f"b{number}")


@pytest.mark.parametrize("end", ["close", "kill"])
def test_reading_by_another_name(path: Path, end: Literal["close", "kill"]) -> None:
    """A reader that cannot find the last changes reports that, and not damage."""
    other = path.with_name("other")
    with writer(path, end):
        hard(path, other)
        for line in elsewhere(read, other):
            assert line.startswith(f"JournalError {ELSEWHERE}")
        assert elsewhere(read, path) == ["read"] * 3
    if end == "kill":
        assert elsewhere(opened, other).startswith(f"JournalError {ELSEWHERE}")
        with pytest.raises(JournalError, match=ELSEWHERE):
            compact(other)
    expect_all(*(path, other) if end == "kill" else (other, path))


def test_renamed_and_killed(path: Path) -> None:
    """A journal that was renamed and not closed is complete after its other files have been renamed."""
    other = path.with_name("other")
    with writer(path, "kill"):
        path.rename(other)
    assert elsewhere(opened, other).startswith(f"JournalError {ELSEWHERE}")
    with pytest.raises(JournalDamagedError, match=r"it is empty or missing"):
        open_partition(path)
    bring(path, other)
    expect_all(other)


def test_a_copy_without_the_wal(path: Path) -> None:
    """A copy of only the file of an open journal is refused, because it lacks the last changes."""
    with writer(path, "kill"):
        pass
    shutil.copy(path, path.with_name("copy"))

    assert elsewhere(opened, path.with_name("copy")).startswith(f"JournalError {ELSEWHERE}")
    expect_all(path)


def test_descriptors_are_names(path: Path) -> None:
    """A name below /proc leads to the file, or is refused if the file was deleted."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("this system has no /proc")
    with writer(path):
        pass
    with path.open("rb") as file:
        name = f"/proc/self/fd/{file.fileno()}"
        with open_partition(name) as partition:
            assert partition.journal.path == str(path)
            with pytest.raises(JournalHeldError):
                open_partition(path)
        path.unlink()
        with pytest.raises(JournalError, match=f"{name} leads to a file that does not have this name"):
            open_partition(name)


def test_paths(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths, paths with dots or double slashes, and paths through linked directories are the same."""
    monkeypatch.chdir(path.parent)
    (path.parent / "below").mkdir()
    (path.parent / "linked").symlink_to(path.parent)
    names = ["journal", "./journal", "below/../journal", f"/{path}", "linked/linked/journal"]
    with writer(path):
        for name in names:
            assert elsewhere(opened, name).startswith("JournalHeldError")
            assert elsewhere(read, name) == ["read"] * 3
    expect_all(*map(Path, names))


@contextmanager
def mounted(source: Path, target: Path, *options: str) -> Iterator[None]:
    """Mount a directory or a file at another path."""
    command = ["/bin/mount", "--bind", str(source), str(target)]
    if subprocess.run(command, capture_output=True, check=False).returncode:  # noqa: S603 - of this test
        pytest.skip("this user may not mount")
    try:
        if options:
            subprocess.run(["/bin/mount", "-o", f"remount,bind,{','.join(options)}", str(target)], check=True)  # noqa: S603 - as above
        yield
    finally:
        subprocess.run(["/bin/umount", str(target)], check=True)  # noqa: S603 - as above


def test_a_mounted_directory(tmp_path: Path) -> None:
    """A directory that is mounted twice has one journal."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    path, other = tmp_path / "one" / "journal", tmp_path / "two" / "journal"
    with mounted(tmp_path / "one", tmp_path / "two"):
        with writer(path) as process:
            assert elsewhere(opened, other) == f"JournalHeldError process {process} has it open for writing"
            assert elsewhere(read, other) == ["read"] * 3
        killed(path)
        assert elsewhere(opened, other) == "a b c d"
        with begin(path):
            with pytest.raises(JournalHeldError):
                open_partition(other)
            assert inspect(other).allocations == 4


def test_a_mounted_file(tmp_path: Path) -> None:
    """A file that is mounted under another name has one writer, and is read completely or refused."""
    path, other = tmp_path / "journal", tmp_path / "other"
    with writer(path):
        pass
    other.touch()
    with mounted(path, other):
        killed(other)
        assert elsewhere(opened, path).startswith(f"JournalError {ELSEWHERE}")
        for line in elsewhere(read, path):
            assert line.startswith(f"JournalError {ELSEWHERE}")
        with open_partition(other) as partition:
            assert ids(partition) == ["a", "b", "c", "d"]
            assert elsewhere(opened, path) == "JournalHeldError another process has it open for writing"
            with pytest.raises(JournalHeldError):
                open_partition(path)
        assert elsewhere(opened, path) == "a b c d"


def test_a_read_only_directory(tmp_path: Path) -> None:
    """A journal in a read-only directory can be read, closed or while another mount of it is written."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    path, other = tmp_path / "one" / "journal", tmp_path / "two" / "journal"
    with mounted(tmp_path / "one", tmp_path / "two", "ro"):
        with writer(path):
            assert elsewhere(read, other) == ["read"] * 3
        assert elsewhere(read, other) == ["read"] * 3
        assert elsewhere(opened, other).startswith("JournalError it cannot be written")
    expect_all(path)


# Names that change while the file is open


def removed(path: Path) -> None:
    """Delete a journal."""
    path.unlink()


def replaced(path: Path) -> None:
    """Replace the journal by another one."""
    begin(path.with_name("another")).journal.close()
    path.with_name("another").replace(path)


def moved(path: Path) -> None:
    """Move a journal away."""
    path.rename(path.with_name("moved"))


def without_log(path: Path) -> None:
    """Delete the WAL file."""
    Path(f"{path}-wal").unlink()


@pytest.mark.parametrize("how", [removed, replaced, moved, without_log])
@pytest.mark.parametrize("durability", ["each", "group"])
def test_a_journal_that_was_moved_or_deleted(path: Path, how: Callable[[Path], None], durability: str) -> None:
    """No change is acknowledged if it would be written to a file that has lost its name."""
    partition = begin(path, durability=durability)
    fill(partition, "a")
    how(path)
    with pytest.raises(JournalError, match=MOVED):
        fill(partition, "b")
    with pytest.raises(JournalError, match=MOVED):
        partition.release("a")
    if how is not without_log:
        works = (partition.journal.compact, lambda: partition.journal.backup(path.with_name("copy")))
        for work in (*works, lambda: partition.journal.usage("user")):
            with pytest.raises(JournalError, match=MOVED):
                work()
    with pytest.raises(JournalError, match=MOVED):
        partition.journal.close()


def test_moved_and_moved_back(path: Path) -> None:
    """Changes in doubt are written after the file has been moved back."""
    with begin(path) as partition:
        moved(path)
        with pytest.raises(JournalError, match=MOVED):
            fill(partition, "a")
        path.with_name("moved").rename(path)
        fill(partition, "a", "b", "c")
    expect_all(path)


def test_a_wal_of_another_journal(path: Path) -> None:
    """A journal or a copy is not created next to the WAL file of another journal."""
    with writer(path, "kill"):
        pass
    path.unlink()
    Path(f"{path}-acked").unlink()
    with pytest.raises(JournalError, match=r"it is empty or missing, but .*journal-wal has changes"):
        open_partition(path)
    with (
        begin(path.with_name("other")) as partition,
        pytest.raises(RequestError, match=r"there is .*journal-wal of another journal"),
    ):
        partition.journal.backup(path)
    assert not path.exists()


def test_an_old_wal(path: Path) -> None:
    """An old WAL whose content is in the file already is not read into a file that has changed since."""
    other, log = path.with_name("other"), Path(f"{path}-wal")
    with writer(path):
        pass
    with closing(connect(str(path))) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
        [session] = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {session}")
        left = log.read_bytes()
    log.write_bytes(left)
    expect_all(path)
    hard(path, other)
    killed(other)
    assert elsewhere(opened, other) == "a b c d"
    log.write_bytes(left)
    for line in [*elsewhere(read, path), elsewhere(opened, path)]:
        assert line == f"JournalError {log} is older than the file; move it away to use the file"
    log.unlink()
    assert elsewhere(opened, path) == "a b c d"


# The lock and this process


def test_reading_does_not_unlock(path: Path) -> None:
    """Reading the files of an open journal does not release its lock."""
    link = path.with_name("link")
    with begin(path) as partition:
        fill(partition, "a", "b")
        hard(path, link)
        shutil.copytree(path.parent, path.parent / "copies")
        inspect(path)
        usage(link, "user")
        for name in (path, link):
            assert elsewhere(opened, name).startswith("JournalHeldError")
        fill(partition, "c")
    expect_all(path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_the_lock_ends_with_its_process(path: Path) -> None:
    """A forked process neither ends the lock of its parent nor keeps it after the parent has died."""
    with forked(path) as (parent, _):
        hard(path, path.with_name("link"))
        for name in ("journal", "link"):
            assert elsewhere(opened, path.with_name(name)).startswith("JournalHeldError")
        os.kill(parent, signal.SIGKILL)
        for _ in range(100):
            found = elsewhere(opened, path)
            if not found.startswith("JournalHeldError"):
                break
            sleep(0.02)
        assert found == "a b c"


def test_a_race_to_create_a_journal(path: Path) -> None:
    """If several processes create the same journal at once, one is first, and no changes are lost."""
    (path.parent / "linked").symlink_to(path.parent)
    names = [path, path.parent / "linked" / "journal"] * 2
    with ThreadPoolExecutor(len(names)) as threads:
        outcomes = list(threads.map(lambda one: elsewhere(race, one[1], str(one[0])), enumerate(names)))

    assert set(outcomes) <= {"made", "held"}
    with open_partition(path) as partition:
        assert ids(partition) == [str(number) for number, outcome in enumerate(outcomes) if outcome == "made"]
        assert ids(partition)


# Names that are unusual, and files that are none


@pytest.mark.parametrize(
    "name",
    ["a?mode=rw", "a#b", "a%41", "a b", "a\nb", "\u00e9\u4e2d\U0001f600", "\udcff", "file:a", ":memory:", "-", "a'b\""],
)
def test_names(path: Path, name: str) -> None:
    """Any valid file name can be used."""
    path = path.with_name(name)
    with begin(path) as partition:
        fill(partition, "a")
        assert inspect(path).allocations == 1
        assert partition.journal.usage("user") is not None
        partition.journal.compact()
        partition.journal.backup(Path(f"{path}-copy"))
    with open_partition(path) as partition:
        assert ids(partition) == ["a"]
    assert {file.name for file in path.parent.iterdir()} == {
        f"{name}{ending}" for ending in ("", "-copy", "-lock", "-reserve", "-acked")
    }


def directory(path: Path) -> None:
    """Create a directory."""
    path.mkdir()


def device(path: Path) -> None:
    """Create a device, like /dev/full."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 7))
    except PermissionError:
        pytest.skip("this user may not make devices")


def listening(path: Path) -> None:
    """Create a socket."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (directory, "a directory"),
        (device, "a character device"),
        (os.mkfifo, "a named pipe"),
        (listening, "a socket"),
    ],
)
def test_no_regular_file(
    tmp_path: Path, make: Callable[[Path], None], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path that is not a regular file is refused at once, and not changed."""
    monkeypatch.chdir(tmp_path)  # The name of a socket is short.
    path = Path("it")
    make(path)
    before = path.stat()
    for use in (open_partition, inspect, compact, lambda path: list(export(path))):
        with pytest.raises(JournalError) as caught:
            use(path)
        assert caught.value.reason == f"it is {kind}; expected a regular file"
    assert path.stat() == before
    assert list(Path().iterdir()) == [path]


@pytest.mark.parametrize("path", [None, 3, b"bytes", "nul\0", "\ud800"])
def test_no_path(path: Wrong) -> None:
    """A value that is not a path raises a `RequestError`."""
    for use in (open_partition, inspect, compact):
        with pytest.raises(RequestError, match="expected the path of a file"):
            use(path)


def test_links_that_lead_nowhere(path: Path) -> None:
    """A circle of symbolic links is refused."""
    path.symlink_to(path)
    with pytest.raises(JournalError, match="it cannot be read: "):
        open_partition(path)


def test_a_sparse_file(path: Path) -> None:
    """A huge sparse file is refused at once."""
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(JournalError, match=r"file is not a database|no journal"):
        open_partition(path)
    assert path.stat().st_size == 2**40


def test_a_text_file(path: Path) -> None:
    """A file that SQLite did not write is refused as such, whatever its bytes are at the position of the open mark."""
    path.write_bytes(b"a" * 100)
    with pytest.raises(JournalError, match="file is not a database"):
        inspect(path)
    with pytest.raises(JournalError, match="file is not a database"):
        open_partition(path)
    assert path.read_bytes() == b"a" * 100


def test_an_sqlite_file(path: Path) -> None:
    """The database of another application is refused and not changed."""
    connection = connect(str(path))
    connection.execute("CREATE TABLE mine (a)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(JournalError, match="this is not a ugm journal"):
        open_partition(path)
    assert path.read_bytes() == before


def test_unusable_clocks(path: Path) -> None:
    """A clock with an unusable value is refused before the state has changed."""
    with begin(path) as partition:
        number = partition.journal.number
    for item in (2**63, 253_402_300_800):
        with open_partition(path, clock=partial(int, item)) as partition:
            with pytest.raises(RequestError, match="expected seconds since 1970"):
                partition.allocate("a", "app", memory(1))
            assert partition.journal.number == number
            assert ids(partition) == []
    with open_partition(path) as partition:
        fill(partition, "a")


def test_a_clock_that_jumps(path: Path) -> None:
    """Recorded time never goes back, and never starts before 1970."""
    now = [-5]
    with begin(path, clock=lambda: now[0] / 1000) as partition:
        for instant in (10**12, 5, 10**12 + 5, -(10**12)):
            now[0] = instant
            if not partition.release("a"):
                fill(partition, "a")
    instants = [row["at"] for row in export(path) if "events" in row]
    assert instants == [0, 0, 10**12, 10**12, 10**12 + 5, 10**12 + 5]
    assert usage(path, "user", clock=lambda: 10**10) == ()
