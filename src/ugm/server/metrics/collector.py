"""Metrics for Prometheus, computed at each scrape, with a bounded number of series.

`ugm.server.metrics.table` describes the metrics; this module computes their values.

A scrape copies each partition at one moment, so the usage and the limits of one scrape are consistent. Each series
costs memory in Prometheus, so only the users and groups that are closest to a limit have series of their own.

Usage and limit with the same labels have the same scope: their quotient is the used part of the limit.

Quota models are elastic groups, nodes of quota trees, accounts of budgets, and shares of users.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from heapq import nlargest
from itertools import accumulate, product
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from ugm._json_values import JsonMapping
from ugm.arguments import require_count
from ugm.budgets import AccountState
from ugm.configuration.model_kinds import THRESHOLD_KINDS
from ugm.identity import ancestors
from ugm.partition import (
    AbstractPartition,
    AllocationState,
    ModelReport,
    OwnerLimits,
    PartitionSnapshot,
    PreemptionStatus,
    ThresholdWatch,
    UsageSum,
)
from ugm.queues import QueueState
from ugm.resources import MEMORY, VCORE, Resource, as_float
from ugm.server.history import History
from ugm.server.metrics.table import amount_unit, descriptions
from ugm.server.queries import accounts_of, shares_of
from ugm.server.views.model_trees import MEASURES, ModelTree, trees_of

if TYPE_CHECKING:
    # At run time it needs the extra of services.
    from ugm.service.protocol.status import ServiceStatus


__all__ = ["MetricSamples", "PartitionCollector", "exposition"]

_FAMILIES: Final[Mapping[str, Any]] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
}


@final
class MetricSamples:
    """The samples of one scrape, and some labels that those which are added have.

    >>> samples = MetricSamples()
    >>> samples.of(partition="default").add("ugm_users", 3)
    >>> samples.of(partition="default").add_amounts("ugm_node_capacity", {"vcore": 4000, "memory": 8})
    >>> [(found.name, found.labels, found.value) for family in samples.families() for found in family.samples]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('ugm_users', {'partition': 'default'}, 3),
     ('ugm_node_capacity_cores', {'partition': 'default'}, 4.0),
     ('ugm_node_capacity_bytes', {'partition': 'default', 'resource': 'memory'}, 8.0)]
    """

    def __init__(self, families: dict[str, Any] | None = None, labels: Mapping[str, str] | None = None) -> None:
        self._families: Final = {} if families is None else families
        self._labels: Final = labels or {}

    def of(self, **labels: str) -> MetricSamples:
        """Return the same samples with further labels for those which are added."""
        return MetricSamples(self._families, {**self._labels, **labels})

    def add(self, name: str, value: float, /, **labels: str) -> None:
        """Add the value of a gauge or counter.

        Args:
            name: the name of the metric, with its unit if it has one.
            value: the value.
            labels: the other labels of the metric.
        """
        self._add(name, labels, value)

    def add_amounts(self, name: str, amounts: Mapping[str, int] | None) -> None:
        """Add a value for each resource to the metric of its unit."""
        for resource, amount in (amounts or {}).items():
            suffix, value, more = amount_unit(resource, amount)
            self._add(f"{name}{suffix}", more, value)

    def add_histogram(self, name: str, buckets: Sequence[tuple[float, int]], total: float) -> None:
        """Add durations: pairs (upper bound in seconds, number of durations up to it), and their sum in seconds."""
        ends = [("+Inf" if end == float("inf") else str(end), count) for end, count in buckets]
        self._add(name, {}, ends, total)

    def _add(self, name: str, labels: Mapping[str, str], *values: object) -> None:
        metric, found = descriptions()[name], {**self._labels, **labels}
        if name not in self._families:
            self._families[name] = _FAMILIES[metric.kind](metric.name, metric.sentence, labels=metric.labels)
        self._families[name].add_metric([_text(found[label]) for label in metric.labels], *values)

    def families(self) -> Iterator[Metric]:
        """Yield the metrics that have samples, in the order of the table."""
        return (self._families[name] for name in descriptions() if name in self._families)


def _text(name: str) -> str:
    """Return a name with escapes for text that is not valid UTF-8, which would make the whole scrape fail."""
    return name.encode(errors="backslashreplace").decode()


#: The prefix of the metrics, and the label of a node, by kind of tree.
_NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "elastic": ("ugm_elastic_group", "group"),
    "quota": ("ugm_quota_node", "node"),
}


def _add_tree(samples: MetricSamples, tree: ModelTree, names: Iterable[str]) -> None:
    """Add some nodes of a tree.

    Clients choose the names of resources that they request, so only resources that a node limits have samples.
    """
    prefix, label = _NAMES[tree.kind]
    for node in map(tree.nodes.__getitem__, names):
        found = samples.of(tree=tree.name, **{label: node.name})
        for measure in MEASURES[tree.kind]:
            amounts = node.amounts[measure]
            # A missing maximum is not 0.
            has_zeros = measure != "max"
            known = {name: amounts.get(name, 0) for name in tree.limited(node) if has_zeros or name in amounts}
            found.add_amounts(f"{prefix}_{'usage' if measure == 'used' else measure}", known)
        if tree.kind == "quota":
            found.add(f"{prefix}_borrowers", tree.held_for_others.get(node.name, 0))


def _add_account(samples: MetricSamples, account: AccountState) -> None:
    found = samples.of(budget=account.budget, owner=account.owner, scope=account.scope, resource=account.resource)
    unit = 1000 if account.resource == VCORE else 1
    for name in ("limit", "settled", "committed", "remaining"):
        found.add(f"ugm_budget_{name}_unit_seconds", as_float(Fraction(getattr(account, name)) / unit))


def _add_user(samples: MetricSamples, user: JsonMapping) -> None:
    found = samples.of(user=user["user"], account=user["path"].rpartition("/")[0])
    found.add("ugm_fair_share_position", user["place"])
    for name, field in (("usage_share", "used"), ("level", "level"), ("entitled_share", "share")):
        if user[field] is not None:
            found.add(f"ugm_fair_share_{name}", _number(user[field]))


def _number(text: str) -> float:
    """Return an exact number of a report as a float; levels may be infinite."""
    return inf if "inf" in text else as_float(Fraction(text))


#: The difference of shares at which a name replaces another one in the selection.
_MARGIN: Final = 0.25
#: The number of limits of one user or group with series: those closest to the root, because their scope is largest.
_MOST_LIMITS: Final = 5
#: The number of queues of each partition with series, of which configured ones come first; that of resources, of which
#: limited ones come first; and that of the elastic groups or nodes of each tree, and of accounts of budgets.
_MOST_QUEUES: Final = 500
_MOST_RESOURCES: Final = 50
_MOST_NODES: Final = 100


@final
class PartitionCollector(Collector):
    """A collector for the metrics of several partitions, for a ``prometheus_client.CollectorRegistry``.

    Args:
        partitions: the partitions by name.
        history: the histories by name of their partition, for denials, events and the age of pending requests.
        services: functions that return the status of a service, by name of its partition.
        thresholds: the watches of thresholds by name of their partition, as passed to `ugm.server.create_app`, which
            updates them.
        most: the number of users, and of groups, of each partition that have series of their own.
        clock: returns the time, in seconds since 1970.
    """

    def __init__(
        self,
        partitions: Mapping[str, AbstractPartition],
        *,
        history: Mapping[str, History] | None = None,
        services: Mapping[str, Callable[[], ServiceStatus]] | None = None,
        thresholds: Mapping[str, ThresholdWatch] | None = None,
        most: int = 50,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock: Final = clock
        self._partitions: Final = dict(partitions)
        self._history: Final = dict(history or {})
        self._services: Final = dict(services or {})
        self._thresholds: Final = dict(thresholds or {})
        self._most: Final = require_count("most", most)
        #: The selected names, by partition and kind or tree; the lock is for simultaneous scrapes.
        self._selections: Final[dict[tuple[str, ...], frozenset[Any]]] = {}
        self._lock: Final = Lock()

    def describe(self) -> Iterator[Metric]:
        """Return no metrics, so that registration does not read the partitions."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics with their current values."""
        samples = MetricSamples()
        for name, partition in self._partitions.items():
            self._add_partition(samples.of(partition=name), name, partition)
        for name, history in self._history.items():
            _add_events(samples.of(partition=name), history)
        for name, watch in self._thresholds.items():
            _add_thresholds(samples.of(partition=name), watch)
        for name, status in self._services.items():
            _add_service(samples.of(partition=name), status())
        yield from samples.families()

    def _add_partition(self, samples: MetricSamples, name: str, partition: AbstractPartition) -> None:
        snapshot = partition.snapshot()
        oldest = self._oldest(name, partition)
        queues = self._shown_queues(snapshot)
        resources = self._shown_resources(name, snapshot, queues)
        _add_totals(samples, snapshot)
        for state in queues:
            _add_queue(samples.of(queue=state.queue_path), state, snapshot, resources)
        shown: dict[str, Sequence[str]] = {"queue": [state.queue_path for state in queues]}
        for kind, names, limits_of in (
            ("user", snapshot.user_names, snapshot.limits_of_user),
            ("group", snapshot.group_names, snapshot.limits_of_group),
        ):
            shown[kind] = self._select(name, self._most, (kind,), {one: limits_of(one).share for one in names})
            for one in shown[kind]:
                _add_owner(samples.of(**{kind: one}), kind, limits_of(one), resources)
        for user in shown["user"]:
            samples.add("ugm_user_pending_allocations", _count(snapshot.pending.users.get(user)), user=user)
        for (kind, one), at in oldest.items():
            if one in shown[kind]:
                samples.add(f"ugm_{kind}_oldest_pending_seconds", self._clock() - at, **{kind: one})
        _add_preemption(samples, partition.preemption_status())
        self._add_models(samples, name, partition.model_reports(), shown["user"])

    def _add_models(
        self, samples: MetricSamples, partition: str, reports: tuple[ModelReport, ...], users: Iterable[str]
    ) -> None:
        """Add the samples of the quota models of a partition, with those of some users."""
        if reports:
            samples.add("ugm_suspended_models", sum(report.is_suspended for report in reports))
        for tree in trees_of(reports):
            _add_tree(samples, tree, self._select(partition, _MOST_NODES, ("tree", tree.name), tree.shares()))
        accounts = {(one.budget, one.scope, one.owner, one.resource): one for one in accounts_of(reports)}
        used = {key: as_float(account.share) for key, account in accounts.items()}
        for key in self._select(partition, _MOST_NODES, ("budget",), used):
            _add_account(samples, accounts[key])
        report = shares_of(reports)
        for one in () if report is None else report.state["users"]:
            if one["user"] in users:
                _add_user(samples, one)

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
        return states[:_MOST_QUEUES]

    def _shown_resources(self, name: str, snapshot: PartitionSnapshot, queues: Iterable[QueueState]) -> frozenset[str]:
        """Return the resources that have series; clients choose the names of those that they request."""
        known = {VCORE, MEMORY}.union(
            snapshot.cluster or (),
            *((one.max_resources or {}).keys() | (one.guaranteed or {}).keys() for one in queues),
        )
        found = {**dict.fromkeys(snapshot.usage(), 0.0), **dict.fromkeys(known, 1.0)}
        return frozenset(self._select(name, _MOST_RESOURCES, ("resource",), found))

    def _select(self, partition: str, most: int, key: tuple[str, ...], shares: Mapping[Any, float]) -> list[Any]:
        """Return the names with the largest shares, and a preference for those of the last scrape.

        Otherwise two names with nearly equal shares would alternate, and each gap in a series would look like its end.
        """
        with self._lock:
            before = self._selections.get((partition, *key), frozenset())
            found = nlargest(most, shares, key=lambda name: (shares[name] + _MARGIN * (name in before), name))
            self._selections[partition, *key] = frozenset(found)
        return sorted(found)


