"""Queries of clients: checks, explanations, limits, plans and validations. They change nothing."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from support.partition_fixtures import changing_nothing, config, started
from support.server_fixtures import CONFIG, PREFIX, SUE, YAML, busy, client, create_partition
from ugm import AllocationRequest, Resource, UserInQueue
from ugm.preemption import ReductionPlan

#: Runs a test with partitions in memory, with those of a store and with clients of a service.
WITH_EACH_STORAGE = pytest.mark.usefixtures("storage")

ME = {"user": "sue", "groups": ["dev"], "queue": "root.a"}


def post_json(path: str, body: Mapping[str, object]) -> dict[str, object]:
    """Return the response to a query, and verify that nothing has changed."""
    partition = busy()
    with changing_nothing(partition):
        answer = client(partition).post(PREFIX + path, json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@WITH_EACH_STORAGE
def test_check_of_an_application() -> None:
    """A check of an application returns the decision that a request would get."""
    body = post_json("/check", {"application_id": "app", "usage": {"memory": 3}})

    assert body == {**busy().check("app", Resource(memory=3)).to_dict(), **outcome(body)}
    assert (body["allowed"], body["queue_path"], body["placement"]) == (False, "root.a", None)


def outcome(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields that the server adds."""
    return {name: fields[name] for name in ("queue_path", "placement", "text", "summary", "for_people")}


@WITH_EACH_STORAGE
def test_check_of_user() -> None:
    """A check of a user places a new application first, and returns the decision on its first allocation."""
    body = post_json("/check", {**ME, "usage": {"memory": "3"}})

    assert body["text"] == str(busy().check(UserInQueue(SUE, "root.a"), Resource(memory=3)))
    assert body["placement"] == busy().place(SUE, "root.a").to_dict()


@WITH_EACH_STORAGE
def test_user_without_queue() -> None:
    """If no queue is found, the response contains the result of every placement rule."""
    body = post_json("/explain", {"user": "sue", "usage": {"memory": 1}})

    assert (body["allowed"], body["can_wait"], body["queue_path"], body["limits"]) == (False, False, None, [])
    assert body["text"] == str(busy().place(SUE, ""))


@WITH_EACH_STORAGE
def test_a_queue_that_would_be_created() -> None:
    """A queue that placement would create has the limits of its template."""
    body = post_json("/check", {**ME, "queue": "root.new", "groups": [], "user": "new", "usage": {"memory": 60}})

    assert [found["name"] for found in body["violations"]] == ["new", "root.new"]  # type: ignore[attr-defined] # a list


@WITH_EACH_STORAGE
@pytest.mark.parametrize("path", ["/check", "/explain"])
def test_quota_of_a_namespace(path: str) -> None:
    """The quota of a namespace limits a queue that the configuration does not contain."""
    body = {"user": "new", "queue": "root.new", "usage": {"memory": 3}}

    assert post_json(path, {**body, "quota": {"memory": "3"}})["allowed"]
    assert not post_json(path, {**body, "quota": {"memory": "2"}})["can_wait"]


@WITH_EACH_STORAGE
def test_explain_of_an_application() -> None:
    """An explanation contains the holders of the missing resources, and every limit that applies."""
    body = post_json("/explain", {"application_id": "app", "usage": {"memory": 3}, "max_holders": 1})

    assert body["violations"][0]["holders"] == [  # type: ignore[index] # a list
        {"application_id": "app", "user": "sue", "queue_path": "root.a", "amount": 6}
    ]
    assert body["headroom"] == {"memory": 2}
    assert body["text"] == str(busy().explain("app", Resource(memory=3), max_holders=1))


@WITH_EACH_STORAGE
def test_explain_of_user() -> None:
    """An explanation for a user contains the limits that would apply to a new application."""
    body = post_json("/explain", {**ME, "usage": {"vcore": "250m", "memory": "1Ki"}})

    assert [limit["kind"] for limit in body["limits"]] == ["user", "group", "queue"]  # type: ignore[attr-defined] # a list
    assert body["violations"][0]["requested"] == 1024  # type: ignore[index] # a list


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize("rounds", [8, pytest.param(60, marks=pytest.mark.ci)])
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


def test_preemption_plan() -> None:
    """A plan for a request says who could be preempted, and changes nothing."""
    body = {"application_id": "app", "usage": {"memory": 3}, "since": 0, "now": 60, "within_queue": True}
    plan = post_json("/plan_preemption", body)
    request = AllocationRequest("", "app", Resource(memory=3))
    same = busy().plan_preemption(request, since=0, now=60, within_queue=True)

    assert plan == {**same.to_dict(), "text": str(same)}


def test_plan_of_reductions() -> None:
    """A plan of reductions has the values of the library, and no queue is due in a partition without timers."""
    assert post_json("/plan_reductions", {"now": 5}) == {**ReductionPlan(5).to_dict(), "text": "no queue is due"}


def test_preemption_status() -> None:
    """The state of preemption has the terminating allocations with their owners, and counts of plans."""
    partition = busy()
    held = [one.allocation_id for one in partition.allocations() if one.state == "held"]
    partition.preempt(held[0])
    shown = client(partition).get(f"{PREFIX}/preemption").json()

    assert shown == partition.preemption_status().to_dict()
    assert [one["allocation_id"] for one in shown["terminating"]] == [held[0]]
