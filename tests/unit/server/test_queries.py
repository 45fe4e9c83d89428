"""Queries of clients: checks, explanations, limits, plans and validations. They change nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from support.partition_fixtures import changing_nothing, config, memory, started
from support.server_fixtures import CONFIG, PREFIX, SUE, YAML, busy, client, create_partition
from ugm import AllocationRequest, Resource, UserGroup, UserInQueue
from ugm.partition import AbstractPartition
from ugm.preemption import PreemptionPlan

#: Runs a test with partitions in memory, with those of a store and with clients of a service.
WITH_EACH_STORAGE = pytest.mark.usefixtures("storage")

ME = {"user": "sue", "groups": ["dev"], "queue": "root.a"}
APP = {"application_id": "app", "usage": {"memory": 3}}
NEW = {"user": "new", "queue": "root.new"}


def new(quota: int | None = None) -> UserInQueue:
    """Return a user in a queue that placement would create, possibly with the quota of a namespace."""
    return UserInQueue(UserGroup("new"), "root.new", quota=None if quota is None else memory(quota))


def preempting(partition: AbstractPartition) -> PreemptionPlan:
    """Return a plan within a queue."""
    return partition.plan_preemption(AllocationRequest("", "app", memory(3)), since=0, now=60, within_queue=True)


#: Queries with the calls that have the same values.
QUERIES: Final[list[tuple[str, dict[str, Any], Callable[[AbstractPartition], Any]]]] = [
    ("check", APP, lambda p: p.check("app", memory(3))),
    ("check", {**ME, "usage": {"memory": "3"}}, lambda p: p.check(UserInQueue(SUE, "root.a"), memory(3))),
    ("check", {**NEW, "usage": {"memory": 60}}, lambda p: p.check(new(), memory(60))),
    ("check", {**NEW, "usage": {"memory": 3}, "quota": {"memory": "3"}}, lambda p: p.check(new(3), memory(3))),
    ("explain", {**NEW, "usage": {"memory": 3}, "quota": {"memory": "2"}}, lambda p: p.explain(new(2), memory(3))),
    ("explain", {**APP, "max_holders": 1}, lambda p: p.explain("app", memory(3), max_holders=1)),
    (
        "explain",
        {**ME, "usage": {"vcore": "250m", "memory": "1Ki"}},
        lambda p: p.explain(UserInQueue(SUE, "root.a"), Resource(vcore=250, memory=1024)),
    ),
    ("plan_preemption", {**APP, "since": 0, "now": 60, "within_queue": True}, preempting),
    ("plan_reductions", {"now": 5}, lambda p: p.plan_reductions(5)),
]


@WITH_EACH_STORAGE
@pytest.mark.parametrize(("name", "body", "call"), QUERIES)
def test_answers_are_those_of_the_partition(
    name: str, body: dict[str, Any], call: Callable[[AbstractPartition], Any]
) -> None:
    """A query over REST has the values and the text of the partition, and changes nothing."""
    partition = busy()
    with changing_nothing(partition):
        answer = client(partition).post(f"{PREFIX}/{name}", json=body)
    assert answer.status_code == 200, answer.text
    expected = call(partition)
    assert {**answer.json(), **json.loads(json.dumps(expected.to_dict()))} == answer.json()
    assert answer.json()["text"] == str(expected)


@WITH_EACH_STORAGE
def test_placement_of_a_new_application() -> None:
    """A query for a user has the placement of a new application; without a queue it has the result of every rule."""
    partition = busy()
    found, nowhere = (
        client(partition).post(f"{PREFIX}/explain", json={**who, "usage": {"memory": 1}}).json()
        for who in (ME, {"user": "sue"})
    )
    assert (found["queue_path"], found["placement"]) == ("root.a", partition.place(SUE, "root.a").to_dict())
    assert (nowhere["allowed"], nowhere["can_wait"], nowhere["queue_path"], nowhere["limits"]) == (
        *(False, False, None, []),
    )
    assert nowhere["text"] == str(partition.place(SUE, ""))


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize("rounds", [8, pytest.param(60, marks=pytest.mark.deep)])
def test_an_explanation_is_of_one_moment(rounds: int) -> None:
    """Decision, holders, limits and headroom, and the sums of queues, are consistent while the partition changes."""
    partition, stop = (
        create_partition(config("{name: a}", limits='{users: ["*"], maxresources: {memory: 8}}')),
        threading.Event(),
    )
    started(partition, "base", 3)
    partition.submit("more", SUE, "root.a")
    partition.request("waits", "base", Resource(memory=8))

    def change() -> None:
        while not stop.is_set():
            assert partition.allocate("x", "more", Resource(memory=3))
            partition.release("x")

    thread = threading.Thread(target=change)
    thread.start()
    client_of = client(partition)
    used: set[int] = set()
    try:
        for number in range(60):
            if number >= rounds and used == {3, 6}:
                break
            root = client_of.get(f"{PREFIX}/queues").json()
            assert root["usage"]["memory"] == root["children"][0]["usage"]["memory"] <= 8
            body = {"application_id": "base", "usage": {"memory": 8}}
            one = client_of.post(f"{PREFIX}/explain", json=body).json()
            other = client_of.get(f"{PREFIX}/application/base").json()["waiting"][0]["explanation"]
            me = client_of.post(f"{PREFIX}/explain", json={**ME, "groups": [], "usage": {"memory": 8}}).json()
            for body_found in (one, other, me):
                (violation,), (limit,) = body_found["violations"], body_found["limits"]
                held = sum(holder["amount"] for holder in violation["holders"])
                assert violation["used"] == held == limit["usage"]["memory"] == 8 - body_found["headroom"]["memory"]
                used.add(held)
    finally:
        stop.set()
        thread.join()

    assert used == {3, 6}


@WITH_EACH_STORAGE
def test_limits() -> None:
    """The limits of a user in a queue can be queried without a request."""
    body = client().get(f"{PREFIX}/limits?user=sue&group=dev&group=ops&queue=root.A").json()

    assert body["queue_path"] == "root.a"
    assert [limit["name"] for limit in body["limits"]] == ["sue", "dev", "root.a"]
    assert body["headroom"] == {"memory": 2}


@WITH_EACH_STORAGE
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "body: Object missing required field `usage`"),
        ({"application_id": "app", "usage": {"memory": 1.5}}, "body.usage: 'memory': expected a whole number"),
        ({"application_id": "app", "usage": {"memory": True}}, "body.usage: 'memory': expected a whole number"),
        ({"application_id": "app", "usage": {"memory": "1m"}}, "body.usage: 'memory': expected a whole number"),
        ({"application_id": 7, "usage": {}}, "body.application_id: Expected `str`"),
        ([], "body: Expected `object`"),
    ],
)
def test_malformed_questions(body: object, message: str) -> None:
    """A body that violates the schema is refused with the place of the violation."""
    answer = client().post(f"{PREFIX}/check", json=body)

    assert (answer.status_code, answer.json()["code"]) == (400, "body-invalid")
    assert answer.json()["detail"].startswith(message)


@WITH_EACH_STORAGE
def test_unknown_application() -> None:
    """A query about an unknown application gets an error."""
    answer = client().post(f"{PREFIX}/explain", json={"application_id": "nothing", "usage": {}})

    assert (answer.status_code, answer.json()["code"]) == (404, "application-unknown")


@WITH_EACH_STORAGE
def test_plan() -> None:
    """A plan returns the effects of a configuration, and changes nothing."""
    partition = busy()
    with changing_nothing(partition):
        body = (
            client(partition)
            .post(f"{PREFIX}/plan", content=CONFIG.replace("memory: 8", "memory: 5"), headers=YAML)
            .json()
        )

    assert [found["name"] for found in body["newly_exceeded"]] == ["dev"]
    assert "group limit 'dev' in root" in body["text"]


@WITH_EACH_STORAGE
def test_plan_without_the_partition() -> None:
    """A plan for another partition is refused."""
    answer = client().post(f"{PREFIX}/plan", content=CONFIG.replace("name: default", "name: other"), headers=YAML)

    assert (answer.status_code, answer.json()["problems"][0]["code"]) == (422, "partition-missing")


@pytest.mark.usefixtures("service")
def test_validate() -> None:
    """A validation returns all problems and warnings of a configuration; an invalid one is not a refused request."""

    def validated(text: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = client().post("/api/v1/validate-conf", content=text, headers=YAML).json()
        return found

    assert validated(CONFIG) == {"allowed": True, "reason": "", "problems": [], "warnings": []}
    wrong = validated(CONFIG.replace("[dev]", "[]").replace("50", "x"))
    assert (wrong["allowed"], len(wrong["problems"])) == (False, 2)
    assert wrong["reason"] == wrong["problems"][0]["message"]
    misspelt = validated(CONFIG.replace("memory", "Memory"))
    assert (misspelt["allowed"], misspelt["problems"]) == (True, [])
    assert {warning["code"] for warning in misspelt["warnings"]} == {"resource-name-misspelt"}


def test_preemption_status() -> None:
    """The state of preemption has the terminating allocations with their owners, and counts of plans."""
    partition = busy()
    held = [one.allocation_id for one in partition.allocations() if one.state == "held"]
    partition.preempt(held[0])
    shown = client(partition).get(f"{PREFIX}/preemption").json()

    assert shown == partition.preemption_status().to_dict()
    assert [one["allocation_id"] for one in shown["terminating"]] == [held[0]]
