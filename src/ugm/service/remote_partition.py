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

from ugm.configuration import PartitionConfig
from ugm.errors import RequestError
from ugm.partition import AbstractPartition
from ugm.service.operations import OPERATIONS, Operation
from ugm.service.session_interface import AbstractSessions

# All methods are added below, which type checkers do not know.
if TYPE_CHECKING:
    from ugm.partition import Partition as Declarations
    from ugm.service.sessions import LeaderSessions as SessionDeclarations
else:
    Declarations, SessionDeclarations = AbstractPartition, AbstractSessions

__all__ = ["AsyncRemotePartition", "AsyncRemoteSessions", "Caller", "RemotePartition", "RemoteSessions"]

#: The operations that follow every change of the partition in its own process, and what a client does instead.
_LOCAL: Final = {
    "scheduling_pass": "read the order with order(), and call allocate()",
    "waiting_list": "subscribe to the events of the partition, and read the order with order()",
    "wake": "subscribe to the events of the partition, and read the order with order()",
}


class Caller(Protocol):
    """A connection of a `RemotePartition`."""

    def call(self, operation: Operation, arguments: bytes, /) -> Any:  # noqa: ANN401 - the result, or an awaitable
        """Execute an operation with encoded arguments, and return its decoded result or raise its error."""
        ...


class _Remote:
    """Operations that the leader executes.

    Args:
        connection: the connection to the leader.
    """

    def __init__(self, connection: Caller) -> None:
        self._call: Final = connection.call


class _AsyncRemote(_Remote):
    """The same for asyncio: ``call`` returns an awaitable, and so does each method."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]: ...


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


class RemotePartition(_Remote, Declarations):
    """A partition whose operations are executed by the leader.

    Args:
        connection: the connection to the leader.
    """

    @property
    def config(self) -> PartitionConfig | None:
        found: PartitionConfig | None = self._call(OPERATIONS["config"], b"{}")
        return found


class RemoteSessions(_Remote, SessionDeclarations):
    """The sessions of a service, whose operations are executed by the leader.

    Args:
        connection: the connection to the leader.
    """


class AsyncRemotePartition(_AsyncRemote):
    """A partition whose operations are executed by the leader, for asyncio.

    Its methods are those of `RemotePartition`, and return awaitables. The property `config` is a method here.

    >>> decision = await partition.allocate("app-1-0", "app-1", usage)  # doctest: +SKIP

    Args:
        connection: the connection to the leader.
    """


class AsyncRemoteSessions(_AsyncRemote):
    """The sessions of a service, for asyncio: the methods of `RemoteSessions`, which return awaitables.

    Args:
        connection: the connection to the leader.
    """


def _with_operations(kind: type, *, of_sessions: bool) -> None:
    """Add the methods of all operations that a class does not define."""
    local = {name: _refused(name, instead) for name, instead in _LOCAL.items()}
    remote = {name: _calling(one) for name, one in OPERATIONS.items() if one.is_about_sessions is of_sessions}
    for name, method in (remote if of_sessions else remote | local).items():
        if name not in vars(kind):
            setattr(kind, name, method)
    update_abstractmethods(kind)


for _kind in (RemotePartition, AsyncRemotePartition):
    _with_operations(_kind, of_sessions=False)
_with_operations(RemoteSessions, of_sessions=True)
_with_operations(AsyncRemoteSessions, of_sessions=True)
