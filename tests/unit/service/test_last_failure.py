"""The reason why a client has no connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from ugm.service import DeadlineError, connect, connect_async
from ugm.service.addresses import Address
from ugm.service.async_connection import AsyncClientConnection
from ugm.service.connection import ClientConnection
from ugm.service.last_failure import LastFailure
from ugm.service.timing import Timing

PLACE = Address.parse("unix:/s")


def test_attempts_that_are_cut_short() -> None:
    """An attempt that the deadline has ended does not replace another failure, except the one before a connection."""
    last = LastFailure()
    assert last.reason == "no address was tried"
    last.note(PLACE, TimeoutError("first"), is_cut_short=True)
    last.note(PLACE, TimeoutError("second"), is_cut_short=True)
    assert last.reason == "unix:/s: first"
    last.note(PLACE, TimeoutError("third"))
    assert last.reason == "unix:/s: third"
    last.note(PLACE, ConnectionRefusedError("fourth"), is_cut_short=True)
    assert last.reason == "unix:/s: fourth"
    last.end()
    last.note(PLACE, TimeoutError("fifth"), is_cut_short=True)
    assert last.reason == "unix:/s: fifth"


@pytest.mark.parametrize(
    ("error", "text"), [(TimeoutError(), "no answer in time"), (ConnectionResetError(), "ConnectionResetError")]
)
def test_failures_without_a_text(error: Exception, text: str) -> None:
    """A reason is never empty."""
    last = LastFailure()
    last.note(PLACE, error)
    assert last.reason == f"unix:/s: {text}"


def blocking(address: str, deadline: float) -> None:
    """Connect a thread."""
    connect(address, deadline=deadline)


def asynchronous(address: str, deadline: float) -> None:
    """Connect a task."""

    async def work() -> None:
        await connect_async(address, deadline=deadline)

    asyncio.run(work())


@pytest.mark.parametrize(
    ("client", "owner", "method"),
    [(blocking, ClientConnection, "_connected"), (asynchronous, AsyncClientConnection, "_greet")],
)
def test_last_attempt(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, client: Callable[[str, float], None], owner: type, method: str
) -> None:
    """A client names the failure before the attempt that its deadline ends."""
    errors = iter([ConnectionRefusedError("nobody listens")])

    def fail(*_: object) -> None:
        raise next(errors, TimeoutError())

    monkeypatch.setattr(owner, method, fail)
    with pytest.raises(DeadlineError, match=r"nobody listens$"):
        client(f"unix:{tmp_path / 's'}", Timing().connect / 3)
