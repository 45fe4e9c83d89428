"""What one application holds in one queue: the line of the ledger from which every counter follows.

A `Holding` is charged to one or two trackers at once: to that of its user and, where a group limit applies, to that of
one group. Both list the same object, so the two cannot disagree. In a partition with queue quotas it is charged to its
queue besides. It keeps the counters that it is charged to at hand; that is what makes the thousandth request of an
application cost no more than a walk over them.

A holding is made *detached*: it can tell what stands in its way, and nothing knows of it. Attaching it starts the
application in its queue, detaching it ends it there. An application in several queues has one holding in each, linked
through `sibling`.

Nothing here takes the lock or checks arguments; that is the business of trackers and managers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, final

from ugm.decision import Violation, exceeded
from ugm.errors import ReleaseError
from ugm.hierarchy import Layout, Node, Owner, RequestVector, charge, fits, fits_one_more, refund, try_charge
from ugm.identity import UserGroup, is_below
from ugm.resources import MEMORY, VCORE, Resource
from ugm.tracking.limits import Epoch
from ugm.tracking.links import link, relink, unlink, with_siblings

if TYPE_CHECKING:
    from ugm.tracking.queue_tracker import QueueTracker

__all__ = ["DETACHED", "Amounts", "Counted", "Holding", "QuotaNode", "Quotas", "amount_of", "held"]

#: ``vcore``, ``memory`` and all other resources by name, None for no others. It is one value, so that one assignment
#: changes all of it. A tuple of plain numbers costs the garbage collector nothing.
Amounts: TypeAlias = tuple[int, int, Mapping[str, int] | None]

_NO_AMOUNTS: Final[Amounts] = (0, 0, None)


class Counted(Owner, Protocol):
    """Whose counter a node is, with an index of those below which something runs."""

    @property
    def nodes(self) -> dict[str, Node[Any]]:
        """Queue path to counter; a counter enters with the first application below it and leaves with the last."""
        ...


QuotaNode: TypeAlias = Node[Counted]


class Quotas(Protocol):
    """Limits of a queue itself, whoever uses it."""

    @property
    def chain(self) -> Sequence[Node[Any]]:
        """The counters of the queue and of those above it, leaf to root."""
        ...


#: The epoch of a holding that is not attached.
DETACHED: Final = Epoch(Layout())

#: The epoch of a holding whose tracker was given a limit by hand: over, so that its chains are put together again.
_OVER: Final = Epoch(Layout())


@final
class Holding:
    """What one application of one user holds in one queue.

    Args:
        application_id: the application.
        queue_path: the canonical path of the queue.
        owner: the tracker of the user, or the only tracker that is charged.
        group: the tracker of the group, if the application is charged to one.
        user: who owns the application, where the owner is a user.
    """

    __slots__ = (
        "amounts",
        "application_id",
        "charged",
        "checked",
        "epoch",
        "group",
        "owner",
        "queue_path",
        "quotas",
        "sibling",
        "user",
    )

    application_id: str
    queue_path: str
    owner: QueueTracker
    group: QueueTracker | None
    #: The user as the last caller passed it; comparing identities is how the hot path proves ownership.
    user: UserGroup | None
    #: The limits of the queue itself, if it has any.
    quotas: Quotas | None
    #: What is held: all counters follow from it. Replaced by one assignment, so that an interruption cannot split it.
    amounts: Amounts
    #: The nodes that a request must fit: the user's, the group's, the queue's, each leaf to root.
    checked: tuple[QuotaNode, ...]
    #: The nodes that it is charged to; the same tuple unless the user is counted in the group, but not held to it.
    charged: tuple[QuotaNode, ...]
    #: When the two chains were put together; `DETACHED` while it is detached.
    epoch: Epoch
    #: The holding of the same application in another queue. Index entries point at the first.
    sibling: Holding | None

    def __init__(
        self,
        application_id: str,
        queue_path: str,
        owner: QueueTracker,
        group: QueueTracker | None = None,
        user: UserGroup | None = None,
    ) -> None:
        self.application_id = application_id
        self.queue_path = queue_path
        self.owner = owner
        self.group = group
        self.user = user
        self.quotas = None
        self.amounts = _NO_AMOUNTS
        self.checked = self.charged = ()
        self.epoch = DETACHED
        self.sibling = None

    # What stands in the way. Nothing that can be seen changes.

    def chain(self) -> list[QuotaNode]:
        """Return every limit that the holding is, or would be, charged to, in the order of `checked`.

        Nodes of users and groups below which nothing runs yet are made for the occasion.
        """
        chain: list[QuotaNode] = self.owner.chain(self.queue_path)
        if self.group is not None:
            chain += self.group.chain(self.queue_path)
        if self.quotas is not None:
            chain += self.quotas.chain
        return chain

    def enforced(self, chain: list[QuotaNode]) -> list[QuotaNode]:
        """Return those nodes of *chain* that can deny.

        Source: Apache YuniKorn, user based resource usage tracking, "User vs Group tracking": where so configured, a
        user with a limit of its own is held to that alone.
        """
        owner = self.owner
        if owner.in_force.user_limits_win and any(n.owner is owner and not n.limit.wildcard for n in chain):
            return [node for node in chain if node.owner is not self.group]
        return chain

    def newly_counted(self, chain: Sequence[QuotaNode]) -> Sequence[QuotaNode]:
        """Return those nodes of *chain* below which the application does not run, this holding apart."""
        first = self.owner.holdings.get(self.application_id)
        if first is None or (first is self and self.sibling is None):
            return chain
        paths = [other.queue_path for other in with_siblings(first) if other is not self]
        return [node for node in chain if not any(is_below(path, node.queue_path) for path in paths)]

    def violations(self, vector: RequestVector) -> tuple[Violation, ...]:
        """Return every limit that *vector* more, and the application itself if it is new there, would exceed."""
        if self.epoch is not DETACHED:
            return exceeded(self.checked, vector)
        chain = self.chain()
        return exceeded(self.enforced(chain), vector, self.newly_counted(chain))

    # Changes. Whoever calls has checked the arguments.

    def try_charge(self, vector: RequestVector) -> bool:
        """Charge *vector* if it fits and return whether it did. The holding is attached and up to date."""
        if not try_charge(self.checked, self.charged, vector):
            return False
        _, _, vcore, memory, _, extended = vector
        held_vcore, held_memory, held_extended = self.amounts
        if extended:
            held_extended = _changed(held_extended, extended, 1)
        self.amounts = held_vcore + vcore, held_memory + memory, held_extended
        return True

    def violations_or_charge(self, vector: RequestVector) -> tuple[Violation, ...]:
        """Return every limit that *vector* would exceed; charge it if there is none.

        Called after `try_charge` has failed. It finds no violation if an amount is beyond `UNLIMITED` and no limit
        applies to that resource.
        """
        violations = exceeded(self.checked, vector)
        if not violations:
            self.charge(vector)
        return violations

    def start(self, vector: RequestVector) -> tuple[Violation, ...]:
        """Attach the holding and charge *vector* if both fit; otherwise return every limit in the way."""
        chain = self.chain()
        # Nearly every holding that starts is the only one of its application and held to everything.
        enforced = self.enforced(chain) if self.owner.in_force.user_limits_win else chain
        starting = self.newly_counted(chain) if self.application_id in self.owner.holdings else chain
        if not fits(enforced, vector) or not fits_one_more(starting):
            violations = exceeded(enforced, vector, starting)
            if violations:
                return violations
        # Before it is attached: from then on, what it holds is part of the ledger.
        _, _, vcore, memory, _, extended = vector
        self.amounts = vcore, memory, _changed(None, extended, 1) if extended else None
        self._attach(chain, enforced, starting)
        charge(chain, vector)
        return ()

    def charge(self, vector: RequestVector) -> None:
        """Charge *vector* without checking, attaching the holding if it is detached."""
        amounts = _plus(self.amounts, vector)
        if self.epoch is DETACHED:
            self.amounts = amounts
            chain = self.chain()
            self._attach(chain, self.enforced(chain), self.newly_counted(chain))
        charge(self.charged, vector)
        self.amounts = amounts

    def swap_violations(self, old: Resource, new: Resource) -> tuple[Violation, ...]:
        """Return every limit that stands in the way of *new* in the place of *old*; only what grows is checked.

        *old* makes way in any case: a violation asks the whole of *new* of its limit.
        """
        growth = Resource({name: more for name, more in (new - old).items() if more > 0})
        violations = self.violations(self.owner.in_force.epoch.layout.vector(growth))
        return tuple(_swapped(violation, old) for violation in violations)

    def swap(self, old: Resource, new: Resource) -> None:
        """Put *new* in the place of *old*, which is held, whether or not it fits."""
        require_vector = self.owner.in_force.epoch.layout.vector
        given, taken = require_vector(old), require_vector(new)
        self.require_held(given)
        refund(self.charged, given)
        charge(self.charged, taken)
        self.amounts = _plus(_minus(self.amounts, given), taken)

    def try_refund(self, vector: RequestVector) -> bool:
        """Refund *vector* if that much is held, and return whether it was."""
        _, _, vcore, memory, _, extended = vector
        held_vcore, held_memory, held_others = self.amounts
        rest_vcore, rest_memory = held_vcore - vcore, held_memory - memory
        if rest_vcore < 0 or rest_memory < 0:
            return False
        if extended:
            held_others = _changed(held_others, extended, -1)
            if held_others and min(held_others.values()) < 0:
                return False
            refund(self.charged, vector)
            self.amounts = rest_vcore, rest_memory, held_others
            return True
        self.amounts = rest_vcore, rest_memory, held_others
        # What `refund` does where nothing else is counted, spelt out: every release comes by here.
        for node in self.charged:
            node.free_vcore += vcore
            node.free_memory += memory
        return True

    def holds_exactly(self, vector: RequestVector) -> bool:
        """Return whether *vector* is exactly what is held, of ``vcore`` and ``memory`` alone."""
        _, _, vcore, memory, _, extended = vector
        return not extended and self.amounts == (vcore, memory, None)

    def require_held(self, vector: RequestVector, *, everything: bool = False) -> None:
        """Make sure that *vector* is held and, if so said, that nothing else is.

        Raises:
            ReleaseError: it is not.
        """
        _, _, vcore, memory, _, extended = vector
        released = {VCORE: vcore, MEMORY: memory, **dict(extended)}
        held = self.held()
        for name in {**held, **released}:
            amount, less = held.get(name, 0), released.get(name, 0)
            if less > amount or (everything and less < amount):
                raise ReleaseError(self.application_id, self.queue_path, name, amount, less)

    def held(self) -> dict[str, int]:
        """Return what is held, by resource name."""
        return held(self.amounts)

    def undo_attach(self) -> None:
        """Undo that the holding has been attached, or is about to be; the counters are rebuilt."""
        for tracker in (self.owner, self.group):
            if tracker is not None and self in with_siblings(tracker.holdings.get(self.application_id)):
                unlink(tracker.holdings, self)
        self.epoch = DETACHED

    def undo_detach(self, amounts: Amounts) -> None:
        """Undo that the holding has been detached, or is about to be; the counters are rebuilt."""
        self.amounts = amounts
        for tracker in (self.owner, self.group):
            if tracker is not None:
                relink(tracker.holdings, self)
        self.invalidate()

    def restore_amounts(self, amounts: Amounts) -> None:
        """Undo a change of what is held; the counters are rebuilt."""
        self.amounts = amounts

    def refresh(self) -> None:
        """Put the chains together again if the limits have changed since."""
        if self.epoch is not self.owner.in_force.epoch:
            chain = self.chain()
            self._connect(chain, self.enforced(chain))

    def invalidate(self) -> None:
        """Have the chains put together again before they are used next."""
        self.epoch = _OVER

    def _connect(self, chain: list[QuotaNode], enforced: list[QuotaNode]) -> None:
        self.charged = tuple(chain)
        self.checked = self.charged if enforced is chain else tuple(enforced)
        self.epoch = self.owner.in_force.epoch

    def _attach(self, chain: list[QuotaNode], enforced: list[QuotaNode], starting: Sequence[QuotaNode]) -> None:
        for node in starting:
            node.running += 1
            if node.running == 1:
                node.owner.nodes[node.queue_path] = node
        self._connect(chain, enforced)
        link(self.owner.holdings, self)
        if self.group is not None:
            link(self.group.holdings, self)

    def detach(self) -> None:
        """End the application in this queue. The holding is in line with the epoch and nothing of it is used."""
        for node in self.newly_counted(self.charged):
            node.running -= 1
            if not node.running:
                del node.owner.nodes[node.queue_path]
        unlink(self.owner.holdings, self)
        if self.group is not None:
            unlink(self.group.holdings, self)
        self.epoch = DETACHED


def held(amounts: Amounts) -> dict[str, int]:
    """Return all that is held, by resource name."""
    vcore, memory, extended = amounts
    return {VCORE: vcore, MEMORY: memory, **(extended or {})}


def amount_of(amounts: Amounts, name: str) -> int:
    """Return how much of one resource is held."""
    vcore, memory, extended = amounts
    if name == VCORE:
        return vcore
    return memory if name == MEMORY else (extended or {}).get(name, 0)


def _plus(amounts: Amounts, vector: RequestVector) -> Amounts:
    held_vcore, held_memory, held_others = amounts
    _, _, vcore, memory, _, extended = vector
    return held_vcore + vcore, held_memory + memory, _changed(held_others, extended, 1) if extended else held_others


def _minus(amounts: Amounts, vector: RequestVector) -> Amounts:
    held_vcore, held_memory, held_others = amounts
    _, _, vcore, memory, _, extended = vector
    return held_vcore - vcore, held_memory - memory, _changed(held_others, extended, -1) if extended else held_others


def _changed(
    held: Mapping[str, int] | None, extended: tuple[tuple[str, int], ...], sign: int
) -> Mapping[str, int] | None:
    """Return what is held of other resources after a change; None for nothing."""
    amounts = dict(held or {})
    for name, amount in extended:
        amounts[name] = amounts.get(name, 0) + sign * amount
    return {name: amount for name, amount in amounts.items() if amount} or None


def _swapped(violation: Violation, old: Resource) -> Violation:
    """Count what is given back as asked for again."""
    given_back = old.get(violation.resource or "", 0)
    return violation._replace(used=violation.used - given_back, requested=violation.requested + given_back)
