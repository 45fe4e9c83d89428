"""One amount over time, kept small however long and busy the time is: lowest, highest and mean of each column.

A *column* is a stretch of time; all are equally wide. When the time outgrows the columns there are, they are made wider
and merged, and nothing of the three figures is lost by that: the lowest, the highest and the mean of a wider column are
those that would have been found with it from the start. A peak is therefore never smoothed away.

The lowest and the mean are of amounts that held for a second at least. The highest is also of those that held for an
instant: a job of 0 seconds counts, as it does for the limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, final

__all__ = ["COLUMNS", "Envelope", "Trace", "coarser", "fitting"]

#: The most columns that there are: about as many as a plot has pixels.
COLUMNS: Final = 960

#: Widths that people use, in seconds; each divides the next. From the last on they double.
_WIDTHS: Final = (1, 2, 10, 30, 60, 120, 600, 1800, 3600, 7200, 21600, 43200, 86400)

#: Above every amount that holds.
_NEVER: Final = float("inf")


def coarser(width: int) -> int:
    """Return the width after this one.

    >>> coarser(1), coarser(1800), coarser(86400)
    (2, 3600, 172800)
    """
    return next((wider for wider in _WIDTHS if wider > width), 2 * width)


def fitting(end: int, columns: int = COLUMNS, width: int = 1) -> int:
    """Return the least width, from *width* on, with which the second *end* is in one of so many columns.

    >>> fitting(959), fitting(960), fitting(11 * 86400)
    (1, 2, 1800)
    """
    while end // width >= columns:
        width = coarser(width)
    return width


class Envelope(NamedTuple):
    """The figures of all columns from second 0 on; in the last one the time may end early."""

    #: Of each column, in seconds.
    width: int
    #: The second at which the time ends.
    end: int
    low: tuple[int, ...]
    high: tuple[int, ...]
    #: The amount times the seconds for which it held, exactly; the mean is this through the seconds.
    area: tuple[int, ...]

    def seconds(self, column: int) -> int:
        """Return how much time there is in a column."""
        return min(self.width, self.end - column * self.width)

    def means(self) -> tuple[float, ...]:
        """Return the mean of each column; where the time ends as the column begins, what holds then."""
        lasting = map(self.seconds, range(len(self.area)))
        return tuple(
            area / seconds if seconds else low for area, seconds, low in zip(self.area, lasting, self.low, strict=True)
        )

    def merged(self, columns: int) -> Envelope:
        """Return the figures of at most so many columns."""
        width = fitting(self.end, columns, self.width)
        ratio = width // self.width
        starts = range(0, len(self.low), ratio)
        lasting = self.low if self.seconds(len(self.low) - 1) else self.low[:-1]
        return Envelope(
            width,
            self.end,
            tuple(min(lasting[start : start + ratio], default=self.low[-1]) for start in starts),
            tuple(max(self.high[start : start + ratio]) for start in starts),
            tuple(sum(self.area[start : start + ratio]) for start in starts),
        )


class _Closed(NamedTuple):
    """A column in which the amount changed; in those between, what holds at the end of the one before goes on."""

    column: int
    #: `_NEVER` where nothing has held for a second, which only the column of the end can be.
    low: float
    high: int
    #: What holds at its end.
    last: int
    #: The amount times the seconds from second 0 to its end. As a running sum it survives merging as it is.
    total: int


@final
class Trace:
    """Follows one amount, which is 0 until the first note.

    >>> trace = Trace()
    >>> for second, amount in ((0, 5), (2, 1), (2, 7), (4, 0)):
    ...     trace.note(second, amount)
    >>> trace.envelope(width=2, end=4)
    Envelope(width=2, end=4, low=(5, 7, 0), high=(5, 7, 0), area=(10, 14, 0))
    """

    __slots__ = ("_closed", "_column", "_columns", "_end", "_high", "_low", "_since", "_total", "_value", "_width")

    #: In the order of time, without the column that is open.
    _closed: list[_Closed]
    #: The open column, and the second at which it ends.
    _column: int
    _end: int
    #: Of the open column so far; `_NEVER` while nothing has held in it for a second.
    _low: float
    _high: int
    #: What has held since the last note, and the amount times the seconds until then.
    _value: int
    _since: int
    _total: int

    def __init__(self, columns: int = COLUMNS) -> None:
        self._columns: Final = columns
        self._width = 1
        self._closed = []
        self._column, self._end = 0, 1
        self._low, self._high = _NEVER, 0
        self._value = self._since = self._total = 0

    def note(self, now: int, value: int) -> None:
        """Let an amount hold from the second *now* on, which is not before that of the last note."""
        if now != self._since:
            held = self._value
            if held < self._low:  # noqa: PLR1730 - a call of `min` would take time for every limit of every job
                self._low = held
            if now >= self._end:
                self._turn(now)
            self._total += held * (now - self._since)
            self._since = now
        self._high = max(self._high, value)
        self._value = value

    def _turn(self, now: int) -> None:
        """Close the open column and open the one of *now*."""
        held = self._value
        self._closed.append(self._open())
        if now // self._width >= self._columns:
            width = fitting(now, self._columns, self._width)
            self._closed = list(_merged(self._closed, self._width, width))
            self._width = width
        self._column = now // self._width
        start = self._column * self._width
        self._end = start + self._width
        if self._closed[-1].column == self._column:
            _, self._low, self._high, _, _ = self._closed.pop()
        else:
            self._low, self._high = (held, held) if now > start else (_NEVER, 0)

    def _open(self) -> _Closed:
        """Return the open column as if what holds went on to its end."""
        rest = self._end - self._since
        return _Closed(self._column, self._low, self._high, self._value, self._total + self._value * rest)

    def envelope(self, width: int, end: int) -> Envelope:
        """Return the figures in columns of some width, up to the second *end*, which is that of the last note or later.

        Args:
            width: one that `fitting` returns for *end*.
            end: when the time ends.
        """
        opened = self._open()
        if end > self._since:
            opened = opened._replace(low=min(opened.low, opened.last))
        columns = {each.column: each for each in _merged([*self._closed, opened], self._width, width)}
        low, high, area = [], [], []
        last = total = 0
        for column in range(end // width + 1):
            seconds = min(width, end - column * width)
            found = columns.get(column) or _Closed(column, last, last, last, total + last * width)
            low.append(found.last if found.low == _NEVER else int(found.low))
            high.append(found.high)
            area.append(found.total - total - found.last * (width - seconds))
            last, total = found.last, found.total
        return Envelope(width, end, tuple(low), tuple(high), tuple(area))


def _merged(columns: list[_Closed], width: int, wider: int) -> Iterator[_Closed]:
    """Yield what columns are together in wider ones."""
    ratio = wider // width
    found: _Closed | None = None
    for column, low, high, last, total in columns:
        target, inside = divmod(column, ratio)
        if found and found.column == target:
            low, high = min(low, found.low), max(high, found.high)  # noqa: PLW2901 - of the wider column
        else:
            if found:
                yield found
            if inside:
                before = found.last if found else 0
                low, high = min(low, before), max(high, before)  # noqa: PLW2901 - as above
        found = _Closed(target, low, high, last, total + last * (ratio - 1 - inside) * width)
    if found:
        yield found
