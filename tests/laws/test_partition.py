"""Laws of a partition: true of every configuration, every stream of allocations, and every additional model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.examples import examples
from support.failing_models import Fuse, ResettableFailing
from support.law_partitions import (
    Backlog,
    Scene,
    Seats,
    everything,
    scenes,
)
from support.partition_fixtures import BrokenError
from ugm import AllocationRequest, Partition, RequestError, Resource
from ugm.partition import AllocationState, RunningAllocation
from ugm.testing.strategies import SUBMITTED

#: Each example makes a whole partition, or two: fewer do.
laws: Final = settings(max_examples=examples(16))

MODES: Final = st.sampled_from(["always", "unless-user-limited"])


def running(partition: Partition) -> list[RunningAllocation]:
    """Return what the ledger believes to run."""
    return [RunningAllocation(*one[:3]) for one in partition.allocations() if one.state is not AllocationState.PENDING]


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
@given(
    scene=scenes(),
    method=st.sampled_from(["check", "charge", "add_pending"]),
    nth=st.integers(1, 4),
    is_after=st.booleans(),
    mode=MODES,
)
def test_a_model_that_raises_leaves_nothing_behind(
    operation: str,
    scene: Scene,
    method: str,
    nth: int,
    is_after: bool,  # noqa: FBT001 - drawn
    mode: Any,  # noqa: ANN401 - one of two texts
) -> None:
    """Whichever model raises, wherever and in whatever operation, every counter of every model is as it was."""
    failing = ResettableFailing()
    models: list[Any] = [Seats(3), failing, Backlog()]
    partition = scene.partition(models, group_limits=mode)
    before = everything(partition, [models[0], models[2]])
    failing.arm(Fuse(method, nth, is_after))
    try:
        OPERATIONS[operation](partition, scene)
    except (BrokenError, RequestError):
        assert everything(partition, [models[0], models[2]]) == before
    failing.arm(None)
    waiting = {one.allocation_id for one in partition.allocations() if one.state is AllocationState.PENDING}
    assert set(models[2].waiting) == waiting
    assert set(models[2].charged) == {one.allocation_id for one in running(partition)}
    partition.verify()
