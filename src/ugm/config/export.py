"""Export of a configuration to Apache YuniKorn, without the extensions of ugm and the parts that need them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from ugm._documents.loader import format_path
from ugm.config.located import is_yunikorn_name
from ugm.configuration import (
    Extensions,
    LimitConfig,
    LimitExtensions,
    PartitionConfig,
    PlacementRule,
    QueueConfig,
    SchedulerConfig,
)
from ugm.configuration.fields import field_shapes, setting_texts
from ugm.configuration.scheduler import Path
from ugm.errors import RequestError, quote
from ugm.identity import WILDCARD
from ugm.queues.placement import is_pattern
from ugm.resources import Resource

#: The maximum of an entry that must stay although it limits nothing in Apache YuniKorn. No request names the resource.
#: An entry without a maximum would be refused.
_PLACEHOLDER: Final = Resource({"ugm/placeholder": 1})
#: The characters that have a meaning in a regular expression.
_SIGNS: Final = re.compile(r"([\\.^$*+?()\[\]{}|])")


class LeftOut(NamedTuple):
    """A part of a configuration that Apache YuniKorn does not accept."""

    #: Its path in the original configuration, for example ``partitions[0].limits[2].users[0]``.
    path: str
    #: The human-readable message.
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class Exported(NamedTuple):
    """A configuration for Apache YuniKorn, and the parts that were left out."""

    config: SchedulerConfig
    left_out: tuple[LeftOut, ...]


def export_config(config: SchedulerConfig) -> Exported:
    """Return a configuration without the parts that Apache YuniKorn does not accept, and a list of these parts.

    Raises:
        RequestError: the value is not a `SchedulerConfig`.

    >>> from ugm import parse_config
    >>> text = "partitions: [{ugm: {names: any}, queues: [], limits: [{users: [ana, 8-x], maxapplications: 2}]}]"
    >>> exported = export_config(parse_config(text))
    >>> exported.config.partition().limits[0].users
    ('ana',)
    >>> print(*exported.left_out, sep=chr(10))
    partitions[0].limits[0].users[1]: user '8-x' is left out: Apache YuniKorn does not accept the name
    """
    if not isinstance(config, SchedulerConfig):
        raise RequestError("config", type(config).__name__, "expected a SchedulerConfig")
    export = _Export()
    partitions = tuple(export.partition(each, ("partitions", at)) for at, each in enumerate(config.partitions))
    return Exported(replace(config, partitions=partitions), tuple(export.left_out))


class _Limited(NamedTuple):
    """The limits of a partition that may apply to a name in place of an entry that sets no maximum.

    Such an entry exempts a user from the wildcard of its queue, and the limits of the user from the comparison with the
    wildcards of all queues above. It charges the members of a group to this group, not to another one there or above.
    """

    #: Whether a limit contains the user wildcard.
    user_wildcard: bool
    #: Whether a limit contains a group.
    groups: bool

    @classmethod
    def of(cls, partition: PartitionConfig) -> _Limited:
        """Return the limits of a partition."""
        kept = [limit for _, queue in partition.root.walk() for limit in queue.limits if _sets_maximum(limit)]
        return cls(any(WILDCARD in limit.users for limit in kept), any(limit.groups for limit in kept))

    def names_that_matter(
        self, users: tuple[str, ...], groups: tuple[str, ...]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the users and groups of an entry without a maximum that must stay."""
        named = tuple(user for user in users if user != WILDCARD)
        return named if self.user_wildcard else (), groups if self.groups else ()


def _sets_maximum(limit: LimitConfig) -> bool:
    return bool(limit.max_resources or limit.max_applications)


#: The settings without an effect of their own.
_WITHOUT_EFFECT: Final = ("names", "quota_tree_rules")
#: What happens without a setting.
_INSTEAD: Final = {"resources": "other names are accepted", "families": "each variant is a resource of its own"}


