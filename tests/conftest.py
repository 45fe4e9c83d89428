"""What all tests share, and how hypothesis works in them: profiles by the environment variable ``HYPOTHESIS_PROFILE``.

``dev`` (the default) draws a few examples, the same in each run. ``ci`` draws more, also the same in each run; the
marker ``ci`` then also selects the property tests. ``deep`` draws thousands, new ones in each run.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from support import distribution, doc_examples
from support.examples import FEW, MANY

#: The mark of a module whose tests are all left out by default.
_ONLY_MARKED = re.compile(r"^pytestmark = pytest\.mark\.(ci|hosts)$", re.MULTILINE)
#: A file system in memory, and the free bytes that it must have.
_MEMORY = Path("/dev/shm")  # noqa: S108 - the folders in it have names of their own
_ROOM = 4 * 2**30

distribution.share_compiled_modules()

# A shared machine may stop a test at any moment for any time: no deadlines.
settings.register_profile("deep", deadline=None, max_examples=3000, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("deep"), max_examples=MANY, derandomize=True, database=None)
settings.register_profile("dev", settings.get_profile("ci"), max_examples=FEW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_configure(config: pytest.Config) -> None:
    """Collect the examples in the README, the documentation and the docstrings, too, and distribute all tests."""
    config.pluginmanager.register(doc_examples)
    config.pluginmanager.register(distribution)
    # The environment of a host needs much room.
    if "not hosts" in config.option.markexpr or "hosts" not in config.option.markexpr:
        _write_to_memory()
    if _selects_ci(config):
        config.pluginmanager.import_plugin("schemathesis.pytest.plugin")


def _write_to_memory() -> None:
    """Keep temporary files in memory if there is room: a store does not wait for a disk there."""
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Run three processes on two processors: tests wait for a third of their time, for processes and time-outs."""
    if _selects_ci(config) or "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return (os.cpu_count() or 1) * 3 // 2


def _selects_ci(config: pytest.Config) -> bool:
    return "not ci" not in config.option.markexpr


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import a module that has only tests for the marker ``ci`` or ``hosts``, unless the run selects these.

    Each process of a run collects all tests, and these modules import the largest packages.
    """
    if _selects_ci(config) or not collection_path.name.startswith("test_"):
        return None
    return True if _ONLY_MARKED.search(collection_path.read_text("utf-8")) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the marker ``ci`` select the property tests if they draw more examples than in the default run."""
    if settings.get_current_profile_name() == "ci":
        for item in items:
            if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
                item.add_marker(pytest.mark.ci)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, and let it pass over all that was collected.

    Modules and tests are some millions of objects that live as long as the process. A full collection would visit them
    all, several times during collection and again and again during the tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
