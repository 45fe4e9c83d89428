"""Metrics: read by the stock parser, bounded, and worked out only when somebody asks."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from support.partition_fixtures import partition_of, started
from support.server_fixtures import NASTY, busy, client
from ugm import Partition, RequestError, Resource, UserGroup
from ugm.server import DecisionTimes, History, PartitionCollector
from ugm.server.metrics import exposition

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(collector: PartitionCollector) -> Series:
    """Return what the stock parser reads, by name and labels but for the partition."""
    text, kind = exposition(collector)()
    assert kind.startswith("text/plain")
    return {
        (sample.name, tuple(sorted(item for item in sample.labels.items() if item[0] != "partition"))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def of(series: Series, name: str, **labels: str) -> float:
    """Return one figure."""
    return series[name, tuple(sorted(labels.items()))]


def test_figures() -> None:
    """Usage, limits, demand and totals are those of the partition."""
    series = read(PartitionCollector({"default": busy()}))

    assert of(series, "ugm_users") == of(series, "ugm_groups") == 1
    assert of(series, "ugm_applications") == of(series, "ugm_allocations") == 2
    assert of(series, "ugm_queue_usage_bytes", queue="root.a") == 6
    assert of(series, "ugm_queue_limit_bytes", queue="root.a") == 9
    assert of(series, "ugm_queue_guaranteed_bytes", queue="root.a") == 4
    assert of(series, "ugm_queue_pending_bytes", queue="root.a") == 4
    assert of(series, "ugm_user_usage_bytes", user="sue") == 6
    assert of(series, "ugm_user_pending_allocations", user="sue") == 1
    assert of(series, "ugm_group_limit_share", group="dev") == 0.75
    limit = {"queue": "root", "group": "dev"}
    assert (of(series, "ugm_group_limit_bytes", **limit), of(series, "ugm_group_limit_usage_bytes", **limit)) == (8, 6)


def test_limits_on_applications() -> None:
    """Where the number of applications is the nearest limit, it is told like a resource."""
    partition = partition_of("{name: a, maxapplications: 4}", limits='{users: ["*"], maxapplications: 2}')
    started(partition, "app", 1)
    series = read(PartitionCollector({"default": partition}))
    labels = {"user": "sue", "queue": "root"}

    assert of(series, "ugm_user_limit_applications", **labels) == 2
    assert of(series, "ugm_user_limit_running_applications", **labels) == 1
    assert of(series, "ugm_queue_limit_applications", queue="root.a") == 4


def test_units() -> None:
    """Cores, bytes and everything else are different metrics, each in the unit of its name."""
    partition = partition_of("{name: a, resources: {max: {vcore: 4, memory: 8Gi, gpu: 2}}}")
    partition.submit("app", UserGroup("sue"), "root.a")
    partition.allocate("x", "app", Resource.parse(vcore="1500m", memory="2Gi", gpu="1"))
    series = read(PartitionCollector({"default": partition}))

    for part in ("queue", "user"):
        labels = {"queue": "root.a"} if part == "queue" else {"user": "sue"}
        assert of(series, f"ugm_{part}_usage_cores", **labels) == 1.5
        assert of(series, f"ugm_{part}_usage_bytes", **labels) == 2 * 2**30
        assert of(series, f"ugm_{part}_usage_units", resource="gpu", **labels) == 1
    assert of(series, "ugm_queue_limit_cores", queue="root.a") == 4


def test_usage_divides_by_the_limit() -> None:
    """Usage and limit of a queue have the same labels and the same scope, also where only children use something."""
    partition = partition_of("{name: p, resources: {max: {memory: 8}}, queues: [{name: x}, {name: y}]}, {name: q}")
    for number, path in enumerate(("root.p.x", "root.p.y")):
        partition.submit(f"app-{number}", UserGroup("sue"), path)
        partition.allocate(f"{number}", f"app-{number}", Resource(memory=3))
    series = read(PartitionCollector({"default": partition}))
    usage = {labels: value for (name, labels), value in series.items() if name == "ugm_queue_usage_bytes"}
    limits = {labels: value for (name, labels), value in series.items() if name == "ugm_queue_limit_bytes"}

    assert {labels: usage[labels] / limit for labels, limit in limits.items()} == {(("queue", "root.p"),): 0.75}
    assert of(series, "ugm_queue_running_applications", queue="root.p") == 2


def test_series_of_users_are_stable() -> None:
    """A user who is shown stays while others come close, and after the last application has ended."""
    partition = partition_of(limits='{users: ["*"], maxresources: {memory: 100}}')
    collector = PartitionCollector({"default": partition}, most=2)

    def shown() -> set[str]:
        return {dict(labels)["user"] for name, labels in read(collector) if name == "ugm_user_limit_share"}

    for name, amount in (("ana", 50), ("ben", 40)):
        started(partition, name, amount, "root.a", UserGroup(name))
    assert shown() == {"ana", "ben"}
    started(partition, "cy", 60, "root.a", UserGroup("cy"))
    assert shown() == {"ana", "ben"}
    partition.release("ana")
    partition.remove("ana")
    assert shown() == {"ben", "cy"}


def test_what_has_happened() -> None:
    """Denials are counted by kind of limit, queue and resource, and events by kind."""
    history = History()
    series = read(PartitionCollector({"default": busy(history)}, history={"default": history}))

    assert of(series, "ugm_denials_total", kind="group", queue="root", resource="memory") == 1
    assert of(series, "ugm_denials_total", kind="queue", queue="root.a", resource="memory") == 1
    assert of(series, "ugm_events_total", event="allocated") == 1


def test_decision_times() -> None:
    """Only decisions of wrapped operations are timed, those that raise included."""
    times, partition = DecisionTimes(), busy()
    allocate = times.timed(partition.allocate)
    assert allocate("more", "app", Resource(memory=1))
    with pytest.raises(RequestError):
        allocate("more", "nothing", Resource(memory=1))
    series = read(PartitionCollector({"default": partition}, times={"default": times}))

    assert of(series, "ugm_decision_seconds_count") == 2
    assert of(series, "ugm_decision_seconds_bucket", le="+Inf") == 2
    assert of(series, "ugm_decision_seconds_sum") > 0


def test_names_with_everything_in_them() -> None:
    """Names with quotes and line ends come through the text format."""
    partition = Partition()
    partition.adopt_application("app", UserGroup(NASTY + "\n\\"), "root.a")
    partition.allocate("app", "app", Resource({'"\n': 2}))
    series = read(PartitionCollector({"default": partition}))

    assert of(series, "ugm_user_usage_units", user=NASTY + "\n\\", resource='"\n') == 2


def crowd(users: int, queues: int) -> Partition:
    """Return a partition with many users and queues that placement has created."""
    partition = partition_of(
        rules="{name: provided, create: true}", limits='{users: ["*"], maxresources: {memory: 100}}'
    )
    for number in range(users):
        partition.submit(f"app-{number}", UserGroup(f"user-{number}"), f"root.a{number % queues}")
        partition.allocate(f"app-{number}", f"app-{number}", Resource(memory=number % 90))
    return partition


def test_many_users_are_few_series() -> None:
    """With 100,000 users no more than the chosen number are told by name, those that are closest to a limit."""
    partition = crowd(100_000, 10)
    series = read(PartitionCollector({"default": partition}, most=20))
    told = {dict(labels)["user"] for name, labels in series if name == "ugm_user_limit_share"}

    assert of(series, "ugm_users") == 100_000
    assert len(told) == 20
    assert all(int(name.removeprefix("user-")) % 90 == 89 for name in told)
    assert len(series) < 250


def test_many_queues_are_few_series() -> None:
    """Of many queues those of the configuration come first, and no more than the chosen number are told."""
    series = read(PartitionCollector({"default": crowd(300, 300)}, most=0, most_queues=5))
    told = {dict(labels)["queue"] for name, labels in series if name == "ugm_queue_running_applications"}

    assert of(series, "ugm_queues") == 302
    assert told == {"root", "root.a", "root.a0", "root.a1", "root.a10"}


def test_registering_asks_nobody() -> None:
    """A collector is registered without a look at any partition."""
    partitions: Mapping[str, Partition] = {"default": None}  # type: ignore[dict-item] # nothing to look at
    CollectorRegistry().register(PartitionCollector(partitions))


def test_over_http() -> None:
    """A server tells its metrics where it was given some, and only there."""
    assert "ugm_users{" in client().get("/metrics").text
    assert client(metrics=None).get("/metrics").status_code == 404
    assert client(metrics=exposition(PartitionCollector({}))).get("/metrics").headers["cache-control"] == "no-store"
