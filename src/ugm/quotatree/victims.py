"""Policies that choose the victims of a preemption: `first_found` and `fewest`.

A policy chooses among candidates that may be preempted, in the order of MCAD: the highest node first,
and at a node by arrival. The victims have to free the missing amounts at one node. All candidates are held at that node
or below it, so each of them frees there all that it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import comb
from typing import Final, Protocol

from ugm.errors import RequestError
from ugm.quotatree._node import Consumer
from ugm.quotatree._packed import Amounts

__all__ = ["VictimPolicy", "fewest", "first_found", "no_victims"]

#: The largest number of sets of one size that are compared. Where there are more, a set is built greedily.
_MAX_SETS: Final = 2_000

_CANDIDATES: Final = "expected consumers of the tree"


class VictimPolicy(Protocol):
    """A policy that chooses victims: `first_found`, `fewest`, or a function of the embedding program."""

    def __call__(self, candidates: Iterable[Consumer], amounts: Amounts, free: Sequence[int]) -> list[Consumer] | None:
        """Return the victims after whose removal *amounts* fit *free*, in order of removal; None if none suffice."""
        ...


def first_found(candidates: Iterable[Consumer], amounts: Amounts, free: Sequence[int]) -> list[Consumer] | None:
    """Take one candidate after the other until the request fits, as in MCAD.

    Candidates that free none of the missing amounts are taken too.

    Raises:
        RequestError: an argument has the wrong type.
    """
    _require_arguments(candidates, amounts, free)
    left = list(free)
    chosen = []
    for candidate in candidates:
        _require_consumer(candidate)
        chosen.append(candidate)
        for index, amount in candidate.amounts:
            left[index] += amount
        for index, amount in amounts:
            if left[index] < amount:
                break
        else:
            return chosen
    return None


def no_victims(*_: object, **__: object) -> None:
    """Take no candidate: a request fits without preemption, or is rejected."""


def fewest(candidates: Iterable[Consumer], amounts: Amounts, free: Sequence[int]) -> list[Consumer] | None:
    """Take as few candidates as possible. Prefer those of low priority, then those that arrived last.

    If more than 2,000 sets of one size exist (four victims of 17 candidates), the largest candidates are added one by
    one and then exchanged for candidates of lower priority. If one resource is missing, their number is still minimal.
    If several are missing, no victim can be left out.

    Raises:
        RequestError: an argument has the wrong type.
    """
    _require_arguments(candidates, amounts, free)
    listed = list(candidates)
    for candidate in listed:
        _require_consumer(candidate)
    missing = {index: amount - free[index] for index, amount in amounts if amount > free[index]}
    useful = [
        candidate for candidate in listed if any(missing.get(at, 0) and more > 0 for at, more in candidate.amounts)
    ]
    # The lowest priority first, then the last arrival: a stable sort of the reversed list.
    order = sorted(  # noqa: C414 - the sort is stable, so the order before it matters
        reversed(useful if missing else listed), key=lambda candidate: candidate.rank.priority
    )
    if not missing:
        return order[:1] or None
    chosen = _smallest(order, missing)
    return None if chosen is None else [candidate for candidate in listed if candidate in chosen]


def _require_arguments(candidates: object, amounts: object, free: object) -> None:
    if not isinstance(candidates, Iterable):
        raise RequestError("candidates", candidates, _CANDIDATES)
    if not isinstance(free, list | tuple) or not all(type(amount) is int for amount in free):
        raise RequestError("free", free, "expected an int for each resource of the tree")
    if not isinstance(amounts, list | tuple) or not all(_is_amount(entry, len(free)) for entry in amounts):
        raise RequestError("amounts", amounts, "expected pairs of the position of a resource and an int")


def _require_consumer(candidate: object) -> None:
    if not isinstance(candidate, Consumer):
        raise RequestError("candidates", candidate, _CANDIDATES)


def _is_amount(entry: object, resources: int) -> bool:
    match entry:
        case (int() as index, int()):
            return 0 <= index < resources
    return False


def _smallest(order: list[Consumer], missing: dict[int, int]) -> Sequence[Consumer] | None:
    for count in range(1, len(order) + 1):
        if comb(len(order), count) > _MAX_SETS:
            return _greedy(order, missing)
        sufficient = [chosen for chosen in combinations(order, count) if _suffice(chosen, missing)]
        if sufficient:
            # The first of several equal sets, which has the last arrivals.
            return min(sufficient, key=lambda chosen: sorted((c.rank.priority for c in chosen), reverse=True))
    return None


def _greedy(order: list[Consumer], missing: dict[int, int]) -> list[Consumer] | None:
    chosen: list[Consumer] = []
    left = dict(missing)
    others = list(order)
    while any(amount > 0 for amount in left.values()):
        if not others:
            return None
        largest = max(others, key=lambda candidate: _share(candidate, left, missing))
        others.remove(largest)
        chosen.append(largest)
        for index, amount in largest.amounts:
            if index in left:
                left[index] -= amount
    for candidate in sorted(chosen, key=lambda candidate: -candidate.rank.priority):
        rest = [other for other in chosen if other is not candidate]
        cheaper = [[other] for other in order if other.rank.priority < candidate.rank.priority and other not in chosen]
        chosen = next(([*rest, *more] for more in ([], *cheaper) if _suffice([*rest, *more], missing)), chosen)
    return chosen


def _share(candidate: Consumer, left: dict[int, int], missing: dict[int, int]) -> int:
    """Return the share of the remaining amounts that a candidate frees, in millionths of the missing amounts."""
    found = (
        min(amount, left[at]) * 1_000_000 // missing[at] for at, amount in candidate.amounts if left.get(at, 0) > 0
    )
    return sum(found)


def _suffice(chosen: Iterable[Consumer], missing: dict[int, int]) -> bool:
    left = dict(missing)
    for candidate in chosen:
        for index, amount in candidate.amounts:
            if index in left:
                left[index] -= amount
    return all(amount <= 0 for amount in left.values())
