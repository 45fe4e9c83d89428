"""What the groups below one group share of one resource, kept up to date change by change.

A `Pool` gives the same answers as `ugm.elastic.sharing.share`, but keeps sums over its cells, from which most reads are
answered in constant time. What there is to share comes with each read.

**At least.** The first round gives a lower bound. So does any guess of who among the hungry is satisfied in the end:
let their needs be N, and call the others *open*, o in number and W in weight. There are at most as many rounds as
hungry, h, and in each the rounding moves a cell by less than one unit. If L is dealt per weight in all, nobody gets
more than its weight times L plus h, so that what is left is at most N + W L + o h; and who is not satisfied gets more
than its weight times L less h. A cell of weight w is therefore satisfied, or gets at least
w (left - N - o h) / W - h. The guess is that of the last time when the rounds were dealt, corrected whenever a cell is
read.

**Exactly.** Where a lower bound is not enough the rounds are dealt, for all the hungry at once. What they miss is kept
for as long as it cannot have changed: how much more than it gets somebody asks for changes nothing for the others.
"""

from __future__ import annotations

from typing import Protocol, final

from ugm.elastic.sharing import Sharer, deal, deal_once, is_short, scaled, share

__all__ = ["Pool", "PoolCell"]


class PoolCell(Protocol):
    """What a pool knows of a group."""

    name: str
    #: What the group asks of the one above.
    limited: int
    #: The configured minimum.
    least: int
    weight: int
    lends: bool


