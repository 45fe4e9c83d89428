"""What works on systems without the modules that only POSIX systems have, such as Windows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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

JOURNAL = """
from ugm.journal import JournalError, compact, inspect, open_partition
for use in (open_partition, inspect, compact):
    try:
        use(sys.argv[1])
    except JournalError as error:
        print(error.reason)
"""


def printed(program: str, *arguments: object) -> list[str]:
    """Run a program on a system that lacks these modules, and return the lines that it prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WITHOUT + program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)  # noqa: S603 - our own
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_partition_in_memory() -> None:
    """A partition in memory needs nothing that is only on POSIX systems."""
    assert printed(IN_MEMORY) == ["True", "False"]


@pytest.mark.ci
@pytest.mark.parametrize("module", ["ugm.cli", "ugm.elastic", "ugm.quotatree", "ugm.kubernetes", "ugm.simulation"])
def test_other_modules(module: str) -> None:
    """So do the modules around it."""
    assert printed(f"import {module}\nprint(True)") == ["True"]


def test_a_journal(tmp_path: Path) -> None:
    """A journal needs file locks; without them it is refused with the reason, and nothing is made."""
    reason = "journals need POSIX file locks, which this system does not have (no module fcntl)"

    assert printed(JOURNAL, tmp_path / "journal") == [reason] * 3
    assert not list(tmp_path.iterdir())
