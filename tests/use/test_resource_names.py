"""The names of resources in requests: closed lists, and names that resemble those of limits."""

from __future__ import annotations

import logging
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from support.logs import own_records
from ugm import (
    AllocationRequest,
    ConfigError,
    Partition,
    RequestError,
    Resource,
    ResourceNameWarning,
    UserGroup,
    UserInQueue,
    parse_config,
)
from ugm.config import dump_config, export_config
from ugm.store import open_partition

LIMITED = "partitions: [{UGM queues: [{name: q, resources: {max: {vcore: 8, gpu: 2, memory: 8Gi}}}]}]"
OPEN = LIMITED.replace("UGM", "")
CLOSED = LIMITED.replace("UGM", "ugm: {resources: [vcore, memory, gpu]},")
ANA = UserGroup("ana")
WRONG = Resource(GPU=1)
IN_QUEUE = UserInQueue(ANA, "root.q")


def partition_of(text: str) -> Partition:
    """Return a partition with an application, one allocation of it, and a placeholder."""
    partition = Partition(parse_config(text).partition())
    partition.submit("a", ANA, "root.q")
    partition.allocate("a.0", "a", Resource(gpu=1))
    partition.allocate("a.p", "a", Resource(vcore=1), placeholder=True)
    return partition


CALLS: dict[str, Callable[[Partition], object]] = {
    "allocate": lambda one: one.allocate("a.1", "a", WRONG),
    "allocate with a priority": lambda one: one.allocate("a.1", "a", WRONG, priority=3),
    "allocate_all": lambda one: one.allocate_all([("a.1", "a", Resource(gpu=1)), ("a.2", "a", WRONG)]),
    "allocate_evicting": lambda one: one.allocate_evicting("a.1", "a", WRONG),
    "request": lambda one: one.request("a.1", "a", WRONG),
    "adopt": lambda one: one.adopt("a.1", "a", WRONG),
    "resize": lambda one: one.resize("a.0", WRONG),
    "replace": lambda one: one.replace("a.p", "a.1", WRONG),
    "check": lambda one: one.check("a", WRONG),
    "check of a user": lambda one: one.check(IN_QUEUE, WRONG),
    "explain": lambda one: one.explain("a", WRONG),
    "explain_submission": lambda one: one.explain_submission(ANA, "root.q", WRONG),
    "headroom with a quota": lambda one: one.headroom(UserInQueue(ANA, "root.q", quota=WRONG)),
    "submit with a quota": lambda one: one.submit("b", ANA, "root.q", quota=WRONG),
    "adopt_application": lambda one: one.adopt_application("b", ANA, "root.new", quota=WRONG),
    "set_queue_quota": lambda one: one.set_queue_quota("root.new", WRONG),
    "add_node": lambda one: one.add_node("n", WRONG),
    "plan_reclaim": lambda one: one.plan_reclaim("a", WRONG),
    "plan_preemption": lambda one: one.plan_preemption(AllocationRequest("a.1", "a", WRONG), since=0, now=1),
    "reconcile": lambda one: one.reconcile(one.audit([("a.0", "a", WRONG), ("a.p", "a", Resource(vcore=1))])),
}


@pytest.mark.parametrize("call", CALLS)
def test_closed_list_refuses_other_names(call: str) -> None:
    """With a closed list, every call with another name is refused with the nearest name, and changes nothing."""
    partition = partition_of(CLOSED)
    before = pickle.dumps((partition.allocations(), partition.applications(), partition.queue_paths()))
    with pytest.raises(RequestError, match=r"'GPU' is not listed; did you mean 'gpu'\?"):
        CALLS[call](partition)
    assert pickle.dumps((partition.allocations(), partition.applications(), partition.queue_paths())) == before
    partition.verify()


def test_list_that_is_closed_later_lets_old_allocations_end() -> None:
    """After a change of the list, allocations with other names stay and can be released, but not repeated."""
    partition, usage = partition_of(OPEN), Resource(fpga=1)
    partition.allocate("a.1", "a", usage)
    partition.request("a.2", "a", Resource(fpga=2))
    partition.configure(parse_config(CLOSED).partition())
    assert partition.application_report("a") is not None
    assert partition.wake() == ()
    assert partition.release("a.1")
    with pytest.raises(RequestError, match="'fpga' is not listed"):
        partition.allocate("a.1", "a", usage)
    partition.configure(parse_config(OPEN).partition())
    assert partition.allocate("a.1", "a", usage)
    partition.verify()


