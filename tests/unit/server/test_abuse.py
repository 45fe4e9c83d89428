"""Invalid requests: the response is an error, and the partition does not change."""

from __future__ import annotations

import socket
from typing import Final

import pytest
from starlette.testclient import TestClient

from support.server_fixtures import PREFIX, client, running, served

#: Every test runs with partitions in memory and with clients of a service.
pytestmark = pytest.mark.usefixtures("service")

HOST: Final = "Host: localhost\n"
KIND: Final = "Content-Type: application/yaml\n"
JSON: Final = {"content-type": "application/json"}


def exchange(port: int, head: str, *parts: bytes) -> bytes:
    """Send a request, and return the whole response."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode())
        for part in parts:
            connection.sendall(part)
        while part := connection.recv(1 << 16):
            answer += part
    return answer


@pytest.mark.ci
def test_slow_clients() -> None:
    """Clients that announce a body and send nothing get an error, and do not delay other clients."""
    head = f"POST /api/v1/validate-conf HTTP/1.1\n{HOST}{KIND}Content-Length: 10\n\nx".replace("\n", "\r\n")
    with running(served()) as port:
        slow = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(50)]
        for connection in slow:
            connection.sendall(head.encode())
        quick = exchange(port, "GET /api/v1/health HTTP/1.1\nHost: localhost\nConnection: close\n\n")
        answers = [connection.recv(1 << 16) for connection in slow]
        for connection in slow:
            connection.close()

    assert quick.startswith(b"HTTP/1.1 200 ")
    assert {answer[:13] for answer in answers} == {b"HTTP/1.1 408 "}


@pytest.mark.parametrize(
    ("body", "code", "reason"),
    [
        (b"{", "body-malformed", "Input data was truncated"),
        (b"[" * 100_000, "body-malformed", "nested too deeply"),
        (b"\xff", "body-malformed", "the body is not UTF-8"),
        (b'{"a": NaN}', "body-malformed", "invalid character"),
        (b'{"a": 1}', "body-invalid", "Object contains unknown field `a`"),
        (b'{"a": 1e999999999}', "body-invalid", ""),
        (b'{"a": -0.1E-99999999999999999999}', "body-invalid", ""),
        (b'{"a": ' + b"9" * 5000 + b"}", "body-invalid", ""),
    ],
)
def test_malformed_json(body: bytes, code: str, reason: str) -> None:
    """Malformed or deeply nested JSON is refused at once."""
    answer = client().post(f"{PREFIX}/check", content=body, headers=JSON)

    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert reason in answer.json()["detail"]


def test_path_tricks() -> None:
    """No path leads to a file outside of the page."""
    paths = [
        "/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2f__init__.py",
        "/%2fetc%2fpasswd",
        "/page/../../__init__.py",
        "/a%00b",
        "/" + "a" * 5000,
        "/api/v1/partition/..%2f..%2fdefault/queues",
        "/api/v1/partition/default/../../../etc/passwd",
    ]
    with running(served()) as port:
        answers = [exchange(port, f"GET {path} HTTP/1.1\nHost: localhost\nConnection: close\n\n") for path in paths]

    assert {answer[:13] for answer in answers} == {b"HTTP/1.1 404 "}
    assert not any(b"root:" in answer for answer in answers)


def test_a_failing_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected exception while a request is read is answered as JSON with the security headers."""

    def fail(*_arguments: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("ugm.server.http.dispatch.parse_parameters", fail)
    answer = TestClient(served(), raise_server_exceptions=False).get(f"{PREFIX}/queues")

    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert answer.headers["x-content-type-options"] == "nosniff"
