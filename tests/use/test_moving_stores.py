"""Tests of moves: a stored partition goes from a file to PostgreSQL and back, with everything that is known of it."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from support.commands import run
from support.partition_fixtures import SUE, config, memory
from support.postgres import Server, server_here, shared_server  # noqa: F401 - a fixture
from support.random_changes import CONFIGS, Actor, state_of
from ugm import RequestError
from ugm.store import PostgresLocation, StoredPartition, copy_store, open_partition, usage_of
from ugm.store.reader import StoreLocation

pytestmark = pytest.mark.ci


@pytest.fixture(name="database")
def _database(shared_server: Server) -> PostgresLocation:  # noqa: F811 - the fixture
    return PostgresLocation(shared_server.conninfo, shared_server.fresh_schema())


def filled(location: StoreLocation) -> StoredPartition:
    """Return a partition with an application and an allocation."""
    partition = open_partition(location, config("{name: a}"))
    partition.submit("app", SUE, "root.a")
    partition.allocate("a", "app", memory(1))
    return partition


def test_from_a_file_to_postgres_and_back(tmp_path: Path, database: PostgresLocation) -> None:
    """State and usage are the same at every place, and work continues there."""
    actor = Actor("moved")
    with open_partition(tmp_path / "first", CONFIGS[0], clock=lambda: 1000) as partition:
        for _ in range(40):
            actor.step(partition)
        before = state_of(partition)
        copy_store(tmp_path / "first", database)
    with open_partition(database, clock=lambda: 1000) as partition:
        assert state_of(partition) == before
        actor.step(partition)
        before = state_of(partition)
    copy_store(database, tmp_path / "second")
    with open_partition(tmp_path / "second") as partition:
        assert state_of(partition) == before
    used = [usage_of(location, "queue", clock=lambda: 2000) for location in (database, tmp_path / "second")]
    assert used[0] == used[1] != ()


def test_a_database_that_is_in_use(tmp_path: Path, database: PostgresLocation) -> None:
    """A database with a store is not overwritten."""
    filled(tmp_path / "file").close()
    with filled(database), pytest.raises(RequestError, match="there is a store already"):
        copy_store(tmp_path / "file", database)
    with open_partition(database) as partition:
        assert partition.allocation("a") is not None


def test_the_command(tmp_path: Path, shared_server: Server) -> None:  # noqa: F811 - the fixture
    """The command accepts the address of a database as the target."""
    filled(tmp_path / "file").close()
    with psycopg.connect(shared_server.conninfo, autocommit=True) as connection:
        connection.execute("CREATE DATABASE moved")
        url = f"postgresql://ugm@127.0.0.1:{shared_server.port}/moved"
    copied = run("store", "backup", tmp_path / "file", url)
    assert copied.exit_code == 0, copied.output
    with open_partition(url) as partition:
        assert partition.allocation("a") is not None
    again = run("store", "backup", tmp_path / "file", url)
    assert again.exit_code == 1
