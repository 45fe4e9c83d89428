"""The calls of a client that are not answered yet, without any input or output.

Every call has a number in the session. Calls are sent in the order of their numbers. After a reconnect all calls that
were not answered are sent again with the same numbers, and the leader does not execute them twice.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from math import inf
from typing import Final, Protocol, final

import msgspec

from ugm.errors import RequestError
from ugm.service.operations import Operation
from ugm.service.wire import Execute, OperationRequest, Reply, frame

__all__ = ["Call", "OpenCalls", "require_query"]

#: The number of operations in one message, and the size at which a message is not extended any more, in bytes.
_REQUESTS: Final = 500
_MESSAGE: Final = 1 << 18
#: The number of operations after the last acknowledged one that are sent. The leader keeps the answers to them.
_WINDOW: Final = 10_000


class Call(Protocol):
    """A call that waits for its answer.

    Attributes:
        number: the number in the session; set by `OpenCalls`.
    """

    number: int

    @property
    def request(self) -> OperationRequest:
        """The encoded operation."""
        ...

    @property
    def deadline(self) -> float:
        """The time of `time.monotonic` until which the call waits."""
        ...

    def wake(self) -> None:
        """Let the thread that waits for the call read."""
        ...

    def complete(self, status: int, value: msgspec.Raw) -> None:
        """Accept the answer."""
        ...

    def fail(self, error: Exception) -> None:
        """Accept an error instead of an answer."""
        ...


@final
class OpenCalls:
    """The calls of one session that are not answered yet, in the order of their numbers."""

    __slots__ = ("_earliest", "_last", "calls", "unsent")

    #: By number. Any thread may test at any time whether there are any.
    calls: Final[dict[int, Call]]
    #: The numbers of the calls that were not sent; `take` may hold them back. Any thread may test at any time whether
    #: there are any.
    unsent: Final[deque[int]]

    def __init__(self) -> None:
        self.calls = {}
        self.unsent = deque()
        self._last = 0
        #: No open call has an earlier deadline.
        self._earliest = inf

    def add(self, call: Call) -> None:
        """Add a call and number it."""
        if call.deadline < self._earliest:  # noqa: PLR1730 - `min` takes longer
            self._earliest = call.deadline
        self._last = call.number = number = self._last + 1
        self.calls[number] = call
        self.unsent.append(number)

    def add_only(self, call: Call) -> bytes:
        """Add a call while none is open, and return the message with it, which the caller sends at once."""
        if call.deadline < self._earliest:  # noqa: PLR1730 - `min` takes longer
            self._earliest = call.deadline
        self._last = call.number = number = self._last + 1
        self.calls[number] = call
        return frame(Execute(number, number - 1, [call.request]))

    @property
    def can_send(self) -> bool:
        """True if `take` may return a message."""
        unsent = self.unsent
        return bool(unsent) and unsent[0] <= self.acknowledged + _WINDOW

    def first(self, count: int) -> list[Call]:
        """Return the oldest calls."""
        return list(islice(self.calls.values(), count))

    def discard(self, number: int) -> None:
        """Give up a call. If it was not sent yet, it never will be."""
        self.calls.pop(number, None)

    def send_again(self) -> None:
        """Send all calls again, because the connection is a new one."""
        self.unsent.clear()
        self.unsent.extend(self.calls)

    @property
    def acknowledged(self) -> int:
        """The last number up to which no call is open."""
        return next(iter(self.calls), self._last + 1) - 1

    def take(self) -> bytes:
        """Return the next message to send; empty if everything was sent, or if too many answers are missing."""
        unsent, calls = self.unsent, self.calls
        # Calls that were given up leave gaps, and the numbers of a message have none.
        while unsent and unsent[0] not in calls:
            unsent.popleft()
        if not unsent:
            return b""
        # `acknowledged`, written out because it is computed for every message.
        acknowledged = next(iter(calls)) - 1
        first = unsent[0]
        if first > acknowledged + _WINDOW:
            return b""
        unsent.popleft()
        requests = [calls[first].request]
        if unsent:
            self._extend(first, requests)
        return frame(Execute(first, acknowledged, requests))

    def _extend(self, first: int, requests: list[OperationRequest]) -> None:
        """Add the calls that follow a first one to its message, as far as the bounds of a message allow."""
        unsent, calls, size = self.unsent, self.calls, 0
        while unsent and len(requests) < _REQUESTS:
            size += len(memoryview(requests[-1].arguments))
            call = calls.get(unsent[0])
            if call is None or unsent[0] != first + len(requests) or size > _MESSAGE:
                break
            unsent.popleft()
            requests.append(call.request)

    def answered(self, answers: list[Reply]) -> list[tuple[Call, Reply]]:
        """Return the calls that are answered, which stay open. Replies to calls that were given up are ignored."""
        calls = self.calls
        return [(calls[answer.number], answer) for answer in answers if answer.number in calls]

    def all(self) -> list[Call]:
        """Return all calls."""
        return list(self.calls.values())

    def expired(self, now: float) -> list[Call]:
        """Return the calls whose deadline has passed, which stay open.

        The calls are searched only when a deadline may have passed, because clients ask after every message.
        """
        if now < self._earliest:
            return []
        self._earliest = min((call.deadline for call in self.calls.values()), default=inf)
        return [call for call in self.calls.values() if call.deadline <= now]


def require_query(operation: Operation) -> None:
    """Check that a read-only connection may execute an operation.

    Raises:
        RequestError: it is a change, or an operation on sessions.
    """
    if operation.is_change or operation.is_about_sessions:
        raise RequestError("operation", operation.name, "the connection is read-only", "operation-unavailable")
