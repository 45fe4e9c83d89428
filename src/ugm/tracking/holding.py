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

`OwnerUsageTree` lists the holdings of one user or group, as a sparse tree of queues below ``root``. A counter
(`ugm.counters.Counter`) exists only where a limit needs it: for every limited queue in or below which an application
runs. A queue without a limit therefore costs nothing. A change of the limits does not touch the trees: each brings its
counters up to date on its next use. It adjusts the counters that exist, and sums up those of queues that were not
limited before.

Source: Apache YuniKorn, user based resource usage tracking, "Queue tracking"; user based quota enforcement, "Queue
tracking" and "Configuration updates and storage".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, Self, TypeAlias, final

from ugm.arguments import require_vector
from ugm.counters import (
    Counter,
    Layout,
    Limit,
    RequestVector,
    charge,
    fits,
    fits_one_more,
    leaf_to_root,
    refund,
    try_charge,
)
from ugm.decision import Violation, exceeded
from ugm.errors import ReleaseError, RequestError
from ugm.identity import TrackingType, UserGroup, ancestors, is_below
from ugm.resources import MEMORY, VCORE, Resource, sum_of
from ugm.tracking.limits import ActiveLimits, Epoch, Level, ManualLimits


def with_siblings(holding: Holding | None) -> Iterator[Holding]:
    """Yield a holding and all holdings behind it."""
    while holding is not None:
        yield holding
        holding = holding.sibling


def all_holdings(index: Mapping[str, Holding]) -> Iterator[Holding]:
    """Yield all holdings of an index."""
    for first in index.values():
        yield from with_siblings(first)


def link(index: dict[str, Holding], holding: Holding) -> None:
    """Add a holding to an index, behind the others of its application."""
    last = index.setdefault(holding.application_id, holding)
    while last is not holding:
        if last.sibling is None:
            last.sibling = holding
        last = last.sibling


def relink(index: dict[str, Holding], holding: Holding) -> None:
    """Undo `unlink`: add a holding as the first of its application, if it is not in the index."""
    first = index.get(holding.application_id)
    if holding not in with_siblings(first):
        # Its link to the next holding is intact. Behind the others, it would close a circle.
        holding.sibling = first
        index[holding.application_id] = holding


def unlink(index: dict[str, Holding], holding: Holding) -> None:
    """Remove a holding from an index, if it is listed there."""
    first = index.get(holding.application_id)
    if first is not holding:
        for other in with_siblings(first):
            if other.sibling is holding:
                other.sibling = holding.sibling
    elif holding.sibling is None:
        del index[holding.application_id]
    else:
        index[holding.application_id] = holding.sibling


#: Looking up a member of an enumeration costs more than comparing with it.
_USER: Final = TrackingType.USER


