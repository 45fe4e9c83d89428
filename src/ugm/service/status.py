"""The status of a service, for people and for monitoring: the leader, its standbys, its clients and its commits.

Each standby reports its position to the leader twice per second, and gets the status as the answer. So every process of
a service can show the status.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from statistics import median
from typing import Final, final

__all__ = ["CommitStatus", "CommitTimes", "ServiceStatus", "StandbyStatus"]

#: The number of commits whose durations are kept.
_RECENT: Final = 1000


@dataclass(frozen=True, slots=True)
class StandbyStatus:
    """A process that stands by.

    Attributes:
        name: its name, for people.
        address: where clients reach it.
        change: the number of the last change that it has applied.
        lag: the number of durable changes that it has not reported as applied.
        seconds: the age of its state: the time since it had applied all changes of the log.
    """

    name: str
    address: str
    change: int
    lag: int
    seconds: float


@dataclass(frozen=True, slots=True)
class CommitStatus:
    """The commits of a leader, each of one batch of changes.

    Attributes:
        count: the number of commits.
        seconds: the time that all of them have taken together.
        median: the median of the last 1,000 commits in seconds; 0 if there were none.
        p99: the time that 99 % of the last 1,000 commits did not exceed, in seconds; 0 if there were none.
    """

    count: int = 0
    seconds: float = 0.0
    median: float = 0.0
    p99: float = 0.0


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """A service at one moment, as one of its processes knows it.

    Attributes:
        name: the name of this process.
        is_leading: whether this process leads.
        leader: the name of the leader; empty if this process does not know one.
        address: where clients reach the leader.
        term: the term of the leader.
        change: the number of the last durable change in the log.
        standbys: the processes that stand by and are connected to the leader.
        sessions: the number of sessions.
        connected: the number of sessions whose client is connected.
        waiting: the number of operations that are not answered yet, because their changes are not durable.
        commits: the commits since the leader began.
        outage: the reason why the log accepts no changes now; empty if it does.
        age: the seconds since the leader has stated all this; 0 if this process leads.
    """

    name: str
    is_leading: bool = False
    leader: str = ""
    address: str = ""
    term: int = 0
    change: int = 0
    standbys: tuple[StandbyStatus, ...] = ()
    sessions: int = 0
    connected: int = 0
    waiting: int = 0
    commits: CommitStatus = CommitStatus()
    outage: str = ""
    age: float = 0.0

    def to_dict(self) -> dict[str, object]:
        """Return the status as plain data for JSON."""
        return asdict(self)


@final
class CommitTimes:
    """Measures the durations of commits."""

    __slots__ = ("_count", "_recent", "_seconds")

    def __init__(self) -> None:
        self._count = 0
        self._seconds = 0.0
        self._recent: Final[deque[float]] = deque(maxlen=_RECENT)

    def add(self, seconds: float) -> None:
        """Add a commit."""
        self._count += 1
        self._seconds += seconds
        self._recent.append(seconds)

    def status(self) -> CommitStatus:
        """Return the commits so far; from any thread."""
        recent = sorted(self._recent)
        if not recent:
            return CommitStatus()
        # The smallest time that 99 % do not exceed.
        p99 = recent[-(-len(recent) * 99 // 100) - 1]
        return CommitStatus(self._count, self._seconds, median(recent), p99)
