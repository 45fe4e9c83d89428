"""Metrics: readable by the standard parser, bounded, and computed only at a scrape."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.partition_fixtures import config, started
from support.server_fixtures import NASTY, STATUS, Samples, busy, client, create_partition, samples_of
from support.service_fixtures import eventually
from ugm import AllocationRequest, Resource, UserGroup, parse_config
from ugm.budgets import Budget, Budgets, Period
from ugm.events import AllocationRequested, ApplicationSubmitted
from ugm.partition import AbstractPartition, Allocation, AllocationState, GangStyle
from ugm.server import History, PartitionCollector
from ugm.server.history import WorkTimes
from ugm.server.metrics import collector
from ugm.server.metrics.collector import exposition

#: Every test runs with partitions in memory and with clients of a service.
pytestmark = pytest.mark.usefixtures("service")

PENDING = Allocation(
    "gone", "old", Resource(memory=1), AllocationState.PENDING, placeholder=False, priority=0, preemptible=True
)


def of(series: Samples, name: str, **labels: str) -> float:
    """Return one sample; of bytes that of memory."""
    resource = {"resource": "memory"} if name.endswith("_bytes") else {}
    return series[name, tuple(sorted({**resource, **labels}.items()))]


def test_figures() -> None:
    """Usage, limits, pending amounts, totals, denials and events are those of the partition."""
    history = History()
    partition = busy(history)
    # Names with quotes and line breaks are escaped in the text format.
    partition.adopt_application("odd", UserGroup(NASTY + "\n\\"), "root.b")
    partition.adopt("odd", "odd", Resource({'"\n': 2}))
    series = samples_of(PartitionCollector({"default": partition}, history={"default": history}))

    assert (of(series, "ugm_users"), of(series, "ugm_groups")) == (2, 1)
    assert of(series, "ugm_applications") == of(series, "ugm_allocations") == 3
    assert of(series, "ugm_user_usage_units", user=NASTY + "\n\\", resource='"\n') == 2
    assert of(series, "ugm_denials_total", kind="group", queue="root", resource="memory") == 1
    assert of(series, "ugm_denials_total", kind="queue", queue="root.a", resource="memory") == 1
    assert of(series, "ugm_events_total", event="allocated") == 2
    assert of(series, "ugm_user_limit_applications", user="sue", queue="root") == 3
    assert of(series, "ugm_user_limit_running_applications", user="sue", queue="root") == 1
    assert of(series, "ugm_queue_usage_bytes", queue="root.a") == 6
    assert of(series, "ugm_queue_limit_bytes", queue="root.a") == 9
    assert of(series, "ugm_queue_guaranteed_bytes", queue="root.a") == 4
    assert of(series, "ugm_queue_pending_bytes", queue="root.a") == 4
    assert of(series, "ugm_user_usage_bytes", user="sue") == 6
    assert of(series, "ugm_user_pending_allocations", user="sue") == 1
    assert of(series, "ugm_group_limit_share", group="dev") == 0.75
    limit = {"queue": "root", "group": "dev"}
    assert (of(series, "ugm_group_limit_bytes", **limit), of(series, "ugm_group_limit_usage_bytes", **limit)) == (8, 6)


def test_preemption() -> None:
    """Plans are counted by outcome; terminating allocations, rights to room and timers have gauges."""
    partition = busy()
    partition.plan_preemption(AllocationRequest("x", "app", Resource(memory=10**9)), since=0, now=60)
    partition.preempt(next(one.allocation_id for one in partition.allocations() if one.state == "held"))
    series = samples_of(PartitionCollector({"default": partition}))

    assert of(series, "ugm_preemption_plans_total", outcome="blocked") == 1
    assert of(series, "ugm_terminating_allocations") == 1
    assert of(series, "ugm_placed_requests") == of(series, "ugm_reduction_timers") == 0


def test_service() -> None:
    """The leader of a service states everything; a process that stands by states its role and the term."""
    partition = busy()
    series = samples_of(PartitionCollector({"default": partition}, services={"default": lambda: STATUS}))

    assert of(series, "ugm_service_leading") == of(series, "ugm_service_log_available") == 1
    assert of(series, "ugm_service_sessions", state="connected") == 4
    assert of(series, "ugm_service_sessions", state="silent") == 1
    assert of(series, "ugm_service_waiting_operations") == 6
    assert of(series, "ugm_service_commit_seconds_count") == 9
    assert of(series, "ugm_service_commit_seconds_bucket", le="0.005") == 8
    assert of(series, "ugm_service_operation_seconds_count") == 40

    follower = replace(STATUS, is_leading=False, age=0.25)
    series = samples_of(PartitionCollector({"default": partition}, services={"default": lambda: follower}))
    names = {name for name, _ in series if name.startswith("ugm_service")}
    assert names == {"ugm_service_leading", "ugm_service_term", "ugm_service_standby_age_seconds"}
    assert of(series, "ugm_service_standby_age_seconds") == 0.25
    assert of(series, "ugm_service_leading") == 0
    assert not [name for name, _ in samples_of(PartitionCollector({"default": partition})) if "service" in name]


def test_units() -> None:
    """Cores, bytes and everything else are different metrics, each in the unit of its name."""
    maximum = "{vcore: 4, memory: 8Gi, gpu: 2, ephemeral-storage: 9}"
    partition = create_partition(config(f"{{name: a, resources: {{max: {maximum}}}}}"))
    partition.submit("app", UserGroup("sue"), "root.a")
    partition.allocate("x", "app", Resource.parse(vcore="1500m", memory="2Gi", gpu="1"))
    series = samples_of(PartitionCollector({"default": partition}))

    for part in ("queue", "user"):
        labels = {"queue": "root.a"} if part == "queue" else {"user": "sue"}
        assert of(series, f"ugm_{part}_usage_cores", **labels) == 1.5
        assert of(series, f"ugm_{part}_usage_bytes", **labels) == 2 * 2**30
        assert of(series, f"ugm_{part}_usage_units", resource="gpu", **labels) == 1
    assert of(series, "ugm_queue_limit_cores", queue="root.a") == 4
    assert of(series, "ugm_queue_limit_bytes", queue="root.a", resource="ephemeral-storage") == 9


def test_series_of_users_are_stable() -> None:
    """A selected user stays selected while others are nearly as close to a limit, and is replaced after its end."""
    partition = create_partition(config("{name: a}", limits='{users: ["*"], maxresources: {memory: 100}}'))
    collector = PartitionCollector({"default": partition}, most=2)

    def shown() -> set[str]:
        return {dict(labels)["user"] for name, labels in samples_of(collector) if name == "ugm_user_limit_share"}

    for name, amount in (("ana", 50), ("ben", 40)):
        started(partition, name, amount, "root.a", UserGroup(name))
    assert shown() == {"ana", "ben"}
    started(partition, "cy", 60, "root.a", UserGroup("cy"))
    assert shown() == {"ana", "ben"}
    partition.release("ana")
    partition.remove("ana")
    assert shown() == {"ben", "cy"}


def crowd(users: int, queues: int) -> AbstractPartition:
    """Return a partition with many users and queues that placement has created."""
    partition = create_partition(
        config(
            "{name: a}", rules="{name: provided, create: true}", limits='{users: ["*"], maxresources: {memory: 100}}'
        )
    )
    for number in range(users):
        partition.submit(f"app-{number}", UserGroup(f"user-{number}"), f"root.a{number % queues}")
        partition.allocate(f"app-{number}", f"app-{number}", Resource(memory=number % 90))
    return partition


@pytest.mark.parametrize("count", [2_000, pytest.param(20_000, marks=pytest.mark.deep)])
def test_many_users_are_few_series(count: int) -> None:
    """Of many users only the chosen number have series, those that are closest to a limit."""
    partition = crowd(count, 10)
    series = samples_of(PartitionCollector({"default": partition}, most=20))
    names = {dict(labels)["user"] for name, labels in series if name == "ugm_user_limit_share"}

    assert of(series, "ugm_users") == count
    assert len(names) == 20
    assert all(int(name.removeprefix("user-")) % 90 == 89 for name in names)
    assert len(series) < 250


def test_many_queues_are_few_series(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many queues only some have series, and those of the configuration come first."""
    monkeypatch.setattr(collector, "_MOST_QUEUES", 5)
    series = samples_of(PartitionCollector({"default": crowd(300, 300)}, most=0))
    names = {dict(labels)["queue"] for name, labels in series if name == "ugm_queue_running_applications"}

    assert of(series, "ugm_queues") == 302
    assert names == {"root", "root.a", "root.a0", "root.a1", "root.a10"}


