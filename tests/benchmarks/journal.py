"""Durable decisions per second, reopening and bytes, each compared with SQLite for the same bytes.

Usage: python tests/benchmarks/journal.py [FOLDER] [--live NUMBER]

FOLDER is where the journals are written (a temporary one by default), on the disk to measure. Prints one JSON object:

- `each`: allocations a second, one commit for each; `bare_each` inserts the same rows one by one with the same
  settings of SQLite (a log that is synced with every commit);
- `group_futures`: allocations a second by one thread that collects promises; `group_threads` by 32 threads that each
  wait for their own; `group_tasks` by 1,000 tasks of asyncio;
- `bare_unsynced`: the same rows one by one, without waiting for the disk; `bare_batches` synced, 256 to a commit;
- the ratios of these, bytes of the file per change, and seconds to reopen `live` allocations from the changes, and from
  a compacted file.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter, process_time
from typing import Final, Literal, TypeAlias

from ugm import Decision, Resource, UserGroup, parse_config
from ugm.journal import JournaledPartition, open_partition

Durability: TypeAlias = Literal["each", "group"]

SIZE: Final = Resource(vcore=100, memory=1 << 20)
CONFIG: Final = parse_config("""
partitions:
- name: default
  queues:
  - name: root
    queues:
    - name: prod
      resources: {max: {vcore: 1000000000, memory: 1Ei}}
      queues: [{name: batch, limits: [{limit: all, users: ["*"], maxresources: {memory: 1Ei}}]}]
""").partition()
APPLICATIONS: Final = 1000
CHANGES: Final = 20_000
#: Where every change waits for the disk by itself.
FEW: Final = 2_000
#: How many promises are open at a time.
OPEN: Final = 4_000
RUNS: Final = 3


def opened(path: Path, durability: Durability) -> JournaledPartition:
    """Return a partition with applications that hold nothing."""
    partition = open_partition(path, CONFIG, durability=durability)
    for number in range(APPLICATIONS):
        partition.promise(
            partition.submit, f"app-{number}", UserGroup(f"user-{number % 100}"), "root.prod.batch"
        ).result()
    return partition


def asks(count: int) -> Iterator[tuple[str, str, Resource]]:
    """Yield what is allocated."""
    for number in range(count):
        yield f"allocation-{number}", f"app-{number % APPLICATIONS}", SIZE


def each(partition: JournaledPartition, count: int) -> None:
    """Allocate and wait, one by one."""
    for ask in asks(count):
        partition.allocate(*ask)


def futures(partition: JournaledPartition, count: int) -> None:
    """Allocate without waiting, at most so many at a time."""
    waiting: list[Future[Decision]] = []
    for ask in asks(count):
        waiting.append(partition.promise(partition.allocate, *ask))
        if len(waiting) == OPEN:
            for future in waiting:
                future.result()
            waiting.clear()
    for future in waiting:
        future.result()


def threads(partition: JournaledPartition, count: int) -> None:
    """Allocate and wait, in 32 threads."""
    todo = list(asks(count))

    def work(part: int) -> None:
        for ask in todo[part::32]:
            partition.allocate(*ask)

    working = [Thread(target=work, args=(part,)) for part in range(32)]
    for thread in working:
        thread.start()
    for thread in working:
        thread.join()


def tasks(partition: JournaledPartition, count: int) -> None:
    """Allocate and await, in 1,000 tasks."""
    todo = list(asks(count))

    async def work(part: int) -> None:
        for ask in todo[part::1000]:
            await partition.awaited(partition.allocate, *ask)

    async def everything() -> None:
        await asyncio.gather(*(work(part) for part in range(1000)))

    asyncio.run(everything())


WAYS: Final[tuple[tuple[str, Durability, Callable[[JournaledPartition, int], None]], ...]] = (
    ("each", "each", each),
    ("group_futures", "group", futures),
    ("group_threads", "group", threads),
    ("group_tasks", "group", tasks),
)
BARE: Final = (
    ("bare_each", "FULL", 1, FEW),
    ("bare_unsynced", "NORMAL", 1, CHANGES),
    ("bare_batches", "FULL", 256, CHANGES),
)


def rate(folder: Path, name: str, durability: Durability, work: Callable[[JournaledPartition, int], None]) -> float:
    """Return changes a second."""
    count = FEW if durability == "each" else CHANGES
    with opened(folder / name, durability=durability) as partition:
        start = perf_counter()
        work(partition, count)
        return count / (perf_counter() - start)


def bare(path: Path, rows: list[tuple[int, int, bytes, int]], synchronous: str, together: int) -> float:
    """Return inserts a second of the same rows into the same table."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("CREATE TABLE changes (number INTEGER PRIMARY KEY, at INTEGER, data BLOB, sum INTEGER)")
        start = perf_counter()
        for first in range(0, len(rows), together):
            batch = rows[first : first + together]
            if together == 1:
                connection.execute("INSERT INTO changes VALUES (?, ?, ?, ?)", batch[0])
            else:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("INSERT INTO changes VALUES (?, ?, ?, ?)", batch)
                connection.execute("COMMIT")
        return len(rows) / (perf_counter() - start)


def reopening(folder: Path, live: int) -> dict[str, float]:
    """Return how long it takes to open a journal with so many allocations, and how large it is."""
    path = folder / "live"
    with opened(path, durability="group") as partition:
        before = path.stat().st_size
        futures(partition, live)
    result = {"live": live, "bytes_per_allocation": (path.stat().st_size - before) / live}
    for name in ("from_changes", "from_snapshot"):
        start, began = perf_counter(), process_time()
        with open_partition(path) as partition:
            result[f"reopen_{name}_seconds"] = perf_counter() - start
            result[f"reopen_{name}_processor_seconds"] = process_time() - began
            if name == "from_changes":
                start = perf_counter()
                partition.journal.compact()
                result["compact_seconds"] = perf_counter() - start
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--live", type=int, default=1_000_000)
    given = parser.parse_args()
    found: dict[str, list[float]] = {}
    with TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        for run in range(RUNS):
            for kind, durability, work in WAYS:
                found.setdefault(kind, []).append(rate(folder, f"{kind}-{run}", durability, work))
            with closing(sqlite3.connect(folder / f"group_futures-{run}")) as connection:
                rows = connection.execute("SELECT * FROM changes ORDER BY number").fetchall()[-CHANGES:]
            for kind, synchronous, together, count in BARE:
                found.setdefault(kind, []).append(bare(folder / "bare", rows[:count], synchronous, together))
        result: dict[str, float] = {kind: round(median(rates)) for kind, rates in found.items()}
        result |= {
            "bytes_of_data_per_change": sum(len(row[2]) for row in rows) / len(rows),
            "each_to_bare_each": result["each"] / result["bare_each"],
            "group_futures_to_bare_unsynced": result["group_futures"] / result["bare_unsynced"],
        }
        result |= reopening(folder, given.live)
    print(json.dumps({name: round(value, 3) for name, value in result.items()}, indent=2))  # noqa: T201 - the outcome


if __name__ == "__main__":
    main()
