"""How hypothesis works in these tests: profiles by the environment variable ``HYPOTHESIS_PROFILE``.

``dev`` (the default) draws anew each time, ``ci`` draws the same each time, ``deep`` draws much more.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from support import doc_examples as documents

# A shared machine may stop a test at any moment for any time: no deadlines.
settings.register_profile("dev", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, database=None)
settings.register_profile("deep", settings.get_profile("dev"), max_examples=3000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_configure(config: pytest.Config) -> None:
    """Collect the examples in the README, the documentation and the docstrings, too."""
    config.pluginmanager.register(documents)
