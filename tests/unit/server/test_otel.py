"""Metrics for OpenTelemetry have the values of those for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from prometheus_client.parser import text_string_to_metric_families

from support.lending import lending_models
from support.server_fixtures import STATUS, busy
from ugm import Resource
from ugm.partition import AbstractPartition
from ugm.server import DecisionTimes, History, PartitionCollector
from ugm.server.metric_table import descriptions
from ugm.server.metrics import exposition
from ugm.server.otel import observe

Values = dict[tuple[str, tuple[tuple[str, object], ...]], float]


def collector(partition: AbstractPartition, history: History) -> PartitionCollector:
    """Return a collector in which most metrics have values."""
    times = DecisionTimes()
    times.timed(partition.allocate)("more", "app", Resource(memory=100))
    return PartitionCollector(
        {"default": partition},
        history={"default": history},
        services={"default": lambda: STATUS},
        times={"default": times},
        clock=lambda: 100,
    )


def collected(reader: InMemoryMetricReader) -> Values:
    """Return the values of one collection, by name and attributes."""
    return dict(_points(reader))


def _points(reader: InMemoryMetricReader) -> Iterator[tuple[tuple[str, tuple[tuple[str, object], ...]], float]]:
    data = reader.get_metrics_data()
    assert data is not None
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    assert isinstance(point, NumberDataPoint)
                    yield (metric.name, tuple(sorted((point.attributes or {}).items()))), point.value


def scraped(source: PartitionCollector) -> Values:
    """Return the values for Prometheus, with the names of OpenTelemetry and without buckets."""
    families = text_string_to_metric_families(exposition(source)()[0].decode())
    return {
        (sample.name.removesuffix("_total"), tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }


def test_values_are_those_for_prometheus() -> None:
    """Every value of a scrape is exported under the same name, with the labels as attributes."""
    history, reader = History(clock=lambda: 7), InMemoryMetricReader()
    source = collector(busy(history, models=lending_models()), history)
    provider = MeterProvider([reader])
    observe(provider.get_meter("ugm"), source)
    found = collected(reader)
    provider.shutdown()

    assert len(found) > 100
    assert found == scraped(source)


def test_each_collection_reads_the_source_once() -> None:
    """All instruments of a collection share its values, and the next collection has others."""
    history, reader = History(clock=lambda: 7), InMemoryMetricReader()
    partition = busy(history)
    source, calls = collector(partition, history), [0]

    class Counted:
        def samples(self) -> object:
            calls[0] += 1
            return source.samples()

    provider = MeterProvider([reader])
    observe(provider.get_meter("ugm"), Counted())  # type: ignore[arg-type] # a source with a counter
    labels = (("partition", "default"),)
    before = collected(reader)
    partition.release("held")
    partition.remove("app")
    after = collected(reader)
    provider.shutdown()

    assert calls == [2]
    assert (before["ugm_applications", labels], after["ugm_applications", labels]) == (2, 1)


def test_names_are_valid_for_opentelemetry() -> None:
    """OpenTelemetry refuses longer names."""
    assert max(map(len, descriptions())) + len("_count") <= 255
