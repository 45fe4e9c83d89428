"""The service: a process that leads a partition, or stands by until it may lead.

A service always listens on its addresses. While it leads, it executes operations. While it stands by, it follows the
log, answers the queries of read-only connections, and sends all other clients to the leader. It leads as soon as the
log lets it: when no process leads, or when the leader has been silent for too long.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import ssl
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from threading import Event, Thread
from time import monotonic
from typing import Final, Literal, final

from ugm._daemon_pool import DaemonPool
from ugm.arguments import require_seconds
from ugm.configuration import PartitionConfig
from ugm.errors import RequestError
from ugm.events import Subscriber
from ugm.journal.errors import JournalDamagedError, JournalError, JournalHeldError
from ugm.journal.follower import Follower
from ugm.journal.locations import LogLocation, log_at
from ugm.journal.log import Candidate, Log, LogTail
from ugm.journal.opening import OpenLog, require_added_models
from ugm.model import QuotaModel
from ugm.partition import AbstractPartition
from ugm.partition.model_set import ModelSet
from ugm.service.active_wait import require_duration, run_with_active_wait
from ugm.service.addresses import Address, parse_addresses
from ugm.service.call_routing import ServiceCaller
from ugm.service.change_feed import READ_SIZE
from ugm.service.committer import LEASE
from ugm.service.compactor import compact_regularly
from ugm.service.connection import ClientConnection
from ugm.service.engine import Engine, EngineSettings, build_engine, restore_models
from ugm.service.heartbeat import Heartbeat
from ugm.service.leader import Leader
from ugm.service.leader_watch import LeaderWatch
from ugm.service.listener import Listener
from ugm.service.readers import Readers, ReadView
from ugm.service.remote_partition import RemotePartition, RemoteSessions
from ugm.service.server_connection import ClientLimits, ServerConnection
from ugm.service.session import Session
from ugm.service.session_interface import AbstractSessions
from ugm.service.standby_reports import StandbyReporter
from ugm.service.status import ServiceStatus
from ugm.service.wire import Execute, Follow, Hello, LeaderMessage, Moved, StandbyReport

__all__ = ["Security", "Service", "ServiceSettings", "tune_interpreter"]

_LOGGER: Final = logging.getLogger(__name__)

#: The interval at which a standby reads the log, in seconds.
_POLL: Final = 0.02
#: The time after which a standby tries again to follow a log that it could not follow, in seconds.
_RETRY: Final = 0.1
#: A standby waits this many times as long as its last attempt took before it loads a damaged log again, and at most
#: this many seconds.
_REST: Final = 9
_LONGEST_REST: Final = 60.0
#: The maximum time for which a leader restores its models before another process may replace it, in seconds.
_RESTORING: Final = 600.0
#: The minimum of `ServiceSettings.takeover`, in seconds.
_SHORTEST_TAKEOVER: Final = 2 * LEASE
#: The hosts that stand for all addresses of a machine.
_WILDCARDS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - they are refused
#: Threads that compute must not keep the loop waiting for longer than this, in seconds.
_SWITCH_INTERVAL: Final = 0.001
#: The collections of younger objects between two collections of all objects. With a million allocations, a collection
#: of all objects stops the loop for about a second, and a query over the whole partition creates enough objects for
#: several of them. With this threshold, there is one for every seven million new objects.
_RARELY: Final = 1000


def tune_interpreter() -> None:
    """Set up a process that only serves: threads are switched sooner, and cycles of objects are collected later."""
    sys.setswitchinterval(_SWITCH_INTERVAL)
    gc.set_threshold(*gc.get_threshold()[:2], _RARELY)


@final
class _Standby:
    """Sends all clients with a session to the leader; a `ugm.service.server_connection.Clients`."""

    def __init__(self) -> None:
        #: The address of the leader; empty if it is unknown.
        self.leader = ""
        #: The followed state, for read-only connections; None before the log was read.
        self.view: ReadView | None = None

    def welcome(self, connection: ServerConnection, hello: Hello) -> tuple[Session | None, LeaderMessage | None]:  # noqa: ARG002
        """Name the leader."""
        return None, Moved(self.leader)

    def execute(self, session: Session, message: Execute) -> None:
        """Do nothing: no client has a session here."""

    def follow(self, connection: ServerConnection, message: Follow) -> None:
        """Do nothing, as above."""

    def follow_on(self, connection: ServerConnection) -> None:
        """Do nothing, as above."""

    def leave(self, session: Session) -> None:
        """Do nothing, as above."""

    def disconnected(self, connection: ServerConnection) -> None:
        """Do nothing, as above."""


@dataclass(frozen=True, slots=True)
class Security:
    """The secret and the certificates of a service.

    Attributes:
        token: the secret that clients need; empty for none.
        tls: the certificate for ``tls`` addresses.
        client_tls: the certificates that this process trusts when it connects to the leader; None for those of the
            system.
    """

    token: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None
    client_tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The settings of a service that rarely differ from the default.

    Attributes:
        name: the name of the process, for people; empty for its host and process id.
        takeover: the seconds of silence after which a standby replaces the leader, at least 0.5.
        announce: the address under which clients and other processes reach this process; empty for the first address
            that it listens on. A service that listens on all addresses of a host (``0.0.0.0`` or ``[::]``) needs one.
        group_limits: as for `ugm.Partition`.
        limits: the bounds for clients.
        compact_after: the number of changes after which the leader compacts the log in the background; 0 for never.
        active_wait: how long the loop polls for the next message before it sleeps, in seconds, while messages arrive
            that quickly (`ugm.service.active_wait`); at most 0.01, and 0 for never. Only a service in memory waits
            actively, in a loop of its own.

    Raises:
        RequestError: `takeover` is too short, `announce` is not an address, or `active_wait` is not a number in its
            range.
    """

    name: str = ""
    takeover: float = 0.6
    announce: str = ""
    group_limits: Literal["always", "unless-user-limited"] = "always"
    limits: ClientLimits = field(default_factory=ClientLimits)
    compact_after: int = 1_000_000
    active_wait: float = 0.0005

    def __post_init__(self) -> None:
        # Until its lease is over, a leader answers queries without asking whether another process leads.
        if not self.takeover >= _SHORTEST_TAKEOVER:
            raise RequestError("takeover", self.takeover, f"expected at least {_SHORTEST_TAKEOVER} seconds")
        if self.announce:
            _require_reachable("announce", Address.parse(self.announce))
        require_duration(self.active_wait)


