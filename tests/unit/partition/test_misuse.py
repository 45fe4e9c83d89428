"""Misuse of a partition: one test for every error, with everything shown the same before and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from support.partition_fixtures import SUE, Licences, memory, partition_of, refused, started
from support.tracking_fixtures import Wrong
from ugm import AllocationRequest, Partition, RequestError, Resource, parse_config
from ugm.configuration import SchedulerConfig
from ugm.partition import RunningAllocation

NAME = "a name is a text of 1 to 256 characters"
ID = "a name is a text of 1 to 256 characters"
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


# Usages and traits


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


# Submissions


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


# Nodes


@pytest.mark.parametrize(
    ("name", "offers", "text"),
    [
        ("n", memory(7), "node 'n': a node of that name is registered with other resources"),
        ("", memory(7), "node '': a name is a text of 1 to 256 characters"),
        ("m", memory(-1), "offers Resource(memory=-1): the amount of memory is negative"),
        ("m", None, "offers None: expected a Resource"),
        ("m", {"memory": 1}, "offers {'memory': 1}: expected a Resource"),
        (
            "m",
            memory(2**63),
            f"offers Resource(memory={2**63}): the amount of memory is above what a signed 64-bit integer holds",
        ),
    ],
)
def test_no_node(partition: Partition, name: str, offers: Wrong, text: str) -> None:
    """A node that is refused does not change the size of the cluster."""
    partition.add_node("n", memory(6))
    with refused(partition, text):
        partition.add_node(name, offers)
    with refused(partition, "node 'm': there is no such node"):
        partition.update_node("m", memory(1))
