"""Usage over time: samples of every subject, their endpoints, and those that a journal contains."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from starlette.testclient import TestClient

from support.server_fixtures import CONFIG, PREFIX, SUE, create_partition, storage
from support.service_fixtures import eventually
from ugm import Resource, UserGroup, parse_config
from ugm.events import Denied
from ugm.journal import open_partition
from ugm.partition import AbstractPartition
from ugm.server import History, create_app
from ugm.server.usage_history import UsageHistory

__all__ = ["storage"]

CONFIGURED = parse_config(CONFIG).partition()


class World:
    """A partition behind a server, and a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.history = History(clock=lambda: self.now)
        self.partition: AbstractPartition = create_partition(CONFIGURED, subscribers=[self.history])
        app = create_app({"default": self.partition}, history={"default": self.history}, clock=lambda: self.now)
        self.usage: UsageHistory = app.state.usage_histories["default"]
        self.client = TestClient(app)

    def sample(self, at: float) -> None:
        """Take a sample at a time."""
        self.now = at
        assert self.usage.take()

    def get(self, **query: str) -> Any:  # noqa: ANN401 - parsed JSON
        """Return the usage history of a subject."""
        answer = self.client.get(f"{PREFIX}/usage_history", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.mark.usefixtures("storage")
def test_all_subjects_are_sampled() -> None:
    """Queues, users and groups have their usage, pending requests, running applications and limits."""
    world = World()
    world.sample(0)
    world.partition.submit("app", SUE, "root.a")
    world.partition.allocate("held", "app", Resource(memory=6))
    world.partition.request("waiting", "app", Resource(memory=1))
    world.sample(15)
    world.partition.release("held")
    world.partition.release("waiting")
    world.sample(30)
    expected = {"usage": {"memory": [0, 6, 0]}, "pending": {"memory": [0, 1, 0]}}
    counts = {"running_applications": [0, 1, 0], "pending_allocations": [0, 1, 0]}
    queue, user = world.get(kind="queue", name="root.A"), world.get(kind="user", name="sue")
    group = world.get(kind="group", name="dev")

    assert queue["times"] == [0, 15, 30]
    assert queue["amounts"] == {**expected, "limit": {"memory": [9] * 3}, "guaranteed": {"memory": [4] * 3}}
    assert queue["counts"] == counts
    assert user["amounts"] == {**expected, "limit": {"memory": [None, 10, None]}}
    assert user["counts"] == {**counts, "application_limit": [None, 3, None]}
    assert group["amounts"] == {**expected, "limit": {"memory": [None, 8, None]}}


@pytest.mark.usefixtures("storage")
def test_denials_are_counted_for_owners() -> None:
    """A denial counts for the user, the group and the queues of its application, in the interval in which it occurs."""
    world = World()
    world.partition.submit("app", SUE, "root.a")
    world.partition.allocate("held", "app", Resource(memory=6))
    world.sample(0)
    for _ in range(3):
        assert not world.partition.allocate("more", "app", Resource(memory=5))
    # A service delivers events after the answers.
    eventually(lambda: sum(record.times for record in world.history.records(kind="denied")) == 3)
    world.sample(15)
    world.sample(30)
    subjects = (("queue", "root"), ("queue", "root.a"), ("user", "sue"), ("group", "dev"))

    for kind, name in subjects:
        assert world.get(kind=kind, name=name)["counts"]["denials"] == [None, 3, 0]


def test_denials_of_applications_from_before_the_history_count() -> None:
    """The owner of an application that was submitted before the history subscribed is read from the partition."""
    world = World()
    world.partition.submit("app", SUE, "root.a")
    world.partition.allocate("held", "app", Resource(memory=6))
    late = History(clock=lambda: world.now)
    usage = UsageHistory(world.partition, late, clock=lambda: world.now)
    assert not world.partition.allocate("more", "app", Resource(memory=5))
    denied = world.history.records(kind="denied")[0]
    late(denied.number, (cast("Denied", denied.event),))
    usage.take()

    view = usage.store.read(("queue", "root"), "hour", 0)
    assert view.values["denials", ""] == [1]


def test_samples_are_taken_once_in_a_step() -> None:
    """A second sample in the same 15 seconds is not taken."""
    world = World()
    world.sample(0)
    world.now = 14.9

    assert not world.usage.take()


def test_csv_has_the_same_values() -> None:
    """The CSV has a row for each sample and resource, with fixed columns and named units."""
    world = World()
    world.sample(0)
    world.partition.submit("app", SUE, "root.a")
    world.partition.allocate("held", "app", Resource(memory=2**70))
    world.partition.allocate("held", "app", Resource(memory=6))
    world.sample(15)
    answer = world.client.get(f"{PREFIX}/usage_history.csv", params={"kind": "user", "name": "sue"})

    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.text.splitlines() == [
        (
            "time,resource,unit,usage,pending,limit,guaranteed,minimum,runtime,request,borrowed,lent,"
            "running_applications,application_limit,pending_allocations,denials"
        ),
        "1970-01-01T00:00:00.000Z,memory,bytes,0,,,,,,,,,0,,,",
        "1970-01-01T00:00:15.000Z,memory,bytes,6,,10,,,,,,,1,3,,1",
    ]


def test_sparklines_of_several_names() -> None:
    """Sparklines have one value in each coarser step, and their newest limit; later ones continue them."""
    world = World()
    world.partition.submit("app", SUE, "root.a")
    for number in range(9):
        world.partition.allocate(f"held-{number}", "app", Resource(memory=1))
        world.sample(number * 15)
    query: dict[str, Any] = {"kind": "user", "names": ["sue", "bob"], "resource": "memory", "points": 60}
    first = world.client.get(f"{PREFIX}/sparklines", params=query).json()
    world.sample(135)
    more = world.client.get(f"{PREFIX}/sparklines", params={**query, "after": first["newest"]}).json()

    assert first["times"] == [45, 105, 120]
    assert first["values"] == {"sue": [4, 8, 8], "bob": [0, 0, 0]}
    assert first["limits"] == {"sue": 10, "bob": None}
    assert (more["times"], more["values"]["sue"]) == ([135], [8])


def test_the_tree_of_a_node_is_needed() -> None:
    """A node of a tree without its tree is refused."""
    answer = World().client.get(f"{PREFIX}/usage_history", params={"kind": "tree_node", "name": "A"})

    assert (answer.status_code, answer.json()["detail"]) == (400, "tree: missing")


def test_a_journal_has_the_usage_before_the_start(tmp_path: Path) -> None:
    """The samples before the start are computed from the journal, at the times of all ranges."""
    now, path = 0, tmp_path / "quota.journal"
    with open_partition(path, CONFIGURED, clock=lambda: now / 1000) as partition:
        partition.submit("app", SUE, "root.a")
        for number in range(1, 9):
            now = number * 1_800_000
            partition.allocate(f"held-{number}", "app", Resource(memory=1))
        now += 900_000
        usage = UsageHistory(partition, clock=lambda: now / 1000)
        usage.load(path)
        usage.take()
    week = usage.store.read(("user", "sue"), "week", now)
    hour = usage.store.read(("queue", "root"), "hour", now)

    assert week.values["usage", "memory"] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert hour.values["usage", "memory"] == [6] * 60 + [7] * 120 + [8] * 61


def test_a_journal_has_the_pending_requests_since_its_compaction(tmp_path: Path) -> None:
    """Pending requests are those of the journal since its compaction, until they are granted or withdrawn."""
    now, path = 0, tmp_path / "quota.journal"
    with open_partition(path, CONFIGURED, clock=lambda: now / 1000) as partition:
        partition.submit("app", SUE, "root.a")
        partition.request("early", "app", Resource(memory=1))
        now = 300_000
        partition.submit("other", SUE, "root.a")
        partition.journal.compact()
        now = 600_000
        partition.request("late", "app", Resource(memory=2))
        now = 1_200_000
        partition.allocate("late", "app", Resource(memory=2))
        now = 1_800_000
        partition.release("early")
        now = 2_400_000
        usage = UsageHistory(partition, clock=lambda: now / 1000)
        usage.load(path)
        usage.take()
    views = {kind: usage.store.read((kind, name), "day", now) for kind, name in (("queue", "root"), ("group", "dev"))}

    # Every 5 minutes from minute 5 on; the group is assigned with the first grant.
    assert views["queue"].values["pending", "memory"] == [1, 3, 3, 1, 1, None, None, None]
    assert views["queue"].values["pending_allocations", ""] == [1, 2, 2, 1, 1, None, None, None]
    assert views["group"].values["pending", "memory"] == [None, None, None, 1, 1, None, None, None]


def test_a_missing_journal_is_no_obstacle(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A server whose journal cannot be read starts with an empty usage history."""
    app = create_app({"default": create_partition(CONFIGURED)}, journals={"default": tmp_path / "none.journal"})
    with TestClient(app) as client:
        answer = client.get(f"{PREFIX}/usage_history", params={"kind": "user", "name": UserGroup("ana").name})

    assert answer.json()["amounts"] == {}
    assert "the usage history begins now" in caplog.text
