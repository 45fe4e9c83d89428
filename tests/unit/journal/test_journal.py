"""A journaled partition: stored state, delivery of results, and errors."""

from __future__ import annotations

import asyncio
import errno
import os
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread
from typing import Literal, NoReturn, TypeAlias

import pytest

from support.journal_fixtures import LIMITED, at_most, begin, fill, limit_pages
from support.partition_fixtures import Waiting, config, memory
from support.places import environment
from support.random_changes import CONFIGS, Actor, state_of
from support.tracking_fixtures import Wrong
from ugm import AllocationRequest, Partition, RequestError, Resource
from ugm.events import Allocated, Event
from ugm.journal import (
    JournalDamagedError,
    JournaledPartition,
    JournalError,
    JournalHeldError,
    inspect,
    open_partition,
)
from ugm.journal.ack_marker import AckMarker
from ugm.journal.disk_reserve import DiskReserve
from ugm.journal.file_writer import change_row
from ugm.journal.store import row_checksum
from ugm.journal.store_reader import StoreReader

Durability: TypeAlias = Literal["each", "group"]


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


# What is kept


@pytest.mark.parametrize("durability", ["each", "group"])
def test_everything_is_kept(path: Path, durability: Durability) -> None:
    """A reopened partition equals the closed one, and behaves like one that was never closed."""
    plain, actor, same = Partition(CONFIGS[0]), Actor(1), Actor(1)
    for _ in range(4):
        with open_partition(path, None if path.exists() else CONFIGS[0], durability=durability) as partition:
            for _ in range(50):
                actor.step(partition)
                same.step(plain)
            assert state_of(partition) == state_of(plain)


def test_compacting_changes_nothing(path: Path) -> None:
    """A compaction replaces the changes by the state, and later changes are added."""
    plain, actor, same = Partition(CONFIGS[0]), Actor(2), Actor(2)
    for _ in range(4):
        with open_partition(path, None if path.exists() else CONFIGS[0]) as partition:
            for _ in range(50):
                actor.step(partition)
                same.step(plain)
            done = partition.journal.compact()
            assert done.changes > 20
            assert partition.journal.compact().changes == 0
            assert state_of(partition) == state_of(plain)


def test_a_gang_is_one_change(path: Path) -> None:
    """Allocations that were granted together are restored together or not at all."""
    with begin(path) as partition:
        before = partition.journal.number
        partition.allocate_all([AllocationRequest("a", "app", memory(1)), AllocationRequest("b", "app", memory(2))])

        assert partition.journal.number == before + 1


def test_calls_without_a_change_write_nothing(path: Path) -> None:
    """Denials, repeated calls and queries write nothing."""
    with begin(path) as partition:
        partition.allocate("a", "app", memory(1))
        before = partition.journal.number
        assert not partition.allocate("b", "app", memory(10))
        assert partition.allocate("a", "app", memory(1))
        partition.check("app", memory(1))

        assert partition.journal.number == before


def test_the_configuration_is_kept(path: Path) -> None:
    """Without another configuration, the last one is in force again, and compares equal."""
    with begin(path) as partition:
        before = partition.journal.number
    with open_partition(path) as partition:
        assert not partition.plan(LIMITED).changes
    with open_partition(path, LIMITED) as partition:
        assert partition.journal.number == before
        assert not partition.allocate("a", "app", memory(11))
        partition.configure(config("{name: a}"))
    with open_partition(path) as partition:
        assert partition.allocate("a", "app", memory(11))


def test_another_configuration(path: Path) -> None:
    """A configuration that differs from the one in the journal is applied as a change."""
    begin(path).journal.close()
    with open_partition(path, config("{name: a}")) as partition:
        assert partition.allocate("a", "app", memory(11))


def test_the_cluster(path: Path) -> None:
    """The argument ``cluster`` registers one node, or updates it."""
    for amount in (5, 5, 3):
        with open_partition(path, cluster=memory(amount)) as partition:
            assert partition.nodes() == {"cluster": memory(amount)}


