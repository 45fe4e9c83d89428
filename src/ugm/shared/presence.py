"""Who takes part in a shared partition: processes register, renew their presence, and may vanish.

Nothing happens to what a vanished process has until somebody decides it: its allocations are listed, and then adopted
or released by a call. Before that the process is *fenced*: from then on the database refuses everything by which it
would take something, whatever it believes.
"""

from __future__ import annotations

import socket
from datetime import datetime
from os import getpid
from typing import Final, NamedTuple

from ugm.partition.allocation import Allocation, AllocationState
from ugm.resources import Resource
from ugm.shared.database import Database
from ugm.shared.stamps import new_stamp

__all__ = ["Owned", "Process", "RegistrationLost", "default_name"]

_PROCESSES: Final = """SELECT p.token, p.name, p.registered_at, p.renewed_at, p.fenced_at,
        extract(epoch FROM clock_timestamp() - p.renewed_at)::float8,
        (SELECT count(*) FROM {schema}.line l WHERE l.owner = p.token)
    FROM {schema}.process p ORDER BY p.registered_at, p.token"""

_OWNED: Final = """SELECT id, application, usage, state, placeholder, priority, preemptible, owner, since,
        extract(epoch FROM clock_timestamp() - since)::float8
    FROM {schema}.line WHERE owner = %s ORDER BY id"""


class Process(NamedTuple):
    """A process that takes part, as the database knows it; all times are those of the database."""

    #: What it is registered under; a process that registers again gets another.
    token: int
    name: str
    registered_at: datetime
    renewed_at: datetime
    #: Since when it is presumed dead; None if it is not.
    fenced_at: datetime | None
    #: How many seconds ago it was heard of.
    silent_for: float
    #: How many allocations are its own, pending ones included.
    allocations: int


class Owned(NamedTuple):
    """An allocation, with the process that it is of."""

    allocation: Allocation
    #: The token of the process.
    owner: int
    since: datetime
    #: For how many seconds it has been there.
    age: float


class RegistrationLost(NamedTuple):
    """A process learns that it is presumed dead. It gets nothing more until it registers again."""

    token: int
    name: str


def default_name() -> str:
    """Return a name for this process: host and process id."""
    return f"{socket.gethostname()}:{getpid()}"


def register(database: Database, name: str) -> int:
    """Register a process, and return its token."""
    token = new_stamp()
    # If the answer is lost, the statement is sent again.
    statement = "INSERT INTO {schema}.process (token, name) VALUES (%s, %s) ON CONFLICT (token) DO NOTHING"
    database.run(database.text(statement), [token, name])
    return token


def renew(database: Database, token: int) -> bool:
    """Say that a process is there, and return whether it is believed."""
    statement = (
        "UPDATE {schema}.process SET renewed_at = clock_timestamp() WHERE token = %s AND fenced_at IS NULL RETURNING 1"
    )
    return bool(database.run(database.text(statement), [token]))


def processes(database: Database) -> tuple[Process, ...]:
    """Return all processes that have ever registered and are not forgotten, the oldest first."""
    return tuple(Process(*row) for row in database.run(database.text(_PROCESSES)))


def owned(database: Database, token: int) -> tuple[Owned, ...]:
    """Return the allocations of a process, sorted by id."""
    rows = database.run(database.text(_OWNED), [token])
    return tuple(
        Owned(Allocation(name, application, Resource(usage), AllocationState(state), *traits), *rest)
        for name, application, usage, state, *others in rows
        for traits, rest in [(others[:3], others[3:])]
    )


def fence(database: Database, token: int) -> bool:
    """Presume a process dead, and return whether there is one. When this returns, nothing of it is under way."""
    # One statement, so that it is said again if the connection is lost.
    statement = """UPDATE {schema}.process SET fenced_at = coalesce(fenced_at, clock_timestamp())
        FROM (SELECT pg_advisory_xact_lock({lock})) AS alone WHERE token = %s RETURNING 1"""
    return bool(database.run(database.text(statement), [token]))


def take_over(database: Database, token: int, heir: int) -> int:
    """Let a process have what another one has, and return how many allocations that were."""
    # Alone, so that no change of several lines waits for this one, which waits for it.
    statement = """WITH taken AS (UPDATE {schema}.line SET owner = %s
            FROM (SELECT pg_advisory_xact_lock({lock})) AS alone WHERE owner = %s RETURNING 1)
        SELECT count(*) FROM taken"""
    return int(database.run(database.text(statement), [heir, token])[0][0])


def forget(database: Database, token: int) -> bool:
    """Forget a process that has nothing, and return whether it is forgotten."""
    statement = """DELETE FROM {schema}.process p WHERE token = %s
        AND NOT EXISTS (SELECT FROM {schema}.line l WHERE l.owner = p.token) RETURNING 1"""
    return bool(database.run(database.text(statement), [token]))
