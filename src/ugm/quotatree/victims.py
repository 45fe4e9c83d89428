"""Who has to leave the tree when a request needs room: the two ways of choosing.

A choice is made among candidates that may be preempted, in the order in which the original goes through them: the
highest node first, and at a node in the order of arrival. It must free what is missing at one node; all candidates are
held at that node or below it, so each frees there all that it requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final, Protocol

from ugm.quotatree.consumer import Amounts, Consumer
from ugm.quotatree.node import fits

__all__ = ["VictimPolicy", "fewest", "first_found"]

#: So many sets of victims are tried for the fewest; beyond, the greedy choice stands.
_MOST_SETS: Final = 20_000


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
        if fits(amounts, free):
            return chosen
    return None


def fewest(candidates: Iterable[Consumer], amounts: Amounts, room: Sequence[int]) -> list[Consumer] | None:
    """Take as few candidates as suffice; among as many, those of the lowest priorities, and of these the latest.

    With one resource missing the answer is exact. With several it is exact as long as few sets have to be tried, and
    otherwise one that nobody can be left out of.
    """
    missing = {index: amount - room[index] for index, amount in amounts if amount > max(room[index], 0) or amount > room[index] > 0}
    missing = {index: amount - room[index] for index, amount in amounts if 0 < amount and room[index] < amount}
    return list(candidates) if missing else []
