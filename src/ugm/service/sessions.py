"""The sessions of a leader: the answers to their changes, the owners of allocations, fencing and takeover.

The problem: a client that has lost its connection repeats operations that may have been executed, perhaps by an earlier
leader; and the allocations of a client that vanishes must have an owner.

The idea: everything that the next leader needs to know about sessions are rows of the store, which change in the same
transaction as the rows of the operation:

===========  ==================================  =================================================================
table        key                                 row
===========  ==================================  =================================================================
``session``  the session                         its client, its token, when it was opened, whether it is fenced
``answer``   the session and a slot              the last answers in this slot: those of one transaction
``owner``    the allocation                      its session, and since when
===========  ==================================  =================================================================

Only answers of operations that have changed something are kept: a repeated operation without a stored answer had
changed nothing, or was never executed. A slot is used again when the client has acknowledged its answers. So a session
has as many slots as it had outstanding changes at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from secrets import token_hex
from time import monotonic
from typing import Any, Final, final

from ugm.errors import RequestError
from ugm.identity import require_name
from ugm.partition import AbstractPartition
from ugm.partition.interface.operation_kinds import Role
from ugm.partition.rows import Change
from ugm.service.protocol.status import SessionAllocation, SessionReport
from ugm.store.reader import Loaded


@final
class Session:
    """A session in the memory of its leader.

    Args:
        name: the id.
        row: its row.
    """

    __slots__ = ("_free", "_slots", "answers", "held", "lost_at", "name", "peer", "role", "row")

    def __init__(self, name: str, row: Mapping[str, Any]) -> None:
        self.name: Final = name
        self.row: Mapping[str, Any] = row
        #: The allocations that it owns, including pending ones.
        self.held: Final[set[str]] = set()
        #: The number of the change, and the line, of each answer that is not acknowledged, by the number of its call.
        self.answers: Final[dict[int, tuple[int, bytes]]] = {}
        #: The slots of these answers by the number of the last call, and the slots without an answer that is needed.
        self._slots: Final[dict[int, int]] = {}
        self._free: list[int] = []
        #: The role of the client that is connected, or was last.
        self.role: Role = Role.ADMIN
        #: The connection; None while the client is not connected.
        self.peer: Any = None
        #: When the connection was lost, on the monotonic clock; 0 if this leader has not seen it.
        self.lost_at: float = 0.0

    def take_row(self, numbers: Sequence[int]) -> Change:
        """Return the change of a row with the answers to some calls."""
        slot = self._free.pop() if self._free else len(self._slots)
        self._slots[numbers[-1]] = slot
        row = [(number, self.answers[number][1].decode()) for number in numbers]
        return Change("answer", f"{self.name}:{slot}", None, row)

    def restore(self, slots: Mapping[int, Sequence[tuple[int, str]]]) -> None:
        """Keep the answers of an earlier leader, which are given by their slots."""
        for slot, answers in sorted(slots.items(), key=lambda item: item[1][-1][0]):
            self.answers.update((number, (0, line.encode())) for number, line in answers)
            self._slots[answers[-1][0]] = slot
        self._free = [slot for slot in range(max(slots, default=-1)) if slot not in slots]

    def acknowledge(self, number: int) -> None:
        """Forget the answers up to a number; the client never repeats these calls."""
        while self.answers and (first := next(iter(self.answers))) <= number:
            del self.answers[first]
        while self._slots and (first := next(iter(self._slots))) <= number:
            self._free.append(self._slots.pop(first))

    def removal(self) -> list[Change]:
        """Return the changes that remove its rows."""
        answers = [f"{self.name}:{slot}" for slot in (*self._slots.values(), *self._free)]
        return [Change("session", self.name, None, None), *(Change("answer", one, None, None) for one in answers)]


class LeaderSessions:
    """The sessions of a leader. They are used in the thread of the loop only.

    The operations of clients can be repeated without harm.

    Args:
        partition: the partition.
        loaded: the content of the store; None without a store.
        add: adds changes of rows to the transaction of the current operation, or to one of their own.
        now: returns the time in milliseconds since 1970.
        maximum: the maximum number of sessions.
    """

    def __init__(
        self,
        partition: AbstractPartition,
        loaded: Loaded | None,
        add: Callable[[list[Change]], None],
        now: Callable[[], int],
        maximum: int,
    ) -> None:
        self._partition: Final = partition
        self._add: Final = add
        self._now: Final = now
        self._maximum: Final = maximum
        self._began: Final = monotonic()
        #: All sessions, in the order of their opening.
        self.by_name: Final[dict[str, Session]] = {}
        #: The session of each allocation, and since when.
        self._owners: Final[dict[str, tuple[str, int]]] = {}
        #: Whether answers have rows, and the calls of each session whose answers have none yet.
        self._is_stored: Final = loaded is not None
        self._answered: dict[Session, list[int]] = {}
        #: The session whose operation is being executed; None for a reader, and between operations.
        self.caller: Session | None = None
        if loaded is not None:
            self._restore(loaded)

    def _restore(self, loaded: Loaded) -> None:
        tables = loaded.current()
        self.by_name.update((name, Session(name, row)) for name, row in tables["session"].items())
        for allocation_id, (name, at) in tables["owner"].items():
            self._move(allocation_id, name, at)
        answers: dict[str, dict[int, Sequence[tuple[int, str]]]] = {name: {} for name in self.by_name}
        for key, row in tables["answer"].items():
            name, _, slot = key.rpartition(":")
            answers.setdefault(name, {})[int(slot)] = row
        for name, session in self.by_name.items():
            session.restore(answers[name])

    def _move(self, allocation_id: str, name: str, at: int) -> Change:
        """Note the owner of an allocation, and return the change of its row."""
        self._disown(allocation_id)
        self._owners[allocation_id] = (name, at)
        self.by_name[name].held.add(allocation_id)
        return Change("owner", allocation_id, None, (name, at))

    def _disown(self, allocation_id: str) -> bool:
        before = self._owners.pop(allocation_id, None)
        if before is not None:
            self.by_name[before[0]].held.discard(allocation_id)
        return before is not None

    def keep_answer(self, session: Session, number: int, change: int, line: bytes) -> None:
        """Keep the answer to a call until it is acknowledged."""
        session.answers[number] = change, line
        if self._is_stored:
            self._answered.setdefault(session, []).append(number)

    def take_answers(self) -> list[Change]:
        """Return the changes of rows of the answers since the last call of this method."""
        answered, self._answered = self._answered, {}
        # A client may have acknowledged an answer without waiting for it, for example at the deadline of its call.
        needed = [(one, [number for number in numbers if number in one.answers]) for one, numbers in answered.items()]
        return [one.take_row(numbers) for one, numbers in needed if numbers and one.name in self.by_name]

    def note_owners(self, changes: Iterable[Change], session: Session) -> list[Change]:
        """Note the owners that follow from the changes of an operation of a session, and return the changes of rows."""
        found = []
        for table, key, old, new, _ in changes:
            if table == "allocation" and old is None:
                found.append(self._move(key, session.name, self._now()))
            elif table == "allocation" and new is None and self._disown(key):
                found.append(Change("owner", key, None, None))
        return found

    def owner(self, allocation_id: str) -> Session | None:
        """Return the session that owns an allocation; None if there is none."""
        return self.by_name.get(self._owners.get(allocation_id, ("", 0))[0])

    # Sessions of clients

    def open(self, client: str, token: str) -> Session | None:
        """Open a session for a client; None if there are too many that are connected or own allocations."""
        if len(self.by_name) >= self._maximum:
            idle = [one for one in self.by_name.values() if one.peer is None and not one.held]
            if not idle:
                return None
            self.drop(min(idle, key=lambda one: one.lost_at))
        row = {"client": client, "token": token, "opened_at": self._now(), "is_fenced": False}
        session = Session(token_hex(8), row)
        self.by_name[session.name] = session
        self._add([Change("session", session.name, None, row)])
        return session

    def forget_idle(self, silent_for: float) -> None:
        """Remove the sessions that own nothing and have been silent for some seconds."""
        for report in self.sessions(silent_for):
            if not report.is_connected:
                self.drop(self.by_name[report.session])

    def drop(self, session: Session) -> None:
        """Remove a session with its answers, unless it owns something."""
        if not session.held and self.by_name.pop(session.name, None) is not None:
            self._add(session.removal())

    def _require(self, session: str, *, to_change: bool = False) -> Session:
        name = require_name("session", session)
        found = self.by_name.get(name)
        if found is None:
            raise RequestError("session", name, "there is no such session", "session-unknown")
        if to_change and not self._may_change(found):
            raise RequestError("session", name, "it belongs to a client with another token", "forbidden")
        return found

    def _may_change(self, session: Session | None) -> bool:
        """Return whether the caller may change what a session owns: clients with its token may, and operators."""
        caller = self.caller
        if session is None or caller is None or caller.role >= Role.OPERATOR:
            return True
        return bool(session.row["token"] == caller.row["token"])

    def require_own(self, changes: Sequence[object]) -> None:
        """Check that the caller may change the allocations of an operation.

        Raises:
            RequestError: an allocation belongs to a client with another token.
        """
        if self.caller is None or self.caller.role >= Role.OPERATOR:
            return
        for one in changes:
            if type(one) is Change and one.table == "allocation" and one.old is not None:
                owner = self.owner(one.key)
                if not self._may_change(owner):
                    reason = "it belongs to a client with another token, and the role of this one is scheduler"
                    raise RequestError("allocation_id", one.key, reason, "forbidden")

    # Operations

    def sessions(self, silent_for: float = 0.0) -> tuple[SessionReport, ...]:
        """Return all sessions, or those that have been silent for some seconds, in the order of their opening."""
        reports = map(self._report, self.by_name.values())
        return tuple(report for report in reports if report.silent_for >= silent_for)

    def _report(self, session: Session) -> SessionReport:
        is_connected, row = session.peer is not None, session.row
        silent_for = 0.0 if is_connected else monotonic() - (session.lost_at or self._began)
        held, is_fenced = len(session.held), row["is_fenced"]
        return SessionReport(session.name, row["client"], row["opened_at"], is_connected, silent_for, held, is_fenced)

    def owned_by(self, session: str) -> tuple[SessionAllocation, ...]:
        """Return the allocations of a session with their age, including pending ones, sorted by id.

        Raises:
            RequestError: the session does not exist.
        """
        return tuple(
            SessionAllocation(
                one.allocation, one.user, one.group, one.queue_path, self._owners[one.allocation.allocation_id][1]
            )
            for one in self._partition.allocations_by_id(sorted(self._require(session).held))
        )

    def fence(self, session: str) -> None:
        """Forbid a session every further change. When the call returns, none of its changes is in progress.

        Raises:
            RequestError: the session does not exist.
        """
        self._fenced(session)

    def _fenced(self, session: str) -> tuple[Session, tuple[str, ...]]:
        """Fence a session, and return it with the ids of its allocations."""
        found = self._require(session, to_change=True)
        if not found.row["is_fenced"]:
            found.row = {**found.row, "is_fenced": True}
            self._add([Change("session", found.name, None, found.row)])
        return found, tuple(sorted(found.held))

    def take_over(self, session: str) -> tuple[str, ...]:
        """Fence a session, and move its allocations to the session of the caller.

        Returns:
            The ids of the allocations.

        Raises:
            RequestError: the session does not exist, or is that of the caller.
        """
        caller = self.caller
        if caller is None or caller.name == session:
            raise RequestError("session", session, "a session cannot take over its own allocations", "state-conflict")
        _, owned = self._fenced(session)
        self._add([self._move(one, caller.name, self._owners[one][1]) for one in owned])
        return owned

    def release_of(self, session: str) -> tuple[str, ...]:
        """Fence a session, and release its allocations.

        Returns:
            The ids of the allocations.

        Raises:
            RequestError: the session does not exist.
        """
        _, owned = self._fenced(session)
        for allocation_id in owned:
            self._partition.release(allocation_id)
        return owned

    def forget(self, session: str) -> bool:
        """Remove a session that is fenced and owns nothing, and return whether it existed.

        Raises:
            RequestError: the session is not fenced, or owns allocations.
        """
        if require_name("session", session) not in self.by_name:
            return False
        found = self._require(session, to_change=True)
        if not found.row["is_fenced"] or found.held:
            raise RequestError("session", session, "it is not fenced, or still owns allocations", "not-empty")
        self.drop(found)
        return True