def test_closed_list_of_a_stored_partition(tmp_path: Path) -> None:
    """A stored partition keeps its closed list over a restart."""
    with open_partition(tmp_path / "store", config=parse_config(CLOSED).partition()) as partition:
        partition.submit("a", ANA, "root.q")
    with open_partition(tmp_path / "store") as partition:
        with pytest.raises(RequestError, match="did you mean 'gpu'"):
            partition.allocate("a.1", "a", WRONG)
        assert partition.allocations() == ()


@pytest.mark.parametrize(
    ("part", "place"),
    [
        ("queues: [{name: q, resources: {max: {GPUs: 1}}}]", "GPUs"),
        ("queues: [{name: q, resources: {guaranteed: {Gpu: 1}}}]", "Gpu"),
        ("queues: [], limits: [{users: [ana], maxresources: {nvidia.com/gpu: 1}}]", "nvidia.com/gpu"),
        ("queues: [], nodesortpolicy: {resourceweights: {gpuu: 2.0}}", "gpuu"),
        ("queues: [{name: q, ugm: {maxpendingresources: {gpu_: 1}}}]", "gpu_"),
    ],
)
def test_closed_list_in_a_configuration(part: str, place: str) -> None:
    """A name of the configuration that is not listed is a problem at the name, with the nearest one."""
    text = f"partitions: [{{ugm: {{resources: [vcore, gpu]}}, {part}}}]"
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    (problem,) = caught.value.problems
    assert (problem.code, problem.column) == ("resource-unlisted", text.index(place) + 1)
    assert "did you mean 'gpu'?" in problem.message


def test_listed_families_are_named_once() -> None:
    """A list that names a family, of which all variants are allowed, is shown without repetitions."""
    settings = "resources: [gpu, 'gpu:a100'], families: {gpu: [a100, v100]}"
    with pytest.raises(ConfigError) as caught:
        parse_config(f"partitions: [{{ugm: {{{settings}}}, queues: [{{name: q, resources: {{max: {{disk: 1}}}}}}]}}]")
    assert "(listed: gpu, gpu:a100, gpu:v100)" in str(caught.value)


def test_closed_list_is_written_and_left_out_of_an_export() -> None:
    """The list is a part of the written configuration; an export for YuniKorn leaves it out and says so."""
    config = parse_config(CLOSED)
    assert parse_config(dump_config(config)) == config
    exported = export_config(config)
    assert exported.config == parse_config(OPEN)
    assert [one.path for one in exported.left_out] == ["partitions[0].ugm.resources"]


@pytest.mark.parametrize("name", ["GPU", "gpus", "nvidia.com/gpu", "nvidia.com/gpus", "vcores", "cpu", "Memory", "mem"])
def test_similar_names_are_reported_once(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """A request with a name that resembles a limited one is granted, and reported once per name and partition."""
    partition = partition_of(OPEN)
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.WARNING):
        warnings.simplefilter("always")
        for number in range(3):
            assert partition.allocate(f"b{number}", "a", Resource({name: 1}))
        assert partition.check("a", Resource({name: 2}))
    assert [one.category for one in caught] == [ResourceNameWarning]
    assert name in str(caught[0].message)
    assert caught[0].filename == __file__
    assert [record.levelname for record in own_records(caplog)] == ["WARNING"]
    with pytest.warns(ResourceNameWarning):
        partition_of(OPEN).allocate("b", "a", Resource({name: 1}))


def test_warnings_as_errors_change_nothing() -> None:
    """If warnings are errors, the call raises and changes nothing."""
    partition = partition_of(OPEN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ResourceNameWarning):
            partition.allocate("b", "a", WRONG)
    assert partition.allocation("b") is None
    partition.verify()
    assert partition.allocate("b", "a", WRONG)
