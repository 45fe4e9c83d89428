"""Misuse of a partition: one test for every error, with everything shown the same before and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from support.partition_fixtures import SUE, Licences, memory, partition_of, refused, started
from support.tracking_fixtures import Wrong
from ugm import AllocationRequest, Partition, RequestError, Resource, UserInQueue, parse_config
from ugm.configuration import SchedulerConfig
from ugm.partition import AuditReport, Difference, RunningAllocation

NAME = "a name is a text of 1 to 256 characters"
ID = "an application id is a text of 1 to 256 characters"
TEXTS = ["", None, 7, b"app", ["app"]]

#: Every call that takes an allocation, an application and a usage.
CHARGING: dict[str, Callable[..., Any]] = {
    "request": Partition.request,
    "allocate": Partition.allocate,
    "adopt": Partition.adopt,
    "allocate_all": lambda partition, *parts, **traits: partition.allocate_all(
        [AllocationRequest("first", "app", memory(1)), AllocationRequest(*parts, **traits)]
    ),
}


def _charge_to(call: Callable[..., Any], partition: Partition, application_id: Wrong) -> None:
    call(partition, "new", application_id, memory(1))


def _charge(call: Callable[..., Any], partition: Partition, usage: Wrong) -> None:
    call(partition, "new", "app", usage)


#: Every call that takes an application.
OF_AN_APPLICATION: dict[str, Callable[[Partition, Any], Any]] = {
    "complete": Partition.complete,
    "fail": Partition.fail,
    "remove": Partition.remove,
    "time_out_gang": Partition.time_out_gang,
    "headroom": Partition.headroom,
    "limits": Partition.limits,
    "check": lambda partition, name: partition.check(name, memory(1)),
    "explain": lambda partition, name: partition.explain(name, memory(1)),
    **{name: partial(_charge_to, call) for name, call in CHARGING.items()},
}
#: Every call that takes a queue.
OF_A_QUEUE: dict[str, Callable[[Partition, Any], Any]] = {
    "queue_headroom": Partition.queue_headroom,
    "queue_maximum": Partition.queue_maximum,
    "applications": Partition.applications,
}
#: Every call that takes a usage.
USING: dict[str, Callable[[Partition, Any], Any]] = {
    "check": lambda partition, usage: partition.check("app", usage),
    "explain": lambda partition, usage: partition.explain("app", usage),
    "check of nobody running": lambda partition, usage: partition.check("idle", usage),
    "replace": lambda partition, usage: partition.replace("placeholder", "new", usage),
    "resize": lambda partition, usage: partition.resize("app", usage),
    "audit": lambda partition, usage: partition.audit([RunningAllocation("app", "app", usage)]),
    **{name: partial(_charge, call) for name, call in CHARGING.items()},
}


def by_name(calls: Mapping[str, object]) -> pytest.MarkDecorator:
    """Run a test with every call of a table."""
    return pytest.mark.parametrize("call", calls.values(), ids=calls)


@pytest.fixture(name="partition")
def _partition() -> Partition:
    partition = partition_of("{name: a, resources: {max: {memory: 9}}}, {name: p, parent: true}", models=[Licences(9)])
    started(partition, "app", 3)
    partition.allocate("placeholder", "app", memory(1), placeholder=True)
    partition.submit("idle", SUE, "root.a")
    return partition


# Names


@by_name(OF_AN_APPLICATION)
@pytest.mark.parametrize("name", TEXTS)
def test_no_application_id(partition: Partition, call: Callable[..., Any], name: Wrong) -> None:
    """What is no text is no application id."""
    with refused(partition, f"application_id {name!r}: {ID}", RequestError):
        call(partition, name)


@by_name(OF_AN_APPLICATION)
def test_unknown_application(partition: Partition, call: Callable[..., Any]) -> None:
    """Only applications that were submitted can be asked about, or get anything."""
    with refused(partition, "application_id 'no': there is no such application", RequestError):
        call(partition, "no")


@by_name(CHARGING)
@pytest.mark.parametrize("name", TEXTS)
def test_no_allocation_id(partition: Partition, call: Callable[..., Any], name: Wrong) -> None:
    """What is no text is no allocation id."""
    with refused(partition, f"allocation_id {name!r}: {NAME}", RequestError):
        call(partition, name, "app", memory(1))


@pytest.mark.parametrize("name", TEXTS)
def test_no_allocation_id_elsewhere(partition: Partition, name: Wrong) -> None:
    """Nor is it for a call that takes an allocation alone."""
    for call in [partition.release, partition.preempt, partition.allocation]:
        with refused(partition, f"allocation_id {name!r}: {NAME}", RequestError):
            call(name)
    with refused(partition, f"allocation_id {name!r}: {NAME}", RequestError):
        partition.resize(name, memory(1))
    with refused(partition, f"allocation_id {name!r}: {NAME}", RequestError):
        partition.replace("placeholder", name, memory(1))
    with refused(partition, f"placeholder_id {name!r}: {NAME}", RequestError):
        partition.replace(name, "new", memory(1))
    with refused(partition, f"placeholder_id {name!r}: {NAME}", RequestError):
        partition.replace(name, "app", memory(3))
    with refused(partition, f"application_id {name!r}: {NAME}", RequestError):
        partition.application(name)
    with refused(partition, f"node {name!r}: {NAME}", RequestError):
        partition.remove_node(name)


@by_name(OF_A_QUEUE)
def test_no_queue(partition: Partition, call: Callable[..., Any]) -> None:
    """A queue must have a well-formed path, and be there."""
    for path, reason in [
        ("", "expected a non-empty string"),
        (7, "expected a non-empty string"),
        ("a", "expected 'root', or names below it separated by single dots"),
        ("root..a", "expected 'root', or names below it separated by single dots"),
        ("root.b", "there is no such queue"),
    ]:
        with refused(partition, f"queue_path {path!r}: {reason}", RequestError):
            call(partition, path)


def test_no_user(partition: Partition) -> None:
    """A user is a UserGroup."""
    submit: Wrong = partition.submit
    for call, arguments in [
        (submit, ("new", "sue", "root.a")),
        (partition.adopt_application, ("new", "sue", "root.a")),
        (lambda user, path: partition.limits(UserInQueue(user, path)), ("sue", "root.a")),
    ]:
        with refused(partition, "user 'sue': expected a UserGroup", RequestError):
            call(*arguments)


# Usages and traits


@by_name(USING)
@pytest.mark.parametrize("usage", [None, 1, {"memory": 1}, "1Gi"], ids=repr)
def test_no_usage(partition: Partition, call: Callable[..., Any], usage: Wrong) -> None:
    """A usage is a Resource."""
    with refused(partition, f"usage {usage!r}: expected a Resource", RequestError):
        call(partition, usage)


@by_name(USING)
def test_negative_usage(partition: Partition, call: Callable[..., Any]) -> None:
    """A usage is not below nothing."""
    usage = Resource(memory=1, gpu=-1)
    with refused(partition, f"usage {usage!r}: the amount of gpu is negative", RequestError):
        call(partition, usage)


@by_name(CHARGING)
@pytest.mark.parametrize(
    ("trait", "value", "reason"),
    [
        ("placeholder", 1, "expected True or False"),
        ("placeholder", None, "expected True or False"),
        ("preemptible", 0, "expected True or False"),
        ("priority", True, "expected an int from -2**31 to 2**31 - 1"),
        ("priority", False, "expected an int from -2**31 to 2**31 - 1"),
        ("priority", 0.0, "expected an int from -2**31 to 2**31 - 1"),
        ("priority", 1.0, "expected an int from -2**31 to 2**31 - 1"),
        ("priority", 2**31, "expected an int from -2**31 to 2**31 - 1"),
        ("priority", -(2**31) - 1, "expected an int from -2**31 to 2**31 - 1"),
    ],
)
def test_no_trait(partition: Partition, call: Callable[..., Any], trait: str, value: Wrong, reason: str) -> None:
    """What an allocation is, is said in the right kind of values, which nothing stands for."""
    with refused(partition, f"{trait} {value!r}: {reason}", RequestError):
        call(partition, "new", "app", memory(1), **{trait: value})


@pytest.mark.parametrize("priority", [False, 0.0, None])
def test_no_usual_priority(priority: Wrong) -> None:
    """What only equals the usual priority is refused also where no other model would look at it."""
    partition = partition_of()
    started(partition, "app", 3)
    text = f"priority {priority!r}: expected an int from -2**31 to 2**31 - 1"
    with refused(partition, text, RequestError):
        partition.allocate("new", "app", memory(1), priority=priority)
    with refused(partition, text, RequestError):
        partition.check("app", memory(1), priority=priority)


@pytest.mark.parametrize("most", [None, -1, 1.0, True, "3"])
def test_no_number_of_holders(partition: Partition, most: Wrong) -> None:
    """How many holders are told is a number."""
    with refused(partition, f"max_holders {most!r}: expected an int >= 0", RequestError):
        partition.explain("app", memory(10**9), max_holders=most)
    with refused(partition, f"max_holders {most!r}: expected an int >= 0", RequestError):
        partition.explain(UserInQueue(SUE, "root.a"), memory(10**9), max_holders=most)


@pytest.mark.parametrize("priority", [2**31 - 1, -(2**31)])
def test_largest_priority(partition: Partition, priority: int) -> None:
    """Priorities reach to the ends of 32 bits, as a Kubernetes priority class may."""
    assert partition.allocate("new", "app", memory(1), priority=priority)


def test_no_asks(partition: Partition) -> None:
    """A gang is several asks."""
    for requests in [None, 7, [7], [("a", "app")], [AllocationRequest("a", "app", memory(1)), ("b",)]]:
        with refused(
            partition, f"requests {requests!r}: expected AllocationRequests, or tuples of their parts", RequestError
        ):
            partition.allocate_all(requests)  # type: ignore[arg-type]  # misuse


# Submissions


@pytest.mark.parametrize("name", TEXTS)
def test_no_submission_id(partition: Partition, name: Wrong) -> None:
    """An application has an id."""
    for call in ["submit", "adopt_application"]:
        with refused(partition, f"application_id {name!r}: {ID}", RequestError):
            getattr(partition, call)(name, SUE, "root.a")


def test_no_text_for_a_queue(partition: Partition) -> None:
    """The queue that is asked for is a text, and may be any."""
    for queue in [None, 7]:
        with refused(partition, f"queue {queue!r}: expected a queue path, or an empty string for none", RequestError):
            partition.submit("new", SUE, queue)  # type: ignore[arg-type]  # misuse
    assert not partition.submit("new", SUE, "no\nqueue")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "expected a non-empty string"),
        ("a", "expected 'root', or names below it separated by single dots"),
        ("ROOT", "the root takes no applications"),
        ("root" + ".a" * 100, "it has 101 names (allowed: up to 100)"),
    ],
)
def test_adopted_nowhere(partition: Partition, path: str, reason: str) -> None:
    """An application that is adopted was placed in a queue below the root."""
    with refused(partition, f"queue_path {path!r}: {reason}", RequestError):
        partition.adopt_application("new", SUE, path)


def test_adopted_in_the_deepest_queue(partition: Partition) -> None:
    """A queue as deep as placement makes them is adopted, and a configuration can be applied while it exists."""
    partition.adopt_application("new", SUE, "root" + ".b" * 99)
    partition.configure(None)
    partition.verify()


@pytest.mark.parametrize("call", ["submit", "adopt_application"])
@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"tags": "a"}, "tags 'a': expected a mapping of strings"),
        ({"tags": {"a": 1}}, "tags {'a': 1}: expected strings"),
        ({"tags": {1: "a"}}, "tags {1: 'a'}: expected strings"),
        ({"quota": {"memory": 1}}, "quota {'memory': 1}: expected a Resource"),
        ({"quota": memory(-1)}, "quota Resource(memory=-1): the amount of memory is negative"),
        ({"gang_style": "Soft"}, "gang_style 'Soft': expected 'soft' or 'hard'"),
        ({"gang_style": None}, "gang_style None: expected 'soft' or 'hard'"),
        ({"gang_style": ["soft"]}, "gang_style ['soft']: expected 'soft' or 'hard'"),
    ],
)
def test_no_option(partition: Partition, call: str, option: dict[str, Any], text: str) -> None:
    """What an application is submitted with is of the right kind."""
    with refused(partition, text, RequestError):
        getattr(partition, call)("new", SUE, "root.a", **option)


@pytest.mark.parametrize("group", [7, 0, False, ["dev"]])
def test_no_group(partition: Partition, group: Wrong) -> None:
    """The group of an adopted application is a name, or None."""
    with refused(partition, f"group {group!r}: {NAME}", RequestError):
        partition.adopt_application("new", SUE, "root.a", group=group)


# Partitions themselves


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"group_limits": "never"}, "group_limits 'never': expected 'always' or 'unless-user-limited'"),
        ({"group_limits": None}, "group_limits None: expected 'always' or 'unless-user-limited'"),
        ({"cluster": {"memory": 1}}, "offers {'memory': 1}: expected a Resource"),
        ({"models": [7]}, "models 7: expected a QuotaModel with the methods check, charge and refund"),
        ({"models": 7}, "models 7: expected several quota models"),
        ({"config": "default"}, "config <class 'str'>: expected one partition, such as config.partition()"),
        (
            {"config": parse_config("partitions: [{queues: [{name: a}]}]")},
            f"config {SchedulerConfig}: expected one partition, such as config.partition()",
        ),
    ],
)
def test_no_partition(options: dict[str, Any], text: str) -> None:
    """What a partition is made of is of the right kind."""
    with pytest.raises(RequestError) as caught:
        Partition(**options)
    assert str(caught.value) == text


def test_model_twice() -> None:
    """One model is charged once; two of them, even if equal, are two."""
    model = Licences(1)
    Partition(models=[model, Licences(1)])
    with pytest.raises(RequestError) as caught:
        Partition(models=[model, Licences(1), model])
    assert str(caught.value) == f"models {model!r}: the model occurs twice"


def test_no_plan(partition: Partition) -> None:
    """Only a plan can be applied, and only a report of an audit reconciled."""
    with refused(partition, "plan None: expected a ConfigPlan", RequestError):
        partition.apply(None)  # type: ignore[arg-type]  # misuse
    with refused(partition, "report None: expected an AuditReport", RequestError):
        partition.reconcile(None)  # type: ignore[arg-type]  # misuse


HELD, RUNS = RunningAllocation("app", "app", memory(3)), RunningAllocation("app", "app", memory(2))
TWO = Difference(HELD, RUNS._replace(allocation_id="b"))
WRONG: Wrong = ["app"]


@pytest.mark.parametrize(
    ("differences", "text"),
    [
        ([], "report AuditReport(differences=[]): expected an AuditReport"),
        ((7,), "report 7: expected a Difference between one or two RunningAllocations"),
        (
            (Difference(None, None),),
            f"report {Difference(None, None)!r}: expected a Difference between one or two RunningAllocations",
        ),
        (
            (Difference(None, WRONG),),
            f"report {Difference(None, WRONG)!r}: expected a Difference between one or two RunningAllocations",
        ),
        ((TWO,), f"report {TWO!r}: the difference is about two allocations"),
        ((Difference(HELD, RUNS._replace(usage=WRONG)),), "usage ['app']: expected a Resource"),
        (
            (Difference(HELD, RUNS._replace(usage=memory(-1))),),
            "usage Resource(memory=-1): the amount of memory is negative",
        ),
        ((Difference(HELD, RUNS._replace(application_id=WRONG)),), f"application_id ['app']: {ID}"),
        ((Difference(None, RUNS._replace(allocation_id=WRONG)),), f"allocation_id ['app']: {NAME}"),
    ],
)
def test_no_report(partition: Partition, differences: Wrong, text: str) -> None:
    """A report that no audit has made is looked through before anything is repaired."""
    repaired = (Difference(HELD, RUNS), *differences) if differences else differences
    with refused(partition, text, RequestError):
        partition.reconcile(AuditReport(repaired))
    partition.verify()


@pytest.mark.parametrize(
    ("running", "text"),
    [
        (None, "running None: expected an iterable of allocations"),
        ([7], "running 7: expected a RunningAllocation, or a tuple of its parts"),
        ([("app", "app")], "running ('app', 'app'): expected a RunningAllocation, or a tuple of its parts"),
        ([("", "app", memory(1))], f"allocation_id '': {NAME}"),
        ([("app", "", memory(1))], f"application_id '': {ID}"),
        ([("app", "app", memory(1))] * 2, "running 'app': the allocation occurs twice"),
    ],
)
def test_no_truth(partition: Partition, running: Wrong, text: str) -> None:
    """What runs is told as allocations, each once."""
    with refused(partition, text, RequestError):
        partition.audit(running)


ONE = AllocationRequest("new", "app", memory(1))
SEVERAL = "expected several items, for example a list"
MAPPING = "expected a mapping, for example a dict"
REQUEST = "expected an AllocationRequest"
REQUESTS = "expected AllocationRequests, or tuples of their parts"
#: Calls with an argument of another type than expected, with the argument, its value and the reason.
OF_ANOTHER_TYPE: list[tuple[Callable[[Partition, Any], Any], str, Any, str]] = [
    (Partition.allocate_ignoring_reservations, "request", None, REQUEST),
    (Partition.allocate_ignoring_reservations, "request", ("new", "app", memory(1)), REQUEST),
    (Partition.applications_by_id, "application_ids", None, SEVERAL),
    (Partition.applications_by_id, "application_ids", "app", SEVERAL),
    (lambda p, names: p.applications_by_id([names]), "application_ids", [], NAME),
    (Partition.allocations_by_id, "allocation_ids", 7, SEVERAL),
    (lambda p, names: p.allocations_by_id([names]), "allocation_ids", None, NAME),
    (
        lambda p, most: p.application_report("app", max_pending=most),
        "max_pending",
        -1,
        "expected an int >= 0",
    ),
    (
        lambda p, most: p.application_report("app", max_holders=most),
        "max_holders",
        1.5,
        "expected an int >= 0",
    ),
    (lambda p, ranks: p.order(ranks=ranks), "ranks", True, MAPPING),
    (lambda p, ranks: p.order(ranks=ranks), "ranks", [("sue", 1)], MAPPING),
    (lambda p, placed: p.plan_preemption(ONE, since=0, placed=placed), "placed", None, REQUESTS),
    (lambda p, name: p.plan_preemption(ONE, since=0, placed=[(name, "app", memory(1))]), "allocation_id", [], NAME),
    (lambda p, name: p.plan_preemption(ONE, since=0, placed=[("one", name, memory(1))]), "application_id", {}, ID),
    (Partition.scheduling_pass, "requests", [], MAPPING),
    (lambda p, requests: p.scheduling_pass({"app": requests}), "requests", 7, SEVERAL),
    (lambda p, keys: p.scheduling_pass(keys=keys), "keys", ["root.a"], MAPPING),
]


@pytest.mark.parametrize(("call", "argument", "value", "reason"), OF_ANOTHER_TYPE)
def test_another_type(
    partition: Partition, call: Callable[[Partition, Any], Any], argument: str, value: Wrong, reason: str
) -> None:
    """The error names the argument."""
    started(partition, "app", 3)
    with refused(partition, f"{argument} {value!r}: {reason}", RequestError):
        call(partition, value)


def test_more_than_there_can_be(partition: Partition) -> None:
    """A number that no list can have means everything."""
    started(partition, "app", 3)
    partition.request("new", "app", memory(1))
    assert len(partition.order(max_turns=2**63)) == 1
    report = partition.application_report("app", max_pending=2**64, max_holders=2**64)
    assert report is not None
    assert len(report.pending) == 1
