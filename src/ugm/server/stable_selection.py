"""Which users and groups a metric shows, chosen so that their series do not come and go.

There may be very many users, and labels cost memory elsewhere, so only those closest to a limit have series of their
own. If every scrape chose them again, two users with nearly equal shares would take turns, and each gap in a series
looks like its end. So a name that is shown keeps its place. It loses it only if all places are taken and another name
is closer to its limit by a clear margin.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nlargest
from typing import Final, final

__all__ = ["StableSelection"]

#: By how much of its limit a name must lead to take the place of another.
_MARGIN: Final = 0.25
#: The share of a name that is gone: below everybody else, by more than the margin.
_GONE: Final = -1.0


@final
class StableSelection:
    """The names that are shown.

    Args:
        most: how many places there are.

    >>> leaders = StableSelection(2)
    >>> leaders.choose({"ana": 0.9, "ben": 0.5, "cy": 0.4})
    ['ana', 'ben']
    >>> leaders.choose({"ana": 0.9, "ben": 0.5, "cy": 0.6})
    ['ana', 'ben']
    >>> leaders.choose({"ana": 0.1, "cy": 0.9})
    ['ana', 'cy']
    """

    __slots__ = ("_most", "_shown")

    #: In no particular order.
    _shown: set[str]

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._shown = set()

    def choose(self, shares: Mapping[str, float]) -> list[str]:
        """Return the names to show now, sorted; some of them may be gone.

        Args:
            shares: how close every name is to its limit.
        """
        best = nlargest(self._most, (item for item in shares.items() if item[0] not in self._shown), key=_rank)
        while best and len(self._shown) < self._most:
            self._shown.add(best.pop(0)[0])
        while best:
            last = min(self._shown, key=lambda name: (shares.get(name, _GONE), name))
            name, share = best.pop(0)
            if share <= shares.get(last, _GONE) + _MARGIN:
                break
            self._shown.remove(last)
            self._shown.add(name)
        return sorted(self._shown)


def _rank(item: tuple[str, float]) -> tuple[float, str]:
    return item[1], item[0]
