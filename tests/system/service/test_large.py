"""A large partition: queries over all of it do not stop the decisions of other clients, and cost no leadership."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from time import monotonic, sleep

import pytest

from support.places import environment
from ugm import Resource, UserGroup
from ugm.service import ConnectedPartition, connect
from ugm.store import StoreReader

CONFIG = "partitions: [{name: default, queues: [{name: a, resources: {max: {memory: 1G}}}]}]"
APPLICATIONS = 100
QUERIES = ["place(UserGroup('sue'), 'root.a')", "verify()", "plan(partition.config)", "audit([])", "allocations()"]
#: Leads or stands by, without quota models.
SERVE = """
import sys
from ugm import parse_config
from ugm.service import Service
Service(*sys.argv[1:3], config=parse_config(sys.argv[3]).partition()).run()
"""
#: Makes a query again and again for some seconds, in another process, so that it does not delay this one.
REPEAT = """
import sys, time
from ugm import UserGroup, connect
with connect(sys.argv[1], deadline=600) as partition:
    end = time.monotonic() + 6
    while time.monotonic() < end:
        partition.{query}
        time.sleep(0.01)
"""
ONE = Resource(memory=1)


@contextmanager
def two_processes(folder: Path) -> Iterator[str]:
    """Run a leader and a standby, and provide their addresses."""
    addresses = [f"unix:{folder / name}" for name in ("one", "two")]
    started = [
        subprocess.Popen([sys.executable, "-c", SERVE, str(folder / "store"), address, CONFIG], env=environment())  # noqa: S603 - this interpreter
        for address in addresses
    ]
    try:
        yield ",".join(addresses)
    finally:
        for process in started:
            process.kill()
            process.communicate()


def fill(partition: ConnectedPartition, count: int) -> None:
    """Make some allocations, in gangs of a thousand."""
    for number in range(APPLICATIONS):
        assert partition.submit(f"app-{number}", UserGroup(f"user-{number % 9}"), "root.a")
    for first in range(0, count, 1000):
        gang = [(f"a-{number}", f"app-{number % APPLICATIONS}", ONE) for number in range(first, first + 1000)]
        assert partition.allocate_all(gang)


def measure(partition: ConnectedPartition, work: subprocess.Popen[bytes]) -> float:
    """Return the time that 99 of 100 decisions did not exceed while a process ran."""
    times: list[float] = []
    while work.poll() is None:
        began = monotonic()
        assert partition.allocate("more", "app-0", ONE)
        assert partition.release("more")
        times.append((monotonic() - began) / 2)
        sleep(0.002)
    assert work.returncode == 0
    return quantiles(times, n=100)[98]


def repeated(query: str, address: str) -> subprocess.Popen[bytes]:
    """Begin a process that makes a query again and again."""
    return subprocess.Popen([sys.executable, "-c", REPEAT.format(query=query), address], env=environment())  # noqa: S603 - this interpreter


@pytest.mark.deep
@pytest.mark.parametrize("count", [300_000, 1_000_000])
def test_queries_over_the_whole_partition(tmp_path: Path, count: int) -> None:
    """`verify`, `plan` and `audit` add little to the time of decisions, and the leader is not replaced."""
    with two_processes(tmp_path) as address, connect(address, deadline=600) as partition:
        fill(partition, count)
        reader = StoreReader(tmp_path / "store")
        before = reader.find_leader()
        for query in QUERIES:
            print(f"{query}: p99 {measure(partition, repeated(query, address)):.4f} s")  # noqa: T201 - the measurement
        after = reader.find_leader()
    assert before is not None
    assert after is not None
    assert (after.term, after.address) == (before.term, before.address)
