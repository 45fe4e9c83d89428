"""Access control: the tokens of clients, and protection against requests that pages of other sites cause in a browser.

A token gives exactly one role, so that a scheduler cannot replace the configuration and an operator's token need not be
given to schedulers. An operator may replace the configuration, too. Reading needs no token.

Any page can make a browser send requests to this server, even if the server runs on the machine of the reader. Three
checks protect the partitions:

- ``Host`` must name this server. A page of another site can let its own name resolve to this machine; the browser then
  regards the responses as belonging to that site, but ``Host`` still contains the other name.
- Requests that another site caused are refused, whether they read or write. Browsers declare them in
  ``Sec-Fetch-Site`` and ``Origin``. Links to the page are allowed, because the other site cannot read the response.
- A body must have the documented media type (see `ugm.server.http.requests`), which a form of another site cannot send.

Other programs usually send only ``Host`` of these headers, so only the first check affects them.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ugm.errors import RequestError
from ugm.partition.interface.operation_kinds import Role
from ugm.server.http.audit import AuditLog
from ugm.server.http.payloads import ApiError, internal_error
from ugm.server.http.requests import error_response
from ugm.server.interface.route import TOKEN_NAMES

#: A shorter token could be guessed.
_SHORTEST_TOKEN: Final = 16


@final
class Tokens:
    """The tokens of a server.

    Args:
        operate: the token of operators; None if there is none.
        decide: the token of schedulers; None if no client may be one.
        read_only: whether operations of operators are refused, even with the token.

    Raises:
        RequestError: a token is missing or too short, or both are equal.
    """

    def __init__(self, operate: str | None, decide: str | None, *, read_only: bool) -> None:
        if not read_only and not operate:
            raise RequestError("token", operate, "a server that can be changed needs a token")
        given = {role: text for role, text in ((Role.OPERATOR, operate), (Role.SCHEDULER, decide)) if text is not None}
        for role, text in given.items():
            if len(text) < _SHORTEST_TOKEN:
                # The message must not contain the token, which is a secret even if it is too short.
                length = f"{len(text)} characters"
                raise RequestError(TOKEN_NAMES[role], length, f"expected at least {_SHORTEST_TOKEN} characters")
        if operate is not None and operate == decide:
            raise RequestError("decide_token", "the same text", "expected another token than that of operators")
        #: The roles that clients can have; a role without a token is refused.
        self._accepted: Final = {role: one for role, one in given.items() if role is not Role.OPERATOR or not read_only}

    def require(self, request: Request, role: Role) -> None:
        """Require that the client has a role other than that of viewers, which every client has.

        Raises:
            ApiError: no client can have the role, or the token is missing, wrong, or that of another role.
        """
        if role not in self._accepted:
            refused = "read-only" if role is Role.OPERATOR else "without a token for operations on partitions"
            raise ApiError(403, "read-only", f"the server was started {refused}")
        found = self._role_of(request)
        if found is None:
            reason = "the token is missing or wrong; expected the header Authorization: Bearer TOKEN"
            raise ApiError(401, "token-wrong", reason)
        if found is not role:
            reason = (
                f"this is the token of the role {found.name.lower()}; the request needs the role {role.name.lower()}"
            )
            raise ApiError(401, "token-wrong", reason)

    def _role_of(self, request: Request) -> Role | None:
        """Return the role that the token of a request gives; None if there is no token, or a wrong one."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        # The time of these comparisons does not depend on the number of correct characters.
        token = given.strip().encode()
        roles = [role for role, text in self._accepted.items() if hmac.compare_digest(token, text.encode())]
        return roles[0] if roles else None


# Requests of other sites

#: Allows only resources of this server and no inline code, so that a name with markup cannot be executed.
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
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+)(?::[0-9]{1,5})?")
#: The values of `Sec-Fetch-Site` for requests that the reader or the page of this server has caused.
_OWN_SITES: Final = frozenset(("same-origin", "none"))


