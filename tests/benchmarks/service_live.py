"""A service with many live allocations: its cold start, the p99 of decisions during queries, a take-over, its memory.

Usage: python tests/benchmarks/service_live.py [--live NUMBER] [--seconds S] [--folder FOLDER]
    [--bare-loop SCRIPT TRACE]

The journal consists of a snapshot with the allocations. Prints one JSON object:

- `cold_start_seconds`: from the start of a process until a client has its first answer, with `verify`; with
  `--bare-loop` also in steps of a script that prints ``ns_per_step`` for a trace;
- `p99_ms`: of 8 processes with one outstanding decision, without and with a client that queries the whole partition;
- `takeover_seconds`: from the death of the leader until a client has its next answer, with a standby;
- `bytes_per_allocation`: the memory of the leader after the start, compared with a service that has no allocation.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.decision_load import Measurement, measure
from benchmarks.journal import futures, opened
from benchmarks.service import decide
from ugm.service import connect

_PROCESSES: Final = 8
_PATIENCE: Final = 600.0


@contextmanager
def serving(journal: str, address: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a service in a process of its own."""
    code = "import sys; from ugm.service import Service; Service(*sys.argv[1:]).run()"
    with subprocess.Popen([sys.executable, "-c", code, journal, address]) as process:  # noqa: S603 - our own
        try:
            yield process
        finally:
            process.kill()


def memory_of(process: subprocess.Popen[bytes]) -> int:
    """Return the resident memory of a process in bytes."""
    lines = Path(f"/proc/{process.pid}/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def prepare(journal: Path, live: int) -> None:
    """Write a journal that consists of a snapshot with allocations."""
    with opened(journal, durability="group") as partition:
        futures(partition, live)
        partition.journal.compact()


def query(address: str, stop: Event) -> None:
    """Query the whole partition until an event is set."""
    with connect(address, deadline=_PATIENCE) as partition:
        while not stop.is_set():
            partition.queue("root")
            partition.users()
            partition.exceeded_limits()
            partition.verify()


def decisions(address: str, seconds: float, *, with_queries: bool) -> Measurement:
    """Return the latencies of decisions."""
    context = get_context("fork")
    stop = context.Event()
    querying = context.Process(target=query, args=(address, stop), daemon=True)
    if with_queries:
        querying.start()
    try:
        return measure(partial(decide, address), _PROCESSES, seconds)
    finally:
        stop.set()
        if with_queries:
            querying.join()


def takeover(leader: subprocess.Popen[bytes], addresses: list[str], standby: str) -> float:
    """Kill the leader, and return the seconds until a client gets an answer to a change."""
    with connect(standby, deadline=_PATIENCE, read_only=True) as partition:
        partition.limits("app-0")
    with connect(",".join(addresses), deadline=_PATIENCE) as partition:
        partition.release("allocation-0")
        start = perf_counter()
        leader.kill()
        partition.release("allocation-1")
        return perf_counter() - start


def measure_live(folder: Path, live: int, seconds: float) -> dict[str, Any]:
    """Measure a service with allocations."""
    journal, addresses = str(folder / "live"), [f"unix:{folder / name}" for name in ("a", "b")]
    prepare(folder / "live", live)
    prepare(folder / "empty", 0)
    with serving(str(folder / "empty"), f"unix:{folder / 'e'}") as process:
        connect(f"unix:{folder / 'e'}", deadline=_PATIENCE).connection.close()
        empty = memory_of(process)
    start = perf_counter()
    with serving(journal, addresses[0]) as leader:
        with connect(addresses[0], deadline=_PATIENCE) as partition:
            partition.limits("app-0")
        found: dict[str, Any] = {"live": live, "cold_start_seconds": perf_counter() - start}
        found["bytes_per_allocation"] = (memory_of(leader) - empty) / live
        found["p99_ms"] = [
            decisions(addresses[0], seconds, with_queries=with_queries).p99_ms for with_queries in (False, True)
        ]
        with serving(journal, addresses[1]):
            found["takeover_seconds"] = takeover(leader, addresses, addresses[1])
    return found


def step_seconds(script: str, trace: str) -> float:
    """Return the seconds of a step of a bare loop."""
    command = [sys.executable, script, trace]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - given
    return float(json.loads(printed)["ns_per_step"]) / 1e9


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--live", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--folder", type=Path, help="where the journals are written")
    parser.add_argument("--bare-loop", nargs=2, metavar=("SCRIPT", "TRACE"))
    given = parser.parse_args()
    with TemporaryDirectory(dir=given.folder) as folder:
        found = measure_live(Path(folder), given.live, given.seconds)
    if given.bare_loop:
        found["cold_start_steps"] = found["cold_start_seconds"] / step_seconds(*given.bare_loop)
    print(json.dumps(found))  # noqa: T201 - the outcome


if __name__ == "__main__":
    main()
