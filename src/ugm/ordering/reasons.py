"""The comparison of siblings in one step of a scheduling order, and its explanation in words."""

from __future__ import annotations

from fractions import Fraction
from typing import Final, NamedTuple

from ugm.errors import fields_text, number_text

__all__ = ["Comparison", "SortKeys"]


class SortKeys(NamedTuple):
    """The values by which a queue or an application is compared with its siblings."""

    #: The path of the queue, or the id of the application.
    name: str
    #: The highest priority that is pending in the queue, with its offset; or that of the next request.
    priority: int
    #: The ratio of the queue; or the shares of the application, the largest first, for the order ``fair``.
    shares: tuple[Fraction, ...]
    #: The key of the program, or the place of the user for the order ``share``, as a text; empty if there is none.
    custom: str
    #: The place in the order of submission of the application, or of the first one in the queue.
    submitted: int

    def __repr__(self) -> str:
        return fields_text(self, self._asdict())


class Comparison(NamedTuple):
    """One step of the search: the winner among the children or applications of a queue."""

    #: The queue in which the step chooses.
    queue_path: str
    #: The first value that is compared besides priority: ``ratio``, ``shares``, ``rank``, ``custom`` or ``submitted``.
    criterion: str
    #: Whether priority is compared before it.
    priority_first: bool
    winner: SortKeys
    #: The next best; None if the winner is alone.
    beaten: SortKeys | None

    def __str__(self) -> str:
        winner, beaten = self.winner, self.beaten
        if beaten is None:
            return f"{winner.name} is the only one in {self.queue_path} with pending requests"
        order = ("priority", self.criterion) if self.priority_first else (self.criterion, "priority")
        for value in (*order, "submitted"):
            one, other = _value(winner, value), _value(beaten, value)
            if one != other:
                return f"{winner.name} comes before {beaten.name} by {_WORDS[value]}: {one} against {other}"
        return f"{winner.name} comes before {beaten.name} by name, because everything else is equal"


#: The words for the compared values.
_WORDS: Final = {
    "priority": "priority",
    "ratio": "the ratio of its usage",
    "shares": "its shares",
    "rank": "the fair share of its user",
    "custom": "the key of the program",
    "submitted": "the order of submission",
}


def _value(keys: SortKeys, name: str) -> str:
    if name in ("ratio", "shares"):
        return ", ".join(map(number_text, keys.shares)) or "none"
    if name == "rank":
        return keys.custom
    return str(getattr(keys, name))
