"""The state of one server, and the parsed form of one request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict, final

from ugm.partition import AbstractPartition, ModelReport, PartitionSnapshot
from ugm.server.audit import AuditLog
from ugm.server.configurations import Configurations
from ugm.server.cooperative import cooperatively
from ugm.server.history import History
from ugm.server.payloads import ApiError
from ugm.server.trees import ModelTree, trees_of
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

    __slots__ = ("_history", "_models", "_newest", "_service", "name", "partition")

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
    ) -> None:
        self.name: Final = name
        self.partition: Final = partition
        self._history: Final = history
        self._service: Final = service
        self._newest = None
        self._models = None

    def snapshot(self, since: float) -> PartitionSnapshot:
        """Return the partition at a moment that is not before *since*, on the clock of `time.perf_counter`.

        Requests that wait in the queue at the same time share a snapshot. So the number of clients does not determine
        how often the lock of the partition is taken.
        """
        if self._newest is None or self._newest[0] < since:
            began = perf_counter()
            self._newest = began, self.partition.snapshot(cooperatively)
        return self._newest[1]

    def models(self, since: float) -> Models:
        """Return the quota models at a moment that is not before *since*, like `snapshot`."""
        if self._models is None or self._models[0] < since:
            began, reports = perf_counter(), self.partition.model_reports()
            self._models = began, Models(reports, trees_of(reports))
        return self._models[1]

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
    find: str
    group: str | list[str]
    kind: str
    most: int
    node: str
    queue: str
    resource: str
    skip: int
    sort: str
    state: str
    toggle: list[str]
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
    most: int
    priority: int
    preemptible: bool
    allocation_id: str
    since: int
    now: int
    may_preempt: bool
    within_queue: bool


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