def test_other_models_are_charged_again(path: Path) -> None:
    """Other quota models are charged with held allocations, and informed of pending ones, with equal claims."""
    model, again = Waiting(), Waiting()
    with begin(path, models=[model]) as partition:
        partition.allocate("a", "app", Resource(licence=2))
        partition.request("b", "app", Resource(licence=3))
    with open_partition(path, models=[again]) as partition:
        assert again.state() == model.state()
        partition.release("a")


def test_subscribers(path: Path) -> None:
    """Subscribers receive durable events, and no replayed ones."""
    events_found: list[Event] = []
    with begin(path) as partition:
        partition.allocate("a", "app", memory(1))
    with open_partition(path, subscribers=[lambda _, events: events_found.extend(events)]) as partition:
        partition.allocate("b", "app", memory(1))
        partition.promise(partition.allocate, "c", "app", memory(1)).result()

    assert [event.allocation.allocation_id for event in events_found if isinstance(event, Allocated)] == ["b", "c"]


# Answers


def test_promises(path: Path) -> None:
    """A deferred result is delivered when its change is durable; denials and errors are delivered as well."""
    with begin(path, durability="group") as partition:
        promises = [partition.promise(partition.allocate, f"a{i}", "app", memory(1)) for i in range(12)]
        answers = [bool(promise.result()) for promise in promises]
        error = partition.promise(partition.allocate, "a", "nobody", memory(1)).exception()

    assert answers == [True] * 10 + [False] * 2
    assert isinstance(error, RequestError)
    with open_partition(path) as again:
        assert len(again.allocations()) == 10


def test_awaiting(path: Path) -> None:
    """Tasks that await their changes share commits."""

    async def work() -> list[bool]:
        calls = (partition.awaited(partition.allocate, f"a{i}", "app", memory(1)) for i in range(12))
        return [bool(decision) for decision in await asyncio.gather(*calls)]

    with begin(path, durability="group") as partition:
        assert asyncio.run(work()) == [True] * 10 + [False] * 2


