"""Ids of a shared partition that are used again, while another process still knows what had them before.

Each limit holds and each counter equals the ledger, on the short way and on the long way, and after a lost answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from support.postgres import Server, shared_server
from ugm import RequestError, Resource, UserGroup, parse_config
from ugm.configuration import PartitionConfig

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'ugm[postgres]'")

import psycopg

from ugm.shared import SharedPartition
from ugm.shared.database import Database
from ugm.shared.engine import Engine

pytestmark = pytest.mark.ci

__all__ = ["shared_server"]

CONFIG = parse_config("""
partitions:
  - name: default
    queues:
      - name: a
        limits:
          - {limit: sue, users: [sue], maxresources: {memory: 100}}
          - {limit: bob, users: [bob], maxresources: {memory: 4}}
      - name: b
        limits: [{limit: all, users: ["*"], maxresources: {memory: 4}}]
""").partition()

#: An allocation that can go the short way, and one that cannot.
WAYS = pytest.mark.parametrize("priority", [0, 1], ids=["short", "long"])


class Two:
    """Two processes of one partition in which sue may use 100 bytes and bob 4."""

    def __init__(self, server: Server) -> None:
        schema = server.fresh_schema()
        self.one = SharedPartition(server.conninfo, schema=schema, name="one")
        self.two = SharedPartition(server.conninfo, schema=schema, name="two")
        self.one.configure(CONFIG)

    def resubmit(self, user: str = "sue", queue: str = "root.a", **allocations: int) -> None:
        """Let the second process end the application, and submit another one with the same id."""
        self.two.remove("app")
        self.two.submit("app", UserGroup(user), queue)
        for name, amount in allocations.items():
            assert self.two.allocate(name, "app", Resource(memory=amount))

    def used(self) -> dict[str, int]:
        """Return the memory of each user, after comparing all counters with the ledger."""
        self.two.verify()
        assert not self.two.over_limit()
        return {one.user_name: one.queues.usage.amounts["memory"] for one in self.two.users()}


@pytest.fixture
def both(shared_server: Server) -> Iterator[Two]:
    """Return two processes; the first knows an application of sue with two allocations, of 1 and 8 bytes."""
    made = Two(shared_server)
    made.one.submit("app", UserGroup("sue"), "root.a")
    assert made.one.allocate("x", "app", Resource(memory=1))
    assert made.one.allocate("y", "app", Resource(memory=8))
    yield made
    made.one.disconnect()
    made.two.disconnect()


def meanwhile(monkeypatch: pytest.MonkeyPatch, partition: SharedPartition, action: Callable[[], object]) -> None:
    """Run an action once, after the next decision of a process and before its change."""
    original, actions = Engine._say, [action]

    def say(engine: Engine, statement: str, arguments: Sequence[object]) -> int:
        if engine is partition._engine and actions:
            actions.pop()()
        return original(engine, statement, arguments)

    monkeypatch.setattr(Engine, "_say", say)


def lose_answer(monkeypatch: pytest.MonkeyPatch, partition: SharedPartition, action: Callable[[], object]) -> None:
    """Lose the answer to the next change of a process, and run an action before the change is sent again."""
    original, actions = Database._once, [action]

    def once(database: Database, statement: str, values: Any = ()) -> Any:  # noqa: ANN401 - as the original
        rows = original(database, statement, values)
        is_change = ".step(" in statement or ".change(" in statement
        if database is partition._engine.database and is_change and actions:
            actions.pop()()
            raise psycopg.OperationalError("the connection is lost")
        return rows

    monkeypatch.setattr(Database, "_once", once)


@WAYS
@pytest.mark.parametrize(("user", "queue"), [("bob", "root.a"), ("sue", "root.b"), ("bob", "root.b")])
def test_an_application_id_of_another_user_or_queue(both: Two, user: str, queue: str, priority: int) -> None:
    """A process that knows the earlier application charges the later one."""
    both.resubmit(user, queue, z=1)

    granted = [bool(both.one.allocate(f"n-{n}", "app", Resource(memory=1), priority=priority)) for n in range(9)]

    assert granted == [True] * 3 + [False] * 6
    assert both.used() == {user: 4}


@WAYS
def test_an_application_replaced_during_a_decision(both: Two, monkeypatch: pytest.MonkeyPatch, priority: int) -> None:
    """A change that was decided for the earlier application is decided once more for the later one."""
    meanwhile(monkeypatch, both.one, lambda: both.resubmit("bob", z=1))

    assert not both.one.allocate("n", "app", Resource(memory=8), priority=priority)
    assert both.used() == {"bob": 1}


@pytest.mark.parametrize("call", [
    lambda one: one.resize("y", Resource(memory=20)),
    lambda one: one.replace("p", "r", Resource(memory=20)),
    lambda one: one.allocate_all([("n-1", "app", Resource(memory=4)), ("n-2", "app", Resource(memory=4))]),
])  # fmt: skip
def test_other_changes_of_a_replaced_application(
    both: Two, monkeypatch: pytest.MonkeyPatch, call: Callable[[SharedPartition], object]
) -> None:
    """Whatever grows is held to the limits of the user who has the application when the change is made."""
    both.one.allocate("p", "app", Resource(memory=20), placeholder=True)

    def replace() -> None:
        both.resubmit("bob", x=1, y=1)
        both.two.allocate("p", "app", Resource(memory=1), placeholder=True)

    meanwhile(monkeypatch, both.one, replace)

    assert not call(both.one)
    assert both.used() == {"bob": 3}


def test_an_allocation_id_of_another_size(both: Two) -> None:
    """A release gives back what the ledger has under the id, not what the process was granted."""
    both.resubmit(x=1, y=1)

    assert both.one.release("y")

    assert both.used() == {"sue": 1}


def test_an_allocation_id_in_another_application(both: Two) -> None:
    """The same if the id has moved to an application of somebody else with as many changes."""
    both.resubmit(z=1, w=1)
    both.two.submit("other", UserGroup("bob"), "root.a")
    both.two.allocate("x", "other", Resource(memory=1))
    both.two.allocate("y", "other", Resource(memory=1))

    assert both.one.release("y")

    assert both.used() == {"bob": 1, "sue": 2}


@pytest.mark.parametrize("call", [
    lambda one: one.release("y"),
    lambda one: one.resize("y", Resource(memory=2)),
    lambda one: one.preempt("y"),
])  # fmt: skip
def test_an_allocation_replaced_during_a_decision(
    both: Two, monkeypatch: pytest.MonkeyPatch, call: Callable[[SharedPartition], object]
) -> None:
    """A change of the earlier allocation is decided once more for the later one."""
    both.one._express._lines.clear()
    meanwhile(monkeypatch, both.one, lambda: both.resubmit(x=1, y=1))

    call(both.one)

    held = {one.allocation_id: one.usage.amounts["memory"] for one in both.two.allocations()}
    assert both.used() == {"sue": sum(held.values())}
    assert held["x"] == 1


@WAYS
def test_a_lost_answer_is_not_taken_from_another_allocation(
    both: Two, monkeypatch: pytest.MonkeyPatch, priority: int
) -> None:
    """A repeated change is answered by what it did, whatever has its id by now."""

    def reuse() -> None:
        assert both.two.release("n")
        assert both.two.allocate("n", "app", Resource(memory=1))

    lose_answer(monkeypatch, both.one, reuse)

    assert both.one.allocate("n", "app", Resource(memory=8), priority=priority)
    assert both.used() == {"sue": 10}
    assert both.one.release("n")
    assert both.used() == {"sue": 9}


def test_a_release_is_repeated_once(both: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release whose answer was lost does not release what has the id by now."""
    lose_answer(monkeypatch, both.one, lambda: both.two.allocate("y", "app", Resource(memory=2)))

    assert both.one.release("y")
    assert both.used() == {"sue": 3}


