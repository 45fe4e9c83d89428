"""Long answers: their items are made one by one, and they are sent as fast as the client reads them."""

from __future__ import annotations

import gc
from itertools import islice
from pathlib import Path

from support.partition_fixtures import SUE, config, memory
from support.service_fixtures import RawClient, eventually, request, running, started
from ugm.partition.allocation import Allocation
from ugm.service.listing import ListingPartition
from ugm.service.operations import OPERATIONS, RESULT

COUNT = 20_000


def filled() -> ListingPartition:
    """Return a partition with allocations of two applications, one of which is pending."""
    partition = ListingPartition(config("{name: a}"))
    for name in ("app", "other"):
        partition.submit(name, SUE, "root.a")
    for number in range(COUNT):
        assert partition.allocate(f"a-{number}", ("app", "other")[number % 2], memory(1))
    partition.request("waits", "app", memory(1))
    return partition


def existing() -> int:
    """Return the number of allocations that exist as values."""
    gc.collect()
    return sum(type(one) is Allocation for one in gc.get_objects())


def test_items_are_made_one_by_one() -> None:
    """A list equals the tuple of a partition, and only few of its items exist at a time."""
    # Objects of other tests are not counted.
    gc.freeze()
    partition = filled()
    allocations = iter(partition.list_allocations())
    differences = iter(partition.list_differences([]).differences)
    before = existing()
    for iterator in (allocations, differences):
        kept = list(islice(iterator, COUNT // 2))
        del kept
        assert next(iterator)
        assert existing() < before + 10
    assert tuple(partition.list_allocations()) == partition.allocations()
    assert len(partition.list_allocations("app")) == COUNT // 2 + 1
    report = partition.audit([])
    assert (tuple(partition.list_differences([]).differences), len(report.differences)) == (report.differences, COUNT)


def test_encoded_lists() -> None:
    """Operations send the same lists as a partition returns."""
    partition = filled()
    for name, expected in (("allocations", partition.allocations()), ("audit", partition.audit([]))):
        operation = OPERATIONS[name]
        arguments = operation.encode_arguments(((),) if name == "audit" else ())
        status, value = operation.execute(partition, arguments)
        assert status == RESULT
        assert operation.decode_result(bytes(value)) == expected


def test_large_answers_are_sent_as_they_are_read(tmp_path: Path) -> None:
    """A client that does not read gets no more of a large answer, and the leader copies only small parts of it."""
    with running(tmp_path, given=config("{name: a}")) as service, started(service) as partition:
        for first in range(0, COUNT, 1000):
            gang = [(f"{'a' * 60}-{number}", "app", memory(1)) for number in range(first, first + 1000)]
            assert partition.allocate_all(gang)
        with RawClient(service) as client:
            client.open()
            client.do(1, request("allocations"), request("allocation_ids"))
            connections = service._listener._connections
            eventually(lambda: any(one._waiting for one in tuple(connections)))
            unread = [one._transport.get_write_buffer_size() for one in tuple(connections) if one._transport]
            assert max(unread) < 1_000_000
            answers = client.answers(2)
    assert len(OPERATIONS["allocations"].decode_result(bytes(answers[1].value))) == COUNT
    assert len(OPERATIONS["allocation_ids"].decode_result(bytes(answers[2].value))) == COUNT
