"""Leaders of a log in other processes, for files and for PostgreSQL alike."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from support.journal_fixtures import LIMITED, partition_of
from support.partition_fixtures import SUE
from support.places import environment
from support.postgres import Server
from ugm import Resource, UgmError
from ugm.journal import JournaledPartition
from ugm.journal.locations import log_at
from ugm.journal.log import Candidate, LeaderRecord, Log
from ugm.journal.opening import open_log
from ugm.operation_lock import OperationLock

__all__ = ["ask", "lead", "leader_process", "log_of", "place_of", "with_application"]

_SEPARATOR: Final = "|schema="


def place_of(server: Server, schema: str) -> str:
    """Return the place of a log in PostgreSQL as one text."""
    return f"{server.conninfo}{_SEPARATOR}{schema}"


def log_of(place: str) -> Log:
    """Return the log of a place: a path, or a text of `place_of`."""
    conninfo, separator, schema = place.partition(_SEPARATOR)
    if not separator:
        return log_at(place)
    from ugm.journal.postgres.log import PostgresLog  # noqa: PLC0415 - tests with files do not need psycopg

    return PostgresLog(conninfo, schema=schema, patience=3.0)


@contextmanager
def leader_process(place: str, name: str) -> Iterator[subprocess.Popen[str]]:
    """Let another process lead; it allocates one unit for each line on its input, and answers each with a line."""
    command = [sys.executable, "-m", "support.log_processes", place, name]
    with subprocess.Popen(  # noqa: S603 - this program
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()


def lead(log: Log, name: str, replacing: LeaderRecord | None = None) -> JournaledPartition:
    """Lead a log with an address, and return its partition with one application."""
    opened = open_log(log, Candidate(name, f"{name}:1"), OperationLock(), replacing=replacing)
    return with_application(partition_of(opened))


def with_application(partition: JournaledPartition) -> JournaledPartition:
    """Submit the application of the tests, unless it exists."""
    if not partition.applications():
        if not partition.journal.number:
            partition.configure(LIMITED)
        partition.submit("app", SUE, "root.a")
    return partition


def ask(process: subprocess.Popen[str], name: str) -> str:
    """Let a leader in another process make an allocation, and return its answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{name}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def _main(place: str, name: str) -> None:
    """Lead a log, and make an allocation for each line."""
    partition = lead(log_of(place), name)
    print("ready", flush=True)  # noqa: T201 - the protocol
    for line in sys.stdin:
        try:
            partition.allocate(line.strip(), "app", Resource())
            print("made", flush=True)  # noqa: T201 - the protocol
        except UgmError as error:
            print(type(error).__name__, flush=True)  # noqa: T201 - the protocol
    partition.journal.close()


if __name__ == "__main__":
    _main(*sys.argv[1:])
