"""Sorting of many items without stopping other threads.

The interpreter switches threads between two instructions, and a sort is one instruction. Sorting a million ids takes
about a second, in which a thread that needs a decision waits. Therefore a large number of items is sorted in parts,
which are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import merge
from typing import Final, TypeVar

__all__ = ["sort_in_parts"]

_T = TypeVar("_T")

#: The number of items that are sorted at once: a few milliseconds.
_PART: Final = 10_000


def sort_in_parts(items: Iterable[_T], key: Callable[[_T], str]) -> tuple[_T, ...]:
    """Return items in the order of their keys, which differ.

    >>> sort_in_parts(["b", "a"], str)
    ('a', 'b')
    """
    found = list(items)
    if len(found) <= _PART:
        return tuple(sorted(found, key=key))
    parts = [sorted(found[first : first + _PART], key=key) for first in range(0, len(found), _PART)]
    return tuple(merge(*parts, key=key))
