"""The room of a queue or cluster during a replay with preemption, and the claims of the jobs with a right to it.

A plan of preemption promises a job its room at the time at which the last victim stops. Until then, another job may
use the room if enough is left at that time: victims of later plans stop later, so their room does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from ugm.resources import Resource
from ugm.simulation.watched_guarantee import add_amounts

__all__ = ["ClaimedRoom"]


@final
class ClaimedRoom:
    """The free amounts below a maximum, the claims to them, and the amounts that terminating jobs will free.

    Args:
        maximum: the maximum of a queue, or the size of the cluster.
        is_closed: whether the resources without a maximum do not exist, as in a cluster. Otherwise they are unlimited.

    >>> room, gpu = ClaimedRoom(Resource(gpu=3), is_closed=True), Resource(gpu=1)
    >>> room.use(2 * gpu)
    >>> room.stop("victim", 60, 2 * gpu)
    >>> room.claim("new", 60, 3 * gpu)
    >>> room.fits(gpu), room.fits(gpu, before="new")
    (False, True)
    """

    __slots__ = ("_claims", "_free", "_is_closed", "_maximum", "_stops")

    def __init__(self, maximum: Resource, *, is_closed: bool) -> None:
        self._maximum: Final = maximum.amounts
        self._is_closed: Final = is_closed
        self._free: Final = dict(maximum)
        #: By application: the time at which a job has to get its room, or frees it, and its usage. The times ascend.
        self._claims: Final[dict[str, tuple[int, Resource]]] = {}
        self._stops: Final[dict[str, tuple[int, Resource]]] = {}

    def use(self, usage: Resource, sign: int = 1) -> None:
        """Count the usage of a job that starts (1) or ends (-1)."""
        add_amounts(self._free, usage, -sign)

    def claim(self, name: str, time: int, usage: Resource) -> None:
        """Note that a job has to get its room by a time."""
        self._claims[name] = time, usage

    def stop(self, name: str, time: int, usage: Resource) -> None:
        """Note that a job frees its usage at a given time."""
        self._stops[name] = time, usage

    def forget(self, name: str) -> None:
        """Forget the claim of a job that starts, or the stop of one that ends."""
        self._claims.pop(name, None)
        self._stops.pop(name, None)

    def fits(self, usage: Resource, before: str | None = None) -> bool:
        """Return whether a job that starts now leaves the room of those with a claim.

        Args:
            usage: the usage of the job.
            before: the first claim that need not be respected; None to respect all.
        """
        if not self._is_within(usage, self._free):
            # The partition rejects a job that never fits.
            return not self._is_within(usage, self._maximum)
        left, stops = dict(self._free), list(reversed(self._stops.values()))
        for name, (time, claimed) in self._claims.items():
            if name == before:
                break
            while stops and stops[-1][0] <= time:
                add_amounts(left, stops.pop()[1], 1)
            add_amounts(left, claimed, -1)
            if not self._is_within(usage, left):
                return False
        return True

    def _is_within(self, usage: Resource, amounts: Mapping[str, int]) -> bool:
        if self._is_closed:
            return all(amount <= amounts.get(name, 0) for name, amount in usage.amounts.items())
        return all(amounts[name] >= usage.get(name, 0) for name in self._maximum)
