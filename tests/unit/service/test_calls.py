"""The calls of a client that are not answered yet."""

from __future__ import annotations

from msgspec import Raw

from ugm.service.calls import OpenCalls
from ugm.service.wire import Execute, FrameReader, OperationRequest, Reply, decode_client_message


class Waiting:
    """A call that notes what happened to it."""

    def __init__(self, operation: int, deadline: float = 0) -> None:
        self.request = OperationRequest(operation, Raw(b"\xc0"))
        self.deadline = deadline
        self.number = 0
        self.outcome: object = None

    def wake(self) -> None:
        """Do nothing."""

    def complete(self, status: int, value: Raw) -> None:
        """Note the answer."""
        self.outcome = status, bytes(value)

    def fail(self, error: Exception) -> None:
        """Note the error."""
        self.outcome = error


def sent(calls: OpenCalls) -> tuple[int, int, list[int]] | None:
    """Return the numbers and operations of the next message."""
    data = calls.take()
    return decoded(data) if data else None


def decoded(data: bytes) -> tuple[int, int, list[int]]:
    """Return the numbers and operations of a message."""
    [content] = FrameReader().feed(data)
    message = decode_client_message(content)
    assert isinstance(message, Execute)
    return message.first, message.acknowledged, [request.operation for request in message.requests]


def test_calls_share_a_message() -> None:
    """All calls that were not sent yet are in one message."""
    calls = OpenCalls()
    waiting = [Waiting(operation) for operation in (5, 6, 7)]
    for call in waiting:
        calls.add(call)
    assert [call.number for call in waiting] == [1, 2, 3]
    assert sent(calls) == (1, 0, [5, 6, 7])
    assert sent(calls) is None
    calls.add(Waiting(8))
    assert sent(calls) == (4, 0, [8])


def test_a_call_that_is_alone() -> None:
    """`add_only` returns the message of `add` and `take`. It is sent a second time only on a new connection."""
    direct, general = OpenCalls(), OpenCalls()
    for number in range(1, 5):
        general.add(Waiting(number))
        data = direct.add_only(Waiting(number))
        assert data == general.take()
        assert decoded(data) == (number, number - 1, [number])
        assert sent(direct) is None
        direct.send_again()
        assert direct.take() == data
        for calls in (direct, general):
            calls.discard(number)


def test_answers_are_acknowledged_without_gaps() -> None:
    """Only numbers before the first open call are acknowledged."""
    calls = OpenCalls()
    for _ in range(3):
        calls.add(Waiting(0))
    calls.discard(2)
    assert calls.acknowledged == 0
    calls.discard(1)
    assert calls.acknowledged == 2
    calls.discard(3)
    assert (calls.acknowledged, calls.calls) == (3, {})


def test_answered_calls_stay_open() -> None:
    """Answers to open calls are found. Replies to other calls are ignored, and nothing is removed."""
    calls = OpenCalls()
    calls.add(call := Waiting(0))
    reply = Reply(1, 0, Raw(b"\xc0"))
    assert calls.answered([reply, Reply(9, 0, Raw(b"\xc0"))]) == [(call, reply)]
    assert calls.all() == [call]


def test_open_calls_are_sent_again_with_their_numbers() -> None:
    """After a reconnect the calls without an answer are sent again; gaps divide them into messages."""
    calls = OpenCalls()
    for operation in (1, 2, 3, 4):
        calls.add(Waiting(operation))
    sent(calls)
    calls.discard(2)
    calls.send_again()
    assert sent(calls) == (1, 0, [1])
    assert sent(calls) == (3, 0, [3, 4])
    assert sent(calls) is None


def test_calls_that_were_given_up_are_not_sent() -> None:
    """A call that was given up before it was sent is never sent, and counts as acknowledged."""
    calls = OpenCalls()
    first = Waiting(1)
    calls.add(first)
    calls.add(Waiting(2))
    calls.discard(first.number)
    assert sent(calls) == (2, 1, [2])


def test_deadlines() -> None:
    """Calls whose deadline has passed are found, and stay open."""
    calls = OpenCalls()
    late, early = Waiting(1, deadline=5), Waiting(2, deadline=3)
    calls.add(late)
    calls.add(early)
    assert calls.expired(2) == []
    assert calls.expired(4) == [early]
    assert calls.all() == [late, early]
    assert calls.expired(4) == [early]
    calls.discard(early.number)
    assert calls.expired(4) == []
    assert calls.expired(5) == [late]
    calls.discard(late.number)
    assert calls.expired(5) == []
    calls.add_only(alone := Waiting(3, deadline=1))
    assert calls.expired(5) == [alone]


class Searched(Waiting):
    """A call that counts how often its deadline is read."""

    searches = 0

    @property
    def deadline(self) -> float:
        """A time far away."""
        Searched.searches += 1
        return 100.0

    @deadline.setter
    def deadline(self, _: float) -> None:
        """Keep the time."""


def test_search_for_deadlines() -> None:
    """While no deadline can have passed, no call is searched, however often a client asks."""
    calls = OpenCalls()
    for _ in range(50):
        calls.add(Searched(0))
    added = Searched.searches
    for _ in range(1000):
        assert calls.expired(99) == []
    assert Searched.searches == added