def _require_reachable(argument: str, address: Address) -> None:
    """Check that an address leads other processes to this one."""
    if address.host in _WILDCARDS:
        raise RequestError(argument, str(address), "clients cannot connect to it; announce the name of this host")


@final
class Service:
    """A process that leads a partition, or stands by until it may lead.

    Args:
        location: the log: the path of a journal, or the URL of a PostgreSQL database; None for a partition in memory.
        listen: the addresses to listen on, separated by commas. Clients are sent to the first one, unless
            `ServiceSettings.announce` names another.
        config: the configuration of a new partition. A log that has a configuration keeps it.
        models: as for `ugm.Partition`. With None, the process does not lead if the partition was last used with models
            of the program, so that they are not forgotten. An empty tuple states that there are none.
        subscribers: as for `ugm.Partition`; called while this process leads.
        security: the secret of clients and the certificates; required for addresses that other machines can reach.
        settings: everything else.

    Raises:
        RequestError: an argument is invalid.
    """

    def __init__(
        self,
        location: LogLocation | None,
        listen: str,
        *,
        config: PartitionConfig | None = None,
        models: Iterable[QuotaModel] | None = None,
        subscribers: Iterable[Subscriber] = (),
        security: Security | None = None,
        settings: ServiceSettings | None = None,
    ) -> None:
        self._log: Final[Log | None] = None if location is None else log_at(location)
        self._addresses: Final = parse_addresses(listen)
        self._settings: Final = settings or ServiceSettings()
        if not self._settings.announce:
            _require_reachable("listen", self._addresses[0])
        self._engine: Final = EngineSettings(
            config, None if models is None else tuple(models), tuple(subscribers), self._settings.group_limits
        )
        #: The name of the process, for people.
        self.name: Final = self._settings.name or f"{socket.gethostname()}:{os.getpid()}"
        self._security: Final = security or Security()
        self._standby: Final = _Standby()
        self._readers: Final = Readers(self._view, self._when_durable, self.status)
        self._reporter: Final = StandbyReporter(self.name, self._security.token, self._security.client_tls)
        self._listener: Final = Listener(
            self._standby,
            self._readers,
            self._addresses,
            token=self._security.token,
            tls=self._security.tls,
            limits=self._settings.limits,
        )
        #: Whether the service was stopped, perhaps before its loop runs.
        self._is_stopped = False
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        #: Why the thread of the service has ended by itself; None if it has not.
        self.failure: BaseException | None = None
        self._leader: Leader | None = None
        self._began_at: Final = monotonic()
        self._on_ready: Callable[[], object] | None = None
        self._is_ready = False
        #: Why this process can neither lead nor stand by now; empty if it can.
        self._fault = ""
        #: Until when a log that cannot be used is tried again before this process is ready, on the monotonic clock.
        self._give_up_at = inf
        #: The addresses with their ports; empty until the service listens.
        self.addresses: tuple[Address, ...] = ()
        #: The engine while this process leads; otherwise None.
        self.engine: AbstractPartition | None = None
        self._caller: Final = ServiceCaller(lambda: self.engine, self._connect)
        #: The partition, in this process or at the leader. It can be used from any thread while the service runs.
        self.partition: Final[AbstractPartition] = RemotePartition(self._caller)
        #: The sessions of all clients.
        self.sessions: Final[AbstractSessions] = RemoteSessions(self._caller)
        #: The term while this process leads; otherwise 0.
        self.term: int = 0

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
        self._run(on_ready)

    def start(self, patience: float = inf) -> None:
        """Serve in a thread, and return when this process leads or stands by.

        Args:
            patience: the time for which a log that cannot be used is tried again, in seconds.

        Raises:
            RequestError: *patience* is not a number of seconds.
            OSError: an address cannot be used.
            JournalError: the log cannot be used. A damaged one is not tried again.
        """
        ready, self._give_up_at = Event(), monotonic() + require_seconds("patience", patience)
        self._thread = Thread(target=self._run_in_thread, args=(ready,), name="ugm service", daemon=True)
        try:
            self._thread.start()
            ready.wait()
        except BaseException:
            self.stop()
            raise
        if self.failure is not None:
            raise self.failure

    def _run_in_thread(self, ready: Event) -> None:
        try:
            self._run(ready.set)
        except BaseException as error:
            self.failure = error
            if ready.is_set():
                _LOGGER.exception("the service has ended")
        finally:
            ready.set()

    def _run(self, on_ready: Callable[[], object] | None) -> None:
        # With a log, the loop mostly waits for a commit, and would keep the thread that writes from the interpreter.
        run_with_active_wait(self._serve_alone(on_ready), self._settings.active_wait if self._log is None else 0)

    async def _serve_alone(self, on_ready: Callable[[], object] | None) -> None:
        """Serve in a loop of its own, which works as long as any thread of the program does."""
        asyncio.get_running_loop().set_default_executor(DaemonPool("ugm service"))
        await self.serve(on_ready)

    def stop(self) -> None:
        """End the service, from any thread. Changes that are decided become durable first.

        A service that is stopped before it serves, or while it starts, ends at once, and cannot be started again.
        """
        self.stop_soon()
        self._caller.close()
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

    def _connect(self) -> ClientConnection:
        """Connect to the leader, starting from this process, which knows its address."""
        own = ",".join(map(str, (self.announced, *self.addresses[1:])))
        return ClientConnection(own, client=self.name, token=self._security.token, tls=self._security.client_tls)

    async def serve(self, on_ready: Callable[[], object] | None = None) -> None:
        """Serve until `stop` is called, in the loop of the caller."""
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        if self._is_stopped:
            return
        self.addresses = await self._listener.open()
        try:
            self._on_ready = on_ready
            await self._serve(self._stopping)
        finally:
            self._listener.close_connections(Moved(self._standby.leader))
            await self._listener.close()
            self._readers.close()

    def _note_ready(self) -> None:
        """Note that this process leads or stands by, and tell the program once."""
        self._is_ready, self._fault = True, ""
        on_ready, self._on_ready = self._on_ready, None
        if on_ready is not None:
            on_ready()

    async def _serve(self, stopping: asyncio.Event) -> None:
        if self._log is None:
            await self._lead(build_engine(self._engine, None, None, stopping.set), stopping, stopping)
            return
        while not stopping.is_set():
            reports = asyncio.create_task(self._reporter.run(lambda: self._standby.leader, self._report))
            try:
                opened = await self._stand_by(self._log, stopping)
            finally:
                reports.cancel()
            if opened is not None:
                await self._lead_log(self._log, opened, stopping)
                # If every leadership ends with an error, the clients get some time to reach other processes.
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopping.wait(), _RETRY)

    def _note_fault(self, what: str, error: Exception, *, may_pass: bool) -> bool:
        """Log, once, that a process cannot stand by or lead now, and return whether this ends the service.

        A fault of one process or of one moment must not end the processes that stand by. A process that is not ready
        yet ends if the fault does not pass, or if its time is up.
        """
        text = f"{what}: {error}"
        if self._fault != text:
            _LOGGER.warning("%s", text, exc_info=None if isinstance(error, JournalError) else error)
        self._fault = text
        return not self._is_ready and (not may_pass or monotonic() > self._give_up_at)

    # Standing by

    async def _stand_by(self, log: Log, stopping: asyncio.Event) -> OpenLog | None:
        """Follow the log until this process leads it; None if the service stops before."""
        candidate = Candidate(self.name, str(self.announced))
        follower: Follower | None = None
        watch = LeaderWatch(self._settings.takeover)
        while not stopping.is_set():
            began, pause = monotonic(), _POLL
            try:
                if follower is None:
                    follower = await asyncio.to_thread(Follower, log, user_limits_win=self._engine.user_limits_win)
                return await self._attempt(follower, candidate, watch)
            except JournalHeldError:
                self._note_ready()
            except Exception as error:
                pause, is_damaged = _RETRY, isinstance(error, JournalDamagedError)
                if is_damaged:
                    # Loading the log may take long and fails again. It must not use a whole processor.
                    pause = min(max(_RETRY, _REST * (monotonic() - began)), _LONGEST_REST)
                if is_damaged or not isinstance(error, JournalError):
                    await self._close(follower)
                    follower = None
                may_pass = not is_damaged and not isinstance(error, RequestError)
                if self._note_fault("the log cannot be followed", error, may_pass=may_pass):
                    await self._close(follower)
                    raise
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), pause)
        await self._close(follower)
        return None

    async def _attempt(self, follower: Follower, candidate: Candidate, watch: LeaderWatch) -> OpenLog:
        """Try to lead, in another thread; a process that is cancelled meanwhile does not lead."""
        attempt = asyncio.create_task(asyncio.to_thread(self._try_to_lead, follower, candidate, watch))
        try:
            return await asyncio.shield(attempt)
        except asyncio.CancelledError:
            with suppress(JournalError, OSError):
                opened = await attempt
                await asyncio.to_thread(opened.journal.close)
            raise

    @staticmethod
    async def _close(follower: Follower | None) -> None:
        if follower is not None:
            await asyncio.to_thread(follower.close)

    def _try_to_lead(self, follower: Follower, candidate: Candidate, watch: LeaderWatch) -> OpenLog:
        """Read the newest changes, and lead if no process does or if the leader is silent.

        Raises:
            JournalHeldError: another process leads.
            JournalError: the log cannot be used now.
        """
        while follower.poll():
            pass
        state = follower.state
        lacks_models = bool(self._engine.models or state.added_models or state.compiled.models)
        self._standby.view = ReadView.of_follower(follower, self._standby.view, lacks_models=lacks_models)
        require_added_models(state.added_models, are_given=self._engine.models is not None)
        leader = follower.find_leader()
        self._standby.leader = leader.address if leader is not None else ""
        replaced = leader if watch.is_silent(leader) else None
        opened = follower.lead(candidate, replacing=replaced)
        if replaced is not None:
            _LOGGER.warning("%s has replaced the leader %s, which was silent", candidate.name, replaced.name)
        return opened

    def _report(self) -> StandbyReport:
        """Return the position of this process while it stands by."""
        view, address = self._standby.view, str(self.announced)
        change, complete_at = (0, self._began_at) if view is None else (view.number, view.complete_at)
        return StandbyReport(self.name, address, change, monotonic() - complete_at)

    def status(self) -> ServiceStatus:
        """Return the status of the service, from any thread.

        A process that stands by returns the status that the leader has stated last.
        """
        leader = self._leader
        if leader is None:
            return self._reporter.status
        address = str(self.announced)
        return leader.status(self.name, address, self._readers.standbys(leader.committer.durable))

    # Read-only connections

    def _view(self) -> ReadView | None:
        """Return the partition that this process can query."""
        partition, leader = self.engine, self._leader
        if partition is None or leader is None:
            return self._standby.view
        return ReadView(partition, leader.committer.durable, leader.committer.complete_at)

    def _when_durable(self, callback: Callable[[], None]) -> None:
        """Call a function when everything that this process has is durable; all that a standby has is durable."""
        if self._leader is None:
            callback()
        else:
            self._leader.committer.when_durable(callback)

    # Leading

    async def _lead_log(self, log: Log, opened: OpenLog, stopping: asyncio.Event) -> None:
        resigned, tail = asyncio.Event(), log.tail()
        try:
            engine = await self._prepare(opened, tail, resigned.set)
            if engine is None:
                return
            changes = engine.committer.log
            compaction = asyncio.create_task(
                compact_regularly(
                    opened.journal, lambda: changes.number, opened.state.ledger.__len__, self._settings.compact_after
                )
            )
            try:
                await self._lead(engine, stopping, resigned)
            finally:
                compaction.cancel()
        finally:
            tail.close()
            with suppress(JournalError, OSError):
                await asyncio.to_thread(opened.journal.close)

    async def _prepare(self, opened: OpenLog, tail: LogTail, on_resigned: Callable[[], None]) -> Engine | None:
        """Return the engine of a leader; None if that fails now."""
        try:
            models = await self._restore_models(opened)
            return build_engine(self._engine, opened, partial(tail.changes, size=READ_SIZE), on_resigned, models)
        except Exception as error:
            # An error of a model does not pass.
            may_pass = isinstance(error, (JournalError, OSError)) and not isinstance(error, JournalDamagedError)
            if self._note_fault("the log cannot be led", error, may_pass=may_pass):
                raise
            return None

    async def _restore_models(self, opened: OpenLog) -> ModelSet:
        """Restore the models in another thread; the process remains the leader meanwhile."""
        heartbeat = Heartbeat(opened.change_queue.renew, longest=_RESTORING)
        try:
            return await asyncio.to_thread(restore_models, self._engine, opened.state, opened)
        finally:
            heartbeat.close()

    async def _lead(self, engine: Engine, stopping: asyncio.Event, resigned: asyncio.Event) -> None:
        """Execute the operations of clients until one of the events is set."""
        leader = Leader(engine, self._settings.limits.sessions, lambda: self._readers.last_standby)
        self._listener.clients, self.engine, self.term = leader, engine.partition, engine.committer.term
        self._leader, self._standby.view = leader, None
        waits = [asyncio.create_task(event.wait()) for event in (stopping, resigned)]
        try:
            self._note_ready()
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            self._listener.clients, self.engine, self.term = self._standby, None, 0
            self._leader = None
            self._listener.close_connections(Moved(""))
            leader.close()
            await engine.committer.finish()
