"""Indexes of holdings: application to the linked list of its holdings, one for each queue.

Nearly every application has one holding, so an index maps the application to its first holding directly, and further
holdings are linked through `sibling`. The indexes of a user, of a group and of all users share the holdings and
therefore the links: when a holding is added to a second index, its links exist already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, Self, TypeVar

__all__ = ["Linked", "all_holdings", "link", "relink", "unlink", "with_siblings"]


class Linked(Protocol):
    """A holding with a link to the next holding of the same application."""

    application_id: str
    sibling: Self | None


LinkedT = TypeVar("LinkedT", bound=Linked)


def with_siblings(holding: LinkedT | None) -> Iterator[LinkedT]:
    """Yield a holding and all holdings behind it."""
    while holding is not None:
        yield holding
        holding = holding.sibling


def all_holdings(index: Mapping[str, LinkedT]) -> Iterator[LinkedT]:
    """Yield all holdings of an index."""
    for first in index.values():
        yield from with_siblings(first)


def link(index: dict[str, LinkedT], holding: LinkedT) -> None:
    """Add a holding to an index, behind the others of its application."""
    last = index.setdefault(holding.application_id, holding)
    while last is not holding:
        if last.sibling is None:
            last.sibling = holding
        last = last.sibling


def relink(index: dict[str, LinkedT], holding: LinkedT) -> None:
    """Undo `unlink`: add a holding as the first of its application, if it is not in the index."""
    first = index.get(holding.application_id)
    if holding not in with_siblings(first):
        # Its link to the next holding is intact. Behind the others, it would close a circle.
        holding.sibling = first
        index[holding.application_id] = holding


def unlink(index: dict[str, LinkedT], holding: LinkedT) -> None:
    """Remove a holding from an index."""
    first = index[holding.application_id]
    if first is not holding:
        for other in with_siblings(first):
            if other.sibling is holding:
                other.sibling = holding.sibling
    elif holding.sibling is None:
        del index[holding.application_id]
    else:
        index[holding.application_id] = holding.sibling
