"""Client sessions: the clients of a service, their answers, and the owners of allocations.

The problem: a client that lost its connection does not know whether its last operations were executed. It repeats them,
perhaps to another leader, and they must not be executed again. After the death of a client, its allocations must be
found.

The idea: the log contains *session records* next to the events. They state which session made the events that follow,
which answers it got, and which sessions were opened, fenced and forgotten. `SessionTable` contains the sessions and the
owners of allocations that follow from these records and from the events.

Invariant: the leader and a replay change the table only with `SessionTable.apply`. So both have the same table.

The cost: two references for each allocation, and an object for all that a session obtains in one second.
`SessionTable.allocations_of` takes time proportional to the number of all allocations.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple, TypeAlias, final

from ugm._json_values import Json
from ugm.partition.event_codec import from_json, to_json
from ugm.partition.events import Allocated, AllocationRequested, Event, Released, RequestWithdrawn

__all__ = [
    "NO_SESSION",
    "SESSION_TAGS",
    "Answer",
    "ClientSession",
    "OwnerChanged",
    "Ownership",
    "SessionFenced",
    "SessionForgotten",
    "SessionOpened",
    "SessionProgress",
    "SessionRecord",
    "SessionTable",
    "decode_record",
    "is_session_row",
    "record_row",
]

#: The session id of changes that no client has made.
NO_SESSION: Final = ""

#: The beginnings of the rows of a snapshot that contain sessions.
_SESSION_ROW: Final = b'["session",'
_OWNER_ROW: Final = b'["owner",'
#: The size of the largest answer whose text is cached, in bytes.
_SHORT: Final = 16
#: The maximum number of allocations in a row of a snapshot.
_ALLOCATIONS_PER_ROW: Final = 100


class Answer(NamedTuple):
    """The answer to one operation of a session."""

    #: The number of the operation in its session.
    number: int
    status: int
    #: The encoded result or error.
    value: bytes


# Records


class SessionProgress(NamedTuple):
    """The progress of a session: the events that follow are its own, and some of its operations were answered.

    The numbers are 0 and there are no answers if only the session of the events is recorded.
    """

    #: `NO_SESSION` if no client has made the changes.
    session_id: str
    #: The number of the last operation that was answered.
    last_number: int = 0
    #: The client has received the answers up to this number.
    acknowledged: int = 0
    answers: tuple[Answer, ...] = ()


class SessionOpened(NamedTuple):
    """A client has opened a session."""

    session_id: str
    #: The name of the client, for people.
    client: str


class SessionFenced(NamedTuple):
    """A session may neither obtain nor release anything from now on."""

    session_id: str


class OwnerChanged(NamedTuple):
    """Allocations were moved to a session; to none if it is `NO_SESSION`."""

    session_id: str
    allocation_ids: tuple[str, ...]


class SessionForgotten(NamedTuple):
    """A session was removed. Its remaining allocations belong to no session."""

    session_id: str


#: Any session record.
SessionRecord: TypeAlias = SessionProgress | SessionOpened | SessionFenced | OwnerChanged | SessionForgotten


@lru_cache(maxsize=256)
def _text_of(value: bytes) -> str:
    return b2a_base64(value, newline=False).decode("ascii")


def _encode_answer(answer: Answer) -> list[Json]:
    number, status, value = answer
    # Nearly all answers are grants, which are one byte.
    return [number, status, _text_of(value) if len(value) <= _SHORT else _text_of.__wrapped__(value)]


def _decode_answer(values: Sequence[Json]) -> Answer:
    number, status, value = values
    return Answer(number, status, a2b_base64(value, strict_mode=True))


def _encode_progress(record: SessionProgress) -> list[Json]:
    session_id, last_number, acknowledged, answers = record
    if not last_number:
        return ["by", session_id]
    return ["by", session_id, last_number, acknowledged, [_encode_answer(answer) for answer in answers]]


def _decode_progress(
    session_id: str, last_number: int = 0, acknowledged: int = 0, answers: Iterable[Sequence[Json]] = ()
) -> SessionProgress:
    return SessionProgress(session_id, last_number, acknowledged, tuple(map(_decode_answer, answers)))


_DECODERS: Final[Mapping[str, Callable[..., SessionRecord]]] = {
    "by": _decode_progress,
    "session": SessionOpened,
    "fence": SessionFenced,
    "owner": lambda session_id, allocation_ids: OwnerChanged(session_id, tuple(allocation_ids)),
    "forget": SessionForgotten,
}
#: The tags of the rows of session records. No event has one of them.
SESSION_TAGS: Final = frozenset(_DECODERS)
_TAGS: Final[Mapping[type, str]] = {
    SessionOpened: "session",
    SessionFenced: "fence",
    OwnerChanged: "owner",
    SessionForgotten: "forget",
}


def record_row(record: SessionRecord) -> list[Json]:
    """Return the row of a record in the data of a change.

    >>> record_row(SessionOpened("s-1", "scheduler"))
    ['session', 's-1', 'scheduler']
    """
    return _encode_progress(record) if type(record) is SessionProgress else [_TAGS[type(record)], *record]


def decode_record(row: Sequence[Json]) -> SessionRecord:
    """Return the record of a row.

    Raises:
        LookupError: the row does not contain a record; or another error of decoding.
    """
    return _DECODERS[row[0]](*row[1:])


# The table


class Ownership(NamedTuple):
    """The owner of allocations that were obtained in the same second."""

    session_id: str
    #: In seconds since 1970; 0 if it is unknown.
    since: int


@final
class ClientSession:
    """A session of a client, as the log describes it.

    Args:
        session_id: the id, which is never used again.
        client: the name of the client.
        opened_at: the instant of its opening, in milliseconds since 1970.
    """

    __slots__ = (
        *("acknowledged", "answers", "client", "held", "is_fenced", "last_number", "opened_at", "ownership"),
        "session_id",
    )

    #: The number of the last operation that was answered; 0 for none.
    last_number: int
    #: The client has received the answers up to this number.
    acknowledged: int
    #: The answers that the client has perhaps not received, by number.
    answers: Final[dict[int, Answer]]
    #: Whether the session may neither obtain nor release anything.
    is_fenced: bool
    #: The number of its allocations, also pending ones.
    held: int
    #: That of the last allocation.
    ownership: Ownership

    def __init__(self, session_id: str, client: str, opened_at: int) -> None:
        self.session_id: Final = session_id
        self.client: Final = client
        self.opened_at: Final = opened_at
        self.last_number = self.acknowledged = self.held = 0
        self.answers = {}
        self.is_fenced = False
        self.ownership = Ownership(session_id, 0)

    def own_since(self, since: int) -> Ownership:
        """Return the ownership of allocations that were obtained in a second."""
        if self.ownership.since != since:
            self.ownership = Ownership(self.session_id, since)
        return self.ownership

    def record_answers(self, record: SessionProgress) -> None:
        """Add the answers of a record, and drop those that the client has received."""
        _, last_number, acknowledged, answers = record
        if not last_number:
            return
        kept = self.answers
        if self.last_number <= acknowledged:
            kept.clear()
        elif self.acknowledged < acknowledged:
            for number in [number for number in kept if number <= acknowledged]:
                del kept[number]
        for answer in answers:
            kept[answer.number] = answer
        self.last_number, self.acknowledged = last_number, acknowledged


@final
class SessionTable:
    """All sessions, and the owner of each allocation that a client obtained or requested."""

    __slots__ = ("owners", "sessions")

    #: By session id.
    sessions: Final[dict[str, ClientSession]]
    #: Invariant: the owner of every allocation in the ledger that has one, by allocation id.
    owners: Final[dict[str, Ownership]]

    def __init__(self) -> None:
        self.sessions = {}
        self.owners = {}

    def __bool__(self) -> bool:
        return bool(self.sessions)

    def allocations_of(self, session_id: str) -> list[str]:
        """Return the ids of the allocations of a session, in time proportional to all allocations."""
        return [allocation_id for allocation_id, owner in self.owners.items() if owner.session_id == session_id]

    # Changes

    def apply(self, records: Iterable[SessionRecord], events: Iterable[Event], at: int, by: str = NO_SESSION) -> str:
        """Apply the records and events of one operation.

        Args:
            records: the records, which precede the events.
            events: the events of the operation.
            at: the instant of the change, in milliseconds since 1970.
            by: the session of the operation before, in the same change.

        Returns:
            The session to which the events belong.
        """
        for record in records:
            if type(record) is SessionProgress:
                by = record.session_id
                if by:
                    self.sessions[by].record_answers(record)
            else:
                self._apply_record(record, at)
                if by not in self.sessions:
                    # The session that made the operation before has been forgotten.
                    by = NO_SESSION
        self.apply_events(events, at, by)
        return by

    def apply_events(self, events: Iterable[Event], at: int, by: str) -> None:
        """Apply the events of an operation of a session; see `apply`."""
        if not by and not self.owners:
            return
        owner, owners = self.sessions[by] if by else None, self.owners
        for event in events:
            kind = type(event)
            if kind is Allocated or kind is AllocationRequested:
                if owner is not None:
                    allocation_id = event.allocation.allocation_id  # type: ignore[union-attr] # it has this field
                    if allocation_id in owners:
                        # A granted request, or one that was repeated by another session.
                        self._disown(allocation_id)
                    self._own(allocation_id, owner, at // 1000)
            elif kind is Released or kind is RequestWithdrawn:
                self._disown(event.allocation.allocation_id)  # type: ignore[union-attr] # as above

    def _apply_record(self, record: SessionRecord, at: int) -> None:
        match record:
            case SessionOpened(session_id, client):
                self.sessions[session_id] = ClientSession(session_id, client, at)
            case SessionFenced(session_id):
                self.sessions[session_id].is_fenced = True
            case OwnerChanged(session_id, allocation_ids):
                owner = self.sessions[session_id] if session_id else None
                for allocation_id in allocation_ids:
                    before = self._disown(allocation_id)
                    if owner is not None:
                        self._own(allocation_id, owner, 0 if before is None else before.since)
            case SessionForgotten(session_id):
                if self.sessions[session_id].held:
                    for allocation_id in self.allocations_of(session_id):
                        del self.owners[allocation_id]
                del self.sessions[session_id]

    def _own(self, allocation_id: str, session: ClientSession, since: int) -> None:
        self.owners[allocation_id] = session.own_since(since)
        session.held += 1

    def _disown(self, allocation_id: str) -> Ownership | None:
        owner = self.owners.pop(allocation_id, None)
        if owner is not None:
            self.sessions[owner.session_id].held -= 1
        return owner

    # Snapshots

    def rows(self) -> Iterator[bytes]:
        """Yield the rows of the table for the snapshot of a journal; none for an empty table."""
        for session in self.sessions.values():
            answers = [_encode_answer(answer) for answer in session.answers.values()]
            numbers = [session.opened_at, session.last_number, session.acknowledged]
            yield to_json(["session", session.session_id, session.client, *numbers, session.is_fenced, answers])
        by_owner: dict[Ownership, list[str]] = {}
        for allocation_id, owner in self.owners.items():
            by_owner.setdefault(owner, []).append(allocation_id)
        for (session_id, since), owned in by_owner.items():
            remaining = iter(owned)
            while part := list(islice(remaining, _ALLOCATIONS_PER_ROW)):
                yield to_json(["owner", session_id, part, since])

    def restore(self, rows: Iterable[bytes]) -> None:
        """Fill an empty table from the rows of a snapshot.

        Raises:
            ValueError: the rows are not such rows; or another error of decoding.
        """
        for row in rows:
            tag, session_id, *values = from_json(row)
            if tag == "owner":
                # Earlier versions did not store the time.
                allocation_ids, since = values[0], values[1] if len(values) > 1 else 0
                for allocation_id in allocation_ids:
                    self._own(allocation_id, self.sessions[session_id], since)
            else:
                self._restore_session(session_id, values)

    def _restore_session(self, session_id: str, values: Sequence[Json]) -> None:
        client, opened_at, last_number, acknowledged, is_fenced, answers = values
        session = self.sessions[session_id] = ClientSession(session_id, client, opened_at)
        session.last_number, session.acknowledged, session.is_fenced = last_number, acknowledged, is_fenced
        session.answers.update((answer.number, answer) for answer in map(_decode_answer, answers))


def is_session_row(row: bytes) -> bool:
    """Return whether a row of a snapshot belongs to the sessions."""
    return row.startswith((_SESSION_ROW, _OWNER_ROW))
