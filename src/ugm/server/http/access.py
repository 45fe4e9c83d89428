"""Access control: the token of each role of clients.

A token gives exactly one role, so that a scheduler cannot replace the configuration and an operator's token need not be
given to schedulers. An operator may replace the configuration, too. Reading needs no token.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final, final

from starlette.requests import Request

from ugm.errors import RequestError
from ugm.partition.interface.operations import Role
from ugm.server.http.payloads import ApiError

__all__ = ["Tokens"]

#: A shorter token could be guessed.
_SHORTEST_TOKEN: Final = 16


#: The argument of `create_app` with the token of a role.
_ARGUMENTS: Final[Mapping[Role, str]] = {Role.OPERATOR: "token", Role.SCHEDULER: "decide_token"}


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

    #: The roles that clients can have; a role without a token is refused.
    _accepted: Mapping[Role, str]

    def __init__(self, operate: str | None, decide: str | None, *, read_only: bool) -> None:
        if not read_only and not operate:
            raise RequestError("token", operate, "a server that can be changed needs a token")
        given = {role: text for role, text in ((Role.OPERATOR, operate), (Role.SCHEDULER, decide)) if text is not None}
        for role, text in given.items():
            _require_length(_ARGUMENTS[role], text)
        if operate is not None and operate == decide:
            raise RequestError("decide_token", "the same text", "expected another token than that of operators")
        self._accepted = {role: text for role, text in given.items() if role is not Role.OPERATOR or not read_only}

    def require(self, request: Request, role: Role) -> None:
        """Require that the client has a role other than that of viewers, which every client has.

        Raises:
            ApiError: no client can have the role, or the token is missing or wrong.
        """
        token = self._accepted.get(role)
        if token is None:
            refused = "read-only" if role is Role.OPERATOR else "without a token for operations on partitions"
            raise ApiError(403, "read-only", f"the server was started {refused}")
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        # The time of this comparison does not depend on the number of correct characters.
        matches = hmac.compare_digest(given.strip().encode(), token.encode())
        if scheme.lower() != "bearer" or not matches:
            reason = "the token is missing or wrong; expected the header Authorization: Bearer TOKEN"
            raise ApiError(401, "token-wrong", reason)


def _require_length(argument: str, token: str) -> None:
    if len(token) < _SHORTEST_TOKEN:
        # The message must not contain the token, which is a secret even if it is too short.
        raise RequestError(argument, f"{len(token)} characters", f"expected at least {_SHORTEST_TOKEN} characters")
