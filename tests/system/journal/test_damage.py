"""A damaged journal is recovered exactly, or refused with the reason, and never misread."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from support.random_changes import CONFIGS, Actor, state_of
from ugm.journal import JournalDamagedError, JournalError, open_partition
from ugm.journal.store import connect

pytestmark = pytest.mark.ci


def write(folder: Path, *, compacted: bool, closed: bool) -> object:
    """Write a journal that was closed, or whose process has died, and return its state."""
    actor = Actor("damage")
    with open_partition(folder / "live", CONFIGS[0]) as partition:
        for number in range(120):
            actor.step(partition)
            if compacted and number == 60:
                partition.journal.compact()
        if not closed:
            copy(folder)
        state = state_of(partition)
    if closed:
        copy(folder)
    return state


def copy(folder: Path) -> None:
    """Copy the files on the disk."""
    (folder / "kept").mkdir()
    for name in ("live", "live-wal", "live-acked"):
        if (folder / name).exists():
            shutil.copy(folder / name, folder / "kept" / name)


def damage(random: Random, folder: Path) -> str:
    """Damage one of the files, and return a description."""
    path = random.choice(sorted(folder.iterdir()))
    data = bytearray(path.read_bytes())
    if random.random() < 0.3:
        size = random.choice([0, random.randrange(len(data)), len(data) - 1, len(data) // 4096 * 4096 - 4096])
        path.write_bytes(data[: max(0, size)])
        return f"{path.name} cut to {size} of {len(data)}"
    places = [random.randrange(len(data)) for _ in range(random.choice([1, 1, 2, 8]))]
    for place in places:
        data[place] ^= 1 << random.randrange(8)
    path.write_bytes(data)
    return f"{path.name} with other bits at {places}"


def attempts(folder: Path, number: int) -> tuple[int, int]:
    """Damage a journal repeatedly, and count how often it was recovered and how often it was refused."""
    events = []
    for kind in range(4):
        below = folder / str(kind)
        below.mkdir()
        state = write(below, compacted=bool(kind & 1), closed=bool(kind & 2))
        events += [outcome(below, f"{kind} {seed}", state) for seed in range(number // 4)]
    return events.count("recovered"), events.count("refused")


def outcome(folder: Path, seed: str, state: object) -> str:
    """Damage a journal and open it."""
    trial = folder / "trial"
    shutil.copytree(folder / "kept", trial)
    try:
        how = damage(Random(seed), trial)
        before = {path.name: path.read_bytes() for path in trial.iterdir()}
        try:
            with open_partition(trial / "live") as partition:
                assert state_of(partition) == state, how
        except JournalError:
            after = {path.name: path.read_bytes() for path in trial.iterdir() if path.name in before}
            assert after == before, f"the evidence has changed: {how}"
            return "refused"
        return "recovered"
    finally:
        shutil.rmtree(trial)


def test_damaged_somewhere(tmp_path: Path) -> None:
    """Flipped bits and truncated files are either harmless or refused."""
    recovered, refused = attempts(tmp_path, 80)

    assert recovered > 0
    assert refused > 20


@pytest.mark.deep
def test_damaged_everywhere(tmp_path: Path) -> None:
    """The same many times."""
    recovered, refused = attempts(tmp_path, 4000)

    assert recovered + refused == 4000


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    write(tmp_path, compacted=False, closed=True)
    return tmp_path / "live"


def message_of(path: Path) -> str:
    """Return the error of opening a journal, without the path."""
    with pytest.raises(JournalDamagedError) as caught:
        open_partition(path)
    return str(caught.value).removeprefix(f"journal {path}: ").replace(str(path), "PATH")


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("UPDATE changes SET data = x'00' WHERE number = 20", "change 20 is damaged"),
        ("UPDATE changes SET at = at + 1 WHERE number = 20", "change 20 is damaged"),
        ("DELETE FROM changes WHERE number = 20", "change 20 is missing"),
    ],
)
def test_a_change_is_damaged(path: Path, statement: str, text: str) -> None:
    """The error names the damaged change and the last readable one."""
    with closing(connect(str(path))) as connection:
        connection.execute(statement)

    assert message_of(path) == f"{text}; changes up to number 19 are readable"


def test_the_end_is_missing(path: Path) -> None:
    """A journal that ends before the last acknowledged change is refused."""
    with closing(connect(str(path))) as connection:
        [last] = connection.execute("SELECT max(number) FROM changes").fetchone()
        connection.execute("DELETE FROM changes WHERE number > ?", (last - 2,))

    assert message_of(path) == (
        f"it ends with change {last - 2}, but {last} were acknowledged; changes up to number {last - 2} are readable"
    )


def test_the_file_is_missing(path: Path) -> None:
    """A missing journal with an ack marker is not created again."""
    path.unlink()

    assert message_of(path).startswith("it is empty or missing, but ")


def test_the_ack_marker_is_damaged(path: Path) -> None:
    """A damaged ack marker is refused, because the end of the journal could be missing."""
    Path(f"{path}-acked").write_bytes(b"nothing")

    assert message_of(path) == "the ack marker PATH-acked is damaged; nothing is readable"


def test_no_journal(tmp_path: Path) -> None:
    """Another kind of file is refused and not changed."""
    (tmp_path / "text").write_text("no database " * 1000)

    with pytest.raises(JournalError, match="file is not a database"):
        open_partition(tmp_path / "text")
