"""Thresholds: reports when the usage under a limit crosses configured shares of it.

The problem: an operator wants one message when a limit becomes nearly full, and not one for each allocation near it.

The idea: a watch compares snapshots. The engine does not take part, so operations cost the same with thresholds. A
limit that has reached a share stays above it until its usage has fallen by a hysteresis below the share.

The cost: an update takes a snapshot and examines every limit with usage. A crossing between two updates that has been
reverted at the second is not reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, final

from ugm._json_values import JsonMapping, JsonObject
from ugm.configuration import ThresholdConfig
from ugm.decision import EffectiveLimit
from ugm.errors import fields_text, number_text
from ugm.identity import TrackingType
from ugm.partition.interface import AbstractPartition
from ugm.partition.line_index import CooperativeIteration, uninterrupted
from ugm.partition.snapshot import PartitionSnapshot
from ugm.queues import QueueState
from ugm.resources import as_float, brief_amount, usage_texts

if TYPE_CHECKING:
    # At run time it is imported late.
    from ugm.budgets import AccountState

__all__ = ["ThresholdCrossed", "ThresholdWatch"]

#: The kind of the accounts of budgets, and the name of the class of their quota model.
_BUDGET: Final = "budget"
_BUDGETS: Final = "Budgets"
_PERCENT: Final = 100
#: The kinds of the limits of other quota models.
_ELASTIC_GROUP: Final = "elastic group"
_QUOTA_NODE: Final = "quota node"


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

    @property
    def share(self) -> Fraction:
        """The used part; any usage under a maximum of 0 counts as all of it."""
        return Fraction(self.used) / self.maximum if self.maximum > 0 else Fraction(self.used > 0)


class _Crossed(NamedTuple):
    """The last known usage under a limit, and the thresholds that it is above, ascending."""

    use: _Use
    levels: tuple[int, ...]


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

    def __repr__(self) -> str:
        return fields_text(self, self._asdict())

    @property
    def share(self) -> Fraction:
        """The used part of the limit: 1 is all of it. Any usage under a limit of 0 counts as all of it."""
        return _Use(self.used, self.limit).share

    def to_dict(self) -> JsonObject:
        """Return the crossing for JSON: fractions as texts such as ``7/2``, and the share as a decimal number."""
        amounts = {"used": _plain(self.used), "limit": _plain(self.limit)}
        return {**self._asdict(), **amounts, "share": as_float(self.share)}

    def __str__(self) -> str:
        if self.kind == _BUDGET and self.resource is not None:
            (used, limit), counted = usage_texts(self.resource, self.used, self.limit)
        else:
            used, limit = (brief_amount(self.resource, Fraction(amount)) for amount in (self.used, self.limit))
            counted = self.resource or "applications"
        crossed = "at or above" if self.rising else "below"
        return f"{self._where()}: {used} of {limit} {counted}, {crossed} {self.threshold} %"

    def _where(self) -> str:
        if self.kind == _BUDGET:
            return f"budget {self.place!r} of {self.name!r}"
        if self.kind == TrackingType.QUEUE:
            return f"{self.kind} {self.name}"
        place = "" if self.kind == _ELASTIC_GROUP else f" in {self.place}"
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
        partition: the partition: in memory, journaled, or that of a service.
    """

    __slots__ = ("_newest", "_partition", "_thresholds", "_watched")

    #: The snapshot of the last update.
    _newest: PartitionSnapshot | None
    _watched: Mapping[_LimitKey, _Crossed]
    _thresholds: ThresholdConfig

    def __init__(self, partition: AbstractPartition) -> None:
        self._partition: Final = partition
        self._newest = None
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
            _crossing(key, level, crossed.use, rising=True)
            for key, crossed in sorted(watched.items())
            for level in crossed.levels
        )

    def update(self, iterate: CooperativeIteration | None = None) -> tuple[ThresholdCrossed, ...]:
        """Return the crossings since the last update, each threshold of each limit at most once.

        Usage reaches a threshold at exactly its share. It falls below it when the share is less than the threshold
        minus the hysteresis. A limit that has been removed, or whose owner uses nothing, counts as unused. Changed
        limits and thresholds apply from the next update on.

        Without thresholds, no snapshot is taken. Otherwise the time depends on the numbers of applications, queues,
        users, groups, accounts of budgets, elastic groups and nodes of quota trees.

        Args:
            iterate: wraps every long loop, for a caller that pauses now and then; None for no pause.

        Raises:
            OutageError: the partition cannot be read now; the next update reports the crossings.
        """
        config = self._partition.config
        thresholds = ThresholdConfig() if config is None else config.ugm.thresholds
        watched = self._watched
        uses = dict(self._uses(thresholds, iterate)) if thresholds.shares or watched else {}
        events: list[ThresholdCrossed] = []
        after: dict[_LimitKey, _Crossed] = {}
        for key in sorted({**watched, **uses}):
            before = watched.get(key, _Crossed(_Use(0, 1), ()))
            use = uses.get(key, before.use._replace(used=0))
            levels = _levels(thresholds, use, before.levels, is_known=key in uses)
            if levels:
                after[key] = _Crossed(use, levels)
            events += _crossings(key, use, before.levels, levels)
        before_all = self._thresholds, watched
        try:
            self._thresholds, self._watched = thresholds, after
            # In the block: the next call reports what the caller has not got.
            return tuple(events)
        except BaseException:
            self._thresholds, self._watched = before_all
            raise

    def _uses(self, thresholds: ThresholdConfig, iterate: CooperativeIteration | None) -> _Uses:
        """Yield the usage under every limit that is watched or may have reached a threshold."""
        snapshot = self._newest = self._partition.snapshot(iterate, self._newest)
        lowest, watched = min(thresholds.shares, default=None), self._watched
        for key, use in self._uses_in(snapshot, lowest, iterate or uninterrupted):
            if key in watched or (lowest is not None and use.used * _PERCENT >= lowest * use.maximum):
                yield key, use
        for report in self._partition.model_reports():
            if not report.is_suspended:
                yield from _uses_of_model(report.model, report.state)

    def _uses_in(self, snapshot: PartitionSnapshot, lowest: int | None, iterate: CooperativeIteration) -> _Uses:
        """Yield the usage under the limits of queues, and of the users and groups that are watched or near a limit."""
        root = snapshot.queue()
        for state in iterate(() if root is None else root.walk()):
            yield from _uses_of_queue(state)
        watched = {(key.kind, key.name) for key in self._watched}
        # The shares of most users are known from an earlier snapshot. They are rounded, hence the margin.
        near = inf if lowest is None else (lowest - 1) / _PERCENT
        for kind, names, limits_of in (
            (TrackingType.USER, snapshot.user_names, snapshot.limits_of_user),
            (TrackingType.GROUP, snapshot.group_names, snapshot.limits_of_group),
        ):
            for name in iterate(names):
                limits = limits_of(name)
                if limits.share >= near or (kind, name) in watched:
                    yield from _uses_of_limits(limits.effective)


