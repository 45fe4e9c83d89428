"""What one application holds in one queue: the line of the ledger from which every counter follows.

A `Holding` is charged to one or two trackers at once: to that of its user and, where a group limit applies, to that of
one group. Both list the same object, so the two cannot disagree. It keeps the counters that it is charged to at hand;
that is what makes the thousandth request of an application cost no more than a walk over them.

A holding is made *detached*: it can tell what stands in its way, and nothing knows of it. Attaching it starts the
application in its queue, detaching it ends it there. An application in several queues has one holding in each, linked
through `sibling`.

Nothing here takes the lock or checks arguments; that is the business of trackers and managers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, final

from ugm.decision import TrackingType, Violation
from ugm.errors import ReleaseError
from ugm.hierarchy import APPLICATIONS, ONE_APPLICATION, Layout, Node, Row, admit, charge, fits, refund
from ugm.identity import WILDCARD
from ugm.resources import Resource
from ugm.tracking.limits import Epoch

if TYPE_CHECKING:
    from ugm.tracking.queue_tracker import QueueTracker

__all__ = ["Holding", "Link", "enter", "every", "is_below", "leave", "siblings_from"]


#: The epoch of a holding whose tracker was given a limit by hand: over, so that its chains are put together again.
_OVER: Final = Epoch(Layout())


class Link(NamedTuple):
    """One limit on the way from a queue to the root, for one tracker."""

    tracker: QueueTracker
    queue_path: str
    #: Where nothing that the tracker counts runs below the queue yet, a node that the tracker does not know of.
    node: Node

    def exceeded(self, amounts: Mapping[str, int], *, is_new: bool) -> Iterator[Violation]:
        """Yield what *amounts* more, and one more application if *is_new*, would exceed here."""
        node, columns = self.node, self.tracker.in_force.epoch.layout.columns
        for name, limit in node.limit.resources.amounts.items():
            amount = amounts.get(name)
            if amount and node.free[columns[name]] < amount:
                yield Violation(*self._whose(), name, limit, node.used(columns[name]), amount)
        if is_new and node.free[APPLICATIONS] < 1 and node.limit.applications:
            yield Violation(*self._whose(), None, node.limit.applications, node.used(APPLICATIONS), 1)

    def over(self) -> Iterator[Violation]:
        """Yield what is exceeded here already, with nothing requested."""
        node, columns = self.node, self.tracker.in_force.epoch.layout.columns
        for name, limit in node.limit.resources.amounts.items():
            if node.free[columns[name]] < 0:
                yield Violation(*self._whose(), name, limit, node.used(columns[name]), 0)
        if node.free[APPLICATIONS] < 0 and node.limit.applications:
            yield Violation(*self._whose(), None, node.limit.applications, node.used(APPLICATIONS), 0)

    def _whose(self) -> tuple[TrackingType, str, str, str]:
        name = self.tracker.name
        return self.tracker.kind, name, self.queue_path, WILDCARD if self.node.limit.wildcard else name


@final
class Holding:
    """What one application of one user holds in one queue.

    Args:
        application_id: the application.
        queue_path: the canonical path of the queue.
        owner: the tracker of the user, or the only tracker that is charged.
        group: the tracker of the group, if the application is charged to one.
    """

    __slots__ = (
        "application_id",
        "charged",
        "checked",
        "epoch",
        "group",
        "owner",
        "queue_path",
        "sibling",
        "used",
        "user",
    )

    application_id: str
    queue_path: str
    owner: QueueTracker
    group: QueueTracker | None
    #: The user as the last caller passed it; comparing identities is how the hot path proves ownership.
    user: object
    #: What is held, by resource name: the one figure that nothing else can be derived from.
    used: dict[str, int]
    #: The counters that a request must fit, the user's before the group's, each leaf to root.
    checked: tuple[list[int], ...]
    #: The counters that it is charged to; the same tuple unless the user is counted, but not held, to the group's.
    charged: tuple[list[int], ...]
    #: When the two chains were put together; None while detached, or when a limit was set by hand.
    epoch: Epoch | None
    #: The holding of the same application in another queue. Index entries point at the first.
    sibling: Holding | None

    def __init__(
        self, application_id: str, queue_path: str, owner: QueueTracker, group: QueueTracker | None = None
    ) -> None:
        self.application_id = application_id
        self.queue_path = queue_path
        self.owner = owner
        self.group = group
        self.user = None
        self.used = {}
        self.checked = self.charged = ()
        self.epoch = None
        self.sibling = None

    # What stands in the way. Nothing that can be seen changes.

    def links(self) -> list[Link]:
        """Return every limit that the holding is, or would be, charged to: the user's, then the group's, leaf to root."""
        links = self.owner.links(self.queue_path)
        return links if self.group is None else links + self.group.links(self.queue_path)

    def held_to(self, links: list[Link]) -> list[Link]:
        """Return those of *links* that can deny.

        Source: Apache YuniKorn, user based resource usage tracking, "User vs Group tracking": where so configured, a
        user with a limit of its own is held to that alone.
        """
        if self.owner.in_force.user_limits_win and any(
            link.tracker is self.owner and not link.limit.wildcard for link in links
        ):
            return [link for link in links if link.tracker is self.owner]
        return links

    def starting(self, links: list[Link]) -> list[Link]:
        """Return those of *links* below which the application does not run yet."""
        others = [other.queue_path for other in siblings_from(self.owner.holdings.get(self.application_id))]
        if not others:
            return links
        return [link for link in links if not any(is_below(path, link.queue_path) for path in others)]

    def violations(self, amounts: Mapping[str, int]) -> tuple[Violation, ...]:
        """Return every limit that *amounts* more, and the application itself where it is new, would exceed."""
        links = self.links()
        starting = self.starting(links)
        return tuple(
            violation for link in self.held_to(links) for violation in link.exceeded(amounts, is_new=link in starting)
        )

    # Changes. Whoever calls has checked the arguments.

    def grow(self, usage: Resource, row: Row) -> bool:
        """Charge *usage* if it fits and answer whether it did. The holding is attached and in line with the epoch."""
        if not admit(self.checked, self.charged, row):
            return False
        used = self.used
        for name, amount in usage.amounts.items():
            used[name] = used.get(name, 0) + amount
        return True

    def start(self, usage: Resource, row: Row) -> bool:
        """Attach the holding and charge *usage*, if both fit, and answer whether they did."""
        links = self.links()
        held_to, starting = self.held_to(links), self.starting(links)
        if not fits([link.node.free for link in held_to], row):
            return False
        if not fits([link.node.free for link in starting if link in held_to], ONE_APPLICATION):
            return False
        self._attach(links, starting)
        self.add(usage, row)
        return True

    def add(self, usage: Resource, row: Row) -> None:
        """Charge *usage* without checking, attaching the holding if it is detached."""
        if self.epoch is None:
            links = self.links()
            self._attach(links, self.starting(links))
        charge(self.charged, row)
        used = self.used
        for name, amount in usage.amounts.items():
            used[name] = used.get(name, 0) + amount

    def take(self, usage: Resource, row: Row) -> None:
        """Refund *usage*, which the holding covers."""
        refund(self.charged, row)
        used = self.used
        for name, amount in usage.amounts.items():
            if amount:
                used[name] -= amount

    def require(self, usage: Resource, *, everything: bool = False) -> None:
        """Make sure that the holding covers *usage* and, where asked, that nothing else is left.

        Raises:
            ReleaseError: it does not.
        """
        used = self.used
        for name, amount in usage.amounts.items():
            if amount > used.get(name, 0):
                raise ReleaseError(self.application_id, self.queue_path, name, used.get(name, 0), amount)
        if everything:
            for name, held in used.items():
                if held != usage.amounts.get(name, 0):
                    raise ReleaseError(self.application_id, self.queue_path, name, held, usage.amounts.get(name, 0))

    def align(self) -> None:
        """Put the chains together again if the limits have changed since."""
        if self.epoch is not self.owner.in_force.epoch:
            self._connect(self.links())

    def invalidate(self) -> None:
        """Have the chains put together again before they are used next."""
        self.epoch = _OVER

    def _connect(self, links: list[Link]) -> None:
        held_to = self.held_to(links)
        self.charged = tuple([link.node.free for link in links])
        self.checked = self.charged if held_to is links else tuple([link.node.free for link in held_to])
        self.epoch = self.owner.in_force.epoch

    def _attach(self, links: list[Link], starting: list[Link]) -> None:
        for tracker, queue_path, node in starting:
            tracker.nodes[queue_path] = node
            node.free[APPLICATIONS] -= 1
        self._connect(links)
        for tracker in self.trackers():
            enter(tracker.holdings, self)

    def detach(self) -> None:
        """End the application in this queue. The holding is aligned and nothing of it is used any more."""
        for tracker in self.trackers():
            leave(tracker.holdings, self)
        links = self.links()
        for tracker, queue_path, node in self.starting(links):
            node.free[APPLICATIONS] += 1
            if not node.used(APPLICATIONS):
                del tracker.nodes[queue_path]
        self.epoch = None

    def trackers(self) -> tuple[QueueTracker, ...]:
        """Return whom the holding is charged to."""
        return (self.owner,) if self.group is None else (self.owner, self.group)


def is_below(queue_path: str, ancestor: str) -> bool:
    """Return whether *queue_path* is *ancestor* or lies below it."""
    return queue_path == ancestor or queue_path.startswith(ancestor + ".")


# An index maps an application to its first holding; the others hang on that. The indexes of a user, of a group and of a
# manager share the holdings and so their links: entering or leaving the second index finds the links done already.


def siblings_from(holding: Holding | None) -> Iterator[Holding]:
    """Yield a holding and those of the same application in other queues."""
    while holding is not None:
        yield holding
        holding = holding.sibling


def every(index: Mapping[str, Holding]) -> Iterator[Holding]:
    """Yield all holdings of an index."""
    for first in index.values():
        yield from siblings_from(first)


def enter(index: dict[str, Holding], holding: Holding) -> None:
    """Add a holding to an index."""
    first = index.setdefault(holding.application_id, holding)
    if first is not holding:
        *_, last = siblings_from(first)
        if last is not holding:
            last.sibling = holding


def leave(index: dict[str, Holding], holding: Holding) -> None:
    """Take a holding out of an index."""
    first = index[holding.application_id]
    if first is not holding:
        for other in siblings_from(first):
            if other.sibling is holding:
                other.sibling = holding.sibling
    elif holding.sibling is None:
        del index[holding.application_id]
    else:
        index[holding.application_id] = holding.sibling