def _add_totals(samples: MetricSamples, snapshot: PartitionSnapshot) -> None:
    samples.add("ugm_users", len(snapshot.user_names))
    samples.add("ugm_groups", len(snapshot.group_names))
    samples.add("ugm_queues", len(snapshot.queue_paths))
    samples.add("ugm_applications", snapshot.application_count)
    samples.add("ugm_allocations", snapshot.allocation_count)
    samples.add("ugm_pending_allocations", _count(snapshot.pending.queues.get("root")))
    samples.add_amounts("ugm_node_capacity", snapshot.cluster)


def _count(pending: UsageSum | None) -> int:
    return pending.item_count if pending else 0


def _add_queue(
    samples: MetricSamples, state: QueueState, snapshot: PartitionSnapshot, resources: Container[str]
) -> None:
    pending = snapshot.pending.queues.get(state.queue_path)
    # Resources without usage get the value 0, so that the quotient with a limit or guarantee is 0 and not missing.
    limited = _with_zeros(state.guaranteed or Resource(), state.max_resources)
    waiting = pending.amounts if pending else Resource()
    samples.add_amounts("ugm_queue_usage", _only(resources, _with_zeros(state.usage, limited)))
    samples.add_amounts("ugm_queue_pending", _only(resources, _with_zeros(waiting, limited)))
    samples.add_amounts("ugm_queue_limit", state.max_resources)
    samples.add_amounts("ugm_queue_guaranteed", state.guaranteed)
    samples.add("ugm_queue_running_applications", state.running_applications)
    samples.add("ugm_queue_pending_allocations", _count(pending))
    if state.max_applications:
        samples.add("ugm_queue_limit_applications", state.max_applications)


