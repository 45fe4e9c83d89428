"""Plans do not depend on the hashes of strings, and so not on the order of sets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

#: The folder of the tests, for the imports of the process.
TESTS: Final = Path(__file__).parents[1]


def printed(hash_seed: int, worlds: int) -> str:
    """Return what a process with a hash seed prints about the plans of random worlds."""
    command = [sys.executable, "-m", "support.preemption_digests", str(worlds)]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(command, cwd=TESTS, env=environment, capture_output=True, text=True, check=True)  # noqa: S603 - our own program
    return done.stdout


@pytest.mark.ci
def test_hash_seeds_have_no_effect() -> None:
    """Processes with different hash seeds make the same plans."""
    found = {printed(hash_seed, 60) for hash_seed in (1, 2)}

    assert len(found) == 1
    assert int(found.pop().split()[1]) > 20


@pytest.mark.deep
def test_hash_seeds_have_no_effect_often() -> None:
    """The same for 10,000 worlds and five hash seeds."""
    assert len({printed(hash_seed, 10_000) for hash_seed in range(1, 6)}) == 1
