"""Sessions of a service: ownership, fencing, takeover and release of the allocations of a client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import time

import pytest

from support.service_fixtures import running
from ugm import RequestError, Resource, UserGroup, parse_config
from ugm.service import ConnectedPartition, FencedError, Service, connect

CONFIG = parse_config(
    "partitions: [{name: default, queues: [{name: prod, resources: {max: {memory: 10}}}]}]"
).partition()
UNIT = Resource(memory=1)


@pytest.fixture(params=[None, "quota.db"], ids=["memory", "store"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    """A service in this process."""
    with running(tmp_path, store=request.param, given=CONFIG) as service:
        yield service


@pytest.fixture
def one(service: Service) -> Iterator[ConnectedPartition]:
    """A client with an application and an allocation."""
    with connect(str(service.addresses[0]), client="one") as partition:
        partition.submit("app", UserGroup("sue"), "root.prod")
        assert partition.allocate("a-1", "app", UNIT)
        yield partition


@pytest.fixture
def two(service: Service, one: ConnectedPartition) -> Iterator[ConnectedPartition]:
    """Another client with an allocation of the same application."""
    assert one.application("app")
    with connect(str(service.addresses[0]), client="two") as partition:
        assert partition.allocate("a-2", "app", UNIT)
        yield partition


def owned(partition: ConnectedPartition, session: str) -> list[str]:
    """Return the ids of the allocations of a session."""
    return [each.allocation.allocation_id for each in partition.sessions.owned_by(session)]


def test_reports(one: ConnectedPartition, two: ConnectedPartition) -> None:
    """Every session is listed with its client and the number of its allocations."""
    reports = one.sessions.sessions()
    assert [(report.client, report.allocations, report.is_connected) for report in reports] == [
        ("one", 1, True),
        ("two", 1, True),
    ]
    assert one.sessions.sessions(silent_for=1) == ()
    assert owned(one, two.connection.session) == ["a-2"]


def test_ages(one: ConnectedPartition, two: ConnectedPartition) -> None:
    """Every allocation is listed with the time at which it was obtained, which a takeover does not change."""
    before = one.sessions.owned_by(two.connection.session)
    assert abs(before[0].obtained_at / 1000 - time()) < 60
    assert before[0].to_dict()["obtained_at"] == before[0].obtained_at
    one.sessions.take_over(two.connection.session)
    assert before[0] in one.sessions.owned_by(one.connection.session)


def test_a_client_that_leaves_keeps_its_allocations(service: Service, one: ConnectedPartition) -> None:
    """The session of a client without allocations ends with it; another one stays and is silent."""
    with connect(str(service.addresses[0]), client="idle"):
        assert sum(session.is_connected for session in one.sessions.sessions()) == 2
    other = connect(str(service.addresses[0]), client="other")
    assert other.allocate("a-3", "app", UNIT)
    session = other.connection.session
    other.connection.close()
    reports = {report.client: report for report in one.sessions.sessions()}
    assert set(reports) == {"one", "other"}
    assert not reports["other"].is_connected
    assert owned(one, session) == ["a-3"]


def test_releases_by_others_end_the_ownership(one: ConnectedPartition, two: ConnectedPartition) -> None:
    """Any client may release an allocation; its owner does not own it then."""
    assert two.release("a-1")
    assert owned(two, one.connection.session) == []


def test_a_fenced_session_can_change_nothing(one: ConnectedPartition, two: ConnectedPartition) -> None:
    """It gets an error for every change, and may still read."""
    one.sessions.fence(two.connection.session)
    one.sessions.fence(two.connection.session)
    for change in (
        lambda: two.release("a-1"),
        lambda: two.release("a-2"),
        lambda: two.allocate("a-3", "app", UNIT),
        lambda: two.sessions.fence(one.connection.session),
    ):
        with pytest.raises(FencedError) as caught:
            change()
        assert caught.value.session == two.connection.session
    assert two.allocation_ids() == ("a-1", "a-2")


def test_takeover(one: ConnectedPartition, two: ConnectedPartition) -> None:
    """The allocations belong to the caller, and the other session is fenced."""
    session = two.connection.session
    assert one.sessions.take_over(session) == ("a-2",)
    assert owned(one, one.connection.session) == ["a-1", "a-2"]
    assert one.sessions.take_over(session) == ()
    with pytest.raises(FencedError):
        two.release("a-2")
    assert one.release("a-2")
    with pytest.raises(RequestError, match="its own"):
        one.sessions.take_over(one.connection.session)


def test_release_of(one: ConnectedPartition, two: ConnectedPartition) -> None:
    """The allocations of the other session are released."""
    assert one.sessions.release_of(two.connection.session) == ("a-2",)
    assert one.allocation_ids() == ("a-1",)
    assert one.sessions.forget(two.connection.session)
    assert not one.sessions.forget(two.connection.session)
    assert [report.client for report in one.sessions.sessions()] == ["one"]


def test_sessions_that_own_something_are_not_forgotten(one: ConnectedPartition, two: ConnectedPartition) -> None:
    """Only a fenced session without allocations can be removed."""
    with pytest.raises(RequestError, match="not fenced"):
        one.sessions.forget(two.connection.session)
    one.sessions.fence(two.connection.session)
    with pytest.raises(RequestError, match="owns"):
        one.sessions.forget(two.connection.session)


def test_unknown_sessions(one: ConnectedPartition) -> None:
    """A session that does not exist is an error, but for `forget`."""
    for call in (one.sessions.fence, one.sessions.take_over, one.sessions.release_of, one.sessions.owned_by):
        with pytest.raises(RequestError, match="no such session"):
            call("nobody")
    assert not one.sessions.forget("nobody")


def test_sessions_survive_a_restart(tmp_path: Path) -> None:
    """After a restart the sessions have their allocations, and those that were fenced are."""
    with running(tmp_path, store="quota.db", given=CONFIG) as service:
        one, two = (connect(str(service.addresses[0]), client=name) for name in ("one", "two"))
        one.submit("app", UserGroup("sue"), "root.prod")
        assert one.allocate("a-1", "app", UNIT)
        assert two.allocate("a-2", "app", UNIT)
        one.sessions.fence(two.connection.session)
    # Both clients reconnect by themselves and continue their sessions.
    with running(tmp_path, store="quota.db", given=None), one, two:
        assert owned(one, one.connection.session) == ["a-1"]
        assert owned(one, two.connection.session) == ["a-2"]
        assert one.release("a-1")
        with pytest.raises(FencedError):
            two.release("a-2")