def _add_owner(samples: MetricSamples, kind: str, limits: OwnerLimits, resources: Container[str]) -> None:
    """Add the samples of one user or group."""
    name, utilization = f"ugm_{kind}", limits.utilization
    samples.add_amounts(f"{name}_usage", _only(resources, _with_zeros(utilization.usage, Resource(vcore=0, memory=0))))
    samples.add(f"{name}_running_applications", utilization.running_applications)
    samples.add(f"{name}_limit_share", as_float(utilization.share))
    for limit in sorted(limits.effective, key=lambda one: (one.queue_path.count("."), one.queue_path))[:_MOST_LIMITS]:
        found = samples.of(queue=limit.queue_path)
        found.add_amounts(f"{name}_limit", limit.max_resources)
        found.add_amounts(f"{name}_limit_usage", _with_zeros(limit.usage, limit.max_resources))
        if limit.max_applications:
            found.add(f"{name}_limit_applications", limit.max_applications)
            found.add(f"{name}_limit_running_applications", limit.running_applications)


def _add_events(samples: MetricSamples, history: History) -> None:
    for (kind, queue, resource), count in history.denials().items():
        samples.add("ugm_denials", count, kind=kind, queue=queue, resource=resource)
    for event, count in history.page(most=0).counts.items():
        samples.add("ugm_events", count, event=event)


