"""Stored answers to changes with an idempotency key, so that a repeated request changes nothing.

The problem: a client or proxy sends a request again because its answer was lost. If the repetition arrives late, after
the allocation was released, it would be charged again, and nobody would release it.

The idea: a client names each change with a key of its own, in the header ``Idempotency-Key``. The first request with a
key is executed, and its answer is stored. A repetition gets the stored answer. Answers about outages are not stored,
because the change may have to be repeated.

Invariant: the answers to changes of one queue are computed one at a time, so a repetition never overtakes the first
request. The cost is bounded: the oldest answers are forgotten, and they are lost when the server stops.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from hashlib import sha256
from threading import Lock
from typing import Final, NamedTuple, final

from ugm.server.payloads import ApiError, Payload
from ugm.server.state import RequestContext

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
    """The newest answers of one server by idempotency key.

    Args:
        clock: returns a time in seconds that never goes back.
    """

    __slots__ = ("_answers", "_clock", "_lock", "_size")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock: Final = clock
        self._lock: Final = Lock()
        #: The oldest first.
        self._answers: Final[dict[str, _Answer]] = {}
        self._size = 0

    def run(self, key: str, path: str, context: RequestContext, answer: Callable[[], Payload]) -> Payload:
        """Return the stored answer to a request, or answer it and store that.

        Args:
            key: the key of the request.
            path: the path of the request.
            context: the request.
            answer: answers the request.

        Raises:
            ApiError: the answer is an error; or the key is invalid, or belongs to another request.
        """
        if not 0 < len(key) <= _LONGEST_KEY:
            raise ApiError(400, "idempotency-key-invalid", f"a key has 1 to {_LONGEST_KEY} characters")
        content = json.dumps([path, dict(context.query), context.body, context.text], sort_keys=True)
        digest = sha256(content.encode()).digest()
        with self._lock:
            self._forget_old()
            known = self._answers.get(key)
        if known is not None and known.digest != digest:
            raise ApiError(422, "idempotency-key-reused", "another request had this key; use a new key")
        if known is not None:
            return _given(known.result)
        try:
            result: Payload | ApiError = answer()
        except ApiError as error:
            if error.status >= _FAILED:
                raise
            result = error
        with self._lock:
            self._store(key, _Answer(self._clock(), digest, result))
        return _given(result)

    def _store(self, key: str, answer: _Answer) -> None:
        if key in self._answers:
            self._drop(key)
        self._answers[key] = answer
        self._size += answer.size
        while len(self._answers) > _MOST_ANSWERS or self._size > _MOST_BYTES:
            self._drop(next(iter(self._answers)))

    def _forget_old(self) -> None:
        oldest = self._clock() - _MOST_SECONDS
        while self._answers and next(iter(self._answers.values())).at < oldest:
            self._drop(next(iter(self._answers)))

    def _drop(self, key: str) -> None:
        self._size -= self._answers.pop(key).size


def _given(result: Payload | ApiError) -> Payload:
    if isinstance(result, ApiError):
        raise result
    return result
