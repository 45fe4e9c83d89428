"""Stored answers to changes with an idempotency key, so that a repeated request changes nothing.

The problem: a client or proxy sends a request again because its answer was lost. If the repetition arrives late, after
the allocation was released, it would be charged again, and never released.

The idea: a client names each change with a key of its own, in the header ``Idempotency-Key``. The first request with a
key is executed, and its answer is stored. A repetition gets the stored answer. Answers about outages are not stored,
because the change may have to be repeated.

Invariant: changes with a key are executed one at a time, so a repetition never overtakes the first request. The cost is
bounded: the oldest answers are forgotten, and they are lost when the server stops.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Final, NamedTuple, final

from ugm.server.http.payloads import ApiError, Payload

__all__ = ["IDEMPOTENCY_KEY", "IdempotentAnswers"]

#: The header with the key of a request.
IDEMPOTENCY_KEY: Final = "Idempotency-Key"

#: The bounds of the stored answers: their number, their size in bytes, and their age in seconds.
_MOST_ANSWERS: Final = 10_000
_MOST_BYTES: Final = 1 << 25
_MOST_SECONDS: Final = 3600
_LONGEST_KEY: Final = 256
#: Answers with this status and higher ones are not stored.
_FAILED: Final = 500


class _Answer(NamedTuple):
    at: float
    digest: bytes
    result: Payload | ApiError

    @property
    def size(self) -> int:
        payload = self.result if isinstance(self.result, Payload) else self.result.payload()
        return len(payload.content)


@final
class IdempotentAnswers:
    """The newest answers of one server by idempotency key."""

    def __init__(self) -> None:
        #: Held while a change with a key is executed.
        self._lock: Final = Lock()
        #: The oldest first.
        self._answers: Final[dict[str, _Answer]] = {}
        self._size = 0

    def run(self, key: str, digest: bytes, answer: Callable[[], Payload]) -> Payload:
        """Return the stored answer to a request, or answer it and store that.

        Args:
            key: the key of the request.
            digest: a hash of the path, the query and the body.
            answer: answers the request.

        Raises:
            ApiError: the answer is an error; or the key is invalid, or belongs to another request.
        """
        if not 0 < len(key) <= _LONGEST_KEY:
            raise ApiError(400, "idempotency-key-invalid", f"a key has 1 to {_LONGEST_KEY} characters")
        with self._lock:
            self._forget()
            known = self._answers.get(key)
            if known is not None and known.digest != digest:
                raise ApiError(422, "idempotency-key-reused", "another request had this key; use a new key")
            result = self._execute(key, digest, answer) if known is None else known.result
        if isinstance(result, ApiError):
            raise result
        return result

    def _execute(self, key: str, digest: bytes, answer: Callable[[], Payload]) -> Payload | ApiError:
        try:
            result: Payload | ApiError = answer()
        except ApiError as error:
            if error.status >= _FAILED:
                raise
            result = error
        stored = self._answers[key] = _Answer(time.monotonic(), digest, result)
        self._size += stored.size
        self._forget()
        return result

    def _forget(self) -> None:
        """Forget the answers that are too old, or too many."""
        oldest = time.monotonic() - _MOST_SECONDS
        while self._answers:
            key, first = next(iter(self._answers.items()))
            if first.at >= oldest and len(self._answers) <= _MOST_ANSWERS and self._size <= _MOST_BYTES:
                return
            self._size -= self._answers.pop(key).size