def _uses_of_queue(state: QueueState) -> _Uses:
    path = state.queue_path
    for resource, maximum in (state.max_resources or {}).items():
        key = _LimitKey(TrackingType.QUEUE, path, path, "", resource)
        yield key, _Use(state.usage.get(resource, 0), maximum)
    if state.max_applications:
        key = _LimitKey(TrackingType.QUEUE, path, path, "", "")
        yield key, _Use(state.running_applications, state.max_applications)


def _uses_of_limits(limits: Iterable[EffectiveLimit]) -> _Uses:
    for limit in limits:
        for resource, maximum in (limit.max_resources or {}).items():
            key = _LimitKey(limit.kind, limit.queue_path, limit.name, "", resource)
            yield key, _Use(limit.usage.get(resource, 0), maximum)
        if limit.max_applications:
            key = _LimitKey(limit.kind, limit.queue_path, limit.name, "", "")
            yield key, _Use(limit.running_applications, limit.max_applications)


def _uses_of_model(model: str, state: JsonMapping) -> _Uses:
    """Yield the usage of the accounts of budgets, of elastic groups and of the nodes of quota trees."""
    if model == _BUDGETS:
        # Imported late: most partitions have no budgets.
        from ugm.budgets import AccountState  # noqa: PLC0415 - as above

        yield from map(_use_of_account, map(AccountState.from_dict, state["accounts"]))
    elif state.get("kind") == "elastic":
        for group in state["groups"]:
            yield from _uses_of_amounts((_ELASTIC_GROUP, "", group["group"]), group["used"], group["max"])
    for tree in state.get("trees", ()):
        for node in tree["nodes"]:
            yield from _uses_of_amounts((_QUOTA_NODE, tree["name"], node["name"]), node["allocated"], node["quota"])


def _uses_of_amounts(owner: tuple[str, str, str], used: Mapping[str, int], maxima: Mapping[str, int]) -> _Uses:
    for resource, maximum in maxima.items():
        yield _LimitKey(*owner, "", resource), _Use(used.get(resource, 0), maximum)


def _use_of_account(account: AccountState) -> tuple[_LimitKey, _Use]:
    key = _LimitKey(_BUDGET, account.budget, account.owner, account.scope, account.resource)
    return key, _Use(account.settled + account.committed, account.limit)


def _levels(thresholds: ThresholdConfig, use: _Use, before: tuple[int, ...], *, is_known: bool) -> tuple[int, ...]:
    """Return the thresholds that a limit is above now, ascending."""
    if not is_known:
        return ()
    share = use.share * _PERCENT
    slack = {level: thresholds.hysteresis if level in before else 0 for level in thresholds.shares}
    return tuple(sorted(level for level, lowered in slack.items() if share >= level - lowered))


def _crossings(
    key: _LimitKey, use: _Use, before: tuple[int, ...], after: tuple[int, ...]
) -> Iterator[ThresholdCrossed]:
    """Yield the crossings of one limit in the order in which usage meets them."""
    for level in reversed(before):
        if level not in after:
            yield _crossing(key, level, use, rising=False)
    for level in after:
        if level not in before:
            yield _crossing(key, level, use, rising=True)


def _crossing(key: _LimitKey, level: int, use: _Use, *, rising: bool) -> ThresholdCrossed:
    return ThresholdCrossed(key.kind, key.name, key.place, key.resource or None, level, rising, use.used, use.maximum)
