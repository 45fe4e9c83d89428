"""The messages of a service, from a client that sends whatever it wants."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.service_fixtures import RawClient, eventually, running, started
from ugm import Resource
from ugm.service import ClientLimits, ClientToken, Role, Security, Service, ServiceSettings

SUBMIT: dict[str, Any] = {"application_id": "app", "user": ["sue", []], "queue": "root.a"}
GRANT: dict[str, Any] = {"allocation_id": "x", "application_id": "app", "usage": {"memory": 10}}


@pytest.fixture(name="service")
def _service(tmp_path: Path) -> Iterator[Service]:
    settings = ServiceSettings(limits=ClientLimits(line=100_000, outstanding=50, hello=0.3, unread=1 << 20))
    with running(tmp_path, settings=settings) as service:
        yield service


def test_calls_are_answered_by_number(service: Service) -> None:
    """A client in any language reads lines of JSON; defaults may be left out, unknown fields are ignored."""
    with RawClient(service) as client:
        name, version, session, term = client.greet()
        assert (name, version, len(session), term) == ("welcome", 1, 16, 1)
        client.call(1, "submit", **SUBMIT, color="red")
        client.call(2, "allocate", **GRANT)
        client.call(3, "allocate", **GRANT | {"allocation_id": "y", "usage": {"memory": 10_000}})
        client.call(4, "release", allocation_id="x")
        client.call(5, "release", allocation_id="x")
        answers = client.answers(5)
    assert answers[2] == ("result", [[], [], None])
    assert answers[3][1][0][0][:2] == ["queue", "root.a"]
    assert (answers[4], answers[5]) == (("result", True), ("result", False))


def test_errors_have_codes_and_texts(service: Service) -> None:
    """An error states its class, its data, its code and its text; the connection goes on."""
    with RawClient(service) as client:
        client.greet()
        client.call(1, "complete", application_id="none")
        client.call(2, "complete", application_id=7)
        client.call(3, "fly")
        client.call(4, "allocate", **GRANT | {"usage": {"": 1}})
        answers = client.answers(4)
    kind, name, data, code, text = answers[1]
    assert (kind, name, code) == ("error", "RequestError", "application-unknown")
    assert data[:2] == ["application_id", "none"]
    assert "none" in text
    assert answers[2][1:3] == ("RequestError", answers[2][2])
    assert answers[2][2][0] == "application_id"
    assert answers[3][1] == "ProtocolError"
    assert answers[4][3] == "argument-invalid"


def test_a_repeated_number_is_not_executed_again(service: Service) -> None:
    """A change that was answered gets the same answer, until the client acknowledges it."""
    with RawClient(service) as client:
        session = client.greet()[2]
        client.call(1, "submit", **SUBMIT)
        client.call(2, "allocate", **GRANT)
        client.call(3, "release", allocation_id="x")
        client.call(3, "release", allocation_id="x")
        first = client.receive(), client.receive(), client.receive(), client.receive()
        assert first[2] == first[3] == ["result", 3, True]
    with RawClient(service) as client:
        assert client.greet(session)[2] == session
        client.call(3, "release", allocation_id="x")
        assert client.answers(1) == {3: ("result", True)}
        client.call(4, "release", allocation_id="x", acknowledged=3)
        assert client.answers(1) == {4: ("result", False)}
        client.call(3, "release", allocation_id="x")
        assert client.answers(1) == {3: ("result", False)}


def test_a_session_has_one_connection(service: Service) -> None:
    """A client that connects again replaces its earlier connection; an unknown session is refused."""
    with RawClient(service) as first, RawClient(service) as second, RawClient(service) as third:
        session = first.greet()[2]
        assert second.greet(session)[2] == session
        assert first.receive() == ["moved", ""]
        assert first.receive() is None
        assert third.greet("unknown")[:2] == ["refused", "session-unknown"]


@pytest.mark.parametrize(
    ("versions", "chosen"), [((1, 1), 1), ((1, 2), 1), ((0, 1), 1), ((2, 3), None), ((0, 0), None)]
)
def test_neighbouring_versions_are_negotiated(service: Service, versions: tuple[int, int], chosen: int | None) -> None:
    """The newest version that both understand is chosen, so a client of the next version works as well."""
    with RawClient(service) as client:
        answer = client.greet(versions=versions)
    assert answer[:2] == (["refused", "version"] if chosen is None else ["welcome", chosen])


def test_a_service_of_the_next_version(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that understands the next version works with clients of this one."""
    monkeypatch.setattr("ugm.service.protocol.wire.VERSION", 2)
    with RawClient(service) as client:
        assert client.greet(versions=(1, 2))[:2] == ["welcome", 2]
    with started(service) as partition:
        assert partition.application_ids() == ("app",)


