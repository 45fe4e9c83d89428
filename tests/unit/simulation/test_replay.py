"""Which job the replay starts when: by hand, and against asking for every waiting job each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from hypothesis import given
from hypothesis import strategies as st

from ugm import Partition, Resource, UserGroup
from ugm.config import (
    ChildTemplate,
    Extensions,
    FairShareConfig,
    LimitConfig,
    PartitionConfig,
    PlacementRule,
    QueueConfig,
    QueueResources,
)
from ugm.families import Families
from ugm.identity import ancestors
from ugm.ordering.ratios import Ratio, fair_maximum
from ugm.ordering.sort_settings import QueueSettings
from ugm.simulation import Job, JobOrderName, JobRejection, LimitSummary, UserImpact, WaitingTime, simulate

Mode = Literal["always", "unless-user-limited"]
#: A workload, a configuration and a cluster.
World = tuple[list[Job], PartitionConfig, Resource | None]

SUE = UserGroup("sue", ("dev",))
BOB = UserGroup("bob", ("dev", "test"))
EVE = UserGroup("eve")


#: Applications go where they ask to, and queues are made for them.
ANYWHERE = (PlacementRule(name="provided", create=True),)


def configured(root: QueueConfig, rules: tuple[PlacementRule, ...] = ANYWHERE) -> PartitionConfig:
    """Return a configuration with these queues."""
    return PartitionConfig(queues=(root,), placement_rules=rules)


def limited(*limits: LimitConfig, queues: tuple[QueueConfig, ...] = ()) -> PartitionConfig:
    """Return a configuration with limits at the root."""
    return configured(QueueConfig("root", limits=limits, queues=queues))


def job(number: int, submit: int, run: int, vcore: int = 1, queue: str = "root.a") -> Job:
    """Return a job of Sue that takes some thousandths of a core."""
    return Job(number, submit, run, queue, SUE, Resource(vcore=vcore))


def by(user: UserGroup, of_sue: Job) -> Job:
    """Return the same job of another user."""
    return replace(of_sue, user=user)


def two_for_sue() -> PartitionConfig:
    """Return a configuration that gives Sue two thousandths of a core."""
    return limited(LimitConfig(users=("sue",), max_resources=Resource(vcore=2)))


def test_what_can_never_fit_is_rejected() -> None:
    """A job above a limit does not wait; equal ones are one line of the report, with the limit that never has room."""
    limit = LimitConfig(users=("sue",), max_resources=Resource(vcore=2), max_applications=1)
    report = simulate([job(1, 0, 10, 1), job(2, 1, 10, 3), job(3, 1, 10, 3)], limited(limit))

    (rejection,) = report.rejections
    assert (report.started, report.rejected, report.waiting.delayed) == (1, 2, 0)
    assert (rejection.jobs, rejection.first_job, rejection.user, rejection.queue_path) == (2, 2, "sue", "root.a")
    assert rejection.reason == "user 'sue' in root: 3m vcore requested, never more than 2m allowed (limit for 'sue')"
    assert {limit.resource: limit.rejected for limit in report.limits} == {"vcore": 2, None: 0}


def test_figures_of_a_limit() -> None:
    """The summary of a limit has the jobs that it delayed, their users, the time, and the peak of the usage."""
    config = limited(LimitConfig(groups=("dev",), max_resources=Resource(vcore=4)))
    jobs = [job(1, 0, 10, 3), by(BOB, job(2, 1, 10, 2)), job(3, 2, 10, 2), by(EVE, job(4, 2, 1, 9))]

    (figures,) = simulate(jobs, config).limits

    # The key of the limit, where it is set, the limit, peak and whose, names under it, jobs, seconds, rejected, whom.
    whom = (UserImpact("bob", 1, 9), UserImpact("sue", 1, 8))
    key = ("group", "root", "dev", "vcore", "root limits[0]")
    assert LimitSummary(*key, 4, 4, "dev", 1, 2, 17, 0, whom) == figures


def test_seconds_are_booked_on_the_limit_that_stands_in_the_way() -> None:
    """When one limit has room and another has not, the waiting goes on at the cost of the other."""
    below = QueueConfig("a", limits=(LimitConfig(users=("sue",), max_applications=1),))
    config = limited(LimitConfig(groups=("dev",), max_applications=2), queues=(below,))
    jobs = [job(1, 0, 10), by(BOB, job(2, 1, 50)), job(3, 2, 5), by(BOB, job(4, 3, 50, queue="root.b"))]

    report = simulate(jobs, config)

    # Job 3 waits for 1 in root.a until 10, and then starts; job 4 waits for the group until 15, when 3 ends.
    delays = {figures.queue_path: (figures.delayed_jobs, figures.delayed_seconds) for figures in report.limits}
    assert delays == {"root.a": (1, 8), "root": (1, 12)}


def test_stopping_the_clock() -> None:
    """Stopped in the middle, the replay says what is still waiting, and books the waiting so far."""
    jobs = [job(1, 0, 100, 2), job(2, 10, 100, 2), job(3, 60, 1, 2)]

    report = simulate(jobs, two_for_sue(), until=50)

    assert (
        report.submitted,
        report.started,
        report.still_waiting,
        report.end_time,
        report.limits[0].delayed_seconds,
    ) == (2, 1, 1, 50, 40)


def test_what_the_cluster_does_not_offer() -> None:
    """A job that asks for a resource which no node offers is rejected."""
    gpu = replace(job(1, 0, 10), usage=Resource({"vcore": 1, "gpu": 1}))

    report = simulate([gpu, job(2, 0, 1)], limited(), cluster=Resource(vcore=5))

    (rejection,) = report.rejections
    assert rejection.reason == "queue root: 1 gpu requested, never more than 0 allowed"
    assert {limit.resource: (limit.limit, limit.rejected) for limit in report.limits} == {
        "vcore": (5, 0),
        "gpu": (0, 1),
    }


def test_without_a_queue() -> None:
    """Jobs for which no placement rule finds a queue are rejected with what the rules said, whatever their size."""
    config = configured(QueueConfig("root", queues=(QueueConfig("b"),)), rules=())
    jobs = [job(1, 0, 10, 1), job(2, 0, 10, 2), by(BOB, job(3, 0, 1)), job(4, 0, 10, queue="root.b")]

    report = simulate(jobs, config)

    reason = "no queue: provided (there are no placement rules): root.a does not exist, and the rule does not create it"
    assert (report.started, report.rejected) == (1, 3)
    assert report.rejections == (
        JobRejection("sue", "root.a", None, reason, 2, 1),
        JobRejection("bob", "root.a", None, reason, 1, 3),
    )


AMOUNTS = {"vcore": st.integers(1, 6), "gpu": st.integers(0, 2)}
RESOURCES = st.fixed_dictionaries({}, optional=AMOUNTS).map(Resource)
FAMILIES = Families({"gpu": ("a100", "v100")})


def normal(amounts: dict[str, int]) -> Resource:
    """Return amounts of models, with those of any model in addition."""
    found = {**amounts, "gpu": sum(amount for name, amount in amounts.items() if "gpu" in name)}
    return FAMILIES.normal(Resource(found).without_zeros())


VARIANTS = dict.fromkeys(FAMILIES.family_of, st.integers(0, 2))
MODELS = st.fixed_dictionaries({}, optional={**AMOUNTS, **VARIANTS}).map(normal)
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "priority.offset": st.sampled_from(["-1", "0", "2"]),
        "priority.policy": st.sampled_from(["fence", "default"]),
    },
)
COUNTS = st.sampled_from([0, 0, 1, 3])
RULES = st.sampled_from([ANYWHERE, (), (PlacementRule(name="user", create=True),)])


def settings_of(resources: st.SearchStrategy[Resource]) -> st.SearchStrategy[PartitionConfig]:
    """Return a strategy of configurations with some amounts."""
    limits = st.lists(
        st.builds(
            LimitConfig,
            users=st.lists(st.sampled_from(["sue", "bob", "*"]), max_size=2, unique=True).map(tuple),
            groups=st.lists(st.sampled_from(["dev", "test", "*"]), max_size=2, unique=True).map(tuple),
            max_resources=resources.filter(lambda amounts: not amounts or any(amounts.values())),
            max_applications=st.sampled_from([0, 0, 1, 2, 3]),
        ),
        max_size=3,
    ).map(tuple)
    amounts = st.builds(QueueResources, max=st.none() | resources, guaranteed=st.none() | resources)
    leaves = {"properties": PROPERTIES, "resources": amounts, "max_applications": COUNTS, "limits": limits}
    templates = st.builds(ChildTemplate, properties=PROPERTIES, resources=amounts, max_applications=COUNTS)
    roots = st.builds(
        QueueConfig,
        st.just("root"),
        limits=limits,
        queues=st.tuples(
            st.builds(QueueConfig, st.just("a"), **leaves),
            st.builds(QueueConfig, st.just("b"), declared_parent=st.booleans(), **leaves),
        ),
        max_applications=COUNTS,
        child_template=st.none() | templates,
    )
    return st.builds(configured, roots, RULES)


def arrivals_of(resources: st.SearchStrategy[Resource]) -> st.SearchStrategy[list[Job]]:
    """Return a strategy of workloads with some amounts."""
    queues = st.sampled_from(["root.a", "root.b", "root.b.c", "root.d", "root.d.e", ""])
    arrival = st.tuples(st.integers(0, 3), st.integers(0, 6), queues, st.sampled_from([SUE, BOB, EVE]), resources)
    return st.lists(arrival, max_size=30).map(workload)


def workload(arrivals: list[tuple[int, int, str, UserGroup, Resource]]) -> list[Job]:
    """Return jobs with some seconds between them."""
    jobs: list[Job] = []
    for number, (gap, run, queue, user, usage) in enumerate(arrivals, start=1):
        jobs.append(Job(number, (jobs[-1].submit_time if jobs else 0) + gap, run, queue, user, usage))
    return jobs


MODES = st.sampled_from(["always", "unless-user-limited"])
CORES = Resource(vcore=4)
CLUSTERS = st.none() | RESOURCES.map(lambda amounts: amounts + CORES)
PLAIN = st.tuples(arrivals_of(RESOURCES), settings_of(RESOURCES), CLUSTERS)
TYPED = st.fixed_dictionaries(VARIANTS).map(Resource)
#: With models of GPUs, and requests for any.
TYPED_WORLDS = st.tuples(
    arrivals_of(MODELS),
    settings_of(MODELS).map(lambda one: replace(one, ugm=Extensions(families={"gpu": ("a100", "v100")}))),
    st.none() | TYPED.map(lambda amounts: amounts + CORES),
)
WORLDS = PLAIN | TYPED_WORLDS


def naive_key(partition: Any, cluster: Resource | None, order: JobOrderName, one: Job) -> tuple[object, int]:  # noqa: ANN401 - of queues that exist
    """Return the key of the queue of a waiting job: ratios from the root down, or the priorities between fences."""
    path = partition.application(one.application_id).queue_path
    settings, priorities, ratios = QueueSettings(partition.config), [0], []
    for each in list(ancestors(path))[-2::-1]:
        below_root = [partition.queue(above).max_resources for above in reversed(list(ancestors(each))[:-1])]
        state, maxima = partition.queue(each), [cluster, *below_root]
        ratios.append(Ratio.used(state.usage, state.guaranteed or {}, fair_maximum(maxima)).fraction)
        priorities[-1] -= settings.of(each).offset
        priorities += [0] * settings.of(each).is_fenced
    # A missing priority is 0, and a missing ratio is the last one.
    ratios += ratios[-1:] * (4 - len(ratios))
    return {"fifo": (), "priority": (*priorities, 0, 0, 0)[:4], "fair": tuple(ratios)}[order], one.number


def in_turn(waiting: list[Job], key: Callable[[Job], Any]) -> Iterator[Job]:
    """Yield the waiting jobs in their order, which depends on those that have started before."""
    left = waiting.copy()
    while left:
        one = min(left, key=key)
        left.remove(one)
        yield one


def naive_waits(
    jobs: list[Job], partition: Partition, cluster: Resource | None = None, order: JobOrderName = "fifo"
) -> dict[int, int]:
    """Return the wait of every job that starts, from asking for every waiting job after each release."""
    waiting: list[Job] = []
    running: list[tuple[int, int, Job]] = []
    waits: dict[int, int] = {}
    key = partial(naive_key, partition, cluster, order)

    def starts(one: Job, now: int) -> bool:
        if partition.allocate(one.application_id, one.application_id, one.usage):
            running.append((now + one.run_time, len(waits), one))
            waits[one.number] = now - one.submit_time
            return True
        return False

    def end_until(time: int | None) -> None:
        while running and (time is None or min(running)[0] <= time):
            now = min(running)[0]
            for event in sorted(event for event in running if event[0] == now):
                running.remove(event)
                partition.remove(event[2].application_id)
            waiting[:] = [one for one in in_turn(waiting, key) if not starts(one, now)]

    for one in jobs:
        end_until(one.submit_time)
        if not partition.submit(one.application_id, one.user, one.queue):
            continue
        if not partition.check(one.application_id, one.usage).can_wait:
            partition.remove(one.application_id)
        elif not starts(one, one.submit_time):
            waiting.append(one)
    end_until(None)
    return waits


@given(WORLDS, MODES, st.sampled_from(["fifo", "fair", "priority"]))
def test_equals_the_naive_replay(world: World, mode: Mode, order: JobOrderName) -> None:
    """The outcome is that of asking for every waiting job, in the order, after each release."""
    jobs, config, cluster = world
    report = simulate(jobs, config, cluster=cluster, group_limits=mode, order=order)

    waits = naive_waits(jobs, Partition(config, cluster=cluster, group_limits=mode), cluster, order)
    by_user: dict[str, list[int]] = {}
    for one in jobs:
        if one.number in waits:
            by_user.setdefault(one.user.name, []).append(waits[one.number])
    assert {user: WaitingTime.of(own) for user, own in by_user.items()} == dict(report.users)
    assert WaitingTime.of(list(waits.values())) == report.waiting


@given(WORLDS, MODES)
def test_accounts_balance(world: World, mode: Mode) -> None:
    """Every job has one fate, the seconds of the limits are all the waiting there was, and the self-check is clean."""
    jobs, config, cluster = world
    report = simulate(jobs, config, cluster=cluster, group_limits=mode)

    assert len(jobs) == report.submitted == report.started + report.rejected
    assert report.rejected == sum(rejection.jobs for rejection in report.rejections)
    assert report.waiting.total == sum(figures.delayed_seconds for figures in report.limits)
    assert all(hit.jobs or hit.seconds for figures in report.limits for hit in figures.users)
    assert report.is_clean


def turns(order: JobOrderName, fairshare: FairShareConfig | None = None) -> list[int]:
    """Return the waits of three users for one core: Sue has used it for 100 s, and Bob and Eve come after her."""
    config = replace(
        limited(queues=(QueueConfig("a", resources=QueueResources(max=Resource(vcore=1))),)),
        ugm=Extensions(fair_share=fairshare),
    )
    jobs = [job(1, 0, 100), job(2, 1, 10), by(BOB, job(3, 2, 10)), by(EVE, job(4, 3, 10))]
    report = simulate(jobs, config, order=order)

    assert report.is_clean
    means = {name: waits.max for name, waits in report.users}
    return [means[name] for name in ("sue", "bob", "eve")]


def test_shares_decide() -> None:
    """Users that have used less come first; the shares of the configuration decide, or else all are equal."""
    assert turns("fifo") == [99, 108, 117]
    assert turns("share") == [119, 98, 107]
    shares = FairShareConfig(users={"sue": "1", "eve": "1000"}, accounts={"dev": "1"})
    assert turns("share", shares) == [109, 118, 97]


def test_utilization() -> None:
    """The report has the use of the cluster, and the waits of the log."""
    jobs = [job(1, 10, 100), replace(by(BOB, job(2, 10, 50, 3)), logged_wait=7), job(3, 160, 50)]
    report = simulate(jobs, limited(), cluster=Resource(vcore=4))
    [use] = report.utilization

    assert (use.area, use.seconds, use.mean, use.share) == (300, 200, 1.5, 0.375)
    assert report.logged == WaitingTime.of([7])
    assert simulate([job(1, 0, 1)], limited()).utilization[0].share is None
