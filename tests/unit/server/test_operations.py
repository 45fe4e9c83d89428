"""Operations over REST: submissions, allocations and batches of programs in other languages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jsonschema_rs
import pytest
from starlette.testclient import TestClient

from support.partition_fixtures import changing_nothing, config
from support.server_fixtures import DECIDE, DECIDE_SECRET, PREFIX, SECRET, TOKEN, busy, client, create_partition
from ugm import RequestError, Resource, UserGroup
from ugm.partition.interface.operation_kinds import Role
from ugm.server import create_app
from ugm.server.app import ROUTES
from ugm.server.http.payloads import ApiError
from ugm.store import StoreError

pytestmark = pytest.mark.usefixtures("storage")

JSON = {"content-type": "application/json"}
GRANTED = {
    "allowed": True,
    "can_wait": True,
    "violations": [],
    "evictions": [],
    "assign": None,
    "text": "allowed",
    "summary": "allowed",
    "for_people": "Granted.",
}


def post(rest: TestClient, name: str, **fields: object) -> tuple[int, Any]:
    """Execute an operation, and return the status and the body of the response."""
    # With escapes, so that half a character can be sent.
    answer = rest.post(f"{PREFIX}/{name}", content=json.dumps(fields), headers={**DECIDE, **JSON})
    return answer.status_code, answer.json()


def allocation(allocation_id: str, memory: int, **more: object) -> dict[str, object]:
    """Return the fields of an allocation of the application of sue."""
    return {"allocation_id": allocation_id, "application_id": "app", "usage": {"memory": memory}, **more}


OWNER = {"application_id": "app"}
ONE = {"memory": 1}
SPEC = {"allocation_id": "n", "usage": ONE}
RUNNING = {**OWNER, "user": "ana", "queue_path": "root.a", "allocations": [{**SPEC, "allocation_id": "a"}]}
NEW = {**OWNER, "allocation_id": "a", "usage": ONE, "priority": -3, "preemptible": False}
#: Operations with the beginning of their answers, in the order of their execution.
STEPS: tuple[tuple[str, Mapping[str, object], int, Mapping[str, object]], ...] = (
    ("submit", {**OWNER, "user": "ana", "groups": ["dev"], "queue": "root.a"}, 200, {"queue_path": "root.a"}),
    ("submit", {"application_id": "more", "user": "sue", "queue": "root.a", "tags": {"a": "b"}}, 200, {"placed": True}),
    ("complete", {"application_id": "more"}, 200, {"application_id": "more"}),
    ("request", NEW, 200, GRANTED),
    ("allocate", NEW, 200, GRANTED),
    ("allocate", {**OWNER, "allocation_id": "b", "usage": {"memory": "1Ti"}}, 200, {"allowed": False}),
    (
        "allocate_all",
        {"requests": [allocation("p", 1, placeholder=True), allocation("x", 99)]},
        200,
        {"allowed": False},
    ),
    ("allocate_all", {"requests": [allocation("p", 1, placeholder=True)]}, 200, GRANTED),
    ("time_out_gang", OWNER, 200, {"allocation_ids": ["p"]}),
    ("release", {"allocation_id": "p"}, 200, {"existed": True}),
    ("allocate_all", {"requests": [allocation("p", 1, placeholder=True)]}, 200, GRANTED),
    ("replace", {"placeholder_id": "p", "allocation_id": "q", "usage": ONE}, 200, GRANTED),
    ("resize", {"allocation_id": "q", "usage": {"memory": 0}}, 200, GRANTED),
    ("time_out_gang", OWNER, 200, {"allocation_ids": []}),
    ("allocate_evicting", {**OWNER, "allocation_id": "e", "usage": {"memory": 99}}, 200, {"allowed": False}),
    ("allocate_evicting", {**OWNER, "allocation_id": "e", "usage": ONE}, 200, {"allowed": True, "evictions": []}),
    ("renew", {"allocation_id": "e", "duration": 60}, 200, {"allowed": True}),
    ("expire", {"now": 2**40}, 200, {"allocation_ids": ["e"]}),
    ("release_overdue", {"now": 0}, 200, {"allocation_ids": []}),
    ("preempt", {"allocation_id": "e"}, 200, {"existed": True}),
    ("preempt", {"allocation_id": "none"}, 200, {"existed": False}),
    ("release", {"allocation_id": "e"}, 200, {"existed": True}),
    ("release", {"allocation_id": "q"}, 200, {"existed": True}),
    ("resize", {"allocation_id": "q", "usage": ONE}, 404, {"code": "allocation-unknown"}),
    ("complete", OWNER, 409, {"code": "not-empty"}),
    ("synchronize", {"running": [RUNNING], "starting": []}, 200, {"ended": []}),
    (
        "admit",
        {**OWNER, "application_id": "n", "user": "eve", "queue": "root.a", "allocations": [SPEC]},
        200,
        {"admitted": True},
    ),
    ("end", {"application_id": "n"}, 200, {"existed": True}),
    ("batch", {"operations": [{"operation": "release", "allocation_id": "x"}]}, 200, {}),
    ("fail", OWNER, 200, {"allocation_ids": ["a"]}),
    ("remove", OWNER, 200, {"allocation_ids": ["a"]}),
)


def test_every_operation() -> None:
    """Every operation has the effect of the method of a partition, and the described result; errors keep codes."""
    partition = create_partition(config("{name: a, resources: {max: {memory: 50}}}"))
    rest = client(partition, metrics=None)
    described = rest.get("/openapi.json").json()
    for name, fields, status, beginning in STEPS:
        answer = post(rest, name, **fields)
        if status == 200:
            operation = described["paths"][f"/api/v1/partition/{{partition}}/{name}"]["post"]
            schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
            jsonschema_rs.validate({**schema, "components": described["components"]}, answer[1])
        assert (answer[0], answer[1] | beginning) == (status, answer[1]), name
        if name == "resize" and status == 200:
            ana, held = partition.application("app"), partition.allocation("a")
            assert ana is not None
            assert held is not None
            assert (ana.user, held.priority, held.preemptible) == (UserGroup("ana", ("dev",)), -3, False)
            assert sorted(partition.allocation_ids()) == ["a", "q"]

    assert {name for name, *_ in STEPS} == {route.name for route in ROUTES if route.role is Role.SCHEDULER}
    assert partition.allocation_ids() == partition.application_ids() == ()
    partition.verify()


def test_denials_are_answers() -> None:
    """A denial has status 200 and every violated limit, and changes nothing."""
    partition = busy()
    denied = partition.allocate("more", "app", Resource(memory=3))
    with changing_nothing(partition):
        status, answer = post(client(partition), "allocate", **allocation("more", 3))

    texts = {"text": str(denied), "summary": denied.summary, "for_people": denied.for_people()}
    assert (status, answer) == (200, {**denied.to_dict(), **texts})
    assert not answer["allowed"]
    assert len(answer["violations"]) == 1


def test_submission_without_a_place() -> None:
    """A submission that no rule places is an answer with the result of every rule."""
    status, answer = post(client(), "submit", application_id="new", user="ana", queue="root")

    assert (status, answer["placed"], answer["queue_path"]) == (200, False, None)
    assert answer["text"].startswith("rejected")


@pytest.mark.parametrize("name", ["allocate", "request"])
def test_repetition(name: str) -> None:
    """A repeated operation gets the answer of the first, and has no further effect."""
    partition = busy()
    rest = client(partition)
    first = post(rest, name, **allocation("new", 1))
    with changing_nothing(partition):
        assert post(rest, name, **allocation("new", 1)) == first


def test_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the store cannot be written, an operation has status 503, with the reason and when to try again."""
    partition = busy()

    def fail(*_: object, **__: object) -> None:
        raise StoreError("j", "the disk does not answer")

    for name in ("allocate", "application_report"):
        monkeypatch.setattr(type(partition), name, fail)
    rest = client(partition)
    expected = ApiError.of(StoreError("j", "the disk does not answer")).to_dict()
    answer = rest.post(f"{PREFIX}/allocate", content=json.dumps(allocation("new", 1)), headers={**DECIDE, **JSON})
    assert (answer.status_code, answer.json(), answer.headers["retry-after"]) == (503, expected, "1")
    view = rest.get(f"{PREFIX}/application/app")
    assert (view.status_code, view.json()) == (503, expected)
    items = [{"operation": "allocate", **allocation("new", 1)}, {"operation": "release", "allocation_id": "held"}]
    status, results = post(rest, "batch", operations=items)
    assert status == 200
    assert results["results"][0] == {"status": 503, "answer": expected}
    assert results["results"][1] == {"status": 200, "answer": {"existed": True}}