def test_over_http() -> None:
    """A server serves metrics only if it was created with them."""
    assert "ugm_users{" in client().get("/metrics").text
    assert client(metrics=None).get("/metrics").status_code == 404
    assert client(metrics=exposition(PartitionCollector({}))).get("/metrics").headers["cache-control"] == "no-store"


def _settle(history: History, allocation_id: str) -> None:
    """Wait until a history knows a request; the events of a service arrive later."""
    eventually(lambda: allocation_id in history.times.requested)


def test_age_of_pending_requests() -> None:
    """The oldest request of a queue and of a user is the oldest that is still pending, also below the queue."""
    times = [0]
    history = History(clock=lambda: times[-1])
    partition = create_partition(config("{name: p, queues: [{name: x}, {name: y}]}"), subscribers=[history])
    for name, path in (("one", "root.p.x"), ("two", "root.p.y")):
        partition.submit(name, UserGroup(name), path)
        for end in ("a", "b"):
            times.append(times[-1] + 10)
            partition.request(f"{name}-{end}", name, Resource(memory=1))
            _settle(history, f"{name}-{end}")
    collector = PartitionCollector({"default": partition}, history={"default": history}, clock=lambda: 100)
    before = samples_of(collector)
    partition.release("one-a")
    series = samples_of(collector)

    assert of(before, "ugm_queue_oldest_pending_seconds", queue="root") == 100 - 10
    assert of(series, "ugm_queue_oldest_pending_seconds", queue="root.p.x") == 100 - 20
    assert of(series, "ugm_queue_oldest_pending_seconds", queue="root.p") == 100 - 20
    assert of(series, "ugm_user_oldest_pending_seconds", user="two") == 100 - 30
    assert of(series, "ugm_queue_pending_allocations", queue="root.p") == 3


