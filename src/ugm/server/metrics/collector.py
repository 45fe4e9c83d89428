"""Metrics for Prometheus, computed at each scrape, with a bounded number of series.

`ugm.server.metrics.table` describes the metrics; this module computes their values.

A scrape copies each partition at one moment, so the usage and the limits of one scrape are consistent. Each series
costs memory in Prometheus, so only the users and groups that are closest to a limit have series of their own.

Usage and limit with the same labels have the same scope: their quotient is the used part of the limit.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from heapq import nlargest
from itertools import accumulate, product
from threading import Lock
from typing import TYPE_CHECKING, Final, final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from ugm.arguments import require_count
from ugm.identity import ancestors
from ugm.partition import (
    AbstractPartition,
    AllocationState,
    LimitUtilization,
    PartitionSnapshot,
    PreemptionStatus,
    ThresholdWatch,
)
from ugm.queues import QueueState
from ugm.resources import MEMORY, VCORE, Resource, as_float
from ugm.server.history import History
from ugm.server.metrics.models import ModelMetrics
from ugm.server.metrics.samples import MetricSamples
from ugm.server.metrics.table import MetricKind
from ugm.server.metrics.timing import DecisionTimes
from ugm.tracking import EffectiveLimit

if TYPE_CHECKING:
    # At run time it needs the extra of services.
    from ugm.service.status import ServiceStatus

__all__ = ["PartitionCollector", "exposition"]

#: The kinds of limits with thresholds.
_THRESHOLD_KINDS: Final = ("budget", "elastic group", "group", "queue", "quota node", "user")
#: The difference of shares at which a name replaces another one in the selection.
_MARGIN: Final = 0.25
#: The number of limits of one user or group with series: those closest to the root, because their scope is largest.
_MOST_LIMITS: Final = 5


@final
class PartitionCollector(Collector):
    """A collector for the metrics of several partitions, for a ``prometheus_client.CollectorRegistry``.

    Args:
        partitions: the partitions by name.
        history: the histories by name of their partition, for denials, events and the age of pending requests.
        services: functions that return the status of a service, by name of its partition.
        times: the decision times by name of their partition.
        thresholds: the watches of thresholds by name of their partition, as passed to `ugm.server.create_app`, which
            updates them.
        most: the number of users, and of groups, of each partition that have series of their own.
        most_queues: the number of queues of each partition that do; configured queues come first.
        most_resources: the number of resources of each partition that do; those that are limited come first.
        most_nodes: the number of elastic groups or nodes of each tree, and of accounts of budgets, that do.
        clock: returns the time, in seconds since 1970.
    """

    __slots__ = (
        "_clock",
        "_history",
        "_lock",
        "_most",
        "_most_nodes",
        "_most_queues",
        "_most_resources",
        "_partitions",
        "_selections",
        "_services",
        "_thresholds",
        "_times",
    )

    def __init__(  # noqa: PLR0913 - one for each bound
        self,
        partitions: Mapping[str, AbstractPartition],
        *,
        history: Mapping[str, History] | None = None,
        services: Mapping[str, Callable[[], ServiceStatus]] | None = None,
        times: Mapping[str, DecisionTimes] | None = None,
        thresholds: Mapping[str, ThresholdWatch] | None = None,
        most: int = 50,
        most_queues: int = 500,
        most_resources: int = 50,
        most_nodes: int = 100,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock: Final = clock
        self._partitions: Final = dict(partitions)
        self._history: Final = dict(history or {})
        self._services: Final = dict(services or {})
        self._times: Final = dict(times or {})
        self._thresholds: Final = dict(thresholds or {})
        self._most: Final = require_count("most", most)
        self._most_queues: Final = require_count("most_queues", most_queues)
        self._most_resources: Final = require_count("most_resources", most_resources)
        self._most_nodes: Final = require_count("most_nodes", most_nodes)
        #: The selected names, by partition and kind or tree; the lock is for simultaneous scrapes.
        self._selections: Final[dict[tuple[str, ...], frozenset[str]]] = {}
        self._lock: Final = Lock()

    def describe(self) -> Iterator[Metric]:
        """Return no metrics, so that registration does not read the partitions."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics with their current values."""
        yield from _families(self.samples())

    def samples(self) -> MetricSamples:
        """Return the current values of all metrics."""
        samples = MetricSamples()
        for name, partition in self._partitions.items():
            self._add_partition(samples, name, partition)
        for name, history in self._history.items():
            _add_events(samples, name, history)
        for name, times in self._times.items():
            samples.add_histogram("ugm_decision_seconds", *times.read(), partition=name)
        for name, watch in self._thresholds.items():
            _add_thresholds(samples, name, watch)
        for name, status in self._services.items():
            _add_service(samples, name, status())
        return samples

    def _add_partition(self, samples: MetricSamples, name: str, partition: AbstractPartition) -> None:
        snapshot = partition.snapshot()
        oldest = self._oldest(name, partition)
        users = self._leading(name, "user", snapshot.user_names, lambda name: snapshot.limits_of_user(name).share)
        groups = self._leading(name, "group", snapshot.group_names, lambda name: snapshot.limits_of_group(name).share)
        queues = self._shown_queues(snapshot)
        resources = self._shown_resources(name, snapshot, queues)
        _add_totals(samples, name, snapshot)
        for state in queues:
            _add_queue(samples, name, state, snapshot, resources)
            if ("queue", state.queue_path) in oldest:
                age = self._clock() - oldest["queue", state.queue_path]
                samples.add("ugm_queue_oldest_pending_seconds", age, partition=name, queue=state.queue_path)
        for user in users:
            utilization = snapshot.limits_of_user(user).utilization
            _add_owner(samples, name, "user", utilization, snapshot.limits_of_user(user).effective, resources)
            pending = snapshot.pending.users.get(user)
            count = pending.item_count if pending else 0
            samples.add("ugm_user_pending_allocations", count, partition=name, user=user)
            if ("user", user) in oldest:
                age = self._clock() - oldest["user", user]
                samples.add("ugm_user_oldest_pending_seconds", age, partition=name, user=user)
        for group in groups:
            utilization = snapshot.limits_of_group(group).utilization
            _add_owner(samples, name, "group", utilization, snapshot.limits_of_group(group).effective, resources)
        _add_preemption(samples, name, partition.preemption_status())
        ModelMetrics(samples, name, self._select, self._most_nodes).add(partition.model_reports(), users)

    def _oldest(self, name: str, partition: AbstractPartition) -> dict[tuple[str, str], float]:
        """Return the time of the oldest pending request of every queue and user that has one, by kind and name."""
        times = dict(self._history[name].requests()) if name in self._history else {}
        found: dict[tuple[str, str], float] = {}
        for one in partition.allocations_by_id(times):
            # The times follow events, so a request may have ended.
            if one.allocation.state is AllocationState.PENDING:
                at = times[one.allocation.allocation_id]
                for key in (("user", one.user), *(("queue", path) for path in ancestors(one.queue_path))):
                    found[key] = min(at, found.get(key, at))
        return found

    def _shown_queues(self, snapshot: PartitionSnapshot) -> list[QueueState]:
        root = snapshot.queue()
        states = [] if root is None else list(root.walk())
        states.sort(key=lambda state: (not state.is_managed, state.queue_path.count("."), state.queue_path))
        return states[: self._most_queues]

    def _shown_resources(self, name: str, snapshot: PartitionSnapshot, queues: Iterable[QueueState]) -> frozenset[str]:
        """Return the resources that have series; clients choose the names of those that they request."""
        known = {VCORE, MEMORY}.union(
            snapshot.cluster or (),
            *((one.max_resources or {}).keys() | (one.guaranteed or {}).keys() for one in queues),
        )
        found = {**dict.fromkeys(snapshot.usage(), 0.0), **dict.fromkeys(known, 1.0)}
        return frozenset(self._select((name, "resource"), self._most_resources, found))

    def _leading(self, partition: str, kind: str, names: Iterable[str], share: Callable[[str], float]) -> list[str]:
        """Return the users or groups that have series of their own."""
        return self._select((partition, kind), self._most, {name: share(name) for name in names})

    def _select(self, key: tuple[str, ...], most: int, shares: Mapping[str, float]) -> list[str]:
        """Return the names with the largest shares, and a preference for those of the last scrape.

        Otherwise two names with nearly equal shares would alternate, and each gap in a series would look like its end.
        """
        with self._lock:
            before = self._selections.get(key, frozenset())
            found = nlargest(most, shares, key=lambda name: (shares[name] + _MARGIN * (name in before), name))
            self._selections[key] = frozenset(found)
        return sorted(found)


