"""One partition that several processes share, on as many machines as there are: its state is in PostgreSQL.

A `SharedPartition` has the operations of a `ugm.Partition`, with the same arguments, answers and errors, and decides by
the same code. Each operation is one change of the database, made by one function of the server in one transaction:
ledger, applications and counters together, or nothing.

What it does not have: other quota models, and `evict`, which is about them; their state is in one process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Final, Literal, Self, TypeVar, final

from ugm.arguments import amounts_of, name_of, resource_of
from ugm.decision import ALLOWED, Decision, Violation
from ugm.errors import RequestError
from ugm.identity import UserGroup, canonical_path
from ugm.partition._submission import group_of, placed_path, style_of, submission_of
from ugm.partition.application import ApplicationInfo
from ugm.partition.audit import AuditReport, Difference, Running, audit, differences_of, truth_of
from ugm.partition.compiled import Compiled, PartitionSettings
from ugm.partition.entry import AllocationState, Ask
from ugm.partition.gang import allocate_all
from ugm.partition.others import OtherModels
from ugm.partition.plan import Plan, Snapshot, make_plan
from ugm.partition.reconcile import reconcile
from ugm.partition.settings import settings_of
from ugm.queues import Placement
from ugm.resources import MAX_QUANTITY, Resource
from ugm.shared import presence
from ugm.shared.database import Database
from ugm.shared.engine import Engine, Fenced, Need, Tools
from ugm.shared.express import Express
from ugm.shared.presence import Owned, Process, RegistrationLost
from ugm.shared.view import SharedView

__all__ = ["SharedPartition"]

#: What a schema may be called; PostgreSQL cuts off longer names.
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,59}")

T = TypeVar("T")


class _Uncounted(Exception):  # noqa: N818 - a turn of events inside, which no caller sees
    """Something has to be counted before an operation that nobody counts."""


@final
class SharedPartition(SharedView):
    """A partition in a database, as one of the processes that share it.

    The first process to come makes the tables. Any number of threads may call any operation at any time; they take
    turns, because a `SharedPartition` is one connection. After a fork, the child needs a new one.

    Args:
        conninfo: the database, as libpq has it: ``host=... dbname=... user=...``, or a URL.
        schema: the schema of the partition; several partitions may share a database.
        name: what the process is called in the list of processes; left out, host and process id.
        group_limits: as for a `ugm.Manager`; the same for all processes.
        replica: a database that follows the first; `SharedView.check` and all other questions are then asked there.
        patience: how many seconds to wait for a database that does not answer, before an `UnavailableError`.
        on_lost: who is told when this process learns that it is presumed dead.

    Raises:
        RequestError: an argument cannot be used, or the others have other *group_limits*.
        UnavailableError: the database does not answer.
    """

    __slots__ = ("_engine", "_express", "_lost", "_on_lost", "name")

    def __init__(
        self,
        conninfo: str,
        *,
        schema: str = "ugm",
        name: str | None = None,
        group_limits: Literal["always", "unless-user-limited"] = "always",
        replica: str | None = None,
        patience: float = 30,
        on_lost: Callable[[RegistrationLost], object] | None = None,
    ) -> None:
        if group_limits not in ("always", "unless-user-limited"):
            raise RequestError("group_limits", group_limits, "expected 'always' or 'unless-user-limited'")
        if not _SCHEMA.fullmatch(schema):
            raise RequestError("schema", schema, "expected small letters, digits and underscores, 60 at most")
        self.name: Final = presence.default_name() if name is None else name_of("name", name)
        database = Database(conninfo, schema, patience)
        database.create(user_limits_win=group_limits == "unless-user-limited")
        self._engine: Final = Engine(database)
        reader = self._engine if replica is None else Engine(Database(replica, schema, patience))
        super().__init__(reader)
        self._express: Final = Express(self._engine)
        self._on_lost: Final = on_lost
        self._lost = False
        if self._engine.structure.books.in_force.user_limits_win != (group_limits == "unless-user-limited"):
            database.close()
            raise RequestError("group_limits", group_limits, "the others have decided otherwise")
        self.register()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """Take no more part. A process that leaves allocations behind stays listed, as one that may have vanished."""
        with self._engine.lock:
            presence.forget(self._engine.database, self._engine.token)
            self._engine.database.close()
        if self._reader is not self._engine:
            self._reader.database.close()

    def _do(self, need: Need, operation: Callable[[Tools], T]) -> T:
        try:
            with self._engine.lock:
                return self._engine.do(need, operation)
        except Fenced:
            self._tell_lost()
            raise RequestError("process", self.name, "it is presumed dead, and has to register again") from None

    def _decide(self, need: Need, operation: Callable[[Tools], Decision]) -> Decision:
        try:
            with self._engine.lock:
                return self._engine.do(need, operation)
        except Fenced:
            return self._denied()

    def _denied(self) -> Decision:
        self._tell_lost()
        return Decision((Violation("registration", self.name, "", "", "registration", 0, 0, 1),))

    def _tell_lost(self) -> None:
        if not self._lost:
            self._lost = True
            if self._on_lost is not None:
                self._on_lost(RegistrationLost(self._engine.token, self.name))

    # Applications

    def submit(
        self,
        application_id: str,
        user: UserGroup,
        queue: str = "",
        *,
        tags: Mapping[str, str] | None = None,
        quota: Resource | None = None,
        gang_style: str = "soft",
    ) -> Placement:
        """Do what `ugm.Partition.submit` does."""
        submission = submission_of(application_id, user, queue, tags)
        style, most = style_of(gang_style), amounts_of("quota", quota)
        return self._do(Need((application_id,)), lambda tools: tools.life.submit(submission, style, most))

    def adopt_application(
        self,
        application_id: str,
        user: UserGroup,
        queue_path: str,
        *,
        tags: Mapping[str, str] | None = None,
        quota: Resource | None = None,
        gang_style: str = "soft",
        group: str | None = "",
    ) -> None:
        """Do what `ugm.Partition.adopt_application` does."""
        submission = submission_of(application_id, user, placed_path(queue_path), tags)
        style, most, chosen = style_of(gang_style), amounts_of("quota", quota), group_of(group)
        self._do(Need((application_id,)), lambda tools: tools.life.adopt(submission, style, most, chosen))

    def complete(self, application_id: str) -> ApplicationInfo:
        """Do what `ugm.Partition.complete` does."""
        return self._end(application_id, lambda tools: tools.life.complete(tools.admission.application(application_id)))

    def fail(self, application_id: str) -> tuple[str, ...]:
        """Do what `ugm.Partition.fail` does."""
        return self._end(application_id, lambda tools: tools.life.fail(tools.admission.application(application_id)))

    def remove(self, application_id: str) -> tuple[str, ...]:
        """Do what `ugm.Partition.remove` does."""
        return self._end(application_id, lambda tools: tools.life.remove(tools.admission.application(application_id)))

    def time_out_gang(self, application_id: str) -> tuple[str, ...]:
        """Do what `ugm.Partition.time_out_gang` does."""
        return self._end(
            application_id, lambda tools: tools.life.time_out_gang(tools.admission.application(application_id))
        )

    def _end(self, application_id: str, operation: Callable[[Tools], T]) -> T:
        return self._do(Need(_texts(application_id), whole=True), operation)

    def close(self) -> tuple[str, ...]:
        """Do what `ugm.Partition.close` does: first nothing more is taken, then one application after the other fails.

        If that is interrupted, closing once more goes on with it.
        """

        def closed(tools: Tools) -> None:
            tools.books.closed = True

        self._do(Need(structural=True), closed)
        told: list[str] = []
        for application in self.applications():
            told += self.fail(application.application_id)
        return tuple(told)

    # Allocations

    def ask(
        self,
        allocation_id: str,
        application_id: str,
        usage: Resource,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
    ) -> None:
        """Do what `ugm.Partition.ask` does."""
        ask = Ask(allocation_id, application_id, _bounded(usage), placeholder, priority, preemptible)
        self._do(_need([ask]), lambda tools: tools.life.ask(ask))

    def allocate(
        self,
        allocation_id: str,
        application_id: str,
        usage: Resource,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
    ) -> Decision:
        """Do what `ugm.Partition.allocate` does."""
        ids = _texts(allocation_id, application_id)
        is_plain = placeholder is False and preemptible is True and type(priority) is int and priority == 0
        if ids and all(ids) and is_plain:
            try:
                with self._engine.lock:
                    if self._express.allocate(allocation_id, application_id, usage):
                        return ALLOWED
            except Fenced:
                return self._denied()
        ask = Ask(allocation_id, application_id, _bounded(usage), placeholder, priority, preemptible)
        return self._decide(_need([ask]), lambda tools: tools.admission.allocate(ask, evict=False))

    def allocate_all(self, asks: Iterable[Ask]) -> Decision:
        """Do what `ugm.Partition.allocate_all` does."""
        try:
            batch = [Ask(*ask) for ask in asks]
        except TypeError as error:
            raise RequestError("asks", asks, "expected Asks, or tuples of their parts") from error
        for ask in batch:
            _bounded(ask.usage)
        return self._decide(
            _need(batch), lambda tools: allocate_all(tools.books, OtherModels(()), tools.admission, batch)
        )

    def replace(self, placeholder_id: str, allocation_id: str, usage: Resource) -> Decision:
        """Do what `ugm.Partition.replace` does."""
        _bounded(usage)
        return self._decide(
            Need(lines=_texts(placeholder_id, allocation_id)),
            lambda tools: tools.admission.replace(placeholder_id, allocation_id, usage),
        )

    def resize(self, allocation_id: str, usage: Resource) -> Decision:
        """Do what `ugm.Partition.resize` does."""
        _bounded(usage)
        return self._decide(
            Need(lines=_texts(allocation_id)), lambda tools: tools.admission.resize(allocation_id, usage)
        )

    def preempt(self, allocation_id: str) -> bool:
        """Do what `ugm.Partition.preempt` does."""
        name_of("allocation_id", allocation_id)
        return self._do(Need(lines=(allocation_id,)), lambda tools: tools.life.preempt(allocation_id))

    def release(self, allocation_id: str) -> bool:
        """Do what `ugm.Partition.release` does."""
        name_of("allocation_id", allocation_id)
        with self._engine.lock:
            if self._express.release(allocation_id):
                return True
        return self._do(Need(lines=(allocation_id,)), lambda tools: tools.admission.release(allocation_id))

    def adopt(
        self,
        allocation_id: str,
        application_id: str,
        usage: Resource,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
    ) -> tuple[Violation, ...]:
        """Do what `ugm.Partition.adopt` does."""
        ask = Ask(allocation_id, application_id, _bounded(usage), placeholder, priority, preemptible)

        def adopted(tools: Tools) -> tuple[Violation, ...]:
            tools.admission.entry(ask, AllocationState.HELD)
            _require_counted(tools, usage)
            return tools.admission.adopt(ask)

        return self._counting(_need([ask])._replace(checks=False), adopted, usage)

    def _counting(self, need: Need, operation: Callable[[Tools], T], usage: Resource) -> T:
        """Do an operation after making sure that what it counts has a place in every counter."""
        while True:
            try:
                return self._do(need, operation)
            except _Uncounted:
                self._do(Need(structural=True), lambda tools: tools.books.count_adopted(usage))

    # Queues and the cluster

    def give_quota(self, queue_path: str, quota: Resource) -> None:
        """Do what `ugm.Partition.give_quota` does."""
        most, path = amounts_of("quota", quota), canonical_path(queue_path)
        if most is None:
            raise RequestError("quota", quota, "expected a Resource that names something")

        def given(tools: Tools) -> None:
            queue = tools.books.tree.queues.get(path)
            if queue is None:
                raise RequestError("queue_path", queue_path, "there is no such queue")
            if queue.managed:
                raise RequestError("queue_path", queue_path, "the configuration says what the queue may use")
            tools.life.give_quota(queue, most)

        self._do(Need(structural=True), given)

    def add_node(self, name: str, offers: Resource) -> None:
        """Do what `ugm.Partition.add_node` does."""
        _offered(name, offers)
        self._node(name, lambda tools: tools.books.cluster.add(name, offers))

    def update_node(self, name: str, offers: Resource) -> None:
        """Do what `ugm.Partition.update_node` does."""
        _offered(name, offers)
        self._node(name, lambda tools: tools.books.cluster.update(name, offers))

    def remove_node(self, name: str) -> bool:
        """Do what `ugm.Partition.remove_node` does."""
        return self._node(name_of("node", name), lambda tools: tools.books.cluster.remove(name))

    def _node(self, name: str, operation: Callable[[Tools], T]) -> T:
        def changed(tools: Tools) -> T:
            before = tools.books.cluster.nodes.get(name)
            answer = operation(tools)
            tools.books.follow_node(name, before)
            return answer

        return self._do(Need(structural=True), changed)

    # The configuration

    def plan(self, config: PartitionSettings | None) -> Plan:
        """Do what `ugm.Partition.plan` does."""
        compiled = Compiled.of(settings_of(config))
        with self._engine.lock:
            return self._engine.everything(lambda books, _counters: make_plan(Snapshot(books), compiled))

    def apply(self, plan: Plan) -> None:
        """Do what `ugm.Partition.apply` does, with a plan that this process has made."""
        if not isinstance(plan, Plan):
            raise RequestError("plan", plan, "expected a Plan")

        def applied(tools: Tools) -> None:
            if plan.compiled is tools.books.compiled:
                return
            if plan.base is not tools.books.compiled:
                raise RequestError("plan", "outdated", "it was made for another configuration than the one in force")
            tools.books.swap(plan.compiled)

        self._do(Need(structural=True), applied)

    def configure(self, config: PartitionSettings | None) -> None:
        """Put another configuration in force, for all processes at the same moment; see `ugm.Partition.configure`."""
        compiled = Compiled.of(settings_of(config))
        self._do(Need(structural=True), lambda tools: tools.books.swap(compiled))

    # The truth

    def audit(self, running: Iterable[Running]) -> AuditReport:
        """Do what `ugm.Partition.audit` does."""
        truth = truth_of(running)
        with self._engine.lock:
            return self._engine.everything(lambda books, _counters: audit(books, truth))

    def reconcile(self, report: AuditReport) -> AuditReport:
        """Do what `ugm.Partition.reconcile` does, each difference by itself."""
        differences = differences_of(report)
        repaired: list[AuditReport] = []
        for told in differences:
            usage = Resource() if told.truth is None else _bounded(told.truth.usage)

            sides = [side.application_id for side in (told.ledger, told.truth) if side is not None]
            need = Need(sides, (told.allocation_id,), checks=False)
            repaired.append(self._counting(need, partial(_mended, told, usage), usage))
        return AuditReport(tuple(one for part in repaired for one in part.differences))

    # Presence

    @property
    def token(self) -> int:
        """What this process is registered under."""
        return self._engine.token

    def register(self) -> int:
        """Register this process anew, and return its token: after it was presumed dead, to go on as another one.

        What it had belongs to its old token, and to whoever has taken it over since.
        """
        with self._engine.lock:
            self._engine.token = presence.register(self._engine.database, self.name)
            self._lost = False
            return self._engine.token

    def renew(self) -> bool:
        """Say that this process is there, and return whether it is believed. Every change says so, too."""
        with self._engine.lock:
            is_believed = presence.renew(self._engine.database, self._engine.token)
        if not is_believed:
            self._tell_lost()
        return is_believed

    def processes(self) -> tuple[Process, ...]:
        """Return all processes that take part, and those that left something behind, the oldest first."""
        with self._engine.lock:
            return presence.processes(self._engine.database)

    def vanished(self, silent_for: timedelta) -> tuple[Process, ...]:
        """Return the processes that were not heard of for some time, or are presumed dead, and still have something."""
        seconds = silent_for.total_seconds()
        return tuple(
            one
            for one in self.processes()
            if one.token != self.token and one.allocations and (one.fenced_at or one.silent_for > seconds)
        )

    def owned_by(self, token: int) -> tuple[Owned, ...]:
        """Return the allocations of a process with their age, sorted by id."""
        with self._engine.lock:
            return presence.owned(self._engine.database, token)

    def fence(self, token: int) -> bool:
        """Presume a process dead, and return whether there is one: it gets nothing more, even if it lives.

        What it has is counted until it is released.
        """
        with self._engine.lock:
            return presence.fence(self._engine.database, token)

    def take_over(self, token: int) -> int:
        """Presume a process dead, have what it has, and return how many allocations that are."""
        self.fence(token)
        with self._engine.lock:
            return presence.take_over(self._engine.database, token, self._engine.token)

    def release_of(self, token: int) -> tuple[str, ...]:
        """Presume a process dead, release what it has, and return the ids of that."""
        self.fence(token)
        return tuple(
            one.allocation.allocation_id for one in self.owned_by(token) if self.release(one.allocation.allocation_id)
        )

    def forget(self, token: int) -> bool:
        """Forget a process that has nothing any more, and return whether it is forgotten."""
        with self._engine.lock:
            return presence.forget(self._engine.database, token)


def _texts(*values: object) -> tuple[str, ...]:
    """Return the values if all are texts, else none: what is no text is refused by the operation."""
    texts = tuple(value for value in values if isinstance(value, str))
    return texts if len(texts) == len(values) else ()


def _need(asks: Iterable[Ask]) -> Need:
    known = [ask for ask in asks if _texts(ask.allocation_id, ask.application_id)]
    return Need([ask.application_id for ask in known], [ask.allocation_id for ask in known])


def _bounded(usage: Resource) -> Resource:
    """Return a usage whose amounts the database can keep; what is no usage is refused by the operation."""
    if type(usage) is Resource:
        for name, amount in usage.items():
            if amount > MAX_QUANTITY:
                reason = f"the amount of {name} is above what a signed 64-bit integer holds"
                raise RequestError("usage", usage, reason)
    return usage


def _mended(told: Difference, usage: Resource, tools: Tools) -> AuditReport:
    _require_counted(tools, usage)
    return reconcile(tools.books, tools.admission, [told])


def _offered(name: str, offers: Resource) -> None:
    name_of("node", name)
    amounts_of("offers", resource_of("offers", offers))


def _require_counted(tools: Tools, usage: Resource) -> None:
    layout = tools.books.in_force.epoch.layout
    if layout.closed and not set(usage) <= {*layout.names, "vcore", "memory"}:
        raise _Uncounted
