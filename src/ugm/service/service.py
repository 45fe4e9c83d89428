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
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, Final, Literal, NamedTuple, TypeAlias, final

from ugm.arguments import require_group_limits, require_seconds
from ugm.configuration import PartitionConfig
from ugm.engine_lock import EngineLock
from ugm.errors import RequestError
from ugm.events import Subscriber
from ugm.model import QuotaModel
from ugm.partition import AbstractPartition
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.state import PartitionState
from ugm.partition.engine.transaction import EventOutbox
from ugm.service.errors import ProtocolError, UnavailableError
from ugm.service.feeds import ChangeFeed
from ugm.service.leader import RENEWAL, Leader, LeaderLog
from ugm.service.protocol import wire
from ugm.service.protocol.addresses import Address, LeaderAccess, parse_addresses
from ugm.service.protocol.operations import Operation, answer_line
from ugm.service.protocol.status import ServiceStatus
from ugm.service.remote import BlockingConnection, LoopThread, RemotePartition, RemoteSessions
from ugm.service.server import ClientLimits, Connection, Listener, Security
from ugm.store.database import LeaderRecord, StoreDamagedError, StoreError, StoreHeldError
from ugm.store.partition import (
    ChangeClock,
    FollowingPartition,
    ModelCapture,
    RestoredPartition,
    read_partition,
    require_added_models,
    restored_parts,
)
from ugm.store.reader import Loaded, StoreLocation, StoreReader
from ugm.store.store import Store, open_store

_LOGGER: Final = logging.getLogger(__name__)

