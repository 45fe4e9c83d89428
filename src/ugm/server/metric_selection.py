"""A stable selection of the names that have time series of their own: users, groups, resources, nodes or accounts.

There may be many users, and each series costs memory in Prometheus, so only the users closest to a limit are exported.
If each scrape selected them independently, two users with nearly equal shares would alternate, and each gap in a series
would look like its end. Therefore a selected name stays selected until all places are taken and another name is closer
to its limit by a clear margin.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nlargest
from typing import Final, final

__all__ = ["StableSelection"]

#: The difference of shares at which a name replaces another one.
_MARGIN: Final = 0.25
#: The share of a name that no longer exists: below all others by more than the margin.
_MISSING: Final = -1.0


@final
class StableSelection:
    """The selected names.

    Args:
        most: the number of places.

    >>> selection = StableSelection(2)
    >>> selection.update({"ana": 0.9, "ben": 0.5, "cy": 0.4})
    ['ana', 'ben']
    >>> selection.update({"ana": 0.9, "ben": 0.5, "cy": 0.6})
    ['ana', 'ben']
    >>> selection.update({"ana": 0.1, "cy": 0.9})
    ['ana', 'cy']
    """

    __slots__ = ("_most", "_selected")

    #: In no particular order.
    _selected: set[str]

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._selected = set()

    def update(self, shares: Mapping[str, float]) -> list[str]:
        """Update the selection, and return it sorted; it may contain names that no longer exist.

        Args:
            shares: the used part of the nearest limit of every name.
        """
        best = nlargest(self._most, (item for item in shares.items() if item[0] not in self._selected), key=_rank)
        while best and len(self._selected) < self._most:
            self._selected.add(best.pop(0)[0])
        while best:
            last = min(self._selected, key=lambda name: (shares.get(name, _MISSING), name))
            name, share = best.pop(0)
            if share <= shares.get(last, _MISSING) + _MARGIN:
                break
            self._selected.remove(last)
            self._selected.add(name)
        return sorted(self._selected)


def _rank(item: tuple[str, float]) -> tuple[float, str]:
    return item[1], item[0]