def _host_in(text: str) -> str | None:
    """Return the canonical host of ``HOST`` or ``HOST:PORT``; None for other texts."""
    found = _HOST.fullmatch(text)
    return None if found is None else str(_address(found[1].strip("[]").rstrip(".").lower()))


def _address(host: str) -> IPv4Address | IPv6Address | str:
    """Return an address, whose text is its canonical spelling; a name is returned unchanged."""
    try:
        return ip_address(host)
    except ValueError:
        return host


def _is_loopback(host: str) -> bool:
    address = _address(host)
    if isinstance(address, str):
        return address == "localhost" or address.endswith(".localhost")
    return address.is_loopback


def require_hosts(names: Iterable[object]) -> frozenset[str]:
    """Return the canonical spellings of host names.

    Raises:
        RequestError: one of them is not a valid host name.
    """
    if isinstance(names, str):
        raise RequestError("allowed_hosts", names, "expected a list of names, found one text")
    found = {name: _host_in(name) if isinstance(name, str) else None for name in names}
    for name, host in found.items():
        if host is None:
            raise RequestError("allowed_hosts", name, "expected the name of a host")
    return frozenset(filter(None, found.values()))


@final
class OriginGuard:
    """Middleware that refuses requests of other sites, and adds the security headers to all responses.

    Loopback names (``localhost``, ``127.0.0.1``, ``::1``) are always accepted, with any port, because clients may
    connect through a tunnel. The address at which the connection arrived is also accepted.

    Args:
        app: the wrapped application.
        allowed: the other accepted host names, from `require_hosts`.
        audit: gets the changes that are refused.
    """

    def __init__(self, app: ASGIApp, allowed: frozenset[str], audit: AuditLog) -> None:
        self._app: Final = app
        self._allowed: Final = allowed
        self._audit: Final = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        error = self._find_error(scope)
        if error is not None and scope["method"] not in ("GET", "HEAD"):
            self._audit.write_rejection(scope, "anonymous", error.code)
        app = self._app if error is None else error_response(error)
        await app(scope, receive, send_with_headers)

    def _find_error(self, scope: Scope) -> ApiError | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        host = _host_in(hosts[0]) if len(hosts) == 1 else None
        if host is None:
            return ApiError(400, "host-invalid", "the request needs one header Host with the name of the server")
        own = scope.get("server")
        if not (_is_loopback(host) or host in self._allowed or (own is not None and str(_address(own[0])) == host)):
            message = f"unknown host {host[:100]!r}; the server can be started with it as an allowed host"
            return ApiError(421, "host-unknown", message)
        if self._is_foreign(headers, hosts[0], scope["method"]):
            return ApiError(403, "cross-origin", "the request was caused by a page of another site")
        return None

    def _is_foreign(self, headers: Headers, host: str, method: str) -> bool:
        """Return whether the headers of a browser declare that a page of another site caused the request."""
        if any(not self._is_own_origin(origin, host) for origin in headers.getlist("origin")):
            return True
        return not _OWN_SITES.issuperset(headers.getlist("sec-fetch-site")) and not _is_link(headers, method)

    def _is_own_origin(self, origin: str, host: str) -> bool:
        scheme, _, named = origin.lower().partition("://")
        # A proxy may change the Host. Then the name that the browser uses must be allowed.
        return scheme in ("http", "https") and (named == host.lower() or _host_in(named) in self._allowed)


def _is_link(headers: Headers, method: str) -> bool:
    """Return whether the reader followed a link, so that only the reader gets the response."""
    is_page = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return method == "GET" and is_page


async def failure_response(_request: Request, _error: Exception) -> Response:
    """Convert an unexpected exception to the form of all other errors; starlette raises it again for the log."""
    response = error_response(internal_error())
    # The exception has passed the middleware that adds them.
    response.raw_headers.extend(_HEADERS)
    return response
