"""Requests of pages of other sites, and requests for other hosts, are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest
from starlette.testclient import TestClient

from support.server_fixtures import CONFIG, PREFIX, UPLOAD, YUNIKORN, busy, client
from ugm import RequestError
from ugm.server import create_app

#: One of everything: the page, its parts, metrics, the description, and REST.
PATHS = (
    "/",
    "/js/main.js",
    "/metrics",
    "/openapi.json",
    f"{YUNIKORN}/usage/users",
    "/api/v1/health",
    "/api/v1/nothing",
)


@pytest.fixture(scope="module")
def rest() -> TestClient:
    """Return a client of a server that no request changes."""
    return client()


def code(rest: TestClient, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
    """Return the status and the code of a response."""
    answer = rest.get(path, headers=dict(headers))
    is_json = answer.headers["content-type"].endswith("json")
    body = answer.json() if is_json else {}
    return answer.status_code, body.get("code", "") if isinstance(body, dict) else ""


@pytest.mark.parametrize("path", PATHS)
def test_another_host(rest: TestClient, path: str) -> None:
    """A request for another host is refused on every path."""
    for host in (
        "evil.example",
        "evillocalhost",
        "localhost.evil.example",
        "1.2.3.4",
        "[2001:db8::1]",
        "testserver.x:80",
    ):
        assert code(rest, path, {"host": host}) == (421, "host-unknown")


def test_hosts(rest: TestClient) -> None:
    """Loopback names with any port are the server's own; a Host that is malformed, or two of them, are refused."""
    for host in (
        "localhost",
        "LOCALHOST:8080",
        "localhost.",
        "127.9.9.9:1",
        "[::1]:8080",
        "ugm.localhost",
        "testserver",
    ):
        assert code(rest, "/api/v1/health", {"host": host})[0] == 200
    for host in ("", "a b", "user@localhost", "localhost:x", "localhost:123456", "http://localhost", "[::1"):
        assert code(rest, "/api/v1/health", {"host": host}) == (400, "host-invalid")
    # A proxy and the server could use different ones.
    two = [("host", "localhost"), ("host", "evil.example")]
    assert rest.get("/api/v1/health", headers=two).status_code == 400


def test_allowed_names() -> None:
    """Further names can be allowed, with any port."""
    rest = client(allowed_hosts=["quota.example.org", "other.example:8443", "[2001:db8::1]"])

    for host in ("quota.example.org", "Quota.Example.org:99", "other.example:8443", "[2001:DB8:0::1]:1"):
        assert code(rest, "/api/v1/health", {"host": host})[0] == 200
    assert code(rest, "/api/v1/health", {"host": "x.quota.example.org"})[0] == 421


@pytest.mark.parametrize("wrong", ["localhost", [""], ["http://a"], ["a:b"], [7]])
def test_names_that_cannot_be_allowed(wrong: object) -> None:
    """An invalid host name is refused when the server is created."""
    with pytest.raises(RequestError):
        create_app({"default": busy()}, allowed_hosts=wrong)  # type: ignore[arg-type]  # that is the point


#: Headers of requests that pages of other origins cause.
FOREIGN: Final[list[dict[str, str]]] = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://testserver:8081"},
    {"origin": "ftp://testserver"},
    {"origin": "http://["},
    {"origin": "http://localhost"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "nonsense"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
    {"sec-fetch-site": "same-origin", "origin": "https://evil.example"},
]


@pytest.mark.parametrize("path", PATHS)
def test_another_origin_reads_nothing(rest: TestClient, path: str) -> None:
    """A request that a page of another origin has caused is refused on every path."""
    for headers in FOREIGN:
        assert code(rest, path, headers) == (403, "cross-origin"), headers


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/api/v1/config", CONFIG),
        ("POST", "/api/v1/config/reload", None),
        ("POST", "/api/v1/validate-conf", CONFIG),
        ("POST", f"{PREFIX}/check", "{}"),
        ("POST", f"{PREFIX}/allocate", "{}"),
    ],
)
def test_another_origin_writes_nothing(rest: TestClient, method: str, path: str, body: str | None) -> None:
    """A request of another origin is refused before its body is read, even with the token."""
    link = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        answer = rest.request(method, path, content=body, headers={**UPLOAD, **headers, **link})
        assert (answer.status_code, answer.json()["code"]) == (403, "cross-origin")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://testserver"},
        {"origin": "https://testserver:444", "host": "testserver:444"},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
    ],
)
def test_own_requests(rest: TestClient, headers: dict[str, str]) -> None:
    """Requests of the page itself, typed addresses, and links from other sites are accepted."""
    assert code(rest, "/", headers)[0] == 200


def test_behind_a_proxy(rest: TestClient) -> None:
    """If a proxy replaces the Host of the browser, the name that the browser uses must be allowed."""
    headers = {"origin": "https://quota.example.org", "sec-fetch-site": "same-origin"}

    assert code(rest, "/api/v1/health", headers) == (403, "cross-origin")
    assert code(client(allowed_hosts=["quota.example.org"]), "/api/v1/health", headers)[0] == 200


@pytest.mark.parametrize("path", ["/api/v1/validate-conf", f"{PREFIX}/plan", f"{PREFIX}/check", f"{PREFIX}/explain"])
def test_bodies_of_forms(rest: TestClient, path: str) -> None:
    """A body of a type that a form can send is refused."""
    forms = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data")
    for kind in ("", *forms, "text/yaml", "application/json-x"):
        answer = rest.post(path, content="{}", headers={"content-type": kind} if kind else {})
        assert (answer.status_code, answer.json()["code"]) == (415, "media-type")


def test_headers_of_refusals(rest: TestClient) -> None:
    """A refusal has the security headers, too."""
    answer = rest.get("/", headers={"host": "evil.example"})

    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in answer.headers
