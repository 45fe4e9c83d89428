"""Durable appends per second of a store, and the time to open a partition with a store.

Usage: python tests/benchmarks/store.py [FOLDER] [--live NUMBER]

FOLDER is where the files are written (a temporary one by default), on the disk to measure. Prints one JSON object:

- `file_8`, `file_40`, `postgres_8`, `postgres_40`: allocations a second by 8 or 40 threads, each of which waits for its
  own; runs alternate;
- `open_seconds`: to open a partition with `live` allocations and 4,000 changes that are not folded, as after a kill;
  `load_seconds`: to read its rows and changes; `rows_seconds`: to read the tables of rows alone; `select_seconds`: to
  fetch their columns without decoding them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from time import perf_counter
from typing import Final

import ugm.store.store as store_module
from support.partition_fixtures import config
from support.postgres import Server, server_here
from support.store_fixtures import held, submitted
from ugm import Resource, UserGroup
from ugm.store import PostgresLocation, StoreReader, open_partition, open_store
from ugm.store.database import ALL_TABLES, quoted
from ugm.store.fold import Folder
from ugm.store.reader import StoreLocation, database_at, read_table
from ugm.store.row_tables import ROW_TABLES

CONFIG: Final = config(
    "{name: a, resources: {max: {memory: 1Pi}}}", limits="{users: [sue], maxresources: {memory: 1Pi}}"
)
SECONDS: Final = 2.0
RUNS: Final = 3
#: The changes that are not folded when a store is opened.
TAIL: Final = 4000
#: Rows in one transaction that fills a store.
_ROWS: Final = 10_000


def rate(write: Callable[[str], None], threads: int) -> float:
    """Return the number of calls a second that some threads make."""
    done, end = [0] * threads, perf_counter() + SECONDS

    def work(thread: int) -> None:
        while perf_counter() < end:
            write(f"{thread}-{done[thread]}")
            done[thread] += 1

    started = [Thread(target=work, args=(one,)) for one in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return sum(done) / SECONDS


@contextmanager
def store_writer(location: StoreLocation) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes an allocation to a store."""
    with open_store(location) as store:
        store.append([submitted()], 0)
        lock = Lock()

        def write(name: str) -> None:
            with lock:
                number = store.append([held(name)], time.time_ns() // 1_000_000)
            store.wait(number)

        yield write


def appends(folder: Path, server: Server) -> dict[str, float]:
    """Return the rates of stores."""
    found: dict[str, list[float]] = {}
    for run in range(RUNS):
        for threads in (8, 40):
            name = f"{threads}-{run}"
            schema = f"r{threads}_{run}"
            for kind, writer in (
                (f"file_{threads}", store_writer(folder / f"{name}.store")),
                (f"postgres_{threads}", store_writer(PostgresLocation(server.conninfo, schema))),
            ):
                with writer as write:
                    found.setdefault(kind, []).append(rate(write, threads))
    return {kind: round(median(rates)) for kind, rates in found.items()}


def opening(location: StoreLocation, live: int) -> dict[str, float]:
    """Return the seconds to open a partition."""
    with open_partition(location, CONFIG) as partition:
        partition.submit("app", UserGroup("sue"), "root.a")
        partition.allocate("first", "app", Resource(memory=1))
    with open_store(location) as store:
        for first in range(0, live, _ROWS):
            store.append([held(f"allocation-{number}") for number in range(first, first + _ROWS)], 0)
            store.flush()
    # Nothing is folded while the times are measured.
    store_module._FOLD_INTERVAL = 3600.0  # type: ignore[misc]
    with open_store(location) as store:
        for number in range(TAIL):
            store.append([held(f"late-{number}")], 0)
        store.flush()
        database, result = database_at(location, is_reader=True), {"live": float(live)}
        for kind in ("select", "rows"):
            start = perf_counter()
            with database.transaction(reading=True):
                for name in ROW_TABLES:
                    if kind == "rows":
                        kept = read_table(database, name)
                        del kept
                    else:
                        columns = database.selected(ALL_TABLES[name])
                        for _ in database.stream(name, f"SELECT {columns} FROM {quoted(name)}"):  # noqa: S608 - constants
                            pass
            result[f"{kind}_seconds"] = perf_counter() - start
        start = perf_counter()
        with StoreReader(location) as reader:
            assert len(reader.load().current()["allocation"]) == live + TAIL + 1
        result["load_seconds"] = perf_counter() - start
        result["not_folded"] = store.number - store.folded
        Folder.fold = lambda *_: None  # type: ignore[method-assign]
    start = perf_counter()
    with open_partition(location) as partition:
        result["open_seconds"] = perf_counter() - start
        assert len(partition.allocation_ids()) == live + TAIL + 1
    database.close()
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--live", type=int, default=1_000_000)
    given = parser.parse_args()
    with TemporaryDirectory(dir=given.folder) as name, server_here(durable=True) as server:
        result = appends(Path(name), server)
        fold = Folder.fold
        for kind, place in (("file", Path(name) / "live"), ("postgres", PostgresLocation(server.conninfo, "live"))):
            result |= {f"{kind}_{key}": value for key, value in opening(place, given.live).items()}
            Folder.fold = fold  # type: ignore[method-assign]
    print(json.dumps({name: round(value, 3) for name, value in result.items()}, indent=2))  # noqa: T201 - the outcome


if __name__ == "__main__":
    main()
