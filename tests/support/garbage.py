"""Collections of garbage that stay short in a process that has run thousands of tests."""

from __future__ import annotations

import gc


def collect_garbage() -> None:
    """Delete all garbage, and let later collections pass over everything that is alive now.

    Otherwise each collection would visit all objects of earlier tests, such as modules and the caches of tools.
    What is alive now is only deleted by reference counts from now on.
    """
    gc.collect()
    gc.freeze()
