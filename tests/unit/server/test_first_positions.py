"""Tests for the positions of users in the metrics: what they cost."""

from __future__ import annotations

from unittest.mock import Mock

from ugm import AllocationRequest, Resource
from ugm.partition import Turn
from ugm.server.first_positions import MOST_PENDING, FirstPositions


def partition_of(*users: str) -> Mock:
    """Return a partition with one pending request of each user."""
    turns = []
    for number, user in enumerate(users):
        turn = Mock(spec=Turn, request=AllocationRequest(f"r{number}", "app", Resource(vcore=1)))
        turn.user = user
        turns.append(turn)
    return Mock(order=Mock(return_value=tuple(turns)))


def test_orders_take_a_small_part_of_the_time() -> None:
    """An order is computed again at the earliest after ten times the time that it took."""
    partition, times = partition_of("ana", "ben", "ana"), iter([0, 2, 21, 22, 24])
    positions = FirstPositions(partition, lambda: next(times))

    assert [positions.read(3) for _ in range(3)] == [{"ana": 1, "ben": 2}] * 3
    assert partition.order.call_count == 2


def test_many_requests_have_no_positions() -> None:
    """No order is computed without pending requests, or for too many."""
    partition = partition_of("ana")
    positions = FirstPositions(partition)

    assert positions.read(0) == positions.read(MOST_PENDING + 1) == {}
    assert not partition.order.called
