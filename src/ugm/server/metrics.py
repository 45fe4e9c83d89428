"""Metrics for Prometheus, computed at each scrape, with a bounded number of series.

A scrape copies each partition at one moment, so the usage and the limits of one scrape are consistent. Each series
costs memory in Prometheus, so only the users and groups that are closest to a limit have series of their own; see
`ugm.server.stable_selection`.

Units are part of the names, as Prometheus recommends: ``_cores`` for ``vcore``, ``_bytes`` for ``memory``, and
``_units`` with a label ``resource`` for everything else. Usage and limit with the same labels have the same scope:
their quotient is the used part of the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Final, final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from ugm.arguments import require_count
from ugm.partition import AbstractPartition, LimitUtilization, PartitionSnapshot, Pending
from ugm.queues import QueueState
from ugm.resources import Resource, as_float
from ugm.server.cooperative import cooperatively
from ugm.server.gauges import Gauges, label_text
from ugm.server.history import History
from ugm.server.stable_selection import StableSelection
from ugm.server.timing import DecisionTimes
from ugm.server.tree_metrics import add_tree
from ugm.server.trees import trees_of
from ugm.tracking import EffectiveLimit

if TYPE_CHECKING:
    # At run time it needs the extra of services.
    from ugm.service.status import ServiceStatus

__all__ = ["PartitionCollector", "exposition"]

#: The number of limits of one user or group with series: those closest to the root, because their scope is largest.
_MOST_LIMITS: Final = 5


@final
class PartitionCollector(Collector):
    """A collector for the metrics of several partitions, for a `prometheus_client.CollectorRegistry`.

    Args:
        partitions: the partitions by name.
        history: the histories by name of their partition, for denials and events.
        services: functions that return the status of a service, by name of its partition.
        times: the decision times by name of their partition.
        most: the number of users, and of groups, of each partition that have series of their own.
        most_queues: the number of queues of each partition that do; configured queues come first.
        most_nodes: the number of elastic groups, and of nodes of quota trees, in each tree that do.
    """

    __slots__ = (
        "_history",
        "_lock",
        "_most",
        "_most_nodes",
        "_most_queues",
        "_partitions",
        "_selections",
        "_services",
        "_times",
    )

    def __init__(
        self,
        partitions: Mapping[str, AbstractPartition],
        *,
        history: Mapping[str, History] | None = None,
        services: Mapping[str, Callable[[], ServiceStatus]] | None = None,
        times: Mapping[str, DecisionTimes] | None = None,
        most: int = 50,
        most_queues: int = 500,
        most_nodes: int = 100,
    ) -> None:
        self._partitions: Final = dict(partitions)
        self._history: Final = dict(history or {})
        self._services: Final = dict(services or {})
        self._times: Final = dict(times or {})
        self._most: Final = require_count("most", most)
        self._most_queues: Final = require_count("most_queues", most_queues)
        self._most_nodes: Final = require_count("most_nodes", most_nodes)
        #: The selected names, by partition and kind or tree; the lock is for simultaneous scrapes.
        self._selections: Final[dict[tuple[str, ...], StableSelection]] = {}
        self._lock: Final = Lock()

    def describe(self) -> Iterator[Metric]:
        """Return no metrics, so that registration does not read the partitions."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics with their current values."""
        gauges = Gauges()
        for name, partition in self._partitions.items():
            snapshot = partition.snapshot(cooperatively)
            _add_totals(gauges, name, snapshot)
            for state in self._shown_queues(snapshot):
                _add_queue(gauges, name, state, snapshot.pending_in_queues.get(state.queue_path))
            for user in self._leading(name, "user", snapshot.user_names, snapshot.user_share):
                _add_owner(gauges, name, "user", snapshot.user_utilization(user), snapshot.user_limits(user))
                pending = snapshot.pending_of_users.get(user)
                count, labels = pending.allocations if pending else 0, {"partition": name, "user": user}
                gauges.add("ugm_user_pending_allocations", "Pending allocations.", count, labels)
            for group in self._leading(name, "group", snapshot.group_names, snapshot.group_share):
                _add_owner(gauges, name, "group", snapshot.group_utilization(group), snapshot.group_limits(group))
            self._add_models(gauges, name, partition)
        commits = SummaryMetricFamily("ugm_service_commit_seconds", "Duration of commits.", labels=("partition",))
        for name, status in self._services.items():
            _add_service(gauges, commits, name, status())
        yield from gauges.families.values()
        yield from self._events()
        if commits.samples:
            yield commits
        if self._times:
            yield self._timed()

    def _shown_queues(self, snapshot: PartitionSnapshot) -> list[QueueState]:
        root = snapshot.queue()
        states = [] if root is None else list(cooperatively(root.walk()))
        states.sort(key=lambda state: (not state.is_managed, state.queue_path.count("."), state.queue_path))
        return states[: self._most_queues]

    def _leading(self, partition: str, kind: str, names: Iterable[str], share: Callable[[str], float]) -> list[str]:
        """Return the users or groups that have series of their own."""
        return self._select((partition, kind), self._most, {name: share(name) for name in cooperatively(names)})

    def _select(self, key: tuple[str, ...], most: int, shares: Mapping[str, float]) -> list[str]:
        with self._lock:
            return self._selections.setdefault(key, StableSelection(most)).update(shares)

    def _add_models(self, gauges: Gauges, name: str, partition: AbstractPartition) -> None:
        """Add the samples of the other quota models."""
        reports = partition.model_reports()
        suspended = sum(report.is_suspended for report in reports)
        if reports:
            sentence = "Quota models whose state is unknown, so that every request is denied."
            gauges.add("ugm_suspended_models", sentence, suspended, {"partition": name})
        for tree in trees_of(reports):
            shares = tree.shares(cooperatively)
            nodes = self._select((name, "tree", tree.name), self._most_nodes, shares)
            add_tree(gauges, name, tree, [node for node in nodes if node in shares])

    def _events(self) -> Iterator[Metric]:
        denials = CounterMetricFamily(
            "ugm_denials",
            "Denials by limit, with the queue of the limit.",
            labels=("partition", "kind", "queue", "resource"),
        )
        events = CounterMetricFamily("ugm_events", "Events by kind.", labels=("partition", "event"))
        for name, history in self._history.items():
            for (kind, queue, resource), count in history.denials().items():
                denials.add_metric([name, label_text(kind), label_text(queue), label_text(resource)], count)
            for event, count in history.counts().items():
                events.add_metric([name, event], count)
        yield from (denials, events)

    def _timed(self) -> Metric:
        seconds = HistogramMetricFamily("ugm_decision_seconds", "Duration of decisions.", labels=("partition",))
        for name, times in self._times.items():
            buckets, total = times.read()
            ends = [("+Inf" if end == float("inf") else str(end), count) for end, count in buckets]
            seconds.add_metric([name], ends, total)
        return seconds


