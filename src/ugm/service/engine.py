"""The engine of a leader, assembled from a log that this process leads, or without a log in memory.

It consists of a partition whose changes go to a `ugm.service.batch_log.BatchLog`, the sessions of the clients, the
committer that passes batches to the log, and the feed of durable changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import time_ns
from typing import Literal, NamedTuple, final

from ugm.configuration import PartitionConfig
from ugm.events import Subscriber
from ugm.journal.change_queue import ChangeQueue
from ugm.journal.client_sessions import SessionTable
from ugm.journal.model_history import past_calls
from ugm.journal.opening import OpenLog, require_added_models
from ugm.model import QuotaModel
from ugm.operation_lock import OperationLock
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.event_outbox import EventOutbox
from ugm.partition.fast_path import RecordedPath
from ugm.partition.model_calls import ledger_calls
from ugm.partition.model_set import ModelSet
from ugm.partition.state import PartitionState
from ugm.service.batch_log import BatchLog
from ugm.service.change_feed import ChangeFeed, ReadLog
from ugm.service.committer import Committer
from ugm.service.listing import ListingPartition

__all__ = ["Engine", "EngineSettings", "ServicePartition", "build_engine", "restore_models"]


@final
class ServicePartition(RecordedPath, ListingPartition):
    """The partition of a leader."""

    __slots__ = ()

    def __init__(self, state: PartitionState, models: ModelSet, outbox: EventOutbox, log: BatchLog) -> None:
        self._assemble(state, models, outbox, log)
        state.active_limits.lock.mark_consistent()
        self._start_recording()


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The arguments of a partition that is built by a service; see `ugm.Partition`."""

    config: PartitionConfig | None
    #: None if the program does not state which models it adds; a log must not have any then.
    models: tuple[QuotaModel, ...] | None
    subscribers: tuple[Subscriber, ...]
    group_limits: Literal["always", "unless-user-limited"]

    @property
    def user_limits_win(self) -> bool:
        """True if a user with a limit of its own is exempt from group limits."""
        return self.group_limits == "unless-user-limited"


class Engine(NamedTuple):
    """The parts of a leader that execute and commit operations."""

    partition: ServicePartition
    sessions: SessionTable
    committer: Committer
    feed: ChangeFeed


def restore_models(settings: EngineSettings, state: PartitionState, opened: OpenLog | None) -> ModelSet:
    """Return the models of a partition, with their claims and their past; for any thread.

    It takes as long as reading the whole log if a model of the program depends on the past.

    Args:
        settings: the arguments of the partition.
        state: its state.
        opened: its log; None for a partition in memory.

    Raises:
        RequestError: a model is invalid, or models of the program are missing.
        JournalError: the log cannot be read.
    """
    require_added_models(state.added_models, are_given=settings.models is not None)
    models = ModelSet(settings.models or (), state.active_limits.lock)
    models.reset()
    restore = partial(models.restore, state.compiled.models, state.cluster.total, partial(ledger_calls, state))
    if opened is None:
        restore()
    else:
        models.clock.follow(opened.change_queue)
        restore(partial(past_calls, opened.log.open_contents), opened.declared)
    return models


def build_engine(
    settings: EngineSettings,
    opened: OpenLog | None,
    read_log: ReadLog | None,
    on_resigned: Callable[[], None],
    models: ModelSet | None = None,
) -> Engine:
    """Return an engine for the running loop.

    Args:
        settings: the arguments of the partition.
        opened: the log; None for an engine in memory.
        read_log: reads older changes of the log for clients that follow; None without a log.
        on_resigned: called in the loop when this process ceases to lead by itself; see `Committer`.
        models: the models, from `restore_models`; None to make them here.

    Raises:
        RequestError: a model or a subscriber is invalid.
        JournalError: the log cannot be read.
    """
    state, sessions, change_queue = _parts(settings, opened)
    outbox = EventOutbox(settings.subscribers)
    if models is None:
        models = restore_models(settings, state, opened)
    # Without a log, the numbers of the next process are larger, so it refuses clients that followed this one.
    feed = ChangeFeed(time_ns() // 1000 if change_queue is None else change_queue.number, read_log)
    committer = Committer(asyncio.get_running_loop(), change_queue, sessions, outbox.deliver, feed, on_resigned)
    try:
        partition = ServicePartition(state, models, outbox, committer.log)
        if change_queue is not None:
            models.clock.follow(committer.log)
            partition._restore_limits(change_queue.second_of_change())  # noqa: SLF001 - a part of the same engine
        partition._record_models()  # noqa: SLF001 - as above
        partition._start_missing_timers()  # noqa: SLF001 - as above
        if settings.config is not None and partition.config is None:
            partition.configure(settings.config)
        # The clock stands still until the batch is committed.
        committer.request()
    except BaseException:
        committer.stop_renewing()
        raise
    return Engine(partition, sessions, committer, feed)


def _parts(settings: EngineSettings, opened: OpenLog | None) -> tuple[PartitionState, SessionTable, ChangeQueue | None]:
    if opened is not None:
        return opened.state, opened.sessions, opened.change_queue
    compiled, lock = CompiledConfig.of(None), OperationLock()
    state = PartitionState(compiled, user_limits_win=settings.user_limits_win, lock=lock)
    return state, SessionTable(), None
