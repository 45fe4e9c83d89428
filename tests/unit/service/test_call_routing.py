"""The partition of a service for its own process, in many threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep
from typing import NoReturn

import pytest

from support.partition_fixtures import SUE, memory
from support.service_fixtures import running
from ugm.service import DeadlineError, RemotePartition
from ugm.service.call_routing import ServiceCaller


def test_no_thread_waits_for_the_attempts_of_others() -> None:
    """Threads that wait for a connection attempt of another thread fail together with it."""
    attempts = []

    def connect() -> NoReturn:
        attempts.append(1)
        sleep(0.2)
        raise DeadlineError(("unix:/x",), "nobody listens")

    caller = ServiceCaller(lambda: None, connect)
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(RemotePartition(caller).allocation_ids) for _ in range(8)]
        for future in futures:
            with pytest.raises(DeadlineError, match="nobody listens"):
                future.result()
    # A thread that begins late makes an attempt of its own.
    assert len(attempts) < 8


def test_threads_of_the_leader_and_of_a_standby(tmp_path: Path) -> None:
    """Many threads use the partition of both processes at once, and that of the standby after the leader has ended."""
    names = [f"a{number}" for number in range(10, 50)]
    with (
        running(tmp_path, "a", journal="j") as leader,
        running(tmp_path, "b", journal="j") as standby,
        ThreadPoolExecutor(8) as pool,
    ):
        standby.partition.submit("app", SUE, "root.a")
        turns = (leader.partition, standby.partition) * 20
        assert all(pool.map(lambda turn, name: turn.allocate(name, "app", memory(1)), turns, names))
        leader.stop()
        assert standby.partition.allocation_ids() == tuple(names)


def test_a_leader_in_memory(tmp_path: Path) -> None:
    """A program in the process of a leader without a log gets its answers, also if no client follows the changes."""
    with running(tmp_path) as leader:
        partition = leader.partition
        assert partition.submit("app", SUE, "root.a")
        assert partition.allocate("a", "app", memory(1))
        partition.configure(partition.config)
        assert partition.allocation_ids() == ("a",)
