"""A compaction in the background gives what a compaction gives, while changes go on."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import pytest

from support.journal_fixtures import begin
from support.partition_fixtures import memory
from support.random_changes import CONFIGS, Actor, state_of
from ugm.errors import RequestError
from ugm.journal import JournalDamagedError, JournaledPartition, JournalError, inspect, open_partition, usage
from ugm.journal.compaction_process import CompactionProcess
from ugm.journal.follower import Follower


def tables(path: Path) -> list[str]:
    """Return the names of the tables of a file."""
    with closing(sqlite3.connect(path)) as connection:
        return sorted(name for [name] in connection.execute("SELECT name FROM sqlite_master"))


def changes(path: Path) -> int:
    """Return the number of changes in a file."""
    with closing(sqlite3.connect(path)) as connection:
        [count] = connection.execute("SELECT count(*) FROM changes").fetchone()
    return int(count)


def old_clock() -> int:
    """Return an instant long ago, so that changes are not kept for followers."""
    return 1000


def fill(partition: JournaledPartition, count: int) -> None:
    """Allocate nothing many times."""
    for number in range(count):
        partition.allocate(f"a-{number}", "app", memory(0))


def test_same_as_compaction(tmp_path: Path) -> None:
    """The state, the usage and the result are those of `compact`."""
    actor = Actor("background")
    with open_partition(tmp_path / "journal", CONFIGS[0]) as partition:
        for _ in range(60):
            actor.step(partition)
        partition.journal.backup(tmp_path / "copy")
        result = partition.journal.compact_in_background().result()
        state = state_of(partition)
    with open_partition(tmp_path / "copy") as copy:
        assert copy.journal.compact() == result

    now = 2**45
    for by in ("user", "group", "queue", "application"):
        compacted, copied = (usage(tmp_path / name, by, clock=lambda: now / 1000) for name in ("journal", "copy"))
        assert compacted == copied
    assert inspect(tmp_path / "journal") == inspect(tmp_path / "copy")
    with open_partition(tmp_path / "journal") as again:
        assert state_of(again) == state
    assert tables(tmp_path / "journal") == ["changes", "history", "snapshot", "version"]


def test_changes_go_on(tmp_path: Path) -> None:
    """Changes are committed during the compaction, and are neither lost nor compacted."""
    path = tmp_path / "journal"
    with begin(path, durability="group") as partition:
        fill(partition, 50)
        future = partition.journal.compact_in_background()
        made = 0
        while not future.done():
            partition.allocate(f"b-{made}", "app", memory(0))
            made += 1
    assert future.result().changes >= 52
    assert inspect(path).allocations == 50 + made


def test_leader_that_ends(tmp_path: Path) -> None:
    """If the leader ends, the process of its compaction ends without a report."""
    with begin(tmp_path / "journal") as partition:
        fill(partition, 10)
    pipe, code = subprocess.PIPE, "from ugm.journal.compaction_process import execute_task; execute_task()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe) as process:  # noqa: S603 - a function of this package
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        with process.stdin as task:
            task.write(json.dumps([str(tmp_path / "journal"), "", None]).encode())
        assert process.stderr.read() == b""
    assert process.returncode == -signal.SIGPIPE


@pytest.mark.ci
def test_second_compaction(tmp_path: Path) -> None:
    """One compaction runs at a time."""
    with begin(tmp_path / "journal") as partition:
        future = partition.journal.compact_in_background()
        with pytest.raises(RequestError, match="a compaction is in progress"):
            partition.journal.compact_in_background()
        assert future.result().changes == 2
        assert partition.journal.compact_in_background().result().changes == 0


def test_kept_for_followers(tmp_path: Path) -> None:
    """The latest changes stay in the file, so that a follower that is a little behind goes on."""
    path = tmp_path / "journal"
    with begin(path) as partition:
        follower = Follower(path)
        state = follower.state
        partition.allocate("a", "app", memory(1))
        partition.journal.compact_in_background().result()
        partition.allocate("b", "app", memory(1))
        assert changes(path) == 4
        assert follower.poll() == 2
        assert follower.state is state


@pytest.mark.ci
def test_old_changes(tmp_path: Path) -> None:
    """Old changes are deleted."""
    path = tmp_path / "journal"
    now = [1_000_000]
    with begin(path, clock=lambda: now[0] / 1000) as partition:
        fill(partition, 250)
        now[0] += 100_000
        partition.allocate("new", "app", memory(1))
        assert partition.journal.compact_in_background().result().changes == 253
        assert changes(path) == 1


def test_closed_meanwhile(tmp_path: Path) -> None:
    """Closing the journal ends the compaction; the next one removes its remains."""
    path = tmp_path / "journal"
    partition = begin(path)
    fill(partition, 20)
    future = partition.journal.compact_in_background()
    while "snapshot_new" not in tables(path):
        sleep(0.001)
    partition.journal.close()
    with pytest.raises(JournalError, match=r"it cannot be compacted|it has been closed"):
        future.result()
    assert inspect(path).number == 22
    with open_partition(path) as again:
        assert len(again.allocation_ids()) == 20
        again.journal.compact_in_background().result()
    assert tables(path) == ["changes", "history", "snapshot", "version"]
    assert inspect(path).allocations == 20


@pytest.mark.ci
def test_failed_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of the process are those of the compaction, and the journal has not changed."""
    path = tmp_path / "journal"
    with begin(path) as partition:
        fill(partition, 3)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE changes SET data = x'00' WHERE number = 4")
        with pytest.raises(JournalDamagedError, match="change 4 is damaged") as caught:
            partition.journal.compact_in_background().result()
        assert caught.value.readable == 3
        monkeypatch.setattr(subprocess, "Popen", lambda *_args, **_options: (_ for _ in ()).throw(OSError("no memory")))
        with pytest.raises(JournalError, match="no memory"):
            partition.journal.compact_in_background()


@pytest.mark.ci
def test_compacted_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot that was replaced meanwhile is not replaced by an older one."""
    path = tmp_path / "journal"
    messages = CompactionProcess.messages
    with begin(path) as partition:
        fill(partition, 3)

        def slow(process: CompactionProcess) -> object:
            received = list(messages(process))
            partition.journal.compact()
            return iter(received)

        monkeypatch.setattr(CompactionProcess, "messages", slow)
        with pytest.raises(JournalError, match="it was compacted meanwhile"):
            partition.journal.compact_in_background().result()
    assert inspect(path).compacted == 5


@pytest.mark.ci
def test_short_pauses(tmp_path: Path) -> None:
    """No commit waits for the compaction for long, although it writes many rows."""
    path = tmp_path / "journal"
    with begin(path, durability="group", clock=old_clock) as partition:
        threads = [Thread(target=fill, args=(partition, 300)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        future = partition.journal.compact_in_background()
        longest, number = 0.0, 0
        while not future.done():
            started = monotonic()
            partition.allocate(f"b-{number}", "app", memory(0))
            longest, number = max(longest, monotonic() - started), number + 1
    assert number > 0
    assert longest < 5
