"""Placement rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from ugm._config_fields import ConfigValue

__all__ = ["FilterConfig", "PlacementRule"]


@final
@dataclass(frozen=True, slots=True)
class FilterConfig(ConfigValue):
    """The users and groups that a placement rule applies to."""

    #: ``allow``, ``deny`` or empty, which is ``allow``; case-insensitive.
    type: str = ""
    #: Several names; or one, which may be a regular expression.
    users: tuple[str, ...] = ()
    #: As `users`.
    groups: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class PlacementRule(ConfigValue):
    """A rule that finds the queue of an application."""

    #: ``provided``, ``user``, ``tag`` or ``fixed``; case-insensitive.
    name: str = ""
    #: True if a queue that does not exist is created.
    create: bool = field(default=False, kw_only=True)
    filter: FilterConfig = field(default=FilterConfig(), kw_only=True)
    #: The rule that finds the queue above.
    parent: PlacementRule | None = field(default=None, kw_only=True)
    #: The queue of a ``fixed`` rule, or the name of the tag of a ``tag`` rule; other rules have no value.
    value: str = field(default="", kw_only=True)
