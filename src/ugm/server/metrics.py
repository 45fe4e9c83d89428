"""Metrics for Prometheus: worked out when somebody asks, and never more series than were allowed.

A `PartitionCollector` keeps nothing and follows nobody. A scrape asks the partition in small pieces. Users, groups and
queues are many, and labels cost memory elsewhere: only the users and groups that are closest to a limit are told by
name, and how many there are in all.

Amounts are in base units: thousandths for ``vcore``, bytes for ``memory``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from ugm.arguments import count_of
from ugm.partition import Partition, Standing
from ugm.queues import QueueState
from ugm.resources import Resource, as_float
from ugm.server.history import History
from ugm.server.pace import paced
from ugm.server.seen import closest_groups, closest_users
from ugm.server.timing import DecisionTimes

__all__ = ["PartitionCollector", "exposition"]

#: What a series without a resource counts.
_APPLICATIONS: Final = "applications"


class _Queue(NamedTuple):
    state: QueueState
    pending: Resource


@final
class PartitionCollector(Collector):
    """The metrics of several partitions: register it with a `prometheus_client.CollectorRegistry`.

    Args:
        partitions: by name.
        history: of those partitions that somebody follows, the subscriber; for denials and events.
        times: of those whose decisions are timed, the times.
        most: how many users, and how many groups, of each partition are told by name.
        most_queues: how many queues of each partition are told by name; those of the configuration come first.
    """

    __slots__ = ("_history", "_most", "_most_queues", "_partitions", "_times")

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
        self._most: Final = count_of("most", most)
        self._most_queues: Final = count_of("most_queues", most_queues)

    def describe(self) -> Iterator[Metric]:
        """Return nothing: registering asks no partition."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics as they are now."""
        yield from self._totals()
        yield from self._queues()
        yield from self._named("user")
        yield from self._named("group")
        yield from self._happened()
        if self._times:
            yield self._timed()

    def _totals(self) -> Iterator[Metric]:
        users = _gauge("ugm_users", "Users for whom something runs.")
        groups = _gauge("ugm_groups", "Groups to which something is charged.")
        queues = _gauge("ugm_queues", "Queues, those that placement has created included.")
        applications = _gauge("ugm_applications", "Applications that were submitted and have not ended.")
        allocations = _gauge("ugm_allocations", "Allocations, pending ones included.")
        nodes = _gauge("ugm_node_capacity", "What all registered nodes offer.", "resource")
        for name, partition in self._partitions.items():
            users.add_metric([name], len(partition.user_names()))
            groups.add_metric([name], len(partition.group_names()))
            queues.add_metric([name], len(partition.queue_paths()))
            applications.add_metric([name], len(partition.application_ids()))
            allocations.add_metric([name], len(partition.allocation_ids()))
            root = partition.queue_alone("root")
            _add(nodes, [name], root.max_resources if root else None)
        yield from (users, groups, queues, applications, allocations, nodes)

    def _queues(self) -> Iterator[Metric]:
        """Yield what is used in each queue itself; what is used below it are other series, so that they add up."""
        usage = _gauge("ugm_queue_usage", "What is used in the queue itself.", "queue", "resource")
        pending = _gauge("ugm_queue_pending", "What is pending in the queue itself.", "queue", "resource")
        limit = _gauge("ugm_queue_limit", "The most that may be used in and below the queue.", "queue", "resource")
        guaranteed = _gauge("ugm_queue_guaranteed", "What the queue is guaranteed.", "queue", "resource")
        running = _gauge("ugm_queue_running_applications", "Applications that run in the queue itself.", "queue")
        for name, partition in self._partitions.items():
            for state, waiting in self._told_queues(partition):
                labels = [name, _text(state.queue_path)]
                _add(usage, labels, state.usage)
                _add(pending, labels, waiting)
                _add(limit, labels, state.max_resources if state.queue_path != "root" else None)
                if state.max_applications:
                    limit.add_metric([*labels, _APPLICATIONS], state.max_applications)
                _add(guaranteed, labels, state.guaranteed)
                running.add_metric(labels, state.running_applications)
        yield from (usage, pending, limit, guaranteed, running)

    def _told_queues(self, partition: Partition) -> list[_Queue]:
        states = [
            state for path in paced(partition.queue_paths()) if (state := partition.queue_alone(path)) is not None
        ]
        states.sort(key=lambda state: (not state.is_managed, state.queue_path.count("."), state.queue_path))
        return [_Queue(state, partition.pending(state.queue_path)[1]) for state in states[: self._most_queues]]

    def _named(self, kind: str) -> Iterator[Metric]:
        """Yield those users, or groups, that are closest to a limit."""
        usage = _gauge(f"ugm_{kind}_usage", f"What the {kind} uses; the closest to a limit only.", kind, "resource")
        running = _gauge(f"ugm_{kind}_running_applications", "Applications that run; of the same.", kind)
        labels = (kind, "queue", "limit_name", "resource")
        share = _gauge(f"ugm_{kind}_limit_share", "How much of the nearest limit is used; 1 is all of it.", *labels)
        limit = _gauge(f"ugm_{kind}_limit", "The nearest limit.", *labels)
        used = _gauge(f"ugm_{kind}_limit_usage", "What is used of the nearest limit.", *labels)
        for name, partition in self._partitions.items():
            for standing in self._closest(partition, kind):
                who = [name, _text(standing.name)]
                _add(usage, who, standing.usage)
                running.add_metric(who, standing.running_applications)
                _add_nearest(who, standing, share, limit, used)
        yield from (usage, running, share, limit, used)

    def _closest(self, partition: Partition, kind: str) -> list[Standing]:
        if kind == "user":
            return closest_users(partition, partition.user_names(), self._most)
        return closest_groups(partition, partition.group_names(), self._most)

    def _happened(self) -> Iterator[Metric]:
        denials = CounterMetricFamily(
            "ugm_denials", "How often a limit was in the way.", labels=("partition", "kind", "resource")
        )
        events = CounterMetricFamily("ugm_events", "What has happened.", labels=("partition", "event"))
        for name, history in self._history.items():
            for (kind, resource), count in history.denials().items():
                denials.add_metric([name, _text(kind), _text(resource)], count)
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


def _gauge(name: str, sentence: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, sentence, labels=("partition", *labels))


def _add(gauge: GaugeMetricFamily, labels: list[str], amounts: Resource | None) -> None:
    for name, amount in (amounts or {}).items():
        gauge.add_metric([*labels, _text(name)], as_float(amount))


def _add_nearest(
    who: list[str], standing: Standing, share: GaugeMetricFamily, limit: GaugeMetricFamily, used: GaugeMetricFamily
) -> None:
    nearest, resource = standing.limit, standing.resource
    if nearest is None:
        return
    labels = [*who, _text(nearest.queue_path), _text(nearest.limit_name), _text(resource or _APPLICATIONS)]
    share.add_metric(labels, as_float(standing.share))
    if resource is None:
        limit.add_metric(labels, nearest.max_applications)
        used.add_metric(labels, nearest.running_applications)
    elif nearest.max_resources is not None:
        limit.add_metric(labels, as_float(nearest.max_resources[resource]))
        used.add_metric(labels, as_float(nearest.usage[resource]))


def _text(name: str) -> str:
    """Return a name that can be written in UTF-8: one that cannot would cost all metrics."""
    return name.encode(errors="backslashreplace").decode()


def exposition(collector: Collector) -> Callable[[], tuple[bytes, str]]:
    """Return what `ugm.server.create_app` takes as its *metrics*: the text of a collector in a registry of its own."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return lambda: (generate_latest(registry), CONTENT_TYPE_LATEST)