def test_threads_share_commits(path: Path) -> None:
    """Many threads change a partition, and each change is durable when its call returns."""

    def work(part: int) -> None:
        for number in range(20):
            partition.allocate(f"{part}-{number}", "app", Resource())
            partition.release(f"{part}-{number - 1}")

    with begin(path, durability="group") as partition:
        threads = [Thread(target=work, args=(part,)) for part in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        state = state_of(partition)
    with open_partition(path) as again:
        assert state_of(again) == state
        assert len(again.allocations()) == 8


@pytest.mark.parametrize("durability", ["each", "group"])
def test_closed(path: Path, durability: Durability) -> None:
    """After its journal was closed, a partition can be read, and refuses changes."""
    partition = begin(path, durability=durability)
    partition.journal.close()
    partition.journal.close()
    with pytest.raises(JournalError) as caught:
        partition.allocate("a", "app", memory(1))

    assert str(caught.value) == f"journal {path}: it has been closed"
    assert partition.journal.is_closed
    assert partition.application("app") is not None


def test_a_change_in_a_callback(path: Path) -> None:
    """A change that is made in a callback is acknowledged."""
    answers: Future[bool] = Future()
    with begin(path, durability="group") as partition:
        promise = partition.promise(partition.allocate, "a", "app", memory(1))
        promise.add_done_callback(lambda _: answers.set_result(partition.release("a")))
        assert answers.result(timeout=60)
    with open_partition(path) as again:
        assert again.allocations() == ()


def test_an_ack_marker_that_cannot_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that reached the disk without being acknowledged is written again."""
    with begin(path) as partition:
        monkeypatch.setattr(AckMarker, "write", lambda *_: open_nothing())
        with pytest.raises(JournalError, match="no disk"):
            partition.allocate("a", "app", memory(1))
        monkeypatch.undo()
        assert partition.allocate("a", "app", memory(1))
        state = state_of(partition)
    with open_partition(path) as again:
        assert state_of(again) == state


def open_nothing() -> None:
    """Raise the error of a failing disk."""
    raise OSError("no disk")


# Misuse, and other processes


def test_two_writers(path: Path) -> None:
    """The error of a second writer names the process that has the journal."""
    with begin(path), pytest.raises(JournalHeldError) as caught:
        open_partition(path)

    assert str(caught.value) == f"journal {path}: process {os.getpid()} has it open for writing"
    open_partition(path).journal.close()


def test_two_names(path: Path) -> None:
    """A file is one journal under all its links."""
    link = path.with_name("link")
    link.symlink_to(path)
    with begin(path) as partition:
        with pytest.raises(JournalHeldError):
            open_partition(link)
        assert inspect(link).applications == len(partition.applications())
    with open_partition(link) as partition:
        assert partition.journal.path == str(path)


def test_two_processes(path: Path) -> None:
    """The same holds between processes."""
    program = f"from ugm.journal import open_partition; open_partition({str(path)!r})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with begin(path):
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False
        )

    assert done.stderr.strip().endswith(f"process {os.getpid()} has it open for writing")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"durability": "none"}, "durability 'none': expected 'each' or 'group'"),
        ({"group_limits": "never"}, "group_limits 'never': expected 'always' or 'unless-user-limited'"),
        (
            {"clock": lambda: float("inf"), "cluster": memory(1)},
            "clock inf: expected seconds since 1970, before the year 10000",
        ),
    ],
)
def test_misuse(path: Path, options: Wrong, text: str) -> None:
    """Invalid arguments are refused, and the journal is released."""
    with pytest.raises(RequestError) as caught:
        open_partition(path, **options)

    assert str(caught.value) == text
    open_partition(path).journal.close()


@pytest.mark.parametrize(
    "error",
    [JournalError("p", "r"), JournalDamagedError("p", "r", 3), JournalHeldError("p", 5), JournalHeldError("p", None)],
)
def test_errors_are_pickled(error: JournalError) -> None:
    """Every error can be pickled with its data and its text."""
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own

    assert (type(again), again.args, str(again)) == (type(error), error.args, str(error))


# A disk that takes no more


@pytest.mark.parametrize("durability", ["each", "group"])
def test_a_change_in_doubt(path: Path, durability: Durability) -> None:
    """A change that cannot be written raises an error; until it is written, all further changes are refused."""
    with begin(path, durability=durability) as partition:
        with at_most(2, partition):
            acknowledged = fill(partition)
            assert acknowledged > 0
            with pytest.raises(JournalError, match="uncertain whether the change was stored; repeat the call later"):
                partition.release("fill-0")
            assert partition.allocation("fill-0") is not None
        assert partition.allocate(f"fill-{acknowledged}", "app", Resource())
        assert partition.release("fill-0")
        state = state_of(partition)
    with open_partition(path) as again:
        assert state_of(again) == state


def test_a_change_in_doubt_may_be_lost(path: Path) -> None:
    """A process that ends while a change is in doubt loses that change, but no acknowledged one."""
    partition = begin(path)
    with at_most(2, partition):
        acknowledged = fill(partition)
        with pytest.raises(JournalError, match="it cannot be written"):
            partition.journal.close()
    with open_partition(path) as again:
        assert len(again.allocations()) == acknowledged


def test_deferred_results_in_doubt(path: Path) -> None:
    """A deferred result whose change cannot be written is the error."""
    with begin(path, durability="group") as partition:
        with at_most(3, partition):
            promises = [partition.promise(partition.allocate, f"a{i}", "app", Resource()) for i in range(2000)]
            errors = [promise.exception() for promise in promises]
        assert JournalError in {type(error) for error in errors}
        kept = [f"a{i}" for i, error in enumerate(errors) if error is None]
        partition.journal.compact()
    with open_partition(path) as again:
        assert {allocation.allocation_id for allocation in again.allocations()} >= set(kept)


def test_subscribers_and_changes_in_doubt(path: Path) -> None:
    """Subscribers receive the events of a change in doubt after it was written."""
    events_found: list[Event] = []
    with begin(path, subscribers=[lambda _, events: events_found.extend(events)]) as partition:
        with at_most(2, partition):
            acknowledged = fill(partition)
        partition.release("nothing")
        partition.allocate("last", "app", Resource())

    assert sum(isinstance(event, Allocated) for event in events_found) == acknowledged + 2


@pytest.fixture(name="small_disk")
def _small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["/bin/mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:  # noqa: S603 - of this test
        pytest.skip("this user may not mount a file system")
    yield folder
    subprocess.run(["/bin/umount", str(folder)], check=True)  # noqa: S603 - as above


def test_a_full_disk(small_disk: Path) -> None:
    """On a full disk allocations are refused before the state has changed, and releases are written."""
    path, ballast = small_disk / "journal", small_disk / "ballast"
    with begin(path) as partition:
        partition.allocate("first", "app", Resource())
        with ballast.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(4096)):
                pass
        acknowledged = fill(partition)
        expect_refusal_of_growth(partition)
        assert partition.release("first")
        ballast.unlink()
        assert partition.allocate("more", "app", Resource())
    with open_partition(path) as again:
        assert len(again.allocations()) == acknowledged + 1


def test_releases_on_a_full_disk(small_disk: Path) -> None:
    """The reserve is enough for thousands of releases, each in its own commit."""
    path = small_disk / "journal"
    with begin(path) as partition:
        partition.allocate_all([AllocationRequest(f"a{i}", "app", Resource()) for i in range(3000)])
        with (small_disk / "ballast").open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(4096)):
                pass
        fill(partition)
        assert all(partition.release(f"a{i}") for i in range(3000))
    with open_partition(path) as again:
        assert not [allocation for allocation in again.allocations() if allocation.allocation_id.startswith("a")]


def expect_refusal_of_growth(partition: JournaledPartition) -> None:
    """Expect that an allocation is refused because the disk is full, and that the state does not change."""
    before = state_of(partition)
    with pytest.raises(JournalError) as caught:
        partition.allocate("more", "app", Resource())
    assert state_of(partition) == before
    assert caught.value.reason == "the disk is full; only releases are accepted"


def test_the_reserve(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reserve is released for a failed commit, and restored before an allocation is accepted."""
    with begin(path) as partition:
        full, spend = OSError("full"), DiskReserve.release
        monkeypatch.setattr(DiskReserve, "release", lambda reserve: spend(reserve) and limit_pages(partition, 50))
        monkeypatch.setattr(DiskReserve, "fill", lambda _: (_ for _ in ()).throw(full))
        limit_pages(partition, 1)
        assert fill(partition) > 0
        assert not Path(f"{path}-reserve").exists()
        expect_refusal_of_growth(partition)
        assert partition.release("fill-0")
        monkeypatch.undo()
        assert partition.allocate("more", "app", Resource())
        assert Path(f"{path}-reserve").stat().st_size == 5 * 2**18


def test_files_of_limited_size(path: Path) -> None:
    """A limit on file sizes is reported as it is, and acknowledged changes are kept."""
    program = """
import resource, sys
from ugm import Resource
from ugm.journal import JournalError, open_partition
from support.journal_fixtures import begin, fill
partition = begin(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (2**17, 2**17))
print(fill(partition))
"""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, env=environment(), check=True
    )
    with open_partition(path) as again:
        assert len(again.allocations()) - int(done.stdout) in (0, 1)