@final
class Pool:
    """The cells of one resource below one cell."""

    __slots__ = (
        "_cells",
        "_dealt",
        "_first",
        "_hungry",
        "_in_order",
        "_lines",
        "_needs",
        "_open",
        "_open_needs",
        "_open_weights",
        "_scales",
        "_short",
        "_weights",
        "floors",
        "mins",
    )

    _cells: dict[str, PoolCell]
    #: Whether `_cells` are in the order of names.
    _in_order: bool
    #: Whether minimums are scaled when they are more than there is.
    _scales: bool
    #: All configured minimums.
    mins: int
    #: What all cells get before anything is dealt, if minimums are not scaled.
    floors: int
    #: How many are hungry and have a weight, what they need besides, and their weights.
    _hungry: int
    _needs: int
    _weights: int
    #: They and their weights in the order of names; None if that is out of date.
    _lines: tuple[list[PoolCell], list[int]] | None
    #: What was left when the first round was last dealt to them, and what each got then.
    _first: tuple[int, list[int]]
    #: Who of them is guessed not to be satisfied in the end, and what they missed when the rounds were last dealt.
    _open: dict[PoolCell, int]
    #: What the open need, and their weights.
    _open_needs: int
    _open_weights: int
    #: What was left when the rounds were last dealt; less than nothing if that is out of date.
    _dealt: int
    #: What there was when minimums were last scaled, and what everybody got; None if that is out of date.
    _short: tuple[int, dict[str, int]] | None

    def __init__(self, *, scales: bool = True) -> None:
        self._cells = {}
        self._scales = scales
        self._in_order = True
        self.mins = self.floors = 0
        self._hungry = self._needs = self._weights = 0
        self._lines = None
        self._first = -1, []
        self._open = {}
        self._open_needs = self._open_weights = 0
        self._dealt = -1
        self._short = None

    def __len__(self) -> int:
        return len(self._cells)

    def add(self, cell: PoolCell) -> None:
        """Take a cell in; its name is new."""
        self._cells[cell.name] = cell
        self._in_order = False
        self._count(cell, 1)

    def remove(self, cell: PoolCell) -> None:
        """Leave a cell out."""
        del self._cells[cell.name]
        self._count(cell, -1)

    def ask(self, cell: PoolCell, limited: int) -> None:
        """Follow a cell that now asks for *limited*, in constant time."""
        more, least = limited - cell.limited, cell.least
        if cell.limited > least < limited:
            self._ask_hungry(cell, more)
            cell.limited = limited
        elif cell.lends and cell.limited <= least >= limited:
            self.floors += more
            self._short = None
            cell.limited = limited
        else:
            self._count(cell, -1)
            cell.limited = limited
            self._count(cell, 1)

    def _ask_hungry(self, cell: PoolCell, more: int) -> None:
        if cell.weight <= 0:
            return
        self._short = None
        self._needs += more
        missing = self._open.get(cell)
        if missing is None:
            self._dealt = -1
            return
        self._open_needs += more
        self._open[cell] = max(missing + more, 0)
        if missing <= 0 or missing + more <= 0:
            self._dealt = -1

    def _count(self, cell: PoolCell, sign: int) -> None:
        """Take a cell into all sums, or out of them."""
        limited, least = cell.limited, cell.least
        floor = limited if limited < least and cell.lends else least
        self.mins += sign * least
        self.floors += sign * floor
        if limited > least and cell.weight > 0:
            self._hungry += sign
            self._needs += sign * (limited - least)
            self._weights += sign * cell.weight
            self._guess(cell, is_open=sign > 0)
            self._lines = None
        self._dealt = -1
        self._short = None

    def _guess(self, cell: PoolCell, *, is_open: bool) -> None:
        if (cell in self._open) is is_open:
            return
        sign = 1 if is_open else -1
        self._open_needs += sign * (cell.limited - cell.least)
        self._open_weights += sign * cell.weight
        if is_open:
            self._open[cell] = 0
        elif self._open.pop(cell):
            # What it missed when the rounds were last dealt is no longer known.
            self._dealt = -1

    def at_least(self, cell: PoolCell, available: int) -> int:
        """Return a lower bound of what a cell gets of *available* or of more, in constant time.

        Where it is all that the cell asks for, it is what the cell gets.
        """
        limited, least = cell.limited, cell.least
        if self._scales and is_short(available, self.mins, self.floors + self._needs):
            least = scaled(available, least, self.mins)
        elif limited > least and cell.weight > 0:
            left = available - self.floors
            if left >= self._needs:
                return limited
            return least + self._dealt_at_least(cell, left) if left > 0 else least
        return limited if limited < least and cell.lends else least

    def _dealt_at_least(self, cell: PoolCell, left: int) -> int:
        """Return a lower bound of what a hungry cell is dealt, and correct the guess."""
        need, weight, rounds = cell.limited - cell.least, cell.weight, self._hungry
        self._guess(cell, is_open=True)
        rest = left - self._needs + self._open_needs - len(self._open) * rounds
        first, all_rounds = weight * left // self._weights, weight * rest // self._open_weights - rounds
        dealt = max(all_rounds, first)
        if dealt < need:
            return dealt
        self._guess(cell, is_open=False)
        return need

    def exactly(self, cell: PoolCell, available: int) -> int:
        """Return what a cell gets of *available*.

        Costs constant time where the sums decide; otherwise a pass over the hungry for each round of dealing.
        """
        if self._scales and is_short(available, self.mins, self.floors + self._needs):
            return self._scaled(available)[cell.name]
        limited, least = cell.limited, cell.least
        left = available - self.floors
        if limited <= least or left <= 0 or cell.weight <= 0 or left >= self._needs:
            return self.at_least(cell, available)
        if left != self._dealt:
            self._deal(left)
        return limited - self._open.get(cell, 0)

    def _deal(self, left: int) -> None:
        if self._lines is None:
            hungry = [cell for cell in self._ordered() if cell.limited > cell.least and cell.weight > 0]
            self._lines = hungry, [cell.weight for cell in hungry]
            self._first = -1, []
        hungry, weights = self._lines
        # It is the largest round, and stays as it is when somebody satisfied asks for more or less.
        if self._first[0] != left:
            self._first = left, deal_once(left, weights)
        self._open = deal(self._first[1], hungry, weights, [cell.limited - cell.least for cell in hungry])
        self._open_needs = sum([cell.limited - cell.least for cell in self._open])
        self._open_weights = sum([cell.weight for cell in self._open])
        self._dealt = left

    def _scaled(self, available: int) -> dict[str, int]:
        if self._short is None or self._short[0] != available:
            self._short = (available, share(available, self.sharers()).runtime)
        return self._short[1]

    def scaled_min(self, cell: PoolCell, available: int) -> int:
        """Return the minimum of a cell, scaled if the minimums are more than there is.

        It is not in force, but the configured one is, where nothing is short: where there is as much as is asked for.
        """
        if self._scales and 0 < self.mins > available:
            return scaled(available, cell.least, self.mins)
        return cell.least

    def sharers(self) -> list[Sharer]:
        """Return the cells as `ugm.elastic.sharing` takes them, in the order of names."""
        return [Sharer(cell.name, cell.limited, cell.least, cell.weight, cell.lends) for cell in self._ordered()]

    def _ordered(self) -> list[PoolCell]:
        if not self._in_order:
            self._cells = dict(sorted(self._cells.items()))
            self._in_order = True
        return list(self._cells.values())
