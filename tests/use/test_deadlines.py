"""Tests of waits: each call has one deadline, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from ugm import Partition, RequestError, Resource, UserGroup, parse_config
from ugm.partition import WaitingList
from ugm.service import DeadlineError, Service, connect, join, join_async

CONFIG = parse_config("partitions: [{queues: [{name: q, resources: {max: {vcore: 4}}}, {name: other}]}]").partition()
ANA = UserGroup("ana")
CORES = Resource.parse(vcore="4")
#: The time in which a call with a deadline of 0.2 seconds must end, also on a busy machine.
SOON = 1.5


@pytest.fixture(name="partition")
def _partition() -> Partition:
    """A full queue with a request that waits, and an empty queue."""
    partition = Partition(CONFIG)
    for application_id, queue in (("a", "q"), ("b", "other"), ("c", "q")):
        partition.submit(application_id, ANA, f"root.{queue}")
    partition.allocate("a.0", "a", CORES)
    partition.request("a.1", "a", CORES)
    return partition


def other_queue(partition: Partition, number: int) -> None:
    """Use a queue in which nothing waits."""
    partition.allocate(f"b.{number}", "b", CORES)
    partition.release(f"b.{number}")


def new_request(partition: Partition, number: int) -> None:
    """Add a request that waits, too."""
    partition.request(f"c.{number}", "c", CORES)


def smaller_holder(partition: Partition, number: int) -> None:
    """Change the allocation that keeps the request from its place, by less than the request needs."""
    partition.resize("a.0", Resource(vcore=4000 - number % 2))


@contextmanager
def changing(partition: Partition, change: Any) -> Iterator[None]:  # noqa: ANN401 - one of the functions above
    """Change the partition every few milliseconds from another thread."""
    has_ended = Event()

    def change_often() -> None:
        number = 0
        while not has_ended.wait(0.01):
            number += 1
            change(partition, number)

    thread = Thread(target=change_often)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


@pytest.mark.parametrize("change", [other_queue, new_request, smaller_holder])
def test_changes_that_wake_nothing_do_not_extend_a_wait(partition: Partition, change: object) -> None:
    """A wait ends after its time-out, however many changes wake no request."""
    waiting = partition.waiting_list()
    assert waiting.wait(timeout=0) == ()
    with changing(partition, change):
        began = time.monotonic()
        assert waiting.wait(timeout=0.2) == ()
        assert time.monotonic() - began < SOON


def test_a_release_ends_a_wait(partition: Partition) -> None:
    """A wait without a time-out ends when a request fits."""
    waiting = partition.waiting_list()
    assert waiting.wait(timeout=0) == ()
    thread = Thread(target=partition.release, args=("a.0",))
    thread.start()
    assert [request.allocation_id for request in waiting.wait()] == ["a.1"]
    thread.join()


@pytest.mark.parametrize("timeout", ["1", True, float("nan"), -1])
def test_a_timeout_that_is_no_time(partition: Partition, timeout: Any) -> None:  # noqa: ANN401 - wrong on purpose
    """A time-out that is no number of seconds is refused."""
    waiting: WaitingList = partition.waiting_list()
    with pytest.raises(RequestError, match=r"timeout .*: expected a number of seconds, 0 or more"):
        waiting.wait(timeout=timeout)


def test_one_deadline_for_a_join(tmp_path: Path) -> None:
    """A join that finds no leader ends within its deadline, although the process starts and connects."""
    address = f"unix:{tmp_path}/s"
    leader = Service(tmp_path / "store", address, config=CONFIG)
    leader.start()
    blocker = connect(address)
    try:
        began = time.monotonic()
        with pytest.raises((DeadlineError, RequestError)):
            join(tmp_path / "store", f"unix:{tmp_path}/other", deadline=0.0)
        with pytest.raises((DeadlineError, RequestError)):
            asyncio.run(join_async(tmp_path / "store", f"unix:{tmp_path}/other", deadline=0.0))
        assert time.monotonic() - began < SOON
    finally:
        blocker.connection.close()
        leader.stop()
