"""Routes, and the state that they show: an endpoint is a function with a decorator that names its method and path.

Everything else follows from the signature of the function. Its first argument is the partition of the path, or the
state of the server; an argument ``call`` is the `Call`. The keyword arguments with the names of the variable parts of
the path are these parts. Those named ``body`` (JSON) and ``text`` (YAML) are the body. All others are parameters of the
query; ``query`` is a class with all of them. The annotations are validated and described.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, final, get_type_hints

import msgspec

from ugm.errors import UgmError
from ugm.partition import AbstractPartition, ThresholdWatch
from ugm.partition.interface.operation_kinds import Role
from ugm.server.configurations import Configurations
from ugm.server.history import History, WorkTimes
from ugm.server.http.audit import AuditLog
from ugm.server.http.payloads import ApiError
from ugm.store.reader import StoreLocation

if TYPE_CHECKING:
    # At run time it needs the extra of services.
    from ugm.service.protocol.status import ServiceStatus


@dataclass(frozen=True, slots=True)
class ServedPartition:
    """A partition, with its history, store and service if it has them."""

    name: str
    partition: AbstractPartition
    #: Returns the time in seconds since 1970.
    now: Callable[[], float]
    thresholds: ThresholdWatch
    history: History | None
    #: Returns the status of the service.
    service: Callable[[], ServiceStatus] | None
    store: StoreLocation | None
    #: Returns messages with the changes of some topics, as server-sent events.
    stream: Callable[[frozenset[Any]], AsyncIterator[bytes]]

    def is_old(self, at: float | None, seconds: int | None) -> bool:
        """Return whether a time is at least some seconds ago: always for None seconds, never for an unknown time."""
        return seconds is None or (at is not None and self.now() - at >= seconds)

    @property
    def times(self) -> WorkTimes:
        """The times of submissions and pending requests, as far as they are known."""
        return WorkTimes() if self.history is None else self.history.times


class ServerState(NamedTuple):
    """The objects that the endpoints of one server use."""

    #: By name.
    partitions: Mapping[str, ServedPartition]
    configurations: Configurations
    read_only: bool
    #: When the server was created, in seconds since 1970.
    started: float
    #: The number of running applications in the last hour, with its time in seconds since 1970.
    application_counts: deque[tuple[float, int]]

    def count_applications(self) -> None:
        """Note how many applications run now."""
        snapshots = [served.partition.snapshot() for served in self.partitions.values()]
        queues = (snapshot.queue() for snapshot in snapshots)
        total = sum(queue.running_applications for queue in queues if queue is not None)
        now = max((served.now() for served in self.partitions.values()), default=self.started)
        self.application_counts.append((now, total))


# Routes

_F = TypeVar("_F", bound=Callable[..., object])

#: The prefix of the paths of this interface, and of those that respond in the format of Apache YuniKorn.
PREFIX: Final = "/api/v1"
YUNIKORN_PREFIX: Final = "/ws/v1"
#: The path of a partition, below which most paths are.
PARTITION: Final = "/partition/{partition}"
#: The header with the key of a change, so that a repeated request changes nothing.
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
#: The names of the tokens: arguments of `create_app`, and security schemes of the description.
TOKEN_NAMES: Final[Mapping[Role, str]] = {Role.OPERATOR: "token", Role.SCHEDULER: "decide_token"}


@final
@dataclass(slots=True)
class Call:
    """One request, as an endpoint sees it."""

    audit: AuditLog
    #: The role that its operation needs.
    role: Role
    #: The address of the client.
    client: str
    #: Whether the client accepts JSON and nothing else.
    accepts_only_json: bool
    #: Whether its operation has started, which writes its own lines of the audit log.
    is_audited: bool = False

    #: The outcome of the operation, for the audit log.
    outcome: str = "ok"

    @contextmanager
    def operation(self, action: str, target: str) -> Iterator[None]:
        """Write the operation in the block to the audit log. The block may set another outcome than ``ok``."""
        self.is_audited, self.outcome = True, "ok"
        try:
            yield
        except (ApiError, UgmError) as error:
            self.outcome = error.code
            raise
        except BaseException:
            self.outcome = "failed"
            raise
        finally:
            self.audit.write(self.client, self.role.name.lower(), action, target, self.outcome)


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path, with the function that answers it."""

    method: str
    #: Below the prefix; variable parts are in braces.
    path: str
    answer: Callable[..., object]
    #: The name of the operation in the description.
    name: str
    #: The first line of the docstring.
    summary: str
    #: A class of msgspec with the parts of the path and the parameters of the query.
    parameters: Any
    #: The annotation of the result.
    result: Any
    #: The names of the parameters of the function.
    arguments: frozenset[str]
    #: The annotation of a body in JSON; None if there is none.
    body: Any = None
    role: Role = Role.VIEWER
    prefix: str = PREFIX
    #: Whether the body may have any media type.
    takes_any_type: bool = False
    #: The media types of the response.
    media_types: tuple[str, ...] = ("application/json",)

    @property
    def full_path(self) -> str:
        """The path with its prefix."""
        return self.prefix + self.path

    @property
    def is_yunikorn(self) -> bool:
        """True if responses have the format of Apache YuniKorn."""
        return self.prefix == YUNIKORN_PREFIX

    @property
    def reads_config(self) -> bool:
        """True if the body is a configuration in YAML."""
        return "text" in self.arguments


@final
class Routes:
    """A list of routes, to which decorators add.

    Args:
        prefix: the prefix of the paths.
        names: the beginning of the names of the operations.
    """

    def __init__(self, prefix: str = PREFIX, names: str = "") -> None:
        self._prefix: Final = prefix
        self._names: Final = names
        self.found: Final[list[Route]] = []

    def get(self, path: str, **options: Any) -> Callable[[_F], _F]:  # noqa: ANN401 - those of `Route`
        """Return a decorator for an endpoint of GET."""
        return self.add("GET", path, **options)

    def post(self, path: str, **options: Any) -> Callable[[_F], _F]:  # noqa: ANN401 - those of `Route`
        """Return a decorator for an endpoint of POST."""
        return self.add("POST", path, **options)

    def add(self, method: str, path: str, **options: Any) -> Callable[[_F], _F]:  # noqa: ANN401 - as above
        """Return a decorator for an endpoint."""
        # Annotations that are made at run time, by name of their parameter.
        types = options.pop("types", {})

        def decorate(function: _F) -> _F:
            name = f"{self._names}{function.__name__}"
            hints = get_type_hints(function, include_extras=True) | types
            fields = [
                (one.name, hints[one.name]) if one.default is one.empty else (one.name, hints[one.name], one.default)
                for one in inspect.signature(function).parameters.values()
                if one.kind is one.KEYWORD_ONLY and one.name not in ("body", "query", "text")
            ]
            summary = (inspect.getdoc(function) or name).partition("\n")[0]
            parameters = hints.get("query") or msgspec.defstruct(name, fields, forbid_unknown_fields=True)
            own = method, path, function, name, summary, parameters, hints["return"], frozenset(hints)
            self.found.append(Route(*own, hints.get("body"), prefix=self._prefix, **options))
            return function

        return decorate
