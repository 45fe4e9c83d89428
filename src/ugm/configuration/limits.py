"""Limits of users, groups and pending work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from ugm._config_fields import ConfigValue
from ugm.resources import Resource

__all__ = ["LimitConfig", "LimitExtensions", "ScheduledLimit"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledLimit(ConfigValue):
    """An entry of a schedule: other maxima of a limit or queue at certain hours, days or dates.

    While the entry applies, each maximum that it sets replaces that of the limit or queue.
    """

    #: The days on which the hours begin, such as ``mon-fri`` or ``sat,sun``; empty for every day.
    days: str = ""
    #: A span of hours, such as ``08:00-18:00`` or ``22:00-06:00``; empty for the whole day.
    hours: str = ""
    #: The date from which it applies, such as ``2026-12-24`` or ``2026-12-24T18:00``; empty for no such date.
    start: str = field(default="", metadata={"yaml": "from"})
    #: The date from which it applies no more; empty for no such date.
    until: str = ""
    #: The time zone of all of these.
    zone: str = "UTC"
    #: None for no change.
    max_resources: Resource | None = None
    #: 0 for no change.
    max_applications: int = 0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LimitExtensions(ConfigValue):
    """The settings of a limit or queue that Apache YuniKorn does not have, under its key ``ugm``.

    They limit pending work, which counts for no other limit, and change maxima by a schedule.
    """

    #: The maximum number of pending requests; 0 means unlimited.
    max_pending: int = 0
    #: The maximum sum of the amounts of pending requests. None means unlimited; so does a missing resource.
    max_pending_resources: Resource | None = None
    #: The maximum number of applications from their submission to their end, waiting or running; 0 means unlimited.
    max_submitted: int = 0
    #: The first entry that applies at a time counts.
    schedule: tuple[ScheduledLimit, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class LimitConfig(ConfigValue):
    """The limit of each of the named users, and of each of the named groups, in a queue.

    The limit is not a sum over the names: each of them may use that much. The wildcard ``*`` stands for every user,
    each for itself, or for all groups together, that no entry before it names.
    """

    #: A human-readable description; nothing depends on it.
    label: str = field(default="", kw_only=True, metadata={"yaml": "limit"})
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    #: None means unlimited; so does a missing resource.
    max_resources: Resource | None = None
    #: 0 means unlimited.
    max_applications: int = 0
    ugm: LimitExtensions = field(default=LimitExtensions(), kw_only=True)
