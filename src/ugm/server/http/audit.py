"""The audit log: one line of JSON for every change, every rejected change and every failed authentication.

Of clients without a token, it has at most 20 lines of each kind per minute.

The lines go to the logger ``ugm.audit``, at the level INFO. A program decides where they are kept; ``ugm serve`` writes
them to standard error. Names from requests are JSON strings, so they cannot break or forge a line.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Final, final

__all__ = ["AuditLog"]

_LOGGER: Final = logging.getLogger("ugm.audit")

#: Lines of each kind about clients without a token that are written in each period; further ones are only counted.
_MOST_FAILURES: Final = 20
_PERIOD_SECONDS: Final = 60.0
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
        self._lock: Final = Lock()
        self._period_began = float("-inf")
        #: The failures in this period by outcome, and those that were not written.
        self._counts = Counter[str]()
        self._suppressed = Counter[str]()

    def write_rejection(self, scope: Mapping[str, Any], role: str, outcome: str) -> None:
        """Write a request that was rejected before its operation started, given its ASGI scope."""
        self.write(**_request_fields(scope), role=role, outcome=outcome)

    def write_failure(self, scope: Mapping[str, Any], outcome: str) -> None:
        """Write a failed authentication or a request of another site, unless there were many in the last minute.

        An attack must not fill the disk, but must be visible: each line contains the number of lines suppressed before
        it.
        """
        with self._lock:
            now = self._clock()
            if not 0 <= now - self._period_began < _PERIOD_SECONDS:
                self._period_began, self._counts = now, Counter()
            self._counts[outcome] += 1
            if self._counts[outcome] > _MOST_FAILURES:
                self._suppressed[outcome] += 1
                return
            suppressed = self._suppressed.pop(outcome, 0)
        more = {"suppressed_before": suppressed} if suppressed else {}
        self.write(**_request_fields(scope), role="anonymous", outcome=outcome, **more)

    def write(self, **fields: str | int) -> None:
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
        order = ("client", "role", "action", "object", "outcome", "suppressed_before")
        _LOGGER.info("%s", json.dumps({"time": at, **{name: fields[name] for name in order if name in fields}}))


def _request_fields(scope: Mapping[str, Any]) -> dict[str, str]:
    client: tuple[str, int] | None = scope.get("client")
    name = "unknown" if client is None else client[0]
    return {"client": name, "action": scope["method"], "object": scope["path"][:_MOST_PATH]}
