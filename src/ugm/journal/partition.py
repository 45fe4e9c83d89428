"""A partition whose changes are durable: each call returns after its change has reached the disk.

>>> from tempfile import TemporaryDirectory
>>> from ugm import Resource, UserGroup, parse_config
>>> config = parse_config("partitions: [{name: default, queues: [{name: prod, resources: {max: {memory: 4Gi}}}]}]")
>>> with TemporaryDirectory() as folder:
...     with open_partition(f"{folder}/quota.journal", config.partition()) as partition:
...         placed = partition.submit("app-1", UserGroup("sue"), "root.prod")
...         granted = partition.allocate("app-1-0", "app-1", Resource(memory=2**30))
...     with open_partition(f"{folder}/quota.journal") as again:
...         print(again.allocation("app-1-0").usage)
memory 1Gi
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Literal, ParamSpec, Self, TypeVar, final

from ugm.configuration import PartitionConfig
from ugm.errors import RequestError
from ugm.events import Subscriber
from ugm.journal.ack_marker import read_ack_marker
from ugm.journal.change_log import ChangeLog
from ugm.journal.contents import open_contents, replay
from ugm.journal.deferred_results import FutureResult, LoopMailbox, TaskResult
from ugm.journal.disk_reserve import DiskReserve
from ugm.journal.errors import JournalDamagedError, JournalError
from ugm.journal.file_use import resolve_path
from ugm.journal.journal import Journal
from ugm.journal.migration import migrate
from ugm.journal.outlet import JournalOutlet
from ugm.journal.session import begin_session
from ugm.journal.store import connect, create, has_content
from ugm.journal.writer import Clock, Writer, milliseconds
from ugm.journal.writer_lock import WriterLock
from ugm.model import QuotaModel
from ugm.operation_lock import OperationLock
from ugm.partition import Partition
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.event_outbox import EventOutbox
from ugm.partition.model_set import ModelSet, claims_of
from ugm.partition.state import PartitionState
from ugm.resources import Resource

__all__ = ["JournaledPartition", "open_partition"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: The name of the node that the argument ``cluster`` registers.
_CLUSTER: Final = "cluster"


@final
class JournaledPartition(Partition):
    """A partition with a journal; `open_partition` creates it.

    Every call that changes something returns after the change has reached the disk. If that fails, the call raises
    `JournalError`, and it is uncertain whether the change holds; repeat the call. Queries never wait for the disk if
    commits are shared. In the few milliseconds of such a commit, they may show changes that are not durable yet. If
    commits are not shared, queries wait for the change that is being written.

    As a context manager it closes its journal. It belongs to the process that opened it; a forked process can only
    read.
    """

    __slots__ = ("_mailbox", "_outlet", "journal")

    journal: Journal
    #: The mailbox of the event loop that awaited an operation last.
    _mailbox: LoopMailbox | None

    def __init__(
        self, state: PartitionState, models: ModelSet, outbox: EventOutbox, outlet: JournalOutlet, journal: Journal
    ) -> None:
        self._outlet: Final = outlet
        self.journal = journal
        self._mailbox = None
        self._assemble(state, models, outbox, outlet)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.journal.close()

    # Operations that do not wait for the disk

    def promise(self, operation: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Call an operation of this partition without waiting for the disk.

        The operation takes effect at once. The future gets the result, or the error, when the change has reached the
        disk. It cannot be cancelled. If commits are not shared, the future is done when it is returned.

        >>> answer = partition.promise(partition.allocate, "app-1-0", "app-1", usage)  # doctest: +SKIP
        >>> answer.result().allowed  # doctest: +SKIP
        True
        """
        answer: FutureResult[_T] = FutureResult(self._outlet)
        answer.run(operation, *args, **kwargs)
        return answer.future

    async def awaited(self, operation: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call an operation of this partition, and await its result until the change has reached the disk."""
        loop = asyncio.get_running_loop()
        mailbox = self._mailbox
        if mailbox is None or mailbox.loop is not loop:
            # Another thread may have a loop of its own, and a mailbox for it.
            mailbox = self._mailbox = LoopMailbox(loop)
        answer: TaskResult[_T] = TaskResult(self._outlet, mailbox)
        answer.run(operation, *args, **kwargs)
        return await answer.future


def open_partition(
    path: str | os.PathLike[str],
    config: PartitionConfig | None = None,
    *,
    durability: Literal["each", "group"] = "each",
    cluster: Resource | None = None,
    models: Iterable[QuotaModel] = (),
    subscribers: Iterable[Subscriber] = (),
    group_limits: Literal["always", "unless-user-limited"] = "always",
    clock: Clock = milliseconds,
) -> JournaledPartition:
    """Open or create a journal, and return its partition as it was after the last change.

    The function replays the journal and verifies the result, in time proportional to the file.

    Args:
        path: the file. The names of the other files of the journal begin with its name.
        config: the configuration to apply; None for the last one in the journal.
        durability: ``each`` commits every change by itself. With ``group``, a thread commits the changes that several
            callers make during one commit together. In both cases a call returns when its own change is durable.
        cluster: as for `ugm.Partition`; None for the nodes in the journal.
        models: as for `ugm.Partition`. They are charged with all restored allocations, as if these were adopted.
        subscribers: as for `ugm.Partition`. They receive new events, and no replayed ones.
        group_limits: as for `ugm.Partition`.
        clock: a function that returns the milliseconds since 1970. If it goes back, changes get the time of the last
            change until the clock has passed it.

    Raises:
        RequestError: an argument is invalid.
        JournalHeldError: the journal is open already.
        JournalDamagedError: the journal is damaged, and has not changed.
        JournalError: the file is not a journal, or cannot be written.
        InvariantError: the restored partition is inconsistent; that is a bug in ugm.
    """
    if durability not in ("each", "group"):
        raise RequestError("durability", durability, "expected 'each' or 'group'")
    if group_limits not in ("always", "unless-user-limited"):
        raise RequestError("group_limits", group_limits, "expected 'always' or 'unless-user-limited'")
    lock = OperationLock()
    CompiledConfig.of(config)  # before the journal is opened, so that a wrong configuration leaves it as it is
    model_set, outbox = ModelSet(models, lock), EventOutbox(subscribers)
    place, outlet = resolve_path(path), JournalOutlet(outbox)
    with ExitStack() as undo:
        writer_lock = WriterLock.acquire(place)
        undo.callback(writer_lock.release)
        state, last = _restored(place, lock, user_limits_win=group_limits == "unless-user-limited")
        outlet.writer = _writer(place, writer_lock, last, clock, undo, together=durability == "group")
        journal = Journal(place, writer_lock, lock, outlet.writer)
        partition = JournaledPartition(state, model_set, outbox, outlet, journal)
        undo.callback(partition.journal.close)
        partition.verify()
        model_set.apply(claims_of(state))
        lock.mark_settled()
        partition._start_recording()  # noqa: SLF001 - a part of the same engine
        _apply_arguments(partition, state, config, cluster)
        undo.pop_all()
    return partition


def _restored(path: str, lock: OperationLock, *, user_limits_win: bool) -> tuple[PartitionState, tuple[int, int]]:
    """Return the state in a journal, and the number and the instant of its last change."""
    state = PartitionState(CompiledConfig.of(None), user_limits_win=user_limits_win, lock=lock)
    known = read_ack_marker(path)
    if has_content(path):
        migrate(path)
        with open_contents(path) as contents:
            return state, replay(contents, state)
    if known and known.number:
        raise JournalDamagedError(path, f"it is empty or missing, but {known.number} changes were acknowledged", 0)
    return state, (0, 0)


def _writer(
    path: str, writer_lock: WriterLock, last: tuple[int, int], clock: Clock, undo: ExitStack, *, together: bool
) -> Writer:
    try:
        if not has_content(path):
            create(path)
            writer_lock.lock_file()
        elif not os.access(path, os.W_OK):
            raise JournalError(path, "it cannot be written: the file is read-only")
        connection = connect(path)
        undo.callback(connection.close)
        reserve = DiskReserve(path)
        marker = begin_session(path, connection, last[0], reserve.release)
        undo.callback(marker.close)
    except (sqlite3.Error, OSError) as error:
        raise JournalError(path, f"it cannot be written: {error}") from error
    return Writer(path, ChangeLog(path, connection, marker, reserve), last, clock, together=together)


def _apply_arguments(
    partition: JournaledPartition, state: PartitionState, config: PartitionConfig | None, cluster: Resource | None
) -> None:
    """Apply the configuration and the cluster that the program has passed to the restored partition."""
    if config is not None and config != state.compiled.config:
        partition.configure(config)
    if cluster is not None:
        known = _CLUSTER in state.cluster.nodes
        (partition.update_node if known else partition.add_node)(_CLUSTER, cluster)