@pytest.mark.parametrize(
    ("name", "fields", "status", "code"),
    [
        ("allocate", {**allocation("new", 1), "application_id": "none"}, 404, "application-unknown"),
        ("allocate_all", {"requests": [{**allocation("x", 1), "application_id": "y"}]}, 404, "application-unknown"),
        ("resize", {"allocation_id": "none", "usage": {}}, 404, "allocation-unknown"),
        ("replace", {"allocation_id": "a", "placeholder_id": "b", "usage": {}}, 404, "allocation-unknown"),
        ("allocate", allocation("held", 5), 409, "id-in-use"),
        ("submit", {"application_id": "app", "user": "ben", "queue": "root.a"}, 409, "id-in-use"),
        ("allocate", allocation("new", 1, priority=2**31), 400, "body-invalid"),
        ("allocate", allocation("new", 1, preemptible=1), 400, "body-invalid"),
        ("release", {}, 400, "body-invalid"),
        ("submit", {"application_id": "new", "user": "*"}, 400, "argument-invalid"),
        ("batch", {"operations": [{"operation": "configure"}]}, 400, "body-invalid"),
        ("batch", {"operations": [{"operation": "release"}] * 1001}, 400, "body-invalid"),
    ],
)
def test_misuse(name: str, fields: dict[str, object], status: int, code: str) -> None:
    """Misuse is refused with a document of RFC 9457 and a code, and changes nothing."""
    partition = busy()
    with changing_nothing(partition):
        answer = post(client(partition), name, **fields)

    assert (answer[0], answer[1]["code"]) == (status, code)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ({"operation": "resize", "usage": {}}, "body.operations[0]: Object missing required field `allocation_id`"),
        ({"allocation_id": "a"}, "body.operations[0]: Object missing required field `operation`"),
        ({"operation": "close"}, "body.operations[0].operation: Invalid value 'close'"),
        ("release", "body.operations[0]: Expected `object`"),
    ],
)
def test_malformed_batches(item: object, reason: str) -> None:
    """The error of a batch names the field of the operation that was meant."""
    partition = busy()
    with changing_nothing(partition):
        status, answer = post(client(partition), "batch", operations=[item])

    assert status == 400
    assert answer["detail"].startswith(reason)


