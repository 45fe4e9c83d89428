"""Operations over REST: submissions, allocations and batches of programs in other languages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from support.partition_fixtures import changing_nothing
from support.server_fixtures import DECIDE, DECIDE_SECRET, PREFIX, SECRET, TOKEN, busy, client
from ugm import RequestError, Resource, UserGroup
from ugm.partition import AllocationState
from ugm.server import create_app
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


def test_life_of_an_application() -> None:
    """The operations have the effects and results of the methods of a partition."""
    partition = busy()
    rest = client(partition)
    status, placed = post(rest, "submit", application_id="new", user="ana", groups=["dev"], queue="root.b")

    assert (status, placed["placed"], placed["queue_path"]) == (200, True, "root.b")
    assert partition.application("new").user == UserGroup("ana", ("dev",))  # type: ignore[union-attr]  # it exists
    fields = {"allocation_id": "n", "application_id": "new", "usage": {"memory": "1"}}
    assert post(rest, "request", **fields, priority=-3, preemptible=False) == (200, GRANTED)
    assert partition.allocation("n").priority == -3  # type: ignore[union-attr]  # it exists
    assert post(rest, "allocate", **fields, priority=-3, preemptible=False) == (200, GRANTED)
    assert post(rest, "resize", allocation_id="n", usage={"memory": 2}) == (200, GRANTED)
    assert partition.allocation("n").usage == Resource(memory=2)  # type: ignore[union-attr]  # it exists
    assert post(rest, "complete", application_id="new")[0] == 409
    assert post(rest, "release", allocation_id="n") == (200, {"existed": True})
    assert post(rest, "complete", application_id="new")[1]["application_id"] == "new"
    assert partition.application("new") is None
    partition.verify()


def test_denials_are_answers() -> None:
    """A denial has status 200 and every violated limit, and changes nothing."""
    partition = busy()
    denied = partition.allocate("more", "app", Resource(memory=3))
    with changing_nothing(partition):
        status, answer = post(client(partition), "allocate", **allocation("more", 3))

    assert (status, answer) == (
        200,
        {
            **denied.to_dict(),
            "text": str(denied),
            "summary": denied.summary,
            "for_people": denied.for_people(),
        },
    )
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


def test_gang() -> None:
    """Several allocations are granted together or not at all."""
    partition = busy()
    rest = client(partition)
    gang = [allocation("g-1", 1, placeholder=True), allocation("g-2", 1, placeholder=True)]

    assert not post(rest, "allocate_all", requests=[*gang, allocation("g-3", 1)])[1]["allowed"]
    assert partition.allocation("g-1") is None
    assert post(rest, "allocate_all", requests=gang) == (200, GRANTED)
    assert post(rest, "replace", allocation_id="r", placeholder_id="g-1", usage={"memory": 1}) == (200, GRANTED)
    assert partition.allocation("g-1") is None


def test_timeout_of_a_gang() -> None:
    """The placeholders to stop are returned, and count until they are released."""
    partition = busy()
    rest = client(partition)
    post(rest, "allocate", **allocation("g-1", 1, placeholder=True))

    assert post(rest, "time_out_gang", application_id="app") == (200, {"allocation_ids": ["g-1"]})
    assert partition.allocation("g-1").state is AllocationState.TERMINATING  # type: ignore[union-attr]  # it exists
    assert post(rest, "release", allocation_id="g-1") == (200, {"existed": True})


def test_preemption_and_eviction() -> None:
    """A preempted allocation counts until its release. Without quota models nothing is evicted."""
    partition = busy()
    rest = client(partition)

    assert post(rest, "preempt", allocation_id="held") == (200, {"existed": True})
    assert post(rest, "preempt", allocation_id="none") == (200, {"existed": False})
    assert partition.allocation("held").state is AllocationState.TERMINATING  # type: ignore[union-attr]  # it exists
    assert not post(rest, "allocate_evicting", **allocation("new", 3))[1]["allowed"]
    assert post(rest, "allocate_evicting", **allocation("new", 1)) == (200, GRANTED)


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


def test_end_of_applications() -> None:
    """A failing application returns the allocations to stop, a removed one those that were released."""
    rest = client()

    assert post(rest, "fail", application_id="app") == (200, {"allocation_ids": ["held"]})
    assert post(rest, "remove", application_id="app") == (200, {"allocation_ids": ["held"]})


@pytest.mark.parametrize(
    ("name", "fields", "status", "code"),
    [
        ("allocate", {**allocation("new", 1), "application_id": "none"}, 404, "application-unknown"),
        ("allocate_all", {"requests": [{**allocation("x", 1), "application_id": "y"}]}, 404, "application-unknown"),
        ("complete", {"application_id": "none"}, 404, "application-unknown"),
        ("resize", {"allocation_id": "none", "usage": {}}, 404, "allocation-unknown"),
        ("replace", {"allocation_id": "a", "placeholder_id": "b", "usage": {}}, 404, "allocation-unknown"),
        ("allocate", allocation("held", 5), 409, "id-in-use"),
        ("submit", {"application_id": "app", "user": "ben", "queue": "root.a"}, 409, "id-in-use"),
        ("allocate", allocation("new", 1, priority=2**31), 400, "body-invalid"),
        ("allocate", allocation("new", 1, preemptible=1), 400, "body-invalid"),
        ("allocate", allocation("new", -1), 400, "body-invalid"),
        ("release", {"allocation_id": ""}, 400, "body-invalid"),
        ("release", {}, 400, "body-invalid"),
        ("submit", {"application_id": "new", "user": "*"}, 400, "argument-invalid"),
        ("batch", {"operations": [{"operation": "configure"}]}, 400, "body-invalid"),
        ("batch", {"operations": [{"operation": "release"}] * 1001}, 400, "body-invalid"),
    ],
)
def test_misuse(name: str, fields: dict[str, object], status: int, code: str) -> None:
    """Misuse is refused with a code, and changes nothing."""
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


def test_empty_batch() -> None:
    """A batch may be empty."""
    assert post(client(), "batch", operations=[]) == (200, {"results": []})


@pytest.mark.parametrize("headers", [{}, TOKEN, {"Authorization": "Bearer wrong"}])
def test_token(headers: dict[str, str]) -> None:
    """An operation needs the token for operations; that of operators is another one."""
    partition = busy()
    with changing_nothing(partition):
        answer = client(partition).post(f"{PREFIX}/release", json={"allocation_id": "held"}, headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (401, "token-wrong")
    assert answer.json()["detail"] == "the token is missing or wrong; expected the header Authorization: Bearer TOKEN"


def test_operations_do_not_operate() -> None:
    """The token for operations does not allow changes of the configuration."""
    assert client().post("/api/v1/config/reload", headers=DECIDE).status_code == 401


def test_server_without_operations() -> None:
    """Without a token for operations, the server refuses them, also if its configuration can be changed."""
    answer = client(decide_token=None).post(f"{PREFIX}/release", json={"allocation_id": "held"}, headers=TOKEN)

    assert (answer.status_code, answer.json()["code"]) == (403, "read-only")
    assert answer.json()["detail"] == "the server was started without a token for operations on partitions"


def test_operations_of_a_server_whose_configuration_is_fixed() -> None:
    """The token for operations needs no other option."""
    rest = TestClient(create_app({"default": busy()}, decide_token=DECIDE_SECRET))

    assert post(rest, "release", allocation_id="held") == (200, {"existed": True})
    assert rest.post("/api/v1/config/reload", headers=DECIDE).status_code == 403


@pytest.mark.parametrize(
    ("token", "reason"),
    [("x" * 15, "15 characters: expected at least 16"), (SECRET, "expected another token than that of operators")],
)
def test_unusable_tokens(token: str, reason: str) -> None:
    """A token that is short, or that of operators, is refused, and the message does not contain it."""
    with pytest.raises(RequestError, match="decide_token") as caught:
        client(decide_token=token)

    assert reason in str(caught.value).replace("'", "")
    assert token not in str(caught.value)


@pytest.mark.parametrize("name", ["\ud800", "\x00", "é" * 256, "a/b", "' OR 1=1"])
def test_unusual_names(name: str) -> None:
    """Names have any characters; an operation has an effect or gets an error."""
    partition = busy()
    status, _ = post(client(partition), "allocate", **allocation(name, 1))

    assert status in {200, 400, 409}
    # A store or a service may refuse it, also in a query.
    if status != 400:
        assert (partition.allocation(name) is not None) == (status == 200)
