"""The silence of a leader, as a standby notices it."""

from __future__ import annotations

from time import monotonic
from typing import Final, final

from ugm.journal.log import LeaderRecord

__all__ = ["LeaderWatch"]

#: The minimum number of unchanged readings of the record of a leader that count as its silence.
_LOOKS: Final = 4


@final
class LeaderWatch:
    """Notices that a leader has not renewed its record for some time, without comparing clocks of two machines.

    The time for which this process itself was stopped, or did not get a processor, does not count: between two readings
    it counts at most a quarter of the patience. The leader may have been delayed by the same cause. A busy process that
    reads rarely still notices a silent leader within the deadline of a call.
    """

    def __init__(self, patience: float) -> None:
        self._patience: Final = patience
        self._seen: tuple[int, int] | None = None
        #: The time for which the record has not changed, and when it was last looked at.
        self._silence = 0.0
        self._looked_at = monotonic()

    def is_silent(self, leader: LeaderRecord | None) -> bool:
        """Return whether the record has not changed for too long."""
        seen = None if leader is None else (leader.term, leader.renewed_at)
        now = monotonic()
        if seen == self._seen:
            self._silence += min(now - self._looked_at, self._patience / _LOOKS)
        else:
            self._seen, self._silence = seen, 0.0
        self._looked_at = now
        return seen is not None and self._silence > self._patience
