"""Decisions of a shared partition with 1, 4 and 8 processes, beside the floor of the database.

The floor is one function of the server that does nothing but lock and update as many rows as a decision does, in the
same order: the row of the process, the row of the application, one line that is written or deleted, and the counters
above it. It is called the cheapest way that there is. Every process works for an application, a user and a queue of its
own; one limited queue is above all of them.

Floor and decisions are measured in turns, in the same run, with new connections each time, and the best round of each
counts: on which core the kernel wakes a process that was answered decides over a factor of two. Run it as
``python tests/benchmarks/shared.py [seconds] [durable] [apart]``; *durable* lets the server wait for the disk, *apart*
leaves out the limit that all processes fall under.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from threading import Barrier
from time import perf_counter
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psycopg

from support.postgres import Server, server_here
from ugm import Resource, UserGroup, parse_config
from ugm.shared import SharedPartition

PROCESSES: Final = (1, 4, 8)
SCHEMA: Final = "bench"

CONFIG: Final = """
partitions:
  - name: default
    queues:
      - name: root
        limits: [{limit: each, users: ["*"], maxresources: {memory: 1E}}]
        queues:
          - {name: team, TOGETHER queues: [%s]}
"""

#: The same rows, and nothing else. Counter 1 is everybody's, the other two are those of one process.
FLOOR: Final = """
CREATE TABLE floor_row (id bigint PRIMARY KEY, used bigint NOT NULL) WITH (fillfactor = 20);
CREATE TABLE floor_line (id text PRIMARY KEY, used bigint NOT NULL);
INSERT INTO floor_row SELECT i, 0 FROM generate_series(1, 100) AS i;
CREATE FUNCTION floor_step(p_own bigint[], p_shared bigint[], p_line text, p_more bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE floor_row SET used = used + p_more WHERE id = p_own[1];
    UPDATE floor_row SET used = used + p_more WHERE id = p_own[2];
    IF p_more > 0 THEN
        INSERT INTO floor_line VALUES (p_line, p_more);
    ELSE
        DELETE FROM floor_line WHERE id = p_line;
    END IF;
    PERFORM FROM floor_row WHERE id = ANY (p_shared) ORDER BY id FOR UPDATE;
    UPDATE floor_row SET used = used + p_more WHERE id = ANY (p_shared);
END $$;
"""


def decisions(conninfo: str, number: int, seconds: float, start: Barrier) -> int:
    """Allocate and release in turns; return how many decisions that were."""
    with SharedPartition(conninfo, schema=SCHEMA) as partition:
        name, usage = f"app-{number}", Resource(memory=1, vcore=1)
        partition.allocate(f"{name}-0", name, usage)
        partition.allocate(f"{name}-1", name, usage)
        return _counted(
            seconds,
            start,
            lambda line: partition.allocate(f"{name}-{line}", name, usage),
            lambda line: partition.release(f"{name}-{line}"),
        )


def floor(conninfo: str, number: int, seconds: float, start: Barrier, *, apart: bool) -> int:
    """Update as many rows."""
    with psycopg.connect(conninfo, autocommit=True, prepare_threshold=1) as connection, connection.cursor() as cursor:
        statement = "SELECT floor_step(%s::bigint[], %s::bigint[], %s, %s::bigint)"
        own, shared = f"{{{10 + number},{30 + number}}}", f"{{{'' if apart else '1,'}{50 + number},{70 + number}}}"

        def step(line: int, more: str) -> object:
            return cursor.execute(statement, (own, shared, f"{number}-{line}", more), prepare=True).fetchall()

        return _counted(seconds, start, lambda line: step(line, "1"), lambda line: step(line, "-1"))


def _counted(seconds: float, start: Barrier, take: Callable[[int], object], give: Callable[[int], object]) -> int:
    for line in range(2, 22):
        take(line)
        give(line)
    start.wait()
    count, end = 0, perf_counter() + seconds
    while perf_counter() < end:
        for line in range(100, 110):
            take(line)
        for line in range(100, 110):
            give(line)
        count += 20
    return count


def _rate(work: Callable[..., int], conninfo: str, processes: int, seconds: float) -> float:
    context = get_context("spawn")
    with context.Manager() as manager, context.Pool(processes) as pool:
        start = manager.Barrier(processes)
        counts = pool.starmap(work, [(conninfo, number, seconds, start) for number in range(processes)], chunksize=1)
    return sum(counts) / seconds


def prepare(server: Server, *, apart: bool) -> None:
    """Put a configuration in force, with an application for every process."""
    config = CONFIG.replace("TOGETHER", "" if apart else "resources: {max: {memory: 4E}}, ")
    queues = ", ".join(f"{{name: q{number}, resources: {{max: {{memory: 2E}}}}}}" for number in range(max(PROCESSES)))
    with SharedPartition(server.conninfo, schema=SCHEMA) as partition:
        partition.configure(parse_config(config % queues).partition())
        for number in range(max(PROCESSES)):
            partition.submit(f"app-{number}", UserGroup(f"user-{number}"), f"root.team.q{number}")
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute(FLOOR)


def main(seconds: float = 1.0, *, durable: bool = False, apart: bool = False, rounds: int = 4) -> None:
    """Print the rates, and their ratio."""
    with server_here(durable=durable) as server:
        prepare(server, apart=apart)
        works = (partial(floor, apart=apart), decisions)
        for processes in PROCESSES:
            pairs = [[_rate(work, server.conninfo, processes, seconds) for work in works] for _ in range(rounds)]
            low, found = (max(column) for column in zip(*pairs, strict=True))
            told = (
                f"{processes} processes: floor {low:7.0f}/s, decisions {found:7.0f}/s, {found / low:.0%} of the floor"
            )
            print(told)  # noqa: T201 - a script


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0, durable="durable" in sys.argv, apart="apart" in sys.argv)
