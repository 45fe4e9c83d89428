"""A partition in another process: the partition interface over a connection.

A `RemotePartition` has no state. Each of its methods encodes the arguments and passes them to its connection, which
returns the decoded result. An `AsyncRemotePartition` is the same for asyncio: its methods have the same parameters and
return awaitables. The methods are derived from `ugm.service.operations`.
"""

from __future__ import annotations

from abc import update_abstractmethods
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from ugm.arguments import require_whole
from ugm.configuration import PartitionConfig
from ugm.errors import RequestError
from ugm.partition import AbstractPartition, ConfigPlan
from ugm.partition.answers.snapshot import PartitionSnapshot
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.config.plan import (
    ScheduledChange,
    make_config_plan,
    make_scheduled_changes,
    require_confirmed,
)
from ugm.service.operations import OPERATIONS, Operation
from ugm.service.session_interface import AbstractSessions

# All methods are added below, which type checkers do not know.
if TYPE_CHECKING:
    from ugm.partition import Partition as Declarations
    from ugm.service.sessions import LeaderSessions as SessionDeclarations
else:
    Declarations, SessionDeclarations = AbstractPartition, AbstractSessions

__all__ = ["AsyncCaller", "AsyncRemotePartition", "AsyncRemoteSessions", "Caller", "RemotePartition", "RemoteSessions"]

#: The operations that follow every change of the partition in its own process, and what a client does instead.
_LOCAL: Final = {
    "scheduling_pass": "read the order with order(), and call allocate()",
    "waiting_list": "subscribe to the events of the partition, and read the order with order()",
    "wake": "subscribe to the events of the partition, and read the order with order()",
}


class Caller(Protocol):
    """A connection of a `RemotePartition`."""

    def call(self, operation: Operation, arguments: bytes, /) -> Any:  # noqa: ANN401 - the result of the operation
        """Execute an operation with encoded arguments, and return its decoded result or raise its error."""
        ...


class AsyncCaller(Protocol):
    """A connection of an `AsyncRemotePartition`."""

    def call(self, operation: Operation, arguments: bytes, /) -> Awaitable[Any]:
        """Execute an operation; the awaitable returns what `Caller.call` returns."""
        ...


def _refused(name: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        reason = f"a client of a service does not have it; {instead}"
        raise RequestError("operation", name, reason, "operation-unavailable")

    return refuse


def _calling(operation: Operation) -> Callable[..., Any]:
    """Return the method that calls an operation of a connection."""
    encode_arguments = operation.encode_arguments

    # The attributes of the declaration say that it is abstract.
    @wraps(operation.declaration, updated=())
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as declared
        return self._call(operation, encode_arguments(args, kwargs))

    call.operation = operation  # type: ignore[attr-defined]  # for promises
    return call


def _with_operations(kind: type, *, of_sessions: bool) -> None:
    """Add the methods of all operations that a class does not define."""
    for name, operation in OPERATIONS.items():
        if operation.is_about_sessions is of_sessions and name not in vars(kind):
            setattr(kind, name, _calling(operation))
    if not of_sessions:
        for name, instead in _LOCAL.items():
            setattr(kind, name, _refused(name, instead))
    update_abstractmethods(kind)


class RemotePartition(Declarations):
    """A partition whose operations are executed by the leader.

    Args:
        connection: the connection to the leader.
    """

    __slots__ = ("_call",)

    def __init__(self, connection: Caller) -> None:
        self._call: Final = connection.call

    @property
    def config(self) -> PartitionConfig | None:
        found: PartitionConfig | None = self._call(OPERATIONS["config"], b"{}")
        return found

    def plan(self, config: PartitionConfig | None) -> ConfigPlan:
        compiled = CompiledConfig.of(config)
        return make_config_plan(self.plan_input(), compiled)

    def scheduled_changes(self, *, max_changes: int = 10) -> tuple[ScheduledChange, ...]:
        count = require_whole("max_changes", max_changes)
        return make_scheduled_changes(self.plan_input(), count)

    def apply(self, plan: ConfigPlan, *, confirm: bool = False) -> None:
        # The effects of a plan are not sent, so its risks are known only here.
        require_confirmed(plan, confirm=confirm)
        self._call(OPERATIONS["apply"], OPERATIONS["apply"].encode_arguments((plan,), {"confirm": confirm}))

    def snapshot(self) -> PartitionSnapshot:
        found: PartitionSnapshot = self._call(OPERATIONS["snapshot"], b"{}")
        return found


class RemoteSessions(SessionDeclarations):
    """The sessions of a service, whose operations are executed by the leader.

    Args:
        connection: the connection to the leader.
    """

    __slots__ = ("_call",)

    def __init__(self, connection: Caller) -> None:
        self._call: Final = connection.call


class AsyncRemotePartition:
    """A partition whose operations are executed by the leader, for asyncio.

    Its methods are those of `RemotePartition`, and return awaitables. The property `config` is a method here.

    >>> decision = await partition.allocate("app-1-0", "app-1", usage)  # doctest: +SKIP

    Args:
        connection: the connection to the leader.
    """

    __slots__ = ("_call",)

    def __init__(self, connection: AsyncCaller) -> None:
        self._call: Final = connection.call

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]: ...

    async def plan(self, config: PartitionConfig | None) -> ConfigPlan:
        """Return the effects that another configuration would have; see `RemotePartition`."""
        compiled = CompiledConfig.of(config)
        return make_config_plan(await self.plan_input(), compiled)

    async def scheduled_changes(self, *, max_changes: int = 10) -> tuple[ScheduledChange, ...]:
        """Return the next changes of limits by the schedule of the configuration; see `RemotePartition`."""
        count = require_whole("max_changes", max_changes)
        return make_scheduled_changes(await self.plan_input(), count)

    async def apply(self, plan: ConfigPlan, *, confirm: bool = False) -> None:
        """Put the configuration of a plan in force; see `RemotePartition`."""
        require_confirmed(plan, confirm=confirm)
        await self._call(OPERATIONS["apply"], OPERATIONS["apply"].encode_arguments((plan,), {"confirm": confirm}))

    async def snapshot(self) -> PartitionSnapshot:
        """Return a copy of the partition at this moment; see `RemotePartition`."""
        found: PartitionSnapshot = await self._call(OPERATIONS["snapshot"], b"{}")
        return found


class AsyncRemoteSessions:
    """The sessions of a service, for asyncio: the methods of `RemoteSessions`, which return awaitables.

    Args:
        connection: the connection to the leader.
    """

    __slots__ = ("_call",)

    def __init__(self, connection: AsyncCaller) -> None:
        self._call: Final = connection.call

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]: ...


for _kind in (RemotePartition, AsyncRemotePartition):
    _with_operations(_kind, of_sessions=False)
_with_operations(RemoteSessions, of_sessions=True)
_with_operations(AsyncRemoteSessions, of_sessions=True)
