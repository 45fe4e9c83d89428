"""Views of queues, applications, allocations and events."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from support.server_fixtures import PREFIX, STATUS, SUE, YUNIKORN, busy, client, create_partition, served
from ugm import Resource, UserGroup, parse_config
from ugm.partition import AbstractPartition

#: Every test runs with partitions in memory, with those of a store and with clients of a service.
pytestmark = pytest.mark.usefixtures("storage")


def test_queues_add_up() -> None:
    """The tree has the usage and the pending amounts in and below each queue."""
    root = client().get(f"{PREFIX}/queues").json()
    a, b = root["children"]

    assert (root["usage"], root["pending"], root["pending_allocations"]) == ({"memory": 6}, {"memory": 4}, 1)
    assert (root["applications"], root["running_applications"]) == (2, 1)
    assert (a["usage"], a["max_resources"], a["guaranteed"], a["share"]) == (
        {"memory": 6},
        {"memory": 9},
        {"memory": 4},
        1.5,
    )
    assert (b["queue_path"], b["applications"], b["running_applications"]) == ("root.b", 1, 0)


def test_overdue_allocations_have_owners() -> None:
    """Allocations after their promised end are listed with their users and queues, the first of them by end and id."""
    partition = create_partition(parse_config("partitions: [{queues: [{name: a}]}]").partition())
    partition.submit("app", SUE, "root.a")
    for name in ("late-1", "late-2"):
        assert partition.allocate(name, "app", Resource(memory=1), duration=60)
    rest = client(partition)

    assert rest.get(f"{PREFIX}/overdue").json() == {"total": 0, "allocations": []}
    found = rest.get(f"{PREFIX}/overdue", params={"now": 2**40, "limit": 1}).json()
    (one,) = found["allocations"]
    assert (found["total"], one["allocation_id"], one["user"], one["queue_path"]) == (2, "late-1", "sue", "root.a")


def test_scheduled_changes_are_text() -> None:
    """A coming change of limits is data and lines of text."""
    entry = "schedule: [{from: 2090-01-01, maxresources: {memory: 5}}]"
    config = parse_config(
        f"partitions: [{{queues: [{{name: a, resources: {{max: {{memory: 9}}}}, ugm: {{{entry}}}}}]}}]"
    )
    (change,) = client(create_partition(config.partition())).get(f"{PREFIX}/scheduled_changes").json()["changes"]

    assert change["text"] == "~ queue root.a: maximum memory 9 -> 5"


def test_a_queue_with_a_neighbour_of_a_longer_name() -> None:
    """A queue whose name begins with the name of another queue is not its child."""
    config = parse_config("partitions: [{queues: [{name: a, queues: [{name: x}]}, {name: a-b, queues: [{name: y}]}]}]")
    root = client(create_partition(config.partition())).get(f"{PREFIX}/queues").json()

    assert [(child["queue_path"], len(child["children"])) for child in root["children"]] == [
        ("root.a", 1),
        ("root.a-b", 1),
    ]


def test_one_queue() -> None:
    """A queue is returned with its headroom and the limits that the configuration sets on it."""
    body = client().get(f"{PREFIX}/queue/root").json()

    assert (body["headroom"], [child["queue_path"] for child in body["children"]]) == (None, ["root.a", "root.b"])
    assert body["limits"][0] == {
        "users": [],
        "groups": ["dev"],
        "max_resources": {"memory": 8},
        "max_applications": 0,
        "label": "team",
    }
    assert client().get(f"{PREFIX}/queue/root.A").json()["headroom"] == {"memory": 3}


def test_unknown_queue() -> None:
    """An unknown queue and an invalid path are different errors."""
    assert client().get(f"{PREFIX}/queue/root.z").json()["code"] == "queue-unknown"
    assert client().get(f"{PREFIX}/queue/z").json()["code"] == "path-invalid"


def crowd() -> AbstractPartition:
    """Return a partition in which users use different amounts, the first the least."""
    limits = "limits: [{users: ['*'], maxresources: {vcore: 9m}}, {groups: [dev], maxresources: {vcore: 8m}}]"
    config = parse_config(f"partitions: [{{queues: [{{name: a, {limits}}}]}}]").partition()
    partition = create_partition(config)
    for amount, name in enumerate(("ann", "Hannah", "bob", "eve"), 1):
        partition.submit(name, UserGroup(name, ("dev",) if amount == 4 else ()), "root.a")
        partition.allocate(name, name, Resource(vcore=amount))
    partition.submit("more", UserGroup("Hannah"), "root.a")
    partition.allocate("more", "more", Resource(vcore=0, memory=1))
    partition.request("waits", "bob", Resource(vcore=1))
    return partition


@pytest.mark.parametrize(
    ("query", "total", "names"),
    [
        ("", 4, ["eve", "bob", "Hannah", "ann"]),
        ("?search=ANN", 2, ["Hannah", "ann"]),
        ("?offset=1&limit=2", 4, ["bob", "Hannah"]),
        ("?offset=1&search=ann", 2, ["ann"]),
        ("?offset=9", 4, []),
        ("?search=nobody", 0, []),
        ("?sort=share", 4, ["eve", "bob", "Hannah", "ann"]),
        ("?sort=name", 4, ["ann", "bob", "eve", "Hannah"]),
        ("?sort=usage&resource=vcore&limit=2", 4, ["eve", "bob"]),
        ("?sort=usage&resource=gpu", 4, ["ann", "bob", "eve", "Hannah"]),
        ("?sort=applications", 4, ["Hannah", "ann", "bob", "eve"]),
        ("?sort=pending", 4, ["bob", "ann", "eve", "Hannah"]),
    ],
)
def test_users_are_found_sorted_and_paged(query: str, total: int, names: list[str]) -> None:
    """The total counts all that match, whichever of them are on the page."""
    body = client(crowd()).get(f"{PREFIX}/utilization/users{query}").json()
    assert (body["total"], [one["name"] for one in body["utilizations"]]) == (total, names)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("utilization/user", "kind: Invalid enum value 'user' (allowed: groups, users)"),
        ("utilization/users?sort=age", "(allowed: applications, name, pending, share, usage)"),
        ("applications?state=done", "(allowed: new, accepted, running, completing, completed, failing, failed)"),
        (
            "stream?topic=users&topic=nodes",
            "'nodes' (allowed: groups, queues, trees, users)",
        ),
    ],
)
def test_allowed_values_are_listed(path: str, text: str) -> None:
    """A value that is none of a few allowed ones is refused with these."""
    answer = client().get(f"{PREFIX}/{path}")
    assert (answer.status_code, answer.json()["detail"].endswith(text)) == (400, True), answer.text


def test_groups_are_listed_with_their_share() -> None:
    """The distance of a group to its nearest limit is the used part of it."""
    [group] = client(crowd()).get(f"{PREFIX}/utilization/groups").json()["utilizations"]
    assert (group["name"], group["share"]) == ("dev", 0.5)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["app", "idle"]),
        ("queue=root.A", ["app"]),
        ("queue=root", ["app", "idle"]),
        ("user=bob", ["idle"]),
        ("group=dev", ["app"]),
        ("state=new", ["idle"]),
        ("state=running&user=bob", []),
        ("after=app", ["idle"]),
    ],
)
def test_applications(query: str, found: list[str]) -> None:
    """Applications are found by queue, user, group and state."""
    body = client().get(f"{PREFIX}/applications?{query}").json()

    assert [line["application_id"] for line in body["applications"]] == found
    assert body["next"] is None


def test_pages() -> None:
    """All pages together contain every application once."""
    partition = busy()
    for number in range(7):
        partition.submit(f"new-{number}", SUE, "root.b")
    rest, found = client(partition), []
    after: str | None = ""
    while after is not None:
        body = rest.get(f"{PREFIX}/applications", params={"limit": 3, "after": after}).json()
        found.append([line["application_id"] for line in body["applications"]])
        after = body["next"]

    assert [len(page) for page in found] == [3, 3, 3]
    assert [name for page in found for name in page] == list(partition.application_ids())


def test_allocations_have_holders() -> None:
    """An allocation is returned with its user, its group and its queue; they are found by their application."""
    rest = client()
    (held, pending) = rest.get(f"{PREFIX}/allocations").json()["allocations"]

    assert (held["user"], held["group"], held["queue_path"], held["state"]) == ("sue", "dev", "root.a", "held")
    assert pending["state"] == "pending"
    assert rest.get(f"{PREFIX}/allocation/held").json() == held
    assert rest.get(f"{PREFIX}/allocations?application=app&after=held").json()["allocations"] == [pending]
    assert rest.get(f"{PREFIX}/allocations?application=nothing").json()["code"] == "application-unknown"
    assert rest.get(f"{PREFIX}/allocation/nothing").json()["code"] == "allocation-unknown"


def test_application_says_why_it_waits() -> None:
    """An application is returned with its limits, and the reasons for its pending allocations."""
    body = client().get(f"{PREFIX}/application/app").json()
    (waiting,) = body["waiting"]

    assert (body["state"], body["headroom"], body["tags"]) == ("running", {"memory": 2}, {"tier": "gold"})
    assert waiting["allocation"]["allocation_id"] == "pending"
    assert [found["name"] for found in waiting["explanation"]["violations"]] == ["dev", "root.a"]
    assert client().get(f"{PREFIX}/application/idle").json()["waiting"] == []


def test_nodes() -> None:
    """Nodes are returned with their resources, and the partition with their sum."""
    partition = busy()
    partition.add_node("n1", Resource(memory=70))

    assert client(partition).get(f"{PREFIX}/nodes").json() == {"n1": {"memory": 70}}
    assert client(partition).get(PREFIX).json()["cluster"] == {"memory": 70}


def test_history() -> None:
    """The newest events can be filtered by kind and by number."""
    rest = client()
    body = rest.get(f"{PREFIX}/history?kind=denied").json()

    assert [(line["event"], line["times"], line["first_at"]) for line in body["records"]] == [("denied", 1, 7)]
    assert body["counts"]["allocated"] == 1
    assert rest.get(f"{PREFIX}/history", params={"after": body["newest"]}).json()["records"] == []


def test_partition_of_a_service() -> None:
    """The status of the service is returned, also by a process that stands by, and changes from request to request."""
    found = [STATUS, replace(STATUS, name="b:2", is_leading=False, age=0.5)]
    found += [replace(STATUS, outage="no space"), replace(STATUS, leader=""), STATUS]
    rest = client(busy(), services={"default": lambda: found.pop(0)})

    assert rest.get(PREFIX).json()["has_service"] is True
    answer = rest.get(f"{PREFIX}/service").json()
    assert answer["commits"]["count"] == sum(answer["commits"]["buckets"]) == 9
    assert (answer["commits"]["median"], answer["commits"]["p99"]) == (0.004, 0.125)
    assert {**answer, "name": "b:2", "is_leading": False, "age": 0.5} == rest.get(f"{PREFIX}/service").json()
    healths = [rest.get("/api/v1/health").json() for _ in range(3)]
    assert [(one["status"], one["reason"]) for one in healths] == [
        ("critical", "partition default: no space"),
        ("critical", "partition default: no process leads"),
        ("ok", ""),
    ]


def test_partitions() -> None:
    """All partitions are returned with a summary; one without a history or service says so."""
    (summary,) = client().get("/api/v1/partitions").json()
    counts = {"users": 1, "groups": 1, "queues": 3, "applications": 2, "allocations": 2, "nodes": 0}
    parts = {"has_history": True, "has_service": False}
    assert summary == {"name": "default", "usage": {"memory": 6}, "cluster": None, **counts, **parts}
    rest = client(busy())
    assert (rest.get(PREFIX).json()["has_history"], rest.get(PREFIX).json()["has_service"]) == (False, False)
    assert rest.get(f"{PREFIX}/history").json()["code"] == "history-missing"
    assert rest.get(f"{PREFIX}/service").json()["code"] == "service-missing"


def test_health() -> None:
    """The health contains the partitions, the start, and the result of the last configuration."""
    body = client().get("/api/v1/health").json()

    assert (body["status"], body["started"], body["read_only"], body["partitions"]) == ("ok", 7, False, ["default"])
    in_force = {"source": "start", "at": 7}
    nothing: dict[str, object] = {"file": None, "problems": [], "refused": [], "unapplied": []}
    assert (body["reason"], body["configuration"]) == ("", {**in_force, **nothing, "in_force": in_force})


def test_mounted() -> None:
    """A mounted application serves everything below its path."""
    rest = TestClient(Starlette(routes=[Mount("/quota", app=served())]))

    assert rest.get(f"/quota{YUNIKORN}/usage/user/sue").json()["userName"] == "sue"
    page = rest.get("/quota/").headers
    assert page["content-type"] == "text/html; charset=utf-8"
    assert page["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert rest.get("/quota/openapi.json").json()["servers"] == [{"url": "/quota"}]


def test_each_reference_of_the_description_exists() -> None:
    """Generators of clients stop at a reference to a missing schema."""
    description = client().get("/openapi.json")
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', description.text))

    assert names
    assert names <= description.json()["components"]["schemas"].keys()
