"""Rows, transactions and other processes for tests of a store."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from threading import Thread
from typing import Any, Final

import ugm.store.store as store_module
from support.partition_fixtures import SUE, memory
from support.places import environment
from ugm.partition.rows import Allocation, AllocationState, ApplicationRow, Change, GangStyle
from ugm.store import Loaded, PostgresLocation, Store, StoreReader, Transaction, open_store
from ugm.store.reader import StoreLocation

APPLICATION: Final = ApplicationRow(
    "app", SUE, "root.a", "a", {"namespace": "n"}, GangStyle.SOFT, is_adopted=False, number=1, group="dev"
)


def allocation(name: str, amount: int = 3, state: AllocationState = AllocationState.HELD) -> Allocation:
    """Return an allocation of the application."""
    return Allocation(name, "app", memory(amount), state, placeholder=False, priority=0, preemptible=True)


def submitted() -> Change:
    """Return the submission of the application."""
    return Change("application", "app", None, APPLICATION)


def held(name: str, amount: int = 3) -> Change:
    """Return the grant of an allocation."""
    return Change("allocation", name, None, allocation(name, amount))


def removed(name: str, amount: int = 3) -> Change:
    """Return the release of an allocation."""
    return Change("allocation", name, allocation(name, amount), None)


def put(store: Store, *changes: Change, at: int = 1000) -> int:
    """Append a transaction and wait until it is durable."""
    number = store.append(changes, at)
    store.wait(number)
    return number


def written(location: StoreLocation, count: int) -> None:
    """Write a store with an application and some allocations, one in each transaction, and close it."""
    with open_store(location) as store:
        put(store, submitted())
        for number in range(count):
            put(store, held(f"a{number}"))


def fold(store: Store) -> None:
    """Fold all durable changes now."""
    with store._using:  # the thread may fold, too
        store._fold()


def names(location: StoreLocation) -> list[str]:
    """Return the ids of the allocations in a store."""
    with StoreReader(location) as reader:
        return list(reader.load().current()["allocation"])


def replayed(transactions: Sequence[Transaction]) -> dict[str, dict[str, Any]]:
    """Return the tables that follow from all changes; empty ones are left out."""
    tables: dict[str, dict[str, Any]] = {}
    for transaction in transactions:
        for table, key, _, new, _ in transaction.changes:
            rows = tables.setdefault(table, {})
            if new is None:
                rows.pop(key, None)
            else:
                rows[key] = new
    return {name: rows for name, rows in tables.items() if rows}


def filled(loaded: Loaded) -> dict[str, dict[str, Any]]:
    """Return the tables that are not empty."""
    return {name: rows for name, rows in loaded.current().items() if rows}


# A process that writes until it is killed


@contextmanager
def writing_process(location: StoreLocation, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run this program until the block is left, from the moment at which it leads."""
    place = ["|".join(map(str, location))] if isinstance(location, PostgresLocation) else [str(location)]
    command = [sys.executable, "-m", "support.store_fixtures", *place, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:  # noqa: S603 - our own program
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def _write(store: Store, thread: int) -> None:
    """Grant allocations and release every other one; tell of what is durable."""
    for number in count():
        name = f"{os.getpid()}-{thread}-{number}"
        put(store, held(name))
        os.write(1, f"+{name}\n".encode())
        if number % 2:
            put(store, removed(name))
            os.write(1, f"-{name}\n".encode())


def _main(place: str, address: str = "") -> None:
    # Kills meet folds.
    store_module._FOLD_INTERVAL = 0.02  # type: ignore[misc]
    parts = place.split("|")
    location = PostgresLocation(parts[0], parts[1], float(parts[2])) if len(parts) > 1 else place
    store = open_store(location, address=address)
    if not store.load().current()["application"]:
        put(store, submitted())
    os.write(1, b"ready\n")
    for thread in range(4):
        Thread(target=_write, args=(store, thread)).start()


if __name__ == "__main__":
    _main(*sys.argv[1:])
