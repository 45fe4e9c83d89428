"""The state of one server, and the parsed form of one request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict, final

from ugm.partition import AbstractPartition, ModelReport, PartitionSnapshot, ThresholdWatch, Turn
from ugm.server.audit import AuditLog
from ugm.server.configurations import Configurations
from ugm.server.cooperative import cooperatively
from ugm.server.history import History
from ugm.server.payloads import ApiError
from ugm.server.queue_rows import QueueRow, QueueRows
from ugm.server.shared_result import SharedResult
from ugm.server.trees import KnownTrees, ModelTree, trees_of
from ugm.server.usage_history import UsageHistory
from ugm.server.worker import Worker

if TYPE_CHECKING:
    # At run time it needs the extra of services.
    from ugm.service.status import ServiceStatus

__all__ = ["Models", "Query", "RequestBody", "RequestContext", "ServedPartition", "ServerState"]


class Models(NamedTuple):
    """The quota models of a partition at one moment."""

    reports: tuple[ModelReport, ...]
    trees: list[ModelTree]


@final
class ServedPartition:
    """A partition with its history, its service, its newest snapshot, and the newest state of its quota models."""

    __slots__ = (
        "_history",
        "_models",
        "_models_lock",
        "_newest",
        "_nodes",
        "_order",
        "_rows",
        "_service",
        "_snapshot_lock",
        "name",
        "partition",
        "thresholds",
        "usage_history",
    )

    #: The newest snapshot, with the time when its creation began.
    _newest: tuple[float, PartitionSnapshot] | None
    #: The same for the quota models.
    _models: tuple[float, Models] | None

    def __init__(
        self,
        name: str,
        partition: AbstractPartition,
        history: History | None = None,
        service: Callable[[], ServiceStatus] | None = None,
        usage_history: UsageHistory | None = None,
        thresholds: ThresholdWatch | None = None,
    ) -> None:
        self.name: Final = name
        self.partition: Final = partition
        self.usage_history: Final = usage_history or UsageHistory(partition, history)
        self.thresholds: Final = thresholds or ThresholdWatch(partition)
        self._history: Final = history
        self._service: Final = service
        self._newest = None
        self._rows: Final = QueueRows()
        #: Held while the newest snapshot is replaced or its rows are encoded, so that all threads share them.
        self._snapshot_lock: Final = Lock()
        self._models = None
        self._nodes: Final = KnownTrees()
        #: Held while the quota models are read again, so that all threads share them.
        self._models_lock: Final = Lock()
        self._order: Final = SharedResult[tuple[float, tuple[Turn, ...]]]()

    def now(self) -> float:
        """Return the time in seconds since 1970."""
        return self.usage_history.now() / 1000

    def snapshot(self, since: float) -> PartitionSnapshot:
        """Return the partition at a moment that is not before *since*, on the clock of `time.perf_counter`.

        Requests that wait in the queue at the same time share a snapshot. So the number of clients does not determine
        how often the lock of the partition is taken.
        """
        with self._snapshot_lock:
            return self._snapshot(since)

    def queue_rows(self, since: float) -> tuple[PartitionSnapshot, dict[str, QueueRow]]:
        """Return a snapshot like `snapshot`, and its queues as JSON by path."""
        with self._snapshot_lock:
            snapshot = self._snapshot(since)
            return snapshot, self._rows.of(snapshot)

    def _snapshot(self, since: float) -> PartitionSnapshot:
        if self._newest is None or self._newest[0] < since:
            began, previous = perf_counter(), None if self._newest is None else self._newest[1]
            self._newest = began, self.partition.snapshot(cooperatively, previous)
        return self._newest[1]

    def models(self, since: float) -> Models:
        """Return the quota models at a moment that is not before *since*, like `snapshot`."""
        with self._models_lock:
            if self._models is None or self._models[0] < since:
                began, reports = perf_counter(), self.partition.model_reports()
                self._models = began, Models(reports, trees_of(reports, self._nodes))
            return self._models[1]

    def order(self) -> tuple[float, tuple[Turn, ...]]:
        """Return the pending requests in scheduling order, with the time of this order in seconds since 1970.

        They do not have the comparisons that chose them. Requests share an order for a while; see
        `ugm.server.shared_result`.
        """
        return self._order.read(self._compute_order)

    def _compute_order(self) -> tuple[float, tuple[Turn, ...]]:
        return self.now(), self.partition.order(explained=False)

    def submitted_at(self, application_id: str) -> float | None:
        """Return when an application was submitted, in seconds since 1970; None if that is not known."""
        return None if self._history is None else self._history.submitted_at(application_id)

    def requested_at(self, allocation_id: str) -> float | None:
        """Return when a pending allocation was requested, in seconds since 1970; None if that is not known."""
        return None if self._history is None else self._history.requested_at(allocation_id)

    @property
    def has_history(self) -> bool:
        """True if a history follows the partition."""
        return self._history is not None

    @property
    def history(self) -> History:
        """The history of the partition.

        Raises:
            ApiError: the partition has no history.
        """
        if self._history is None:
            raise ApiError(404, "history-missing", "the partition was started without a history")
        return self._history

    @property
    def has_service(self) -> bool:
        """True if the partition is that of a service."""
        return self._service is not None

    @property
    def service(self) -> ServiceStatus:
        """The status of the service of the partition.

        Raises:
            ApiError: the partition is not that of a service.
        """
        if self._service is None:
            raise ApiError(404, "service-missing", "the partition is not that of a service")
        return self._service()


class ServerState(NamedTuple):
    """The objects that the endpoints of one server use."""

    #: By name.
    partitions: Mapping[str, ServedPartition]
    configurations: Configurations
    #: Functions that return further state for JSON, either as plain values or as an object with `to_dict`; by name.
    extra_states: Mapping[str, Callable[[], object]]
    read_only: bool
    #: When the server was created, in seconds since 1970.
    started: float
    #: Reads the configurations that clients send.
    worker: Worker
    #: Records the operations on partitions.
    audit: AuditLog


class Query(TypedDict, total=False):
    """The query parameters of all endpoints; a request has those that its route declares."""

    after: str | int
    application: str
    budget: str
    confirm: str
    count: int
    first: str
    group: str | list[str]
    kind: str
    limit: int
    measure: str
    name: str
    names: list[str]
    node: str
    now: int
    offset: int
    older_than: int
    owner: str
    points: int
    queue: str
    range: str
    resource: str
    search: str
    second: str
    sort: str
    start: int
    state: str
    status: str
    subtree: str
    toggle: list[str]
    topic: list[str]
    tree: str
    user: str


class RequestBody(TypedDict, total=False):
    """The JSON body of `check`, `explain` and plans; the schema of the route says which fields are required.

    The fields of the other bodies are in `ugm.server.operations`.
    """

    application_id: str
    user: str
    groups: list[str]
    queue: str
    tags: dict[str, str]
    usage: dict[str, int | str]
    quota: dict[str, int | str]
    duration: int
    max_holders: int
    priority: int
    preemptible: bool
    allocation_id: str
    since: int
    now: int
    may_preempt: bool
    within_queue: bool
    nodes: dict[str, dict[str, int | str]]


class RequestContext(NamedTuple):
    """One request, parsed and validated."""

    #: The variable parts of the path, by name.
    path: Mapping[str, str]
    query: Query
    body: RequestBody
    #: The configuration in the body, as YAML; empty if the route takes none.
    text: str
    #: When the request arrived, on the clock of `time.perf_counter`.
    arrived: float
    #: The address of the client.
    client: str
    #: Whether the client accepts JSON and nothing else.
    accepts_only_json: bool = False
