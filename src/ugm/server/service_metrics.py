"""Metrics of a service: its leader, standbys, sessions, operations and commits."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING

from ugm.server.metric_samples import MetricSamples

if TYPE_CHECKING:
    # At run time it needs the extra of services.
    from ugm.service.status import ServiceStatus

__all__ = ["add_service"]


def add_service(samples: MetricSamples, partition: str, status: ServiceStatus) -> None:
    """Add the samples of a service; most of them only for its leader, so that they can be summed over all processes."""
    samples.add("ugm_service_leading", status.is_leading, partition=partition)
    samples.add("ugm_service_term", status.term, partition=partition)
    if not status.is_leading:
        return
    silent = status.sessions - status.connected
    for state, count in (("connected", status.connected), ("silent", silent)):
        samples.add("ugm_service_sessions", count, partition=partition, state=state)
    samples.add("ugm_service_waiting_operations", status.waiting, partition=partition)
    samples.add("ugm_service_log_available", not status.outage, partition=partition)
    samples.add("ugm_service_change", status.change, partition=partition)
    samples.add("ugm_service_standbys", len(status.standbys), partition=partition)
    for standby in status.standbys:
        labels = {"partition": partition, "standby": standby.name, "address": standby.address}
        samples.add("ugm_service_standby_lag_changes", standby.lag, **labels)
        samples.add("ugm_service_standby_age_seconds", standby.seconds, **labels)
    for name, times in (("operation", status.operations), ("commit", status.commits)):
        buckets = _cumulative(times.buckets)
        samples.add_histogram(f"ugm_service_{name}_seconds", buckets, times.seconds, partition=partition)


def _cumulative(counts: Iterable[int]) -> list[tuple[float, int]]:
    from ugm.service.status import BUCKET_BOUNDS  # noqa: PLC0415 - needs the extra of services, which a status implies

    return list(zip((*BUCKET_BOUNDS, float("inf")), accumulate(counts), strict=True))
