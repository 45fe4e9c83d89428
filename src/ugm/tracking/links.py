"""Who holds what: an index maps an application to its first holding, on which those in other queues hang.

The indexes of a user, of a group and of a ledger share the holdings and so their links: entering or leaving the second
index finds the links done already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ugm.tracking.holding import Holding

__all__ = ["all_holdings", "link", "relink", "unlink", "with_siblings"]


def with_siblings(holding: Holding | None) -> Iterator[Holding]:
    """Yield a holding and those of the same application in other queues."""
    while holding is not None:
        yield holding
        holding = holding.sibling


def all_holdings(index: Mapping[str, Holding]) -> Iterator[Holding]:
    """Yield all holdings of an index."""
    for first in index.values():
        yield from with_siblings(first)


def link(index: dict[str, Holding], holding: Holding) -> None:
    """Add a holding to an index."""
    last = index.setdefault(holding.application_id, holding)
    while last is not holding:
        if last.sibling is None:
            last.sibling = holding
        last = last.sibling


def relink(index: dict[str, Holding], holding: Holding) -> None:
    """Add a holding that has left an index, or was about to, as the first of its application."""
    first = index.get(holding.application_id)
    if holding not in with_siblings(first):
        # It still has the link to the next one. Behind the others, it would close a circle.
        holding.sibling = first
        index[holding.application_id] = holding


def unlink(index: dict[str, Holding], holding: Holding) -> None:
    """Take a holding out of an index."""
    first = index[holding.application_id]
    if first is not holding:
        for other in with_siblings(first):
            if other.sibling is holding:
                other.sibling = holding.sibling
    elif holding.sibling is None:
        del index[holding.application_id]
    else:
        index[holding.application_id] = holding.sibling
