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
from fractions import Fraction
from threading import Lock
from typing import Final, final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from ugm.arguments import require_count
from ugm.partition import AbstractPartition, LimitUtilization, PartitionSnapshot
from ugm.queues import QueueState
from ugm.resources import MEMORY, VCORE, Resource, as_float
from ugm.server.cooperative import cooperatively
from ugm.server.history import History
from ugm.server.stable_selection import StableSelection
from ugm.server.timing import DecisionTimes
from ugm.tracking import EffectiveLimit

__all__ = ["PartitionCollector", "exposition"]

#: The number of limits of one user or group with series: those closest to the root, because their scope is largest.
_MOST_LIMITS: Final = 5
#: The unit of ``vcore`` in a core.
_MILLI: Final = 1000


@final
class PartitionCollector(Collector):
    """A collector for the metrics of several partitions, for a `prometheus_client.CollectorRegistry`.

    Args:
        partitions: the partitions by name.
        history: the histories by name of their partition, for denials and events.
        times: the decision times by name of their partition.
        most: the number of users, and of groups, of each partition that have series of their own.
        most_queues: the number of queues of each partition that do; configured queues come first.
    """

    __slots__ = ("_history", "_lock", "_most", "_most_queues", "_partitions", "_selections", "_times")

    def __init__(
        self,
        partitions: Mapping[str, AbstractPartition],
        *,
        history: Mapping[str, History] | None = None,
        times: Mapping[str, DecisionTimes] | None = None,
        most: int = 50,
        most_queues: int = 500,
    ) -> None:
        self._partitions: Final = dict(partitions)
        self._history: Final = dict(history or {})
        self._times: Final = dict(times or {})
        self._most: Final = require_count("most", most)
        self._most_queues: Final = require_count("most_queues", most_queues)
        #: The selected users and groups, by partition and kind; the lock is for simultaneous scrapes.
        self._selections: Final[dict[tuple[str, str], StableSelection]] = {}
        self._lock: Final = Lock()

    def describe(self) -> Iterator[Metric]:
        """Return no metrics, so that registration does not read the partitions."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics with their current values."""
        snapshots = {name: partition.snapshot(cooperatively) for name, partition in self._partitions.items()}
        yield from _totals(snapshots)
        yield from self._queues(snapshots)
        yield from self._users(snapshots)
        yield from self._groups(snapshots)
        yield from self._events()
        if self._times:
            yield self._timed()

    def _queues(self, snapshots: Mapping[str, PartitionSnapshot]) -> Iterator[Metric]:
        """Yield the usage, the pending amounts and the limits of the queues."""
        scope = "in and below the queue"
        usage = _Amounts("ugm_queue_usage", f"Usage {scope}", "queue")
        pending = _Amounts("ugm_queue_pending", f"Pending amounts {scope}", "queue")
        limit = _Amounts("ugm_queue_limit", f"Largest allowed usage {scope}", "queue")
        guaranteed = _Amounts("ugm_queue_guaranteed", "Guaranteed amounts of the queue", "queue")
        running = _gauge("ugm_queue_running_applications", f"Running applications {scope}.", "queue")
        most = _gauge("ugm_queue_limit_applications", f"Largest allowed number of applications {scope}.", "queue")
        for name, snapshot in snapshots.items():
            for state in self._shown_queues(snapshot):
                labels = [name, _text(state.queue_path)]
                waiting = snapshot.pending_in_queues.get(state.queue_path)
                # Resources without usage get the value 0, so that the quotient with the limit is 0 and not missing.
                usage.add(labels, _with_zeros(state.usage, state.max_resources))
                pending.add(labels, _with_zeros(waiting.amounts if waiting else Resource(), state.max_resources))
                limit.add(labels, state.max_resources)
                guaranteed.add(labels, state.guaranteed)
                running.add_metric(labels, state.running_applications)
                if state.max_applications:
                    most.add_metric(labels, state.max_applications)
        yield from (*usage, *pending, *limit, *guaranteed, running, most)

    def _shown_queues(self, snapshot: PartitionSnapshot) -> list[QueueState]:
        root = snapshot.queue()
        states = [] if root is None else list(cooperatively(root.walk()))
        states.sort(key=lambda state: (not state.is_managed, state.queue_path.count("."), state.queue_path))
        return states[: self._most_queues]

    def _users(self, snapshots: Mapping[str, PartitionSnapshot]) -> Iterator[Metric]:
        owners = _Owners("user")
        for name, snapshot in snapshots.items():
            for user in self._leading(name, "user", snapshot.user_names, snapshot.user_share):
                waiting = snapshot.pending_of_users.get(user)
                owners.add(name, snapshot.user_utilization(user), snapshot.user_limits(user))
                owners.pending.add_metric([name, _text(user)], waiting.allocations if waiting else 0)
        yield from (*owners.families(), owners.pending)

    def _groups(self, snapshots: Mapping[str, PartitionSnapshot]) -> Iterator[Metric]:
        owners = _Owners("group")
        for name, snapshot in snapshots.items():
            for group in self._leading(name, "group", snapshot.group_names, snapshot.group_share):
                owners.add(name, snapshot.group_utilization(group), snapshot.group_limits(group))
        yield from owners.families()

    def _leading(self, partition: str, kind: str, names: Iterable[str], share: Callable[[str], float]) -> list[str]:
        """Return the users or groups that have series of their own."""
        shares = {name: share(name) for name in cooperatively(names)}
        with self._lock:
            return self._selections.setdefault((partition, kind), StableSelection(self._most)).update(shares)

    def _events(self) -> Iterator[Metric]:
        denials = CounterMetricFamily(
            "ugm_denials",
            "Denials by limit, with the queue of the limit.",
            labels=("partition", "kind", "queue", "resource"),
        )
        events = CounterMetricFamily("ugm_events", "Events by kind.", labels=("partition", "event"))
        for name, history in self._history.items():
            for (kind, queue, resource), count in history.denials().items():
                denials.add_metric([name, _text(kind), _text(queue), _text(resource)], count)
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