def test_a_file_that_cannot_be_written(path: Path) -> None:
    """A read-only journal is not opened."""
    begin(path).journal.close()
    with pytest.raises(JournalError) as caught:
        refuse_writing(path)

    assert caught.value.reason == "it cannot be written: the file is read-only"


def refuse_writing(path: Path) -> None:
    """Open a journal that the system reports as read-only for every user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        open_partition(path)


def test_a_missing_directory(tmp_path: Path) -> None:
    """A journal is not created in a missing directory."""
    with pytest.raises(JournalError, match="it cannot be written: unable to open database file"):
        open_partition(tmp_path / "nowhere" / "journal")


# Copies, and older versions


def test_backup(path: Path) -> None:
    """A backup of a partition in use has all changes that were acknowledged before."""
    copy = Path(f"{path}-copy")
    with begin(path, durability="group") as partition:
        partition.allocate("a", "app", memory(1))
        partition.journal.backup(copy)
        state = state_of(partition)
        partition.allocate("b", "app", memory(1))
        with pytest.raises(RequestError, match="the file already exists"):
            partition.journal.backup(copy)
    with open_partition(copy) as again:
        assert state_of(again) == state


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("full")])
def test_an_interrupted_backup(path: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves no file, so that it can be repeated."""
    copy = Path(f"{path}-copy")
    with begin(path) as partition:
        before = set(path.parent.iterdir())

        def fail(_self: StoreReader, target: Path) -> NoReturn:
            target.write_text("half")
            Path(f"{target}-journal").write_text("half")
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(StoreReader, "copy_to", fail)
            with pytest.raises(JournalError if isinstance(error, OSError) else KeyboardInterrupt):
                partition.journal.backup(copy)
        assert set(path.parent.iterdir()) == before
        partition.journal.backup(copy)
        assert set(path.parent.iterdir()) == before | {copy}
    assert inspect(copy) == inspect(path)


