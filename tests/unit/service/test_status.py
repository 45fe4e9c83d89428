"""The status of a service: what the leader and a standby state about leader, standbys, sessions and commits."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.partition_fixtures import memory
from support.service_fixtures import RawClient, eventually, running, started
from ugm.service import CommitStatus, OperationStatus, Service, ServiceSettings
from ugm.service.status import BUCKET_BOUNDS, CommitTimes, OperationTimes
from ugm.service.wire import VERSION, Hello, Refused, StandbyReport, StatusMessage, Welcome


def test_commit_times() -> None:
    """The count and the sum are those of all commits, the median and the 99th percentile those of the last 1,000."""
    times = CommitTimes()
    assert times.status() == CommitStatus()
    times.add(5.0)
    buckets = tuple(int(bound == 5.0) for bound in (*BUCKET_BOUNDS, float("inf")))
    assert times.status() == CommitStatus(1, 5.0, 5.0, 5.0, buckets)
    for number in range(1, 1001):
        times.add(number / 1000)
    status = times.status()
    assert (status.count, status.median, status.p99) == (1001, 0.5005, 0.99)
    assert status.seconds == pytest.approx(505.5)
    assert sum(status.buckets) == 1001


def test_operation_times() -> None:
    """The operations of a message count with their mean duration."""
    times = OperationTimes()
    times.add(0, 1.0)
    assert times.status() == OperationStatus()
    times.add(10, 0.001)
    status = times.status()

    assert (status.count, status.seconds) == (10, 0.001)
    assert dict(zip(BUCKET_BOUNDS, status.buckets, strict=False))[0.0001] == 10


def test_leader_in_memory(tmp_path: Path) -> None:
    """A leader without a log counts its sessions, and has neither commits nor standbys."""
    with running(tmp_path) as service, started(service) as partition:
        status = service.status()
        assert (status.is_leading, status.leader, status.address) == (True, status.name, str(service.addresses[0]))
        assert (status.sessions, status.connected, status.waiting, status.age) == (1, 1, 0, 0)
        assert (status.commits, status.standbys, status.outage) == (CommitStatus(), (), "")
        partition.allocate("a", "app", memory(1))
        partition.connection.close()
        eventually(lambda: service.status().connected == 0)
        assert service.status().sessions == 1


def test_leader_with_a_log(tmp_path: Path) -> None:
    """The commits and the number of the last change grow with the changes."""
    with running(tmp_path, journal="j") as service, started(service) as partition:
        before = service.status()
        assert partition.allocate("a", "app", memory(1))
        after = service.status()
        assert (after.term, after.change) == (1, before.change + 1)
        assert after.commits.count == before.commits.count + 1
        assert after.operations.count == sum(after.operations.buckets) == before.operations.count + 1
        assert 0 < after.commits.median <= after.commits.p99 <= after.commits.seconds


def test_waiting_operations_are_counted(tmp_path: Path) -> None:
    """Operations wait from their arrival until their changes are durable."""
    with running(tmp_path, journal="j") as service, started(service) as partition:
        leader = service._leader
        assert leader is not None
        writer = leader.committer._change_queue
        assert writer is not None
        with writer._writing:
            futures = [partition.promise(partition.allocate, str(number), "app", memory(1)) for number in range(5)]
            eventually(lambda: service.status().waiting == 5)
        assert all(future.result(30) for future in futures)
        eventually(lambda: service.status().waiting == 0)


def test_standby_reports_to_the_leader(tmp_path: Path) -> None:
    """The leader lists its standbys with their lag, and every standby knows the same status."""
    with running(tmp_path, "one", journal="j", settings=ServiceSettings("first")) as leader:
        with running(tmp_path, "two", journal="j", settings=ServiceSettings("second")) as standby:
            assert not standby.status().leader
            with started(leader) as partition:
                partition.allocate("a", "app", memory(1))
                eventually(lambda: [one.lag for one in leader.status().standbys] == [0])
                [found] = leader.status().standbys
                assert (found.name, found.address) == ("second", f"unix:{tmp_path / 'two'}")
                assert found.change == leader.status().change
                assert found.seconds < 30
                eventually(lambda: standby.status().sessions >= 1 and standby.status().standbys)
                status = standby.status()
                assert (status.name, status.leader, status.is_leading) == ("second", "first", False)
                assert (status.term, status.address) == (1, f"unix:{tmp_path / 'one'}")
                assert 0 <= status.age < 30
                assert sum(session.is_connected for session in partition.sessions.sessions()) == 1
        eventually(lambda: not leader.status().standbys)


def test_status_after_a_takeover(tmp_path: Path) -> None:
    """A standby that leads states the next term, and one that stands by learns of it."""
    with running(tmp_path, "two", journal="j") as second:
        third = _begin(tmp_path, "three")
        eventually(lambda: second.status().standbys)
        second.stop()
        eventually(lambda: third.status().is_leading)
        assert third.status().term == 2
        fourth = _begin(tmp_path, "four")
        eventually(lambda: fourth.status().term == 2)
        fourth.stop()
        third.stop()


def _begin(folder: Path, name: str) -> Service:
    service = Service(folder / "j", f"unix:{folder / name}")
    service.start()
    return service


def test_reports_are_bounded(tmp_path: Path) -> None:
    """A report needs a read-only connection, and its texts are as long as the name of a client at most."""
    report = StandbyReport("x", "unix:/x", 3, 0.5)
    with running(tmp_path) as service:
        for is_reader, sent, answer in (
            (True, report, StatusMessage),
            (False, report, Refused),
            (True, StandbyReport("x" * 1000, "", 0, 0.0), Refused),
        ):
            with RawClient(service) as client:
                client.send(Hello(VERSION, "raw", "", "", 0, is_reader=is_reader))
                assert type(client.receive()) is Welcome
                client.send(sent)
                assert type(client.receive()) is answer
