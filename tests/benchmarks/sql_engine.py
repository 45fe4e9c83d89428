"""Decisions of the engine in SQL that an older version has: the same load as that of `service.py`, which runs this.

Usage: python tests/benchmarks/sql_engine.py CHECKOUT CONNINFO SCHEMA SECONDS PROCESSES...

Prints a JSON object with one measurement for each number of processes.
"""

from __future__ import annotations

import json
import sys
from array import array
from functools import partial
from importlib import import_module
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.decision_load import CONFIG, MOST_PROCESSES, alternate, measure, queue_of


def opened(conninfo: str, schema: str) -> Any:  # noqa: ANN401 - a class of another version
    """Return the partition in the database."""
    return import_module("ugm.shared").SharedPartition(conninfo, schema=schema)


def prepare(conninfo: str, schema: str) -> None:
    """Configure the partition, and submit an application for each process."""
    ugm = import_module("ugm")
    with opened(conninfo, schema) as partition:
        partition.configure(ugm.parse_config(CONFIG).partition())
        for number in range(MOST_PROCESSES):
            partition.submit(f"app-{number}", ugm.UserGroup(f"user-{number}"), queue_of(number))


def decide(conninfo: str, schema: str, number: int, seconds: float, start: Barrier) -> array[float]:
    """Decide in one process."""
    usage = import_module("ugm").Resource(memory=1, vcore=1)
    with opened(conninfo, schema) as partition:
        application = f"app-{number}"
        return alternate(
            lambda name: partition.allocate(name, application, usage), partition.release, number, seconds, start
        )


def main(checkout: str, conninfo: str, schema: str, seconds: str, *processes: str) -> None:
    """Measure and print."""
    sys.path.insert(0, str(Path(checkout) / "src"))
    prepare(conninfo, schema)
    work = partial(decide, conninfo, schema)
    found = {count: measure(work, int(count), float(seconds)) for count in processes}
    print(json.dumps(found))  # noqa: T201 - the outcome


if __name__ == "__main__":
    main(*sys.argv[1:])
