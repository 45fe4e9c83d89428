"""The state of one server: its partitions, with what the endpoints show of them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar, final

from ugm.partition import AbstractPartition, ModelReport, PartitionSnapshot, ThresholdWatch
from ugm.server.configuration.configurations import Configurations
from ugm.server.history import History
from ugm.store.reader import StoreLocation

if TYPE_CHECKING:
    # At run time it needs the extra of services.
    from ugm.service.status import ServiceStatus

__all__ = ["ServedPartition", "ServerState"]

_T = TypeVar("_T")


@final
class _Shared(Generic[_T]):
    """The newest result of a function, which requests that wait at the same time share."""

    __slots__ = ("_lock", "_newest", "_read")

    def __init__(self, read: Callable[[], _T]) -> None:
        self._read: Final = read
        self._lock: Final = Lock()
        #: With the time when its creation began.
        self._newest: tuple[float, _T] | None = None

    def since(self, moment: float) -> _T:
        """Return a result of a moment that is not before another one, on the clock of `time.perf_counter`."""
        with self._lock:
            if self._newest is None or self._newest[0] < moment:
                began = perf_counter()
                self._newest = began, self._read()
            return self._newest[1]


@final
class ServedPartition:
    """A partition with its newest snapshot, and with its history, store and service if it has them."""

    __slots__ = ("_reports", "_snapshots", "history", "name", "now", "partition", "service", "store", "thresholds")

    def __init__(
        self,
        name: str,
        partition: AbstractPartition,
        clock: Callable[[], float] = time.time,
        *,
        history: History | None = None,
        services: Callable[[], ServiceStatus] | None = None,
        stores: StoreLocation | None = None,
        thresholds: ThresholdWatch | None = None,
    ) -> None:
        self.name: Final = name
        self.partition: Final = partition
        self.thresholds: Final = thresholds or ThresholdWatch(partition)
        #: Returns the time in seconds since 1970.
        self.now: Final = clock
        self.history: Final = history
        self.service: Final = services
        self.store: Final = stores
        self._snapshots: Final = _Shared(partition.snapshot)
        self._reports: Final = _Shared(partition.model_reports)

    def snapshot(self, since: float) -> PartitionSnapshot:
        """Return the partition at a moment that is not before *since*, on the clock of `time.perf_counter`.

        Requests that wait at the same time share a snapshot, so the number of clients does not determine how often the
        lock of the partition is taken.
        """
        return self._snapshots.since(since)

    def reports(self, since: float) -> tuple[ModelReport, ...]:
        """Return the states of the quota models at such a moment."""
        return self._reports.since(since)

    def submitted_at(self, application_id: str) -> float | None:
        """Return when an application was submitted, in seconds since 1970; None if that is not known."""
        return None if self.history is None else self.history.submitted_at(application_id)

    def requested_at(self, allocation_id: str) -> float | None:
        """Return when a pending allocation was requested, in seconds since 1970; None if that is not known."""
        return None if self.history is None else self.history.requested_at(allocation_id)


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
    #: The number of running applications in the last hour, with its time in seconds since 1970.
    application_counts: deque[tuple[float, int]]

    def count_applications(self) -> None:
        """Note how many applications run now."""
        snapshots = [served.snapshot(perf_counter()) for served in self.partitions.values()]
        queues = (snapshot.queue() for snapshot in snapshots)
        total = sum(queue.running_applications for queue in queues if queue is not None)
        now = max((served.now() for served in self.partitions.values()), default=self.started)
        self.application_counts.append((now, total))