def _totals(snapshots: Mapping[str, PartitionSnapshot]) -> Iterator[Metric]:
    users = _gauge("ugm_users", "Users with running or pending allocations.")
    groups = _gauge("ugm_groups", "Groups with charged usage.")
    queues = _gauge("ugm_queues", "Queues, including dynamic queues.")
    applications = _gauge("ugm_applications", "Applications that have been submitted and have not ended.")
    allocations = _gauge("ugm_allocations", "Allocations, including pending ones.")
    nodes = _Amounts("ugm_node_capacity", "Resources of all registered nodes")
    for name, snapshot in snapshots.items():
        users.add_metric([name], len(snapshot.user_names))
        groups.add_metric([name], len(snapshot.group_names))
        queues.add_metric([name], len(snapshot.queue_paths))
        applications.add_metric([name], snapshot.application_count)
        allocations.add_metric([name], snapshot.allocation_count)
        nodes.add([name], snapshot.cluster)
    yield from (users, groups, queues, applications, allocations, *nodes)


@final
class _Amounts:
    """One quantity as three metrics: cores, bytes, and units of other resources."""

    __slots__ = ("_bytes", "_cores", "_units")

    def __init__(self, name: str, sentence: str, *labels: str) -> None:
        self._cores: Final = _gauge(f"{name}_cores", f"{sentence}, in cores.", *labels)
        self._bytes: Final = _gauge(f"{name}_bytes", f"{sentence}: memory in bytes.", *labels)
        self._units: Final = _gauge(f"{name}_units", f"{sentence}: other resources in their unit.", *labels, "resource")

    def __iter__(self) -> Iterator[Metric]:
        yield from (self._cores, self._bytes, self._units)

    def add(self, labels: list[str], amounts: Resource | None) -> None:
        """Add a sample for each resource."""
        for name, amount in (amounts or {}).items():
            if name == VCORE:
                self._cores.add_metric(labels, as_float(Fraction(amount, _MILLI)))
            elif name == MEMORY:
                self._bytes.add_metric(labels, as_float(amount))
            else:
                self._units.add_metric([*labels, _text(name)], as_float(amount))


@final
class _Owners:
    """The metrics of users or of groups."""

    __slots__ = ("_limit", "_limit_running", "_limit_usage", "_most", "_running", "_share", "_usage", "pending")

    def __init__(self, kind: str) -> None:
        where = ("queue",)
        self._usage: Final = _Amounts(f"ugm_{kind}_usage", f"Usage of the {kind} in all queues", kind)
        self._running: Final = _gauge(f"ugm_{kind}_running_applications", "Running applications in all queues.", kind)
        self.pending: Final = _gauge(f"ugm_{kind}_pending_allocations", "Pending allocations.", kind)
        self._share: Final = _gauge(f"ugm_{kind}_limit_share", "Used part of the nearest limit; 1 is all of it.", kind)
        scope = f"by the {kind} in and below the queue"
        self._limit: Final = _Amounts(f"ugm_{kind}_limit", f"Largest allowed usage {scope}", kind, *where)
        self._limit_usage: Final = _Amounts(f"ugm_{kind}_limit_usage", f"Usage {scope}", kind, *where)
        self._most: Final = _gauge(
            f"ugm_{kind}_limit_applications", "Largest allowed number of applications.", kind, *where
        )
        self._limit_running: Final = _gauge(
            f"ugm_{kind}_limit_running_applications", "Running applications there.", kind, *where
        )

    def add(self, partition: str, utilization: LimitUtilization, limits: Iterable[EffectiveLimit]) -> None:
        """Add the samples of one user or group."""
        labels = [partition, _text(utilization.name)]
        self._usage.add(labels, _with_zeros(utilization.usage, Resource(vcore=0, memory=0)))
        self._running.add_metric(labels, utilization.running_applications)
        self._share.add_metric(labels, as_float(utilization.share))
        for limit in sorted(limits, key=lambda limit: (limit.queue_path.count("."), limit.queue_path))[:_MOST_LIMITS]:
            place = [*labels, _text(limit.queue_path)]
            self._limit.add(place, limit.max_resources)
            self._limit_usage.add(place, limit.usage)
            if limit.max_applications:
                self._most.add_metric(place, limit.max_applications)
                self._limit_running.add_metric(place, limit.running_applications)

    def families(self) -> Iterator[Metric]:
        """Yield all metrics except that of pending allocations."""
        yield from self._usage
        yield from (self._running, self._share)
        yield from self._limit
        yield from self._limit_usage
        yield from (self._most, self._limit_running)


def _with_zeros(amounts: Resource, others: Resource | None) -> Resource:
    """Return amounts, with 0 for resources that only the others contain."""
    return Resource({**dict.fromkeys(others or {}, 0), **amounts})


def _gauge(name: str, sentence: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, sentence, labels=("partition", *labels))


def _text(name: str) -> str:
    """Return a name with escapes for text that is not valid UTF-8, which would make the whole scrape fail."""
    return name.encode(errors="backslashreplace").decode()


def exposition(collector: Collector) -> Callable[[], tuple[bytes, str]]:
    """Return a function for the argument *metrics* of `ugm.server.create_app`, with the metrics of a collector."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return lambda: (generate_latest(registry), CONTENT_TYPE_LATEST)
