"""The audit log: changes and failed authentications."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from support.server_fixtures import CONFIG, DECIDE, PREFIX, SECRET, TOKEN, UPLOAD, YAML, busy, client, running, served
from ugm import RequestError
from ugm.server import create_app
from ugm.server.http.audit import AuditLog
from ugm.server.http.requests import RequestBounds

SCOPE = {"client": ("10.0.0.1", 1), "method": "PUT", "path": "/api/v1/config"}
#: Every test runs with partitions in memory and with clients of a service.
pytestmark = pytest.mark.usefixtures("service")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[list[dict[str, Any]]]:
    """Return the lines of the log, parsed."""
    found: list[dict[str, Any]] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            assert "\n" not in text
            found.append(json.loads(text))

    handler = Kept()
    logging.getLogger("ugm.audit").addHandler(handler)
    with caplog.at_level(logging.INFO, "ugm.audit"):
        yield found
    logging.getLogger("ugm.audit").removeHandler(handler)


def test_uploads(lines: list[dict[str, Any]]) -> None:
    """Every upload is logged, also if it is refused."""
    rest = client()
    rest.put("/api/v1/config", content=CONFIG, headers=UPLOAD)
    rest.put("/api/v1/config", content="partitions: [", headers=UPLOAD)

    assert lines[0] == {
        "time": "1970-01-01T00:00:07.000Z",
        "client": "testclient",
        "role": "operator",
        "action": "replace configuration",
        "object": "upload",
        "outcome": "ok",
    }
    assert [line["outcome"] for line in lines] == ["ok", "config-invalid"]


def test_reloads(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    """A reload is logged, whether a client, a signal or the file watcher caused it."""
    file = tmp_path / "queues.yaml"
    file.write_text(CONFIG)
    rest = client(config_path=file)
    rest.post("/api/v1/config/reload", headers=TOKEN)
    file.write_text("partitions: [")
    configurations = rest.app.state.configurations  # type: ignore[attr-defined]  # an application of starlette
    assert configurations.reload_if_changed()

    assert [(line["client"], line["role"], line["outcome"]) for line in lines] == [
        ("testclient", "operator", "ok"),
        ("local", "watch", "config-invalid"),
    ]
    assert {line["object"] for line in lines} == {str(file)}
    assert rest.get("/api/v1/health").json()["status"] == "degraded"


def test_reload_without_a_file(lines: list[dict[str, Any]]) -> None:
    """A reload without a configuration file is logged with its error."""
    client().post("/api/v1/config/reload", headers=TOKEN)

    assert [line["outcome"] for line in lines] == ["config-without-file"]


def test_wrong_tokens(lines: list[dict[str, Any]]) -> None:
    """A failed authentication is logged without the token of the request."""
    for headers in ({}, {"Authorization": "Bearer a-guess\n"[:-1]}):
        client().put("/api/v1/config", content=CONFIG, headers={**headers, **YAML})
    client(read_only=True).put("/api/v1/config", content=CONFIG, headers=UPLOAD)

    assert [(line["role"], line["action"], line["object"], line["outcome"]) for line in lines] == [
        ("anonymous", "PUT", "/api/v1/config", "token-wrong"),
        ("anonymous", "PUT", "/api/v1/config", "token-wrong"),
        ("anonymous", "PUT", "/api/v1/config", "read-only"),
    ]
    assert "guess" not in str(lines)


def test_headers_of_proxies(lines: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is the peer of the connection, whatever the headers of a request and the environment say."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    monkeypatch.setenv("WEB_CONCURRENCY", "many")
    forged = {"X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "https", "Forwarded": "for=6.6.6.6"}
    with running(served()) as port:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", f"{PREFIX}/release", "{}", forged)
        assert connection.getresponse().status == 401
        connection.close()

    assert [line["client"] for line in lines] == ["127.0.0.1"]


def test_operations(lines: list[dict[str, Any]]) -> None:
    """Every operation on a partition is logged with its outcome, also in a batch."""
    held, none = {"allocation_id": "held"}, {"allocation_id": "none", "usage": {}}
    gang = [{"allocation_id": f"g-{n}", "application_id": "app", "usage": {"memory": 3}} for n in range(2)]
    rest = client()
    rest.post(f"{PREFIX}/allocate_all", json={"requests": gang}, headers=DECIDE)
    items = [{"operation": "release", **held}, {"operation": "resize", **none}]
    rest.post(f"{PREFIX}/batch", json={"operations": items}, headers=DECIDE)
    rest.post(f"{PREFIX}/release", json=held, headers=TOKEN)

    assert [(line["role"], line["action"], line["object"], line["outcome"]) for line in lines] == [
        ("scheduler", "allocate_all", "default: g-0, g-1", "denied"),
        ("scheduler", "release", "default: held", "ok"),
        ("scheduler", "resize", "default: none", "allocation-unknown"),
        ("anonymous", "POST", f"{PREFIX}/release", "token-wrong"),
    ]


def test_many_wrong_tokens(lines: list[dict[str, Any]]) -> None:
    """Beyond a number of failures per minute, further ones are only counted; the next line contains the count."""
    now = [0.0]
    log = AuditLog(lambda: now[0])
    for second in range(100):
        now[0] = second / 10
        log.write_failure(SCOPE, "token-wrong")
    now[0] = 61.0
    log.write_failure(SCOPE, "token-wrong")

    assert len(lines) == 21
    assert lines[-1]["suppressed_before"] == 80
    assert "suppressed_before" not in lines[0]


@pytest.mark.parametrize(
    ("path", "body", "headers", "outcome"),
    [
        ("submit", b"{", {}, "body-malformed"),
        ("submit", b"{}", {}, "body-invalid"),
        ("submit", b"", {}, "body-missing"),
        ("submit", b"{}", {"content-type": "text/plain"}, "media-type"),
        ("submit?a=1", b"{}", {}, "query-invalid"),
        ("batch", b'{"operations": [{"operation": "none"}]}', {}, "body-invalid"),
    ],
)
def test_rejected_operations(
    lines: list[dict[str, Any]], path: str, body: bytes, headers: dict[str, str], outcome: str
) -> None:
    """An operation that is rejected before it starts is logged once."""
    accepted = {**DECIDE, "content-type": "application/json", **headers}
    assert client().post(f"{PREFIX}/{path}", content=body, headers=accepted).status_code >= 400

    assert [(line["client"], line["role"], line["action"], line["object"], line["outcome"]) for line in lines] == [
        ("testclient", "scheduler", "POST", f"{PREFIX}/{path.partition('?')[0]}", outcome)
    ]


@pytest.mark.parametrize("operation", ["release", "carry_out", "change_budget"])
def test_unknown_partitions(lines: list[dict[str, Any]], operation: str) -> None:
    """A change of an unknown partition is logged once."""
    headers = DECIDE if operation == "release" else TOKEN
    client().post(f"/api/v1/partition/none/{operation}", json={"allocation_id": "held"}, headers=headers)

    assert [(line["object"], line["outcome"]) for line in lines] == [
        (f"/api/v1/partition/none/{operation}", "partition-unknown")
    ]


@pytest.mark.parametrize(
    ("content", "headers", "outcome"),
    [
        (CONFIG, {"content-type": "application/json"}, "media-type"),
        (b"x" * (1 << 21), {}, "body-too-large"),
        (b"\xff", {}, "body-malformed"),
        (b"", {}, "body-missing"),
        (CONFIG, {"origin": "https://evil.example"}, "cross-origin"),
        (CONFIG, {"origin": "null"}, "cross-origin"),
        (CONFIG, {"host": "evil.example"}, "host-unknown"),
        (CONFIG, {"host": "a/b"}, "host-invalid"),
    ],
)
def test_rejected_uploads(
    lines: list[dict[str, Any]], content: str | bytes, headers: dict[str, str], outcome: str
) -> None:
    """An upload that is rejected before the configuration is read is logged once."""
    client().put("/api/v1/config", content=content, headers={**UPLOAD, **headers})

    is_refused_at_once = outcome in {"cross-origin", "host-unknown", "host-invalid"}
    role = "anonymous" if is_refused_at_once else "operator"
    assert [(line["role"], line["action"], line["object"], line["outcome"]) for line in lines] == [
        (role, "PUT", "/api/v1/config", outcome)
    ]


def test_full_queues(lines: list[dict[str, Any]]) -> None:
    """A change that is rejected because too many requests wait is logged."""
    rest = client(bounds=RequestBounds(waiting=0, configurations=0))
    rest.post(f"{PREFIX}/release", json={"allocation_id": "held"}, headers=DECIDE)
    rest.put("/api/v1/config", content=CONFIG, headers=UPLOAD)

    assert [line["outcome"] for line in lines] == ["busy", "busy"]


def test_foreign_queries(lines: list[dict[str, Any]]) -> None:
    """A refused request that would change nothing is not logged."""
    rest = client()
    rest.get("/api/v1/config", headers={"host": "evil.example"})

    assert lines == []


def test_many_foreign_changes(lines: list[dict[str, Any]]) -> None:
    """Many changes of other sites neither fill the log nor hide failed authentications."""
    rest = client()
    for _ in range(30):
        rest.post("/api/v1/config/reload", headers={"origin": "null"})
    rest.post("/api/v1/config/reload")

    assert [line["outcome"] for line in lines] == ["cross-origin"] * 20 + ["token-wrong"]


def test_reading_is_not_written(lines: list[dict[str, Any]]) -> None:
    """Requests that change nothing are not logged."""
    client().get("/api/v1/config")
    client().post("/api/v1/validate-conf", content=CONFIG, headers=YAML)

    assert lines == []


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("token", ["x", "a" * 15])
def test_short_tokens(token: str, *, read_only: bool) -> None:
    """A token of less than 16 characters is refused at the start, and the message does not contain it."""
    with pytest.raises(RequestError, match="expected at least 16 characters") as caught:
        create_app({"default": busy()}, token=token, read_only=read_only)

    assert len(token) < 3 or token not in str(caught.value)
    create_app({"default": busy()}, token=SECRET[:16], read_only=read_only)
