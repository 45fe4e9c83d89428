"""A holding: the resources that one application holds in one queue.

The problem: a request must be checked against limits of its user, its group and its queue at every level up to the
root, and charged to all of them or to none. Schedulers send many requests of the same application, so the work for each
request must be small. An exception can interrupt a request at any instruction, and counters must not disagree after it.

The idea: the `amounts` of the holding say what the application holds. Counters follow from them. Every counter of a
user, group or queue is the sum of the holdings below it, and can be recomputed. The holding also caches its two chains:
the counters that a request must fit (`checked`) and those that it is charged to (`charged`). They are valid for one
epoch of the limits. A request walks over the cached chains and then replaces `amounts` by one assignment.

States: a new holding is *detached*: it can answer queries, and no index lists it. Attaching it starts the application
in its queue, and detaching it ends the application there. The same object is listed in the tree of its user and, if a
group limit applies, in the tree of one group, so the two cannot disagree. An application in several queues has one
holding for each queue, linked through `sibling`.

Invariants: for every counter, the used amount is the sum of the `amounts` of the holdings whose `charged` chain
contains it. A counter is listed in `counters` of its owner exactly while an application runs below it. `amounts`
changes by one assignment, so an interruption leaves either the old or the new value, and the counters are rebuilt from
it.

The cost: the time of a request is proportional to the number of limits on its path. The first request after a change of
the limits also looks up the chains. Memory grows with the number of holdings, not with that of requests.

The functions here take no lock and check no arguments; trackers and managers do both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias, final

from ugm.counters import Counter, Layout, RequestVector, charge, fits, fits_one_more, refund, try_charge
from ugm.decision import Violation, exceeded
from ugm.errors import ReleaseError
from ugm.identity import UserGroup, is_below
from ugm.resources import MEMORY, VCORE, Resource
from ugm.tracking.holding_links import link, relink, unlink, with_siblings
from ugm.tracking.limit_epochs import Epoch
from ugm.tracking.owner_usage_tree import OwnerUsageTree

__all__ = ["DETACHED", "Amounts", "Holding", "HoldingTree", "QueueChain", "amount_of", "amounts_by_name"]

#: ``vcore``, ``memory`` and the extended resources by name (None for none). One value, so that one assignment changes
#: all of it. The garbage collector does not track a tuple of plain numbers.
Amounts: TypeAlias = tuple[int, int, Mapping[str, int] | None]

_NO_AMOUNTS: Final[Amounts] = (0, 0, None)

#: The usage tree of a user or group.
HoldingTree: TypeAlias = "OwnerUsageTree[Holding]"


class QueueChain(Protocol):
    """A queue, with the limits that apply to all users together."""

    @property
    def chain(self) -> Sequence[Counter]:
        """The counters of the queue and of the queues above it, leaf to root."""
        ...


#: The epoch of a holding that is not attached.
DETACHED: Final = Epoch(Layout())

#: The epoch of a holding whose chains must be looked up again. It is never in force.
_EXPIRED: Final = Epoch(Layout())


@final
@dataclass(slots=True, eq=False, repr=False)
class Holding:
    """The resources that one application of one user holds in one queue.

    Args:
        application_id: the application.
        queue_path: the canonical path of the queue.
        owner: the tree of the user, or the only tree that is charged.
        group: the tree of the group, if the application is charged to a group.
        user: the user that owns the application, if *owner* is a user.
    """

    application_id: str
    queue_path: str
    owner: HoldingTree
    group: HoldingTree | None = None
    #: The object that the last caller passed. The hot path compares it by identity to verify the owner.
    user: UserGroup | None = None
    #: The queue, if limits of its own apply.
    queue: QueueChain | None = field(default=None, init=False)
    #: The held amounts. Replaced by one assignment.
    amounts: Amounts = field(default=_NO_AMOUNTS, init=False)
    #: The counters that a request must fit: of the user, the group and the queue, each leaf to root.
    checked: tuple[Counter, ...] = field(default=(), init=False)
    #: The counters that a request is charged to; the same tuple unless the user is exempt from the limits of the group.
    charged: tuple[Counter, ...] = field(default=(), init=False)
    #: The epoch of the two chains; `DETACHED` while the holding is not attached.
    epoch: Epoch = field(default=DETACHED, init=False)
    #: The next holding of the same application. Indexes refer to the first.
    sibling: Holding | None = field(default=None, init=False)

    # Queries

    def chain(self) -> list[Counter]:
        """Return every counter that the holding is, or would be, charged to, in the order of `checked`.

        Counters of users and groups below which nothing runs are new.
        """
        chain = self.owner.chain(self.queue_path)
        if self.group is not None:
            chain += self.group.chain(self.queue_path)
        if self.queue is not None:
            chain += self.queue.chain
        return chain

    def enforced(self, chain: list[Counter]) -> list[Counter]:
        """Return the counters of *chain* that can deny a request.

        Source: Apache YuniKorn, user based resource usage tracking, "User vs Group tracking": if configured so, a user
        with a limit of its own is exempt from the limits of its group.
        """
        owner = self.owner
        if owner.active_limits.user_limits_win and any(n.owner is owner and not n.limit.wildcard for n in chain):
            return [counter for counter in chain if counter.owner is not self.group]
        return chain

    def newly_counted(self, chain: Sequence[Counter]) -> Sequence[Counter]:
        """Return the counters of *chain* below which the application does not run, apart from this holding."""
        first = self.owner.holdings.get(self.application_id)
        if first is None or (first is self and self.sibling is None):
            return chain
        paths = [other.queue_path for other in with_siblings(first) if other is not self]
        return [counter for counter in chain if not any(is_below(path, counter.queue_path) for path in paths)]

    def violations(self, vector: RequestVector) -> tuple[Violation, ...]:
        """Return every limit that *vector*, and the application itself if it is new there, would exceed."""
        if self.epoch is not DETACHED:
            return exceeded(self.checked, vector)
        chain = self.chain()
        return exceeded(self.enforced(chain), vector, self.newly_counted(chain))

    def swap_violations(self, old: Resource, new: Resource) -> tuple[Violation, ...]:
        """Return every limit that replacing *old* by *new* would exceed. Only resources that grow are checked.

        A violation reports *old* as free and *new* as requested.
        """
        growth = Resource({name: more for name, more in (new - old).items() if more > 0})
        violations = self.violations(self.owner.active_limits.epoch.layout.vector(growth))
        return tuple(_without_old(violation, old) for violation in violations)

    def held(self) -> dict[str, int]:
        """Return the held amounts by resource name."""
        return amounts_by_name(self.amounts)

    def holds_exactly(self, vector: RequestVector) -> bool:
        """Return whether *vector* names only ``vcore`` and ``memory``, and equals the held amounts."""
        _, _, vcore, memory, _, extended = vector
        return not extended and self.amounts == (vcore, memory, None)

    def require_held(self, vector: RequestVector, *, everything: bool = False) -> None:
        """Check that *vector* is held and, with *everything*, that nothing else is.

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

    # Charges and refunds

    def try_charge(self, vector: RequestVector) -> bool:
        """Charge *vector* if it fits, and return whether it did. The holding is attached and up to date."""
        if not try_charge(self.checked, self.charged, vector):
            return False
        _, _, vcore, memory, _, extended = vector
        held_vcore, held_memory, held_extended = self.amounts
        if extended:
            held_extended = _changed(held_extended, extended, 1)
        self.amounts = held_vcore + vcore, held_memory + memory, held_extended
        return True

    def admit(self, vector: RequestVector) -> tuple[Violation, ...]:
        """Charge *vector* if it fits, or return every limit that it would exceed.

        The holding is up to date, or detached; then it is attached if it fits, too.
        """
        if self.epoch is DETACHED:
            return self.start(vector)
        return () if self.try_charge(vector) else self.violations_or_charge(vector)

    def violations_or_charge(self, vector: RequestVector) -> tuple[Violation, ...]:
        """Return every limit that *vector* would exceed, or charge it if there is none. Follows a failed `try_charge`.

        There is no violation if the amount exceeds `ugm.counters.UNLIMITED`, and the resource is not limited.
        """
        violations = exceeded(self.checked, vector)
        if not violations:
            self.charge(vector)
        return violations

    def start(self, vector: RequestVector) -> tuple[Violation, ...]:
        """Attach the holding and charge *vector* if both fit; otherwise return every limit that would be exceeded."""
        chain = self.chain()
        # Shortcuts for the usual case: the only holding of its application, and no limits that are not enforced.
        enforced = self.enforced(chain) if self.owner.active_limits.user_limits_win else chain
        new = self.newly_counted(chain) if self.application_id in self.owner.holdings else chain
        if not fits(enforced, vector) or not fits_one_more(new):
            violations = exceeded(enforced, vector, new)
            if violations:
                return violations
        # Before the holding is attached: from then on, counters may be rebuilt from its amounts.
        _, _, vcore, memory, _, extended = vector
        self.amounts = vcore, memory, _changed(None, extended, 1) if extended else None
        self._attach(chain, enforced, new)
        charge(chain, vector)
        return ()

    def charge(self, vector: RequestVector) -> None:
        """Charge *vector* without checking, attaching the holding if it is detached."""
        amounts = _sum(self.amounts, vector)
        if self.epoch is DETACHED:
            self.amounts = amounts
            chain = self.chain()
            self._attach(chain, self.enforced(chain), self.newly_counted(chain))
        charge(self.charged, vector)
        self.amounts = amounts

    def swap(self, old: Resource, new: Resource) -> None:
        """Replace *old*, which is held, by *new*, whether or not it fits."""
        layout = self.owner.active_limits.epoch.layout
        given, taken = layout.vector(old), layout.vector(new)
        self.require_held(given)
        refund(self.charged, given)
        charge(self.charged, taken)
        self.amounts = _sum(_sum(self.amounts, given, -1), taken)

    def try_refund(self, vector: RequestVector) -> bool:
        """Refund *vector* if that much is held, and return whether it was."""
        _, _, vcore, memory, _, extended = vector
        held_vcore, held_memory, held_extended = self.amounts
        rest_vcore, rest_memory = held_vcore - vcore, held_memory - memory
        # Negative if one of them is; one comparison is faster.
        if rest_vcore | rest_memory < 0:
            return False
        if extended:
            held_extended = _changed(held_extended, extended, -1)
            if held_extended and min(held_extended.values()) < 0:
                return False
            refund(self.charged, vector)
            self.amounts = rest_vcore, rest_memory, held_extended
            return True
        self.amounts = rest_vcore, rest_memory, held_extended
        # The same as `refund` without extended resources. It is repeated here because every release executes it.
        for counter in self.charged:
            counter.free_vcore += vcore
            counter.free_memory += memory
        return True

    # Attaching and detaching

    def refresh(self) -> None:
        """Look up the chains again if the limits have changed since."""
        if self.epoch is not self.owner.active_limits.epoch:
            chain = self.chain()
            self._connect(chain, self.enforced(chain))

    def invalidate(self) -> None:
        """Have the chains looked up again before their next use."""
        self.epoch = _EXPIRED

    def _connect(self, chain: list[Counter], enforced: list[Counter]) -> None:
        self.charged = tuple(chain)
        self.checked = self.charged if enforced is chain else tuple(enforced)
        self.epoch = self.owner.active_limits.epoch

    def _attach(self, chain: list[Counter], enforced: list[Counter], new: Sequence[Counter]) -> None:
        for counter in new:
            counter.running += 1
            if counter.running == 1:
                counter.owner.counters[counter.queue_path] = counter
        self._connect(chain, enforced)
        link(self.owner.holdings, self)
        if self.group is not None:
            link(self.group.holdings, self)

    def detach(self) -> None:
        """End the application in this queue. The holding is up to date, and everything has been refunded."""
        for counter in self.newly_counted(self.charged):
            counter.running -= 1
            if not counter.running:
                del counter.owner.counters[counter.queue_path]
        unlink(self.owner.holdings, self)
        if self.group is not None:
            unlink(self.group.holdings, self)
        self.epoch = DETACHED

    # Steps of an undo list. The counters are rebuilt after them.

    def undo_attach(self) -> None:
        """Undo that the holding was attached, or is about to be."""
        for tree in (self.owner, self.group):
            if tree is not None and self in with_siblings(tree.holdings.get(self.application_id)):
                unlink(tree.holdings, self)
        self.epoch = DETACHED

    def undo_detach(self, amounts: Amounts) -> None:
        """Undo that the holding was detached, or is about to be."""
        self.amounts = amounts
        for tree in (self.owner, self.group):
            if tree is not None:
                relink(tree.holdings, self)
        self.invalidate()

    def restore_amounts(self, amounts: Amounts) -> None:
        """Undo a change of the held amounts."""
        self.amounts = amounts


