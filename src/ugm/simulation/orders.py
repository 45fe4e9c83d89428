"""The configurations of a replay: the order of its waiting jobs and its reservations are properties of queues.

The partition knows only its own order; see `ugm.ordering.sort_settings`. An order of a replay replaces the properties
that concern it in all queues.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, Literal, TypeAlias, final

from ugm.configuration import FairShareConfig, PartitionConfig, QueueConfig
from ugm.configuration.scheduler import RESERVATION
from ugm.errors import RequestError
from ugm.fairness.kind import declared_shares
from ugm.identity import UserGroup
from ugm.model import UserRank
from ugm.ordering.sort_settings import POLICY, PROPERTIES, QUEUE_POLICY, QueueSettings

#: The orders that a replay knows.
JobOrderName: TypeAlias = Literal["fifo", "fair", "share", "priority"]

#: The properties of the root in each order.
_POLICIES: Final[Mapping[JobOrderName, Mapping[str, str]]] = {
    "fifo": {QUEUE_POLICY: "fifo"},
    "fair": {},
    "share": {POLICY: "share"},
    "priority": {QUEUE_POLICY: "fifo"},
}
#: The shares of a configuration that declares none: all users are equal, and usage has a half-life of a week.
_EQUAL_SHARES: Final = FairShareConfig(default_shares=1)
#: The seconds of the log between two rankings of the users, as in SchedMD Slurm.
_PERIOD: Final = 300


def replayed(config: PartitionConfig, order: JobOrderName, *, reserves: bool) -> PartitionConfig:
    """Return the configuration of a replay, without shares of users; see `PeriodicShares`.

    Args:
        config: the configuration.
        order: the order of all queues.
        reserves: whether queues reserve capacity, the root if none is named; otherwise none does.

    Raises:
        RequestError: there is no such order.
    """
    if order not in _POLICIES:
        raise RequestError("order", order, f"expected one of {', '.join(_POLICIES)}")
    added, removed = dict(_POLICIES[order]), {POLICY, QUEUE_POLICY, "application.sort.priority"}
    if order != "priority":
        removed |= PROPERTIES.keys() - {RESERVATION}
    if not reserves:
        removed.add(RESERVATION)
    elif not QueueSettings(config).has_reservations:
        added[RESERVATION] = "enabled"
    root = _without(config.root, removed)
    root = replace(root, properties={**root.properties, **added})
    return replace(config, queues=(root,), limits=(), ugm=replace(config.ugm, fair_share=None))


def _without(queue: QueueConfig, removed: Collection[str]) -> QueueConfig:
    """Return a queue without some properties, in it and in all below."""

    def kept(properties: Mapping[str, str]) -> Mapping[str, str]:
        return {name: text for name, text in properties.items() if name not in removed}

    template = queue.child_template
    return replace(
        queue,
        properties=kept(queue.properties),
        child_template=template and replace(template, properties=kept(template.properties)),
        queues=tuple(_without(child, removed) for child in queue.queues),
    )


@final
class PeriodicShares:
    """The fair shares of a configuration, which rank the users only once in a period of the log.

    Args:
        config: the configuration; all users have equal shares if it declares none.
    """

    #: Shares only order requests.
    may_deny: Final = False

    def __init__(self, config: PartitionConfig) -> None:
        self._shares: Final = declared_shares(config.ugm.fair_share or _EQUAL_SHARES)
        self.check: Final = self._shares.check
        self.charge: Final = self._shares.charge
        self.refund: Final = self._shares.refund
        self._rank: UserRank | None = None
        self._now = self._ranked_at = 0

    def at(self, now: int) -> None:
        """Note the time of an operation."""
        self._now = now
        self._shares.at(now)

    def capture_rank(self, users: Iterable[UserGroup] = ()) -> Callable[[], UserRank]:
        """Return a function that returns the order of the users in this period."""
        if self._rank is None or self._now >= self._ranked_at + _PERIOD:
            self._rank, self._ranked_at = self._shares.rank(users), self._now
        rank = self._rank
        return lambda: rank
