"""The audit log: one line of JSON for every change, every rejected change and every failed authentication.

Of clients without a token, it has at most 20 lines of each kind per minute.

The lines go to the logger ``ugm.audit``, at the level INFO. A program decides where they are kept; ``ugm serve`` writes
them to standard error. Names from requests are JSON strings, so they cannot break or forge a line.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, TypedDict, final

from ugm.errors import UgmError
from ugm.server.payloads import ApiError

__all__ = ["AuditLog", "AuditedOutcome", "RequestFields", "request_fields"]

_LOGGER: Final = logging.getLogger("ugm.audit")

#: Lines of each kind about clients without a token that are written in each period; further ones are only counted.
_MOST_FAILURES: Final = 20
_PERIOD_SECONDS: Final = 60.0
#: The most characters of a path in a line.
_MOST_PATH: Final = 200


class RequestFields(TypedDict):
    """The fields of a line about a request whose operation has not started."""

    client: str
    action: str
    target: str


def request_fields(scope: Mapping[str, Any]) -> RequestFields:
    """Return the client, the method and the path of a request, given its ASGI scope."""
    client: tuple[str, int] | None = scope.get("client")
    return {
        "client": "unknown" if client is None else client[0],
        "action": scope["method"],
        "target": scope["path"][:_MOST_PATH],
    }


@final
@dataclass(slots=True)
class AuditedOutcome:
    """The outcome of an operation, as the audit log names it."""

    text: str = "ok"


@final
class _FailureCounter:
    """Decides which failures of one kind are written, so that an attack cannot fill the disk."""

    __slots__ = ("_count", "_lock", "_period_began", "_suppressed")

    def __init__(self) -> None:
        self._lock: Final = Lock()
        self._period_began = float("-inf")
        self._count = 0
        self._suppressed = 0

    def count(self, now: float) -> int | None:
        """Count a failure, and return the number of failures suppressed before it; None if it is suppressed, too."""
        with self._lock:
            if not 0 <= now - self._period_began < _PERIOD_SECONDS:
                self._period_began, self._count = now, 0
            self._count += 1
            if self._count > _MOST_FAILURES:
                self._suppressed += 1
                return None
            suppressed, self._suppressed = self._suppressed, 0
            return suppressed


@final
class AuditLog:
    """Writes the audit log of one server.

    Args:
        clock: returns the time, in seconds since 1970.
    """

    __slots__ = ("_clock", "_failures", "_refusals")

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock: Final = clock
        self._failures: Final = _FailureCounter()
        #: Separate, so that pages of other sites cannot hide attempts to guess a token.
        self._refusals: Final = _FailureCounter()

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
            ApiError: the block raised it, or a `ugm.UgmError`.
        """
        outcome = AuditedOutcome()
        try:
            yield outcome
        except ApiError as error:
            outcome.text = error.code
            raise
        except UgmError as error:
            outcome.text = error.code
            raise ApiError.of(error) from None
        except BaseException:
            outcome.text = "failed"
            raise
        finally:
            self.write(client=client, role=role, action=action, target=target, outcome=outcome.text)

    @contextmanager
    def attempt(self, *, client: str, role: str, action: str, target: str) -> Iterator[Callable[[], None]]:
        """Write a line if the block fails before the operation starts, for the arguments see `write`.

        The block gets a function to call when the operation starts, because the operation writes its own line.

        Raises:
            ApiError: the block raised it. The function raises it if the line is written already.
        """
        # Held by the operation or by the line of the rejection. A request that is cancelled while it waits in a queue
        # is rejected, although its turn may come later, in another thread.
        decided = Lock()

        def start() -> None:
            if not decided.acquire(blocking=False):
                raise ApiError(503, "busy", "the server is stopping")

        try:
            yield start
        except BaseException as error:
            if decided.acquire(blocking=False):
                outcome = error.code if isinstance(error, ApiError) else "failed"
                self.write(client=client, role=role, action=action, target=target, outcome=outcome)
            raise

    def write_failure(self, *, client: str, action: str, target: str, outcome: str) -> None:
        """Write a failed authentication, unless there were many in the last minute.

        An attack must not fill the disk, but must be visible: each line contains the number of lines suppressed before
        it.
        """
        self._write_counted(self._failures, client=client, action=action, target=target, outcome=outcome)

    def write_refusal(self, *, client: str, action: str, target: str, outcome: str) -> None:
        """Write a change that is refused before the authentication, unless there were many in the last minute."""
        self._write_counted(self._refusals, client=client, action=action, target=target, outcome=outcome)

    def _write_counted(self, counter: _FailureCounter, *, client: str, action: str, target: str, outcome: str) -> None:
        now = self._clock()
        suppressed = counter.count(now)
        if suppressed is not None:
            more = {"suppressed_before": suppressed} if suppressed else {}
            self._write(now, client=client, role="anonymous", action=action, object=target, outcome=outcome, **more)

    @staticmethod
    def _write(now: float, **fields: str | int) -> None:
        at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03}Z"
        _LOGGER.info("%s", json.dumps({"time": at, **fields}))
