"""The samples of one scrape, by metric of the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, final

from ugm.server.metrics.table import METRICS, MetricDescription, MetricKind, amount_unit, descriptions

__all__ = ["HistogramSample", "MetricSamples", "Sample", "label_text"]


class Sample(NamedTuple):
    """The value of a gauge or counter."""

    labels: tuple[str, ...]
    value: float


class HistogramSample(NamedTuple):
    """The durations of one histogram."""

    labels: tuple[str, ...]
    #: Pairs (upper bound in seconds, number of durations up to it), ascending; the last bound is infinite.
    buckets: Sequence[tuple[float, int]]
    #: The sum of all durations, in seconds.
    total: float


@final
class MetricSamples:
    """The samples of one scrape.

    >>> samples = MetricSamples()
    >>> samples.add("ugm_users", 3, partition="default")
    >>> samples.add_amounts("ugm_node_capacity", {"vcore": 4000, "memory": 8}, partition="default")
    >>> [(metric.name, found) for metric, found in samples.values()]  # doctest: +NORMALIZE_WHITESPACE
    [('ugm_users', [Sample(labels=('default',), value=3)]),
     ('ugm_node_capacity_cores', [Sample(labels=('default',), value=4.0)]),
     ('ugm_node_capacity_bytes', [Sample(labels=('default', 'memory'), value=8.0)])]
    """

    __slots__ = ("_descriptions", "_histograms", "_values")

    def __init__(self) -> None:
        self._descriptions: Final = descriptions()
        self._values: Final[dict[str, list[Sample]]] = {}
        self._histograms: Final[dict[str, list[HistogramSample]]] = {}

    def add(self, name: str, value: float, /, **labels: str) -> None:
        """Add the value of a gauge or counter.

        Args:
            name: the name of the metric, with its unit if it has one.
            value: the value.
            labels: all labels of the metric.
        """
        self._values.setdefault(name, []).append(Sample(self._labels(name, labels), value))

    def add_amounts(self, name: str, amounts: Mapping[str, int] | None, /, **labels: str) -> None:
        """Add a value for each resource to the metric of its unit."""
        for resource, amount in (amounts or {}).items():
            suffix, value, more = amount_unit(resource, amount)
            self.add(f"{name}{suffix}", value, **labels, **more)

    def add_histogram(self, name: str, buckets: Sequence[tuple[float, int]], total: float, /, **labels: str) -> None:
        """Add the durations of a histogram."""
        self._histograms.setdefault(name, []).append(HistogramSample(self._labels(name, labels), buckets, total))

    def _labels(self, name: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(label_text(labels[label]) for label in self._descriptions[name].labels)

    def values(self) -> Iterator[tuple[MetricDescription, list[Sample]]]:
        """Yield the gauges and counters that have samples, in the order of the table."""
        for metric in _variants():
            if metric.kind is not MetricKind.HISTOGRAM and metric.name in self._values:
                yield metric, self._values[metric.name]

    def histograms(self) -> Iterator[tuple[MetricDescription, list[HistogramSample]]]:
        """Yield the histograms that have samples, in the order of the table."""
        for metric in _variants():
            if metric.name in self._histograms:
                yield metric, self._histograms[metric.name]


def _variants() -> Iterable[MetricDescription]:
    return (variant for metric in METRICS for variant in metric.variants())


def label_text(name: str) -> str:
    """Return a name with escapes for text that is not valid UTF-8, which would make the whole scrape fail."""
    return name.encode(errors="backslashreplace").decode()