def _add_totals(samples: MetricSamples, partition: str, snapshot: PartitionSnapshot) -> None:
    pending = snapshot.pending.queues.get("root")
    for name, count in (
        ("users", len(snapshot.user_names)),
        ("groups", len(snapshot.group_names)),
        ("queues", len(snapshot.queue_paths)),
        ("applications", snapshot.application_count),
        ("allocations", snapshot.allocation_count),
        ("pending_allocations", pending.item_count if pending else 0),
    ):
        samples.add(f"ugm_{name}", count, partition=partition)
    samples.add_amounts("ugm_node_capacity", snapshot.cluster, partition=partition)


def _add_queue(
    samples: MetricSamples, partition: str, state: QueueState, snapshot: PartitionSnapshot, resources: Container[str]
) -> None:
    labels = {"partition": partition, "queue": state.queue_path}
    pending = snapshot.pending.queues.get(state.queue_path)
    # Resources without usage get the value 0, so that the quotient with a limit or guarantee is 0 and not missing.
    limited = _with_zeros(state.guaranteed or Resource(), state.max_resources)
    waiting = pending.amounts if pending else Resource()
    samples.add_amounts("ugm_queue_usage", _only(resources, _with_zeros(state.usage, limited)), **labels)
    samples.add_amounts("ugm_queue_pending", _only(resources, _with_zeros(waiting, limited)), **labels)
    samples.add_amounts("ugm_queue_limit", state.max_resources, **labels)
    samples.add_amounts("ugm_queue_guaranteed", state.guaranteed, **labels)
    samples.add("ugm_queue_running_applications", state.running_applications, **labels)
    samples.add("ugm_queue_pending_allocations", pending.item_count if pending else 0, **labels)
    if state.max_applications:
        samples.add("ugm_queue_limit_applications", state.max_applications, **labels)


