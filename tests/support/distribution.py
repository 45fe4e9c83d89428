"""Distribute the tests over processes: the examples of a page and the cases of a test stay together.

The examples of a page build on one another. The cases of a test share what they read and prepare. So do the tests of a
module in `tests/docs`, which read all code, and those of a module for the page, which share a server.

Every process collects all tests, and compiles the modules that no process has compiled before. Every second process
collects from the last file to the first one. So two processes compile half of the modules each, and read the others.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

#: What begins first, because it takes longest: a run should not end with one busy process.
_LONGEST: Final = ("tests/system/integrations/test_skypilot.py", "tests/system/", "tests/stateful/")
#: Modules whose tests stay together.
_WHOLE: Final = ("tests/docs/", *(f"tests/system/browser/test_{name}.py" for name in ("page", "trees")))


def share_compiled_modules() -> None:
    """Let this process and those that it starts write the modules that they compile, even if Python should not."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


class TestDistribution(LoadScopeScheduling):
    """Give each process one test function, or one page of examples, at a time."""

    __test__ = False

    def _split_scope(self, nodeid: str) -> str:
        """Return the name of the unit that a test belongs to."""
        return _unit_of(nodeid)

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Note the tests that a process has collected. The position of each is searched once."""
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = _Collection(collection)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Note the end of a test. Units that are complete are forgotten, because each end counts the tests of all."""
        super().mark_test_complete(node, item_index, duration)
        units = self.assigned_work[node]
        name = self._split_scope(self.registered_collections[node][item_index])
        if all(units[name].values()):
            del units[name]


def _unit_of(nodeid: str) -> str:
    page, _, name = nodeid.partition("::")
    is_whole = name.startswith("line:") or page.startswith(_WHOLE)
    return page if is_whole else nodeid.partition("[")[0]


class _Collection(list[str]):
    """Names of tests, with their positions."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(names)
        self._positions = {name: position for position, name in enumerate(self)}

    def index(self, name: str, *_: object) -> int:
        """Return the position of a name."""
        return self._positions[name]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> TestDistribution:
    """Return the scheduler of a run in several processes, which keeps the order of the units."""
    config.option.loadscopereorder = False
    return TestDistribution(config, log)


def _is_reversed() -> bool:
    return os.environ.get("PYTEST_XDIST_WORKER", "")[-1:] in set("13579")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Collect each folder from its end in every second process."""
    report = yield
    if isinstance(collector, pytest.Dir) and _is_reversed() and report.result is not None:
        report.result.reverse()
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, object, object]:
    """Sort the tests by file, before they are shuffled: all processes must have them in one order.

    Then the longest units come first, and the others by their number of tests.
    """
    if not hasattr(config, "workerinput"):
        return (yield)
    items.sort(key=lambda item: str(item.path))
    result = yield
    sizes = Counter(_unit_of(item.nodeid) for item in items)
    items.sort(key=lambda item: (_rank(item.nodeid), -sizes[_unit_of(item.nodeid)]))
    return result


def _rank(nodeid: str) -> int:
    return next((rank for rank, name in enumerate(_LONGEST) if nodeid.startswith(name)), len(_LONGEST))
