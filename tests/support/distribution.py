"""Distribute the tests over processes: the examples of a page and the cases of a test stay together.

The examples of a page build on one another. The cases of a test share what they read and prepare.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

__all__ = ["TestDistribution", "pytest_xdist_make_scheduler"]


class TestDistribution(LoadScopeScheduling):
    """Give each process one test function, or one page of examples, at a time."""

    __test__ = False

    def _split_scope(self, nodeid: str) -> str:
        """Return the name of the unit that a test belongs to."""
        page, _, name = nodeid.partition("::")
        return page if name.startswith("line:") else nodeid.partition("[")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> TestDistribution:
    """Return the scheduler of a run in several processes."""
    return TestDistribution(config, log)
