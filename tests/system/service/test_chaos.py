"""A service under faults: of processes, clients, networks, limits and the database. The log is examined afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep

import pytest

from support.chaos_log import Examination, events_in
from support.postgres import Server, server_here
from support.service_chaos import Cluster
from support.service_fixtures import eventually
from ugm import UserGroup
from ugm.events import Event, event_to_dict
from ugm.store.reader import StoreLocation


@contextmanager
def log_in(kind: str, folder: Path) -> Iterator[tuple[StoreLocation, Server | None]]:
    """Provide a place for a log, with its server."""
    if kind == "file":
        yield folder / "store", None
        return
    with server_here(durable=True) as server:
        yield f"postgresql://ugm@127.0.0.1:{server.port}/postgres", server


def examine(cluster: Cluster) -> int:
    """Check the reports of all clients against the log, and return the number of acknowledged changes."""
    # PostgreSQL protects a leader whose connection was lost for half a second.
    sleep(1)
    found, result = Examination(cluster.place), 0
    for client, lines in cluster.reports().items():
        assert not [line for line in lines if "wrong" in line]
        result += found.require_reported(lines, is_released=client in cluster.released)
    return result


@pytest.mark.parametrize(
    ("kind", "seconds", "clients"),
    [
        pytest.param("file", 12, 3, marks=pytest.mark.ci),
        pytest.param("postgres", 12, 3, marks=pytest.mark.ci),
        pytest.param("file", 120, 6, marks=pytest.mark.deep),
        pytest.param("postgres", 120, 6, marks=pytest.mark.deep),
    ],
)
def test_faults(tmp_path: Path, kind: str, seconds: float, clients: int) -> None:
    """No limit is ever exceeded, and the log has every acknowledged change once."""
    with log_in(kind, tmp_path) as (place, server):
        cluster = Cluster(tmp_path, place, leaders=3, clients=clients, seconds=seconds, server=server)
        try:
            cluster.disturb(pause=0.7)
            cluster.finish()
        finally:
            cluster.stop()
        result = examine(cluster)
        print(f"{kind}: {result} acknowledged changes, faults: {dict(cluster.faults)}")  # noqa: T201 - the measurement
        assert result > 5 * seconds
        assert sum(cluster.faults.values()) > seconds / 6


@pytest.mark.parametrize(
    ("kind", "times"),
    [
        pytest.param("file", 2, marks=pytest.mark.ci),
        pytest.param("file", 100, marks=pytest.mark.deep),
        pytest.param("postgres", 100, marks=pytest.mark.deep),
    ],
)
def test_failovers(tmp_path: Path, kind: str, times: int) -> None:
    """If the leader is killed again and again, nothing is lost; a subscriber gets exactly the events in their order."""
    received: dict[int, tuple[Event, ...]] = {}
    with log_in(kind, tmp_path) as (place, _):
        cluster = Cluster(tmp_path, place, leaders=3, clients=2, seconds=times * 5)
        try:
            with cluster.connect() as partition, partition.subscribe(received.__setitem__, after=0):
                for _ in range(times):
                    cluster.require_ready()
                    partition.release("nothing")
                    leading = cluster.leading()
                    assert leading is not None
                    cluster.restart(leading)
                cluster.finish()
                partition.submit("end", UserGroup("sue"), "root.a")
                eventually(lambda: "end" in str(list(received.values())[-1]), 30)
        finally:
            cluster.stop()
        logged = [event_to_dict(event) for event in events_in(place)]
        examine(cluster)
        assert [event_to_dict(event) for first in sorted(received) for event in received[first]] == logged
        assert list(received) == sorted(received)
