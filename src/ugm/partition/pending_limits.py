"""Limits on pending work, compiled: the maximum of pending requests and submitted applications.

No limit on running work counts a pending request, so a user could queue any number of them. An entry of the limits of
a queue may set under its key ``ugm`` the maximum number of pending requests, the maximum sum of their amounts, and the
maximum number of applications from their submission to their end, waiting or running. A queue may set the same for
itself.

The entry in force is the same as for running work. For a user it is the one that names the user, else the wildcard. The
wildcard counts each user separately. For the group that an application is charged to, it is the one that names the
group. An application that a wildcard selected is charged to the group ``*``. A queue counts everything in and below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Self, final

from ugm.configuration import LimitConfig, LimitExtensions, PartitionConfig
from ugm.decision import Violation
from ugm.identity import WILDCARD, TrackingType, ancestors
from ugm.resources import Resource, format_amount

__all__ = ["PENDING_KINDS", "SUBMITTED_KINDS", "AccountKey", "PendingLimits", "PendingMaximum", "PendingViolation"]

#: The kinds of limits on pending requests and on submitted applications, by the kind of the owner.
PENDING_KINDS: Final[Mapping[str, str]] = {kind: f"pending {kind}" for kind in TrackingType}
SUBMITTED_KINDS: Final[Mapping[str, str]] = {kind: f"submitted {kind}" for kind in TrackingType}


class PendingViolation(Violation):
    """A limit on pending work that a request or a submission would exceed, or that is exceeded already.

    `kind` is one of ``pending user``, ``pending group``, ``pending queue``, ``submitted user``, ``submitted group`` and
    ``submitted queue``. `resource` is None for the number of pending requests or submitted applications.
    """

    __slots__ = ()

    def _where(self) -> str:
        _, _, owner = self.kind.partition(" ")
        return f"{owner} {self.name}" if self.name == self.queue_path else f"{owner} {self.name!r} in {self.queue_path}"

    def _what(self) -> str:
        if self.resource is None:
            items = "applications submitted" if self.kind.startswith("submitted") else "requests pending"
            more = f", {self.requested} more requested" if self.requested else ""
            return f"{self.used} of {self.limit} {items}{more}"
        used, limit, requested, shortfall = (
            format_amount(self.resource, amount) for amount in (self.used, self.limit, self.requested, self.shortfall)
        )
        if not self.requested:
            return f"{used} of {limit} {self.resource} pending, {shortfall} too much"
        if not self.can_wait:
            return f"{requested} {self.resource} requested, never more than {limit} may be pending"
        return f"{requested} {self.resource} requested, {used} of {limit} pending, {shortfall} too much"


class PendingMaximum(NamedTuple):
    """The maximum of pending work that one entry of a configuration sets."""

    #: The entry, for example ``root.prod limits[2]``.
    place: str
    #: The name in the entry: a user, a group or the wildcard; empty for a queue.
    limit_name: str
    #: 0 if the number of requests is not limited.
    requests: int
    #: None if the amounts are not limited.
    resources: Resource | None
    #: 0 if the number of submitted applications is not limited.
    submitted: int


class AccountKey(NamedTuple):
    """The owner of a maximum, in one queue."""

    queue_path: str
    #: A `ugm.TrackingType`.
    kind: str
    name: str


class _Level(NamedTuple):
    """The maxima that one queue sets. Entries that limit no pending work have None."""

    users: Mapping[str, PendingMaximum | None]
    groups: Mapping[str, PendingMaximum | None]
    queue: PendingMaximum | None


@final
class PendingLimits:
    """All limits on pending work of one configuration.

    Args:
        levels: by queue path.
    """

    __slots__ = ("_levels",)

    def __init__(self, levels: Mapping[str, _Level]) -> None:
        self._levels: Final = levels

    @classmethod
    def compile(cls, config: PartitionConfig | None) -> Self | None:
        """Compile the limits of a configuration; None if it sets none."""
        if config is None:
            return None
        levels = {
            path: _Level(
                _named(path, ((entry.users, entry) for entry in queue.limits), queue.limits),
                _named(path, ((entry.groups, entry) for entry in queue.limits), queue.limits),
                _maximum(path, "", queue.ugm),
            )
            for path, queue in config.root.walk()
        }
        is_used = any(one for level in levels.values() for one in (*level.users.values(), *level.groups.values()))
        return cls(levels) if is_used or any(level.queue for level in levels.values()) else None

    def maxima(self, queue_path: str, user: str, group: str | None) -> Iterator[tuple[AccountKey, PendingMaximum]]:
        """Yield the maxima for an application: of the user, the group and the queues, each leaf to root."""
        levels = [(path, self._levels[path]) for path in ancestors(queue_path) if path in self._levels]
        for path, level in levels:
            maximum = level.users.get(user, level.users.get(WILDCARD))
            if maximum is not None:
                yield AccountKey(path, TrackingType.USER, user), maximum
        for path, level in levels:
            maximum = None if group is None else level.groups.get(group)
            if group is not None and maximum is not None:
                yield AccountKey(path, TrackingType.GROUP, group), maximum
        for path, level in levels:
            if level.queue is not None:
                yield AccountKey(path, TrackingType.QUEUE, path), level.queue

    def all_maxima(self) -> Iterator[tuple[str, TrackingType, str, PendingMaximum]]:
        """Yield every maximum with its queue, its kind of owner and its name in the configuration."""
        for path, level in self._levels.items():
            for kind, named in ((TrackingType.USER, level.users), (TrackingType.GROUP, level.groups)):
                for name, maximum in named.items():
                    if maximum is not None:
                        yield path, kind, name, maximum
            if level.queue is not None:
                yield path, TrackingType.QUEUE, path, level.queue


def _named(
    path: str, entries: Iterable[tuple[Iterable[str], LimitConfig]], limits: tuple[LimitConfig, ...]
) -> dict[str, PendingMaximum | None]:
    """Return the maximum of every name. The first of several entries for a name counts."""
    found: dict[str, PendingMaximum | None] = {}
    for index, (names, entry) in enumerate(entries):
        for name in names:
            found.setdefault(name, _maximum(f"{path} limits[{index}]", name, entry.ugm))
    return found if any(entry.ugm != LimitExtensions() for entry in limits) else {}


def _maximum(place: str, name: str, settings: LimitExtensions) -> PendingMaximum | None:
    resources = settings.max_pending_resources or None
    if not settings.max_pending and resources is None and not settings.max_submitted:
        return None
    return PendingMaximum(place, name, settings.max_pending, resources, settings.max_submitted)
