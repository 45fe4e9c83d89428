"""The audit log: one line of JSON for every change, every rejected change and every failed authentication.

The lines go to the logger ``ugm.audit``, at the level INFO. A program decides where they are kept; ``ugm serve`` writes
them to standard error. Names from requests are JSON strings, so they cannot break or forge a line.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, final

_LOGGER: Final = logging.getLogger("ugm.audit")

#: The most characters of a path in a line.
_MOST_PATH: Final = 200


@final
class AuditLog:
    """Writes the audit log of one server.

    Args:
        clock: returns the time, in seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock: Final = clock

    def write_rejection(self, scope: Mapping[str, Any], role: str, outcome: str) -> None:
        """Write a request that was rejected before its operation started, given its ASGI scope."""
        client: tuple[str, int] | None = scope.get("client")
        name = "unknown" if client is None else client[0]
        self.write(name, role, scope["method"], scope["path"][:_MOST_PATH], outcome)

    def write(self, client: str, role: str, action: str, target: str, outcome: str) -> None:
        """Write a line.

        Args:
            client: the address of the client, or ``local`` for a signal or the file watcher.
            role: ``operator``, ``scheduler``, ``anonymous``, ``signal``, ``watch`` or ``program``.
            action: for example ``PUT /config``.
            target: the object of the action.
            outcome: ``ok``, ``denied``, ``failed`` for an unexpected error, or the code of the refusal.
        """
        at = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": at, "client": client, "role": role, "action": action, "object": target, "outcome": outcome}
        _LOGGER.info("%s", json.dumps(line))