def _add_owner(
    samples: MetricSamples,
    partition: str,
    kind: str,
    utilization: LimitUtilization,
    limits: Iterable[EffectiveLimit],
    resources: Container[str],
) -> None:
    """Add the samples of one user or group."""
    name, labels = f"ugm_{kind}", {"partition": partition, kind: utilization.name}
    usage = _only(resources, _with_zeros(utilization.usage, Resource(vcore=0, memory=0)))
    samples.add_amounts(f"{name}_usage", usage, **labels)
    samples.add(f"{name}_running_applications", utilization.running_applications, **labels)
    samples.add(f"{name}_limit_share", as_float(utilization.share), **labels)
    for limit in sorted(limits, key=lambda limit: (limit.queue_path.count("."), limit.queue_path))[:_MOST_LIMITS]:
        _add_limit(samples, f"{name}_limit", limit, {**labels, "queue": limit.queue_path})


def _add_limit(samples: MetricSamples, name: str, limit: EffectiveLimit, labels: Mapping[str, str]) -> None:
    samples.add_amounts(name, limit.max_resources, **labels)
    samples.add_amounts(f"{name}_usage", _with_zeros(limit.usage, limit.max_resources), **labels)
    if limit.max_applications:
        samples.add(f"{name}_applications", limit.max_applications, **labels)
        samples.add(f"{name}_running_applications", limit.running_applications, **labels)


