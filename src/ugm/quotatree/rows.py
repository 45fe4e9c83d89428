"""Many consumers in their order, found by what fits a room.

They stand in rows, and a row is compared with a room at once (see `ugm.quotatree.lanes`). Of as many rows as a row has
lanes, of as many such groups and so on, the least requests are compared in the same way, so that a search passes by the
rows in which nobody is small enough. It looks along a row in vain where one consumer is small in this and another in
that, or where the least of a row is not known: while the row is being filled nothing is, and who leaves is not missed
until the row has been looked along in vain a few times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, final

from ugm.quotatree.consumer import Consumer
from ugm.quotatree.lanes import Lanes, Layouts

__all__ = ["Rows"]

#: The least of a row is taken anew, which takes as long as looking along a few rows, when so many have left it. To look
#: along it in vain counts for some, so that this is not done again and again.
_STALE: Final = 16
_IN_VAIN: Final = 2


@final
class Rows:
    """Consumers by arrival, with those at hand who fit a given room.

    Args:
        layouts: of the tree.
        consumers: by arrival.
    """

    __slots__ = ("_gone", "_lanes", "_layouts", "_levels", "_members", "count")

    _layouts: Layouts
    _lanes: Lanes
    #: By arrival; None where somebody has left, whose lane is vacant.
    _members: list[Consumer | None]
    #: The rows; what is the least in each of them, in rows; and so on up to a single row. The last of each level is
    #: still being filled, and stands above as a request for nothing.
    _levels: list[list[int]]
    #: How many lanes of each row have changed since its least was taken, and more if it was looked along in vain then.
    _gone: list[list[int]]
    #: How many wait.
    count: int

    def __init__(self, layouts: Layouts, consumers: Iterable[Consumer]) -> None:
        self._layouts = layouts
        self._line_up(list(consumers))

    def _line_up(self, consumers: Sequence[Consumer]) -> None:
        """Line consumers up anew, in lanes that are made for them."""
        self._lanes = self._layouts.of(consumer.amount for consumer in consumers)
        self._members = []
        self._levels = [[self._lanes.vacant_row]]
        self._gone = [[0]]
        self.count = 0
        for consumer in consumers:
            self.append(consumer)

    def __iter__(self) -> Iterator[Consumer]:
        return (consumer for consumer in self._members if consumer is not None)

    def append(self, consumer: Consumer) -> None:
        """Put a consumer behind all others."""
        lanes, amount = self._lanes, consumer.amount
        slot = len(self._members)
        if slot and not slot % lanes.count:
            slot = self._open()
            lanes = self._lanes
        if amount & lanes.unusual and not lanes.are_made_for(amount):
            self._line_up([*self, consumer])
            return
        consumer.slot = slot
        self._members.append(consumer)
        self.count += 1
        self._levels[0][-1] -= lanes.gap(amount, consumer.asked) << lanes.places[slot % lanes.count]

    def _open(self) -> int:
        """Open a row behind the last, which is full, and return the slot that comes next."""
        if 3 * self.count < len(self._members):
            self._line_up(list(self))
        slot = len(self._members)
        if slot and not slot % self._lanes.count:
            self._add(0)
        return slot

    def _add(self, level: int) -> None:
        """Add a row to a level."""
        levels, lanes = self._levels, self._lanes
        row = len(levels[level])
        levels[level].append(lanes.vacant_row)
        self._gone[level].append(0)
        if row == 1:
            levels.append([lanes.vacant_row])
            self._gone.append([0])
        self._tell(level, row - 1)
        if not row % lanes.count:
            self._add(level + 1)
        levels[level + 1][-1] -= lanes.vacant << lanes.places[row % lanes.count]

    def _tell(self, level: int, row: int) -> None:
        """Put what is the least in a row into the level above."""
        lanes = self._lanes
        above, at, place = self._levels[level + 1], row // lanes.count, lanes.places[row % lanes.count]
        gap = lanes.vacant - lanes.least(self._levels[level][row])
        above[at] = (above[at] | lanes.vacant << place) - (gap << place)
        self._gone[level][row] = 0
        self._gone[level + 1][at] += 1

    def remove(self, consumer: Consumer) -> None:
        """Let a consumer go."""
        slot, lanes = consumer.slot, self._lanes
        row = slot // lanes.count
        self._members[slot] = None
        self._levels[0][row] |= lanes.vacants[slot % lanes.count]
        self._gone[0][row] += 1
        self.count -= 1

    def fitting(self, room: int) -> list[Consumer]:
        """Return who fits into a room, one after the other while it shrinks, in order."""
        found: list[Consumer] = []
        lanes, levels = self._lanes, self._levels
        spread = lanes.spread(room)
        fit = lanes.fitting(spread, levels[-1][0])
        if fit:
            look = self._look_below if len(levels) > 1 else self._look_along
            look(len(levels) - 1, 0, fit, room, spread, found)
        return found

    def _look_below(
        self, level: int, row: int, fit: int, room: int, spread: int, found: list[Consumer]
    ) -> tuple[int, int]:
        """Look along the rows below a row that may hold somebody who fits.

        Args:
            level: of the row, above the rows of consumers.
            row: its number.
            fit: what `Lanes.fitting` tells of it.
            room: the room.
            spread: the same in all lanes.
            found: is added to.

        Returns:
            What is left of the room, and the same in all lanes.
        """
        lanes, rows, gone = self._lanes, self._levels[level - 1], self._gone[level - 1]
        look = self._look_along if level == 1 else self._look_below
        start = row * lanes.count
        while fit:
            first = fit & -fit
            at = start + first.bit_length() // lanes.width
            fit_below = lanes.fitting(spread, rows[at])
            if fit_below:
                left, spread = look(level - 1, at, fit_below, room, spread, found)
                if left is not room:
                    room = left
                    # The rows before had their turn, though a negative request may have made room there.
                    fit = lanes.fitting(spread, self._levels[level][row]) & -(first << 1)
                    continue
            fit ^= first
            if gone[at]:
                if gone[at] >= _STALE and at + 1 < len(rows):
                    self._tell(level - 1, at)
                else:
                    gone[at] += _IN_VAIN
        return room, spread

    def _look_along(
        self, level: int, row: int, fit: int, room: int, spread: int, found: list[Consumer]
    ) -> tuple[int, int]:
        """Look along a row of consumers in the same way; their level is 0."""
        lanes, requests = self._lanes, self._levels[level][row]
        while fit:
            first = fit & -fit
            consumer = self._members[row * lanes.count + first.bit_length() // lanes.width]
            if consumer is not None and room - consumer.amount & consumer.asked == consumer.asked:
                found.append(consumer)
                room -= consumer.amount
                spread = lanes.spread(room)
                fit = lanes.fitting(spread, requests) & -(first << 1)
            else:
                fit ^= first
        return room, spread

    def findings(self) -> Iterator[str]:
        """Yield what is not as it has to be."""
        lanes, levels = self._lanes, self._levels
        if self.count != len(list(self)):
            yield f"{self.count} are counted who wait"
        for slot, consumer in enumerate(self._members):
            due = 0 if consumer is None else lanes.gap(consumer.amount, consumer.asked)
            at = lanes.at(levels[0][slot // lanes.count], slot % lanes.count)
            if at != lanes.vacant - due or (consumer and consumer.slot != slot):
                yield f"slot {slot} is not that of whoever waits there"
        for slot in range(len(self._members), len(levels[0]) * lanes.count):
            if lanes.at(levels[0][slot // lanes.count], slot % lanes.count) != lanes.vacant:
                yield f"slot {slot} is not vacant"
        for level, rows in enumerate(levels[:-1]):
            for row, requests in enumerate(rows):
                told = lanes.at(levels[level + 1][row // lanes.count], row % lanes.count)
                due = lanes.least(requests) if row + 1 < len(rows) else 0
                if told != due and not (self._gone[level][row] and lanes.are_ordered(told, due)):
                    yield f"{told} is not the least of row {row} on level {level}, but {due}"
