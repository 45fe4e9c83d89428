"""Thresholds: reports when the usage under a limit crosses configured shares of it.

The problem: an operator wants one message when a limit becomes nearly full, and not one for each allocation near it.

The idea: a watch compares snapshots. The engine does not take part, so operations cost the same with thresholds. A
limit that has reached a share stays above it until its usage has fallen by a hysteresis below the share.

The cost: an update takes a snapshot and examines every limit with usage. A crossing between two updates that has been
reverted at the second is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final, NamedTuple, TypeAlias, final

from ugm._json_values import JsonObject
from ugm.configuration import ThresholdConfig
from ugm.configuration.model_kinds import reported_uses
from ugm.errors import number_text
from ugm.identity import TrackingType
from ugm.model import BUDGET
from ugm.partition.interface import AbstractPartition
from ugm.resources import Resource, as_float, brief_amount, usage_texts

__all__ = ["ThresholdCrossed", "ThresholdWatch"]

_PERCENT: Final = 100


class _LimitKey(NamedTuple):
    """The identity of one limit on one resource."""

    kind: str
    place: str
    name: str
    scope: str
    #: Empty for the number of applications.
    resource: str


class _Use(NamedTuple):
    """The usage under a limit, and its maximum."""

    used: int | Fraction
    maximum: int | Fraction
    #: The thresholds that it is above, ascending.
    levels: tuple[int, ...] = ()

    @property
    def share(self) -> Fraction:
        """The used part; any usage under a maximum of 0 counts as all of it."""
        return Fraction(self.used) / self.maximum if self.maximum > 0 else Fraction(self.used > 0)


_Uses: TypeAlias = Iterator[tuple[_LimitKey, _Use]]


class ThresholdCrossed(NamedTuple):
    """The usage under a limit has reached a threshold, or has fallen below it."""

    #: ``user``, ``group``, ``queue``, ``budget``, ``elastic group`` or ``quota node``.
    kind: str
    #: The user, group, queue or node, or the owner of the account of a budget; ``*`` for groups that no limit names.
    name: str
    #: The queue that sets the limit, or the name of the budget or quota tree; empty for an elastic group.
    place: str
    #: None for the number of running applications.
    resource: str | None
    #: The threshold in percent of the limit.
    threshold: int
    #: True if the usage has reached the threshold, False if it has fallen below it by the hysteresis.
    rising: bool
    #: The usage at the update, and the limit: base units, applications, or amounts times seconds.
    used: int | Fraction
    limit: int | Fraction

    @property
    def share(self) -> Fraction:
        """The used part of the limit: 1 is all of it. Any usage under a limit of 0 counts as all of it."""
        return _Use(self.used, self.limit).share

    def to_dict(self) -> JsonObject:
        """Return the crossing for JSON: fractions as texts such as ``7/2``, and the share as a decimal number."""
        amounts = {"used": _plain(self.used), "limit": _plain(self.limit)}
        return {**self._asdict(), **amounts, "share": as_float(self.share)}

    def __str__(self) -> str:
        if self.kind == BUDGET and self.resource is not None:
            (used, limit), counted = usage_texts(self.resource, self.used, self.limit)
        else:
            used, limit = (brief_amount(self.resource, Fraction(amount)) for amount in (self.used, self.limit))
            counted = self.resource or "applications"
        crossed = "at or above" if self.rising else "below"
        return f"{self._where()}: {used} of {limit} {counted}, {crossed} {self.threshold} %"

    def _where(self) -> str:
        if self.kind == BUDGET:
            return f"budget {self.place!r} of {self.name!r}"
        if self.kind == TrackingType.QUEUE:
            return f"{self.kind} {self.name}"
        place = "" if not self.place else f" in {self.place}"
        return f"{self.kind} {self.name!r}{place}"


def _plain(amount: int | Fraction) -> int | str:
    return int(amount) if amount.denominator == 1 else number_text(amount)


@final
class ThresholdWatch:
    """Reports the crossings of the thresholds that the configuration of a partition declares.

    A program calls `update` regularly, one call at a time. `crossed` may be read from any thread. The watch starts
    without crossings, even after a restart, so the first update reports every limit above a threshold.

    Example:
        >>> from ugm import Partition, Resource, UserGroup, parse_config
        >>> thresholds = "{thresholds: {shares: [80, 95]}}"
        >>> queue = "{name: a, resources: {max: {memory: 10}}}"
        >>> partition = Partition(parse_config(f"partitions: [{{queues: [{queue}], ugm: {thresholds}}}]").partition())
        >>> watch = ThresholdWatch(partition)
        >>> _ = partition.submit("app", UserGroup("sue"), "root.a")
        >>> _ = partition.allocate("x", "app", Resource(memory=8))
        >>> print(*watch.update())
        queue root.a: 8 of 10 memory, at or above 80 %
        >>> watch.update()
        ()

    Args:
        partition: the partition: in memory, with a store, or that of a service.
    """

    __slots__ = ("_partition", "_thresholds", "_watched")

    #: The snapshot of the last update.
    _watched: Mapping[_LimitKey, _Use]
    _thresholds: ThresholdConfig

    def __init__(self, partition: AbstractPartition) -> None:
        self._partition: Final = partition
        self._watched = {}
        self._thresholds = ThresholdConfig()

    @property
    def shares(self) -> tuple[int, ...]:
        """The thresholds in percent at the last update, ascending; empty if the partition has none."""
        return tuple(sorted(self._thresholds.shares))

    @property
    def crossed(self) -> tuple[ThresholdCrossed, ...]:
        """The thresholds that usage is above, with the usage at the last update."""
        watched = self._watched
        return tuple(
            _crossing(key, level, use, rising=True) for key, use in sorted(watched.items()) for level in use.levels
        )

    def update(self) -> tuple[ThresholdCrossed, ...]:
        """Return the crossings since the last update, each threshold of each limit at most once.

        Usage reaches a threshold at exactly its share. It falls below it when the share is less than the threshold
        minus the hysteresis. A limit that has been removed, or whose owner uses nothing, counts as unused. Changed
        limits and thresholds apply from the next update on.

        Without thresholds, no snapshot is taken. Otherwise the time depends on the numbers of applications, queues,
        users, groups, accounts of budgets, elastic groups and nodes of quota trees.

        Raises:
            OutageError: the partition cannot be read now; the next update reports the crossings.
        """
        config, before = self._partition.config, self._watched
        thresholds = ThresholdConfig() if config is None else config.ugm.thresholds
        uses = dict(self._uses()) if thresholds.shares or before else {}
        events: list[ThresholdCrossed] = []
        after: dict[_LimitKey, _Use] = {}
        for key in sorted({**before, **uses}):
            old = before.get(key, _Use(0, 1))
            use = (
                uses[key]._replace(levels=_levels(thresholds, uses[key], old.levels))
                if key in uses
                else _Use(0, old[1])
            )
            if use.levels:
                after[key] = use
            # In the order in which usage meets them.
            events += [
                _crossing(key, level, use, rising=False) for level in old.levels[::-1] if level not in use.levels
            ]
            events += [_crossing(key, level, use, rising=True) for level in use.levels if level not in old.levels]
        self._thresholds, self._watched = thresholds, after
        return tuple(events)

    def _uses(self) -> _Uses:
        """Yield the usage under every limit."""
        snapshot = self._partition.snapshot()
        root = snapshot.queue()
        for state in () if root is None else root.walk():
            path, most, count = state.queue_path, state.max_resources, state.max_applications
            yield from _uses_of((TrackingType.QUEUE, path, path), state.usage, most, state.running_applications, count)
        owners = [
            *map(snapshot.limits_of_user, snapshot.user_names),
            *map(snapshot.limits_of_group, snapshot.group_names),
        ]
        for limit in (limit for owner in owners for limit in owner.effective):
            owner, most, count = (limit.kind, limit.queue_path, limit.name), limit.max_resources, limit.max_applications
            yield from _uses_of(owner, limit.usage, most, limit.running_applications, count)
        for report in self._partition.model_reports():
            for *key, used, maximum in () if report.is_suspended else reported_uses(report.model, report.state):
                yield _LimitKey(*key), _Use(used, maximum)


def _uses_of(
    owner: tuple[str, str, str], usage: Resource, most: Resource | None, running: int, max_applications: int
) -> _Uses:
    """Yield the usage under the limits of an owner, a queue or a user or group in a queue."""
    for resource, maximum in (most or {}).items():
        yield _LimitKey(*owner, "", resource), _Use(usage.get(resource, 0), maximum)
    if max_applications:
        yield _LimitKey(*owner, "", ""), _Use(running, max_applications)


def _levels(thresholds: ThresholdConfig, use: _Use, before: tuple[int, ...]) -> tuple[int, ...]:
    """Return the thresholds that a limit is above now, ascending."""
    share = use.share * _PERCENT
    slack = {level: thresholds.hysteresis if level in before else 0 for level in thresholds.shares}
    return tuple(sorted(level for level, lowered in slack.items() if share >= level - lowered))


def _crossing(key: _LimitKey, level: int, use: _Use, *, rising: bool) -> ThresholdCrossed:
    return ThresholdCrossed(key.kind, key.name, key.place, key.resource or None, level, rising, use.used, use.maximum)
