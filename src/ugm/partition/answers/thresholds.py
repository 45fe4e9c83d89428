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
from ugm.configuration.model_kinds import ReportedUse, reported_uses
from ugm.errors import number_text
from ugm.identity import TrackingType
from ugm.model import BUDGET
from ugm.partition.answers.reports import shares_of
from ugm.partition.interface import AbstractPartition
from ugm.resources import as_float, brief_amount, usage_texts

_PERCENT: Final = 100

#: The uses of limits above thresholds, each with these thresholds in ascending order, by its fields but the amounts.
_Watched: TypeAlias = Mapping[tuple[object, ...], tuple[ReportedUse, tuple[int, ...]]]


def used_share(used: int | Fraction, maximum: int | Fraction) -> Fraction:
    """Return the used part of a limit; any usage under a maximum of 0 counts as all of it."""
    return Fraction(used) / maximum if maximum > 0 else Fraction(used > 0)


class ThresholdCrossed(NamedTuple):
    """The usage under a limit has reached a threshold, or has fallen below it."""

    #: ``user``, ``group``, ``queue``, or the kind of a limit of a quota model, such as ``budget``.
    kind: str
    #: The user, group, queue or node, or the owner of the account of a budget; ``*`` for groups that no limit names.
    name: str
    #: The queue that sets the limit, or the name of the budget or quota tree; empty if there is only one place.
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
        return used_share(self.used, self.limit)

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

    def __init__(self, partition: AbstractPartition) -> None:
        self._partition: Final = partition
        #: The state at the last update.
        self._watched: _Watched = {}
        self._thresholds = ThresholdConfig()

    @property
    def shares(self) -> tuple[int, ...]:
        """The thresholds in percent at the last update, ascending; empty if the partition has none."""
        return tuple(sorted(self._thresholds.shares))

    @property
    def crossed(self) -> tuple[ThresholdCrossed, ...]:
        """The thresholds that usage is above, with the usage at the last update."""
        watched = sorted(self._watched.items())
        return tuple(_crossing(use, level, rising=True) for _, (use, levels) in watched for level in levels)

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
        found = self._uses() if thresholds.shares or before else ()
        uses: dict[tuple[object, ...], ReportedUse] = {use[:5]: use for use in found}
        events: list[ThresholdCrossed] = []
        after: dict[tuple[object, ...], tuple[ReportedUse, tuple[int, ...]]] = {}
        for key in sorted({**before, **uses}):
            use = uses[key] if key in uses else before[key][0]._replace(used=0)
            old = before[key][1] if key in before else ()
            new = _levels(thresholds, use, old)
            if new:
                after[key] = use, new
            # In the order in which usage meets them.
            events += [_crossing(use, level, rising=False) for level in old[::-1] if level not in new]
            events += [_crossing(use, level, rising=True) for level in new if level not in old]
        self._thresholds, self._watched = thresholds, after
        return tuple(events)

    def _uses(self) -> Iterator[ReportedUse]:
        """Yield the usage under every limit; that of applications without a resource."""
        snapshot = self._partition.snapshot()
        root = snapshot.queue()
        for queue, resource, used, most in shares_of(() if root is None else root.walk()):
            path = queue.queue_path
            yield ReportedUse(TrackingType.QUEUE, path, path, "", resource or "", used, most)
        users = map(snapshot.limits_of_user, snapshot.user_names)
        groups = map(snapshot.limits_of_group, snapshot.group_names)
        limits = (limit for owner in (*users, *groups) for limit in owner.effective)
        for limit, resource, used, most in shares_of(limits):
            yield ReportedUse(limit.kind, limit.queue_path, limit.name, "", resource or "", used, most)
        for report in self._partition.model_reports():
            yield from () if report.is_suspended else reported_uses(report.model, report.state)


def _levels(thresholds: ThresholdConfig, use: ReportedUse, before: tuple[int, ...]) -> tuple[int, ...]:
    """Return the thresholds that a limit is above now, ascending."""
    share = used_share(use.used, use.maximum) * _PERCENT
    slack = {level: thresholds.hysteresis if level in before else 0 for level in thresholds.shares}
    return tuple(sorted(level for level, lowered in slack.items() if share >= level - lowered))


def _crossing(use: ReportedUse, level: int, *, rising: bool) -> ThresholdCrossed:
    return ThresholdCrossed(use.kind, use.name, use.place, use.resource or None, level, rising, use.used, use.maximum)
