"""The direct path of a leader has the effects of the general path, and sends the same bytes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, final
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from support.partition_fixtures import SUE, config, memory
from support.service_fixtures import request
from ugm.journal.locations import log_at
from ugm.journal.log import Candidate
from ugm.journal.opening import open_log
from ugm.operation_lock import OperationLock
from ugm.service import leader_sessions
from ugm.service.engine import Engine, EngineSettings, build_engine
from ugm.service.leader import Leader
from ugm.service.operations import OPERATIONS
from ugm.service.server_connection import ServerConnection
from ugm.service.session import Session
from ugm.service.wire import Execute, Hello, OperationRequest

SESSION: Final = "the-session"
SETTINGS: Final = EngineSettings(config("{name: a, resources: {max: {memory: 5}}}"), (), (), "always")


@final
class Peer:
    """A connection that remembers what was sent."""

    def __init__(self) -> None:
        self.sent: Final[list[bytes]] = []

    def send(self, data: bytes) -> None:
        """Note a frame."""
        self.sent.append(data)

    def close(self) -> None:
        """Do nothing."""

    def note_executed(self) -> None:
        """Do nothing."""


@final
class GeneralOnly:
    """Leaves every message to the general path."""

    def execute(self, _session: Session, _message: Execute) -> bool:
        """Execute nothing."""
        return False


@final
class Outcome:
    """What can be observed of a leader that has executed messages of one session."""

    def __init__(self, sent: list[bytes], engine: Engine, session: Session, data: bytes) -> None:
        logged = engine.sessions.sessions[SESSION]
        self.facts: Final = (
            sent,
            data,
            (session.last, session.acknowledged, session.is_fenced, session.outstanding, session.waiting),
            (logged.last_number, logged.acknowledged, logged.answers, logged.held),
            {name: owner.session_id for name, owner in engine.sessions.owners.items()},
            engine.partition.allocations(),
        )


async def executed(messages: list[Execute], journal: Path | None, *, is_direct: bool) -> Outcome:
    """Execute messages with or without the direct path."""
    opened = None if journal is None else open_log(log_at(journal), Candidate("n", "unix:/x"), OperationLock())
    engine = build_engine(SETTINGS, opened, None, lambda: None)
    leader = Leader(engine, 10, lambda: "")
    if not is_direct:
        leader._direct = GeneralOnly()  # type: ignore[misc,assignment] # a stand-in
    peer: Any = Peer()
    connection: ServerConnection = peer
    with patch.object(leader_sessions, "token_hex", lambda _: SESSION):
        session, _ = leader.welcome(connection, Hello(0, "client", "", "", 0))
    assert session is not None
    engine.partition.submit("app", SUE, "root.a")
    for message in messages:
        leader.execute(session, message)
    data = engine.committer.log.gathering.encoded()
    await engine.committer.finish()
    await asyncio.sleep(0)
    leader.close()
    if opened is not None:
        opened.journal.close()
    return Outcome(peer.sent, engine, session, data)


ids = st.sampled_from("abc")
REQUESTS: Final[st.SearchStrategy[OperationRequest]] = st.one_of(
    st.builds(lambda name, size: request("allocate", name, "app", memory(size)), ids, st.integers(1, 4)),
    st.builds(lambda name: request("allocate", name, "app", memory(1), *(True, 3)), ids),
    st.builds(lambda name: request("release", name), ids),
    st.builds(lambda size: request("check", "app", memory(size)), st.integers(1, 6)),
    st.sampled_from([
        request("allocate", "a", "unknown", memory(1)),
        request("fence", SESSION),
        request("forget", "unknown"),
        OperationRequest(OPERATIONS["release"].number, Raw(b"\x91\x07")),
    ]),
)  # fmt: skip


@st.composite
def conversations(draw: st.DrawFn) -> list[Execute]:
    """Draw messages, some of which repeat operations."""
    made: list[Execute] = []
    last = acknowledged = 0
    for requests in draw(st.lists(st.lists(REQUESTS, max_size=4), max_size=8)):
        first = last + 1 - draw(st.sampled_from([0, 0, 0, 1, 2]))
        first = max(first, acknowledged + 1)
        acknowledged = draw(st.integers(acknowledged, first - 1))
        made.append(Execute(first, acknowledged, requests))
        last = max(last, first + len(requests) - 1)
    return made


@pytest.mark.parametrize("has_log", [False, True])
@given(messages=conversations())
def test_both_paths_agree(messages: list[Execute], has_log: bool) -> None:  # noqa: FBT001 - a parameter
    """The sent bytes, the data in the log, the session and the partition are the same."""
    with TemporaryDirectory() as folder:
        outcomes = [
            asyncio.run(executed(messages, Path(folder) / str(is_direct) if has_log else None, is_direct=is_direct))
            for is_direct in (False, True)
        ]

    assert outcomes[0].facts == outcomes[1].facts


def test_direct_path_is_used() -> None:
    """New operations of a session that is not fenced take the direct path, alone or together; others do not."""
    allocate, fence = request("allocate", "a", "app", memory(1)), request("fence", SESSION)

    async def run() -> None:
        engine = build_engine(SETTINGS, None, None, lambda: None)
        leader = Leader(engine, 10, lambda: "")
        session = Session(SESSION, "client")
        execute = leader._direct.execute

        assert execute(session, Execute(1, 0, [allocate]))
        assert execute(session, Execute(2, 1, [allocate, allocate]))
        assert not execute(session, Execute(3, 1, [allocate]))
        assert not execute(session, Execute(4, 3, [allocate, fence]))
        assert not execute(session, Execute(4, 3, [OperationRequest(9999, Raw(b"\x90"))]))
        assert session.last == 3
        session.is_fenced = True
        assert not execute(session, Execute(4, 3, [allocate]))
        leader.close()

    with patch.object(leader_sessions, "token_hex", lambda _: SESSION):
        asyncio.run(run())
