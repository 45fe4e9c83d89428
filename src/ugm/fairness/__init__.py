"""Fair shares and decayed usage: the user that comes next.

A `ShareTree` ranks users by the shares and the usage of their accounts. `BinnedUsage` and `ContinuousUsage` measure
that usage so that old usage counts less. `FairShares` combines both for the users of a partition. All amounts, times
and ratios are exact, except that continuous decay is rounded to many digits. Nothing here has a clock or a timer: the
caller passes every time.
"""

from ugm.fairness.decay import BinnedUsage, ContinuousUsage, bins_for
from ugm.fairness.model import FairShares
from ugm.fairness.rank import (
    INFINITE,
    PARENT,
    FairRank,
    Level,
    RankedNode,
    RankExplanation,
    RankStep,
    Shares,
    ShareTree,
)
from ugm.fairness.usage_history import DecayedUsage
from ugm.ordering.request_order import Comparison, SortKeys

__all__ = [
    "INFINITE",
    "PARENT",
    "BinnedUsage",
    "Comparison",
    "ContinuousUsage",
    "DecayedUsage",
    "FairRank",
    "FairShares",
    "Level",
    "RankExplanation",
    "RankStep",
    "RankedNode",
    "ShareTree",
    "Shares",
    "SortKeys",
    "bins_for",
]
