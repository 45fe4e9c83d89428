"""Exceptions from outside while a journal is opened or closed: it can be opened again, at once and in the same process.

CPython drops what is raised in a finalizer, so finalizers are not interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from support.examples import graded
from support.garbage import collect_garbage
from support.interruption_points import Interruption, is_last, points_in
from support.locks import is_locked
from support.partition_fixtures import SUE, config, memory, shown
from ugm.journal import JournaledPartition, JournalHeldError, file_use, inspect, open_partition
from ugm.journal.follower import Follower
from ugm.journal.writer_lock import WriterLock
from ugm.partition.self_check import verify

_CONFIG: Final = config("{name: a, resources: {max: {memory: 4}}}")

Durability = Literal["each", "group"]


class Files:
    """Journals with the same contents, each of which is opened or closed once.

    Args:
        folder: where they are.
        durability: how they are opened.
        opens: whether they are opened, and otherwise closed.
    """

    def __init__(self, folder: Path, durability: Durability, *, opens: bool) -> None:
        self._paths: Iterator[Path] = (folder / str(number) for number in count())
        self._durability: Durability = durability
        self._opens = opens
        template = next(self._paths)
        with open_partition(template, _CONFIG) as partition:
            partition.submit("app", SUE, "root.a")
            assert partition.allocate("one", "app", memory(1))
            self.state: Final = shown(partition)
        self._contents: Final = template.read_bytes()

    @contextmanager
    def prepared(self) -> Iterator[Callable[[], object]]:
        """Yield a call that opens or closes a journal."""
        self.path = next(self._paths)
        self.path.write_bytes(self._contents)
        self.partition = None if self._opens else self._open()
        yield self._call
        if self.partition is not None:
            self.partition.journal.close()

    def _call(self) -> None:
        if self.partition is None:
            self.partition = self._open()
        else:
            self.partition.journal.close()

    def _open(self) -> JournaledPartition:
        return open_partition(self.path, durability=self._durability)

    def require_free(self) -> None:
        """Open the journal again, and compare its contents."""
        if not self._opens:
            # The second call continues the first one.
            assert self.partition is not None
            self.partition.journal.close()
        self.partition = None
        assert not is_locked(file_use._GUARD)
        with open_partition(self.path) as again:
            again.verify()
            assert shown(again) == self.state
            assert again.release("one")


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(
    ("durability", "opens", "distance"),
    graded(
        [("each", True), ("each", False)],
        29,
        [(durability, opens) for durability in ("each", "group") for opens in (True, False)],
        5,
    ),
)
def test_interrupted(quick_folder: Path, *, durability: Durability, opens: bool, distance: int) -> None:
    """A journal that nobody uses is not held."""
    files = Files(quick_folder, durability, opens=opens)
    points = [point for point in points_in(files.prepared) if "journal" in point.code.co_filename]
    chosen = [
        point for point in points[::distance] if point.code.co_name != "__del__" and not is_last(point, open_partition)
    ]
    for point in chosen:
        interruption = Interruption(point)
        with files.prepared() as call:
            interruption.run(call)
            assert interruption.has_raised, point
            # CPython drops what is raised while a generator is made.
            if interruption.has_arrived:
                files.require_free()
    collect_garbage()
    assert not file_use._FILES
    assert len(chosen) > 20


def test_use_that_is_dropped_while_another_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A use whose finalizer runs in the middle of a change of the known files ends, too."""
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.touch()
    uses = [file_use.FileUse(str(path), write=True) for path in paths]
    end = file_use._end_use

    def end_and_drop(identity: file_use.FileIdentity, use: int) -> None:
        end(identity, use)
        uses.clear()

    monkeypatch.setattr(file_use, "_end_use", end_and_drop)
    with file_use._GUARD:
        uses.pop()
        file_use._end_abandoned()
    assert not file_use._FILES


def test_lock_that_is_dropped_while_its_file_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new use of the file keeps it, although the finalizer of the last one runs before the new one is known."""
    path = tmp_path / "journal"
    path.touch()
    locks = [WriterLock.acquire(str(path))]
    opened = file_use._opened

    def open_and_drop(*args: Any, **options: Any) -> object:  # noqa: ANN401 - as they are
        found = opened(*args, **options)
        locks.clear()
        return found

    monkeypatch.setattr(file_use, "_opened", open_and_drop)
    use = file_use.FileUse(str(path), write=True)
    monkeypatch.undo()
    assert use.open_mark == 0
    use.lock()
    with pytest.raises(JournalHeldError):
        WriterLock.acquire(str(path))
    use.close()
    WriterLock.acquire(str(path)).release()
    assert not file_use._FILES


def test_interrupted_reading(tmp_path: Path) -> None:
    """A file can be read again, and keeps few descriptors."""
    path = tmp_path / "journal"
    with open_partition(path, _CONFIG) as partition:
        partition.submit("app", SUE, "root.a")
        expected = partition.journal.number

    @contextmanager
    def reading() -> Iterator[Callable[[], object]]:
        yield lambda: inspect(path)

    def descriptors() -> int:
        return len(list(Path("/dev/fd").iterdir()))

    before = descriptors()
    points = [point for point in points_in(reading) if "file_use" in point.code.co_filename]
    for point in points:
        Interruption(point).run(lambda: inspect(path))
        assert inspect(path).number == expected, point
    collect_garbage()
    assert not file_use._FILES
    # What the system has opened stays open if the exception arrives within the next few instructions.
    assert descriptors() <= before + 10
    assert len(points) > 100


def _contents(follower: Follower) -> object:
    state = follower.state
    return sorted(state.ledger.owners), state.tree.queues["root.a"].usage(), sorted(state.applications)


@pytest.mark.parametrize("distance", [41, pytest.param(5, marks=pytest.mark.ci)])
def test_interrupted_follower(distance: int, quick_folder: Path) -> None:
    """A follower applies every change once."""
    path = quick_folder / "followed"
    with open_partition(path, _CONFIG) as partition:
        partition.submit("app", SUE, "root.a")
    before = path.read_bytes()
    with open_partition(path) as partition:
        assert partition.allocate("one", "app", memory(1))
        assert partition.allocate("two", "app", memory(2))
        partition.request("three", "app", memory(9))
        partition.release("one")
        last = partition.journal.number
    after = path.read_bytes()
    follower = Follower(path)
    expected = _contents(follower)
    follower.close()
    copies = (quick_folder / f"copy-{number}" for number in count())

    @contextmanager
    def following() -> Iterator[Callable[[], object]]:
        nonlocal follower
        copy = next(copies)
        copy.write_bytes(before)
        follower = Follower(copy)
        copy.write_bytes(after)
        yield lambda: follower.poll(acknowledged=False)
        follower.close()

    points = points_in(following)[::distance]
    for point in points:
        interruption = Interruption(point)
        with following() as poll:
            interruption.run(poll)
            while follower.poll(acknowledged=False):
                pass
        verify(follower.state)
        assert (_contents(follower), follower.number) == (expected, last), point
    assert len(points) > 50
