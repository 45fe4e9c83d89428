"""Access to the partition for programs in a process of the service: its server, page and metrics.

While the process leads, its own engine executes the operations. While it stands by, they go to the leader. So a program
can keep one partition object.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import Any, Final, final

from ugm.partition import AbstractPartition
from ugm.service.connection import ClientConnection
from ugm.service.errors import UnavailableError
from ugm.service.operations import RESULT, Operation

__all__ = ["ServiceCaller"]


@final
class ServiceCaller:
    """Executes operations in this process or at the leader; a `ugm.service.remote_partition.Caller`.

    Args:
        engine: returns the partition while this process leads; otherwise None.
        connect: connects to the leader.
    """

    __slots__ = ("_connect", "_connection", "_engine", "_failed_at", "_failure", "_guard")

    def __init__(self, engine: Callable[[], AbstractPartition | None], connect: Callable[[], ClientConnection]) -> None:
        self._engine: Final = engine
        self._connect: Final = connect
        self._guard: Final = Lock()
        self._connection: ClientConnection | None = None
        #: The last failure to connect, and its time on the monotonic clock.
        self._failure: UnavailableError | None = None
        self._failed_at = 0.0

    def call(self, operation: Operation, arguments: bytes, /) -> Any:  # noqa: ANN401 - the result of the operation
        """Execute an operation and return its result."""
        partition = None if operation.is_about_sessions else self._engine()
        if partition is None:
            return self._remote().call(operation, arguments)
        # The result is encoded and decoded as for a client, so both ways return equal values.
        status, value = operation.execute(partition, arguments)
        if status == RESULT:
            return operation.decode_result(bytes(value))
        raise operation.decode_error(bytes(value))

    def _remote(self) -> ClientConnection:
        began = monotonic()
        with self._guard:
            if self._connection is None:
                if self._failure is not None and self._failed_at > began:
                    # This thread has waited for the attempt of another one, and its own time is up.
                    raise type(self._failure)(self._failure.addresses, self._failure.reason)
                self._connection = self._connected()
            return self._connection

    def _connected(self) -> ClientConnection:
        try:
            return self._connect()
        except UnavailableError as error:
            self._failure, self._failed_at = error, monotonic()
            raise

    def close(self) -> None:
        """Close the connection to the leader, if there is one."""
        with self._guard:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
