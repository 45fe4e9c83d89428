"""What becomes of an application whose gang is not complete in time: every outcome, in both styles."""

from __future__ import annotations

import pytest

from support.failing_models import ResettableFailing
from support.partition_fixtures import SUE, memory, partition_of
from ugm import Partition


def state(partition: Partition) -> str | None:
    """Return how far the application has come; None if the partition knows it no more."""
    application = partition.application("app")
    return None if application is None else application.state.value


def gang(style: str, *placeholders: str, pending: tuple[str, ...] = ()) -> Partition:
    """Return a partition with an application that has some placeholders, and asks for more."""
    partition = partition_of(models=[ResettableFailing()])
    partition.submit("app", SUE, "root.a", gang_style=style)
    for name in placeholders:
        assert partition.allocate(name, "app", memory(2), placeholder=True)
    for name in pending:
        partition.request(name, "app", memory(2), placeholder=True)
    return partition


styles = pytest.mark.parametrize("style", ["soft", "hard"])


@styles
@pytest.mark.parametrize("ended", [False, True], ids=["running", "ended"])
def test_time_out_of_a_gang_partly_replaced(style: str, *, ended: bool) -> None:
    """A gang some of whose placeholders have been replaced, even if that has ended since, goes on without the rest."""
    partition = gang(style, "1", "2", pending=("3",))
    assert partition.replace("1", "real", memory(2))
    if ended:
        partition.release("real")

    assert partition.time_out_gang("app") == ("2",)
    assert (state(partition), partition.allocation("3")) == ("running", None)
    assert partition.release("2")
    assert state(partition) == ("completing" if ended else "running")
    partition.verify()


def test_soft_time_out() -> None:
    """With nothing replaced, an application of the style soft goes on without its placeholders."""
    partition = gang("soft", "1", "2", pending=("3",))
    partition.request("real", "app", memory(2))

    assert partition.time_out_gang("app") == ("1", "2")
    assert [allocation.state.value for allocation in partition.allocations()] == [
        "terminating",
        "terminating",
        "pending",
    ]
    for name in "12":
        partition.release(name)
    assert partition.allocate("real", "app", memory(2))
    assert state(partition) == "running"


def test_hard_time_out() -> None:
    """With nothing replaced, an application of the style hard fails."""
    partition = gang("hard", "1", "2", pending=("3",))
    partition.request("real", "app", memory(2))

    assert partition.time_out_gang("app") == ("1", "2")
    assert (state(partition), [allocation.allocation_id for allocation in partition.allocations()]) == (
        "failing",
        ["1", "2"],
    )
    for name in "12":
        partition.release(name)
    assert state(partition) is None