@pytest.mark.parametrize(
    ("is_greeted", "data"),
    [
        (False, b"hello\n"),
        (False, b'["hello"]\n'),
        (False, b"\xff\n"),
        (False, b"x" * 70_000),
        (False, b"[" * 1000 + b"\n"),
        (True, b"nonsense\n"),
        (True, b"x" * 200_000),
        (True, b'["call",100,1,"release",{}]\n'),
    ],
)
def test_malformed_messages_are_refused(service: Service, *, is_greeted: bool, data: bytes) -> None:
    """A client that does not speak the protocol, or sends too much, gets an error and is disconnected."""
    with RawClient(service) as client:
        if is_greeted:
            client.greet()
        client.socket.sendall(data)
        assert client.receive()[0] == "refused"
        assert client.receive() is None


def test_a_silent_connection_is_closed(service: Service) -> None:
    """A connection without a greeting is closed after a while; one that has greeted stays open."""
    with RawClient(service) as silent, RawClient(service) as client:
        client.greet()
        assert silent.receive() is None
        client.send(["ping"])
        assert client.receive() == ["pong"]


def test_a_slow_client_does_not_block_others(service: Service) -> None:
    """A client that reads no answers is disconnected; others get their answers meanwhile."""
    with RawClient(service) as slow, started(service) as partition:
        slow.greet()
        slow.socket.settimeout(0.2)
        with suppress(OSError):
            for _ in range(100_000):
                slow.socket.sendall(b'["call",1,0,"config",{}]\n' * 100)
        assert partition.check("app", Resource(memory=1))


def test_connections_are_bounded(tmp_path: Path) -> None:
    """Further connections are closed at once, and so are further sessions refused if all are in use."""
    with running(tmp_path, settings=ServiceSettings(limits=ClientLimits(connections=3, sessions=1))) as service:
        clients = [RawClient(service) for _ in range(4)]
        assert clients[0].greet()[0] == "welcome"
        assert clients[1].greet()[:2] == ["refused", "too-many-sessions"]
        clients[0].send(["bye"])
        eventually(lambda: not service.sessions.sessions()[1:], 5)
        for client in clients:
            client.socket.close()


def test_tokens_have_roles(tmp_path: Path) -> None:
    """A wrong token is refused. A role allows some operations; the work of other tokens is protected."""
    tokens = [ClientToken("a", "of a"), ClientToken("b", "of b"), ClientToken("view", "of view", Role.VIEWER)]
    tokens.append(ClientToken("operate", "of operator", Role.OPERATOR))
    with running(tmp_path, security=Security("of admin", tokens=tokens)) as service:
        with RawClient(service) as client:
            assert client.greet(key="of c")[:2] == ["refused", "token"]
        codes: dict[str, str] = {}
        with RawClient(service) as first:
            session = first.greet(key="of a")[2]
            first.call(1, "submit", **SUBMIT)
            first.call(2, "allocate", **GRANT)
            first.call(3, "configure", config=None)
            codes["configure"] = first.answers(3)[3][3]
            for name, operation, arguments in (
                ("b", "release", {"allocation_id": "x"}),
                ("b", "preempt", {"allocation_id": "x"}),
                ("b", "remove", {"application_id": "app"}),
                ("b", "fence", {"session": session}),
                ("view", "release", {"allocation_id": "x"}),
                ("operator", "preempt", {"allocation_id": "x"}),
                ("a", "release", {"allocation_id": "x"}),
                ("operator", "fence", {"session": session}),
            ):
                with RawClient(service) as other:
                    # A client cannot resume the session of another token.
                    assert name == "a" or other.greet(session, key=f"of {name}")[:2] == ["refused", "session-unknown"]
                with RawClient(service) as other:
                    other.greet(key=f"of {name}")
                    other.call(1, operation, **arguments)
                    answer = other.answers(1)[1]
                    codes[f"{name} {operation}"] = answer[3] if answer[0] == "error" else "done"
        forbidden = {"configure", "b release", "b preempt", "b remove", "b fence", "view release"}
        assert codes == {name: "forbidden" if name in forbidden else "done" for name in codes}
        assert service.partition.allocation_ids() == ()


def test_schema_is_recorded() -> None:
    """The schema file describes all messages and operations, for clients in other languages."""
    docs = Path(__file__).parents[3] / "docs"
    schema = runpy.run_path(str(docs / "make_service_protocol.py"))["schema"]()
    assert json.loads((docs / "reference" / "service-protocol.json").read_text()) == json.loads(json.dumps(schema))
    assert {"allocate", "release", "snapshot", "fence"} <= set(schema["operations"])
