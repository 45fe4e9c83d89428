"""Metrics for OpenTelemetry, from the same description and with the same values as those for Prometheus.

`observe` needs the extra ``otel``. The program chooses the exporter, for example OTLP, and the interval of its reader.

Histograms are exported as two counters, of their durations and of their number, because OpenTelemetry has no observable
histograms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import Final, Protocol, final

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from ugm.server.metric_samples import MetricSamples
from ugm.server.metric_table import METRICS, MetricDescription, MetricKind

__all__ = ["SampleSource", "observe"]

#: The unit of OpenTelemetry, by the end of the name of a metric.
_UNITS: Final = {"_bytes": "By", "_cores": "{core}", "_units": "{unit}", "_unit_seconds": "s", "_seconds": "s"}


class SampleSource(Protocol):
    """A `ugm.server.PartitionCollector`, or any other source of samples."""

    def samples(self) -> MetricSamples:
        """Return the current values of all metrics."""
        ...


def observe(meter: Meter, source: SampleSource) -> None:
    """Create an instrument for every metric, with the current values of a source.

    Args:
        meter: creates the instruments.
        source: is read once for each collection of the reader.
    """
    collection = _Collection(source)
    for metric in METRICS:
        for variant in metric.variants():
            _create(meter, collection, variant)


def _create(meter: Meter, collection: _Collection, metric: MetricDescription) -> None:
    unit = next((unit for end, unit in _UNITS.items() if metric.name.endswith(end)), "1")
    if metric.kind is MetricKind.HISTOGRAM:
        for end, of_end in (("_count", "1"), ("_sum", unit)):
            name = f"{metric.name}{end}"
            meter.create_observable_counter(name, [collection.callback(name)], of_end, metric.sentence)
    elif metric.kind is MetricKind.COUNTER:
        meter.create_observable_counter(metric.name, [collection.callback(metric.name)], unit, metric.sentence)
    else:
        meter.create_observable_gauge(metric.name, [collection.callback(metric.name)], unit, metric.sentence)


@final
class _Collection:
    """The observations of one collection.

    A reader calls every instrument once. So the call of an instrument that has already been called begins another
    collection, for which the source is read again.
    """

    __slots__ = ("_called", "_lock", "_observations", "_source")

    def __init__(self, source: SampleSource) -> None:
        self._source: Final = source
        self._lock: Final = Lock()
        self._called: Final[set[str]] = set()
        self._observations: dict[str, list[Observation]] | None = None

    def callback(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        """Return the callback of an instrument."""
        return lambda _options: self._observe(name)

    def _observe(self, name: str) -> list[Observation]:
        with self._lock:
            if self._observations is None or name in self._called:
                self._observations = dict(_observations(self._source.samples()))
                self._called.clear()
            self._called.add(name)
            return self._observations.get(name, [])


def _observations(samples: MetricSamples) -> Iterator[tuple[str, list[Observation]]]:
    for metric, values in samples.values():
        yield metric.name, [Observation(value, _attributes(metric, labels)) for labels, value in values]
    for metric, histograms in samples.histograms():
        counts = ((found.labels, found.buckets[-1][1]) for found in histograms)
        yield f"{metric.name}_count", [Observation(count, _attributes(metric, labels)) for labels, count in counts]
        totals = ((found.labels, found.total) for found in histograms)
        yield f"{metric.name}_sum", [Observation(total, _attributes(metric, labels)) for labels, total in totals]


def _attributes(metric: MetricDescription, labels: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(metric.labels, labels, strict=True))
