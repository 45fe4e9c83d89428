"""The audit log: one line of JSON for every change, every rejected change and every failed authentication.

The lines go to the logger ``ugm.audit``, at the level INFO. A program decides where they are kept; ``ugm serve`` writes
them to standard error. Names from requests are JSON strings, so they cannot break or forge a line.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, final

__all__ = ["AuditLog"]

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
        name, path = "unknown" if client is None else client[0], scope["path"][:_MOST_PATH]
        self.write(client=name, role=role, action=scope["method"], object=path, outcome=outcome)

    def write(self, **fields: str) -> None:
        """Write a line.

        Args:
            fields: those of the line: ``client``, the address of the client, or ``local`` for a signal or the file
                watcher; ``role``, which is ``operator``, ``scheduler``, ``anonymous``, ``signal``, ``watch`` or
                ``program``; ``action``, for example ``PUT /config``; ``object``, the object of the action; and
                ``outcome``, which is ``ok``, ``denied``, ``failed`` for an unexpected error, or the code of the
                refusal.
        """
        now = self._clock()
        at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03}Z"
        order = ("client", "role", "action", "object", "outcome")
        _LOGGER.info("%s", json.dumps({"time": at, **{name: fields[name] for name in order}}))
