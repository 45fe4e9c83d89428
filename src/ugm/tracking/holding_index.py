"""All holdings of a partition, by application, with the usage trees of their users and groups.

The index finds the holding of an application in a queue, creates the trees that a new application needs, and removes
trees whose last application has ended. It takes no lock; a `ugm.Manager` or a partition does. `BatchCharge` charges
several requests as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, final

from ugm.arguments import require_user
from ugm.counters import Counter, Owner, RequestVector
from ugm.decision import Violation, already_exceeded, exceeded
from ugm.errors import NotTrackedError, RequestError
from ugm.identity import TrackingType, UserGroup, require_name
from ugm.resources import Resource
from ugm.tracking.holding import DETACHED, Holding, OwnerUsageTree, all_holdings, link, unlink
from ugm.tracking.limits import ActiveLimits


@final
class HoldingIndex:
    """All holdings of a partition.

    Invariant: a tree is listed exactly while something is charged to it.
    """

    #: Application to its first holding. The holdings are the same objects as in the trees.
    holdings: dict[str, Holding]
    users: dict[str, OwnerUsageTree]
    groups: dict[str, OwnerUsageTree]

    def __init__(self, active_limits: ActiveLimits) -> None:
        self._active_limits: Final = active_limits
        self.holdings = {}
        self.users = {}
        self.groups = {}

    # Queries

    def find(self, queue_path: str, application_id: str, user: UserGroup) -> Holding:
        """Return the holding of an application in a queue, up to date, or a detached one if it holds nothing there.

        Raises:
            RequestError: an argument is empty, not well formed or of the wrong type, or the application belongs to
                another user.
        """
        if type(application_id) is str is type(queue_path):
            # The usual case: the same queue and the same object for the user as in the last call.
            known = self.holdings.get(application_id)
            if (
                known is not None
                and known.user is user
                and known.queue_path == queue_path
                and known.epoch is self._active_limits.epoch
            ):
                return known
        path, application_id = self._active_limits.path(queue_path), require_name("application_id", application_id)
        first = self.holdings.get(application_id)
        if first is None:
            return self.detached(path, application_id, require_user(user))
        if first.owner.name != require_user(user).name:
            reason = f"application {application_id!r} belongs to user {first.owner.name!r}"
            raise RequestError("user", user.name, reason, "id-in-use")
        holding: Holding | None = first
        while holding is not None:
            if holding.queue_path == path:
                holding.user = user
                holding.refresh()
                return holding
            holding = holding.sibling
        return Holding(application_id, path, first.owner, first.group, user)

    def find_for_query(self, queue_path: str, application_id: str, user: UserGroup) -> Holding:
        """Return the same as `find`, but treat an application of another user as one that has not started."""
        application_id = require_name("application_id", application_id)
        first = self.holdings.get(application_id)
        if first is not None and first.owner.name != require_user(user).name:
            return self.detached(self._active_limits.path(queue_path), application_id, user)
        return self.find(queue_path, application_id, user)

    def require_held(self, queue_path: str, application_id: str, user: UserGroup) -> Holding:
        """Return the holding of an application in a queue.

        Raises:
            RequestError: as for `find`.
            NotTrackedError: the application holds nothing there.
        """
        holding = self.find(queue_path, application_id, user)
        if holding.epoch is DETACHED:
            if user.name not in self.users:
                reason = "the user is not tracked"
            elif application_id not in self.holdings:
                reason = "the application is not tracked"
            else:
                reason = "the application holds nothing in that queue"
            raise NotTrackedError(application_id, holding.queue_path, user.name, reason)
        return holding

    def detached(self, queue_path: str, application_id: str, user: UserGroup) -> Holding:
        """Return a detached holding of an application that is not tracked, in the group that the limits select."""
        owner = self.users.get(user.name)
        if owner is not None and application_id in owner.group_choices:
            chosen = owner.group_choices[application_id]
            name = None if chosen is None else chosen.name
        else:
            name = self._active_limits.limits.groups.select_group(queue_path, user.groups)
        return self.detached_in_group(queue_path, application_id, user, name)

    def detached_in_group(self, queue_path: str, application_id: str, user: UserGroup, name: str | None) -> Holding:
        """Return a detached holding of an application that is not tracked, in a given group or in none."""
        owner = self.users.get(user.name) or OwnerUsageTree(user.name, TrackingType.USER, self._active_limits)
        group = None
        if name is not None:
            group = self.groups.get(name) or OwnerUsageTree(name, TrackingType.GROUP, self._active_limits)
        return Holding(application_id, queue_path, owner, group, user)

    def trees(self) -> Iterator[OwnerUsageTree]:
        """Yield the tree of every user, then of every group, sorted by name."""
        for name in sorted(self.users):
            yield self.users[name]
        for name in sorted(self.groups):
            yield self.groups[name]

    # Changes

    def charge(self, holding: Holding, vector: RequestVector) -> None:
        """Charge a holding without checking, and add it if it was detached."""
        is_new = holding.epoch is DETACHED
        holding.charge(vector)
        if is_new:
            self.add(holding)

    def add(self, holding: Holding) -> None:
        """List a holding that has been attached, and its trees."""
        link(self.holdings, holding)
        owner, group = holding.owner, holding.group
        self.users.setdefault(owner.name, owner)
        if group is not None:
            self.groups.setdefault(group.name, group)

    def end(self, holding: Holding, vector: RequestVector | None = None) -> None:
        """End an application in the queue of a holding, and refund *vector*, which is everything that it holds."""
        # First: the application has ended from here on, and everything else follows from that.
        unlink(self.holdings, holding)
        if vector is not None:
            holding.try_refund(vector)
        holding.detach()
        if not holding.owner.holdings:
            del self.users[holding.owner.name]
        if holding.group is not None and not holding.group.holdings:
            del self.groups[holding.group.name]

    def clear(self) -> None:
        """Remove everything, before running applications are added again."""
        self.holdings.clear()
        self.users.clear()
        self.groups.clear()

    def rebuild(self) -> None:
        """List everything that follows from `holdings` again. Counters are summed up on their next use."""
        for tree in {*self.trees(), *(tree for one in all_holdings(self.holdings) for tree in one.trees)}:
            tree.holdings = {}
        self.users.clear()
        self.groups.clear()
        for holding in all_holdings(self.holdings):
            holding.invalidate()
            for tree in holding.trees:
                tree.holdings.setdefault(holding.application_id, self.holdings[holding.application_id])
                (self.users if tree is holding.owner else self.groups)[tree.name] = tree


#: The order in which violations are reported.
_ORDER: Final = (TrackingType.USER, TrackingType.GROUP, TrackingType.QUEUE)
#: The requested amounts by resource name; None counts the applications.
_Requested: TypeAlias = dict[str | None, int]
#: A limit: kind, name, queue path and resource.
_LimitKey: TypeAlias = tuple[str, str, str, str | None]


@final
@dataclass(slots=True, eq=False)
class BatchCharge:
    """The charges of a batch of requests, and the limits that it exceeds.

    Every request is charged without a check, so that later requests see the applications, groups and counters of
    those before it. The lock of the partition hides these charges. If a limit is exceeded, they are taken back in
    reverse order, which leaves no trace.
    """

    _index: HoldingIndex
    #: The changes of the current operation; None if the holdings follow from other facts, which are listed there.
    changes: list[Any] | None = None
    #: Owner and queue path to what the batch requests there.
    _requested: dict[tuple[Owner, str], _Requested] = field(default_factory=dict, init=False)
    #: Owner and queue path to the users and applications of the batch there, also those that run already.
    _applications: dict[tuple[Owner, str], set[tuple[str, str]]] = field(default_factory=dict, init=False)
    #: The charges, and whether each of them started the application in its queue.
    _charged: list[tuple[Holding, RequestVector, bool]] = field(default_factory=list, init=False)
    #: The limits that denied one of the requests after those before it had been charged.
    _short: set[_LimitKey] = field(default_factory=set, init=False)

    def charge(self, holding: Holding, usage: Resource, vector: RequestVector) -> None:
        """Charge one more request, and note what it requests and which limits are short."""
        is_new = holding.epoch is DETACHED
        self._short.update(_key(violation) for violation in holding.violations(vector))
        chain = holding.chain()
        starting = holding.newly_counted(chain) if is_new else ()
        application = holding.owner.name, holding.application_id
        for counter in chain:
            place = counter.owner, counter.queue_path
            requested = self._requested.setdefault(place, {})
            self._applications.setdefault(place, set()).add(application)
            for name, amount in usage.amounts.items():
                requested[name] = requested.get(name, 0) + amount
            if counter in starting:
                requested[None] = requested.get(None, 0) + 1
        if self.changes is not None:
            self.changes.append((setattr, holding, "amounts", holding.amounts))
            if is_new:
                self.changes.append((unlink, self._index.holdings, holding))
        self._index.charge(holding, vector)
        self._charged.append((holding, vector, is_new))

    def exceeded(self) -> tuple[Violation, ...]:
        """Return every limit that was short, with the total that the batch requests there."""
        return tuple(
            violation
            for (owner, path), requested in self._in_order()
            for violation in _batch_violations(owner.counters[path], requested, len(self._applications[owner, path]))
            if _key(violation) in self._short
        )

    def _in_order(self) -> list[tuple[tuple[Owner, str], _Requested]]:
        """Return the requested amounts of users, then groups, then queues, each in order of arrival and leaf to root.

        A user or group has counters in many queues, and is sorted by its first one. Each queue has one counter, so all
        queues are sorted by depth.
        """
        first = {
            owner: 0 if owner.kind is TrackingType.QUEUE else position
            for position, (owner, _) in enumerate(self._requested)
        }
        return sorted(
            self._requested.items(),
            key=lambda item: (_ORDER.index(item[0][0].kind), first[item[0][0]], -item[0][1].count(".")),
        )

    def roll_back(self) -> None:
        """Undo all charges."""
        for holding, vector, is_new in reversed(self._charged):
            holding.try_refund(vector)
            if is_new:
                self._index.end(holding)


def _batch_violations(counter: Counter, requested: Mapping[str | None, int], applications: int) -> Iterator[Violation]:
    """Yield the exceeded limits of a counter, to which the batch has been charged, with the requested totals.

    If the limit never allows all applications of the batch, those that run already count as requested.
    """
    for violation in already_exceeded(counter):
        more = requested.get(violation.resource, 0)
        if violation.resource is None and applications > violation.limit:
            more = applications
        yield violation._replace(used=violation.used - more, requested=more)
    if counter.limit.closed:
        counted = counter.limited_resources()
        unavailable = {name: amount for name, amount in requested.items() if name is not None and name not in counted}
        # A resource that is not counted never shows up as exceeded.
        yield from exceeded((counter,), counter.layout.vector(Resource(unavailable)))


def _key(violation: Violation) -> _LimitKey:
    return violation.kind, violation.name, violation.queue_path, violation.resource
