"""The state of ``ugm top``: the requested data, and the part of it on the screen. Keys change it."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, final, get_args

__all__ = ["HELP", "SORTS", "TABLES", "RowSelection", "Sort", "TopState"]

#: The columns by which rows can be sorted.
Sort = Literal["share", "name", "waiting", "applications"]
SORTS: Final = get_args(Sort)
#: The tables that can be shown alone, and all of them.
TABLES: Final = ("all", "queues", "users", "groups", "denials")
#: The rows of a table that is shown alone: the largest page of the server.
_MOST: Final = 1000
#: The longest text that the server searches.
_LONGEST: Final = 256

HELP: Final = (
    ("q", "quit"),
    ("↑ ↓ or k j", "scroll by a line"),
    ("Page Up, Page Down", "scroll by a page"),
    ("Home, End", "scroll to the start or the end"),
    ("Tab, Shift-Tab", "show the next or previous table alone, or all"),
    ("s or >, <", "sort by the next or previous column"),
    ("r", "reverse the order"),
    ("/", "filter names by a text; Enter accepts, Escape removes"),
    ("Space", "pause, or continue with new data"),
    ("? or h", "show or hide this help"),
)


class RowSelection(NamedTuple):
    """The selection and order of rows."""

    sort: Sort = "share"
    is_reversed: bool = False
    #: A text that names must contain, in any case; applications of denials, or the users and groups that were denied.
    search: str = ""
    #: The maximum number of rows in each table.
    lines: int = 8


@final
class TopState:
    """The state of the view.

    Args:
        query: the initial selection and order.
    """

    __slots__ = ("_lines", "_query", "editing", "finished", "helping", "offset", "page", "paused", "table")

    def __init__(self, query: RowSelection) -> None:
        self._query = query
        self._lines: Final = query.lines
        #: An element of `TABLES`.
        self.table: str = TABLES[0]
        #: The lines that are scrolled away.
        self.offset: int = 0
        #: The lines of a page.
        self.page: int = 1
        self.paused: bool = False
        self.helping: bool = False
        self.finished: bool = False
        #: The text of the filter while it is edited.
        self.editing: str | None = None

    @property
    def query(self) -> RowSelection:
        """The rows to request."""
        return self._query._replace(lines=self._lines if self.table == TABLES[0] else _MOST)

    def press(self, key: str) -> None:
        """Change the state as a key demands; other keys have no effect."""
        if self.editing is not None:
            self._edit(self.editing, key)
        elif self.helping:
            self.helping = False
            self.finished = key == "q"
        elif key in ("up", "k", "down", "j", "page up", "page down", "home", "end"):
            self._scroll(key)
        else:
            self._command(key)

    def _command(self, key: str) -> None:
        match key:
            case "q" | "Q":
                self.finished = True
            case "?" | "h":
                self.helping = True
            case " ":
                self.paused = not self.paused
            case "/":
                self.editing = self._query.search
            case "tab" | "right" | "back tab" | "left":
                self._show(1 if key in ("tab", "right") else -1)
            case _:
                self._order(key)

    def _order(self, key: str) -> None:
        match key:
            case "s" | ">" | "<":
                position = SORTS.index(self._query.sort) + (-1 if key == "<" else 1)
                self._select(sort=SORTS[position % len(SORTS)])
            case "r":
                self._select(is_reversed=not self._query.is_reversed)
            case "escape":
                self._select(search="")

    def _scroll(self, key: str) -> None:
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -self.page, "page down": self.page}
        # Drawing limits the offset to the lines that exist.
        self.offset = 0 if key == "home" else 10**6 if key == "end" else max(self.offset + steps[key], 0)

    def _edit(self, text: str, key: str) -> None:
        match key:
            case "enter":
                self.editing = None
                self._select(search=text)
            case "escape":
                self.editing = None
                self._select(search="")
            case "backspace":
                self.editing = text[:-1]
            case _ if len(key) == 1:
                self.editing = (text + key)[:_LONGEST]

    def _show(self, step: int) -> None:
        self.table = TABLES[(TABLES.index(self.table) + step) % len(TABLES)]
        self.offset = 0

    def _select(self, **changes: object) -> None:
        self._query = self._query._replace(**changes)  # type: ignore[arg-type]
        self.offset = 0