def test_a_backup_replaces_no_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that another process creates under the name of the copy remains."""
    copy, copy_to = Path(f"{path}-copy"), StoreReader.copy_to

    def compete(reader: StoreReader, target: Path) -> None:
        copy_to(reader, target)
        copy.write_text("other")

    monkeypatch.setattr(StoreReader, "copy_to", compete)
    with begin(path) as partition, pytest.raises(JournalError, match="the copy cannot be written"):
        partition.journal.backup(copy)

    assert copy.read_text() == "other"


def test_a_backup_without_hard_links(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without hard links has backups, too."""

    def fail(*_paths: Path) -> NoReturn:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", fail)
    with begin(path) as partition:
        partition.journal.backup(Path(f"{path}-copy"))

    assert inspect(Path(f"{path}-copy")) == inspect(path)


def test_an_older_version(path: Path) -> None:
    """A journal of version 1, with whole seconds and without a history, is migrated."""
    with begin(path, clock=lambda: 5) as partition:
        partition.allocate("a", "app", memory(3))
        state = state_of(partition)
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        changes = old.execute("SELECT number, at / 1000, data FROM changes").fetchall()
        rows = [change_row(*change) for change in changes]
        old.execute("DROP TABLE history")
        old.executemany("REPLACE INTO changes VALUES (?, ?, ?, ?)", rows)
        old.execute("UPDATE version SET version = 1, sum = ?", (row_checksum(1, b"version"),))
    with open_partition(path, clock=lambda: 7) as partition:
        assert state_of(partition) == state
        assert partition.journal.usage("user")[0].amounts == {"memory": 6000}
        assert partition.journal.compact().changes == 3


def test_a_newer_version(path: Path) -> None:
    """A journal of an unknown version is refused and not changed."""
    begin(path).journal.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as new:
        new.execute("UPDATE version SET version = 3, sum = ?", (row_checksum(3, b"version"),))
    with pytest.raises(JournalError) as caught:
        open_partition(path)

    assert caught.value.reason == "its format version 3 is newer than the supported version 2"