@final
class OwnerUsageTree:
    """The holdings of one user or group, with the counters of its limits.

    Args:
        name: the user or group.
        kind: which of the two.
        active_limits: the limits, shared by all trees of a partition.
    """

    __slots__ = ("_epoch", "_manual", "active_limits", "counters", "group_choices", "holdings", "kind", "name")

    name: str
    kind: TrackingType
    active_limits: ActiveLimits
    #: Application to its first holding.
    holdings: dict[str, Holding]
    #: Canonical queue path to counter. Invariant: a counter exists exactly where a limit applies and something runs.
    counters: dict[str, Counter]
    #: The groups chosen for applications of a user, until they end. The holdings of a running one have its group.
    group_choices: dict[str, Self | None]
    #: The epoch of `counters`.
    _epoch: Epoch
    #: The limits set by hand; None if there are none. They may have expired.
    _manual: ManualLimits | None

    def __init__(self, name: str, kind: TrackingType, active_limits: ActiveLimits) -> None:
        self.name = name
        self.kind = kind
        self.active_limits = active_limits
        self.holdings = {}
        self.counters = {}
        self.group_choices = {}
        self._epoch = active_limits.epoch
        self._manual = None

    # Queries

    def total(self) -> Resource:
        """Return the usage in all queues together, without zeros. The time depends on the number of applications."""
        return sum_of(holding.held() for holding in all_holdings(self.holdings))

    def find(self, application_id: str, queue_path: str) -> Holding | None:
        """Return the holding of an application in a queue."""
        for holding in with_siblings(self.holdings.get(application_id)):
            if holding.queue_path == queue_path:
                return holding
        return None

    def chain(self, queue_path: str) -> list[Counter]:
        """Return the counters of all limits from a queue to the root, leaf to root.

        Where nothing runs below a limit yet, the counter is new and not part of the tree.
        """
        self.refresh()
        chain = []
        for level in self._levels_from(queue_path):
            counter = self.counters.get(level.queue_path)
            if counter is None:
                limit = level.limit_for(self.name)
                if limit is None:
                    continue
                counter = Counter(self, level.queue_path, limit, self._epoch.layout)
            chain.append(counter)
        return chain

    def _levels_from(self, queue_path: str) -> Sequence[Level]:
        """Return the levels from a queue to the root, leaf to root, with limits set by hand in place of others."""
        limits = self.active_limits.limits
        levels = (limits.users if self.kind is _USER else limits.groups).levels_from(queue_path)
        if self._manual is None:
            return levels
        by_path = {level.queue_path: level for level in levels} | self._manual.levels
        return [by_path[path] for path in ancestors(queue_path) if path in by_path]

    # Counters

    def refresh(self) -> None:
        """Bring the counters up to date with the limits in force."""
        if self._epoch is not self.active_limits.epoch:
            self._recount()

    def sorted_counters(self) -> list[Counter]:
        """Return all counters, up to date, leaf to root."""
        self.refresh()
        return leaf_to_root(self.counters.values())

    def _recount(self) -> None:
        epoch = self.active_limits.epoch
        if self._manual is not None and self._manual.revision is not self.active_limits.limits.revision:
            self._manual = None
        # Under another layout the counters count other resources, so that all of them have to be summed up.
        old = self.counters if self._epoch.layout is epoch.layout else {}
        new: dict[str, Counter] = {}
        self.counters = {}
        for path, limit in self._needed_limits().items():
            counter = old.get(path)
            if counter is None:
                new[path] = counter = Counter(self, path, limit, epoch.layout)
            else:
                counter.replace_limit(limit)
            self.counters[path] = counter
        self._epoch = epoch
        if new:
            self._sum_up(new)

    def _needed_limits(self) -> dict[str, Limit]:
        """Return the limit of every limited queue in or below which something runs."""
        paths = dict.fromkeys(holding.queue_path for holding in all_holdings(self.holdings))
        levels = (level for path in paths for level in self._levels_from(path))
        limits = {level.queue_path: level.limit_for(self.name) for level in levels}
        return {path: limit for path, limit in limits.items() if limit is not None}

    def _sum_up(self, counters: Mapping[str, Counter]) -> None:
        """Charge all holdings to *counters*, which are new."""
        for first in self.holdings.values():
            counted: set[str] = set()
            for holding in with_siblings(first):
                vector = self._epoch.layout.vector(Resource(holding.held()))
                for path in ancestors(holding.queue_path):
                    counter = counters.get(path)
                    if counter is not None:
                        charge([counter], vector)
                        if path not in counted:
                            counted.add(path)
                            counter.running += 1

    def set_limit(self, queue_path: str, change: Callable[[Limit], Limit]) -> None:
        """Set a limit by hand until the next configuration is applied.

        Raises:
            RequestError: nothing runs in or below the queue.
        """
        if not any(is_below(holding.queue_path, queue_path) for holding in all_holdings(self.holdings)):
            reason = f"{self.kind} {self.name!r} runs nothing in or below the queue, so there is no usage to limit"
            raise RequestError("queue_path", queue_path, reason, "state-conflict")
        self.refresh()
        counter = self.counters.get(queue_path)
        if self._manual is None or self._manual.revision is not self.active_limits.limits.revision:
            self._manual = ManualLimits(self.active_limits.limits.revision, {})
        limit = change(counter.limit if counter else Limit(Resource()))
        self.active_limits.count_resources(limit.resources)
        named = {self.name: limit} if limit.resources or limit.applications else {}
        self._manual.levels[queue_path] = Level(queue_path, named, None)
        self._recount()
        for holding in all_holdings(self.holdings):
            holding.invalidate()

    def recounted(self) -> dict[str, Counter]:
        """Return the counters that follow from the holdings, summed up again; the own ones are brought up to date."""
        self.refresh()
        again = OwnerUsageTree(self.name, self.kind, self.active_limits)
        again.holdings, again._manual = self.holdings, self._manual
        again._recount()
        return again.counters

    # The groups of a user's applications

    def has_group_choice(self, application_id: str) -> bool:
        """Return whether a group, or no group, has been chosen for an application."""
        return application_id in self.holdings or application_id in self.group_choices

    def choose_group(self, application_id: str, group: Self | None) -> None:
        """Choose the group that an application will be charged to; the first choice counts."""
        if not self.has_group_choice(application_id):
            self.group_choices[application_id] = group

    def drop_group_choice(self, application_id: str) -> None:
        """Remove the choice for an application that is about to end, if it runs in one queue only."""
        if self.holdings[application_id].sibling is None:
            self.group_choices.pop(application_id, None)