def amounts_by_name(amounts: Amounts) -> dict[str, int]:
    """Return all amounts by resource name."""
    vcore, memory, extended = amounts
    return {VCORE: vcore, MEMORY: memory, **(extended or {})}


def amount_of(amounts: Amounts, name: str) -> int:
    """Return the amount of one resource."""
    vcore, memory, extended = amounts
    if name == VCORE:
        return vcore
    return memory if name == MEMORY else (extended or {}).get(name, 0)


def _sum(amounts: Amounts, vector: RequestVector, sign: int = 1) -> Amounts:
    """Return the amounts after a charge, or with a *sign* of -1 after a refund."""
    held_vcore, held_memory, held_extended = amounts
    _, _, vcore, memory, _, extended = vector
    if extended:
        held_extended = _changed(held_extended, extended, sign)
    return held_vcore + sign * vcore, held_memory + sign * memory, held_extended


def _changed(
    held: Mapping[str, int] | None, extended: tuple[tuple[str, int], ...], sign: int
) -> Mapping[str, int] | None:
    """Return the extended amounts after a change; None if there are none left."""
    amounts = dict(held or {})
    for name, amount in extended:
        amounts[name] = amounts.get(name, 0) + sign * amount
    return {name: amount for name, amount in amounts.items() if amount} or None


def _without_old(violation: Violation, old: Resource) -> Violation:
    """Return a violation with *old* moved from the used to the requested amount."""
    amount = old.get(violation.resource or "", 0)
    return violation._replace(used=violation.used - amount, requested=violation.requested + amount)
