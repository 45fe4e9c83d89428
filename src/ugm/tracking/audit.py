"""The self-check: every counter recomputed from what the applications hold.

Any difference is a bug in ugm. The check reads only, and does not bring trackers in line with the limits in force: a
tracker that nobody has used since the last change is compared with the limits that it was last in line with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ugm.errors import InvariantError
from ugm.tracking.holding import Holding
from ugm.tracking.holding_index import HoldingIndex
from ugm.tracking.links import all_holdings, with_siblings
from ugm.tracking.queue_tracker import QueueTracker

__all__ = ["findings", "verify"]


def verify(index: HoldingIndex) -> None:
    """Compare all counters and indexes of a partition with its holdings.

    Raises:
        InvariantError: with a sentence for each difference.
    """
    found = findings(index)
    if found:
        raise InvariantError(tuple(found))


def findings(index: HoldingIndex) -> list[str]:
    """Return a sentence for each counter or index that does not follow from the holdings."""
    users = {name: tracker.queue for name, tracker in index.users.items()}
    groups = {name: tracker.queue for name, tracker in index.groups.items()}
    holdings = list(all_holdings(index.holdings))
    found = [finding for tracker in index.trackers() for finding in _counters(tracker)]
    found += _indexes("user", users, [(holding.owner, holding) for holding in holdings])
    found += _indexes("group", groups, [(holding.group, holding) for holding in holdings])
    found += _holdings(index.holdings)
    return found


def _counters(tracker: QueueTracker) -> Iterator[str]:
    whose = f"{tracker.kind} {tracker.name!r}"
    expected = tracker.expected()
    for path, node in tracker.nodes.items():
        if path not in expected:
            yield f"{whose} counts {path}, where nothing runs"
            continue
        for name, used in [(None, node.running), *node.used().items()]:
            due = expected[path].get(name, 0)
            if used != due:
                yield f"{whose} counts {used} {name or 'applications'} in {path}, but its applications hold {due}"
    yield from (f"{whose} does not count {path}" for path in tracker.uncounted())


def _indexes(
    kind: str, trackers: Mapping[str, QueueTracker], charged: list[tuple[QueueTracker | None, Holding]]
) -> Iterator[str]:
    due: dict[str, set[int]] = {name: set() for name in trackers}
    for tracker, holding in charged:
        if tracker is not None:
            if trackers.get(tracker.name) is not tracker:
                yield f"{kind} {tracker.name!r} is charged {holding.application_id!r} but is not tracked"
            due.setdefault(tracker.name, set()).add(id(holding))
    for name, tracker in trackers.items():
        if not tracker.holdings:
            yield f"{kind} {name!r} is tracked without applications"
        if due[name] != {id(holding) for holding in all_holdings(tracker.holdings)}:
            yield f"{kind} {name!r} lists other holdings than are charged to it"


def _holdings(holdings: Mapping[str, Holding]) -> Iterator[str]:
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
