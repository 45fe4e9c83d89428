"""Changes that are refused before a route answers them: their lines in the audit log."""

from __future__ import annotations

import re
from typing import Final, final

from starlette.routing import compile_path
from starlette.types import Scope

from ugm.server.access import Role
from ugm.server.audit import AuditLog, request_fields
from ugm.server.route_table import ROUTES

__all__ = ["RefusedChanges"]

#: The methods and paths that change something.
_CHANGES: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (route.method, compile_path(route.full_path)[0]) for route in ROUTES if route.role is not Role.READ
)


@final
class RefusedChanges:
    """Writes those of the refused requests that would have changed something.

    Args:
        audit: the audit log.
    """

    __slots__ = ("_audit",)

    def __init__(self, audit: AuditLog) -> None:
        self._audit: Final = audit

    def write(self, scope: Scope, outcome: str) -> None:
        """Write a refused request with the code of its error, unless it would have changed nothing."""
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if any(scope["method"] == method and pattern.match(path) for method, pattern in _CHANGES):
            self._audit.write_refusal(**request_fields(scope), outcome=outcome)
