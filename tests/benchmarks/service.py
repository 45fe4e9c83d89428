"""Decisions of a service for 1, 8 and 40 processes, compared with the floors of its log and of its transport.

Usage: python tests/benchmarks/service.py [--seconds S] [--rounds N] [--folder FOLDER] [--against CHECKOUT]

Every process allocates and releases in turns, in its own queue; one limit is above all. A process has one outstanding
decision (a blocking client), or 32 (an asyncio client). The service is in memory, on a journal file, and on a
PostgreSQL that the script starts with fsync. The floors are measured in the same run:

- `floor`: an append and fdatasync, or a commit of PostgreSQL, of each change that the service has written, with the
  same bytes. It is stated in decisions: changes per second times the decisions of a change;
- `echo`: frames of the same size over a Unix socket to an asyncio program that does not decode them.

With `--against`, the engine in SQL of an older checkout is measured in the same run, and `bars` compares what was found
with what is required. Everything is measured in turns, and the round with the highest rate counts; the echo and the
service in memory alternate every few tenths of a second; their ratio is the median over neighbours, because the speed
of a virtual machine may change by the second. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psycopg

from benchmarks.decision_load import CONFIG, MOST_PROCESSES, WARM_UP, Measurement, alternate, best_of, measure, queue_of
from benchmarks.service_floors import changes_after, database_floor, echo, file_floor, serve_echo
from support.postgres import Server, server_here
from ugm import Resource, UserGroup, parse_config
from ugm.service import Service, connect, connect_async

#: Processes, and outstanding decisions of each.
SHAPES: Final = ((1, 1), (8, 1), (40, 1), (8, 32))
SQL_PROCESSES: Final = ("8", "40")
USAGE: Final = Resource(memory=1, vcore=1)
#: How often the echo and the service in memory alternate in a round.
TURNS: Final = 5
#: The least rate of a service in memory, relative to the echo.
ECHO_BAR: Final = 0.6
#: The least rates at 8 x 1 and 40 x 1, and the least quotient of the p99 at 40 x 1, relative to the engine in SQL.
SQL_BARS: Final = {8: 2.0, 40: 10.0}
P99_BAR: Final = 20.0
#: The least rate at 8 x 32, relative to 8 x 1 of the engine in SQL, or to the floor if that is less.
MANY_BARS: Final = {"file": 80.0, "postgresql": 40.0}
FLOOR_BAR: Final = 0.4

#: The measurements of each round, and the floors in decisions per second, by the names of the subject and the shape.
Rounds = dict[str, list[Measurement]]
Floors = dict[str, list[float]]


# Processes


@contextmanager
def running(serve: Callable[[Event], None]) -> Iterator[None]:
    """Run a server in another process."""
    context = get_context("fork")
    ready = context.Event()
    process = context.Process(target=serve, args=(ready,), daemon=True)
    process.start()
    try:
        if not ready.wait(60):
            raise TimeoutError("the server does not start")
        yield
    finally:
        process.terminate()
        process.join()


def serve(place: str | None, address: str, ready: Event) -> None:
    """Serve a partition until the process is terminated."""
    Service(place, address, config=parse_config(CONFIG).partition()).run(ready.set)


def decide(address: str, number: int, seconds: float, start: Barrier) -> array[float]:
    """Decide with one outstanding decision."""
    with connect(address) as partition:
        return alternate(
            lambda name: partition.allocate(name, f"app-{number}", USAGE), partition.release, number, seconds, start
        )


def decide_many(address: str, outstanding: int, number: int, seconds: float, start: Barrier) -> array[float]:
    """Decide with several outstanding decisions."""
    return asyncio.run(_decide_many(address, outstanding, number, seconds, start))


async def _decide_many(address: str, outstanding: int, number: int, seconds: float, start: Barrier) -> array[float]:
    latencies: array[float] = array("d")
    async with await connect_async(address) as partition:

        async def alternate_until(end: float, task: int) -> None:
            line, begin = 0, perf_counter()
            while begin < end:
                name = f"{number}-{task}-{line}"
                for answer in (partition.allocate(name, f"app-{number}", USAGE), None):
                    await (answer or partition.release(name))
                    after = perf_counter()
                    latencies.append(after - begin)
                    begin = after
                line += 1

        await alternate_until(perf_counter() + WARM_UP / 1000, 0)
        del latencies[:]
        start.wait()
        end = perf_counter() + seconds
        await asyncio.gather(*(alternate_until(end, task) for task in range(outstanding)))
    return latencies


# One round


def name_of(subject: str, processes: int, outstanding: int) -> str:
    """Return the name of a row."""
    return f"{subject}, {processes} x {outstanding}"


def measure_service(
    subject: str,
    place: str | None,
    folder: Path,
    seconds: float,
    rounds: Rounds,
    floors: Floors,
) -> None:
    """Measure a service in all shapes, each followed by its floor."""
    address = f"unix:{folder / subject}.sock"
    with running(partial(serve, place, address)):
        with connect(address) as partition:
            for number in range(MOST_PROCESSES):
                partition.submit(f"app-{number}", UserGroup(f"user-{number}"), queue_of(number))
        for processes, outstanding in SHAPES:
            work = partial(decide, address) if outstanding == 1 else partial(decide_many, address, outstanding)
            before = [0]

            def note_start(before: list[int] = before) -> None:
                before[0] = 0 if place is None else changes_after(place, 1 << 60)[1]

            found = measure(work, processes, seconds, note_start)
            name = name_of(subject, processes, outstanding)
            rounds.setdefault(name, []).append(found)
            if place is not None:
                floors.setdefault(name, []).append(floor(place, folder, before[0], found.rate * seconds, seconds))


def floor(place: str, folder: Path, before: int, decisions: float, seconds: float) -> float:
    """Return the decisions per second if only the changes after *before* had to be written."""
    changes, last = changes_after(place, before)
    is_database = place.startswith("postgresql:")
    rate = database_floor(place, changes, seconds / 2) if is_database else file_floor(folder, changes, seconds / 2)
    return rate * decisions / (last - before)


def measure_echo(folder: Path, seconds: float, rounds: Rounds) -> None:
    """Measure the transport with one outstanding frame."""
    path = str(folder / "echo.sock")
    with running(partial(serve_echo, path)):
        for processes, outstanding in SHAPES:
            if outstanding == 1:
                name = name_of("echo", processes, 1)
                rounds.setdefault(name, []).append(measure(partial(echo, path), processes, seconds))


def measure_turns(folder: Path, seconds: float, rounds: Rounds) -> None:
    """Measure the transport and a service in memory in turns, with one process and one outstanding decision."""
    path, address = str(folder / "turns-echo.sock"), f"unix:{folder / 'turns'}.sock"
    with running(partial(serve_echo, path)), running(partial(serve, None, address)):
        with connect(address) as partition:
            partition.submit("app-0", UserGroup("user-0"), queue_of(0))
        for _ in range(TURNS):
            for subject, work in (("echo", partial(echo, path)), ("memory", partial(decide, address))):
                name = name_of(f"{subject} in turns", 1, 1)
                rounds.setdefault(name, []).append(measure(work, 1, seconds / TURNS))


def measure_sql(checkout: Path, server: Server, schema: str, seconds: float, rounds: Rounds) -> None:
    """Measure the engine in SQL of another checkout."""
    script = str(Path(__file__).with_name("sql_engine.py"))
    command = [sys.executable, script, str(checkout), server.conninfo, schema, str(seconds), *SQL_PROCESSES]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - our own
    for processes, found in json.loads(printed).items():
        rounds.setdefault(name_of("sql", int(processes), 1), []).append(Measurement(*found))


@contextmanager
def database_server() -> Iterator[Server]:
    """Run a PostgreSQL with fsync that accepts connections of all processes."""
    with server_here(durable=True) as server:
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET max_connections = 300")
        server.stop()
        server.start()
        yield server


def new_database(server: Server, name: str) -> str:
    """Create a database and return its address."""
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return f"postgresql://ugm@127.0.0.1:{server.port}/{name}"


def measure_round(
    number: int, server: Server, folder: Path, given: argparse.Namespace, rounds: Rounds, floors: Floors
) -> None:
    """Measure everything once."""
    database, schema = new_database(server, f"service_{number}"), f"sql_{number}"
    measure_echo(folder, given.seconds, rounds)
    measure_turns(folder, given.seconds, rounds)
    for subject, place in (("memory", None), ("file", str(folder / "journal")), ("postgresql", database)):
        measure_service(subject, place, folder, given.seconds, rounds, floors)
    if given.against is not None:
        measure_sql(given.against, server, schema, given.seconds, rounds)


# The outcome


def ratios(best: dict[str, Measurement], floors: dict[str, float], to_echo: float) -> dict[str, float]:
    """Return the comparisons with the floors, with the echo and with the engine in SQL."""
    found = {f"{name} / floor": best[name].rate / rate for name, rate in floors.items()}
    found["memory / echo, 1 x 1"] = to_echo
    if "sql, 8 x 1" in best:
        for subject in ("file", "postgresql"):
            for processes in (8, 40):
                name, base = f"{subject}, {processes} x 1", best[f"sql, {processes} x 1"]
                found[f"{name} / sql"] = best[name].rate / base.rate
                found[f"sql / {name}, p99"] = base.p99_ms / best[name].p99_ms
            found[f"{subject}, 8 x 32 / sql, 8 x 1"] = best[f"{subject}, 8 x 32"].rate / best["sql, 8 x 1"].rate
    return found


def bars(found: dict[str, float], floors: dict[str, float], sql: float) -> dict[str, dict[str, float | bool]]:
    """Return the required ratios, and whether they were found.

    Args:
        found: the ratios.
        floors: the decisions per second of the floors.
        sql: the decisions per second of the engine in SQL with 8 processes.
    """
    required = {"memory / echo, 1 x 1": ECHO_BAR}
    for subject, many in MANY_BARS.items():
        required |= {f"{subject}, {processes} x 1 / sql": bar for processes, bar in SQL_BARS.items()}
        required[f"sql / {subject}, 40 x 1, p99"] = P99_BAR
        required[f"{subject}, 8 x 32 / sql, 8 x 1"] = min(many, FLOOR_BAR * floors[f"{subject}, 8 x 32"] / sql)
    return {name: {"found": found[name], "bar": bar, "holds": found[name] >= bar} for name, bar in required.items()}


def environment(server: Server) -> dict[str, object]:
    """Return what the figures depend on."""
    with psycopg.connect(server.conninfo) as connection:
        [version] = connection.execute("SHOW server_version").fetchone() or ("",)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "postgresql": version,
        "processors": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the journals are written")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="a checkout with the engine in SQL")
    given = parser.parse_args()
    rounds: Rounds = {}
    floors: Floors = {}
    with database_server() as server:
        result: dict[str, Any] = environment(server)
        for number in range(given.rounds):
            with TemporaryDirectory(dir=given.folder) as folder:
                measure_round(number, server, Path(folder), given, rounds, floors)
    best = {name: best_of(found) for name, found in rounds.items()}
    highest = {name: max(found) for name, found in floors.items()}
    result["best"] = {name: found._asdict() for name, found in best.items()}
    result["floors"] = highest
    neighbours = zip(rounds["memory in turns, 1 x 1"], rounds["echo in turns, 1 x 1"], strict=True)
    result["ratios"] = ratios(best, highest, median(memory.rate / echo.rate for memory, echo in neighbours))
    if given.against is not None:
        result["bars"] = bars(result["ratios"], highest, best["sql, 8 x 1"].rate)
    print(json.dumps(_rounded(result), indent=2))  # noqa: T201 - the outcome


def _rounded(fields: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(fields, dict):
        return {name: _rounded(value) for name, value in fields.items()}
    return round(fields, 3) if isinstance(fields, float) else fields


if __name__ == "__main__":
    main()