GroupLimits: TypeAlias = Literal["always", "unless-user-limited"]

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
#: Threads that compute, such as a fold, must not keep the loop waiting for longer than this, in seconds. The loop waits
#: after each of its system calls, of which it makes one for each answer.
_SWITCH_INTERVAL: Final = 0.0001
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
    group_limits: GroupLimits = "always"
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
class _Standby:
    """Follows the store of a leader, answers readers and sends others to it; a `ugm.service.server.Clients`.

    Args:
        takeover: the time after which a leader is silent, in seconds.
    """

    def __init__(self, takeover: float) -> None:
        self._takeover: Final = takeover
        #: The record of the leader; None if it is unknown or has been silent for too long.
        self.leader: LeaderRecord | None = None
        #: Why this process can neither lead nor stand by now; empty if it can.
        self.outage = ""
        #: What was read last of the record, since when it has been the same, and when it was read.
        self._record: object = None
        self._since = self._looked_at = monotonic()
        self._follower: FollowingPartition | None = None
        #: The followed partition; None if it cannot answer queries.
        self._view: AbstractPartition | None = None
        #: The last change that it has, and when it had all durable changes, on the monotonic clock.
        self._number = 0
        self._complete_at = self._since

    @property
    def referral(self) -> wire.Moved | wire.Refused:
        """The message that sends a client to the leader, or says why this process does not know a leader."""
        if self.leader is None and self.outage:
            return wire.Refused(wire.STORE_UNAVAILABLE, self.outage)
        return wire.Moved("" if self.leader is None else self.leader.address)

    def is_silent(self, leader: LeaderRecord | None) -> bool:
        """Return whether a leader has been silent for too long; called several times per second.

        It is silent if its record has not changed for some time on the clock of this process. A pause of this process
        itself does not count.
        """
        now, record = monotonic(), leader and (leader.term, leader.number, leader.renewed_at)
        if record != self._record or now - self._looked_at > self._takeover / 2:
            self._record, self._since = record, now
        self._looked_at = now
        is_silent = leader is not None and now - self._since > self._takeover
        self.leader = None if is_silent else leader
        return is_silent

    def follow(self, location: StoreLocation, group_limits: GroupLimits, *, has_models: bool) -> None:
        """Read the newest changes."""
        began = monotonic()
        if self._follower is None:
            self._follower = read_partition(location, group_limits=group_limits)
        self._number, self._complete_at = self._follower.refresh(), began
        # Models of the program are not followed, so only the leader can answer.
        self._view = None if has_models or self._follower.has_added_models else self._follower

    def close(self) -> None:
        """Follow the store no more."""
        follower, self._follower, self._view = self._follower, None, None
        if follower is not None:
            with suppress(StoreError):
                follower.close()

    def status(self, name: str) -> ServiceStatus:
        """Return the status of this process, which knows the record of the leader only."""
        leader, age = self.leader, monotonic() - self._complete_at
        status = ServiceStatus(name, change=self._number, age=age, outage=self.outage)
        if leader is None:
            return status
        return replace(status, leader=leader.holder, address=leader.address, term=leader.term)

    def welcome(self, connection: Connection, hello: wire.Hello) -> None:
        """Accept a reader, and name the leader to others."""
        if hello.is_reader and self._view is not None:
            connection.send(wire.line(wire.Welcome(connection.version, "")))
        else:
            connection.close(self.referral)

    def handle(self, connection: Connection, messages: list[wire.ClientMessage]) -> None:
        """Answer queries."""
        # It may be another one for each message, because a thread follows the store.
        view, calls = self._view, [message for message in messages if isinstance(message, wire.Call)]
        # Only the leader knows the newest changes.
        if view is None or len(calls) < len(messages):
            connection.close(self.referral)
            return
        connection.send(wire.line(wire.Age(wire.Staleness(monotonic() - self._complete_at, self._number))))
        for call in calls:
            connection.send(answer_line(call, connection.role, partial(self._target, view)))

    @staticmethod
    def _target(view: AbstractPartition, operation: Operation) -> AbstractPartition:
        """Return the partition for a query.

        Raises:
            ProtocolError: only the leader can execute the operation.
        """
        if operation.is_change or operation.is_about_sessions:
            raise ProtocolError("unknown-operation", f"a process that stands by does not execute {operation.name}")
        return view

    def disconnected(self, connection: Connection) -> None:
        """Do nothing: no client has a session here."""


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
        self._standby: Final = _Standby(self._settings.takeover)
        self._listener: Final = Listener(self._standby, self._addresses, self._security, self._settings.limits)
        self._thread: Final = LoopThread("ugm-service", self._serve)
        self._leader: Leader | None = None
        self._on_ready: Callable[[], object] | None = None
        self._is_ready = False
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
        self.sessions: Final = RemoteSessions(self)

    @property
    def term(self) -> int:
        """The term while this process leads; otherwise 0."""
        leader = self._leader
        return 0 if leader is None else leader.term

    @property
    def announced(self) -> Address:
        """The address that clients and other processes use, once the service listens."""
        return Address.parse(self._settings.announce) if self._settings.announce else self.addresses[0]

    @property
    def failure(self) -> BaseException | None:
        """Why the thread of the service has ended by itself; None if it has not."""
        ended = self._thread.ended
        return ended.exception() if ended.done() else None

    def status(self) -> ServiceStatus:
        """Return the status of this process, from any thread."""
        leader = self._leader
        return self._standby.status(self.name) if leader is None else leader.status()

    # Running

    def run(self, on_ready: Callable[[], object] | None = None) -> None:
        """Serve until `stop` is called, in a process of its own; it calls `tune_interpreter`.

        Args:
            on_ready: called when this process leads or stands by.
        """
        tune_interpreter()
        asyncio.run(self.serve(on_ready))

    async def serve(self, on_ready: Callable[[], object] | None = None) -> None:
        """Serve until `stop` is called, in the loop of the caller."""
        await self._thread.run(on_ready or (lambda: None))

    def start(self, patience: float = inf) -> None:
        """Serve in a thread, and return when this process leads or stands by.

        Args:
            patience: the time for which a store that cannot be used is tried again, in seconds.

        Raises:
            RequestError: *patience* is not a number of seconds.
            OSError: an address cannot be used.
            StoreError: the store cannot be used. A damaged one is not tried again.
        """
        self._give_up_at = monotonic() + require_seconds("patience", patience)
        self._thread.start()

    def stop(self) -> None:
        """End the service, from any thread. Changes that are decided become durable first.

        A service that is stopped before it serves, or while it starts, ends at once, and cannot be started again.
        """
        self.stop_soon()
        with self._connecting:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._thread.stop()

    def stop_soon(self) -> None:
        """Begin to end the service, from any thread, and return at once; see `stop`."""
        self._thread.stop(wait=False)

    def call(self, operation: Operation, arguments: bytes, /) -> Any:  # noqa: ANN401 - the result of the operation
        """Execute an operation with encoded arguments; for `partition` and `sessions`.

        Queries are executed in this process while it leads, and everything else by the leader.
        """
        leader = self._leader
        if leader is not None and not operation.is_change and not operation.is_about_sessions:
            return operation.run(leader.partition, operation.decode_arguments(arguments))
        with self._connecting:
            if self._connection is None:
                self._connection = BlockingConnection(self.access())
            connection = self._connection
        return connection.call(operation, arguments)

    def access(self, client: str = "", deadline: float = _DEADLINE) -> LeaderAccess:
        """Return the way to the leader for a client in this process, starting from this process."""
        if not self.addresses:
            raise UnavailableError(tuple(map(str, self._addresses)), "the service does not run")
        security = self._security
        return LeaderAccess(str(self.announced), client or self.name, security.token, security.client_tls, deadline)

    async def _serve(self, on_ready: Callable[[], object]) -> None:
        self.addresses = await self._listener.open()
        self._on_ready = on_ready
        try:
            if self._location is None:
                await self._lead(self._in_memory())
            while self._location is not None:
                parts = await self._stand_by(self._location)
                try:
                    await self._lead(parts)
                finally:
                    await asyncio.to_thread(parts.close)
        finally:
            # First no more are accepted, so that none is left open.
            await self._listener.close()
            self._listener.close_connections(self._standby.referral)
            self._standby.close()

    def _note_ready(self) -> None:
        """Note that this process leads or stands by, and tell the program once."""
        self._is_ready, self._standby.outage = True, ""
        on_ready, self._on_ready = self._on_ready, None
        if on_ready is not None:
            on_ready()

    # Standing by

    async def _stand_by(self, location: StoreLocation) -> _Parts:
        """Follow the store until this process leads it."""
        while True:
            attempt = asyncio.create_task(asyncio.to_thread(self._try_to_lead, location))
            try:
                await asyncio.wait((attempt,))
            except asyncio.CancelledError:
                # The thread goes on, and may have opened the store at its end.
                await asyncio.wait((attempt,))
                if attempt.exception() is None and (found := attempt.result()) is not None:
                    await asyncio.to_thread(found.close)
                raise
            error = attempt.exception()
            if error is not None and self._ends_with(error):
                raise error
            if error is None:
                if (parts := attempt.result()) is not None:
                    return parts
                self._note_ready()
            await asyncio.sleep(_RETRY if error else _POLL)

    def _ends_with(self, error: BaseException) -> bool:
        """Log, once, that a process cannot stand by or lead now, and return whether this ends the service.

        A fault of one process or of one moment must not end the processes that stand by. A process that is not ready
        yet ends if the fault does not pass, or if its time is up.
        """
        text = str(error) or repr(error)
        if self._standby.outage != text:
            _LOGGER.warning(
                "the store cannot be used: %s", text, exc_info=None if isinstance(error, StoreError) else error
            )
        self._standby.outage = text
        may_pass = isinstance(error, (StoreError, OSError)) and not isinstance(error, StoreDamagedError)
        return not self._is_ready and (not may_pass or monotonic() > self._give_up_at)

    def _try_to_lead(self, location: StoreLocation) -> _Parts | None:
        """Read the newest changes, and lead if no process does or if the leader is silent; None otherwise.

        Raises:
            StoreError: the store cannot be used now.
            RequestError: models of the program are missing.
        """
        standby, leader = self._standby, None
        if not isinstance(location, (str, os.PathLike)) or "://" in str(location) or os.path.exists(location):  # noqa: PTH110 - any path
            try:
                with StoreReader(location) as reader:
                    leader = reader.find_leader()
            except StoreError:
                # The leader that was known may lead no more.
                standby.leader = None
                raise
        is_silent = standby.is_silent(leader)
        if leader is None or is_silent or leader.silent_for >= _ATTEMPT:
            with suppress(StoreHeldError):
                parts = self._opened(location, leader if is_silent else None)
                standby.close()
                return parts
        standby.follow(location, self._settings.group_limits, has_models=bool(self._models))
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

    # Leading

    def _in_memory(self) -> _Parts:
        lock = EngineLock()
        models, clock = ModelSet(self._models or (), lock), ChangeClock(0, time.time)
        state = PartitionState(CompiledConfig.of(None), user_limits_win=self._user_limits_win, lock=lock)
        models.restore((), None, list, {})
        models.clock.follow(clock)
        return _Parts(state, models, clock)

    async def _lead(self, parts: _Parts) -> None:
        """Execute the operations of clients until this process ceases to lead."""
        log, outbox = LeaderLog(parts.store, parts.clock), EventOutbox(self._subscribers)
        partition = RestoredPartition(parts.state, parts.models, outbox, log, parts.clock)
        # A configuration applies to a new partition only.
        if self._config is not None and partition.config is None:
            partition.configure(self._config)
        feed = ChangeFeed(self._location, log.number)
        identity = ServiceStatus(self.name, is_leading=True, leader=self.name, address=str(self.announced))
        leader = Leader(partition, log, parts.loaded, outbox, feed, identity, self._settings.limits.sessions)
        self._listener.clients = self._leader = leader
        if parts.heartbeat is not None:
            parts.heartbeat.leader = leader
        try:
            self._note_ready()
            await leader.resigned.wait()
        finally:
            self._standby.leader = None
            self._listener.clients, self._leader = self._standby, None
            await leader.close()
            self._listener.close_connections(self._standby.referral)
