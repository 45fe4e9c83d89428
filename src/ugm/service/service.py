"""The service: a process that leads a partition, or stands by until it may lead.

A service always listens on its addresses. While it leads, it executes operations. While it stands by, it follows the
store, answers the queries of readers, and sends all other clients to the leader. It leads as soon as the store lets it:
when no process leads, or when the leader has been silent for too long.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, Final, Literal, NamedTuple, final

from ugm.arguments import require_group_limits, require_seconds
from ugm.configuration import PartitionConfig
from ugm.engine_lock import EngineLock
from ugm.errors import RequestError
from ugm.events import Subscriber
from ugm.model import QuotaModel
from ugm.partition import AbstractPartition, Partition
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.state import PartitionState
from ugm.partition.engine.transaction import EventOutbox
from ugm.service.client import BlockingConnection, RemotePartition, RemoteSessions
from ugm.service.errors import UnavailableError
from ugm.service.feeds import ChangeFeed
from ugm.service.leader import RENEWAL, Leader, LeaderLog
from ugm.service.protocol.addresses import Address, LeaderAccess, parse_addresses
from ugm.service.protocol.operations import Operation
from ugm.service.protocol.status import AbstractSessions, ServiceStatus
from ugm.service.protocol.wire import Moved
from ugm.service.server import ClientLimits, Listener, Security
from ugm.service.standby import LeaderWatch, Reports, Standby
from ugm.store.database import LeaderRecord, StoreDamagedError, StoreError, StoreHeldError
from ugm.store.partition import (
    ChangeClock,
    FollowingPartition,
    ModelCapture,
    read_partition,
    require_added_models,
    restored_parts,
)
from ugm.store.reader import Loaded, StoreLocation, StoreReader
from ugm.store.store import Store, open_store

__all__ = ["Service", "ServiceSettings", "tune_interpreter"]

_LOGGER: Final = logging.getLogger(__name__)

#: The interval at which a standby reads the store, and after which it tries again what has failed, in seconds.
_POLL: Final = 0.05
_RETRY: Final = 0.2
#: A standby tries to lead if the leader has been silent for this time, in seconds: it may have been killed. Whether it
#: may lead, the store decides. An active leader is silent for shorter times.
_ATTEMPT: Final = 4 * RENEWAL
#: The maximum time of a call of this process to the leader, in seconds.
_DEADLINE: Final = 10.0
#: The minimum of `ServiceSettings.takeover`, in seconds.
_SHORTEST_TAKEOVER: Final = 0.5
#: The hosts that stand for all addresses of a machine.
_WILDCARDS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - they are refused
#: Threads that compute must not keep the loop waiting for longer than this, in seconds.
_SWITCH_INTERVAL: Final = 0.001
#: The collections of younger objects between two collections of all objects, which stop the loop for about a second
#: with a million allocations.
_RARELY: Final = 1000
#: The time for which one operation may keep the loop until this process counts as hanging, in seconds.
_HANGS: Final = 10.0
#: The maximum time for which a leader restores its partition before another process may replace it, in seconds.
_RESTORING: Final = 600.0


def tune_interpreter() -> None:
    """Set up a process that only serves: threads are switched sooner, and cycles of objects are collected later."""
    sys.setswitchinterval(_SWITCH_INTERVAL)
    gc.set_threshold(*gc.get_threshold()[:2], _RARELY)


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The settings of a service that rarely differ from the default.

    Attributes:
        name: the name of the process, for people; empty for its host and process id.
        takeover: the seconds of silence after which a standby replaces the leader, at least 0.5. A leader that was
            killed is replaced at once.
        announce: the address under which clients and other processes reach this process; empty for the first address
            that it listens on. A service that listens on all addresses of a host (``0.0.0.0`` or ``[::]``) needs one.
        group_limits: as for `ugm.Partition`.
        limits: the bounds for clients.

    Raises:
        RequestError: `takeover` is too short, or `announce` is not an address.
    """

    name: str = ""
    takeover: float = 3.0
    announce: str = ""
    group_limits: Literal["always", "unless-user-limited"] = "always"
    limits: ClientLimits = field(default_factory=ClientLimits)

    def __post_init__(self) -> None:
        if not self.takeover >= _SHORTEST_TAKEOVER:
            raise RequestError("takeover", self.takeover, f"expected at least {_SHORTEST_TAKEOVER} seconds")
        if self.announce:
            _require_reachable("announce", Address.parse(self.announce))


