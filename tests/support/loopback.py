"""A remote partition whose leader is in the same process: every call is encoded, decoded, executed and answered."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw
from msgspec.json import decode

from ugm.partition import AbstractPartition
from ugm.service.protocol.operations import OPERATIONS, Operation
from ugm.service.protocol.values import decode_error, encode_error
from ugm.service.protocol.wire import Result
from ugm.service.remote import AsyncRemotePartition, RemotePartition


class Loopback:
    """A connection to a partition in the same process."""

    def __init__(self, partition: AbstractPartition) -> None:
        self.partition: Final = partition

    def call(self, operation: Operation, arguments: bytes, /) -> Any:  # noqa: ANN401 - the result of the operation
        """Execute an operation as a leader does, which knows only its name."""
        found = OPERATIONS[operation.name]
        try:
            answer = found.result.encode(found.run(self.partition, found.decode_arguments(Raw(arguments))))
        except Exception as error:  # noqa: BLE001 - encoded
            name, data, _, _ = decode(b"[%b]" % encode_error(error), type=tuple[str, Raw, str, str])
            raise decode_error(name, data) from None
        message = decode(b'["result",0,%b]' % answer, type=Result)
        return operation.result.decode(message.value, message.special)


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
