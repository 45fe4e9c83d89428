"""The audit log: one line of JSON for every change and every failed authentication.

The lines go to the logger ``ugm.audit``, at the level INFO. A program decides where they are kept; ``ugm serve`` writes
them to standard error. Names from requests are JSON strings, so they cannot break or forge a line.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Final, final

from ugm.errors import OutageError
from ugm.server.payloads import ApiError

__all__ = ["AuditLog", "AuditedOutcome"]

_LOGGER: Final = logging.getLogger("ugm.audit")

#: Failed authentications that are written in each period; further ones are only counted.
_MOST_FAILURES: Final = 20
_PERIOD_SECONDS: Final = 60.0


@final
@dataclass(slots=True)
class AuditedOutcome:
    """The outcome of an operation, as the audit log names it."""

    text: str = "ok"


@final
class AuditLog:
    """Writes the audit log of one server.

    Args:
        clock: returns the time, in seconds since 1970.
    """

    __slots__ = ("_clock", "_failures", "_lock", "_period_began", "_suppressed")

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock: Final = clock
        self._lock: Final = Lock()
        self._period_began = float("-inf")
        self._failures = 0
        self._suppressed = 0

    def write(self, *, client: str, role: str, action: str, target: str, outcome: str) -> None:
        """Write a line.

        Args:
            client: the address of the client; ``local`` for a signal or the file watcher.
            role: the role of the actor: ``operator``, ``scheduler``, ``anonymous``, ``signal``, ``watch`` or
                ``program``.
            action: the requested action, for example ``PUT /config``.
            target: the object of the action.
            outcome: ``ok``, ``denied``, ``failed`` for an unexpected error, or the code of the refusal.
        """
        self._write(self._clock(), client=client, role=role, action=action, object=target, outcome=outcome)

    @contextmanager
    def operation(self, *, client: str, role: str, action: str, target: str) -> Iterator[AuditedOutcome]:
        """Write a line with the outcome of the operation in the block, for the arguments see `write`.

        The block may set another outcome than ``ok``.

        Raises:
            ApiError: the block raised it, or an `ugm.errors.OutageError`.
        """
        outcome = AuditedOutcome()
        try:
            yield outcome
        except ApiError as error:
            outcome.text = error.code
            raise
        except OutageError as error:
            unavailable = ApiError.of(error)
            outcome.text = unavailable.code
            raise unavailable from None
        except BaseException:
            outcome.text = "failed"
            raise
        finally:
            self.write(client=client, role=role, action=action, target=target, outcome=outcome.text)

    def write_failure(self, *, client: str, action: str, target: str, outcome: str) -> None:
        """Write a failed authentication, unless there were many in the last minute.

        An attack must not fill the disk, but must be visible: each line contains the number of lines suppressed before
        it.
        """
        with self._lock:
            now = self._clock()
            if not 0 <= now - self._period_began < _PERIOD_SECONDS:
                self._period_began, self._failures = now, 0
            self._failures += 1
            if self._failures > _MOST_FAILURES:
                self._suppressed += 1
                return
            suppressed, self._suppressed = self._suppressed, 0
        more = {"suppressed_before": suppressed} if suppressed else {}
        self._write(now, client=client, role="anonymous", action=action, object=target, outcome=outcome, **more)

    @staticmethod
    def _write(now: float, **fields: str | int) -> None:
        at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03}Z"
        _LOGGER.info("%s", json.dumps({"time": at, **fields}))
