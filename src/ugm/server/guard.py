"""Which requests a browser may have sent on behalf of this server's own page, and which are refused unread.

A browser sends requests to this server for every page that asks it to, also to a server on the reader's own machine.
Three checks stand between such a page and the partitions:

- The ``Host`` must name this server. A page of another site can make its own name resolve to this machine; the browser
  then takes the answers for its own, but the ``Host`` still has the other name.
- A request that another site caused is refused, whether it reads or writes. Browsers say so in ``Sec-Fetch-Site`` and
  ``Origin``. The one exception is following a link to the page, whose answer the other site does not get.
- A body must have the documented media type (see `ugm.server.requests`), which a form of another site cannot have.

Programs send none of these headers but ``Host``, and are not affected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple, final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ugm.errors import RequestError
from ugm.server.errors import ApiError
from ugm.server.responses import refusal

__all__ = ["Guarded", "Hosts", "has_body"]

#: Nothing but what the server itself serves; nothing of it inline, so that a name with markup stays a name.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
#: A name or address, and a port.
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+)(?::([0-9]{1,5}))?")
_PORTS: Final = {"http": 80, "https": 443}
#: What `Sec-Fetch-Site` says of requests that the reader or this server's own page has caused.
_OWN: Final = frozenset(("same-origin", "none"))


class _Authority(NamedTuple):
    """A host with a port; None for the usual port of the scheme, or in a list for any port."""

    host: str
    port: int | None


def _parsed(text: str) -> _Authority | None:
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        return None
    host, port = found.group(1).strip("[]").rstrip(".").lower(), found.group(2)
    return _Authority(_plain(host), None if port is None else int(port))


def _plain(host: str) -> str:
    """Return the one spelling of an address; a name stays as it is."""
    try:
        return str(ip_address(host))
    except ValueError:
        return host


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


@final
class Hosts:
    """The names under which a server answers.

    Loopback names (``localhost``, ``127.0.0.1``, ``::1``) always count, with any port: the server may be reached
    through a tunnel. So does the address at which the connection arrived.

    Args:
        allowed: further names, each ``NAME`` or ``NAME:PORT``.

    Raises:
        RequestError: one of them is no name of a host.
    """

    __slots__ = ("_allowed",)

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        if isinstance(allowed, str):
            raise RequestError("allowed_hosts", allowed, "expected several names, not a text")
        self._allowed: Final = frozenset(_required(name) for name in allowed)

    def is_own(self, authority: _Authority, server: tuple[str, int | None] | None) -> bool:
        """Return whether a ``Host`` names this server.

        Args:
            authority: what the client says.
            server: the address at which the connection arrived, if it is known.
        """
        host = authority.host
        return _is_loopback(host) or self.is_allowed(authority) or (server is not None and host == _plain(server[0]))

    def is_allowed(self, authority: _Authority) -> bool:
        """Return whether a name was allowed explicitly."""
        return authority in self._allowed or authority._replace(port=None) in self._allowed


def _required(name: object) -> _Authority:
    found = _parsed(name) if isinstance(name, str) else None
    if found is None:
        raise RequestError("allowed_hosts", name, "expected NAME or NAME:PORT")
    return found


@final
class Guarded:
    """An application that refuses foreign requests, and whose answers all have the headers that browsers obey.

    Args:
        app: the application.
        hosts: the names under which it answers.
    """

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self._app: Final = app
        self._hosts: Final = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        error = self._refused(scope)
        answer = self._app if error is None else refusal(error, has_body=has_body(scope))
        await answer(scope, receive, guarded)

    def _refused(self, scope: Scope) -> ApiError | None:
        headers = _headers(scope)
        hosts = headers.get("host", [])
        authority = _parsed(hosts[0]) if len(hosts) == 1 else None
        if authority is None:
            return ApiError(400, "host-invalid", "the request needs one header Host with the name of the server")
        if not self._hosts.is_own(authority, scope.get("server")):
            message = (
                f"the server does not answer for the host {authority.host[:100]!r}; it can be allowed at its start"
            )
            return ApiError(421, "host-unknown", message)
        if self._is_foreign(headers, authority, scope["method"]):
            return ApiError(403, "cross-origin", "the request was caused by a page of another site")
        return None

    def _is_foreign(self, headers: Mapping[str, list[str]], authority: _Authority, method: str) -> bool:
        """Return whether a browser says that a page of another site has caused a request."""
        origins = headers.get("origin", [])
        if any(not self._is_own_origin(origin, authority) for origin in origins):
            return True
        sites = headers.get("sec-fetch-site", [])
        return not _OWN.issuperset(sites) and not _is_link(headers, method)

    def _is_own_origin(self, origin: str, authority: _Authority) -> bool:
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        found, usual = _parsed(parts.netloc), _PORTS.get(parts.scheme)
        if found is None or usual is None:
            return False
        # A proxy may pass on another Host than the browser used; then the name in the browser has to be allowed.
        same = found._replace(port=found.port or usual) == authority._replace(port=authority.port or usual)
        return same or self._hosts.is_allowed(found)


def _is_link(headers: Mapping[str, list[str]], method: str) -> bool:
    """Return whether the reader followed a link, which shows the answer to nobody else."""
    is_page = headers.get("sec-fetch-mode") == ["navigate"] and headers.get("sec-fetch-dest") == ["document"]
    return method == "GET" and is_page


def has_body(scope: Scope) -> bool:
    """Return whether a client announces a body."""
    headers = _headers(scope)
    return "transfer-encoding" in headers or headers.get("content-length", ["0"]) != ["0"]


def _headers(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1").strip())
    return found
