"""Tests of moves: a stored partition goes from a file to PostgreSQL and back, with everything that is known of it."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from support.journal_fixtures import LIMITED
from support.log_processes import log_of, place_of, with_application
from support.partition_fixtures import memory
from support.postgres import Server, server_here, shared_server  # noqa: F401 - a fixture
from support.random_changes import CONFIGS, Actor, state_of
from ugm import RequestError
from ugm.cli.commands import ugm
from ugm.journal import backup, open_partition, usage

pytestmark = pytest.mark.ci


@pytest.fixture(name="place")
def _place(shared_server: Server) -> str:  # noqa: F811 - the fixture
    return place_of(shared_server, shared_server.fresh_schema())


@pytest.mark.parametrize("compacts", [False, True])
def test_from_a_file_to_postgres_and_back(tmp_path: Path, place: str, compacts: bool) -> None:  # noqa: FBT001 - a parameter
    """State and usage are the same at every place, and work continues there."""
    actor, database = Actor("moves"), log_of(place)
    with open_partition(tmp_path / "first", CONFIGS[0], clock=lambda: 1000) as partition:
        for _ in range(40):
            actor.step(partition)
        if compacts:
            partition.journal.compact()
            actor.step(partition)
        before, used = state_of(partition), partition.journal.usage("user")
        partition.journal.backup(database)
    with open_partition(database, clock=lambda: 1000) as partition:
        assert state_of(partition) == before
        assert partition.journal.usage("user") == used
        actor.step(partition)
        before = state_of(partition)
    backup(database, tmp_path / "second")
    with open_partition(tmp_path / "second") as partition:
        assert state_of(partition) == before
    assert usage(database, "queue", clock=lambda: 2000) == usage(tmp_path / "second", "queue", clock=lambda: 2000)


def test_a_database_that_is_in_use(tmp_path: Path, place: str) -> None:
    """A database with changes is not overwritten."""
    database = log_of(place)
    with with_application(open_partition(tmp_path / "file", LIMITED)):
        pass
    with with_application(open_partition(database, LIMITED)) as partition:
        partition.allocate("a", "app", memory(1))
    with pytest.raises(RequestError, match="the log has changes already"):
        backup(tmp_path / "file", database)
    with open_partition(database) as partition:
        assert partition.allocation("a") is not None


def test_the_command(tmp_path: Path, shared_server: Server) -> None:  # noqa: F811 - the fixture
    """The command accepts the address of a database as the target."""
    with with_application(open_partition(tmp_path / "file", LIMITED)) as partition:
        partition.allocate("a", "app", memory(1))
    with psycopg.connect(shared_server.conninfo, autocommit=True) as connection:
        connection.execute("CREATE DATABASE moved")
        url = f"postgresql://ugm@127.0.0.1:{shared_server.port}/moved"
    copied = CliRunner().invoke(ugm, ["journal", "backup", str(tmp_path / "file"), url])
    assert copied.exit_code == 0, copied.output
    with open_partition(url) as partition:
        assert partition.allocation("a") is not None
    again = CliRunner().invoke(ugm, ["journal", "backup", str(tmp_path / "file"), url])
    assert again.exit_code != 0