@pytest.mark.parametrize("name", ["allocation", "application"])
def test_a_name_that_is_too_long_is_refused_at_once(both: Two, name: str) -> None:
    """What no attempt can store is misuse, and not a database to wait for."""
    long = "".join(chr(0x4E00 + number) for number in range(9000))
    call: Callable[[], object] = (
        (lambda: both.one.allocate(long, "app", Resource(memory=1)))
        if name == "allocation"
        else (lambda: both.one.submit(long, UserGroup("sue"), "root.a"))
    )

    with pytest.raises(RequestError):
        call()
    assert both.used() == {"sue": 9}


def limited(most: int) -> PartitionConfig:
    """Return a configuration with one limit for sue."""
    limit = f"{{limit: sue, users: [sue], maxresources: {{memory: {most}}}}}"
    return parse_config(f"partitions: [{{queues: [{{name: a, limits: [{limit}]}}]}}]").partition()


class Backup:
    """A copy of the tables of a partition, which can be put back while processes are connected."""

    def __init__(self, server: Server, schema: str) -> None:
        self._server, self._schema = server, schema
        self._path = server.folder / f"{schema}.sql"
        server.execute("pg_dump", "--dbname", server.conninfo, "--schema", schema, "--file", str(self._path))

    def restore(self) -> None:
        """Put the tables back as they were, sequences included."""
        with psycopg.connect(self._server.conninfo, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {self._schema} CASCADE")
        self._server.execute("psql", "--quiet", "--dbname", self._server.conninfo, "--file", str(self._path))


@pytest.fixture
def backup(both: Two, shared_server: Server) -> Backup:
    """Return a backup of a partition of which the first process knows the structure and one application."""
    return Backup(shared_server, both.one._engine.database.schema)


def fill(partition: SharedPartition) -> int:
    """Allocate 1 byte after the other, and return how many the application gets, 120 at most."""
    return sum(bool(partition.allocate(f"f-{number}", "app", Resource(memory=1))) for number in range(120))


def test_a_registration_that_a_restored_database_does_not_have(
    both: Two, backup: Backup, shared_server: Server
) -> None:
    """It is lost, and is never that of another process, whose changes would be taken for changes that were made."""
    lost = SharedPartition(shared_server.conninfo, schema=both.one._engine.database.schema)
    for _ in range(30):
        lost.allocate("n", "app", Resource(memory=1))
        lost.release("n")
    backup.restore()

    with SharedPartition(shared_server.conninfo, schema=both.one._engine.database.schema) as later:
        assert not lost.allocate("n", "app", Resource(memory=1))
        assert fill(later) == 91
        assert both.used() == {"sue": 100}
    lost.disconnect()


def test_a_structure_that_a_restored_database_does_not_have(both: Two, backup: Backup) -> None:
    """A process that knows a later configuration reads the one in force, however many there have been since."""
    both.one.configure(limited(1000))
    assert both.one.allocate("n", "app", Resource(memory=1))
    backup.restore()
    both.two.configure(limited(20))

    assert fill(both.one) == 11
    assert both.used() == {"sue": 20}


@WAYS
def test_counters_that_a_restored_database_does_not_have(both: Two, backup: Backup, priority: int) -> None:
    """A process that knows counters made after the backup charges those that have been made since."""
    for number, user in enumerate(("bob", "eve")):
        both.one.submit(user, UserGroup(user), "root.b")
        assert both.one.allocate(f"before-{number}", user, Resource(memory=1), priority=priority)
        assert both.one.allocate(f"again-{number}", user, Resource(memory=1), priority=priority)
    backup.restore()
    for user in ("eve", "bob"):
        both.two.submit(user, UserGroup(user), "root.b")
        assert both.two.allocate(user, user, Resource(memory=1))

    assert both.one.headroom("bob") == Resource(memory=3)
    granted = [
        bool(both.one.allocate(f"n-{number}", "bob", Resource(memory=1), priority=priority)) for number in range(6)
    ]
    assert granted == [True] * 3 + [False] * 3
    assert both.used() == {"bob": 4, "eve": 1, "sue": 9}
