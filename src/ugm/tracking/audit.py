"""The self-check: every counter and index, recomputed from the holdings.

A difference is a bug in ugm. The check only reads. It does not bring trees up to date: a tree that has not been used
since the limits were last replaced is compared with the limits that its counters were made for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ugm.errors import InvariantError
from ugm.tracking.holding import Holding, HoldingTree
from ugm.tracking.holding_index import HoldingIndex
from ugm.tracking.links import all_holdings, with_siblings

__all__ = ["findings", "verify"]


def verify(index: HoldingIndex) -> None:
    """Compare all counters and indexes of a partition with its holdings.

    Raises:
        InvariantError: with a message for each difference.
    """
    found = findings(index)
    if found:
        raise InvariantError(tuple(found))


def findings(index: HoldingIndex) -> list[str]:
    """Return a message for each counter or index that does not agree with the holdings."""
    holdings = list(all_holdings(index.holdings))
    found = [finding for tree in index.trees() for finding in _counter_findings(tree)]
    found += _index_findings("user", index.users, [(holding.owner, holding) for holding in holdings])
    found += _index_findings("group", index.groups, [(holding.group, holding) for holding in holdings])
    found += _holding_findings(index.holdings)
    return found


def _counter_findings(tree: HoldingTree) -> Iterator[str]:
    owner = f"{tree.kind} {tree.name!r}"
    recomputed = tree.recomputed_usage()
    for path, node in tree.nodes.items():
        if path not in recomputed:
            yield f"{owner} counts {path}, where nothing runs"
            continue
        for name, used in [(None, node.running), *node.used().items()]:
            expected = recomputed[path].get(name, 0)
            if used != expected:
                yield f"{owner} counts {used} {name or 'applications'} in {path}, but its applications hold {expected}"
    yield from (f"{owner} does not count {path}" for path in tree.missing_counters())


def _index_findings(
    kind: str, trees: Mapping[str, HoldingTree], charged: list[tuple[HoldingTree | None, Holding]]
) -> Iterator[str]:
    expected: dict[str, set[int]] = {name: set() for name in trees}
    for tree, holding in charged:
        if tree is not None:
            if trees.get(tree.name) is not tree:
                yield f"{kind} {tree.name!r} is charged {holding.application_id!r} but is not tracked"
            expected.setdefault(tree.name, set()).add(id(holding))
    for name, tree in trees.items():
        if not tree.holdings:
            yield f"{kind} {name!r} is tracked without applications"
        if expected[name] != {id(holding) for holding in all_holdings(tree.holdings)}:
            yield f"{kind} {name!r} lists other holdings than are charged to it"


def _holding_findings(holdings: Mapping[str, Holding]) -> Iterator[str]:
    for application_id, first in holdings.items():
        same = list(with_siblings(first))
        if any((h.owner, h.group, h.application_id) != (first.owner, first.group, application_id) for h in same):
            yield f"application {application_id!r} is charged to more than one user or group"
        if len({holding.queue_path for holding in same}) != len(same):
            yield f"application {application_id!r} is listed twice in one queue"
        for holding in same:
            for name, amount in holding.held().items():
                if amount < 0:
                    yield f"application {application_id!r} holds {amount} {name} in {holding.queue_path}"
