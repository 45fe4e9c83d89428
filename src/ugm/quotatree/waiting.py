"""Those who are held above a node and would come down into it, in their order, found by what fits.

A consumer that its group had no room for is held at a node above, and comes down one level when there is room for it.
They are gone through once, in the order of their arrival: who does not fit has no second turn when others have come
down.

A few are looked along one by one, many by rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from ugm.quotatree.consumer import Consumer
from ugm.quotatree.lanes import Layouts
from ugm.quotatree.rows import Rows

__all__ = ["Waiting"]

#: From so many on they stand in rows, until they are so few again.
_ROWS_FROM: Final = 32
_ROWS_UNTIL: Final = 8


@final
class Waiting:
    """Consumers by arrival, with those at hand who fit a given room.

    Args:
        layouts: of the lanes of the tree.
    """

    __slots__ = ("_layouts", "few", "rows")

    _layouts: Layouts
    #: By arrival; nobody if they stand in rows.
    few: dict[Consumer, None]
    rows: Rows | None

    def __init__(self, layouts: Layouts) -> None:
        self._layouts = layouts
        self.few = {}
        self.rows = None

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self.few if self.rows is None else self.rows)

    def clear(self) -> None:
        """Let everybody go."""
        self.few = {}
        self.rows = None

    def append(self, consumer: Consumer) -> None:
        """Put a consumer behind all others."""
        rows = self.rows
        if rows is not None:
            rows.append(consumer)
            return
        few = self.few
        few[consumer] = None
        if len(few) >= _ROWS_FROM:
            self.rows = Rows(self._layouts, few)
            self.few = {}

    def remove(self, consumer: Consumer) -> None:
        """Let a consumer go."""
        rows = self.rows
        if rows is None:
            del self.few[consumer]
        else:
            rows.remove(consumer)
            if rows.count < _ROWS_UNTIL:
                self.few = dict.fromkeys(rows)
                self.rows = None

    def sort(self) -> None:
        """Put everybody in the order of arrival, after somebody has come back to an earlier place."""
        ordered = sorted(self, key=lambda consumer: consumer.sequence)
        if self.rows is None:
            self.few = dict.fromkeys(ordered)
        else:
            self.rows = Rows(self._layouts, ordered)

    def fitting(self, room: int) -> list[Consumer]:
        """Return who fits into a room, one after the other while it shrinks, in order."""
        if self.rows is not None:
            return self.rows.fitting(room)
        found = []
        for consumer in self.few:
            asked = consumer.asked
            if room - consumer.amount & asked == asked:
                found.append(consumer)
                room -= consumer.amount
        return found

    def findings(self) -> Iterator[str]:
        """Yield what is not as it has to be."""
        if self.rows is not None:
            if self.few:
                yield "somebody stands in no row"
            yield from self.rows.findings()
