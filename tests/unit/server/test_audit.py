"""The audit log: changes and failed authentications."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import pytest

from support.server_fixtures import CONFIG, DECIDE, PREFIX, TOKEN, UPLOAD, YAML, client, running, served

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


_UPLOAD: Final = ("PUT", "/api/v1/config", UPLOAD)
_SUBMIT: Final = ("POST", f"{PREFIX}/submit", {**DECIDE, "content-type": "application/json"})


@pytest.mark.parametrize(
    ("request_of", "content", "headers", "role", "outcome"),
    [
        (_UPLOAD, CONFIG, {"content-type": "application/json"}, "operator", "media-type"),
        (_UPLOAD, b"x" * (1 << 21), {}, "operator", "body-too-large"),
        (_UPLOAD, b"\xff", {}, "operator", "body-malformed"),
        (_UPLOAD, b"", {}, "operator", "body-missing"),
        (_UPLOAD, CONFIG, {"origin": "https://evil.example"}, "anonymous", "cross-origin"),
        (_UPLOAD, CONFIG, {"host": "evil.example"}, "anonymous", "host-unknown"),
        (_UPLOAD, CONFIG, {"host": "a/b"}, "anonymous", "host-invalid"),
        (_SUBMIT, b"{", {}, "scheduler", "body-malformed"),
        (_SUBMIT, b"{}", {}, "scheduler", "body-invalid"),
        (_SUBMIT, b"", {}, "scheduler", "body-missing"),
        (_SUBMIT, b"{}", {"content-type": "text/plain"}, "scheduler", "media-type"),
        (("POST", "/api/v1/partition/none/carry_out", TOKEN), b"{}", {}, "operator", "partition-unknown"),
    ],
)
def test_rejected_changes(
    lines: list[dict[str, Any]],
    request_of: tuple[str, str, dict[str, str]],
    content: str | bytes,
    headers: dict[str, str],
    role: str,
    outcome: str,
) -> None:
    """A change that is rejected before it starts is logged once."""
    method, path, accepted = request_of
    client().request(method, path, content=content, headers={**accepted, **headers})

    assert [(line["role"], line["action"], line["object"], line["outcome"]) for line in lines] == [
        (role, method, path, outcome)
    ]


def test_reading_is_not_written(lines: list[dict[str, Any]]) -> None:
    """Requests that change nothing are not logged, also if they are refused."""
    client().get("/api/v1/config")
    client().post("/api/v1/validate-conf", content=CONFIG, headers=YAML)
    client().get("/api/v1/config", headers={"host": "evil.example"})

    assert lines == []
