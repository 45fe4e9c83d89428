"""All holdings of a partition, by application, with the usage trees of their users and groups.

The index finds the holding of an application in a queue, creates the trees that a new application needs, and removes
trees whose last application has ended. It decides nothing about limits and takes no lock; a `ugm.Manager` or a
partition does both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from ugm.arguments import require_application_id, require_user
from ugm.counters import RequestVector
from ugm.errors import NotTrackedError, RequestError
from ugm.identity import TrackingType, UserGroup
from ugm.tracking.holding import DETACHED, Holding, HoldingTree
from ugm.tracking.holding_links import all_holdings, link, unlink, with_siblings
from ugm.tracking.limit_epochs import ActiveLimits
from ugm.tracking.owner_usage_tree import OwnerUsageTree

__all__ = ["HoldingIndex"]


@final
class HoldingIndex:
    """All holdings of a partition.

    Invariant: a tree is listed exactly while something is charged to it.
    """

    __slots__ = ("_active_limits", "groups", "holdings", "users")

    #: Application to its first holding. The holdings are the same objects as in the trees.
    holdings: dict[str, Holding]
    users: dict[str, HoldingTree]
    groups: dict[str, HoldingTree]

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
        path, application_id = self._active_limits.path(queue_path), require_application_id(application_id)
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
        application_id = require_application_id(application_id)
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
        owner = self.users.get(user.name) or OwnerUsageTree(user.name, TrackingType.USER, self._active_limits)
        if owner.group_choices is not None and owner.has_group_choice(application_id):
            chosen = owner.group_choices.get(application_id)
            name = None if chosen is None else chosen.name
        else:
            name = self._active_limits.limits.groups.select_group(queue_path, user.groups)
        group = (
            None
            if name is None
            else self.groups.get(name) or OwnerUsageTree(name, TrackingType.GROUP, self._active_limits)
        )
        return Holding(application_id, queue_path, owner, group, user)

    def detached_in_group(self, queue_path: str, application_id: str, user: UserGroup, name: str | None) -> Holding:
        """Return a detached holding of an application that is not tracked, in a given group or in none."""
        owner = self.users.get(user.name) or OwnerUsageTree(user.name, TrackingType.USER, self._active_limits)
        group = (
            None
            if name is None
            else self.groups.get(name) or OwnerUsageTree(name, TrackingType.GROUP, self._active_limits)
        )
        return Holding(application_id, queue_path, owner, group, user)

    def trees(self) -> Iterator[HoldingTree]:
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
        if self.users.setdefault(owner.name, owner).group_choices is not None:
            owner.drop_group_choice(holding.application_id)
        if group is not None:
            self.groups.setdefault(group.name, group)

    def undo_add(self, holding: Holding) -> None:
        """Undo that a holding was added, or is about to be. Indexes and counters are rebuilt after it."""
        if holding in with_siblings(self.holdings.get(holding.application_id)):
            unlink(self.holdings, holding)

    def end(self, holding: Holding) -> None:
        """End an application in the queue of a holding from which everything has been refunded."""
        holding.detach()
        unlink(self.holdings, holding)
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
        for listed in (*self.users.values(), *self.groups.values()):
            listed.clear()
        for holding in all_holdings(self.holdings):
            holding.owner.clear()
            if holding.group is not None:
                holding.group.clear()
        users: dict[str, HoldingTree] = {}
        groups: dict[str, HoldingTree] = {}
        for holding in all_holdings(self.holdings):
            holding.invalidate()
            for tree, listing in ((holding.owner, users), (holding.group, groups)):
                if tree is not None:
                    tree.holdings.setdefault(holding.application_id, self.holdings[holding.application_id])
                    listing[tree.name] = tree
        for user in users.values():
            user.drop_stale_group_choices()
        # Last: if the rebuild is interrupted, the next one must still find all trees that a program may hold.
        _replace(self.users, users)
        _replace(self.groups, groups)


def _replace(listing: dict[str, HoldingTree], items: dict[str, HoldingTree]) -> None:
    """Make a listing equal to *items* without removing one of them in between."""
    listing.update(items)
    for name in [name for name in listing if name not in items]:
        del listing[name]
