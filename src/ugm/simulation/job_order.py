"""Orders of waiting jobs in a replay: whose job is requested first when something was released.

Each order divides the waiting jobs into *lines*, for example by queue or by user. The jobs of a line are ordered by
their submission, and the lines by a key that changes during the replay.

The keys of ``priority`` and ``fair`` have values of several levels of queues. They order siblings like the values of
`ugm.Partition.order`. If two siblings tie, a partition takes the one with the earliest waiting job that it has not
tried in this pass. A replay does not try most waiting jobs, and would have to find that job in all queues below for
each start. So it compares the values of the levels below both siblings, and then the submission of the jobs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias, final, get_args

from ugm.configuration import FairShareConfig, PartitionConfig
from ugm.errors import RequestError
from ugm.fairness.declared import declared_shares
from ugm.fairness.ratios import Ratio
from ugm.fairness.sort_settings import QueueSettings
from ugm.identity import UserGroup, ancestors
from ugm.model import Claim
from ugm.partition import AbstractPartition
from ugm.resources import Resource

__all__ = ["JobOrder", "JobOrderName", "order_of", "require_order", "without_shares"]

#: The orders that a replay knows.
JobOrderName: TypeAlias = Literal["fifo", "fair", "share", "priority"]

#: The shares of a configuration that declares none: all users are equal, and usage has a half-life of a week.
_EQUAL_SHARES: Final = FairShareConfig(default_shares=1)
#: The seconds of the log between two rankings of the users, as in SchedMD Slurm.
_PERIOD: Final = 300

#: The levels of queues below the root at which every queue has a ratio.
_LEVELS: Final = 6

#: The key of a line; the smallest one is first.
_Key: TypeAlias = tuple[Any, ...]


def require_order(name: str) -> JobOrderName:
    """Return the name of an order.

    Raises:
        RequestError: there is no such order.
    """
    for known in get_args(JobOrderName):
        if name == known:
            return known  # type: ignore[no-any-return] # one of the literals
    raise RequestError("order", name, f"expected one of {', '.join(get_args(JobOrderName))}")


def without_shares(config: PartitionConfig) -> PartitionConfig:
    """Return a configuration without its shares of users, which a replay measures itself."""
    return replace(config, ugm=replace(config.ugm, fair_share=None)) if config.ugm.fair_share else config


class JobOrder(ABC):
    """The order of waiting jobs."""

    @abstractmethod
    def line(self, queue_path: str, user: UserGroup) -> str:
        """Return the line of the jobs of a user in a queue."""

    @abstractmethod
    def key(self, line: str) -> _Key:
        """Return the key of a line now. It does not fall while jobs start."""

    def change(self, now: int, queue_path: str, user: UserGroup, usage: Resource, jobs: int) -> None:  # noqa: B027 - most orders need no changes
        """Note that a job starts (1) or ends (-1)."""

    def refresh(self, now: int) -> None:  # noqa: B027 - as above
        """Note the time before a round of retries."""


@final
class _BySubmission(JobOrder):
    def line(self, queue_path: str, user: UserGroup) -> str:  # noqa: ARG002 - all jobs are in one line
        return ""

    def key(self, line: str) -> _Key:  # noqa: ARG002 - as above
        return ()


@final
class _ByPriority(JobOrder):
    """The queues with the higher ``priority.offset`` come first, compared from the root down.

    Without fences, the priorities of a path are those of its last queue plus the same offsets, so the highest level
    decides alone. Each fence hides the priorities below it, which decide between the queues there.
    """

    def __init__(self, config: PartitionConfig) -> None:
        self._settings: Final = QueueSettings(config)
        #: The line of each queue, and the key of each line.
        self._lines: Final[dict[str, str]] = {}
        self._keys: Final[dict[str, _Key]] = {}

    def line(self, queue_path: str, user: UserGroup) -> str:  # noqa: ARG002 - the queue decides
        found = self._lines.get(queue_path)
        if found is None:
            key = self._key(queue_path)
            # Queues with equal keys share a line.
            found = self._lines[queue_path] = str(key)
            self._keys[found] = key
        return found

    def key(self, line: str) -> _Key:
        return self._keys[line]

    def _key(self, queue_path: str) -> _Key:
        priority, priorities = 0, [0]
        # The root has no siblings.
        for path in list(ancestors(queue_path))[:-1]:
            settings = self._settings.of(path)
            if settings.is_fenced:
                priorities.append(-priority)
                priority = 0
            priority += settings.offset
        priorities.append(-priority)
        # A queue without a fence has the priority 0 below it.
        while len(priorities) > 1 and not priorities[1]:
            priorities.pop(0)
        return tuple(reversed(priorities))


@final
class _ByRatio(JobOrder):
    """The queues that use the smaller part of their guarantee or maximum come first, compared from the root down.

    A queue counts as its own child at the levels below it, down to `_LEVELS`.
    """

    def __init__(self, partition: AbstractPartition, cluster: Resource | None) -> None:
        self._partition: Final = partition
        self._used: Final[dict[str, dict[str, int]]] = {}
        #: The guarantee and the fair maximum of each queue.
        self._amounts: Final[dict[str, tuple[Mapping[str, int], Mapping[str, int]]]] = {
            "root": ({}, {name: amount for name, amount in (cluster or {}).items() if amount})
        }
        self._ratios: Final[dict[str, tuple[float, Ratio]]] = {}
        #: The keys of lines, and the lines with keys by the child of the root at or above them.
        self._keys: Final[dict[str, _Key]] = {}
        self._lines: Final[dict[str, list[str]]] = {}

    def line(self, queue_path: str, user: UserGroup) -> str:  # noqa: ARG002 - the queue decides
        return queue_path

    def change(self, now: int, queue_path: str, user: UserGroup, usage: Resource, jobs: int) -> None:  # noqa: ARG002 - the queue decides
        for path in ancestors(queue_path):
            used = self._used.setdefault(path, {})
            for name, amount in usage.items():
                used[name] = used.get(name, 0) + jobs * amount
            self._ratios.pop(path, None)
        for line in self._lines.pop(_below_root(queue_path), ()):
            del self._keys[line]

    def key(self, line: str) -> _Key:
        found = self._keys.get(line)
        if found is None:
            found = self._keys[line] = self._key(line)
            self._lines.setdefault(_below_root(line), []).append(line)
        return found

    def _key(self, line: str) -> _Key:
        # The root has no siblings.
        ratios = [self._ratio(path) for path in ancestors(line)][-2::-1]
        if ratios and ratios[-1][0]:
            return (*ratios, *ratios[-1:] * (_LEVELS - len(ratios)))
        # No ratio is smaller than 0, so zeros at the end do not matter. Short keys are compared faster.
        while ratios and not ratios[-1][0]:
            ratios.pop()
        return tuple(ratios)

    def _ratio(self, path: str) -> tuple[float, Ratio]:
        found = self._ratios.get(path)
        if found is None:
            ratio = Ratio.used(self._used.get(path, {}), *self._amounts_of(path))
            found = self._ratios[path] = (ratio.nearest, ratio)
        return found

    def _amounts_of(self, path: str) -> tuple[Mapping[str, int], Mapping[str, int]]:
        found = self._amounts.get(path)
        if found is None:
            queue = self._partition.queue_alone(path)
            _, above = self._amounts_of(path.rpartition(".")[0])
            maximum = {} if queue is None or queue.max_resources is None else queue.max_resources
            guaranteed = {} if queue is None or queue.guaranteed is None else queue.guaranteed
            found = self._amounts[path] = guaranteed, {**above, **maximum}
        return found


def _below_root(path: str) -> str:
    """Return the name of the child of the root at or above a path; empty for the root."""
    return path.split(".", 2)[1] if "." in path else ""


@final
class _ByShare(JobOrder):
    """The users with the higher rank by their shares and their decayed usage come first."""

    def __init__(self, config: FairShareConfig | None) -> None:
        self._shares: Final = declared_shares(config or _EQUAL_SHARES)
        self._users: Final[dict[str, UserGroup]] = {}
        self._positions: Final[dict[str, tuple[_UserPosition]]] = {}
        self._ranked_at = 0
        #: Whether the positions of all users are those of the last ranking.
        self.is_ranked = False
        self._now = 0

    def line(self, queue_path: str, user: UserGroup) -> str:  # noqa: ARG002 - the user decides
        if user.name not in self._users:
            self._users[user.name] = user
            self._positions[user.name] = (_UserPosition(self),)
            self.is_ranked = False
        return user.name

    def key(self, line: str) -> _Key:
        # Keys of one line are compared faster because they are one object.
        return self._positions[line]

    def rank(self) -> None:
        """Rank the users."""
        self._shares.at(self._now)
        rank = self._shares.rank(self._users.values())
        for name, (position,) in self._positions.items():
            position.place = rank.position_of_user(name)
        self._ranked_at, self.is_ranked = self._now, True

    def change(self, now: int, queue_path: str, user: UserGroup, usage: Resource, jobs: int) -> None:
        self._shares.at(now)
        claim = Claim("", "", usage, queue_path, user)
        if jobs > 0:
            self._shares.charge(claim)
        else:
            self._shares.refund(claim)

    def refresh(self, now: int) -> None:
        self._now = now
        if now >= self._ranked_at + _PERIOD:
            # The users are ranked when two of them are compared.
            self.is_ranked = False


@final
class _UserPosition:
    """The place of a user; all users are ranked, if they have to be, when it is compared with that of another user."""

    __slots__ = ("_order", "place")
    __hash__ = None  # type: ignore[assignment] # the place changes

    #: The number of ranks before the user.
    place: int

    def __init__(self, order: _ByShare) -> None:
        self._order: Final = order
        self.place = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _UserPosition):
            return NotImplemented
        if self is not other and not self._order.is_ranked:
            self._order.rank()
        return self.place == other.place

    def __lt__(self, other: _UserPosition) -> bool:
        if self is not other and not self._order.is_ranked:
            self._order.rank()
        return self.place < other.place


def order_of(
    name: JobOrderName, config: PartitionConfig, partition: AbstractPartition, cluster: Resource | None
) -> JobOrder:
    """Return an order for a replay.

    Args:
        name: the order.
        config: the configuration, with the shares of users.
        partition: the partition, whose queues are queried.
        cluster: the size of the cluster; None for an unlimited cluster.
    """
    match name:
        case "fifo":
            return _BySubmission()
        case "priority":
            return _ByPriority(config)
        case "fair":
            return _ByRatio(partition, cluster)
        case "share":
            return _ByShare(config.ugm.fair_share)
