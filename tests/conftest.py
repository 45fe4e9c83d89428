"""What all tests share, and how hypothesis works in them: profiles by the environment variable ``HYPOTHESIS_PROFILE``.

``dev`` (the default) draws anew each time, ``ci`` draws the same each time, ``deep`` draws much more.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

from support import distribution, doc_examples

# A shared machine may stop a test at any moment for any time: no deadlines.
settings.register_profile("dev", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, database=None)
settings.register_profile("deep", settings.get_profile("dev"), max_examples=3000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_configure(config: pytest.Config) -> None:
    """Collect the examples in the README, the documentation and the docstrings, too, and distribute all tests."""
    config.pluginmanager.register(doc_examples)
    config.pluginmanager.register(distribution)


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder in memory, if this system has a place for it: a journal does not wait for a disk there."""
    place = Path("/dev/shm")  # noqa: S108 - the folder has a name of its own
    if not place.is_dir():
        yield tmp_path
        return
    with TemporaryDirectory(dir=place) as name:
        yield Path(name)


@pytest.fixture
def _frozen_heap() -> Iterator[None]:
    """Let the garbage collector pass over what exists before the test, so that its many scenes cost less."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