def _add_preemption(samples: MetricSamples, status: PreemptionStatus) -> None:
    """Add the samples of preemption; an outcome has one once a plan has had it."""
    samples.add("ugm_terminating_allocations", len(status.terminating))
    samples.add("ugm_placed_requests", len(status.placed))
    samples.add("ugm_reduction_timers", len(status.timers))
    for outcome, count in status.plans.items():
        samples.add("ugm_preemption_plans", count, outcome=outcome)


def _add_service(samples: MetricSamples, status: ServiceStatus) -> None:
    """Add the samples of a service; most of them only for its leader, so that they can be summed over all processes."""
    from ugm.service.protocol.status import BUCKET_BOUNDS  # noqa: PLC0415 - needs the extra of services, which a status implies

    samples.add("ugm_service_leading", status.is_leading)
    samples.add("ugm_service_term", status.term)
    samples.add("ugm_service_standby_age_seconds", status.age)
    if not status.is_leading:
        return
    samples.add("ugm_service_sessions", status.connected, state="connected")
    samples.add("ugm_service_sessions", status.sessions - status.connected, state="silent")
    samples.add("ugm_service_waiting_operations", status.waiting)
    samples.add("ugm_service_log_available", not status.outage)
    samples.add("ugm_service_change", status.change)
    for name, times in (("operation", status.operations), ("commit", status.commits)):
        buckets = list(zip((*BUCKET_BOUNDS, float("inf")), accumulate(times.buckets), strict=True))
        samples.add_histogram(f"ugm_service_{name}_seconds", buckets, times.seconds)


def _add_thresholds(samples: MetricSamples, watch: ThresholdWatch) -> None:
    counts = Counter((one.kind, one.threshold) for one in watch.crossed)
    # Zeros are samples too, so that alerts end.
    for kind, share in product(THRESHOLD_KINDS, watch.shares):
        samples.add("ugm_threshold_crossed_limits", counts[kind, share], kind=kind, threshold=str(share))


def _with_zeros(amounts: Resource, others: Resource | None) -> Resource:
    """Return amounts, with 0 for resources that only the others contain."""
    return Resource({**dict.fromkeys(others or {}, 0), **amounts})


def _only(resources: Container[str], amounts: Resource) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if name in resources}


def exposition(collector: Collector) -> Callable[[], tuple[bytes, str]]:
    """Return a function for the argument *metrics* of `ugm.server.create_app`, with the metrics of a collector."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return lambda: (generate_latest(registry), CONTENT_TYPE_LATEST)
