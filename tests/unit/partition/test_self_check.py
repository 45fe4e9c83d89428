"""The self-check: every counter is compared with the ledger."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.partition_fixtures import in_every_state
from ugm import InvariantError, Partition

Corrupt = Callable[[Partition], object]


@pytest.fixture(name="partition")
def _partition() -> Partition:
    return in_every_state()


CORRUPTIONS: dict[str, Corrupt] = {
    "application 'app' is missing, against the rows": lambda p: p._state.applications.pop("app"),
    "queue root.a is missing, against the rows": lambda p: p._state.tree.queues.pop("root.a"),
    "queue root.a has usage {'memory': 8}, but {'memory': 7}": lambda p: setattr(
        p._state.tree.queues["root.a"].counter, "free_memory", 1
    ),
    "queue root.a has running applications 3": lambda p: setattr(p._state.tree.queues["root.a"].counter, "running", 3),
    "user 'sue' has applications []": lambda p: p._state.holding_index.users["sue"].holdings.clear(),
}


@pytest.mark.parametrize(("finding", "corrupt"), CORRUPTIONS.items(), ids=CORRUPTIONS)
def test_verify_finds_damage(partition: Partition, finding: str, corrupt: Corrupt) -> None:
    """Whatever does not follow from the rows is found, and named."""
    corrupt(partition)
    with pytest.raises(InvariantError) as caught:
        partition.verify()
    assert any(one.startswith(finding) for one in caught.value.findings)
