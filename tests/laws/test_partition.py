"""Laws of a partition: true of every configuration, every stream of allocations, and every additional model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.examples import examples
from support.law_partitions import (
    Backlog,
    Fault,
    Faulty,
    Licences,
    Scene,
    Seats,
    everything,
    grant_all,
    other_models,
    scenes,
    traits_of,
)
from ugm import AllocationRequest, Partition, RequestError, Resource
from ugm.configuration import PartitionConfig
from ugm.model import QuotaModel
from ugm.partition import AllocationState, RunningAllocation
from ugm.testing import allocation_requests, exposed_partition, full_partitions, resources
from ugm.testing.strategies import ALLOCATIONS, SUBMITTED

#: Each example makes a whole partition, or two: fewer do.
laws: Final = settings(max_examples=examples(16))

MODES: Final = st.sampled_from(["always", "unless-user-limited"])


def allocated(partition: Partition, request: AllocationRequest) -> bool:
    """Allocate something that no id stands for yet."""
    assume(partition.allocation(request.allocation_id) is None)
    return partition.allocate(*request[:3]).allowed


def running(partition: Partition) -> list[RunningAllocation]:
    """Return what the ledger believes to run."""
    return [RunningAllocation(*one[:3]) for one in partition.allocations() if one.state is not AllocationState.PENDING]


def without_past(shown: dict[str, Any]) -> dict[str, Any]:
    """Leave out whether applications have run before, and the group that was chosen then."""
    states = {"completing": "new", "new": "new"}
    idle = [replace(one, state=states.get(one.state, one.state)) for one in shown["applications"]]
    return {**shown, "applications": [replace(one, group=None) if one.state == "new" else one for one in idle]}


@laws
@given(scenes(), MODES)
def test_release_undoes_allocate(scene: Scene, mode: Any) -> None:  # noqa: ANN401 - one of two texts
    """Releasing what was allocated leaves everything as it was, but that the application has run."""
    models = other_models()
    partition = scene.partition(models, group_limits=mode)
    # What is still pending keeps an application running that has started.
    assume(all(application.state != "accepted" for application in partition.applications()))
    before, (*_, known) = without_past(exposed_partition(partition)), everything(partition, models)
    if allocated(partition, scene.request):
        assert partition.release(scene.request.allocation_id)

    assert without_past(exposed_partition(partition)) == before
    assert everything(partition, models)[-1] == known


@laws
@given(scenes())
def test_a_call_that_is_repeated_is_answered_as_before(scene: Scene) -> None:
    """A retry of anything that is held is allowed, and changes nothing, however full everything is."""
    models = other_models()
    partition = scene.partition(models)
    before = everything(partition, models)
    for one in partition.allocations():
        if one.state is not AllocationState.PENDING:
            request = AllocationRequest(*one[:3], *one[4:7], duration=one.duration, node=one.node)
            assert partition.allocate_all([request])
            partition.adopt(*request[:3], **traits_of(request))
            with pytest.raises(RequestError):
                partition.allocate_all([request._replace(usage=request.usage + Resource(memory=1))])

    assert everything(partition, models) == before


@laws
@given(scenes(), st.lists(allocation_requests(), max_size=5, unique_by=lambda request: request.allocation_id), MODES)
def test_gang_is_its_requests_one_by_one(scene: Scene, gang: list[AllocationRequest], mode: Any) -> None:  # noqa: ANN401 - one of two texts
    """A gang is granted exactly if its requests are, one after the other, and then with the same outcome."""
    models, apart = [Licences(6)], [Licences(6)]
    one, other = scene.partition(models, group_limits=mode), scene.partition(apart, group_limits=mode)
    assume(not any(one.allocation(request.allocation_id) for request in gang))
    before = everything(one, models)
    together = one.allocate_all(gang).allowed
    granted = grant_all(other, gang)

    assert together is (len(granted) == len(gang))
    assert everything(one, models) == (everything(other, apart) if together else before)


@laws
@given(scenes(), full_partitions() | st.none(), MODES)
def test_what_is_planned_happens(scene: Scene, config: PartitionConfig | None, mode: Any) -> None:  # noqa: ANN401 - one of two texts
    """A plan changes nothing; applied, exactly those are over, and exactly those queues drain, that it named."""
    partition = scene.partition(group_limits=mode)
    before = everything(partition)
    plan = partition.plan(config)
    assert everything(partition) == before

    partition.apply(plan, confirm=True)
    partition.verify()
    assert partition.exceeded_limits() == plan.exceeded
    queues = [queue for top in [partition.queue()] if top for queue in top.walk() if queue.applications]
    leaving = sorted(
        (queue.queue_path, queue.applications) for queue in queues if queue.is_draining or not queue.is_leaf
    )
    assert [tuple(one) for one in plan.draining] == leaving


@laws
@given(scenes(), st.data())
def test_repairs_converge(scene: Scene, data: st.DataObject) -> None:
    """After a repair nothing differs but what runs for unknown applications, and repairing again does nothing."""
    models = other_models()
    partition = scene.partition(models)
    partition.fail(data.draw(st.sampled_from(SUBMITTED)))
    running = st.builds(
        RunningAllocation,
        st.sampled_from(ALLOCATIONS),
        st.sampled_from([*SUBMITTED, "stranger"]),
        resources(),
        node=st.none(),
    )
    runs = data.draw(st.lists(running, unique_by=lambda one: one.allocation_id))
    report = partition.audit(runs)
    partition.reconcile(report)
    left = partition.audit(runs)

    assert [one for one in left.differences if one.is_application_known] == []
    after = everything(partition, models)
    assert not partition.reconcile(left)
    assert everything(partition, models) == after


@laws
@given(scenes())
def test_everything_removed_leaves_nothing(scene: Scene) -> None:
    """When every application has gone, nothing is left but the queues of the configuration."""
    licences, backlog = Licences(6), Backlog()
    partition = scene.partition([licences, backlog])
    for application_id in SUBMITTED:
        partition.remove(application_id)
    empty = scene._replace(stream=[])
    other = empty.partition()
    for application_id in SUBMITTED:
        other.complete(application_id)

    assert everything(partition) == everything(other)
    assert (licences.taken, backlog.charged, backlog.waiting) == (0, {}, {})


#: Every operation that asks or charges other models.
Operation = Callable[[Partition, Scene], object]


def _first(partition: Partition, *, placeholder: bool = False) -> str:
    found = [one for one in partition.allocations() if one.state is not AllocationState.PENDING]
    return next((one.allocation_id for one in found if one.placeholder or not placeholder), "none")


OPERATIONS: Final[dict[str, Operation]] = {
    "request": lambda partition, scene: partition.request(*scene.request[:3]),
    "allocate": lambda partition, scene: partition.allocate(*scene.request[:3]),
    "allocate_all": lambda partition, scene: partition.allocate_all(
        [
            scene.request,
            *(AllocationRequest(f"y-{number}", name, Resource(memory=1)) for number, name in enumerate(SUBMITTED)),
        ]
    ),
    "check": lambda partition, scene: partition.check(*scene.request[1:3]),
    "resize": lambda partition, scene: partition.resize(_first(partition), scene.request.usage),
    "replace": lambda partition, scene: partition.replace(
        _first(partition, placeholder=True), "y-0", scene.request.usage
    ),
    "adopt": lambda partition, scene: partition.adopt(*scene.request[:3]),
    "repair of what is missing": lambda partition, scene: partition.reconcile(
        partition.audit([*running(partition), RunningAllocation("y-0", SUBMITTED[0], scene.request.usage)])
    ),
    "repair of a size": lambda partition, scene: partition.reconcile(
        partition.audit(
            [one._replace(usage=scene.request.usage) for one in running(partition)[:1]] + running(partition)[1:]
        )
    ),
    "evict": lambda partition, scene: partition.allocate_evicting(*scene.request[:3]),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@laws
@given(scene=scenes(), method=st.sampled_from(["check", "charge", "add_pending"]), nth=st.integers(1, 4), mode=MODES)
def test_a_model_that_raises_leaves_nothing_behind(
    operation: str,
    scene: Scene,
    method: str,
    nth: int,
    mode: Any,  # noqa: ANN401 - one of two texts
) -> None:
    """Whichever model raises, wherever and in whatever operation, every counter of every model is as it was."""
    faulty = Faulty()
    models: list[Any] = [Seats(3), faulty, Backlog()]
    partition = scene.partition(models, group_limits=mode)
    before = everything(partition, [models[0], models[2]])
    faulty.method, faulty.left = method, nth
    try:
        OPERATIONS[operation](partition, scene)
    except (Fault, RequestError):
        assert everything(partition, [models[0], models[2]]) == before
    faulty.method = ""
    waiting = {one.allocation_id for one in partition.allocations() if one.state is AllocationState.PENDING}
    assert set(models[2].waiting) == waiting
    assert set(models[2].charged) == {one.allocation_id for one in running(partition)}
    partition.verify()


@pytest.mark.parametrize("operation", ["allocate", "allocate_all", "resize", "replace"])
@laws
@given(scene=scenes(), most=st.integers(0, 3), position=st.integers(0, 1), mode=MODES)
def test_a_denial_by_any_model_changes_nothing(
    operation: str,
    scene: Scene,
    most: int,
    position: int,
    mode: Any,  # noqa: ANN401 - one of two texts
) -> None:
    """Whoever denies, every counter of every model is as it was before."""
    models: list[QuotaModel] = [Backlog()]
    models.insert(position, Licences(most))
    partition = scene.partition(models, group_limits=mode)
    before = everything(partition, models)
    try:
        result = OPERATIONS[operation](partition, scene)
    except RequestError:
        result = None

    assert result or everything(partition, models) == before
