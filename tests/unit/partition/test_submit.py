"""Applications enter a partition: submitted and placed, or listed where they were before."""

from __future__ import annotations

from support.partition_fixtures import BOB, SUE, partition_of

CREATING = "{name: tag, value: namespace, create: true}, {name: provided}"


def test_created() -> None:
    """Where a rule may create, the queue is created with the application, and a placement says so."""
    partition = partition_of(rules=CREATING)
    placement = partition.submit("new", SUE, tags={"namespace": "Team.X"})
    assert str(placement) == "placed in new queue root.team_dot_x by placementrules[0] tag namespace"
    assert partition.submit("next", BOB, tags={"namespace": "team.x"}).creates is False