def _require_reachable(argument: str, address: Address) -> None:
    """Check that an address leads other processes to this one."""
    if address.host in _WILDCARDS:
        raise RequestError(argument, str(address), "clients cannot connect to it; announce the name of this host")


@final
class _ServedPartition(Partition):
    """The partition of a leader."""

    __slots__ = ()

    def __init__(self, state: PartitionState, models: ModelSet, outbox: EventOutbox, log: LeaderLog) -> None:
        self._assemble(state, models, outbox, log)

    def start(self, config: PartitionConfig | None, second: int) -> None:
        """Begin to record changes. A configuration applies to a new partition only."""
        self._restore_limits(second)
        self._lock.mark_consistent()
        self._start_recording()
        self._record_models()
        if config is not None and self.config is None:
            self.configure(config)


@final
class _Heartbeat:
    """Shows that this process leads, and writes changes in doubt; in a thread of its own.

    Args:
        store: the store.
    """

    def __init__(self, store: Store) -> None:
        self._store: Final = store
        self._ended: Final = Event()
        self._began: Final = monotonic()
        #: The leader; None while its partition is being restored.
        self.leader: Leader | None = None
        self._thread: Final = Thread(target=self._run, name="ugm-heartbeat", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        store = self._store
        while not self._ended.wait(RENEWAL):
            leader, now = self.leader, monotonic()
            if now > (self._began + _RESTORING if leader is None else leader.seen_at + _HANGS):
                continue
            failure: StoreError | None = None
            try:
                if leader is not None and leader.log.outage is not None:
                    store.flush()
                if leader is None or now - leader.confirmed_at > RENEWAL / 2:
                    store.renew()
            except StoreError as error:
                failure = error
            if leader is not None:
                leader.note_soon(now, failure)

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()


class _Parts(NamedTuple):
    """The parts of a partition that this process is going to lead; in memory, it has no store."""

    state: PartitionState
    models: ModelSet
    clock: ChangeClock
    store: Store | None = None
    loaded: Loaded | None = None
    heartbeat: _Heartbeat | None = None

    def close(self) -> None:
        """Close the store."""
        if self.heartbeat is not None:
            self.heartbeat.close()
        if self.store is not None:
            with suppress(StoreError):
                self.store.close()


@final
class Service:
    """A process that leads a partition, or stands by until it may lead.

    Args:
        location: the store: the path of a file, or the URL of a PostgreSQL database; None for a partition in memory.
        listen: the addresses to listen on, separated by commas. Clients are sent to the first one, unless
            `ServiceSettings.announce` names another.
        config: the configuration of a new partition. A store that has a configuration keeps it.
        models: as for `ugm.Partition`. With None, the process does not lead if the partition was last used with models
            of the program, so that they are not forgotten. An empty tuple states that there are none.
        subscribers: as for `ugm.Partition`; called in the loop while this process leads. They must not wait for an
            operation of this service.
        security: the secrets of clients and the certificates; required for addresses that other machines can reach.
        settings: everything else.

    Raises:
        RequestError: an argument is invalid.
    """

    def __init__(
        self,
        location: StoreLocation | None,
        listen: str,
        *,
        config: PartitionConfig | None = None,
        models: Iterable[QuotaModel] | None = None,
        subscribers: Iterable[Subscriber] = (),
        security: Security | None = None,
        settings: ServiceSettings | None = None,
    ) -> None:
        self._location: Final = location
        self._addresses: Final = parse_addresses(listen)
        self._settings: Final = settings or ServiceSettings()
        self._user_limits_win: Final = require_group_limits(self._settings.group_limits)
        if not self._settings.announce:
            _require_reachable("listen", self._addresses[0])
        CompiledConfig.of(config)
        self._config: Final = config
        self._models: Final = None if models is None else tuple(models)
        self._subscribers: Final = tuple(subscribers)
        EventOutbox(self._subscribers)
        ModelSet(self._models or (), EngineLock())
        #: The name of the process, for people.
        self.name: Final = self._settings.name or f"{socket.gethostname()}:{os.getpid()}"
        self._security: Final = security or Security()
        self._standby: Final = Standby()
        self._reports: Final = Reports(self.name, self._leader_access)
        self._listener: Final = Listener(self._standby, self._addresses, self._security, self._settings.limits)
        #: Whether the service was stopped, perhaps before its loop runs.
        self._is_stopped = False
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        #: Why the thread of the service has ended by itself; None if it has not.
        self.failure: BaseException | None = None
        self._leader: Leader | None = None
        self._follower: FollowingPartition | None = None
        self._on_ready: Callable[[], object] | None = None
        self._is_ready = False
        #: Why this process can neither lead nor stand by now; empty if it can.
        self._fault = ""
        #: Until when a store that cannot be used is tried again before this process is ready, on the monotonic clock.
        self._give_up_at = inf
        #: The addresses with their ports; empty until the service listens.
        self.addresses: tuple[Address, ...] = ()
        #: The connection to the leader for `call`, which is opened when it is first needed.
        self._connection: BlockingConnection | None = None
        self._connecting: Final = Lock()
        #: The partition, in this process or at the leader. It can be used from any thread while the service runs.
        self.partition: Final[AbstractPartition] = RemotePartition(self)
        #: The sessions of all clients.
        self.sessions: Final[AbstractSessions] = RemoteSessions(self)

    @property
    def term(self) -> int:
        """The term while this process leads; otherwise 0."""
        leader = self._leader
        return 0 if leader is None else leader.term

    @property
    def announced(self) -> Address:
        """The address that clients and other processes use, once the service listens."""
        return Address.parse(self._settings.announce) if self._settings.announce else self.addresses[0]

    # Running

    def run(self, on_ready: Callable[[], object] | None = None) -> None:
        """Serve until `stop` is called, in a process of its own; it calls `tune_interpreter`.

        Args:
            on_ready: called when this process leads or stands by.
        """
        tune_interpreter()
        asyncio.run(self.serve(on_ready))

    def start(self, patience: float = inf) -> None:
        """Serve in a thread, and return when this process leads or stands by.

        Args:
            patience: the time for which a store that cannot be used is tried again, in seconds.

        Raises:
            RequestError: *patience* is not a number of seconds.
            OSError: an address cannot be used.
            StoreError: the store cannot be used. A damaged one is not tried again.
        """
        ready: Future[None] = Future()
        self._give_up_at = monotonic() + require_seconds("patience", patience)
        self._thread = Thread(target=self._run_in_thread, args=(ready,), name="ugm-service", daemon=True)
        try:
            self._thread.start()
            ready.result()
        except BaseException:
            self.stop()
            raise

    def _run_in_thread(self, ready: Future[None]) -> None:
        try:
            asyncio.run(self.serve(lambda: ready.set_result(None)))
        except BaseException as error:
            self.failure = error
            if ready.done():
                _LOGGER.exception("the service has ended")
            else:
                ready.set_exception(error)
        else:
            # It was stopped before it was ready.
            if not ready.done():
                ready.set_result(None)

    def stop(self) -> None:
        """End the service, from any thread. Changes that are decided become durable first.

        A service that is stopped before it serves, or while it starts, ends at once, and cannot be started again.
        """
        self.stop_soon()
        with self._connecting:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        # A thread that runs only later finds that the service was stopped.
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()

    def stop_soon(self) -> None:
        """Begin to end the service, from any thread, and return at once; see `stop`."""
        self._is_stopped = True
        loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(stopping.set)

    def call(self, operation: Operation, arguments: bytes, /) -> Any:  # noqa: ANN401 - the result of the operation
        """Execute an operation with encoded arguments; for `partition` and `sessions`.

        Queries are executed in this process while it leads, and everything else by the leader.
        """
        leader = self._leader
        if leader is not None and not operation.is_change and not operation.is_about_sessions:
            return operation.run(leader.partition, operation.decode_arguments(arguments))
        with self._connecting:
            if self._connection is None:
                self._connection = self.connect()
            connection = self._connection
        return connection.call(operation, arguments)

    def connect(self) -> BlockingConnection:
        """Connect to the leader, starting from this process, which knows its address."""
        if not self.addresses:
            raise UnavailableError(tuple(map(str, self._addresses)), "the service does not run")
        return BlockingConnection(self.access())

    def access(self, client: str = "", deadline: float = _DEADLINE) -> LeaderAccess:
        """Return the way to the leader for a client in this process, starting from this process."""
        security = self._security
        return LeaderAccess(str(self.announced), client or self.name, security.token, security.client_tls, deadline)

    def _leader_access(self) -> LeaderAccess | None:
        leader = self._standby.leader
        return replace(self.access(), addresses=leader, read_only=True) if leader else None

    async def serve(self, on_ready: Callable[[], object] | None = None) -> None:
        """Serve until `stop` is called, in the loop of the caller."""
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        if self._is_stopped:
            return
        self.addresses = await self._listener.open()
        self._on_ready = on_ready
        try:
            await self._serve(self._stopping)
        finally:
            # First no more are accepted, so that none is left open.
            await self._listener.close()
            self._listener.close_connections(Moved(self._standby.leader))

    def _note_ready(self) -> None:
        """Note that this process leads or stands by, and tell the program once."""
        self._is_ready, self._fault = True, ""
        on_ready, self._on_ready = self._on_ready, None
        if on_ready is not None:
            on_ready()

    async def _serve(self, stopping: asyncio.Event) -> None:
        if self._location is None:
            await self._lead(self._in_memory(), stopping)
            return
        while not stopping.is_set():
            reports = asyncio.create_task(self._reports.run(str(self.announced), self._standby))
            try:
                parts = await self._stand_by(self._location, stopping)
            finally:
                reports.cancel()
                await asyncio.wait((reports,))
            if parts is not None:
                try:
                    await self._lead(parts, stopping)
                finally:
                    await asyncio.to_thread(parts.close)

    def _in_memory(self) -> _Parts:
        lock = EngineLock()
        models, clock = ModelSet(self._models or (), lock), ChangeClock(0, time.time)
        state = PartitionState(CompiledConfig.of(None), user_limits_win=self._user_limits_win, lock=lock)
        models.restore((), None, list, {})
        models.clock.follow(clock)
        return _Parts(state, models, clock)

    # Standing by

    async def _stand_by(self, location: StoreLocation, stopping: asyncio.Event) -> _Parts | None:
        """Follow the store until this process leads it; None if the service stops before."""
        watch = LeaderWatch(self._settings.takeover)
        try:
            while not stopping.is_set():
                pause = _POLL
                attempt = asyncio.create_task(asyncio.to_thread(self._try_to_lead, location, watch))
                try:
                    parts = await asyncio.shield(attempt)
                    if parts is not None:
                        return parts
                    self._note_ready()
                except asyncio.CancelledError:
                    if (found := await attempt) is not None:
                        await asyncio.to_thread(found.close)
                    raise
                except Exception as error:
                    pause = _RETRY
                    if self._ends_with(error):
                        raise
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopping.wait(), pause)
            return None
        finally:
            follower, self._follower, self._standby.view = self._follower, None, None
            if follower is not None:
                await asyncio.to_thread(follower.close)

    def _ends_with(self, error: Exception) -> bool:
        """Log, once, that a process cannot stand by or lead now, and return whether this ends the service.

        A fault of one process or of one moment must not end the processes that stand by. A process that is not ready
        yet ends if the fault does not pass, or if its time is up.
        """
        text = f"the store cannot be used: {error}"
        if self._fault != text:
            _LOGGER.warning("%s", text, exc_info=None if isinstance(error, StoreError) else error)
        self._fault = text
        may_pass = isinstance(error, (StoreError, OSError)) and not isinstance(error, StoreDamagedError)
        return not self._is_ready and (not may_pass or monotonic() > self._give_up_at)

    def _try_to_lead(self, location: StoreLocation, watch: LeaderWatch) -> _Parts | None:
        """Read the newest changes, and lead if no process does or if the leader is silent; None otherwise.

        Raises:
            StoreError: the store cannot be used now.
            RequestError: models of the program are missing.
        """
        leader: LeaderRecord | None = None
        if not isinstance(location, (str, os.PathLike)) or "://" in str(location) or os.path.exists(location):  # noqa: PTH110 - any path
            with StoreReader(location) as reader:
                leader = reader.find_leader()
        self._standby.leader = "" if leader is None else leader.address
        is_silent = watch.is_silent(leader)
        if leader is None or is_silent or leader.silent_for >= _ATTEMPT:
            with suppress(StoreHeldError):
                return self._opened(location, leader if is_silent else None)
        self._follow(location)
        return None

    def _opened(self, location: StoreLocation, replaced: LeaderRecord | None) -> _Parts:
        """Become the leader of the store, and restore its partition.

        Raises:
            StoreHeldError: another process leads.
        """
        lock = EngineLock()
        models = ModelSet(self._models or (), lock)
        capture = ModelCapture(lock, models)
        address = str(self.announced)
        store = open_store(location, holder=self.name, address=address, replacing=replaced, capture=capture)
        heartbeat = _Heartbeat(store)
        try:
            if replaced is not None:
                _LOGGER.warning("%s has replaced the leader %s, which was silent", self.name, replaced.holder)
            loaded = store.load()
            state, clock = restored_parts(loaded, models, lock, user_limits_win=self._user_limits_win)
            require_added_models(state.row.added_models, are_given=self._models is not None)
            clock.clock = time.time
            capture.store = store
        except BaseException:
            heartbeat.close()
            with suppress(StoreError):
                store.close()
            raise
        return _Parts(state, models, clock, store, loaded, heartbeat)

    def _follow(self, location: StoreLocation) -> None:
        """Read the newest changes for readers."""
        standby, began = self._standby, monotonic()
        if self._follower is None:
            self._follower = read_partition(location, group_limits=self._settings.group_limits)
        follower = self._follower
        standby.number, standby.complete_at = follower.refresh(), began
        # Models of the program are not followed, so only the leader can answer.
        standby.view = None if self._models or follower.has_added_models else follower

    def status(self) -> ServiceStatus:
        """Return the status of the service, from any thread.

        A process that stands by returns the status that the leader has stated last.
        """
        leader = self._leader
        return self._reports.status if leader is None else leader.status()

    # Leading

    async def _lead(self, parts: _Parts, stopping: asyncio.Event) -> None:
        """Execute the operations of clients until the service stops, or this process ceases to lead."""
        resigned, log, outbox = asyncio.Event(), LeaderLog(parts.store, parts.clock), EventOutbox(self._subscribers)
        partition = _ServedPartition(parts.state, parts.models, outbox, log)
        partition.start(self._config, parts.clock.at // 1000)
        feed = ChangeFeed(self._location, log.number)
        identity = ServiceStatus(self.name, is_leading=True, leader=self.name, address=str(self.announced))
        maximum = self._settings.limits.sessions
        leader = Leader(partition, log, parts.loaded, outbox, feed, identity, maximum, resigned.set)
        self._listener.clients = self._leader = leader
        if parts.heartbeat is not None:
            parts.heartbeat.leader = leader
        waits = [asyncio.create_task(event.wait()) for event in (stopping, resigned)]
        try:
            self._note_ready()
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            self._standby.leader = ""
            self._listener.clients, self._leader = self._standby, None
            await leader.close()
            self._listener.close_connections(Moved(""))
