"""The rows of a partition: one immutable type for each fact, and the change of a row.

The state of a partition is a few tables of rows. Everything else follows from them: counters, indexes, orders and the
state of quota models. A list of changes is what an operation has done. It is put back if the operation fails, and the
events for subscribers and for the log are computed from it.

=================  ======================  =====================================================================
table              key                     row
=================  ======================  =====================================================================
``partition``      empty                   `PartitionRow`
``configuration``  empty                   `ConfigurationRow`
``node``           the name                `NodeRow`
``queue``          the path                `QueueRow`, for each queue that the configuration does not name
``application``    the id                  `ApplicationRow`
``allocation``     the id                  `Allocation`
``request``        the id                  `RequestRow`, for each pending allocation
=================  ======================  =====================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, cast, final

from ugm.arguments import require_amounts, require_exact_name, require_names, require_resource
from ugm.errors import RequestError
from ugm.identity import UserGroup
from ugm.partition.config.compiled import CompiledConfig
from ugm.queues.tree import QueueSpec
from ugm.resources import Resource, optional_dict

#: Priorities are signed 32-bit integers, as in Kubernetes: below this number, and not below its negative.
_PRIORITY_BOUND: Final = 2**31
_EXPECTED_SPEC: Final = "expected an AllocationSpec, or a tuple of its first fields: the id and the usage"
#: The longest promised duration, in seconds: about 3,000 years.
MAX_DURATION: Final = 10**11
#: An allocation compares priorities with this object by identity, because a test of the type costs each allocation 9 ns
#: more. A value that is only equal takes the slow path, which rejects other types.
DEFAULT_PRIORITY: Final = 0


class AllocationState(StrEnum):
    """The state of an allocation."""

    #: Requested, and not counted.
    PENDING = "pending"
    #: Granted, and counted.
    HELD = "held"
    #: Marked to stop, and counted until its release.
    TERMINATING = "terminating"


class AllocationRequest(NamedTuple):
    """The request for an allocation, for example one of several that are granted together."""

    allocation_id: str
    application_id: str
    usage: Resource
    #: Whether the allocation only reserves resources for a real allocation, which replaces it.
    placeholder: bool = False
    priority: int = 0
    preemptible: bool = True
    #: The promised number of seconds from the grant to the release; None if nothing is promised.
    duration: int | None = None
    #: The node that the allocation runs on; None if it is unknown or chosen later. Limits do not depend on it.
    node: str | None = None
    #: The name of the work at the host, for people: a job, a pod or a notebook. A repeated call may have another one.
    label: str | None = None
    #: The variants that amounts of any variant are assigned to; None leaves the choice to the partition.
    assign: Resource | None = None
    #: The preferred variants, in their order, before those that the queue or the configuration prefers.
    prefer: tuple[str, ...] = ()


#: The fields of an `AllocationRequest`, also as a plain tuple, which takes less time to make.
RequestFields: TypeAlias = tuple[
    str, str, Resource, bool, int, bool, int | None, str | None, str | None, Resource | None, tuple[str, ...]
]
#: The usage that a call leaves out because it passes an `AllocationRequest`; no method accepts it as a usage.
NO_USAGE: Final = cast("Resource", None)
#: The properties of a request.
_REQUESTED: Final = ("application_id", "requested_usage", "placeholder", "priority", "preemptible", "duration", "node")
#: The properties of a request that names none.
_NO_PROPERTIES: Final = tuple(AllocationRequest._field_defaults.values())


def request_of(
    allocation_id: str | AllocationRequest, application_id: str, usage: Resource, properties: tuple[Any, ...]
) -> AllocationRequest:
    """Return the request of a call, which may pass it as a whole.

    Raises:
        RequestError: the call passes a request and other arguments.
    """
    if not isinstance(allocation_id, AllocationRequest):
        return AllocationRequest(allocation_id, application_id, usage, *properties)
    if (application_id, usage, properties) != ("", NO_USAGE, _NO_PROPERTIES):
        raise RequestError("request", allocation_id, "it has all properties; expected no other arguments")
    return allocation_id


def allocation_of(request: AllocationRequest, state: AllocationState, now: int = 0) -> Allocation:
    """Return the allocation of a request in a state.

    Args:
        request: the request; its ids and its usage are not checked.
        state: the state of the allocation.
        now: the time; needed if a duration is promised and the allocation is not pending.

    Raises:
        RequestError: a property has a wrong type or value.
    """
    allocation_id, application_id, usage, placeholder, priority, preemptible, duration, node, label, assign, prefer = (
        request
    )
    if type(placeholder) is not bool:
        raise RequestError("placeholder", placeholder, "expected True or False")
    if type(priority) is not int or not -_PRIORITY_BOUND <= priority < _PRIORITY_BOUND:
        raise RequestError("priority", priority, "expected an int from -2**31 to 2**31 - 1")
    if type(preemptible) is not bool:
        raise RequestError("preemptible", preemptible, "expected True or False")
    if node is not None:
        require_exact_name("node", node)
    if label is not None:
        require_exact_name("label", label)
    if assign is not None or prefer:
        assign, prefer = _checked_kinds(assign, prefer)
    until = None
    if duration is not None:
        require_duration(duration)
        until = None if state is AllocationState.PENDING else now + duration
    traits = state, placeholder, priority, preemptible, until, duration, node, label, assign, prefer
    return tuple.__new__(Allocation, (allocation_id, application_id, usage, *traits))


#: The assignment and the preference of a request that has neither.
NO_KINDS: Final[list[object]] = [None, ()]


def _checked_kinds(assign: Resource | None, prefer: Iterable[str]) -> tuple[Resource | None, tuple[str, ...]]:
    """Return an assignment to variants, and the preferred variants.

    Raises:
        RequestError: one has a wrong type or value.
    """
    if assign is not None:
        require_amounts("assign", require_resource("assign", assign))
    return assign, require_names("prefer", prefer)


def require_duration(duration: object) -> None:
    """Check a promised duration.

    Raises:
        RequestError: it has a wrong type or value.
    """
    if type(duration) is not int or not 0 < duration <= MAX_DURATION:
        raise RequestError("duration", duration, f"expected whole seconds, from 1 to {MAX_DURATION}")


class Allocation(NamedTuple):
    """An allocation at one moment."""

    allocation_id: str
    application_id: str
    usage: Resource
    state: AllocationState
    placeholder: bool
    priority: int
    preemptible: bool
    #: The second since 1970 at which its release is promised; None if nothing is promised, or it is pending.
    until: int | None = None
    #: The promised number of seconds from the grant, or from the last renewal, to the end; None if nothing is promised.
    duration: int | None = None
    #: The node that it runs on, or that a plan of preemption has chosen for it while it is pending.
    node: str | None = None
    #: The name of the work at the host, for people.
    label: str | None = None
    #: The variants to which amounts of any variant are assigned, as a part of the usage; of a pending allocation, the
    #: variants that the caller has assigned.
    assign: Resource | None = None
    #: The variants that the request prefers.
    prefer: tuple[str, ...] = ()

    @property
    def requested_usage(self) -> Resource:
        """The requested usage, without the variants to which amounts of any variant are assigned."""
        if self.assign is None or self.state is AllocationState.PENDING:
            return self.usage
        return Resource(
            {name: rest for name, rest in (self.usage - self.assign).items() if rest or name not in self.assign}
        )

    @property
    def request(self) -> AllocationRequest:
        """The request for the allocation."""
        made = AllocationRequest._make((*self[:3], *self[4:7], *self[8:]))
        return made if self.assign is None else made._replace(usage=self.requested_usage)

    def granted(self, now: int) -> Allocation:
        """Return a pending allocation as it is held if it is granted now."""
        until = None if self.duration is None else now + self.duration
        return Allocation._make((*self[:3], AllocationState.HELD, *self[4:7], until, *self[8:]))

    def difference(self, other: Allocation) -> tuple[str, object, object] | None:
        """Return the first property in which the requests of two allocations differ, with both values; None for none.

        The state and the promised end are no properties of a request.
        """
        if self[:3] == other[:3] and self[4:7] == other[4:7] and self[8:10] == other[8:10] and self[11] == other[11]:
            return None
        for name in _REQUESTED:
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                return name.replace("requested_usage", "usage"), mine, theirs
        return None

    def to_dict(self) -> Mapping[str, object]:
        """Return the allocation for JSON, with the names of its attributes."""
        named = {"usage": dict(self.usage), "state": self.state.value, "assign": optional_dict(self.assign)}
        return {**self._asdict(), **named, "prefer": list(self.prefer)}


class AllocationSpec(NamedTuple):
    """An allocation of an application that is named with it; a tuple of the first fields is enough."""

    allocation_id: str
    usage: Resource
    placeholder: bool = False
    priority: int = 0
    preemptible: bool = True
    #: The promised number of seconds from now to the release; None if nothing is promised.
    duration: int | None = None
    node: str | None = None
    label: str | None = None
    assign: Resource | None = None
    prefer: tuple[str, ...] = ()

    def request(self, application_id: str) -> AllocationRequest:
        """Return the request of an application for this allocation."""
        return AllocationRequest(self.allocation_id, application_id, *self[1:])


def require_requests(
    requests: Iterable[AllocationRequest | tuple[str, str, Resource]], argument: str = "requests"
) -> list[AllocationRequest]:
    """Return several requests. The iterable is foreign code, so it is read before the lock is taken.

    Raises:
        RequestError: an item is neither an AllocationRequest nor a tuple of its parts.
    """
    try:
        return [AllocationRequest(*request) for request in requests]
    except TypeError as error:
        raise RequestError(argument, requests, "expected AllocationRequests, or tuples of their parts") from error


def require_specs(allocations: object) -> tuple[AllocationSpec, ...]:
    """Return the allocations of an application. The iterable is foreign code, so it is read before the lock is taken.

    Raises:
        RequestError: an item is not an allocation, or an id occurs twice.
    """
    if not isinstance(allocations, Iterable):
        raise RequestError("allocations", allocations, "expected an iterable of allocations")
    by_id: dict[str, AllocationSpec] = {}
    for item in allocations:
        if isinstance(item, AllocationRequest) or not isinstance(item, Iterable):
            raise RequestError("allocations", item, _EXPECTED_SPEC)
        try:
            spec = AllocationSpec(*item)
        except TypeError as error:
            raise RequestError("allocations", item, _EXPECTED_SPEC) from error
        require_exact_name("allocation_id", spec.allocation_id)
        require_resource("usage", spec.usage)
        allocation_of(spec.request(""), AllocationState.PENDING)
        if by_id.setdefault(spec.allocation_id, spec) is not spec:
            raise RequestError("allocations", spec.allocation_id, "the allocation occurs twice")
    return tuple(by_id.values())


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class GangStyle(StrEnum):
    """The consequence of a gang that is not complete in time."""

    #: The application continues without a gang.
    SOFT = "soft"
    #: The application fails.
    HARD = "hard"


class PartitionRow(NamedTuple):
    """The facts about a partition as a whole."""

    #: Whether it accepts no more requests.
    closed: bool = False
    #: The sum of the nodes, with 0 for what only removed nodes offered; None until a first node is registered. From
    #: then on it is the maximum of the root.
    cluster: Resource | None = None
    #: The names of the classes of the quota models that the program has added, in their order.
    added_models: tuple[str, ...] = ()
    #: The pending request that reserves capacity for a queue, by the path of the queue; the earliest reservation first.
    #: An entry whose request is no longer pending has no effect.
    reservations: Mapping[str, str] = _NOTHING
    #: The second since which each queue has been above its maximum, by path.
    reduction_timers: Mapping[str, int] = _NOTHING


class ConfigurationRow(NamedTuple):
    """The configuration in force."""

    #: The configuration with its compiled form; a store keeps only the configuration.
    compiled: CompiledConfig
    #: The author that the call named; empty for none.
    author: str = ""


class NodeRow(NamedTuple):
    """A registered node."""

    name: str
    offers: Resource


class QueueRow(NamedTuple):
    """A queue that the configuration does not name."""

    spec: QueueSpec
    #: Whether an earlier configuration named it, so that it accepts no more applications.
    was_configured: bool = False
    #: The quota that was set for this queue alone.
    quota: Resource | None = None


class ApplicationRow(NamedTuple):
    """An application."""

    application_id: str
    user: UserGroup
    #: The queue in which it was placed, for its whole lifetime.
    queue_path: str
    #: The queue that the submission requested, if any.
    requested_queue: str
    tags: Mapping[str, str]
    gang_style: GangStyle
    #: Whether it was adopted, so that the arguments of its submission are unknown.
    is_adopted: bool
    #: Its place in the order of submission; later applications have higher numbers.
    number: int
    #: The group that it is charged to, which never changes; None for no group, empty until its first allocation.
    group: str | None = ""
    has_run: bool = False
    #: Whether it counts as running: from its first allocation until nothing is allocated or pending.
    is_running: bool = False
    #: Whether a real allocation has ever replaced a placeholder.
    has_replaced: bool = False
    failing: bool = False


class RequestRow(NamedTuple):
    """The facts about a pending allocation that others do not have."""

    #: Its place in the order of requests; later requests have higher numbers.
    number: int
    #: Whether a plan of preemption has made room for it, so that other plans count it as granted.
    placed: bool = False


Row: TypeAlias = PartitionRow | ConfigurationRow | NodeRow | QueueRow | ApplicationRow | Allocation | RequestRow


class Change(NamedTuple):
    """The change of one row."""

    table: str
    key: str
    #: None if the row is new.
    old: Any
    #: None if the row was removed.
    new: Any
    #: The last state of an application that was removed, the placeholder that an allocation replaces, the queue whose
    #: reservation has changed; empty otherwise.
    cause: str = ""


_TABLES: Final = ("partition", "configuration", "node", "queue", "application", "allocation", "request")


@final
class Tables:
    """The tables of a partition by name, each a mapping of keys to rows."""

    def __init__(self) -> None:
        self.by_name: Final[Mapping[str, dict[str, Any]]] = {name: {} for name in _TABLES}
        self.partition: Final[dict[str, PartitionRow]] = self.by_name["partition"]
        self.configuration: Final[dict[str, ConfigurationRow]] = self.by_name["configuration"]
        self.nodes: Final[dict[str, NodeRow]] = self.by_name["node"]
        self.queues: Final[dict[str, QueueRow]] = self.by_name["queue"]
        self.applications: Final[dict[str, ApplicationRow]] = self.by_name["application"]
        self.allocations: Final[dict[str, Allocation]] = self.by_name["allocation"]
        self.requests: Final[dict[str, RequestRow]] = self.by_name["request"]
        self.partition[""] = PartitionRow()

    def copy(self) -> Tables:
        """Return a copy, which has the same rows."""
        made = Tables()
        for name, rows in self.by_name.items():
            made.by_name[name].update(rows)
        return made

    def write(self, table: str, key: str, row: Row | None) -> None:
        """Write a row, or remove it if it is None."""
        if row is None:
            self.by_name[table].pop(key, None)
        else:
            self.by_name[table][key] = row
