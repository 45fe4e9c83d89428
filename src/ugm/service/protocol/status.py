"""The status of a service, for people and for monitoring, and the reports of its sessions.

Each process reports its own status: the leader, its clients and its commits; a standby, the age of its state.

A *session* begins when a client connects, and continues when the client reconnects. It owns the allocations that its
client obtained. If a client vanishes, an operator or another client decides about its allocations. No decision depends
on a clock: a silent session keeps its allocations until they are taken over or released.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import Final, final

from ugm._json_values import Row
from ugm.partition.answers.reports import OwnedAllocation

#: The number of the last durations that are kept.
_RECENT: Final = 1000
#: The upper bounds of the buckets of all histograms, in seconds; a last bucket has no bound.
BUCKET_BOUNDS: Final = (*(factor / 10**power for power in range(6, 0, -1) for factor in (1, 2, 5)), 1.0, 2.0, 5.0, 10.0)
_NO_BUCKETS: Final = (0,) * (len(BUCKET_BOUNDS) + 1)


@dataclass(frozen=True, slots=True)
class Durations:
    """The durations of commits or of operations since a leader began.

    Attributes:
        count: their number.
        seconds: the time that all of them have taken together.
        median: the median of the last ones in seconds; 0 if there were none.
        p99: the time that 99 % of the last ones did not exceed, in seconds; 0 if there were none.
        buckets: the number in each bucket of a histogram, from microseconds to more than 10 seconds.
    """

    count: int = 0
    seconds: float = 0.0
    median: float = 0.0
    p99: float = 0.0
    buckets: tuple[int, ...] = _NO_BUCKETS


@dataclass(frozen=True, slots=True)
class ServiceStatus(Row):
    """A service at one moment, as one of its processes knows it.

    Attributes:
        name: the name of this process.
        is_leading: whether this process leads.
        leader: the name of the leader; empty if this process does not know one.
        address: where clients reach the leader.
        term: the term of the leader.
        change: the number of the last durable change, or of the last one that a standby has applied.
        sessions: the number of sessions.
        connected: the number of sessions whose client is connected.
        waiting: the number of operations that are not answered yet, because their changes are not durable.
        commits: the durations of commits since the leader began.
        operations: the durations of operations without their commits, since the leader began.
        outage: the reason why the store accepts no changes now, or why a standby cannot read it; empty otherwise.
        age: the seconds since a standby had applied all durable changes; 0 if this process leads.
    """

    name: str
    is_leading: bool = False
    leader: str = ""
    address: str = ""
    term: int = 0
    change: int = 0
    sessions: int = 0
    connected: int = 0
    waiting: int = 0
    commits: Durations = Durations()
    operations: Durations = Durations()
    outage: str = ""
    age: float = 0.0


@final
class Times:
    """Measures durations."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._recent: Final[deque[float]] = deque(maxlen=_RECENT)
        self._buckets: Final = list(_NO_BUCKETS)

    def add(self, count: int, seconds: float) -> None:
        """Add the time that some operations have taken together; they count with their mean."""
        if count:
            self._seconds += seconds
            self._recent.append(seconds / count)
            self._buckets[bisect_left(BUCKET_BOUNDS, seconds / count)] += count

    def status(self) -> Durations:
        """Return the durations so far; from any thread."""
        recent, buckets = sorted(self._recent), tuple(self._buckets)
        if not recent:
            return Durations()
        # The smallest time that 99 % do not exceed.
        p99 = recent[-(-len(recent) * 99 // 100) - 1]
        return Durations(sum(buckets), self._seconds, median(recent), p99, buckets)


@dataclass(frozen=True, slots=True)
class SessionReport:
    """A session at one moment.

    Attributes:
        session: the id.
        client: the name of the client.
        opened_at: when it was opened, in milliseconds since 1970.
        is_connected: whether the client is connected.
        silent_for: the seconds since the connection was lost, or since this leader began; 0 while connected.
        allocations: the number of its allocations, including pending ones.
        is_fenced: whether the session can neither obtain nor release anything.
    """

    session: str
    client: str
    opened_at: int
    is_connected: bool
    silent_for: float
    allocations: int
    is_fenced: bool


@dataclass(frozen=True, slots=True)
class SessionAllocation(OwnedAllocation):
    """An allocation of a session.

    Attributes:
        obtained_at: when it was obtained or, while it is pending, requested, in milliseconds since 1970, accurate to
            about two seconds; 0 if it is unknown. It stays the same if another session takes the allocation over.
    """

    obtained_at: int

    def to_dict(self) -> dict[str, object]:
        """Return the allocation for JSON."""
        return {**OwnedAllocation.to_dict(self), "obtained_at": self.obtained_at}
