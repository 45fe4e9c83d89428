"""Tables that fit the width of the terminal: one line for each row, and an ellipsis in each shortened text.

Rich shortens all columns alike, also numbers, or wraps rows. Here, columns are omitted first, in a given order. Then
names lose their middle, because paths and generated names differ most at their ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, final

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from ugm.cli.output import table
from ugm.errors import printable

__all__ = ["Column", "FittedTable", "shortened"]

_ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"
#: The blanks between two columns of a `table`.
_GAP: Final = 2
#: The width to which texts are shortened if nothing else makes the table fit.
_LEAST: Final = 4


class Column(NamedTuple):
    """A column of a table."""

    heading: str
    #: The width to which texts are shortened before columns are omitted; 0 for numbers and bars, which are not.
    least: int = 0
    is_number: bool = False
    #: Columns with larger numbers are omitted first; those with 0 never.
    omitted: int = 0


@final
class FittedTable:
    """A renderable table that fits the available width.

    Args:
        columns: the columns.
        rows: the cells of each row, in the order of the columns; missing ones are empty.
        title: the line above the table.
    """

    __slots__ = ("_columns", "_rows", "_title")

    def __init__(self, columns: Sequence[Column], rows: Iterable[Sequence[str | Text]], title: str) -> None:
        self._columns: Final = columns
        self._rows: Final = [[*map(_literal, row), *[Text()] * (len(columns) - len(row))] for row in rows]
        self._title: Final = title

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the table for the width of the options."""
        widths = self._widths(options.max_width)
        numbers = [column.heading for column in self._columns if column.is_number]
        rows = ([_shortened_cell(row[n], width) for n, width in widths.items()] for row in self._rows)
        yield Text(shortened(self._title, options.max_width), style="bold")
        yield table(
            *(shortened(self._columns[n].heading, width) for n, width in widths.items()), rows=rows, right=numbers
        )

    def _widths(self, available: int) -> dict[int, int]:
        """Return the widths of the columns that are shown, by index."""
        natural = [max((row[n].cell_len for row in self._rows), default=0) for n in range(len(self._columns))]
        widths = {n: max(width, len(self._columns[n].heading)) for n, width in enumerate(natural)}
        least = {n: min(width, self._columns[n].least or width) for n, width in widths.items()}
        for n in sorted(widths, key=lambda n: -self._columns[n].omitted):
            if _total(least.values()) > available and self._columns[n].omitted:
                del widths[n], least[n]
        _shrink(widths, least, available)
        texts = [n for n in least if self._columns[n].least]
        _shrink(widths, least | {n: min(least[n], _LEAST) for n in texts}, available)
        return widths


def _shrink(widths: dict[int, int], least: Mapping[int, int], available: int) -> None:
    """Shorten the widest columns first, so that short names remain complete."""
    while _total(widths.values()) > available and widths != least:
        widest = max((n for n in widths if widths[n] > least[n]), key=widths.__getitem__)
        widths[widest] -= 1


def _total(widths: Iterable[int]) -> int:
    return sum(width + _GAP for width in widths) - _GAP


def _literal(cell: str | Text) -> Text:
    return cell if isinstance(cell, Text) else Text(printable(cell))


def _shortened_cell(cell: Text, width: int) -> Text:
    return cell if cell.cell_len <= width else Text(shortened(cell.plain, width), cell.style)


def shortened(text: str, width: int) -> str:
    """Replace the middle of a text by an ellipsis, so that it has at most `width` cells of a terminal.

    >>> shortened("root.research.physics.simulation", 15)
    'root.re…ulation'
    """
    if cell_len(text) <= width:
        return text
    tail = (width - 1) // 2
    end = len(text)
    while end and cell_len(text[end - 1 :]) <= tail:
        end -= 1
    return f"{set_cell_size(text, max(width - 1 - tail, 0))}{_ELLIPSIS}{text[end:]}"
