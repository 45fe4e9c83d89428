"""The modules of ugm that a call enters, that a program loads, and that a system without those of POSIX can load."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from support.garbage import collect_garbage
from support.places import model_packages
from ugm import Partition, Resource, UserGroup, parse_config
from ugm.partition import AbstractPartition
from ugm.store import open_partition

CONFIG = parse_config(
    """
    partitions:
    - queues:
      - {name: prod, resources: {max: {memory: 4Gi}}, limits: [{limit: sue, users: [sue], maxresources: {memory: 3Gi}}]}
    """
).partition()
ONE = Resource(memory=1)


class EnteredModules:
    """The modules of ugm whose functions run while the object records."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.is_recording = False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Record a call; the profile function of this thread and of threads that start later."""
        name = str(frame.f_globals.get("__name__"))
        if self.is_recording and event == "call" and name.startswith("ugm"):
            self.names.add(name)


@contextmanager
def profiled() -> Iterator[EnteredModules]:
    """Observe the calls of all threads that start in the block, and of this one."""
    entered, before = EnteredModules(), (sys.getprofile(), threading.getprofile())
    threading.setprofile(entered)
    sys.setprofile(entered)
    try:
        yield entered
    finally:
        sys.setprofile(before[0])
        threading.setprofile(before[1])


def modules_of_second(call: Callable[[], object]) -> set[str]:
    """Return the modules of ugm that the second of two equal calls enters, in any thread."""
    with profiled() as entered:
        call()
        # A finalizer of another test would enter the modules of that test.
        collect_garbage()
        entered.is_recording = True
        call()
        entered.is_recording = False
    return entered.names


def of_a_second_grant(partition: AbstractPartition) -> set[str]:
    """Return the modules that the second grant of an application enters."""
    assert partition.submit("app", UserGroup("sue"), "root.prod")
    ids = iter(("first", "second"))
    return modules_of_second(lambda: partition.allocate(next(ids), "app", ONE))


#: A program that reads a configuration with one limit, and grants and releases an allocation.
PLAIN_PROGRAM = """
import sys
from ugm import Partition, Resource, UserGroup, parse_config
limits = "[{limit: sue, users: [sue], maxresources: {memory: 4Gi}}]"
config = parse_config(f"partitions: [{{name: default, queues: [{{name: prod, limits: {limits}}}]}}]")
partition = Partition(config.partition())
partition.submit("app", UserGroup("sue"), "root.prod")
assert partition.allocate("app-0", "app", Resource.parse(memory="1Gi"))
partition.release("app-0")
print(*(name for name in sys.modules if name.partition(".")[0] == "ugm"))
"""


def test_plain_program() -> None:
    """A plain program in memory loads at most 60 modules, and none of stores, services and quota models."""
    done = subprocess.run([sys.executable, "-c", PLAIN_PROGRAM], capture_output=True, text=True, check=True)  # noqa: S603 - our own program
    loaded = set(done.stdout.split())

    assert len(loaded) <= 60
    assert not {name.split(".")[1] for name in loaded if "." in name} & {*model_packages(), "store"}


def test_grant_in_memory() -> None:
    """A grant in memory enters at most seven modules."""
    assert len(of_a_second_grant(Partition(CONFIG))) <= 7


def test_grant_with_a_store(tmp_path: Path) -> None:
    """A grant that is written to a store enters at most 15 modules."""
    with open_partition(tmp_path / "store", CONFIG) as partition:
        assert len(of_a_second_grant(partition)) <= 15


#: What Windows lacks.
WITHOUT = """
import sys

class Without:
    names = {"crypt", "fcntl", "grp", "nis", "pty", "pwd", "resource", "spwd", "syslog", "termios", "tty"}

    def find_spec(self, name, path=None, target=None):
        if name in self.names:
            raise ModuleNotFoundError(name)

for name in Without.names:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Without())
"""

IN_MEMORY = """
from ugm import Partition, Resource, UserGroup, parse_config
config = parse_config("partitions: [{queues: [{name: a, resources: {max: {vcore: 8}}}]}]").partition()
partition = Partition(config)
partition.submit("app", UserGroup("sue", ("dev",)), "root.a")
print(partition.allocate("x", "app", Resource(vcore=8000)).allowed)
print(partition.allocate("y", "app", Resource(vcore=1)).allowed)
partition.verify()
"""

STORED = """
import sys
from ugm import Resource, UserGroup, parse_config
from ugm.store import open_partition
config = parse_config("partitions: [{queues: [{name: a}]}]").partition()
for amount in (1, 2):
    with open_partition(sys.argv[1], config) as partition:
        partition.submit("app", UserGroup("sue"), "root.a")
        print(partition.allocate(f"x-{amount}", "app", Resource(vcore=1)).allowed, len(partition.allocations()))
"""


def printed(program: str, *arguments: object) -> list[str]:
    """Run a program on a system that lacks these modules, and return the lines that it prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WITHOUT + program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)  # noqa: S603 - our own
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_partition_in_memory() -> None:
    """A partition in memory does not need the modules that only POSIX systems have."""
    assert printed(IN_MEMORY) == ["True", "False"]


def test_a_store(tmp_path: Path) -> None:
    """Neither does a partition with a store in a file."""
    assert printed(STORED, tmp_path / "store") == ["True 1", "True 2"]