def test_requests_that_have_ended_do_not_count() -> None:
    """A request that ended without an event that the history knows is skipped."""
    history, earlier = History(clock=lambda: 50), WorkTimes()
    partition = create_partition(config("{name: a}"), subscribers=[history])
    earlier.apply(ApplicationSubmitted("old", UserGroup("ana"), "root.a", "root.a", {}, GangStyle.SOFT), 1)
    earlier.apply(AllocationRequested(PENDING), 1)
    history.add_earlier(earlier)
    partition.submit("app", UserGroup("ana"), "root.a")
    partition.request("new", "app", Resource(memory=1))
    series = samples_of(PartitionCollector({"default": partition}, history={"default": history}, clock=lambda: 60))

    assert of(series, "ugm_queue_oldest_pending_seconds", queue="root.a") == 10


def test_many_resources_are_few_series(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients choose the names of resources, so their number is bounded; limited resources come first."""
    monkeypatch.setattr(collector, "_MOST_RESOURCES", 5)
    partition = create_partition(config("{name: a, resources: {max: {gpu: 2}}}"))
    partition.submit("app", UserGroup("sue"), "root.a")
    partition.allocate("x", "app", Resource({f"res-{number:03}": 1 for number in range(100)}))
    series = samples_of(PartitionCollector({"default": partition}))
    shown = {dict(labels)["resource"] for name, labels in series if name == "ugm_queue_usage_units"}

    assert (len(shown), "gpu" in shown) == (3, True)


def test_budgets_and_shares() -> None:
    """Accounts of budgets have their amounts, and users with series their place in the order by shares."""
    shares = "{accounts: {team: 1}, users: {team/ana: 1}, halflife: 3600}"
    text = f"partitions: [{{ugm: {{fairshare: {shares}}}, queues: [{{name: a}}]}}]"
    budgets = Budgets([Budget("monthly", user="*", amounts=Resource(vcore=3_600_000), period=Period.MONTH)])
    partition = create_partition(parse_config(text).partition(), models=[budgets])
    partition.submit("app", UserGroup("ana"), "root.a")
    assert partition.allocate("x", "app", Resource(vcore=2000), duration=100)
    series = samples_of(PartitionCollector({"default": partition}))
    account = {"budget": "monthly", "owner": "ana", "scope": "user", "resource": "vcore"}
    user = {"user": "ana", "account": "team"}

    assert of(series, "ugm_budget_limit_unit_seconds", **account) == 3600
    assert of(series, "ugm_budget_settled_unit_seconds", **account) + of(
        series, "ugm_budget_committed_unit_seconds", **account
    ) == pytest.approx(200, abs=4)
    assert of(series, "ugm_fair_share_position", **user) == 1
    assert of(series, "ugm_fair_share_entitled_share", **user) == 1


def test_positions_of_several_users() -> None:
    """The best user has position 1, users that tie share a position, and the next one comes after both."""
    shares = "{users: {ana: 0, ben: 1, eva: 1}, halflife: 3600}"
    text = f"partitions: [{{ugm: {{fairshare: {shares}}}, queues: [{{name: a}}]}}]"
    partition = create_partition(parse_config(text).partition())
    for user in ("ana", "ben", "eva"):
        partition.submit(user, UserGroup(user), "root.a")
        assert partition.request(f"{user}.0", user, Resource(vcore=1))
    series = samples_of(PartitionCollector({"default": partition}))

    places = {user: of(series, "ugm_fair_share_position", user=user, account="") for user in ("ana", "ben", "eva")}
    assert places == {"ben": 1, "eva": 1, "ana": 3}
