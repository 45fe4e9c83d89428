"""The sessions of a leader: the answers to their changes, the owners of allocations, fencing and takeover.

The problem: a client that has lost its connection repeats operations that may have been executed, perhaps by an earlier
leader; and the allocations of a client that vanishes must have an owner.

The idea: everything that the next leader needs to know about sessions are rows of the store, which change in the same
transaction as the rows of the operation:

===========  ==================================  =================================================================
table        key                                 row
===========  ==================================  =================================================================
``session``  the session                         its client, its token, when it was opened, whether it is fenced
``answer``   the session and a slot              the last answer in this slot
``owner``    the allocation                      its session, and since when
===========  ==================================  =================================================================

Only answers of operations that have changed something are kept: a repeated operation without a stored answer had
changed nothing, or was never executed. A slot is used again when the client has acknowledged its answer. So a session
has as many slots as it had outstanding changes at most.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from secrets import token_hex
from time import monotonic
from typing import Any, Final, final

from ugm.arguments import require_name
from ugm.errors import RequestError
from ugm.partition import AbstractPartition
from ugm.partition.interface.operations import Role
from ugm.partition.rows import Change
from ugm.service.session_interface import AbstractSessions, SessionAllocation, SessionReport
from ugm.service.status import ServiceStatus

__all__ = ["LeaderSessions", "Session", "SessionRows"]


@final
class Session:
    """A session in the memory of its leader.

    Args:
        name: the id.
        row: its row.
    """

    __slots__ = ("_free", "_numbers", "_slots", "answers", "lost_at", "name", "peer", "role", "row")

    def __init__(self, name: str, row: Mapping[str, Any]) -> None:
        self.name: Final = name
        self.row: Mapping[str, Any] = row
        #: The number of the change, and the line, of each answer that is not acknowledged, by the number of its call.
        self.answers: Final[dict[int, tuple[int, bytes]]] = {}
        self._slots: Final[dict[int, int]] = {}
        #: Slots without an answer that is needed, the lowest first.
        self._free: Final[list[int]] = []
        #: The role of the client that is connected, or was last.
        self.role: Role = Role.ADMIN
        #: The connection; None while the client is not connected.
        self.peer: object | None = None
        #: When the connection was lost, on the monotonic clock; 0 if this leader has not seen it.
        self.lost_at: float = 0.0

    @property
    def is_bounded(self) -> bool:
        """True if the client may change only what clients with its token have obtained."""
        return self.role < Role.OPERATOR

    def keep(self, number: int, change: int, line: bytes) -> int:
        """Keep the answer to a call until it is acknowledged, and return its slot."""
        slot = heappop(self._free) if self._free else len(self._slots)
        self.answers[number], self._slots[number] = (change, line), slot
        return slot

    def restore(self, slot: int, number: int, line: str) -> None:
        """Keep an answer of an earlier leader."""
        self.answers[number], self._slots[number] = (0, line.encode()), slot

    def complete_slots(self) -> None:
        """Find the free slots after all answers were restored."""
        used = self._slots.values()
        self._free[:] = sorted(set(range(max(used, default=-1) + 1)).difference(used))

    def acknowledge(self, number: int) -> None:
        """Forget the answers up to a number; the client never repeats these calls."""
        if self.answers and next(iter(self.answers)) <= number:
            for one in [one for one in self.answers if one <= number]:
                del self.answers[one]
                heappush(self._free, self._slots.pop(one))

    @property
    def slots(self) -> range:
        """All slots that may have a row."""
        return range(len(self._slots) + len(self._free))


@final
class SessionRows:
    """The tables of sessions, answers and owners. A standby applies changes to them; a leader makes changes.

    Args:
        tables: the rows of a store by table.
    """

    __slots__ = ("held", "owners", "tables")

    def __init__(self, tables: Mapping[str, Mapping[str, Any]]) -> None:
        self.tables: Final[dict[str, dict[str, Any]]] = {
            name: dict(tables.get(name, ())) for name in ("session", "answer", "owner")
        }
        #: The session of each allocation, and since when in milliseconds since 1970.
        self.owners: Final[dict[str, tuple[str, int]]] = self.tables["owner"]
        #: The allocations of each session.
        self.held: Final = defaultdict[str, set[str]](set)
        for allocation_id, (session, _) in self.owners.items():
            self.held[session].add(allocation_id)

    def apply(self, changes: Iterable[Change]) -> None:
        """Apply changes; those of other tables are skipped."""
        for table, key, _, new, _ in changes:
            rows = self.tables.get(table)
            if rows is None:
                continue
            if table == "owner":
                self._move(key, rows.get(key), new)
            if new is None:
                rows.pop(key, None)
            else:
                rows[key] = new

    def _move(self, allocation_id: str, old: tuple[str, int] | None, new: tuple[str, int] | None) -> None:
        if old is not None:
            self.held[old[0]].discard(allocation_id)
        if new is not None:
            self.held[new[0]].add(allocation_id)

    def note_owners(self, changes: Iterable[Change], session: str, at: int) -> list[Change]:
        """Note the owners that follow from the changes of an operation of a session, and return the changes of rows."""
        found = []
        for table, key, old, new, _ in changes:
            if table != "allocation":
                continue
            if old is None:
                owner = self.owners[key] = (session, at)
                self.held[session].add(key)
                found.append(Change("owner", key, None, owner))
            elif new is None and (before := self.owners.pop(key, None)) is not None:
                self.held[before[0]].discard(key)
                found.append(Change("owner", key, None, None))
        return found

    def sessions(self) -> dict[str, Session]:
        """Return the sessions with their answers."""
        found = {name: Session(name, row) for name, row in self.tables["session"].items()}
        for key, (number, line) in sorted(self.tables["answer"].items(), key=lambda item: int(item[1][0])):
            name, _, slot = key.rpartition(":")
            if name in found:
                found[name].restore(int(slot), number, line)
        for session in found.values():
            session.complete_slots()
        return found


class LeaderSessions(AbstractSessions):
    """The sessions of a leader. They are used in the thread of the loop only.

    Args:
        partition: the partition.
        rows: the tables.
        add: adds changes of rows to the transaction of the current operation, or to one of their own.
        now: returns the time in milliseconds since 1970.
        maximum: the maximum number of sessions.
        report: notes the position of a standby, and returns the status.
    """

    __slots__ = ("_add", "_began", "_maximum", "_now", "_partition", "_report_standby", "_rows", "by_name", "caller")

    #: The session whose operation is being executed; None for a reader.
    caller: Session | None

    def __init__(
        self,
        partition: AbstractPartition,
        rows: SessionRows,
        add: Callable[[list[Change]], None],
        now: Callable[[], int],
        maximum: int,
        report: Callable[[str, str, int, float], ServiceStatus],
    ) -> None:
        self._partition: Final = partition
        self._rows: Final = rows
        self._add: Final = add
        self._now: Final = now
        self._maximum: Final = maximum
        self._report_standby: Final = report
        self._began: Final = monotonic()
        #: All sessions, in the order of their opening.
        self.by_name: Final = rows.sessions()
        self.caller = None

    def _write(self, changes: list[Change]) -> None:
        self._add(changes)
        self._rows.apply(changes)

    # Sessions of clients

    def open(self, client: str, token: str) -> Session | None:
        """Open a session for a client; None if there are too many that are connected or own allocations."""
        if len(self.by_name) >= self._maximum and not self._make_room():
            return None
        row = {"client": client, "token": token, "opened_at": self._now(), "is_fenced": False}
        name = token_hex(8)
        session = self.by_name[name] = Session(name, row)
        self._write([Change("session", name, None, row)])
        return session

    def _make_room(self) -> bool:
        """Forget the idle session that has been silent for longest, and return whether there was one."""
        idle = [one for one in self.by_name.values() if one.peer is None and not self._rows.held.get(one.name)]
        if idle:
            self.drop(min(idle, key=lambda one: one.lost_at))
        return bool(idle)

    def forget_idle(self, silent_for: float) -> None:
        """Remove the sessions that own nothing and have been silent for some seconds."""
        for report in self.sessions(silent_for):
            if not report.is_connected and not report.allocations:
                self.drop(self.by_name[report.session])

    def drop(self, session: Session) -> None:
        """Remove a session that owns nothing, with its answers."""
        if self._rows.held.get(session.name) or self.by_name.pop(session.name, None) is None:
            return
        self._rows.held.pop(session.name, None)
        answers = [Change("answer", f"{session.name}:{slot}", None, None) for slot in session.slots]
        self._write([Change("session", session.name, None, None), *answers])

    def _require(self, session: str, *, to_change: bool = False) -> Session:
        name = require_name("session", session)
        found = self.by_name.get(name)
        if found is None:
            raise RequestError("session", name, "there is no such session", "session-unknown")
        caller = self.caller
        if to_change and caller is not None and caller.role < Role.OPERATOR and not self._is_own(found, caller):
            raise RequestError("session", name, "it belongs to a client with another token", "forbidden")
        return found

    @staticmethod
    def _is_own(session: Session, caller: Session) -> bool:
        return bool(session.row["token"] == caller.row["token"])

    def require_own(self, changes: Sequence[object], caller: Session) -> None:
        """Check that a scheduler changes only allocations of its own token.

        Raises:
            RequestError: an allocation belongs to a client with another token.
        """
        for one in changes:
            if type(one) is Change and one.table == "allocation" and one.old is not None:
                owner = self.by_name.get(self._rows.owners.get(one.key, ("", 0))[0])
                if owner is not None and not self._is_own(owner, caller):
                    reason = "it belongs to a client with another token, and the role of this one is scheduler"
                    raise RequestError("allocation_id", one.key, reason, "forbidden")

    # Operations

    def sessions(self, silent_for: float = 0.0) -> tuple[SessionReport, ...]:
        reports = map(self._report, self.by_name.values())
        return tuple(report for report in reports if report.silent_for >= silent_for)

    def _report(self, session: Session) -> SessionReport:
        is_connected, row = session.peer is not None, session.row
        return SessionReport(
            session.name,
            row["client"],
            row["opened_at"],
            is_connected,
            0.0 if is_connected else monotonic() - (session.lost_at or self._began),
            len(self._rows.held.get(session.name, ())),
            row["is_fenced"],
        )

    def owned_by(self, session: str) -> tuple[SessionAllocation, ...]:
        owned = self._owned(self._require(session))
        found, owners = self._partition.allocations_by_id(owned), self._rows.owners
        return tuple(
            SessionAllocation(
                one.allocation, one.user, one.group, one.queue_path, owners[one.allocation.allocation_id][1]
            )
            for one in found
        )

    def _owned(self, session: Session) -> tuple[str, ...]:
        return tuple(sorted(self._rows.held.get(session.name, ())))

    def report_standby(self, name: str, address: str, change: int, seconds: float) -> ServiceStatus:
        return self._report_standby(name, address, change, seconds)

    def fence(self, session: str) -> None:
        found = self._require(session, to_change=True)
        if not found.row["is_fenced"]:
            row = {**found.row, "is_fenced": True}
            self._write([Change("session", found.name, None, row)])
            found.row = row

    def take_over(self, session: str) -> tuple[str, ...]:
        found, caller = self._require(session, to_change=True), self.caller
        if caller is None or caller is found:
            raise RequestError("session", session, "a session cannot take over its own allocations", "state-conflict")
        self.fence(session)
        owned, owners = self._owned(found), self._rows.owners
        self._write([Change("owner", one, None, [caller.name, owners[one][1]]) for one in owned])
        return owned

    def release_of(self, session: str) -> tuple[str, ...]:
        found = self._require(session, to_change=True)
        self.fence(session)
        owned = self._owned(found)
        for allocation_id in owned:
            self._partition.release(allocation_id)
        return owned

    def forget(self, session: str) -> bool:
        name = require_name("session", session)
        if name not in self.by_name:
            return False
        found = self._require(session, to_change=True)
        if not found.row["is_fenced"] or self._rows.held.get(name):
            raise RequestError("session", name, "it is not fenced, or still owns allocations", "not-empty")
        self.drop(found)
        return True
