"""Who has to leave the tree when a request needs room: the two ways of choosing.

A choice is made among candidates that may be preempted, in the order in which the original goes through them: the
highest node first, and at a node in the order of arrival. It must free what is missing at one node; all candidates are
held at that node or below it, so each frees there all that it requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import comb
from typing import Final, Protocol

from ugm.quotatree.consumer import Consumer
from ugm.quotatree.packing import Amounts

__all__ = ["VictimPolicy", "fewest", "first_found", "nobody"]

#: So many sets of victims of one size are compared; where there are more, they are put together one by one.
_MOST_SETS: Final = 2_000


class VictimPolicy(Protocol):
    """How victims are chosen: `first_found`, `fewest`, or a function of the embedding program."""

    def __call__(self, candidates: Iterable[Consumer], amounts: Amounts, room: Sequence[int]) -> list[Consumer] | None:
        """Return candidates without whom *amounts* fit into *room*, in the order they are to go; None if none do."""
        ...


def first_found(candidates: Iterable[Consumer], amounts: Amounts, room: Sequence[int]) -> list[Consumer] | None:
    """Take one candidate after the other until the request fits, as the original does.

    Candidates that free nothing of what is missing are taken too.
    """
    free = list(room)
    chosen = []
    for candidate in candidates:
        chosen.append(candidate)
        for index, amount in candidate.amounts:
            free[index] += amount
        for index, amount in amounts:
            if free[index] < amount:
                break
        else:
            return chosen
    return None


def nobody(
    candidates: Iterable[Consumer],  # noqa: ARG001 - the signature of a policy
    amounts: Amounts,  # noqa: ARG001 - as above
    room: Sequence[int],  # noqa: ARG001 - as above
) -> list[Consumer] | None:
    """Take nobody: a request fits without anybody leaving, or is rejected."""
    return None


def fewest(candidates: Iterable[Consumer], amounts: Amounts, room: Sequence[int]) -> list[Consumer] | None:
    """Take as few candidates as suffice; among as many, those of the lowest priorities; of these, who came last.

    Where there are very many candidates the largest are put together one by one, and then exchanged for others of lower
    priority: with one resource missing they are as few as can be, with several nobody among them can be left out.
    """
    listed = list(candidates)
    missing = {index: amount - room[index] for index, amount in amounts if amount > room[index]}
    useful = [
        candidate for candidate in listed if any(missing.get(at, 0) and more > 0 for at, more in candidate.amounts)
    ]
    # A stable sort of the reversed list: the lowest priority first, of these who came last.
    order = sorted(  # noqa: C414 - the sort is stable, so the order before it matters
        reversed(useful if missing else listed), key=lambda candidate: candidate.rank.priority
    )
    if not missing:
        return order[:1] or None
    chosen = _smallest(order, missing)
    return None if chosen is None else [candidate for candidate in listed if candidate in chosen]


def _smallest(order: list[Consumer], missing: dict[int, int]) -> Sequence[Consumer] | None:
    for count in range(1, len(order) + 1):
        if comb(len(order), count) > _MOST_SETS:
            return _put_together(order, missing)
        enough = [chosen for chosen in combinations(order, count) if _cover(chosen, missing)]
        if enough:
            # The first of several equal ones, which is made of those who came last.
            return min(enough, key=lambda chosen: sorted((c.rank.priority for c in chosen), reverse=True))
    return None


def _put_together(order: list[Consumer], missing: dict[int, int]) -> list[Consumer] | None:
    chosen: list[Consumer] = []
    left = dict(missing)
    others = list(order)
    while any(amount > 0 for amount in left.values()):
        if not others:
            return None
        most = max(others, key=lambda candidate: _share(candidate, left, missing))
        others.remove(most)
        chosen.append(most)
        for index, amount in most.amounts:
            if index in left:
                left[index] -= amount
    for candidate in sorted(chosen, key=lambda candidate: -candidate.rank.priority):
        rest = [other for other in chosen if other is not candidate]
        cheaper = [[other] for other in order if other.rank.priority < candidate.rank.priority and other not in chosen]
        chosen = next(([*rest, *more] for more in ([], *cheaper) if _cover([*rest, *more], missing)), chosen)
    return chosen


def _share(candidate: Consumer, left: dict[int, int], missing: dict[int, int]) -> int:
    """Return how much of what is left to be found a candidate frees, in millionths of what was missing."""
    found = (
        min(amount, left[at]) * 1_000_000 // missing[at] for at, amount in candidate.amounts if left.get(at, 0) > 0
    )
    return sum(found)


def _cover(chosen: Iterable[Consumer], missing: dict[int, int]) -> bool:
    left = dict(missing)
    for candidate in chosen:
        for index, amount in candidate.amounts:
            if index in left:
                left[index] -= amount
    return all(amount <= 0 for amount in left.values())
