"""One session in the memory of the leader: the numbers of its operations, its answers, and its connection.

The client numbers its operations, and repeats those without an answer after a reconnect. The session knows for each
number whether it was executed, is being executed, or is new. It keeps the answers to changes until the client
acknowledges them. `ugm.journal.client_sessions.ClientSession` is the durable part, from which the next leader restores
the session.
"""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import Final, Protocol, final

from msgspec import Raw

from ugm.journal.client_sessions import Answer, ClientSession, SessionProgress
from ugm.service.wire import Replies, Reply, frame

__all__ = ["Peer", "Session"]


class Peer(Protocol):
    """The connection of a client."""

    def send(self, data: bytes) -> None:
        """Send a frame."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...

    def note_executed(self) -> None:
        """Note that a query was executed in another thread. More messages may be read now."""
        ...


@final
class Session:
    """A client of the leader, across its connections.

    Attributes:
        name: the id of the session.
        client: the name of the client, for people.
        peer: the connection; None while there is none.
        last: the last number that was executed.
        acknowledged: the last number whose answer the client has received, together with all before.
        is_fenced: whether every change is refused.
        lost_at: the time of `time.monotonic` when the connection was lost; 0 for never.
        queued_bytes: the size of the arguments of queries that wait or are executed in other threads.
    """

    __slots__ = (
        "_kept",
        "acknowledged",
        "client",
        "is_fenced",
        "last",
        "lost_at",
        "name",
        "peer",
        "queued_bytes",
        "undecided",
        "unlogged",
    )

    def __init__(self, name: str, client: str) -> None:
        self.name: Final = name
        self.client: Final = client
        self.peer: Peer | None = None
        self.last: int = 0
        self.acknowledged: int = 0
        self.is_fenced: bool = False
        self.lost_at: float = 0.0
        self.queued_bytes: int = 0
        #: The answers to changes that are durable.
        self._kept: Final[dict[int, Reply]] = {}
        #: The numbers whose answers are not ready or not durable, and whether they may change something. The answer to
        #: a query is not kept: if it is lost, the query is executed again.
        self.undecided: Final[dict[int, bool]] = {}
        #: The answers to operations that may change something, since the last change. Acknowledged ones may be missing.
        self.unlogged: Final[deque[Reply]] = deque()

    @classmethod
    def restored(cls, logged: ClientSession) -> Session:
        """Return the session of a record in the log."""
        session = cls(logged.session_id, logged.client)
        session.last, session.acknowledged = logged.last_number, logged.acknowledged
        session.is_fenced = logged.is_fenced
        for answer in logged.answers.values():
            session._kept[answer.number] = Reply(answer.number, answer.status, Raw(answer.value))
        return session

    @property
    def outstanding(self) -> int:
        """The number of answers that are kept or not ready."""
        return len(self._kept) + len(self.undecided)

    @property
    def waiting(self) -> int:
        """The number of operations whose answers are not ready or not durable."""
        return len(self.undecided)

    def acknowledge(self, number: int) -> None:
        """Forget the answers up to a number."""
        kept, unlogged, before = self._kept, self.unlogged, self.acknowledged
        if number <= before:
            return
        self.acknowledged = number
        while unlogged and unlogged[0].number <= number:
            unlogged.popleft()
        if number == before + 1:
            kept.pop(number, None)
        elif len(kept) < number - before:
            for old in [old for old in kept if old <= number]:
                del kept[old]
        else:
            for old in range(before + 1, number + 1):
                kept.pop(old, None)

    def begin(self, number: int, *, is_change: bool) -> bool:
        """Register an operation. Return False if it was already executed, or is being executed."""
        if number > self.last:
            self.last = number
        elif number <= self.acknowledged or number in self.undecided or number in self._kept:
            return False
        self.undecided[number] = is_change
        return True

    def kept_answer(self, number: int) -> Reply | None:
        """Return the durable answer to a repeated number."""
        return self._kept.get(number)

    def log_later(self, answer: Reply) -> None:
        """Keep an answer for the next record of this session in the log."""
        self.unlogged.append(answer)

    def progress(self) -> SessionProgress:
        """Return the record of the executed operations for the log."""
        acknowledged = self.acknowledged
        answers = [
            # `Answer(...)` takes twice as long.
            tuple.__new__(Answer, (answer.number, answer.status, bytes(answer.value)))
            for answer in self.unlogged
            if answer.number > acknowledged
        ]
        self.unlogged.clear()
        return SessionProgress(self.name, self.last, acknowledged, tuple(answers))

    def disconnect(self) -> None:
        """Note that there is no connection any more."""
        self.peer, self.lost_at = None, monotonic()

    def finish(self, answers: list[Reply]) -> None:
        """Send answers that are durable now if the client is connected, and keep those to changes."""
        undecided, acknowledged = self.undecided, self.acknowledged
        for answer in answers:
            number = answer.number
            if undecided.pop(number, False) and number > acknowledged:
                self._kept[number] = answer
        if self.peer is not None:
            self.peer.send(frame(Replies(answers)))

    def finish_query(self, number: int, data: bytes) -> None:
        """Send the frame with the answer to a query if the client is connected."""
        self.undecided.pop(number, None)
        if self.peer is not None:
            self.peer.send(data)

    def send(self, answers: list[Reply]) -> None:
        """Send answers if the client is connected; otherwise it repeats the operations later."""
        if self.peer is not None and answers:
            self.peer.send(frame(Replies(answers)))
