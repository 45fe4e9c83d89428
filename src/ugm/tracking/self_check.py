"""The self-check: every counter and index, recomputed from the holdings.

A difference is a bug in ugm. The check only reads. It does not bring trees up to date: a tree that has not been used
since the limits were last replaced is compared with the limits that its counters were made for.

The problem: the check of a large partition takes seconds, and the lock must not be held for that long. The idea: every
finding is about one object, such as a tree or an application, and holds at any moment between two operations. So the
check reads a few objects at a time under the lock, and other threads use the objects in between. An object that has
ended in the meantime is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, ParamSpec, Protocol, TypeVar

from ugm.errors import InvariantError
from ugm.identity import TrackingType
from ugm.tracking.holding import Holding, HoldingTree
from ugm.tracking.holding_index import HoldingIndex
from ugm.tracking.holding_links import all_holdings, with_siblings

__all__ = ["SLICE", "ReadLocked", "findings", "read_at_once", "slices", "verify"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: The number of holdings or allocations that are read at once, if they do not belong to the same object.
SLICE: Final = 1000


class ReadLocked(Protocol):
    """A function that runs a query under the lock of the checked objects, and returns its result."""

    def __call__(self, query: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run the query."""
        ...


def read_at_once(query: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run a query for a caller that holds the lock, or needs none."""
    return query(*args, **kwargs)


def slices(items: Iterable[_T], size: Callable[[_T], int]) -> Iterator[list[_T]]:
    """Yield lists of consecutive items, each with a total size of about a thousand or with one larger item."""
    found: list[_T] = []
    total = 0
    for item in items:
        found.append(item)
        total += size(item)
        if total >= SLICE:
            yield found
            found, total = [], 0
    if found:
        yield found


def verify(index: HoldingIndex) -> None:
    """Compare all counters and indexes of a partition with its holdings.

    Raises:
        InvariantError: with a message for each difference.
    """
    found = tuple(dict.fromkeys(findings(index)))
    if found:
        raise InvariantError(found)


def findings(index: HoldingIndex, read: ReadLocked = read_at_once) -> Iterator[str]:
    """Yield a message for each counter or index that does not agree with the holdings; a message may be repeated."""
    for trees in slices(read(list, index.trees()), lambda tree: 1 + len(tree.holdings)):
        yield from read(_findings_of_trees, index, trees)
    for firsts in slices(read(list, index.holdings.values()), lambda _: 1):
        yield from read(_findings_of_holdings, index, firsts)


def _findings_of_trees(index: HoldingIndex, trees: Iterable[HoldingTree]) -> list[str]:
    current = [tree for tree in trees if _trees_of(index, tree).get(tree.name) is tree]
    return [finding for tree in current for finding in (*_counter_findings(tree), *_list_findings(index, tree))]


def _trees_of(index: HoldingIndex, tree: HoldingTree) -> Mapping[str, HoldingTree]:
    return index.users if tree.kind is TrackingType.USER else index.groups


def _counter_findings(tree: HoldingTree) -> Iterator[str]:
    owner = f"{tree.kind} {tree.name!r}"
    recomputed = tree.recomputed_usage()
    for path, counter in tree.counters.items():
        if path not in recomputed:
            yield f"{owner} counts {path}, where nothing runs"
            continue
        for name, used in [(None, counter.running), *counter.used().items()]:
            expected = recomputed[path].get(name, 0)
            if used != expected:
                yield f"{owner} counts {used} {name or 'applications'} in {path}, but its applications hold {expected}"
    yield from (f"{owner} does not count {path}" for path in tree.missing_counters())


def _list_findings(index: HoldingIndex, tree: HoldingTree) -> Iterator[str]:
    if not tree.holdings:
        yield f"{tree.kind} {tree.name!r} is tracked without applications"
    for holding in all_holdings(tree.holdings):
        is_charged = tree in (holding.owner, holding.group)
        if not is_charged or holding not in with_siblings(index.holdings.get(holding.application_id)):
            yield _other_holdings(tree)
            return


def _findings_of_holdings(index: HoldingIndex, firsts: Iterable[Holding]) -> list[str]:
    current = [first for first in firsts if index.holdings.get(first.application_id) is first]
    return [finding for first in current for finding in _holding_findings(index, first)]


def _holding_findings(index: HoldingIndex, first: Holding) -> Iterator[str]:
    application_id, same = first.application_id, list(with_siblings(first))
    if any((h.owner, h.group, h.application_id) != (first.owner, first.group, application_id) for h in same):
        yield f"application {application_id!r} is charged to more than one user or group"
    if len({holding.queue_path for holding in same}) != len(same):
        yield f"application {application_id!r} is listed twice in one queue"
    for holding in same:
        for tree in (holding.owner, holding.group):
            if tree is not None:
                yield from _charge_findings(index, tree, holding)
        for name, amount in holding.held().items():
            if amount < 0:
                yield f"application {application_id!r} holds {amount} {name} in {holding.queue_path}"


def _charge_findings(index: HoldingIndex, tree: HoldingTree, holding: Holding) -> Iterator[str]:
    if _trees_of(index, tree).get(tree.name) is not tree:
        yield f"{tree.kind} {tree.name!r} is charged {holding.application_id!r} but is not tracked"
    if holding not in with_siblings(tree.holdings.get(holding.application_id)):
        yield _other_holdings(tree)


def _other_holdings(tree: HoldingTree) -> str:
    return f"{tree.kind} {tree.name!r} lists other holdings than are charged to it"