#: ``vcore``, ``memory`` and the extended resources by name (None for none). One value, so that one assignment changes
#: all of it. The garbage collector does not track a tuple of plain numbers.
Amounts: TypeAlias = tuple[int, int, Mapping[str, int] | None]
_NO_AMOUNTS: Final[Amounts] = (0, 0, None)


class QueueChain(Protocol):
    """A queue, with the limits that apply to all users together."""

    @property
    def chain(self) -> Sequence[Counter]:
        """The counters of the queue and of the queues above it, leaf to root."""


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
    owner: OwnerUsageTree
    group: OwnerUsageTree | None = None
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

    @property
    def trees(self) -> Sequence[OwnerUsageTree]:
        """The trees that list the holding: those of the user and of the group."""
        return (self.owner,) if self.group is None else (self.owner, self.group)

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
            return () if fits(self.checked, vector) else exceeded(self.checked, vector)
        chain = self.chain()
        return exceeded(self.enforced(chain), vector, self.newly_counted(chain))

    def violations_of_start(self, usage: Resource) -> tuple[Violation, ...]:
        """Return every limit that a usage of a detached holding would exceed. The counters may have several layouts."""
        chain = self.chain()
        starting = self.newly_counted(chain)
        return tuple(
            violation
            for counter in self.enforced(chain)
            for violation in exceeded((counter,), require_vector("usage", usage, counter.layout), starting)
        )

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
        if self.try_charge(vector):
            return ()
        violations = exceeded(self.checked, vector)
        if not violations:
            # The amount exceeds `ugm.counters.UNLIMITED`, and the resource is not limited.
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
        for tree in self.trees:
            link(tree.holdings, self)

    def detach(self) -> None:
        """End the application in this queue. The holding is up to date, and everything has been refunded."""
        for counter in self.newly_counted(self.charged):
            counter.running -= 1
            if not counter.running:
                del counter.owner.counters[counter.queue_path]
        for tree in self.trees:
            unlink(tree.holdings, self)
        self.epoch = DETACHED

    # Putting back after an interruption. The counters are rebuilt after that.

    def undo_attach(self) -> None:
        """Undo that the holding was attached, or is about to be."""
        for tree in self.trees:
            unlink(tree.holdings, self)
        self.epoch = DETACHED

    def undo_detach(self, amounts: Amounts) -> None:
        """Undo that the holding was detached, or is about to be."""
        self.amounts = amounts
        for tree in self.trees:
            relink(tree.holdings, self)
        self.invalidate()


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