def _add_totals(gauges: Gauges, partition: str, snapshot: PartitionSnapshot) -> None:
    labels = {"partition": partition}
    gauges.add("ugm_users", "Users with running or pending allocations.", len(snapshot.user_names), labels)
    gauges.add("ugm_groups", "Groups with charged usage.", len(snapshot.group_names), labels)
    gauges.add("ugm_queues", "Queues, including dynamic queues.", len(snapshot.queue_paths), labels)
    gauges.add("ugm_applications", "Applications that have not ended.", snapshot.application_count, labels)
    gauges.add("ugm_allocations", "Allocations, including pending ones.", snapshot.allocation_count, labels)
    gauges.add_amounts("ugm_node_capacity", "Resources of all registered nodes", snapshot.cluster, labels)


def _add_queue(gauges: Gauges, partition: str, state: QueueState, pending: Pending | None) -> None:
    labels, scope = {"partition": partition, "queue": state.queue_path}, "in and below the queue"
    # Resources without usage get the value 0, so that the quotient with the limit is 0 and not missing.
    usage = _with_zeros(state.usage, state.max_resources)
    waiting = _with_zeros(pending.amounts if pending else Resource(), state.max_resources)
    running, most = state.running_applications, state.max_applications
    gauges.add_amounts("ugm_queue_usage", f"Usage {scope}", usage, labels)
    gauges.add_amounts("ugm_queue_pending", f"Pending amounts {scope}", waiting, labels)
    gauges.add_amounts("ugm_queue_limit", f"Largest allowed usage {scope}", state.max_resources, labels)
    gauges.add_amounts("ugm_queue_guaranteed", "Guaranteed amounts of the queue", state.guaranteed, labels)
    gauges.add("ugm_queue_running_applications", f"Running applications {scope}.", running, labels)
    if most:
        gauges.add("ugm_queue_limit_applications", f"Largest allowed number of applications {scope}.", most, labels)