def _add_events(samples: MetricSamples, partition: str, history: History) -> None:
    for (kind, queue, resource), count in history.denials().items():
        samples.add("ugm_denials", count, partition=partition, kind=kind, queue=queue, resource=resource)
    for event, count in history.counts().items():
        samples.add("ugm_events", count, partition=partition, event=event)


def _add_preemption(samples: MetricSamples, partition: str, status: PreemptionStatus) -> None:
    """Add the samples of preemption; an outcome has one once a plan has had it."""
    samples.add("ugm_terminating_allocations", len(status.terminating), partition=partition)
    samples.add("ugm_placed_requests", len(status.placed), partition=partition)
    samples.add("ugm_reduction_timers", len(status.timers), partition=partition)
    for outcome, count in status.plans.items():
        samples.add("ugm_preemption_plans", count, partition=partition, outcome=outcome)


def _add_service(samples: MetricSamples, partition: str, status: ServiceStatus) -> None:
    """Add the samples of a service; most of them only for its leader, so that they can be summed over all processes."""
    from ugm.service.status import BUCKET_BOUNDS  # noqa: PLC0415 - needs the extra of services, which a status implies

    samples.add("ugm_service_leading", status.is_leading, partition=partition)
    samples.add("ugm_service_term", status.term, partition=partition)
    if not status.is_leading:
        return
    silent = status.sessions - status.connected
    for state, count in (("connected", status.connected), ("silent", silent)):
        samples.add("ugm_service_sessions", count, partition=partition, state=state)
    for name, value in (
        ("waiting_operations", status.waiting),
        ("log_available", not status.outage),
        ("change", status.change),
        ("standbys", len(status.standbys)),
    ):
        samples.add(f"ugm_service_{name}", value, partition=partition)
    for standby in status.standbys:
        labels = {"partition": partition, "standby": standby.name, "address": standby.address}
        samples.add("ugm_service_standby_lag_changes", standby.lag, **labels)
        samples.add("ugm_service_standby_age_seconds", standby.seconds, **labels)
    for name, times in (("operation", status.operations), ("commit", status.commits)):
        buckets = list(zip((*BUCKET_BOUNDS, float("inf")), accumulate(times.buckets), strict=True))
        samples.add_histogram(f"ugm_service_{name}_seconds", buckets, times.seconds, partition=partition)


def _add_thresholds(samples: MetricSamples, partition: str, watch: ThresholdWatch) -> None:
    counts = Counter((one.kind, one.threshold) for one in watch.crossed)
    # Zeros are samples too, so that alerts end.
    for kind, share in product(_THRESHOLD_KINDS, watch.shares):
        labels = {"partition": partition, "kind": kind, "threshold": str(share)}
        samples.add("ugm_threshold_crossed_limits", counts[kind, share], **labels)


def _with_zeros(amounts: Resource, others: Resource | None) -> Resource:
    """Return amounts, with 0 for resources that only the others contain."""
    return Resource({**dict.fromkeys(others or {}, 0), **amounts})


def _only(resources: Container[str], amounts: Resource) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if name in resources}


def _families(samples: MetricSamples) -> Iterator[Metric]:
    """Yield the samples in the form of prometheus_client."""
    for metric, values in samples.values():
        kind = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
        family = kind(metric.name, metric.sentence, labels=metric.labels)
        for labels, value in values:
            family.add_metric(labels, value)
        yield family
    for metric, histograms in samples.histograms():
        histogram = HistogramMetricFamily(metric.name, metric.sentence, labels=metric.labels)
        for labels, buckets, total in histograms:
            ends = [("+Inf" if end == float("inf") else str(end), count) for end, count in buckets]
            histogram.add_metric(labels, ends, total)
        yield histogram


def exposition(collector: Collector) -> Callable[[], tuple[bytes, str]]:
    """Return a function for the argument *metrics* of `ugm.server.create_app`, with the metrics of a collector."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return lambda: (generate_latest(registry), CONTENT_TYPE_LATEST)
