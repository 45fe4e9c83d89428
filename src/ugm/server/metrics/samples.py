"""The samples of one scrape, by metric of the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from ugm.server.metrics.table import MetricKind, amount_unit, descriptions

__all__ = ["MetricSamples"]

_FAMILIES: Final[Mapping[MetricKind, Any]] = {
    MetricKind.GAUGE: GaugeMetricFamily,
    MetricKind.COUNTER: CounterMetricFamily,
    MetricKind.HISTOGRAM: HistogramMetricFamily,
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
