"""Recorded scenarios of elastic quotas that show a defect of Koordinator."""

from __future__ import annotations

from typing import Final

from support.elastic_reference import IDLE_SCALING, NO_TOTAL, STALE_NAMES

__all__ = ["BOTH_DEFECTS", "DEFECTS", "REVOKE_IDLE_SCALING", "ROOT_REQUEST"]

#: Scenarios of the class `regular` that show a defect of Koordinator: the naive model with the defect does what is
#: recorded, and without it what we do.
DEFECTS: Final = {
    **dict.fromkeys(
        ("corner-idle_parent_weight_zero", "v-minupd-0185", "v-parentpods-0063", "v-static_lent-0025", "v-sys-0188"),
        IDLE_SCALING,
    ),
    **dict.fromkeys(("v-total-0050", "v-weird-0081"), IDLE_SCALING),
    "corner-dim_missing_in_total": NO_TOTAL,
    **dict.fromkeys(("v-keys-0023", "v-keys-0035", "v-keys-0047", "v-keys-0239"), STALE_NAMES),
    **dict.fromkeys(("v-keys-0275", "v-keys-0287"), STALE_NAMES),
}

#: In this one Koordinator also leaves idle what a group without weight misses of its minimum.
BOTH_DEFECTS: Final = {"v-keys-0215": (STALE_NAMES, IDLE_SCALING)}

#: Scenarios in which too much was taken off the root's request when a group that requested more than its maximum left.
ROOT_REQUEST: Final = frozenset(("v-move-0211", "v-move-0223", "v-dirtydel-0274"))

#: Recordings of revoking in which the runtime differs for the first reason above.
REVOKE_IDLE_SCALING: Final = frozenset(("v-rev-0000", "v-rev-0028"))
