"""Eight processes race for limits of users, groups and queues, while everything around them fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.postgres import Server, server_here

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'ugm[postgres]'")

from support.racing_processes import Race

pytestmark = pytest.mark.ci


if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def race() -> Iterator[Callable[[float], Race]]:
    """Return what starts a race on a server of its own; it is stopped in the end."""
    with server_here() as server:
        yield from _races(server)


def _races(server: Server) -> Iterator[Callable[[float], Race]]:
    started: list[Race] = []

    def start(seconds: float) -> Race:
        started.append(Race(server, seconds))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def settle(race: Race, *, restarts: bool) -> None:
    """Disturb a race, let it come to its end, and look at what is left."""
    race.disturb(restarts=restarts)
    race.finish()

    assert race.killed
    assert race.watcher.allocations() == ()
    assert race.watcher.users() == ()


def test_nothing_is_over_counted_twice_or_lost(race: Callable[[float], Race]) -> None:
    """Whoever is killed, cut off or reconfigured, no limit is exceeded and the counters are the ledger."""
    settle(race(4), restarts=False)


@pytest.mark.deep
def test_for_two_minutes(race: Callable[[float], Race]) -> None:
    """The same for much longer."""
    settle(race(120), restarts=False)


def test_a_restart_in_the_middle(race: Callable[[float], Race]) -> None:
    """A database that crashes and comes back loses nothing that was acknowledged, and nobody has to care."""
    settle(race(3), restarts=True)


@pytest.mark.deep
def test_a_restart_in_the_middle_of_a_long_race(race: Callable[[float], Race]) -> None:
    """The same for longer."""
    settle(race(60), restarts=True)
