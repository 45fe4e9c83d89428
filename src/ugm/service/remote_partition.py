"""A partition in another process: the partition interface over a connection.

A `RemotePartition` has no state. Each of its methods encodes the arguments and passes them to its connection, which
returns the decoded result. An `AsyncRemotePartition` is the same for asyncio: its methods have the same parameters and
return awaitables.

The methods are derived from `AbstractPartition`, so both classes are lists of the operations. The types of the
parameters and results are those of the interface.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, Protocol, TypeVar, cast

from ugm._json_values import JsonObject
from ugm.configuration import PartitionConfig
from ugm.errors import RequestError
from ugm.partition import AbstractPartition, AllocationRequest, ConfigPlan
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.config_plan import (
    ScheduledChange,
    make_config_plan,
    make_scheduled_changes,
    require_change_count,
    require_confirmed,
)
from ugm.partition.line_index import CooperativeIteration
from ugm.partition.snapshot import PartitionSnapshot
from ugm.partition.snapshot_parts import SnapshotParts
from ugm.service.operations import OPERATIONS, Arguments, Operation
from ugm.service.session_interface import AbstractSessions

__all__ = [
    "AsyncCaller",
    "AsyncMethod",
    "AsyncRemotePartition",
    "AsyncRemoteSessions",
    "Caller",
    "RemotePartition",
    "RemoteSessions",
]

_P = ParamSpec("_P")
_T_co = TypeVar("_T_co", covariant=True)
_Function = TypeVar("_Function", bound=Callable[..., object])

_CONFIG: Final = OPERATIONS["config"]
_PLAN_INPUT: Final = OPERATIONS["plan_input"]
_APPLY: Final = OPERATIONS["apply"]
_SNAPSHOT: Final = OPERATIONS["snapshot"]
_NO_ARGUMENTS: Final = _CONFIG.encode_arguments(())


class Caller(Protocol):
    """A connection of a `RemotePartition`."""

    def call(self, operation: Operation, arguments: bytes, /) -> Any:  # noqa: ANN401 - the result of the operation
        """Execute an operation and return its decoded result.

        Args:
            operation: the operation.
            arguments: its encoded arguments.

        Raises:
            UgmError: the decoded error of the operation, or of the connection.
        """
        ...


class AsyncCaller(Protocol):
    """A connection of an `AsyncRemotePartition`."""

    def call(self, operation: Operation, arguments: bytes, /) -> Awaitable[Any]:
        """Execute an operation; the awaitable returns what `Caller.call` returns."""
        ...


def _arranged(function: Callable[..., object]) -> Callable[[tuple[Any, ...], JsonObject], Arguments]:
    """Return a function that puts the arguments of a call in order, without defaults at the end.

    It does what `inspect.Signature.bind` does in less time, and leaves wrong calls to it.
    """
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1:]
    defaults = [(one.name, one.default) for one in parameters]
    positional = sum(1 for one in parameters if one.kind is not one.KEYWORD_ONLY)
    missing = inspect.Parameter.empty

    def arrange(args: tuple[Any, ...], kwargs: JsonObject) -> Arguments:
        options = dict(kwargs)
        values = [*args, *(options.pop(name, default) for name, default in defaults[len(args) :])]
        if options or len(args) > positional or missing in values:
            signature.bind(None, *args, **kwargs)
        while values and values[-1] is defaults[len(values) - 1][1]:
            values.pop()
        return tuple(values)

    return arrange


def _calling(declaration: _Function) -> _Function:
    """Return the method that calls an operation of a connection."""
    operation = OPERATIONS[declaration.__name__]
    encode, arrange = operation.encode_arguments, _arranged(declaration)
    parameters = list(inspect.signature(declaration).parameters.values())[1:]
    names = [one.name for one in parameters]
    takes_request = names[:3] == list(AllocationRequest._fields[:3])
    positional = sum(1 for one in parameters if one.kind is not one.KEYWORD_ONLY)
    required = positional if takes_request else sum(1 for one in parameters if one.default is one.empty)

    # The attributes of the declaration say that it is abstract.
    @wraps(declaration, updated=())
    def call(self: RemotePartition | RemoteSessions, /, *args: Any, **kwargs: Any) -> object:  # noqa: ANN401 - as declared
        if kwargs or len(args) != required:
            whole = args[0] if takes_request and len(args) == 1 and not kwargs else None
            args = arrange((), whole._asdict()) if isinstance(whole, AllocationRequest) else arrange(args, kwargs)
            if takes_request and len(args) < required:
                raise RequestError("usage", None, "expected a Resource")
        return self._call(operation, encode(args))

    return cast("_Function", call)


class _LocalOperations:
    """The operations of a `ugm.Partition` that a client of a service does not have.

    They follow every change of the partition in its own process.
    """

    __slots__ = ()

    def scheduling_pass(self, *_: object, **__: object) -> NoReturn:
        """Refuse the call: a client reads the whole order with `order`, and calls `allocate`.

        Raises:
            RequestError: always.
        """
        raise _refusal("scheduling_pass", "read the order with order(), and call allocate()")

    def waiting_list(self) -> NoReturn:
        """Refuse the call: a client subscribes to the releases.

        Raises:
            RequestError: always.
        """
        raise _refusal("waiting_list", "subscribe to the events of the partition, and read the order with order()")

    def wake(self) -> NoReturn:
        """Refuse the call: a client reads the order after each release.

        Raises:
            RequestError: always.
        """
        raise _refusal("wake", "subscribe to the events of the partition, and read the order with order()")


def _refusal(operation: str, instead: str) -> RequestError:
    return RequestError(
        "operation", operation, f"a client of a service does not have it; {instead}", "operation-unavailable"
    )


class RemotePartition(_LocalOperations, AbstractPartition):
    """A partition whose operations are executed by the leader.

    Args:
        connection: the connection to the leader.
    """

    __slots__ = ("_call",)

    def __init__(self, connection: Caller) -> None:
        self._call: Final = connection.call

    # Allocations

    request: Final = _calling(AbstractPartition.request)
    allocate: Final = _calling(AbstractPartition.allocate)
    allocate_ignoring_reservations: Final = _calling(AbstractPartition.allocate_ignoring_reservations)
    allocate_evicting: Final = _calling(AbstractPartition.allocate_evicting)
    allocate_all: Final = _calling(AbstractPartition.allocate_all)
    replace: Final = _calling(AbstractPartition.replace)
    resize: Final = _calling(AbstractPartition.resize)
    renew: Final = _calling(AbstractPartition.renew)
    overdue: Final = _calling(AbstractPartition.overdue)
    expire: Final = _calling(AbstractPartition.expire)
    release_overdue: Final = _calling(AbstractPartition.release_overdue)
    preempt: Final = _calling(AbstractPartition.preempt)
    release: Final = _calling(AbstractPartition.release)
    adopt: Final = _calling(AbstractPartition.adopt)
    reclaim: Final = _calling(AbstractPartition.reclaim)
    carry_out: Final = _calling(AbstractPartition.carry_out)

    # Applications

    submit: Final = _calling(AbstractPartition.submit)
    adopt_application: Final = _calling(AbstractPartition.adopt_application)
    admit: Final = _calling(AbstractPartition.admit)
    end: Final = _calling(AbstractPartition.end)
    complete: Final = _calling(AbstractPartition.complete)
    fail: Final = _calling(AbstractPartition.fail)
    remove: Final = _calling(AbstractPartition.remove)
    time_out_gang: Final = _calling(AbstractPartition.time_out_gang)
    terminate: Final = _calling(AbstractPartition.terminate)

    # Administration

    set_queue_quota: Final = _calling(AbstractPartition.set_queue_quota)
    change_budget: Final = _calling(AbstractPartition.change_budget)
    add_node: Final = _calling(AbstractPartition.add_node)
    update_node: Final = _calling(AbstractPartition.update_node)
    remove_node: Final = _calling(AbstractPartition.remove_node)

    def plan(self, config: PartitionConfig | None) -> ConfigPlan:
        compiled = CompiledConfig.of(config)
        arguments = _PLAN_INPUT.encode_arguments((compiled.needs_allocations,))
        made: ConfigPlan = self._call(_PLAN_INPUT.then(lambda given: make_config_plan(given, compiled)), arguments)
        return made

    def scheduled_changes(self, *, max_changes: int = 10) -> tuple[ScheduledChange, ...]:
        count = require_change_count(max_changes)
        operation = _PLAN_INPUT.then(lambda given: make_scheduled_changes(given, count))
        found: tuple[ScheduledChange, ...] = self._call(operation, _PLAN_INPUT.encode_arguments((False,)))
        return found

    plan_input: Final = _calling(AbstractPartition.plan_input)

    def apply(self, plan: ConfigPlan, *, confirm: bool = False) -> None:
        # The effects of a plan are not sent, so its risks are known only here.
        require_confirmed(plan, confirm=confirm)
        done: None = self._call(_APPLY, _APPLY.encode_arguments((plan, confirm)))
        return done

    configure: Final = _calling(AbstractPartition.configure)
    audit: Final = _calling(AbstractPartition.audit)
    reconcile: Final = _calling(AbstractPartition.reconcile)
    synchronize: Final = _calling(AbstractPartition.synchronize)
    verify: Final = _calling(AbstractPartition.verify)

    # Queries about a subject

    check: Final = _calling(AbstractPartition.check)
    plan_reclaim: Final = _calling(AbstractPartition.plan_reclaim)
    plan_preemption: Final = _calling(AbstractPartition.plan_preemption)
    plan_reductions: Final = _calling(AbstractPartition.plan_reductions)
    reduction_timers: Final = _calling(AbstractPartition.reduction_timers)
    preemption_status: Final = _calling(AbstractPartition.preemption_status)
    explain: Final = _calling(AbstractPartition.explain)
    headroom: Final = _calling(AbstractPartition.headroom)
    pending_headroom: Final = _calling(AbstractPartition.pending_headroom)
    limits: Final = _calling(AbstractPartition.limits)
    place: Final = _calling(AbstractPartition.place)
    explain_submission: Final = _calling(AbstractPartition.explain_submission)

    # Applications and allocations

    application: Final = _calling(AbstractPartition.application)
    applications: Final = _calling(AbstractPartition.applications)
    applications_by_id: Final = _calling(AbstractPartition.applications_by_id)
    application_ids: Final = _calling(AbstractPartition.application_ids)
    application_report: Final = _calling(AbstractPartition.application_report)
    allocation: Final = _calling(AbstractPartition.allocation)
    allocations: Final = _calling(AbstractPartition.allocations)
    allocations_by_id: Final = _calling(AbstractPartition.allocations_by_id)
    allocation_ids: Final = _calling(AbstractPartition.allocation_ids)

    # Queues and nodes

    @property
    def config(self) -> PartitionConfig | None:
        config: PartitionConfig | None = self._call(_CONFIG, _NO_ARGUMENTS)
        return config

    queue: Final = _calling(AbstractPartition.queue)
    queue_alone: Final = _calling(AbstractPartition.queue_alone)
    queue_paths: Final = _calling(AbstractPartition.queue_paths)
    queue_headroom: Final = _calling(AbstractPartition.queue_headroom)
    queue_maximum: Final = _calling(AbstractPartition.queue_maximum)
    pending: Final = _calling(AbstractPartition.pending)
    nodes: Final = _calling(AbstractPartition.nodes)

    # Users and groups

    users: Final = _calling(AbstractPartition.users)
    user: Final = _calling(AbstractPartition.user)
    user_usage: Final = _calling(AbstractPartition.user_usage)
    user_names: Final = _calling(AbstractPartition.user_names)
    user_utilization: Final = _calling(AbstractPartition.user_utilization)
    groups: Final = _calling(AbstractPartition.groups)
    group: Final = _calling(AbstractPartition.group)
    group_names: Final = _calling(AbstractPartition.group_names)
    group_utilization: Final = _calling(AbstractPartition.group_utilization)
    exceeded_limits: Final = _calling(AbstractPartition.exceeded_limits)
    model_utilization: Final = _calling(AbstractPartition.model_utilization)
    budget_accounts: Final = _calling(AbstractPartition.budget_accounts)
    model_reports: Final = _calling(AbstractPartition.model_reports)
    order: Final = _calling(AbstractPartition.order)
    reservations: Final = _calling(AbstractPartition.reservations)

    # The whole partition

    def snapshot(
        self, iterate: CooperativeIteration | None = None, previous: PartitionSnapshot | None = None
    ) -> PartitionSnapshot:
        def made(copied: tuple[CompiledConfig, SnapshotParts]) -> PartitionSnapshot:
            return PartitionSnapshot.of(*copied, iterate).following(previous)

        snapshot: PartitionSnapshot = self._call(_SNAPSHOT.then(made), _NO_ARGUMENTS)
        return snapshot


class RemoteSessions(AbstractSessions):
    """The sessions of a service, whose operations are executed by the leader.

    Args:
        connection: the connection to the leader.
    """

    __slots__ = ("_call",)

    def __init__(self, connection: Caller) -> None:
        self._call: Final = connection.call

    sessions: Final = _calling(AbstractSessions.sessions)
    owned_by: Final = _calling(AbstractSessions.owned_by)
    fence: Final = _calling(AbstractSessions.fence)
    take_over: Final = _calling(AbstractSessions.take_over)
    release_of: Final = _calling(AbstractSessions.release_of)
    forget: Final = _calling(AbstractSessions.forget)


class AsyncMethod(Protocol[_P, _T_co]):
    """The type of a method of an `AsyncRemotePartition`: the declared parameters, and an awaitable result."""

    def __get__(self, partition: object, owner: object, /) -> Callable[_P, Awaitable[_T_co]]:
        """Return the bound method."""
        ...


def _awaitable(method: Callable[Concatenate[Any, _P], _T_co]) -> AsyncMethod[_P, _T_co]:
    """Return a method of `RemotePartition` for asyncio.

    It is the same function. It returns what the connection returns, which is an awaitable here.
    """
    return cast("AsyncMethod[_P, _T_co]", method)


class AsyncRemotePartition(_LocalOperations):
    """A partition whose operations are executed by the leader, for asyncio.

    Its methods are those of `RemotePartition`, and return awaitables. The property `config` is a method here.

    >>> decision = await partition.allocate("app-1-0", "app-1", usage)  # doctest: +SKIP

    Args:
        connection: the connection to the leader.
    """

    __slots__ = ("_call",)

    def __init__(self, connection: AsyncCaller) -> None:
        self._call: Final = connection.call

    # Allocations

    request: Final = _awaitable(RemotePartition.request)
    allocate: Final = _awaitable(RemotePartition.allocate)
    allocate_ignoring_reservations: Final = _awaitable(RemotePartition.allocate_ignoring_reservations)
    allocate_evicting: Final = _awaitable(RemotePartition.allocate_evicting)
    allocate_all: Final = _awaitable(RemotePartition.allocate_all)
    replace: Final = _awaitable(RemotePartition.replace)
    resize: Final = _awaitable(RemotePartition.resize)
    renew: Final = _awaitable(RemotePartition.renew)
    overdue: Final = _awaitable(RemotePartition.overdue)
    expire: Final = _awaitable(RemotePartition.expire)
    release_overdue: Final = _awaitable(RemotePartition.release_overdue)
    preempt: Final = _awaitable(RemotePartition.preempt)
    release: Final = _awaitable(RemotePartition.release)
    adopt: Final = _awaitable(RemotePartition.adopt)
    reclaim: Final = _awaitable(RemotePartition.reclaim)
    carry_out: Final = _awaitable(RemotePartition.carry_out)

    # Applications

    submit: Final = _awaitable(RemotePartition.submit)
    adopt_application: Final = _awaitable(RemotePartition.adopt_application)
    admit: Final = _awaitable(RemotePartition.admit)
    end: Final = _awaitable(RemotePartition.end)
    complete: Final = _awaitable(RemotePartition.complete)
    fail: Final = _awaitable(RemotePartition.fail)
    remove: Final = _awaitable(RemotePartition.remove)
    time_out_gang: Final = _awaitable(RemotePartition.time_out_gang)
    terminate: Final = _awaitable(RemotePartition.terminate)

    # Administration

    set_queue_quota: Final = _awaitable(RemotePartition.set_queue_quota)
    change_budget: Final = _awaitable(RemotePartition.change_budget)
    add_node: Final = _awaitable(RemotePartition.add_node)
    update_node: Final = _awaitable(RemotePartition.update_node)
    remove_node: Final = _awaitable(RemotePartition.remove_node)

    plan: Final = _awaitable(RemotePartition.plan)

    scheduled_changes: Final = _awaitable(RemotePartition.scheduled_changes)
    plan_input: Final = _awaitable(RemotePartition.plan_input)
    apply: Final = _awaitable(RemotePartition.apply)
    configure: Final = _awaitable(RemotePartition.configure)
    audit: Final = _awaitable(RemotePartition.audit)
    reconcile: Final = _awaitable(RemotePartition.reconcile)
    synchronize: Final = _awaitable(RemotePartition.synchronize)
    verify: Final = _awaitable(RemotePartition.verify)

    # Queries about a subject

    check: Final = _awaitable(RemotePartition.check)
    plan_reclaim: Final = _awaitable(RemotePartition.plan_reclaim)
    plan_preemption: Final = _awaitable(RemotePartition.plan_preemption)
    plan_reductions: Final = _awaitable(RemotePartition.plan_reductions)
    reduction_timers: Final = _awaitable(RemotePartition.reduction_timers)
    preemption_status: Final = _awaitable(RemotePartition.preemption_status)
    explain: Final = _awaitable(RemotePartition.explain)
    headroom: Final = _awaitable(RemotePartition.headroom)
    pending_headroom: Final = _awaitable(RemotePartition.pending_headroom)
    limits: Final = _awaitable(RemotePartition.limits)
    place: Final = _awaitable(RemotePartition.place)
    explain_submission: Final = _awaitable(RemotePartition.explain_submission)

    # Applications and allocations

    application: Final = _awaitable(RemotePartition.application)
    applications: Final = _awaitable(RemotePartition.applications)
    applications_by_id: Final = _awaitable(RemotePartition.applications_by_id)
    application_ids: Final = _awaitable(RemotePartition.application_ids)
    application_report: Final = _awaitable(RemotePartition.application_report)
    allocation: Final = _awaitable(RemotePartition.allocation)
    allocations: Final = _awaitable(RemotePartition.allocations)
    allocations_by_id: Final = _awaitable(RemotePartition.allocations_by_id)
    allocation_ids: Final = _awaitable(RemotePartition.allocation_ids)

    # Queues and nodes

    def config(self) -> Awaitable[PartitionConfig | None]:
        """Return the configuration in force, as it was passed; None if there is none."""
        return self._call(_CONFIG, _NO_ARGUMENTS)

    queue: Final = _awaitable(RemotePartition.queue)
    queue_alone: Final = _awaitable(RemotePartition.queue_alone)
    queue_paths: Final = _awaitable(RemotePartition.queue_paths)
    queue_headroom: Final = _awaitable(RemotePartition.queue_headroom)
    queue_maximum: Final = _awaitable(RemotePartition.queue_maximum)
    pending: Final = _awaitable(RemotePartition.pending)
    nodes: Final = _awaitable(RemotePartition.nodes)

    # Users and groups

    users: Final = _awaitable(RemotePartition.users)
    user: Final = _awaitable(RemotePartition.user)
    user_usage: Final = _awaitable(RemotePartition.user_usage)
    user_names: Final = _awaitable(RemotePartition.user_names)
    user_utilization: Final = _awaitable(RemotePartition.user_utilization)
    groups: Final = _awaitable(RemotePartition.groups)
    group: Final = _awaitable(RemotePartition.group)
    group_names: Final = _awaitable(RemotePartition.group_names)
    group_utilization: Final = _awaitable(RemotePartition.group_utilization)
    exceeded_limits: Final = _awaitable(RemotePartition.exceeded_limits)
    model_utilization: Final = _awaitable(RemotePartition.model_utilization)
    budget_accounts: Final = _awaitable(RemotePartition.budget_accounts)
    model_reports: Final = _awaitable(RemotePartition.model_reports)
    order: Final = _awaitable(RemotePartition.order)
    reservations: Final = _awaitable(RemotePartition.reservations)

    # The whole partition

    snapshot: Final = _awaitable(RemotePartition.snapshot)


class AsyncRemoteSessions:
    """The sessions of a service for asyncio: the methods of `RemoteSessions`, which return awaitables here.

    Args:
        connection: the connection to the leader.
    """

    __slots__ = ("_call",)

    def __init__(self, connection: AsyncCaller) -> None:
        self._call: Final = connection.call

    sessions: Final = _awaitable(RemoteSessions.sessions)
    owned_by: Final = _awaitable(RemoteSessions.owned_by)
    fence: Final = _awaitable(RemoteSessions.fence)
    take_over: Final = _awaitable(RemoteSessions.take_over)
    release_of: Final = _awaitable(RemoteSessions.release_of)
    forget: Final = _awaitable(RemoteSessions.forget)
