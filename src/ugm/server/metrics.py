"""Metrics for Prometheus: worked out when they are scraped, and never more series than were allowed.

A scrape copies each partition at one moment, so that usage and limit of one scrape belong together. There are many
users, groups and queues, and labels cost memory elsewhere. Only the users and groups that are closest to a limit have
series of their own; see `ugm.server.stable_selection` for how they are chosen.

Units are part of the names, as Prometheus recommends: ``_cores`` for ``vcore``, ``_bytes`` for ``memory``, and
``_units`` with a label ``resource`` for everything else. Usage and limit with the same labels have the same scope:
their quotient is the part of the limit that is used.
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
from ugm.partition import LimitUtilization, Partition, PartitionSnapshot
from ugm.queues import QueueState
from ugm.resources import MEMORY, VCORE, Resource, as_float
from ugm.server.cooperative import cooperatively
from ugm.server.history import History
from ugm.server.stable_selection import StableSelection
from ugm.server.timing import DecisionTimes
from ugm.tracking import EffectiveLimit

__all__ = ["PartitionCollector", "exposition"]

#: Limits of one user or group that are shown: those closest to the root, because they hold for everything.
_MOST_LIMITS: Final = 5
#: The unit of ``vcore`` in a core.
_MILLI: Final = 1000


@final
class PartitionCollector(Collector):
    """The metrics of several partitions: register it with a `prometheus_client.CollectorRegistry`.

    Args:
        partitions: by name.
        history: of those partitions that have one, the subscriber; for denials and events.
        times: of those whose decisions are timed, the times.
        most: how many users, and how many groups, of each partition have series of their own.
        most_queues: how many queues of each partition do; those of the configuration come first.
    """

    __slots__ = ("_history", "_leaders", "_lock", "_most", "_most_queues", "_partitions", "_times")

    def __init__(
        self,
        partitions: Mapping[str, Partition],
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
        #: The users and the groups that are shown, by partition and kind; the lock is for scrapes at the same time.
        self._leaders: Final[dict[tuple[str, str], StableSelection]] = {}
        self._lock: Final = Lock()

    def describe(self) -> Iterator[Metric]:
        """Return nothing: registering asks no partition."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics as they are now."""
        snapshots = {name: partition.snapshot(cooperatively) for name, partition in self._partitions.items()}
        yield from _totals(snapshots)
        yield from self._queues(snapshots)
        yield from self._users(snapshots)
        yield from self._groups(snapshots)
        yield from self._happened()
        if self._times:
            yield self._timed()

    def _queues(self, snapshots: Mapping[str, PartitionSnapshot]) -> Iterator[Metric]:
        """Yield what is used in and below each queue, and what may be."""
        scope = "in and below the queue"
        usage = _Amounts("ugm_queue_usage", f"What is used {scope}", "queue")
        pending = _Amounts("ugm_queue_pending", f"What is pending {scope}", "queue")
        limit = _Amounts("ugm_queue_limit", f"The most that may be used {scope}", "queue")
        guaranteed = _Amounts("ugm_queue_guaranteed", "What the queue is guaranteed", "queue")
        running = _gauge("ugm_queue_running_applications", f"Applications that run {scope}.", "queue")
        most = _gauge("ugm_queue_limit_applications", f"The most applications that may run {scope}.", "queue")
        for name, snapshot in snapshots.items():
            for state in self._shown_queues(snapshot):
                labels = [name, _text(state.queue_path)]
                waiting = snapshot.pending_in_queues.get(state.queue_path)
                # What is not used now is told, too, so that a quotient with the limit is 0 and not missing.
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
        """Return the users, or groups, that have series of their own."""
        shares = {name: share(name) for name in cooperatively(names)}
        with self._lock:
            return self._leaders.setdefault((partition, kind), StableSelection(self._most)).choose(shares)

    def _happened(self) -> Iterator[Metric]:
        denials = CounterMetricFamily(
            "ugm_denials",
            "How often a limit was in the way, with the queue where it is set.",
            labels=("partition", "kind", "queue", "resource"),
        )
        events = CounterMetricFamily("ugm_events", "What has happened.", labels=("partition", "event"))
        for name, history in self._history.items():
            for (kind, queue, resource), count in history.denials().items():
                denials.add_metric([name, _text(kind), _text(queue), _text(resource)], count)
            for event, count in history.told().items():
                events.add_metric([name, event], count)
        yield from (denials, events)

    def _timed(self) -> Metric:
        seconds = HistogramMetricFamily("ugm_decision_seconds", "How long decisions took.", labels=("partition",))
        for name, times in self._times.items():
            classes, total = times.read()
            ends = [("+Inf" if end == float("inf") else str(end), count) for end, count in classes]
            seconds.add_metric([name], ends, total)
        return seconds


