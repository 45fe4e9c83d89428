"""Requests of pages of other sites, and requests for other hosts, are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest
from starlette.testclient import TestClient

from support.examples import pairs
from support.server_fixtures import CONFIG, PREFIX, TOKEN, UPLOAD, YUNIKORN, busy, client, served
from ugm import RequestError
from ugm.server import create_app

#: Every test runs with partitions in memory and with clients of a service.
pytestmark = pytest.mark.usefixtures("service")

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


def code(path: str, headers: Mapping[str, str], **options: Any) -> tuple[int, str]:  # noqa: ANN401 - handed on
    """Return the status and the code of a response."""
    answer = client(**options).get(path, headers=dict(headers))
    is_json = answer.headers["content-type"].endswith("json")
    body = answer.json() if is_json else {}
    return answer.status_code, body.get("code", "") if isinstance(body, dict) else ""


@pytest.mark.parametrize(
    ("path", "host"),
    pairs(PATHS, ["evil.example", "localhost.evil.example", "1.2.3.4", "[2001:db8::1]", "testserver.x:80"]),
)
def test_another_host(path: str, host: str) -> None:
    """A request for another host is refused on every path."""
    assert code(path, {"host": host}) == (421, "host-unknown")


@pytest.mark.parametrize(
    "host", ["", "a b", "user@localhost", "localhost:x", "localhost:123456", "http://localhost", "[::1"]
)
def test_a_host_that_is_none(host: str) -> None:
    """A Host that is malformed is refused."""
    assert code("/api/v1/health", {"host": host}) == (400, "host-invalid")


def test_two_hosts() -> None:
    """Two Host headers are refused, because a proxy and the server could use different ones."""
    answer = client().get("/api/v1/health", headers=[("host", "localhost"), ("host", "evil.example")])

    assert answer.status_code == 400


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8080",
        "localhost.",
        "127.0.0.1",
        "127.9.9.9:1",
        "[::1]:8080",
        "ugm.localhost",
        "testserver",
    ],
)
def test_own_names(host: str) -> None:
    """Loopback names with any port, and the address of the connection, are the server's own."""
    assert code("/api/v1/health", {"host": host})[0] == 200


def test_allowed_names() -> None:
    """Further names can be allowed, with any port or with one."""
    allowed = {"allowed_hosts": ["quota.example.org", "other.example:8443", "[2001:db8::1]"]}

    for host in ("quota.example.org", "Quota.Example.org:99", "other.example:8443", "[2001:DB8:0::1]:1"):
        assert code("/api/v1/health", {"host": host}, **allowed)[0] == 200
    for host in ("other.example", "x.quota.example.org"):
        assert code("/api/v1/health", {"host": host}, **allowed)[0] == 421


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


@pytest.mark.parametrize(("path", "headers"), pairs(PATHS, FOREIGN))
def test_another_origin_reads_nothing(path: str, headers: dict[str, str]) -> None:
    """A request that a page of another origin has caused is refused on every path."""
    assert code(path, headers) == (403, "cross-origin")


@pytest.mark.parametrize("headers", [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}])
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
def test_another_origin_writes_nothing(method: str, path: str, body: str | None, headers: dict[str, str]) -> None:
    """A request of another origin is refused before its body is read, even with the token."""
    link = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    answer = client().request(method, path, content=body, headers={**UPLOAD, **headers, **link})

    assert (answer.status_code, answer.json()["code"]) == (403, "cross-origin")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://testserver"},
        {"origin": "http://testserver:80"},
        {"origin": "https://testserver", "host": "testserver:443"},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
    ],
)
def test_own_requests(headers: dict[str, str]) -> None:
    """Requests of the page itself, typed addresses, and links from other sites are accepted."""
    assert code("/", headers)[0] == 200


def test_behind_a_proxy() -> None:
    """If a proxy replaces the Host of the browser, the name that the browser uses must be allowed."""
    headers = {"origin": "https://quota.example.org", "sec-fetch-site": "same-origin"}

    assert code("/api/v1/health", headers) == (403, "cross-origin")
    assert code("/api/v1/health", headers, allowed_hosts=["quota.example.org"])[0] == 200


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/yaml", "application/json-x"],
)
@pytest.mark.parametrize("path", ["/api/v1/validate-conf", f"{PREFIX}/plan", f"{PREFIX}/check", f"{PREFIX}/explain"])
def test_bodies_of_forms(kind: str, path: str) -> None:
    """A body of a type that a form can send is refused."""
    answer = client().post(path, content="{}", headers={"content-type": kind} if kind else {})

    assert (answer.status_code, answer.json()["code"]) == (415, "media-type")


def test_headers_of_refusals() -> None:
    """A refusal has the security headers, too."""
    answer = client().get("/", headers={"host": "evil.example"})

    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in answer.headers


def test_programs_are_not_affected() -> None:
    """A program that sends no Origin can upload with the token."""
    assert client().put("/api/v1/config", content=CONFIG, headers=UPLOAD).status_code == 200
    assert TestClient(served()).post("/api/v1/config/reload", headers=TOKEN).status_code == 409