class _Export:
    def __init__(self) -> None:
        self.left_out: Final[list[LeftOut]] = []

    def _leave_out(self, path: Path, message: str) -> None:
        self.left_out.append(LeftOut(format_path(path), message))

    def partition(self, partition: PartitionConfig, path: Path) -> PartitionConfig:
        limited = _Limited.of(partition)
        queues = partition.queues and self._queues(partition.queues, (*path, "queues"), limited)
        rules = tuple(_rule(rule) for rule in partition.placement_rules)
        ugm, at = partition.ugm, (*path, "ugm")
        for shape in field_shapes(Extensions):
            value = getattr(ugm, shape.name)
            if value != getattr(Extensions(), shape.name) and shape.name not in _WITHOUT_EFFECT:
                reason = _INSTEAD.get(shape.name, "Apache YuniKorn has nothing like it")
                self._leave_out((*at, shape.yaml_name), f"it is left out: {reason}")
        limits = self._limits(partition.limits, (*path, "limits"), limited)
        return replace(partition, queues=queues, limits=limits, placement_rules=rules, ugm=Extensions())

    def _queues(self, queues: Sequence[QueueConfig], path: Path, limited: _Limited) -> tuple[QueueConfig, ...]:
        return tuple(self._queue(queue, (*path, index), limited) for index, queue in enumerate(queues))

    def _queue(self, queue: QueueConfig, path: Path, limited: _Limited) -> QueueConfig:
        queues = self._queues(queue.queues, (*path, "queues"), limited)
        limits = self._limits(queue.limits, (*path, "limits"), limited)
        return replace(queue, queues=queues, limits=limits, ugm=self._extensions(queue.ugm, path))

    def _extensions(self, extensions: LimitExtensions, path: Path) -> LimitExtensions:
        if setting_texts(extensions, "schedule", "prefer"):
            self._leave_out((*path, "ugm"), "the limits on pending work are left out")
        if extensions.schedule:
            self._leave_out((*path, "ugm", "schedule"), "the schedule is left out; the other limits always apply")
        return LimitExtensions()

    def _limits(self, limits: Sequence[LimitConfig], path: Path, limited: _Limited) -> tuple[LimitConfig, ...]:
        exported: list[LimitConfig] = []
        named_group = False
        for index, limit in enumerate(limits):
            at = (*path, index)
            users = self._names("user", limit.users, (*at, "users"))
            groups = self._names("group", limit.groups, (*at, "groups"))
            extensions = self._extensions(limit.ugm, at)
            maximum = limit.max_resources
            if not _sets_maximum(limit):
                users, groups = limited.names_that_matter(users, groups)
                maximum = _PLACEHOLDER
            named_group = named_group or bool(set(groups) - {WILDCARD})
            if WILDCARD in groups and not named_group:
                self._leave_out((*at, "groups"), "the group wildcard is left out: no group with a limit precedes it")
                groups = ()
            if (users or groups) and maximum is _PLACEHOLDER:
                self._leave_out(at, "the entry limits nothing, but stays: without it, other limits would apply")
            if users or groups:
                exported.append(replace(limit, users=users, groups=groups, max_resources=maximum, ugm=extensions))
        return tuple(exported)

    def _names(self, kind: str, names: Sequence[str], path: Path) -> tuple[str, ...]:
        kept = []
        for index, name in enumerate(names):
            if name == WILDCARD or is_yunikorn_name(kind, name):
                kept.append(name)
            else:
                self._leave_out(
                    (*path, index), f"{kind} {quote(name)} is left out: Apache YuniKorn does not accept the name"
                )
        return tuple(kept)


def _rule(rule: PlacementRule) -> PlacementRule:
    users, groups = _filter_names("user", rule.filter.users), _filter_names("group", rule.filter.groups)
    exported = replace(rule.filter, users=users, groups=groups)
    return replace(rule, filter=exported, parent=rule.parent and _rule(rule.parent))


def _filter_names(kind: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Replace a single name that is not accepted by the pattern that matches only this name."""
    if len(names) != 1 or is_pattern(names) or is_yunikorn_name(kind, names[0]):
        return names
    return ("^" + _SIGNS.sub(r"\\\1", names[0]) + "$",)
