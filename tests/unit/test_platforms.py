"""What works on systems without the modules that only POSIX systems have, such as Windows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
