"""A remote partition whose leader is in the same process: every call is encoded, decoded, executed and answered."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw

from ugm.partition import AbstractPartition
from ugm.service.operations import RESULT, Operation, operations_of
from ugm.service.remote_partition import AsyncRemotePartition, RemotePartition
from ugm.service.wire import OperationRequest

__all__ = ["AsyncLoopback", "Loopback", "remote"]


class Loopback:
    """A connection to a partition in the same process."""

    def __init__(self, partition: AbstractPartition) -> None:
        self.partition: Final = partition

    def call(self, operation: Operation, arguments: bytes, /) -> Any:  # noqa: ANN401 - the result of the operation
        """Execute an operation as a leader does, which knows only its number."""
        [found] = operations_of([OperationRequest(operation.number, Raw(arguments))])
        status, answer = found.execute(self.partition, Raw(arguments))
        if status == RESULT:
            return operation.decode_result(answer)
        raise operation.decode_error(answer)


class AsyncLoopback:
    """The same for asyncio."""

    def __init__(self, partition: AbstractPartition) -> None:
        self._loopback: Final = Loopback(partition)

    async def call(self, operation: Operation, arguments: bytes, /) -> Any:  # noqa: ANN401 - as above
        """Execute an operation."""
        return self._loopback.call(operation, arguments)


def remote(partition: AbstractPartition) -> RemotePartition:
    """Return the remote partition of a partition."""
    return RemotePartition(Loopback(partition))


def async_remote(partition: AbstractPartition) -> AsyncRemotePartition:
    """Return the remote partition of a partition for asyncio."""
    return AsyncRemotePartition(AsyncLoopback(partition))
