"""A process that is killed at any moment loses no acknowledged change."""

from __future__ import annotations

from pathlib import Path
from random import Random
from time import sleep
from typing import Final

import pytest

from support.crashing_process import WINDOW, running
from support.random_changes import CONFIGS, Actor, state_of
from ugm import Partition
from ugm.journal import open_partition

pytestmark = pytest.mark.ci

#: The maximum number of changes on disk that were not acknowledged.
_UNTOLD: Final = {"each": 1, "group": WINDOW}


def killed(path: Path, seed: str, durability: str, random: Random) -> int:
    """Run a process that changes a journal, kill it, and return the number of acknowledged changes."""
    with running(path, seed, durability) as process:
        assert process.stdout is not None
        printed = process.stdout.read(random.randrange(1, 60))
        sleep(random.random() / 50)
        process.kill()
        rest = process.stdout.read()
    assert printed
    return len(printed + rest)


def follow(model: Partition, path: Path, seed: str, acknowledged: int, untold: int) -> None:
    """Apply the acknowledged changes to a model, and expect the journal to have these, or a few more."""
    actor = Actor(seed)
    for _ in range(acknowledged):
        actor.step(model)
    with open_partition(path) as again:
        found = state_of(again)
        while found != state_of(model) and untold:
            actor.step(model)
            untold -= 1
        assert found == state_of(model)


def crash(path: Path, durability: str, rounds: int) -> None:
    """Kill the writer of a journal and reopen it repeatedly, with an occasional compaction."""
    random, model = Random(f"{durability} {rounds}"), Partition(CONFIGS[0])
    for number in range(rounds):
        seed = f"{durability}-{number}"
        acknowledged = killed(path, seed, durability, random)
        follow(model, path, seed, acknowledged, _UNTOLD[durability])
        if random.random() < 0.2:
            with open_partition(path) as partition:
                partition.journal.compact()
        for application in model.applications()[:5]:
            # Keeps the partition small, by changes that are acknowledged to this process.
            model.remove(application.application_id)
            with open_partition(path) as partition:
                partition.remove(application.application_id)


@pytest.mark.parametrize("durability", ["each", "group"])
def test_killed(tmp_path: Path, durability: str) -> None:
    """After each crash the journal has all acknowledged changes, and possibly the unfinished ones."""
    crash(tmp_path / "journal", durability, 5)


@pytest.mark.deep
@pytest.mark.parametrize("durability", ["each", "group"])
def test_killed_many_times(tmp_path: Path, durability: str) -> None:
    """The same with 300 crashes of each kind."""
    crash(tmp_path / "journal", durability, 300)