def _add_owner(
    gauges: Gauges, partition: str, kind: str, utilization: LimitUtilization, limits: Iterable[EffectiveLimit]
) -> None:
    """Add the samples of one user or group."""
    name, labels = f"ugm_{kind}", {"partition": partition, kind: utilization.name}
    usage, running = _with_zeros(utilization.usage, Resource(vcore=0, memory=0)), utilization.running_applications
    gauges.add_amounts(f"{name}_usage", f"Usage of the {kind} in all queues", usage, labels)
    gauges.add(f"{name}_running_applications", "Running applications in all queues.", running, labels)
    share = as_float(utilization.share)
    gauges.add(f"{name}_limit_share", "Used part of the nearest limit; 1 is all of it.", share, labels)
    for limit in sorted(limits, key=lambda limit: (limit.queue_path.count("."), limit.queue_path))[:_MOST_LIMITS]:
        _add_limit(gauges, kind, limit, {**labels, "queue": limit.queue_path})


def _add_limit(gauges: Gauges, kind: str, limit: EffectiveLimit, labels: Mapping[str, str]) -> None:
    name, scope = f"ugm_{kind}_limit", f"by the {kind} in and below the queue"
    running, most = limit.running_applications, limit.max_applications
    gauges.add_amounts(name, f"Largest allowed usage {scope}", limit.max_resources, labels)
    gauges.add_amounts(f"{name}_usage", f"Usage {scope}", limit.usage, labels)
    if most:
        gauges.add(f"{name}_applications", "Largest allowed number of applications.", most, labels)
        gauges.add(f"{name}_running_applications", "Running applications there.", running, labels)


def _add_service(gauges: Gauges, commits: SummaryMetricFamily, partition: str, status: ServiceStatus) -> None:
    """Add the samples of a service; most of them only for its leader, so that they can be added over processes."""
    labels = {"partition": partition}
    gauges.add("ugm_service_leading", "1 if this process leads, otherwise 0.", status.is_leading, labels)
    gauges.add("ugm_service_term", "Term of the leader.", status.term, labels)
    if not status.is_leading:
        return
    silent = status.sessions - status.connected
    for state, count in (("connected", status.connected), ("silent", silent)):
        gauges.add("ugm_service_sessions", "Sessions of clients by state.", count, {**labels, "state": state})
    gauges.add("ugm_service_waiting_operations", "Operations that wait for their commit.", status.waiting, labels)
    gauges.add("ugm_service_log_available", "1 if the log accepts changes, otherwise 0.", not status.outage, labels)
    gauges.add("ugm_service_change", "Number of the last durable change in the log.", status.change, labels)
    gauges.add("ugm_service_standbys", "Processes that stand by.", len(status.standbys), labels)
    for standby in status.standbys:
        of = {**labels, "standby": standby.name, "address": standby.address}
        gauges.add("ugm_service_standby_lag_changes", "Durable changes that the standby lacks.", standby.lag, of)
        gauges.add("ugm_service_standby_age_seconds", "Age of the state of the standby.", standby.seconds, of)
    times = status.commits
    commits.add_metric([partition], times.count, times.seconds)
    for quantile, seconds in (("0.5", times.median), ("0.99", times.p99)):
        commits.add_sample(commits.name, {**labels, "quantile": quantile}, seconds)


def _with_zeros(amounts: Resource, others: Resource | None) -> Resource:
    """Return amounts, with 0 for resources that only the others contain."""
    return Resource({**dict.fromkeys(others or {}, 0), **amounts})


def exposition(collector: Collector) -> Callable[[], tuple[bytes, str]]:
    """Return a function for the argument *metrics* of `ugm.server.create_app`, with the metrics of a collector."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return lambda: (generate_latest(registry), CONTENT_TYPE_LATEST)