def test_batch() -> None:
    """A batch executes operations in order; the failure of one does not affect the others."""
    rest = client()
    status, answer = post(
        rest,
        "batch",
        operations=[
            {"operation": "allocate", **allocation("new", 3)},
            {"operation": "resize", "allocation_id": "none", "usage": {}},
            {"operation": "release", "allocation_id": "held"},
            {"operation": "allocate", **allocation("new", 3)},
        ],
    )
    results = answer["results"]

    assert (status, [result["status"] for result in results]) == (200, [200, 404, 200, 200])
    assert [results[0]["answer"]["allowed"], results[3]["answer"]["allowed"]] == [False, True]
    assert results[1]["answer"]["code"] == "allocation-unknown"
    assert results[2]["answer"] == {"existed": True}


@pytest.mark.parametrize("headers", [{}, TOKEN, {"Authorization": "Bearer wrong"}])
def test_token(headers: dict[str, str]) -> None:
    """An operation needs the token for operations; that of operators is another one."""
    partition = busy()
    with changing_nothing(partition):
        answer = client(partition).post(f"{PREFIX}/release", json={"allocation_id": "held"}, headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (401, "token-wrong")
    assert answer.json()["detail"] == (
        "this is the token of the role operator; the request needs the role scheduler"
        if headers == TOKEN
        else "the token is missing or wrong; expected the header Authorization: Bearer TOKEN"
    )


def test_server_without_operations() -> None:
    """Without a token for operations, the server refuses them, also if its configuration can be changed."""
    answer = client(decide_token=None).post(f"{PREFIX}/release", json={"allocation_id": "held"}, headers=TOKEN)

    assert (answer.status_code, answer.json()["code"]) == (403, "read-only")
    assert answer.json()["detail"] == "the server was started without a token for operations on partitions"


def test_operations_of_a_server_whose_configuration_is_fixed() -> None:
    """The token for operations needs no other option, and does not allow changes of the configuration."""
    rest = TestClient(create_app({"default": busy()}, decide_token=DECIDE_SECRET))

    assert post(rest, "release", allocation_id="held") == (200, {"existed": True})
    assert rest.post("/api/v1/config/reload", headers=DECIDE).status_code == 403
    assert client().post("/api/v1/config/reload", headers=DECIDE).status_code == 401


@pytest.mark.parametrize(
    ("option", "token", "reason"),
    [
        ("token", "x" * 15, "expected at least 16 characters"),
        ("decide_token", "x" * 15, "15 characters: expected at least 16"),
        ("decide_token", SECRET, "expected another token than that of operators"),
    ],
)
def test_unusable_tokens(option: str, token: str, reason: str) -> None:
    """A token that is short, or that of operators, is refused, and the message does not contain it."""
    with pytest.raises(RequestError, match=option) as caught:
        client(**{option: token})  # type: ignore[arg-type]  # options

    assert reason in str(caught.value).replace("'", "")
    assert token not in str(caught.value)
