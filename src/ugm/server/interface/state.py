"""The state of one server: its partitions, with what the endpoints show of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ugm.partition import AbstractPartition, ThresholdWatch
from ugm.server.configuration.configurations import Configurations
from ugm.server.history import History
from ugm.store.reader import StoreLocation

if TYPE_CHECKING:
    # At run time it needs the extra of services.
    from ugm.service.protocol.status import ServiceStatus

__all__ = ["ServedPartition", "ServerState"]


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
        snapshots = [served.partition.snapshot() for served in self.partitions.values()]
        queues = (snapshot.queue() for snapshot in snapshots)
        total = sum(queue.running_applications for queue in queues if queue is not None)
        now = max((served.now() for served in self.partitions.values()), default=self.started)
        self.application_counts.append((now, total))
