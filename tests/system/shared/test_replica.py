"""A shared partition with a streaming replica: what is asked there, how it lags, and what becomes of a loss."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from support.postgres import Server, server_here
from ugm import Resource, UserGroup, UserInQueue, parse_config

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'ugm[postgres]'")

import psycopg

from ugm.shared import SharedPartition, UnavailableError

pytestmark = pytest.mark.ci

SUE = UserGroup("sue", ("dev",))
CONFIG = """
partitions:
  - name: default
    queues:
      - name: prod
        resources: {max: {memory: 10}}
        limits:
          - {limit: each, users: ["*"], maxresources: {memory: 9}}
          - {limit: team, groups: [dev], maxapplications: 5}
"""


class Following:
    """A server, and one that follows it."""

    def __init__(self, first: Server, folder: Path) -> None:
        self.first, self.second = first, first.follower(folder)
        self.second.start()
        self.schema = first.fresh_schema()
        self.partitions: list[SharedPartition] = []

    def partition(self, conninfo: str | None = None, *, patience: float = 30) -> SharedPartition:
        """Return a partition that asks the second server."""
        self.partitions.append(
            SharedPartition(
                conninfo or self.first.conninfo, schema=self.schema, replica=self.second.conninfo, patience=patience
            )
        )
        return self.partitions[-1]

    def catch_up(self) -> None:
        """Wait until all that the first server knows has arrived at the second."""
        reached = self.ask(self.first, "SELECT pg_current_wal_lsn()")
        while not self.ask(self.second, f"SELECT pg_last_wal_replay_lsn() >= '{reached}'"):
            sleep(0.01)

    def ask(self, server: Server, question: str) -> Any:  # noqa: ANN401 - whatever it answers
        """Return the one value that answers a question to a server."""
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            row = connection.execute(question).fetchone()
        return row and row[0]


@pytest.fixture
def following() -> Iterator[Following]:
    """Return two servers of the test's own, the second a streaming replica of the first."""
    with server_here() as first, tempfile.TemporaryDirectory(prefix="ugm-replica-") as folder:
        made = Following(first, Path(folder))
        try:
            yield made
            for partition in made.partitions:
                partition.disconnect()
        finally:
            made.second.stop("immediate")


def opened(following: Following) -> SharedPartition:
    """Return a partition with one application that has 7 of 9 bytes, all of which has arrived."""
    partition = following.partition(patience=0.5)
    partition.configure(parse_config(CONFIG).partition())
    partition.submit("app", SUE, "root.prod")
    assert partition.allocate("x", "app", Resource(memory=7))
    following.catch_up()
    return partition


def test_questions_lag_and_then_are_right(following: Following) -> None:
    """An answer of the replica is as old as what has arrived there; decisions are made on the truth."""
    partition = opened(following)
    following.ask(following.second, "SELECT pg_wal_replay_pause()")
    partition.release("x")
    late = partition.headroom("app"), partition.check("app", Resource(memory=9)).allowed
    decided = partition.allocate("y", "app", Resource(memory=9))
    following.ask(following.second, "SELECT pg_wal_replay_resume()")
    following.catch_up()

    assert late == (Resource(memory=2), False)
    assert decided
    assert partition.headroom("app") == Resource(memory=0)
    assert not partition.check("app", Resource(memory=1))


def test_a_replica_is_only_asked(following: Following) -> None:
    """Every question is answered by a server that takes no change, with what the first would say."""
    partition = opened(following)
    direct = SharedPartition(following.first.conninfo, schema=following.schema)

    def answers(of: SharedPartition) -> list[object]:
        asked = Resource(memory=3)
        return [of.check("app", asked), of.headroom("app"), of.limits("app"), of.explain("app", asked),
                of.application("app"), of.applications(), of.allocation("x"), of.allocations(), of.queue(), of.users(),
                of.groups(), of.nodes(), of.over_limit(), of.user_utilization("sue"), of.application_ids(),
                of.check(UserInQueue(SUE, "root.prod"), asked), of.limits(UserInQueue(SUE, "root.prod"))]  # fmt: skip

    assert following.ask(following.second, "SELECT pg_is_in_recovery()")
    assert answers(partition) == answers(direct)
    partition.verify()
    direct.disconnect()


def test_it_follows_a_configuration(following: Following) -> None:
    """Another configuration is asked about as soon as it has arrived."""
    partition = opened(following)
    partition.configure(parse_config(CONFIG.replace("memory: 9", "memory: 8")).partition())
    following.catch_up()

    assert partition.headroom("app") == Resource(memory=1)


def test_a_lost_replica_stops_questions_alone(following: Following) -> None:
    """Decisions go on without it; a question is an error until it is back."""
    partition = opened(following)
    following.second.stop("immediate")
    with pytest.raises(UnavailableError):
        partition.headroom("app")
    decided = partition.allocate("y", "app", Resource(memory=1))
    following.second.start()
    following.catch_up()

    assert decided
    assert partition.headroom("app") == Resource(memory=1)


def test_what_has_not_arrived_is_waited_for(following: Following) -> None:
    """A partition that the replica has not heard of is an error, after the patience of the caller."""
    following.ask(following.second, "SELECT pg_wal_replay_pause()")
    partition = following.partition(patience=0.2)
    with pytest.raises(UnavailableError, match=f'relation "{following.schema}.structure" does not exist'):
        partition.users()
    following.ask(following.second, "SELECT pg_wal_replay_resume()")
    following.catch_up()

    assert partition.users() == ()


def test_a_fail_over_is_followed(following: Following) -> None:
    """Whoever names both servers goes on with the one that takes changes, under its old registration."""
    opened(following)
    ports = f"{following.first.port},{following.second.port}"
    both = f"host=127.0.0.1,127.0.0.1 port={ports} dbname=postgres user=ugm target_session_attrs=read-write"
    partition = following.partition(both)
    assert partition.allocate("y", "app", Resource(memory=1))
    following.catch_up()
    following.first.stop("immediate")
    following.second.promote()

    assert not partition.allocate("z", "app", Resource(memory=2))
    assert partition.release("x")
    assert partition.allocate("z", "app", Resource(memory=8))
    assert [one.allocation_id for one in partition.allocations()] == ["y", "z"]
    partition.verify()
    following.first.start()
