"""What a server serves, and what one request asks of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, Final, NamedTuple, final

from ugm.partition import Partition, PartitionSnapshot
from ugm.server.configurations import Configurations
from ugm.server.cooperative import cooperatively
from ugm.server.errors import ApiError, unknown
from ugm.server.history import History
from ugm.server.worker import Worker

__all__ = ["RequestContext", "ServerState"]


@final
class ServerState:
    """Everything that answers are made from."""

    __slots__ = (
        "_snapshots",
        "configurations",
        "extra_states",
        "histories",
        "partitions",
        "read_only",
        "started",
        "worker",
    )

    def __init__(
        self,
        partitions: Mapping[str, Partition],
        histories: Mapping[str, History],
        configurations: Configurations,
        extra_states: Mapping[str, Callable[[], Any]],
        *,
        read_only: bool,
        started: float,
        worker: Worker,
    ) -> None:
        #: By name.
        self.partitions: Final = partitions
        #: Of those partitions that somebody follows.
        self.histories: Final = histories
        self.configurations: Final = configurations
        #: What else can be looked at: name to what returns it, ready for JSON or with a `to_dict`.
        self.extra_states: Final = extra_states
        self.read_only: Final = read_only
        #: When the server was made, in seconds since 1970.
        self.started: Final = started
        #: Reads the configurations that clients send.
        self.worker: Final = worker
        #: The newest snapshot of each partition, and when it was begun.
        self._snapshots: Final[dict[str, tuple[float, PartitionSnapshot]]] = {}

    def snapshot(self, name: str, since: float) -> PartitionSnapshot:
        """Return a partition at a moment that is not before *since*, on the clock of `time.perf_counter`.

        Requests that wait for their turn at the same time share a snapshot, so that many clients do not take the lock
        of the partition more often than one.
        """
        known = self._snapshots.get(name)
        if known is not None and known[0] >= since:
            return known[1]
        began = perf_counter()
        taken = self.partitions[name].snapshot(cooperatively)
        self._snapshots[name] = began, taken
        return taken


class RequestContext(NamedTuple):
    """One request, taken apart and checked."""

    site: ServerState
    #: The parts of the path by name.
    path: Mapping[str, str]
    #: Those that were given, as the description types them.
    query: Mapping[str, Any]
    #: What JSON holds, or a text; None where there is none.
    body: Any
    #: When it came in, on the clock of `time.perf_counter`.
    arrived: float = float("inf")
    #: The address of the client.
    client: str = "unknown"

    @property
    def partition_name(self) -> str:
        """The partition that is asked about, which may not exist."""
        return self.path["partition"]

    @property
    def partition(self) -> Partition:
        """The partition that is asked about.

        Raises:
            ApiError: there is no such partition.
        """
        found = self.site.partitions.get(self.partition_name)
        if found is None:
            raise unknown("partition", self.partition_name)
        return found

    def snapshot(self) -> PartitionSnapshot:
        """Return the partition that is asked about at a moment after the request; all of an answer is made from it.

        Raises:
            ApiError: there is no such partition.
        """
        _ = self.partition
        return self.site.snapshot(self.partition_name, self.arrived)

    @property
    def history(self) -> History:
        """What is remembered of the partition that is asked about.

        Raises:
            ApiError: there is no such partition, or nobody follows it.
        """
        _ = self.partition
        found = self.site.histories.get(self.partition_name)
        if found is None:
            raise ApiError(404, "history-missing", "the partition was started without a history")
        return found
