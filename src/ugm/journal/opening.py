"""Opening a log for writing: the process becomes the leader, replays the log, and starts the queue of changes.

The result, an `OpenLog`, has everything that a partition on this log is made of: the state, the sessions of clients and
the queue of changes. `ugm.journal.partition` makes a journaled partition of it, and `ugm.service.engine` the engine of
a service.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import final

from ugm.errors import RequestError
from ugm.journal.change_queue import ChangeQueue
from ugm.journal.client_sessions import SessionTable
from ugm.journal.declared_past import declared_models
from ugm.journal.journal import Journal
from ugm.journal.log import Candidate, LeaderRecord, Leadership, Log
from ugm.operation_lock import OperationLock
from ugm.partition.clock import Clock
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.declared_models import DeclaredModel
from ugm.partition.state import PartitionState

__all__ = ["OpenLog", "open_log", "open_restored", "require_added_models"]


@final
@dataclass(slots=True, frozen=True, eq=False)
class OpenLog:
    """A log that this process leads, with the state after its last change."""

    log: Log
    #: The lock of the state.
    lock: OperationLock
    state: PartitionState
    sessions: SessionTable
    change_queue: ChangeQueue
    #: Closes the log.
    journal: Journal
    #: The declared models that depend on the past, with their claims.
    declared: tuple[DeclaredModel, ...]


def open_log(
    log: Log,
    candidate: Candidate,
    lock: OperationLock,
    *,
    replacing: LeaderRecord | None = None,
    user_limits_win: bool = False,
    group_commit: bool = True,
    clock: Clock = time.time,
) -> OpenLog:
    """Become the leader of a log, and replay it. The result is not verified.

    Args:
        log: the log.
        candidate: this process, as others see it.
        lock: the lock of the new state.
        replacing: a silent leader that this process replaces, as `Log.find_leader` has returned it.
        user_limits_win: whether a user with a limit of its own is exempt from group limits.
        group_commit: whether a thread commits the changes of several callers.
        clock: a function that returns the seconds since 1970; fractions are allowed.

    Raises:
        JournalHeldError: another process leads.
        JournalDamagedError: the log is damaged, and has not changed.
        JournalError: the log cannot be written.
    """
    with ExitStack() as undo:
        leadership = log.lead(candidate, replacing=replacing)
        undo.callback(leadership.release)
        state = PartitionState(CompiledConfig.of(None), user_limits_win=user_limits_win, lock=lock)
        sessions = SessionTable()
        last = leadership.restore(state, sessions)
        declared = declared_models(state.compiled.models, log.open_contents())
        opened = open_restored(log, leadership, state, sessions, last, declared, group_commit=group_commit, clock=clock)
        undo.pop_all()
    return opened


def require_added_models(recorded: tuple[str, ...], *, are_given: bool) -> None:
    """Check that the program supplies quota models if it did so when the log was written.

    A configuration in the log contains the models that it declares. Only the program can make the others, and without
    them, requests would be granted that were denied before.

    Args:
        recorded: the names of the classes of the models that the program added last.
        are_given: whether the program states which models it adds.

    Raises:
        RequestError: it does not, and there are such models.
    """
    if recorded and not are_given:
        expected = f"the partition was used with {', '.join(recorded)}, which only the program can supply"
        raise RequestError("models", None, f"{expected}; pass models=[...], or models=() to go on without them")


def open_restored(
    log: Log,
    leadership: Leadership,
    state: PartitionState,
    sessions: SessionTable,
    last: tuple[int, int],
    declared: tuple[DeclaredModel, ...],
    *,
    group_commit: bool,
    clock: Clock,
) -> OpenLog:
    """Begin to write a log whose state after the change *last* is known, with its declared models."""
    lock = state.active_limits.lock
    writer = leadership.start_writing(last)
    try:
        change_queue = ChangeQueue(log.location, writer, last, clock, group_commit=group_commit)
    except BaseException:
        writer.close()
        raise
    return OpenLog(log, lock, state, sessions, change_queue, Journal(log, leadership, lock, change_queue), declared)
