"""A partition whose changes are durable: each call returns after its change has reached the disk.

>>> from tempfile import TemporaryDirectory
>>> from ugm import Resource, UserGroup, parse_config
>>> config = parse_config("partitions: [{name: default, queues: [{name: prod, resources: {max: {memory: 4Gi}}}]}]")
>>> with TemporaryDirectory() as folder:
...     with open_partition(f"{folder}/quota.db", config.partition()) as partition:
...         placed = partition.submit("app-1", UserGroup("sue"), "root.prod")
...         granted = partition.allocate("app-1-0", "app-1", Resource(memory=2**30))
...     with open_partition(f"{folder}/quota.db") as again:
...         print(again.allocation("app-1-0").usage)
memory 1Gi

An operation passes its changes to `StoreLog.write` under the lock of the partition. When the store has accepted them,
they are final in memory. After the lock was released, `StoreLog.wait` returns when they are *durable*. If a call is
interrupted in between, its changes are written all the same, in their order.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import local
from typing import Final, Literal, ParamSpec, Self, TypeVar, cast, final

from ugm.arguments import require_group_limits
from ugm.configuration import PartitionConfig
from ugm.engine_lock import CHANGING, EngineLock
from ugm.errors import RequestError
from ugm.events import Subscriber
from ugm.model import QuotaModel
from ugm.partition import Partition
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.engine.model_calls import row_calls
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.row_follower import RowFollower
from ugm.partition.engine.state import PartitionState
from ugm.partition.engine.transaction import Clock, EventOutbox, TransactionLog
from ugm.partition.events import events_of
from ugm.partition.rows import Change
from ugm.resources import Resource
from ugm.store.database import StoreDamagedError, StoreError
from ugm.store.fold import CapturedModels
from ugm.store.reader import Loaded, StoreLocation, StoreReader, Transaction
from ugm.store.row_tables import ROW_TABLES
from ugm.store.store import Store, open_store
from ugm.store.usage import stored_time

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: The name of the node that the argument ``cluster`` registers.
_CLUSTER: Final = "cluster"
#: The longest time for which a fold waits for the lock of the partition, in seconds.
_CAPTURE_WAIT: Final = 0.005


def open_partition(
    location: StoreLocation,
    config: PartitionConfig | None = None,
    *,
    cluster: Resource | None = None,
    models: Iterable[QuotaModel] | None = None,
    subscribers: Iterable[Subscriber] = (),
    group_limits: Literal["always", "unless-user-limited"] = "always",
    clock: Clock = time.time,
) -> StoredPartition:
    """Open or create a store, and return its partition as it was after the last change.

    The function reads the rows of the store and makes everything again that follows from them. The time depends on the
    number of applications and allocations, and not on how long the partition has existed.

    Args:
        location: the path of a file, a URL that begins with ``postgresql://``, or a `PostgresLocation`.
        config: the configuration to apply; None for the last one in the store.
        cluster: as for `ugm.Partition`; None for the nodes in the store.
        models: as for `ugm.Partition`. They are charged with all restored allocations, as if these were adopted. A
            `ugm.model.PersistentModel` continues its past. None is an error if the store was last used with models of
            the program, so that they are not forgotten. An empty tuple states that there are none.
        subscribers: as for `ugm.Partition`. They receive new events only.
        group_limits: as for `ugm.Partition`.
        clock: a function that returns the seconds since 1970; fractions are allowed. If it goes back, changes get the
            time of the last change until the clock has passed it.

    Raises:
        RequestError: an argument is invalid, or models of the program are missing; their names are in the message.
        StoreHeldError: another process has opened the store.
        StoreDamagedError: the store is damaged, and has not changed.
        StoreError: it is not a store, or cannot be written.
    """
    user_limits_win = require_group_limits(group_limits)
    CompiledConfig.of(config)  # before the store is opened, so that a wrong configuration leaves it as it is
    outbox = EventOutbox(subscribers)
    lock = EngineLock()
    model_set = ModelSet(() if models is None else models, lock)
    capture = ModelCapture(lock, model_set)
    store = open_store(location, capture=capture)
    try:
        loaded = store.load()
        state, change_clock = restored_parts(loaded, model_set, lock, user_limits_win=user_limits_win)
        require_added_models(state.row.added_models, are_given=models is not None)
        change_clock.clock = clock
        partition = StoredPartition(state, model_set, outbox, store, change_clock)
        capture.store = store
        if config is not None and config != partition.config:
            partition.configure(config)
        if cluster is not None:
            (partition.update_node if _CLUSTER in partition.nodes() else partition.add_node)(_CLUSTER, cluster)
        # In the block: an exception before the caller has the partition closes the store, too.
        return partition  # noqa: TRY300 - as above
    except BaseException:
        store.close()
        raise


def restored_parts(
    loaded: Loaded, models: ModelSet, lock: EngineLock, *, user_limits_win: bool
) -> tuple[PartitionState, ChangeClock]:
    """Return the state of a store after its last change, and the clock of its models, which are brought there, too.

    Raises:
        StoreDamagedError: a row refers to another one that is missing.
        RequestError: the stored past of a model belongs to another one.
    """
    clock = ChangeClock(loaded.folded_at, None)
    models.clock.follow(clock)
    state = PartitionState(CompiledConfig.of(None), user_limits_win=user_limits_win, lock=lock)
    try:
        state.load(loaded.tables)
        tables = state.tables
        compiled, total = tables.configuration[""].compiled, tables.partition[""].cluster
        models.restore(compiled.models, total, lambda: row_calls(tables), loaded.tables["model"])
        follower = RowFollower(state, models, state.rebuild, is_counted=False)
        for transaction in loaded.tail:
            clock.repeat(transaction.at)
            follower.apply(transaction.changes)
        follower.catch_up()
    except LookupError as error:
        raise StoreDamagedError(loaded.location, f"its rows refer to {error}, which is missing") from error
    lock.mark_consistent()
    return state, clock


def require_added_models(recorded: tuple[str, ...], *, are_given: bool) -> None:
    """Check that the program supplies quota models if it did so when the store was written.

    A configuration in the store contains the models that it declares. Only the program can make the others, and without
    them, requests would be granted that were denied before.

    Raises:
        RequestError: it does not.
    """
    if recorded and not are_given:
        expected = f"the partition was used with {', '.join(recorded)}, which only the program can supply"
        raise RequestError("models", None, f"{expected}; pass models=[...], or models=() to go on without them")


@final
class ModelCapture:
    """Returns the past of the quota models for a fold; a thread of the store calls it.

    Args:
        lock: the lock of the partition.
        models: its models.
    """

    def __init__(self, lock: EngineLock, models: ModelSet) -> None:
        self._lock: Final = lock
        self._models: Final = models
        #: Set when the partition is complete.
        self.store: Store | None = None

    def __call__(self) -> CapturedModels | None:
        """Return the past of the models; None if that is not possible now."""
        lock, store = self._lock, self.store
        if store is None or not lock.acquire(timeout=_CAPTURE_WAIT):
            return None
        try:
            # An operation runs in this thread or was interrupted, or the models know more than the store.
            if lock.valid_epoch is CHANGING or store.has_collected:
                return None
            return CapturedModels(store.number, self._models.save())
        finally:
            lock.release()


class RestoredPartition(Partition):
    """A partition that continues after the last change of a store; a log gets all further changes.

    Args:
        state: the state after that change.
        models: the quota models.
        outbox: the events for subscribers.
        log: the log.
        clock: the time of the changes, which is that of the last one.
    """

    def __init__(
        self, state: PartitionState, models: ModelSet, outbox: EventOutbox, log: TransactionLog, clock: ChangeClock
    ) -> None:
        self._assemble(state, models, outbox, log)
        self._restore_limits(clock.at // 1000)
        self._lock.mark_consistent()
        self._start_recording()
        self._record_models()


@final
class StoredPartition(RestoredPartition):
    """A partition with a store; `open_partition` creates it.

    Every call that changes something returns after the change has reached the disk. Changes of several threads share a
    commit. If it fails, the call raises `StoreError`, and it is uncertain whether the change holds; repeat the call.
    Queries never wait for the disk. In the few milliseconds of a commit, they may show changes that are not durable
    yet.

    As a context manager it closes its store. It belongs to the process that opened it, and not to forked children.
    """

    def __init__(
        self, state: PartitionState, models: ModelSet, outbox: EventOutbox, store: Store, clock: ChangeClock
    ) -> None:
        self.store: Final = store
        self._outbox: Final = outbox
        self._log: Final = StoreLog(store, clock)
        #: Completes promises and calls subscribers for them, because neither may hold up the commits.
        self._deliveries: Final = ThreadPoolExecutor(1, "ugm-promises")
        super().__init__(state, models, outbox, self._log, clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store. The partition stays in it, and can be opened again.

        Raises:
            StoreError: changes are in doubt, and cannot be written now either.
        """
        try:
            self.store.close()
        finally:
            self._deliveries.shutdown()

    # Operations that do not wait for the disk

    def promise(self, operation: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Call an operation of this partition without waiting for the disk.

        The operation takes effect at once. The future gets the result, or the error, when the change has reached the
        disk. It cannot be cancelled.

        >>> answer = partition.promise(partition.allocate, "app-1-0", "app-1", usage)  # doctest: +SKIP
        >>> answer.result().allowed  # doctest: +SKIP
        True
        """
        future: Future[_T] = Future()
        future.set_running_or_notify_cancel()
        with self._log.deferring() as positions:
            try:
                complete = partial(future.set_result, operation(*args, **kwargs))
            except Exception as error:  # noqa: BLE001 - it is delivered
                complete = partial(future.set_exception, error)
        change, event = positions[-1]

        def deliver(failure: StoreError | None) -> None:
            if failure is None:
                self._outbox.deliver(event)
                complete()
            else:
                future.set_exception(type(failure)(*failure.args))

        def when_durable(failure: StoreError | None) -> None:
            self._deliveries.submit(deliver, failure)

        self.store.when_durable(change, when_durable)
        return future

    async def awaited(self, operation: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call an operation of this partition, and await its result until the change has reached the disk."""
        return await asyncio.wrap_future(self.promise(operation, *args, **kwargs))


def stored_changes(changes: Sequence[object]) -> list[Change]:
    """Return the changes of an operation that a store keeps: those of rows, and those of budgets."""
    return [one for one in changes if type(one) is Change and one.table in ROW_TABLES]


@final
class ChangeClock:
    """The time of the changes of a partition: milliseconds since 1970 that never go back.

    An operation has the time of its change; see `ugm.partition.engine.transaction`.

    Args:
        at: the instant of the last change.
        clock: returns the seconds since 1970, with fractions; None if only `repeat` sets the time.
    """

    def __init__(self, at: int, clock: Clock | None) -> None:
        #: The last reading.
        self.at: int = at
        self.clock: Clock | None = clock
        #: The reading of the current change; None if there is none yet.
        self._of_change: int | None = None

    def _read(self) -> int:
        if self.clock is not None:
            self.at = max(self.at, stored_time("clock", self.clock()))
        return self.at

    def begin(self) -> None:
        """Begin a change."""
        self._of_change = None

    def second(self) -> int:
        """Return the time now in seconds, for a query."""
        return self._read() // 1000

    def second_of_change(self) -> int:
        """Return the time of the current change in seconds."""
        return self.of_change() // 1000

    def of_change(self) -> int:
        """Return the time of the current change in milliseconds."""
        if self._of_change is None:
            self._of_change = self._read()
        return self._of_change

    def repeat(self, at: int) -> None:
        """Take the time of a change that is repeated."""
        self.at = max(self.at, at)


@final
class StoreLog:
    """Writes the changes of a partition to its store; a `ugm.partition.engine.transaction.TransactionLog`.

    Args:
        store: the store.
        clock: the time of the changes.
    """

    def __init__(self, store: Store, clock: ChangeClock) -> None:
        self.store: Final = store
        self.clock: Final = clock
        #: Of each thread: a list that gets the last change and the last event of each operation, which does not wait.
        self._deferred: Final = local()

    @property
    def position(self) -> int:
        """The number of the last change."""
        return self.store.number

    def require_ready(self) -> None:
        """Check that this process has opened the store, and has not closed it.

        Raises:
            StoreError: it has not.
        """
        self.store.require_owner()

    def prepare(self) -> None:
        """Begin a change."""
        self.clock.begin()

    def write(self, changes: Sequence[object]) -> None:
        """Write the changes of an operation.

        Raises:
            RequestError: a value cannot be stored.
            StoreError: earlier changes are in doubt, and cannot be written now either.
        """
        stored = stored_changes(changes)
        if stored:
            self.store.append(stored, self.clock.of_change())

    def wait(self, change: int, event: int) -> bool:
        """Wait until a change is durable, unless this thread defers that.

        Raises:
            StoreError: it is in doubt.
        """
        if hasattr(self._deferred, "positions"):
            self._deferred.positions.append((change, event))
            return False
        self.store.wait(change)
        return True

    @contextmanager
    def deferring(self) -> Iterator[list[tuple[int, int]]]:
        """Let the operations of this thread not wait, and provide a list that gets their last changes and events."""
        self._deferred.positions = [(0, 0)]
        try:
            yield self._deferred.positions
        finally:
            del self._deferred.positions

    def release_locks(self) -> None:
        """Release every lock that this thread still holds after an exception."""
        self.store.release_locks()


def read_partition(
    location: StoreLocation,
    *,
    subscribers: Iterable[Subscriber] = (),
    group_limits: Literal["always", "unless-user-limited"] = "always",
    clock: Clock = time.time,
) -> FollowingPartition:
    """Return a partition with the state of a store, which another process may be writing.

    Models that the program of the other process has added are not known here.

    Args:
        location: as for `ugm.store.open_partition`.
        subscribers: as for `ugm.Partition`. They receive the events of the changes that `FollowingPartition.refresh`
            reads; denials are not stored.
        group_limits: as for `ugm.Partition`.
        clock: a function that returns the seconds since 1970; fractions are allowed.

    Raises:
        RequestError: an argument is invalid.
        StoreDamagedError: the store is damaged.
        StoreError: there is no store, or it cannot be read.
    """
    outbox = EventOutbox(subscribers)
    return FollowingPartition(location, outbox, clock, user_limits_win=require_group_limits(group_limits))


@final
class _ReadOnlyLog:
    """The log of a partition that is never changed: the parts of a `TransactionLog` that are used before a change."""

    position: Final = 0

    def __init__(self, location: StoreLocation) -> None:
        self._location: Final = location

    def require_ready(self) -> None:
        """Refuse a change.

        Raises:
            StoreError: always.
        """
        raise StoreError(str(self._location), "this partition follows a store and cannot be changed")

    def release_locks(self) -> None:
        """Do nothing, because there are none."""


@final
class FollowingPartition(Partition):
    """A partition that follows a store; `read_partition` creates it.

    Every change raises `StoreError`. As a context manager it closes its connection.
    """

    #: The number of the last change that is known, and its instant in milliseconds since 1970.
    number: int
    at: int
    #: None if an error has left the state incomplete, so that it has to be read again.
    _follower: RowFollower | None

    def __init__(self, location: StoreLocation, outbox: EventOutbox, clock: Clock, *, user_limits_win: bool) -> None:
        self._reader: Final = StoreReader(location)
        self._outbox: Final = outbox
        self._clock: Final = clock
        self._user_limits_win: Final = user_limits_win
        try:
            self._load(location)
        except BaseException:
            self._reader.close()
            raise

    def _load(self, location: StoreLocation) -> None:
        """Read everything."""
        lock = EngineLock()
        models, loaded = ModelSet((), lock), self._reader.load()
        state, self._change_clock = restored_parts(loaded, models, lock, user_limits_win=self._user_limits_win)
        self._assemble(state, models, self._outbox, cast("TransactionLog", _ReadOnlyLog(location)))
        self._restore_limits(loaded.at // 1000)
        self._change_clock.clock = self._clock
        self.number, self.at = loaded.number, loaded.at
        self._follower = RowFollower(state, models, self._rebuild_at_once, is_counted=True)
        lock.mark_consistent()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()

    @property
    def has_added_models(self) -> bool:
        """True if the program of the leader has models that are not known here."""
        return bool(self._state.row.added_models)

    def refresh(self) -> int:
        """Read the changes since the last call, and return the number of the last one.

        If so much has changed that old changes are deleted already, everything is read again. Subscribers then miss the
        events in between.

        Raises:
            StoreError: the store cannot be read; a later call may succeed.
        """
        while True:
            follower = self._follower
            found = None if follower is None else self._reader.changes(self.number)
            if follower is None or found is None:
                self._load(self._reader.location)
                return self.number
            if not found:
                return self.number
            # Models get the time of each change, and not the present one.
            self._change_clock.clock = None
            try:
                self._lock.run(self._apply, found, follower)
            finally:
                self._change_clock.clock = self._clock
            self._outbox.deliver(self._outbox.last_event)

    def _apply(self, transactions: Sequence[Transaction], follower: RowFollower) -> None:
        self._follower = None
        for transaction in transactions:
            self._change_clock.repeat(transaction.at)
            follower.apply(transaction.changes)
            events = events_of(transaction.changes)
            if events and self._outbox.has_subscribers:
                self._outbox.add(events, transaction.changes)
            self.number, self.at = transaction.number, transaction.at
        follower.catch_up()
        self._follower = follower

    def _rebuild_at_once(self) -> None:
        """Make everything again that follows from the rows, with the limits of the present time."""
        self._state.rebuild()
        self._restore_limits(self.at // 1000)
        self._follow_config()
