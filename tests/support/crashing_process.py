"""A process that changes a partition with a journal until it is killed, and tells of every acknowledged change.

Run as a program: ``crashing.py PATH SEED DURABILITY``. It writes a dot for every acknowledged change.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any, Final

from support.places import environment
from support.random_changes import CONFIGS, Actor
from ugm.journal import JournaledPartition, open_partition

__all__ = ["WINDOW", "running"]

#: How many changes are under way at most where a commit is shared.
WINDOW: Final = 40


@contextmanager
def running(path: Path, seed: str, durability: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run this program until the block is left; then it has been killed."""
    command = [sys.executable, "-m", "support.crashing_process", str(path), seed, durability]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as process:  # noqa: S603 - our own program
        try:
            yield process
        finally:
            process.kill()


def _tell(_: object) -> None:
    os.write(1, b".")


def _change(partition: JournaledPartition, actor: Actor) -> None:
    while True:
        actor.step(partition)
        _tell(None)


def _change_together(partition: JournaledPartition, actor: Actor) -> None:
    free = BoundedSemaphore(WINDOW)

    def count(_: object) -> None:
        _tell(None)
        free.release()

    while True:
        free.acquire()
        partition.promise(actor.step, partition).add_done_callback(count)


def _main(path: str, seed: str, durability: Any) -> None:  # noqa: ANN401 - one of two words
    partition = open_partition(path, None if Path(path).exists() else CONFIGS[0], durability=durability)
    (_change if durability == "each" else _change_together)(partition, Actor(seed))


if __name__ == "__main__":
    _main(*sys.argv[1:])
