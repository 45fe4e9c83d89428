"""Waiting work over REST: positions, ages, reasons, and the search among applications."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from support.server_fixtures import CONFIG, PREFIX, SUE, create_partition, storage
from support.service_fixtures import eventually
from ugm import Resource, UserGroup, parse_config
from ugm.partition import AbstractPartition
from ugm.server import History, create_app
from ugm.server.views.usage import earlier_changes
from ugm.store import open_partition

__all__ = ["storage"]

CONFIGURED = parse_config(CONFIG).partition()
BOB = UserGroup("bob")


class World:
    """A partition in which sue holds 6 of 8, and bob and sue wait, and a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        history = History(clock=lambda: self.now)
        self.partition: AbstractPartition = create_partition(CONFIGURED, subscribers=[history])
        self.partition.submit("held-app", SUE, "root.a", tags={"team": "Vision"})
        self.partition.allocate("held", "held-app", Resource(memory=6))
        self.now = 110.0
        self.partition.submit("later", BOB, "root.a")
        self.partition.request("b-1", "later", Resource(memory=4))
        eventually(lambda: history.page().counts.get("asked", 0) >= 1)
        self.now = 120.0
        self.partition.request("s-1", "held-app", Resource(memory=3))
        self.partition.request("s-2", "held-app", Resource(memory=1))
        eventually(lambda: history.page().counts.get("asked", 0) >= 3)
        self.now = 130.0
        app = create_app({"default": self.partition}, history={"default": history}, clock=lambda: self.now)
        self.client = TestClient(app)

    def get(self, path: str, **query: str | int) -> Any:  # noqa: ANN401 - parsed JSON
        """Return the response to a request."""
        answer = self.client.get(f"{PREFIX}/{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()


def ids(found: Any) -> list[str]:  # noqa: ANN401 - parsed JSON
    """Return the ids of the listed requests."""
    return [one["allocation_id"] for one in found["requests"]]


@pytest.mark.usefixtures("storage")
def test_requests_have_position_age_and_reasons() -> None:
    """A request has its position in the scheduling order, its time, and the violated limits with their holders."""
    world = World()
    found = world.get("waiting")
    order = [turn.request.allocation_id for turn in world.partition.order()]
    first = next(one for one in found["requests"] if one["allocation_id"] == "s-1")
    violations = {(one["kind"], one["shortfall"]) for one in first["reasons"]["violations"]}

    assert (found["as_of"], found["total"], ids(found)) == (130, 3, order)
    assert [one["position"] for one in found["requests"]] == [1, 2, 3]
    assert {one["allocation_id"]: one["requested_at"] for one in found["requests"]} == {
        "b-1": 110,
        "s-1": 120,
        "s-2": 120,
    }
    assert violations == {("group", 1)}
    assert first["reasons"]["violations"][0]["holders"][0]["application_id"] == "held-app"
    assert "3 memory requested" in first["reasons"]["text"]
    assert first["reasons"]["can_wait"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"user": "bob"}, {"b-1"}),
        ({"application": "held-app"}, {"s-1", "s-2"}),
        ({"queue": "root.b"}, set()),
        ({"queue": "root.A"}, {"b-1", "s-1", "s-2"}),
        ({"search": "S-"}, {"s-1", "s-2"}),
        ({"search": "LATER"}, {"b-1"}),
        ({"older_than": 15}, {"b-1"}),
        ({"limit": 0 + 1, "sort": "age"}, {"b-1"}),
        ({"offset": 2, "sort": "name"}, {"s-2"}),
    ],
)
def test_requests_are_selected(query: dict[str, Any], expected: set[str]) -> None:
    """Requests are selected by user, application, queue, text and age, sorted, and cut into pages."""
    assert set(ids(World().get("waiting", **query))) == expected


def test_users_and_applications_with_only_pending_work_are_listed() -> None:
    """Each has the sum of its requests, the first position, and the time of the oldest request."""
    world = World()
    users = {one["user"]: one for one in world.get("waiting/users", sort="name")["users"]}
    applications = {one["application_id"]: one for one in world.get("waiting/applications")["applications"]}

    assert (users["bob"]["running_applications"], users["sue"]["running_applications"]) == (0, 1)
    assert (users["bob"]["pending"], users["bob"]["requested_at"]) == ({"memory": 4}, 110)
    assert (users["sue"]["pending"], users["sue"]["pending_allocations"]) == ({"memory": 4}, 2)
    assert {one["position"] for one in users.values()} >= {1}
    assert (applications["later"]["submitted_at"], applications["held-app"]["submitted_at"]) == (110, 100)


@pytest.mark.usefixtures("storage")
def test_applications_are_searched() -> None:
    """The text is searched in ids, users, groups, queues and tags; the age is that since the submission."""
    world = World()

    def names(**query: str | int) -> list[str]:
        return [one["application_id"] for one in world.get("applications", **query)["applications"]]

    assert names(search="VISION") == names(search="sue") == names(search="dev") == ["held-app"]
    assert names(search="root.a") == ["held-app", "later"]
    assert names(older_than=25) == ["held-app"]
    assert world.get("applications", limit=1)["applications"][0]["submitted_at"] == 100
    # Without a history, ages are unknown, and nothing is older than a given age.
    world.client = TestClient(create_app({"default": world.partition}))
    assert {one["requested_at"] for one in world.get("waiting")["requests"]} == {None}
    assert world.get("waiting", older_than=0)["total"] == 0
    assert names(older_than=0) == []


def test_a_store_has_the_times_before_the_start(tmp_path: Path) -> None:
    """The times of requests from before the start of the server are those of the store."""
    path, history = tmp_path / "quota.db", History()
    with open_partition(path, CONFIGURED, clock=lambda: 7) as partition:
        partition.submit("app", SUE, "root.a")
        partition.request("r", "app", Resource(memory=1))
        history.add_earlier(earlier_changes(path)[0])

    assert (history.times.submitted["app"], history.times.requested) == (7, {"r": 7})
