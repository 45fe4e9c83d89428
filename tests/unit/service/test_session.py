"""One session in the memory of the leader."""

from __future__ import annotations

from msgspec import Raw

from ugm.service.session import Session
from ugm.service.wire import Reply


def test_acknowledged_answers_are_not_kept_for_the_log() -> None:
    """A client whose operations change nothing, such as denied ones, uses no more memory with each of them."""
    session = Session("s", "client")
    for number in range(1, 1000):
        session.acknowledge(number - 2)
        session.begin(number, is_change=True)
        session.log_later(Reply(number, 0, Raw(b"\xc0")))

    assert len(session.unlogged) == 2
    assert [answer.number for answer in session.progress().answers] == [998, 999]
    assert session.progress().answers == ()
