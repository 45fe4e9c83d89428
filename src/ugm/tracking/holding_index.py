"""Who holds what: every application of a partition, with the trackers of its user and of its group.

The ledger finds what an application holds, makes the trackers that a new application needs, and drops those whose last
application has ended. It decides nothing about limits and takes no lock; a `ugm.Manager` does both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar, final

from ugm.arguments import require_application_id, require_user
from ugm.errors import NotTrackedError, RequestError
from ugm.hierarchy import RequestVector
from ugm.identity import TrackingType, UserGroup
from ugm.tracking.group_tracker import GroupTracker
from ugm.tracking.holding import DETACHED, Holding
from ugm.tracking.limits import LimitsInForce
from ugm.tracking.links import all_holdings, link, unlink, with_siblings
from ugm.tracking.queue_tracker import QueueTracker
from ugm.tracking.user_tracker import UserTracker

__all__ = ["HoldingIndex"]

T = TypeVar("T")


@final
class HoldingIndex:
    """All holdings of a partition.

    Invariant: a tracker is listed exactly while something is charged to it.
    """

    __slots__ = ("_in_force", "groups", "holdings", "users")

    #: Every application, to what it holds; the same holdings that the trackers list.
    holdings: dict[str, Holding]
    users: dict[str, UserTracker]
    groups: dict[str, GroupTracker]

    def __init__(self, in_force: LimitsInForce) -> None:
        self._in_force: Final = in_force
        self.holdings = {}
        self.users = {}
        self.groups = {}

    def find(self, queue_path: str, application_id: str, user: UserGroup) -> Holding:
        """Return what an application holds in a queue, in line with the limits in force.

        If it holds nothing there, the answer is a detached holding, which nothing knows of.

        Raises:
            RequestError: an argument is empty, not well formed or of the wrong kind, or the application belongs to
                another user.
        """
        path = self._in_force.path(queue_path)
        first = self.holdings.get(require_application_id(application_id))
        if first is None:
            return self.detached(path, application_id, require_user(user))
        if first.owner.name != require_user(user).name:
            reason = f"application {application_id!r} belongs to user {first.owner.name!r}"
            raise RequestError("user", user.name, reason)
        holding: Holding | None = first
        while holding is not None:
            if holding.queue_path == path:
                holding.user = user
                holding.refresh()
                return holding
            holding = holding.sibling
        return Holding(application_id, path, first.owner, first.group, user)

    def find_for_query(self, queue_path: str, application_id: str, user: UserGroup) -> Holding:
        """Return what `find` does, for somebody who only asks.

        Who asks about the application of another user is told how an application of that name would fare.
        """
        first = self.holdings.get(require_application_id(application_id))
        if first is not None and first.owner.name != require_user(user).name:
            return self.detached(self._in_force.path(queue_path), application_id, user)
        return self.find(queue_path, application_id, user)

    def require_held(self, queue_path: str, application_id: str, user: UserGroup) -> Holding:
        """Return what an application holds in a queue.

        Raises:
            RequestError: as for `find`.
            NotTrackedError: it holds nothing there.
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
        """Return a detached holding for an application that is not tracked, charged to the group that is chosen now."""
        tracker = self.users.get(user.name) or self._new_user(user.name)
        if tracker.choices is not None and tracker.has_chosen(application_id):
            chosen = tracker.chosen(application_id)
            name = None if chosen is None else chosen.name
        else:
            name = self._in_force.limits.groups.select(queue_path, user.groups)
        return self._detached(queue_path, application_id, user, tracker, name)

    def detached_in_group(self, queue_path: str, application_id: str, user: UserGroup, name: str | None) -> Holding:
        """Return a detached holding for an application that is not tracked, charged to a group that is known."""
        tracker = self.users.get(user.name) or self._new_user(user.name)
        return self._detached(queue_path, application_id, user, tracker, name)

    def _detached(
        self, queue_path: str, application_id: str, user: UserGroup, tracker: UserTracker, name: str | None
    ) -> Holding:
        group = None if name is None else self.groups.get(name) or self._new_group(name)
        return Holding(application_id, queue_path, tracker.queue, group and group.queue, user)

    def _new_user(self, name: str) -> UserTracker:
        return UserTracker.of(QueueTracker.of_checked_name(name, TrackingType.USER, self._in_force))

    def _new_group(self, name: str) -> GroupTracker:
        return GroupTracker.of(QueueTracker.of_checked_name(name, TrackingType.GROUP, self._in_force))

    def charge(self, holding: Holding, vector: RequestVector) -> None:
        """Charge a holding without checking, and list it if it was detached."""
        is_new = holding.epoch is DETACHED
        holding.charge(vector)
        if is_new:
            self.add(holding)

    def add(self, holding: Holding) -> None:
        """List a holding that has been attached, and its trackers."""
        link(self.holdings, holding)
        owner, group = holding.owner, holding.group
        tracker = self.users.get(owner.name)
        if tracker is None:
            self.users[owner.name] = UserTracker.of(owner)
        elif tracker.choices is not None:
            tracker.forget_choice(holding.application_id)
        if group is not None and group.name not in self.groups:
            self.groups[group.name] = GroupTracker.of(group)

    def end(self, holding: Holding) -> None:
        """End an application in the queue of a holding of which nothing is used any more."""
        holding.detach()
        unlink(self.holdings, holding)
        if not holding.owner.holdings:
            del self.users[holding.owner.name]
        if holding.group is not None and not holding.group.holdings:
            del self.groups[holding.group.name]

    def undo_add(self, holding: Holding) -> None:
        """Undo that a holding has been listed, or is about to be; indexes and counters are rebuilt."""
        if holding in with_siblings(self.holdings.get(holding.application_id)):
            unlink(self.holdings, holding)

    def clear(self) -> None:
        """Forget everything; whatever runs is listed again."""
        self.holdings.clear()
        self.users.clear()
        self.groups.clear()

    def rebuild(self) -> None:
        """List everything that follows from `holdings` again; the counters are summed up when they are used next."""
        trackers = {**self.users, **self.groups}
        for tracker in trackers.values():
            tracker.queue.forget_counters()
        for holding in all_holdings(self.holdings):
            holding.owner.forget_counters()
            if holding.group is not None:
                holding.group.forget_counters()
        users: dict[str, UserTracker] = {}
        groups: dict[str, GroupTracker] = {}
        for holding in all_holdings(self.holdings):
            self._list_again(holding, users, groups)
        for user in users.values():
            user.forget_choices_made()
        # Only now: a rebuild that is interrupted must leave the trackers that a program may hold to the next one.
        _replace(self.users, users)
        _replace(self.groups, groups)

    def _list_again(self, holding: Holding, users: dict[str, UserTracker], groups: dict[str, GroupTracker]) -> None:
        owner, group = holding.owner, holding.group
        holding.invalidate()
        owner.holdings.setdefault(holding.application_id, self.holdings[holding.application_id])
        if owner.name not in users:
            # The same object as before, because a program may hold it.
            known = self.users.get(owner.name)
            users[owner.name] = known if known and known.queue is owner else UserTracker.of(owner)
        if group is not None:
            group.holdings.setdefault(holding.application_id, self.holdings[holding.application_id])
            if group.name not in groups:
                listed = self.groups.get(group.name)
                groups[group.name] = listed if listed and listed.queue is group else GroupTracker.of(group)

    def trackers(self) -> Iterator[QueueTracker]:
        """Yield what keeps the usage of every user, then of every group, sorted by name."""
        for name in sorted(self.users):
            yield self.users[name].queue
        for name in sorted(self.groups):
            yield self.groups[name].queue


def _replace(listing: dict[str, T], items: dict[str, T]) -> None:
    """Let a listing have exactly these items, without dropping one of them in between."""
    listing.update(items)
    for name in [name for name in listing if name not in items]:
        del listing[name]
