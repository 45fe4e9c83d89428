"""The protocol between clients and the leader: repetition, bounds and refusals, message by message."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from msgspec import Raw, msgpack

from support.partition_fixtures import SUE, memory
from support.service_fixtures import RawClient, eventually, request, running, started
from ugm.service import FencedError, ServiceSettings, connect
from ugm.service.operations import OPERATIONS, RESULT
from ugm.service.server_connection import ClientLimits, ServerConnection
from ugm.service.wire import (
    MAX_FRAME,
    SESSION_UNKNOWN,
    VERSION,
    Bye,
    ChangeMessage,
    Execute,
    Follow,
    Hello,
    OperationRequest,
    Ping,
    Pong,
    Refused,
    Replies,
    Reply,
    Welcome,
    frame,
)

SUBMIT = request("submit", "app", SUE, "root.a")
ALLOCATE = request("allocate", "a", "app", memory(1))
RELEASE = request("release", "a")


def results(answers: dict[int, Reply], *names: str) -> list[object]:
    """Return the decoded results of answers, in the order of their numbers."""
    found = [answers[number] for number in sorted(answers)]
    assert all(answer.status == RESULT for answer in found), found
    return [OPERATIONS[name].decode_result(bytes(answer.value)) for name, answer in zip(names, found, strict=True)]


# Repetition


def test_repeated_operation_is_not_executed_again(tmp_path: Path) -> None:
    """The second connection of a session gets the first answer, although the operation would now fail."""
    with running(tmp_path) as service, RawClient(service) as first, RawClient(service) as second:
        session = first.open()
        first.do(1, SUBMIT, ALLOCATE, RELEASE)
        before = first.answers(3)
        assert second.greet(session).last == 3
        second.do(1, SUBMIT, ALLOCATE, RELEASE)
        assert {number: bytes(one.value) for number, one in second.answers(3).items()} == {
            number: bytes(one.value) for number, one in before.items()
        }
        assert first.receive() is None


def test_next_leader_knows_the_answers(tmp_path: Path) -> None:
    """A repeated operation is answered from the log."""
    with running(tmp_path, journal="j") as service, RawClient(service) as client:
        session = client.open()
        client.do(1, SUBMIT, ALLOCATE, RELEASE)
        before = client.answers(3)
    with running(tmp_path, journal="j") as service, RawClient(service) as client:
        assert client.greet(session).last == 3
        client.do(1, SUBMIT, ALLOCATE, RELEASE)
        after = client.answers(3)
        assert {number: bytes(one.value) for number, one in before.items()} == {
            number: bytes(one.value) for number, one in after.items()
        }
        assert service.partition.allocation_ids() == ()


def test_denied_operation_is_repeated_as_it_was(tmp_path: Path) -> None:
    """The log also has the answer to a denial that precedes a change of the same session."""
    denied = request("allocate", "b", "app", memory(5000))
    with running(tmp_path, journal="j") as service, RawClient(service) as client:
        session = client.open()
        client.do(1, SUBMIT, denied, ALLOCATE)
        before = client.answers(3)[2]
    with running(tmp_path, journal="j") as service, RawClient(service) as client:
        client.greet(session)
        client.do(1, SUBMIT, denied, ALLOCATE)
        after = client.answers(3)[2]
        assert bytes(after.value) == bytes(before.value)


def test_answer_arrives_after_a_broken_connection(tmp_path: Path) -> None:
    """If the connection breaks before the answer is sent, the next connection gets it without a second execution."""
    with running(tmp_path, journal="j") as service:
        with RawClient(service) as client:
            session = client.open()
            client.do(1, SUBMIT, ALLOCATE)
        eventually(service.partition.allocation_ids)
        with RawClient(service) as client:
            client.greet(session)
            client.do(1, SUBMIT, ALLOCATE, RELEASE)
            assert results(client.answers(3), "submit", "allocate", "release")[2] is True


def test_acknowledged_answers_are_forgotten(tmp_path: Path) -> None:
    """An acknowledged number is neither executed nor answered again, by this leader and the next."""
    with running(tmp_path, journal="j") as service, RawClient(service) as client:
        session = client.open()
        client.do(1, SUBMIT, ALLOCATE)
        client.answers(2)
        client.do(3, RELEASE, acknowledged=2)
        client.answers(1)
        client.do(4, SUBMIT, acknowledged=3)
        assert list(client.answers(1)) == [4]
    with running(tmp_path, journal="j") as service, RawClient(service) as client:
        client.greet(session, after=3)
        client.do(2, ALLOCATE)
        client.do(5, request("allocation", "a"))
        assert list(client.answers(1)) == [5]


def test_query_is_executed_again(tmp_path: Path) -> None:
    """The leader does not keep the answers to queries."""
    with running(tmp_path) as service, RawClient(service) as client, RawClient(service) as other:
        session = client.open()
        client.do(1, request("allocation_ids"))
        assert results(client.answers(1), "allocation_ids") == [()]
        with started(service) as partition:
            partition.allocate("x", "app", memory(1))
        other.greet(session)
        other.do(1, request("allocation_ids"))
        assert results(other.answers(1), "allocation_ids") == [("x",)]


def test_unknown_session_is_refused(tmp_path: Path) -> None:
    """A session that does not exist cannot be resumed."""
    with running(tmp_path) as service, RawClient(service) as client:
        answer = client.greet("nobody")
        assert type(answer) is Refused
        assert answer.code == SESSION_UNKNOWN


def test_owner_is_recorded_after_another_session_opened(tmp_path: Path) -> None:
    """The owners in the log are those of the leader, also if a session was opened in the same change."""
    with running(tmp_path, journal="j") as service, started(service, client="first") as partition:
        futures = []
        for number in range(40):
            futures.append(partition.promise(partition.allocate, f"a{number}", "app", memory(1)))
            with RawClient(service) as other:
                other.open()
        assert all(future.result().allowed for future in futures)
        session = partition.connection.session
        before = partition.sessions.owned_by(session)
        assert len(before) == 40
    with running(tmp_path, journal="j") as service, connect(str(service.addresses[0])) as partition:
        after = partition.sessions.owned_by(session)
    assert [one.allocation for one in after] == [one.allocation for one in before]
    assert all(abs(one.obtained_at - each.obtained_at) < 60_000 for one, each in zip(before, after, strict=True))


def test_fenced_session_changes_nothing(tmp_path: Path) -> None:
    """A fenced client can neither obtain nor release, and may still ask."""
    with running(tmp_path) as service, connect(str(service.addresses[0])) as other, started(service) as partition:
        assert partition.allocate("a", "app", memory(1))
        other.sessions.fence(partition.connection.session)
        with pytest.raises(FencedError):
            partition.allocate("b", "app", memory(1))
        with pytest.raises(FencedError):
            partition.release("a")
        assert partition.allocation_ids() == ("a",)
        assert other.sessions.take_over(partition.connection.session) == ("a",)
        assert other.release("a")


# Refusals


def refusal(service_client: RawClient) -> str:
    """Return the code of the refusal after which the leader closes the connection."""
    message = service_client.receive()
    assert type(message) is Refused, message
    assert service_client.receive() is None
    return message.code


def test_wrong_version_and_token(tmp_path: Path) -> None:
    """Clients of another version, or without the token, get a reason."""
    with running(tmp_path, token="secret") as service:  # noqa: S106 - of this test
        for version, token, code in ((VERSION + 1, "secret", "version"), (VERSION, "guess", "token")):
            with RawClient(service) as client:
                answer = client.greet(version=version, token=token)
                assert type(answer) is Refused
                assert answer.code == code
        with RawClient(service) as client:
            assert type(client.greet(token="secret")) is Welcome  # noqa: S106 - as above


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (struct.pack(">I", MAX_FRAME + 1), "frame-too-large"),
        (struct.pack(">I", 3) + b"\xff\xff\xff", "malformed"),
        (struct.pack(">I", 0), "malformed"),
        (frame(Ping())[:4] + b"\x91\x63", "malformed"),
        (b"GET / HTTP/1.1\r\n\r\n", "frame-too-large"),
        (struct.pack(">I", 5000) + b"\x91" * 5000, "malformed"),
    ],
)
@pytest.mark.parametrize("is_greeted", [False, True])
def test_bad_frames(tmp_path: Path, data: bytes, code: str, is_greeted: bool) -> None:  # noqa: FBT001 - a parameter
    """A frame that is too large or has no message ends the connection with a reason; others are not affected."""
    with running(tmp_path) as service, started(service) as partition, RawClient(service) as client:
        if is_greeted:
            client.open()
        client.socket.sendall(data)
        assert refusal(client) == code
        assert partition.allocate("a", "app", memory(1))


def test_first_message_must_be_a_short_greeting(tmp_path: Path) -> None:
    """An unknown client can neither use operations nor fill the memory."""
    with running(tmp_path) as service:
        with RawClient(service) as client:
            client.do(1, SUBMIT)
            assert refusal(client) == "no-hello"
        with RawClient(service) as client:
            client.socket.sendall(struct.pack(">I", 1 << 20))
            assert refusal(client) == "frame-too-large"
        with RawClient(service) as client:
            client.send(Hello(VERSION, "n" * 1000, "", "", 0))
            assert refusal(client) == "name"


def test_second_greeting_and_second_subscription(tmp_path: Path) -> None:
    """A connection has one session and one subscription."""
    with running(tmp_path) as service:
        with RawClient(service) as client:
            client.open()
            client.greet()
            assert client.receive() is None
        with RawClient(service) as client:
            client.open()
            client.send(Follow(-1))
            assert type(client.receive()) is ChangeMessage
            client.send(Follow(0))
            assert refusal(client) == "unexpected"


@pytest.mark.parametrize(
    ("first", "acknowledged"), [(0, 0), (-1, -2), (1, 1), (5, 2**62), (2**60, 0), (2**60, 2**59), (3, -1)]
)
def test_impossible_numbers(tmp_path: Path, first: int, acknowledged: int) -> None:
    """A message cannot acknowledge its own operations, and numbers are bounded."""
    with running(tmp_path) as service, started(service) as partition, RawClient(service) as client:
        client.open()
        client.do(first, ALLOCATE, acknowledged=acknowledged)
        assert refusal(client) == "numbers"
        assert partition.allocation_ids() == ()


def test_large_numbers_do_not_block_the_leader(tmp_path: Path) -> None:
    """The leader needs no time in proportion to the numbers."""
    with running(tmp_path, journal="j") as service, RawClient(service) as client:
        client.open()
        client.do(2**52, SUBMIT, ALLOCATE, acknowledged=2**52 - 1)
        assert set(client.answers(2)) == {2**52, 2**52 + 1}


def test_unknown_operation_and_wrong_arguments(tmp_path: Path) -> None:
    """An unknown operation ends the connection before the message is executed; wrong arguments are an error."""
    with running(tmp_path) as service, RawClient(service) as client, RawClient(service) as other:
        client.open()
        client.do(1, SUBMIT, OperationRequest(99, Raw(msgpack.encode([]))))
        assert refusal(client) == "unknown-operation"
        other.open()
        other.do(1, OperationRequest(SUBMIT.operation, Raw(msgpack.encode([1, 2]))), request("application_ids"))
        answers = other.answers(2)
        assert answers[1].status != RESULT
        assert results({2: answers[2]}, "application_ids") == [()]


def test_nothing_follows_a_goodbye(tmp_path: Path) -> None:
    """Operations after the end of a session are not executed."""
    with running(tmp_path) as service, RawClient(service) as client:
        client.open()
        client.send(Bye(), Execute(1, 0, [SUBMIT]))
        assert client.receive() is None
        assert service.partition.application_ids() == ()


# Bounds


def test_too_many_operations(tmp_path: Path) -> None:
    """The operations in a message, and those that are not acknowledged, are bounded."""
    settings = ServiceSettings(limits=ClientLimits(requests=10, outstanding=25))
    with running(tmp_path, settings=settings) as service:
        with RawClient(service) as client:
            client.open()
            client.do(1, *[RELEASE] * 11)
            assert refusal(client) == "too-many-operations"
        with RawClient(service) as client:
            client.open()
            for first in (1, 11, 21, 31):
                client.do(first, *[RELEASE] * 10)
            client.answers(30)
            assert refusal(client) == "too-many-outstanding"


def test_too_many_connections(tmp_path: Path) -> None:
    """The number of connections is bounded, and a place is free again when a client leaves."""
    with running(tmp_path, settings=ServiceSettings(limits=ClientLimits(connections=2))) as service:
        with RawClient(service) as first, RawClient(service) as second:
            first.open()
            second.open()
            with RawClient(service) as third:
                assert refusal(third) == "too-many-connections"
        eventually(lambda: service._listener.connections == 0)
        with RawClient(service) as client:
            client.open()


def test_too_many_sessions(tmp_path: Path) -> None:
    """The number of sessions is bounded. The one that was idle for longest makes room, and no owner is forgotten."""
    with running(tmp_path, settings=ServiceSettings(limits=ClientLimits(sessions=3))) as service:
        names = []
        for requests in ((SUBMIT, ALLOCATE), (), ()):
            with RawClient(service) as client:
                names.append(client.open())
                if requests:
                    client.do(1, *requests)
                    client.answers(len(requests))
            eventually(lambda: service._listener.connections == 0)
        owner, oldest, newer = names
        with RawClient(service) as first, RawClient(service) as second:
            first.open()
            with RawClient(service) as third:
                assert third.greet(oldest).code == "session-unknown"
            assert second.greet(newer).session == newer
            with RawClient(service) as third:
                assert third.greet().code == "too-many-sessions"
            with RawClient(service) as third:
                assert third.greet(owner).session == owner


def test_silent_connection_is_closed(tmp_path: Path) -> None:
    """A connection without a greeting ends soon."""
    with (
        running(tmp_path, settings=ServiceSettings(limits=ClientLimits(hello=0.1))) as service,
        RawClient(service) as client,
    ):
        assert refusal(client) == "no-hello"


def test_client_that_does_not_read_blocks_nobody(tmp_path: Path) -> None:
    """The leader reads no more from a client that does not read its answers, and answers all others."""
    with running(tmp_path) as service, started(service) as partition, RawClient(service) as client:
        client.open()
        client.send_until_blocked()
        for number in range(20):
            assert partition.allocate(f"a{number}", "app", memory(1))
        assert type(client.receive()) is Pong


@pytest.mark.parametrize("journal", ["j", None])
def test_follower_that_does_not_read(tmp_path: Path, journal: str | None) -> None:
    """The changes that wait for a client are bounded. It stays connected, and gets all of them when it reads."""
    settings = ServiceSettings(limits=ClientLimits(unread=200_000))
    tags = {f"note{number}": "x" * 200 for number in range(300)}
    with (
        running(tmp_path, journal=journal, settings=settings) as service,
        started(service) as partition,
        RawClient(service) as client,
    ):
        client.open()
        client.send(Follow(-1))
        begin = client.receive().number
        for number in range(40):
            partition.submit(f"app-{number}", SUE, "root.a", tags=tags)
            assert sum(map(_unread, tuple(service._listener._connections))) < 200_000
        numbers = [client.receive().number for _ in range(40)]
        assert numbers == list(range(begin + 1, begin + 41))


def _unread(connection: ServerConnection) -> int:
    transport = connection._transport
    return 0 if transport is None else connection._unread(transport)


def test_answer_may_be_larger_than_the_bound_for_clients(tmp_path: Path) -> None:
    """A query over a large partition has one answer."""
    with running(tmp_path) as service, started(service) as partition:
        tags = {f"note{number}": "x" * 200 for number in range(4000)}
        for number in range(12):
            partition.submit(f"app-{number}", SUE, "root.a", tags=tags)
        assert len(partition.applications()) == 13


def test_closed_connection_of_a_stuck_client_ends(tmp_path: Path) -> None:
    """A connection that is closed ends also if the client never reads the last answers."""
    settings = ServiceSettings(limits=ClientLimits(hello=0.1))
    with running(tmp_path, settings=settings) as service, RawClient(service) as stuck:
        session = stuck.open()
        stuck.send_until_blocked()
        with RawClient(service) as client:
            client.greet(session)
            eventually(lambda: service._listener.connections == 1)


def test_flood_of_pings_and_sessions(tmp_path: Path) -> None:
    """Many requests of one client do not delay those of another for long."""
    with running(tmp_path) as service, started(service) as partition, RawClient(service) as client:
        client.open()
        for first in range(1, 20_000, 1000):
            client.do(first, *[RELEASE] * 1000, acknowledged=first - 1)
        assert partition.allocate("a", "app", memory(1))
        received = 0
        while received < 20_000:
            message = client.receive()
            assert type(message) is Replies
            received += len(message.answers)
        for _ in range(50):
            with RawClient(service) as other:
                other.open()
                other.send(Bye())
                assert other.receive() is None
        eventually(lambda: len(partition.sessions.sessions()) == 2)
