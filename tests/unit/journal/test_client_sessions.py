"""Client sessions are the same in the leader, after a replay and after a compaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.journal_fixtures import begin
from support.partition_fixtures import SUE, memory
from ugm.events import Event
from ugm.journal import JournaledPartition, export, inspect, usage
from ugm.journal.change_data import LoggedOperation, add_operation, decode_change
from ugm.journal.client_sessions import (
    Answer,
    OwnerChanged,
    Ownership,
    SessionFenced,
    SessionForgotten,
    SessionOpened,
    SessionProgress,
    SessionRecord,
    SessionTable,
)
from ugm.journal.contents import open_contents, replay
from ugm.partition import Allocation, AllocationState
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.event_codec import to_json
from ugm.partition.events import Allocated, AllocationRequested, Released, RequestWithdrawn
from ugm.partition.state import PartitionState

EMPTY = CompiledConfig.of(None)


def held(name: str) -> Allocation:
    """Return an allocation of one."""
    return Allocation(name, "app", memory(1), AllocationState.HELD, placeholder=False, priority=0, preemptible=True)


def described(table: SessionTable) -> Any:  # noqa: ANN401 - plain values
    """Return everything in a table."""
    sessions = [
        [getattr(session, name) for name in session.__slots__ if name != "answers"] + list(session.answers.values())
        for session in table.sessions.values()
    ]
    return sessions, sorted(table.owners.items())


def write(
    partition: JournaledPartition, table: SessionTable, *operations: tuple[list[SessionRecord], list[Event]]
) -> None:
    """Append one change with several operations, whose events have happened already, and apply it to a table."""
    rows: list[Any] = []
    for operation in operations:
        add_operation(rows, *operation)
    writer = partition._transaction_log.change_queue
    writer.prepare(needs_space=False)
    writer.append(to_json(rows))
    writer.flush()
    by = ""
    for records, events in operations:
        by = table.apply(records, events, writer.at, by)


def replayed(path: Path) -> tuple[PartitionState, SessionTable]:
    """Return what a journal contains."""
    state, table = PartitionState(EMPTY, user_limits_win=False), SessionTable()
    with open_contents(str(path)) as contents:
        replay(contents, state, sessions=table)
    return state, table


def fill(path: Path) -> SessionTable:
    """Write a journal with sessions, and return their table."""
    table = SessionTable()
    with begin(path) as partition:
        write(partition, table, ([SessionOpened("s", "one"), SessionOpened("t", "other")], []))
        answers = (Answer(1, 0, b"\x00\xff"), Answer(2, 1, b""))
        write(
            partition,
            table,
            ([SessionProgress("s", 2, 0, answers)], [Allocated(held("a")), Allocated(held("b"))]),
            ([SessionProgress("t")], [Allocated(held("c"))]),
            ([], [Released(held("b"))]),
            ([SessionProgress("")], [Allocated(held("d"))]),
        )
        write(partition, table, ([SessionProgress("s", 3, 1, (Answer(3, 0, b"x"),)), SessionFenced("t")], []))
    return table


def test_replay(tmp_path: Path) -> None:
    """A replay gives the table of the leader, with answers that the client has not acknowledged."""
    table = fill(tmp_path / "journal")

    state, again = replayed(tmp_path / "journal")

    assert described(again) == described(table)
    assert {name: owner.session_id for name, owner in again.owners.items()} == {"a": "s", "c": "t"}
    assert sorted(state.ledger.owners) == ["a", "c", "d"]
    session = again.sessions["s"]
    assert (session.last_number, session.held, sorted(session.answers)) == (3, 1, [2, 3])
    assert session.answers[2] == Answer(2, 1, b"")
    assert again.sessions["t"].is_fenced
    assert again.allocations_of("t") == ["c"]


def test_compaction(tmp_path: Path) -> None:
    """A compaction keeps the sessions, and another one after it as well."""
    path = tmp_path / "journal"
    table = fill(path)
    for _ in range(2):
        with begin(path) as partition:
            partition.journal.compact()

    assert described(replayed(path)[1]) == described(table)


def test_moved_and_forgotten(tmp_path: Path) -> None:
    """Allocations can be moved to another session; those of a forgotten session belong to none."""
    path = tmp_path / "journal"
    table = fill(path)
    with begin(path) as partition:
        write(partition, table, ([SessionOpened("u", "next"), OwnerChanged("u", ("a", "d"))], []))
        assert (table.sessions["s"].held, table.sessions["u"].held) == (0, 2)
        write(partition, table, ([SessionForgotten("u"), SessionForgotten("s"), OwnerChanged("", ("c",))], []))

    assert described(replayed(path)[1]) == described(table)
    assert table.owners == {}
    assert list(table.sessions) == ["t"]


def test_granted_request() -> None:
    """A request belongs to its session until it is withdrawn, also when a program without a session grants it."""
    table = SessionTable()
    pending = held("p")._replace(state=AllocationState.PENDING)
    table.apply(
        [SessionOpened("s", ""), SessionProgress("s")],
        [AllocationRequested(pending), AllocationRequested(held("q"))],
        1,
    )
    table.apply([], [Allocated(held("p")), RequestWithdrawn(held("q"))], 2)

    assert table.owners == {"p": Ownership("s", 0)}
    assert table.sessions["s"].held == 1


def test_time_of_ownership() -> None:
    """An allocation belongs to its session since a second, also after a takeover and in a snapshot."""
    table, again = SessionTable(), SessionTable()
    table.apply([SessionOpened("s", ""), SessionProgress("s")], [Allocated(held("a")), Allocated(held("b"))], 7_900)
    table.apply([SessionProgress("s")], [Allocated(held("c"))], 8_000)
    table.apply([SessionOpened("t", ""), OwnerChanged("t", ("a", "c"))], [], 9_000)
    again.restore(table.rows())

    assert table.owners == {"b": Ownership("s", 7), "a": Ownership("t", 7), "c": Ownership("t", 8)} == again.owners
    assert table.owners["a"].session_id == "t"

    old = SessionTable()
    old.restore(b'["owner","s",["a"]]' if row.startswith(b'["owner"') else row for row in table.rows())
    assert old.owners == {"a": Ownership("s", 0)}


def test_plain_journal(tmp_path: Path) -> None:
    """A journal without sessions does not contain any trace of them."""
    path = tmp_path / "journal"
    with begin(path) as partition:
        partition.allocate("a", "app", memory(1))
        before = b"".join(row for row in rows_of(path, "changes"))
        partition.journal.compact()

    assert before.endswith(b'["link","app","sue",null],["+","a","app",{"memory":1}]]')
    assert not any(b"session" in row for row in rows_of(path, "snapshot"))


def rows_of(path: Path, table: str) -> list[bytes]:
    """Return the data in a table of a journal."""
    with open_contents(str(path)) as contents:
        if table == "changes":
            return [change.data for change in contents._reader.changes(0)]
        return list(contents._reader.rows(table))


def test_operations_in_one_change(tmp_path: Path) -> None:
    """An application that one operation leaves idle can be submitted again by the next one in the same change."""
    path = tmp_path / "journal"
    seen: list[Event] = []
    with begin(path) as partition:
        partition.allocate("a", "app", memory(1))
        number = partition.journal.number
    with begin(tmp_path / "other", subscribers=[lambda _first, events: seen.extend(events)]) as partition:
        partition.allocate("a", "app", memory(1))
        seen.clear()
        partition.release("a")
        first = seen[:]
        partition.submit("app", SUE, "root.a")
        second = seen[len(first) :]
    with begin(path) as partition:
        write(partition, SessionTable(), ([], first), ([], second))
        assert partition.journal.number == number + 1

    state, _ = replayed(path)
    assert list(state.applications) == ["app"]


def test_rows_of_operations() -> None:
    """Operations are decoded as they were added."""
    operations = (
        LoggedOperation((), (Allocated(held("a")),)),
        LoggedOperation((), (Released(held("a")),)),
        LoggedOperation((SessionProgress("s", 4, 3, (Answer(4, 0, b"v"),)),), ()),
        LoggedOperation((SessionFenced("s"), SessionProgress("")), (Allocated(held("b")),)),
    )
    rows: list[Any] = []
    for operation in operations:
        add_operation(rows, *operation)

    decoded = decode_change(to_json(rows), EMPTY)

    # Nothing separates two groups of records without events between them.
    assert decoded[:2] == operations[:2]
    assert decoded[2] == LoggedOperation(operations[2].records + operations[3].records, operations[3].events)


def test_other_readers(tmp_path: Path) -> None:
    """Usage over time ignores session records, and an export shows them."""
    path = tmp_path / "journal"
    fill(path)

    assert inspect(path).allocations == 3
    [row] = usage(path, "user", clock=lambda: 2**35)
    assert row.amounts["memory"] > 0
    records = [entry["sessions"] for entry in export(path) if "sessions" in entry]
    assert records[0] == [["session", "s", "one"], ["session", "t", "other"]]
