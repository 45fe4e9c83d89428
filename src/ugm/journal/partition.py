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
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Final, Literal, ParamSpec, Self, TypeVar, final

from ugm.arguments import require_group_limits
from ugm.configuration import PartitionConfig
from ugm.errors import RequestError
from ugm.events import Subscriber
from ugm.journal.deferred_results import FutureResult, LoopMailbox, TaskResult
from ugm.journal.journal import Journal
from ugm.journal.locations import LogLocation, log_at
from ugm.journal.log import Candidate
from ugm.journal.model_history import past_calls
from ugm.journal.opening import OpenLog, open_log, require_added_models
from ugm.journal.transaction_log import JournalTransactionLog
from ugm.model import QuotaModel
from ugm.operation_lock import OperationLock
from ugm.partition import Partition
from ugm.partition.clock import Clock
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.event_outbox import EventOutbox
from ugm.partition.fast_path import RecordedPath
from ugm.partition.model_calls import ledger_calls
from ugm.partition.model_set import ModelSet
from ugm.partition.state import PartitionState
from ugm.resources import Resource

__all__ = ["JournaledPartition", "open_partition"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: The name of the node that the argument ``cluster`` registers.
_CLUSTER: Final = "cluster"


@final
class JournaledPartition(RecordedPath, Partition):
    """A partition with a journal; `open_partition` creates it.

    Every call that changes something returns after the change has reached the disk. If that fails, the call raises
    `JournalError`, and it is uncertain whether the change holds; repeat the call. Queries never wait for the disk if
    commits are shared. In the few milliseconds of such a commit, they may show changes that are not durable yet. If
    commits are not shared, queries wait for the change that is being written.

    As a context manager it closes its journal. It belongs to the process that opened it. A forked process can only read
    it, and only if no other thread used it at the moment of the fork.
    """

    __slots__ = ("_mailbox", "_transaction_log", "journal")

    journal: Journal
    #: The mailbox of the event loop that awaited an operation last.
    _mailbox: LoopMailbox | None

    def __init__(
        self,
        state: PartitionState,
        models: ModelSet,
        outbox: EventOutbox,
        transaction_log: JournalTransactionLog,
        journal: Journal,
    ) -> None:
        self._transaction_log: Final = transaction_log
        self.journal = journal
        self._mailbox = None
        self._assemble(state, models, outbox, transaction_log)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the journal. The partition stays in it, and can be opened again."""
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
        answer: FutureResult[_T] = FutureResult(self._transaction_log)
        answer.run(operation, *args, **kwargs)
        return answer.future

    async def awaited(self, operation: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call an operation of this partition, and await its result until the change has reached the disk."""
        loop = asyncio.get_running_loop()
        mailbox = self._mailbox
        if mailbox is None or mailbox.loop is not loop:
            # Another thread may have a loop of its own, and a mailbox for it.
            mailbox = self._mailbox = LoopMailbox(loop)
        answer: TaskResult[_T] = TaskResult(self._transaction_log, mailbox)
        answer.run(operation, *args, **kwargs)
        return await answer.future


def open_partition(
    path: LogLocation,
    config: PartitionConfig | None = None,
    *,
    durability: Literal["each", "group"] = "each",
    cluster: Resource | None = None,
    models: Iterable[QuotaModel] | None = None,
    subscribers: Iterable[Subscriber] = (),
    group_limits: Literal["always", "unless-user-limited"] = "always",
    clock: Clock = time.time,
) -> JournaledPartition:
    """Open or create a journal, and return its partition as it was after the last change.

    The function replays the journal and verifies the result, in time proportional to the file.

    Args:
        path: the file. The names of the other files of the journal begin with its name. For a journal in PostgreSQL,
            a URL that begins with ``postgresql://``, or a `ugm.journal.postgres.PostgresLog`.
        config: the configuration to apply; None for the last one in the journal.
        durability: ``each`` commits every change by itself. With ``group``, a thread commits the changes that several
            callers make during one commit together. In both cases a call returns when its own change is durable.
        cluster: as for `ugm.Partition`; None for the nodes in the journal.
        models: as for `ugm.Partition`. They are charged with all restored allocations, as if these were adopted. A
            `ugm.model.HistoryModel` is also charged with everything that the journal knows about the past. None is an
            error if the journal was last used with models of the program, so that they are not forgotten. An empty
            tuple states that there are none.
        subscribers: as for `ugm.Partition`. They receive new events, and no replayed ones.
        group_limits: as for `ugm.Partition`.
        clock: a function that returns the seconds since 1970; fractions are allowed. If it goes back, changes get the
            time of the last change until the clock has passed it.

    Raises:
        RequestError: an argument is invalid, or models of the program are missing; their names are in the message.
        JournalHeldError: the journal is open already.
        JournalDamagedError: the journal is damaged, and has not changed.
        JournalError: the file is not a journal, or cannot be written.
        InvariantError: the restored partition is inconsistent; that is a bug in ugm.
    """
    if durability not in ("each", "group"):
        raise RequestError("durability", durability, "expected 'each' or 'group'")
    user_limits_win = require_group_limits(group_limits)
    CompiledConfig.of(config)  # before the journal is opened, so that a wrong configuration leaves it as it is
    lock = OperationLock()
    model_set, outbox = ModelSet(() if models is None else models, lock), EventOutbox(subscribers)
    opened = open_log(
        log_at(path),
        Candidate(),
        lock,
        user_limits_win=user_limits_win,
        group_commit=durability == "group",
        clock=clock,
    )
    try:
        model_set.clock.follow(opened.change_queue)
        state = opened.state
        require_added_models(state.added_models, are_given=models is not None)
        calls, past = partial(ledger_calls, state), partial(past_calls, opened.log.open_contents)
        model_set.restore(state.compiled.models, state.cluster.total, calls, past, opened.declared)
        partition = _assembled(opened, model_set, outbox)
        partition._restore_limits(opened.change_queue.second_of_change())  # noqa: SLF001 - a part of the same engine
        partition.verify()
        lock.mark_consistent()
        partition._start_recording()  # noqa: SLF001 - as above
        partition._record_models()  # noqa: SLF001 - as above
        partition._start_missing_timers()  # noqa: SLF001 - as above
        _apply_arguments(partition, opened.state, config, cluster)
        # In the block: an exception before the caller has the partition closes the journal, too.
        return partition  # noqa: TRY300 - as above
    except BaseException:
        opened.journal.close()
        raise


def _assembled(opened: OpenLog, models: ModelSet, outbox: EventOutbox) -> JournaledPartition:
    log = JournalTransactionLog(outbox, opened.change_queue)
    return JournaledPartition(opened.state, models, outbox, log, opened.journal)


def _apply_arguments(
    partition: JournaledPartition, state: PartitionState, config: PartitionConfig | None, cluster: Resource | None
) -> None:
    """Apply the configuration and the cluster that the program has passed to the restored partition."""
    if config is not None and config != state.compiled.config:
        partition.configure(config)
    if cluster is not None:
        known = _CLUSTER in state.cluster.nodes
        (partition.update_node if known else partition.add_node)(_CLUSTER, cluster)
