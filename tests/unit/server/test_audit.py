"""The audit log: changes and failed authentications."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from support.server_fixtures import CONFIG, DECIDE, PREFIX, SECRET, TOKEN, UPLOAD, YAML, busy, client, running, served
from ugm import RequestError, load_config
from ugm.config import SchedulerConfig
from ugm.partition import AbstractPartition
from ugm.server import create_app, serving
from ugm.server.audit import AuditLog
from ugm.server.configurations import Configurations
from ugm.server.payloads import ApiError
from ugm.server.requests import RequestBounds

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


@contextmanager
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let a file take long to read until the end of the block; yield an event that is set when it is read."""
    has_begun, may_end = threading.Event(), threading.Event()

    def load(path: Path) -> SchedulerConfig:
        has_begun.set()
        may_end.wait(60)
        return load_config(path)

    monkeypatch.setattr("ugm.server.configurations.load_config", load)
    yield has_begun
    may_end.set()


def reload_in_thread(configurations: Configurations) -> threading.Thread:
    """Reload the file in a thread, and return the thread."""

    def reload() -> None:
        with suppress(ApiError):
            configurations.reload()

    thread = threading.Thread(target=reload)
    thread.start()
    return thread


def new_server(tmp_path: Path) -> tuple[AbstractPartition, Any]:
    """Return a partition, and a server for it whose file has changed."""
    file, partition = tmp_path / "queues.yaml", busy()
    file.write_text(CONFIG.replace("memory: 8", "memory: 5"))
    return partition, served(partition, config_path=file)


def test_end_while_a_file_is_read(lines: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reload that still reads when the server stops is logged as refused, and changes nothing later."""
    partition, app = new_server(tmp_path)
    before = partition.config
    with reading(monkeypatch) as has_begun:
        with TestClient(app):
            thread = reload_in_thread(app.state.configurations)
            has_begun.wait(60)
        assert [line["outcome"] for line in lines] == ["busy"]
    thread.join()

    assert [line["outcome"] for line in lines] == ["busy"]
    assert [attempt.outcome for attempt in app.state.configurations.attempts.newest_first()] == ["busy"]
    assert partition.config == before


def test_end_while_a_broken_file_is_read(
    lines: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The problems of a file that the server has read after it was stopped have no effect."""
    configurations = new_server(tmp_path)[1].state.configurations
    (tmp_path / "queues.yaml").write_text("partitions: [")
    with reading(monkeypatch) as has_begun:
        thread = reload_in_thread(configurations)
        has_begun.wait(60)
        configurations.close()
        # A server that starts and ends again, while the file is still being read, does not log it again.
        configurations.open()
        configurations.close()
    thread.join()

    assert [line["outcome"] for line in lines] == ["busy"]
    assert configurations.refused == ()


def test_end_during_a_change(lines: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reload that already changes the partitions is completed and logged before the server has stopped."""
    configurations = new_server(tmp_path)[1].state.configurations
    has_begun, accept = threading.Event(), Configurations._accept
    closing = threading.Thread(target=configurations.close)

    def accept_slowly(self: Configurations, source: str) -> None:
        closing.start()
        # It must not end now.
        closing.join(0.1)
        has_begun.set()
        accept(self, source)

    monkeypatch.setattr(Configurations, "_accept", accept_slowly)
    thread = reload_in_thread(configurations)
    has_begun.wait(60)
    closing.join()
    assert [line["outcome"] for line in lines] == ["ok"]
    thread.join()


def test_start_after_an_end_while_a_file_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that the end of the server has stopped is read when the server runs again."""
    partition, app = new_server(tmp_path)
    before, configurations = partition.config, app.state.configurations
    (tmp_path / "queues.yaml").write_text(CONFIG.replace("memory: 8", "memory: 3"))
    with reading(monkeypatch) as has_begun:
        thread = threading.Thread(target=configurations.reload_if_changed)
        thread.start()
        has_begun.wait(60)
        configurations.close()
    thread.join()
    assert not configurations.reload_if_changed()
    assert partition.config == before
    configurations.open()

    assert configurations.reload_if_changed()
    assert partition.config != before
    assert not configurations.reload_if_changed()


def test_reload_after_the_end(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    """A server that has stopped refuses reloads until it starts again."""
    app = new_server(tmp_path)[1]
    with TestClient(app):
        pass
    with pytest.raises(ApiError, match="stopping"):
        app.state.configurations.reload()
    with TestClient(app):
        app.state.configurations.reload()

    assert [line["outcome"] for line in lines] == ["busy", "ok"]


def test_end_during_a_request(lines: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reload over REST whose request is cancelled, because the server stops, is logged once."""
    monkeypatch.setattr(serving, "_SHUTDOWN_SECONDS", 0.1)
    listener, statuses = serving.listen("127.0.0.1", 0), list[int]()

    def operate() -> None:
        connection = HTTPConnection("127.0.0.1", port)
        connection.request("POST", "/api/v1/config/reload", headers=TOKEN)
        has_begun.wait(60)
        os.kill(os.getpid(), signal.SIGTERM)
        statuses.append(connection.getresponse().status)
        connection.close()

    thread, port = threading.Thread(target=operate), listener.getsockname()[1]
    with listener, reading(monkeypatch) as has_begun:
        serving.run(new_server(tmp_path)[1], listener, ready=thread.start)
        assert [(line["role"], line["outcome"]) for line in lines] == [("operator", "busy")]
        thread.join()

    assert statuses == [503]


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
        log.write_failure(client="10.0.0.1", action="PUT", target="/api/v1/config", outcome="token-wrong")
    now[0] = 61.0
    log.write_failure(client="10.0.0.1", action="PUT", target="/api/v1/config", outcome="token-wrong")

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


def test_change_that_is_cancelled_before_it_starts(lines: list[dict[str, Any]]) -> None:
    """A change whose request ends before its turn is logged as rejected, and does not start later."""
    log = AuditLog(lambda: 0.0)
    with (
        pytest.raises(ApiError, match="gone"),
        log.attempt(client="a", role="operator", action="PUT", target="b") as start,
    ):
        raise ApiError(503, "busy", "gone")
    with pytest.raises(ApiError, match="stopping"):
        start()

    assert [line["outcome"] for line in lines] == ["busy"]


def test_failure_before_the_start(lines: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that fails unexpectedly before it starts is logged as failed."""
    monkeypatch.delattr("ugm.server.dispatch.parse_query")
    with pytest.raises(NameError):
        client().post("/api/v1/config/reload", headers=TOKEN)

    assert [line["outcome"] for line in lines] == ["failed"]


def test_foreign_queries(lines: list[dict[str, Any]]) -> None:
    """A refused request that would change nothing is not logged."""
    rest = client()
    rest.post(f"{PREFIX}/check", json={}, headers={"origin": "null"})
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
