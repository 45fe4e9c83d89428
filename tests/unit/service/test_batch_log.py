"""The batches of a leader: the log leads to the table of sessions that the leader has."""

from __future__ import annotations

from random import Random
from threading import Thread

import pytest

from support.examples import seeds
from support.partition_fixtures import memory
from ugm import ReentrantCallError
from ugm.journal.change_data import decode_change
from ugm.journal.client_sessions import (
    Answer,
    ClientSession,
    OwnerChanged,
    SessionFenced,
    SessionForgotten,
    SessionOpened,
    SessionProgress,
    SessionTable,
)
from ugm.partition import Allocation, AllocationState
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.event_codec import to_json
from ugm.partition.events import Allocated, Event, Released
from ugm.service.batch_log import BatchLog


class Leader:
    """Makes random messages, changes of threads and records, and replays its batches into a second table."""

    def __init__(self, draw: Random) -> None:
        self.table, self.replayed, self.draw, self.now = SessionTable(), SessionTable(), draw, 0
        self.log = BatchLog(self.table, lambda _: None, lambda: None, lambda: self.now, is_stored=True)
        self.log.enter_loop()
        self.events: list[Event] = []
        self.logged: list[Event] = []

    def change(self) -> None:
        """Obtain or release an allocation."""
        name = f"a-{self.draw.randrange(9)}"
        allocation = Allocation(
            name, "app", memory(1), AllocationState.HELD, placeholder=False, priority=0, preemptible=True
        )
        kind = self.draw.choice((Allocated, Released))
        events = [kind(allocation)] * self.draw.randint(1, 2)
        self.events += events
        self.log.write(events)

    def change_in_a_thread(self) -> None:
        """Let another thread change the partition."""
        thread = Thread(target=self.change)
        thread.start()
        thread.join()

    def record(self) -> None:
        """Record a change of a session."""
        session = self.draw.choice(list(self.table.sessions))
        owned = self.table.allocations_of(session)
        other = self.draw.choice(list(self.table.sessions))
        self.log.add_record(self.draw.choice((SessionFenced(session), OwnerChanged(other, tuple(owned)))))

    def message(self) -> None:
        """Execute a message of a session, and record its answers."""
        session = self.table.sessions[self.draw.choice(list(self.table.sessions))]
        self.log.begin_message(session.session_id)
        for _ in range(self.draw.randint(1, 3)):
            self.draw.choice((self.change, self.change, self.change_in_a_thread, self.record))()
        self.log.end_message()
        number = session.last_number + 1
        acknowledged = max(session.acknowledged, number - self.draw.randint(1, 3))
        self.log.add_progress(SessionProgress(session.session_id, number, acknowledged, (Answer(number, 0, b"\xc3"),)))

    def come_and_go(self) -> None:
        """Open a session, and forget another one, perhaps that of the last message."""
        name = f"s-{self.log.number}"
        self.log.add_record(SessionOpened(name, "client"))
        if len(self.table.sessions) > 3:
            self.log.add_record(SessionForgotten(self.draw.choice([*self.table.sessions][:-1])))

    def commit(self) -> None:
        """Write the batch, and replay it."""
        batch, by = self.log.take(), ""
        for records, events in decode_change(to_json(batch.rows), CompiledConfig.of(None)):
            by = self.replayed.apply(records, events, self.log.now, by)
            self.logged += events
        self.log.end(batch)


def described(table: SessionTable) -> tuple[list[tuple[object, ...]], object]:
    """Return everything in a table."""

    def facts(session: ClientSession) -> tuple[object, ...]:
        numbers = session.last_number, session.acknowledged, session.held
        return session.session_id, session.is_fenced, *numbers, *session.answers.values()

    return [facts(session) for session in table.sessions.values()], table.owners


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_replay_gives_the_table_of_the_leader(seed: int) -> None:
    """Sessions, answers and owners are the same after a replay, whatever shares a batch, and so are the events."""
    leader = Leader(Random(seed))
    for step in range(60):
        leader.come_and_go() if step % 9 == 0 else leader.draw.choice((leader.message, leader.change_in_a_thread))()
        if leader.draw.random() < 0.3 and leader.log.gathering.rows:
            leader.commit()
            assert described(leader.replayed) == described(leader.table)
            assert leader.logged == leader.events


def test_a_call_that_interrupts_the_log() -> None:
    """A signal handler that interrupts a thread in the log cannot begin an operation, and leaves its lock alone."""
    log = Leader(Random(0)).log
    log.require_ready()
    with log._guard:
        with pytest.raises(ReentrantCallError):
            log.require_ready()
        assert log._guard.is_owned()