def _totals(snapshots: Mapping[str, PartitionSnapshot]) -> Iterator[Metric]:
    users = _gauge("ugm_users", "Users for whom something runs or is pending.")
    groups = _gauge("ugm_groups", "Groups to which something is charged.")
    queues = _gauge("ugm_queues", "Queues, including those that placement has created.")
    applications = _gauge("ugm_applications", "Applications that were submitted and have not ended.")
    allocations = _gauge("ugm_allocations", "Allocations, including pending ones.")
    nodes = _Amounts("ugm_node_capacity", "What all registered nodes offer")
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
    """One quantity as three metrics: cores, bytes, and units of everything else."""

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
    """The metrics of users, or of groups."""

    __slots__ = ("_limit", "_limit_running", "_limit_usage", "_most", "_running", "_share", "_usage", "pending")

    def __init__(self, kind: str) -> None:
        where = ("queue",)
        self._usage: Final = _Amounts(f"ugm_{kind}_usage", f"What the {kind} uses in all queues", kind)
        self._running: Final = _gauge(f"ugm_{kind}_running_applications", "Applications that run in all queues.", kind)
        self.pending: Final = _gauge(f"ugm_{kind}_pending_allocations", "Allocations that are pending.", kind)
        self._share: Final = _gauge(f"ugm_{kind}_limit_share", "The used part of the nearest limit; 1 is all.", kind)
        scope = f"by the {kind} in and below the queue"
        self._limit: Final = _Amounts(f"ugm_{kind}_limit", f"The most that may be used {scope}", kind, *where)
        self._limit_usage: Final = _Amounts(f"ugm_{kind}_limit_usage", f"What is used {scope}", kind, *where)
        self._most: Final = _gauge(f"ugm_{kind}_limit_applications", "The most applications there.", kind, *where)
        self._limit_running: Final = _gauge(
            f"ugm_{kind}_limit_running_applications", "Applications that run there.", kind, *where
        )

    def add(self, partition: str, standing: LimitUtilization, limits: Iterable[EffectiveLimit]) -> None:
        """Add the samples of one user or group."""
        labels = [partition, _text(standing.name)]
        self._usage.add(labels, _with_zeros(standing.usage, Resource(vcore=0, memory=0)))
        self._running.add_metric(labels, standing.running_applications)
        self._share.add_metric(labels, as_float(standing.share))
        for limit in sorted(limits, key=lambda limit: (limit.queue_path.count("."), limit.queue_path))[:_MOST_LIMITS]:
            place = [*labels, _text(limit.queue_path)]
            self._limit.add(place, limit.max_resources)
            self._limit_usage.add(place, limit.usage)
            if limit.max_applications:
                self._most.add_metric(place, limit.max_applications)
                self._limit_running.add_metric(place, limit.running_applications)

    def families(self) -> Iterator[Metric]:
        """Yield all metrics but that of what is pending."""
        yield from self._usage
        yield from (self._running, self._share)
        yield from self._limit
        yield from self._limit_usage
        yield from (self._most, self._limit_running)


def _with_zeros(amounts: Resource, others: Resource | None) -> Resource:
    """Return amounts, with 0 for what only the others name."""
    return Resource({**dict.fromkeys(others or {}, 0), **amounts})


def _gauge(name: str, sentence: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, sentence, labels=("partition", *labels))


def _text(name: str) -> str:
    """Return a name that can be written in UTF-8: one that cannot would cost all metrics."""
    return name.encode(errors="backslashreplace").decode()


def exposition(collector: Collector) -> Callable[[], tuple[bytes, str]]:
    """Return what `ugm.server.create_app` takes as its *metrics*: the text of a collector in a registry of its own."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return lambda: (generate_latest(registry), CONTENT_TYPE_LATEST)
