"""Ordinary Python, without ugm, that crashes where an allocation of memory fails.

``python -m support.without_memory generators`` crashes CPython 3.12.1 and 3.13.0: a generator expression that finds no
memory for its generator releases its function once too often. CPython 3.11.7 raises `MemoryError` there. Where this
crashes, nothing can be said about ugm, because the damage may show at any later time.

``python -m support.without_memory pairs`` crashes CPython 3.11.7, 3.12.1 and 3.13.0: an iterator of ``dict.items()``
that finds no memory for its pair is discarded, though the garbage collector does not know it yet. CPython keeps up to
2,000 pairs that are no longer used, so that this happens only when those have been taken.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Final

#: Pairs that are in use.
_TAKEN: Final[list[tuple[int, int]]] = []


def generators(_number: int) -> None:
    """Make a generator."""
    tuple(number for number in (1, 2))


def pairs(number: int) -> None:
    """Iterate over pairs."""
    # The call that lets allocations fail has left some.
    _TAKEN.append((number, number))
    _TAKEN.append((number, number))
    _TAKEN.append((number, number))
    for _ in {"memory": 1}.items():
        pass


def without_memory(work: Callable[[int], None]) -> None:
    """Let allocations of memory fail at each of the first places of a function: one, and three in a row."""
    testing = import_module("_testcapi")
    for width in (1, 3):
        for start in range(30):
            # All that CPython keeps.
            _TAKEN.extend([(number, number) for number in range(2_100)])
            try:
                testing.set_nomemory(start, start + width)
                work(start)
            except MemoryError:
                pass
            finally:
                testing.remove_mem_hooks()


if __name__ == "__main__":
    without_memory({"generators": generators, "pairs": pairs}[sys.argv[1]])
