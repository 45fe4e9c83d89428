"""Durations, shares and amounts in the reports of replays, rounded for people."""

from __future__ import annotations

from typing import Final

from ugm.identity import ROOT, WILDCARD, TrackingType
from ugm.model import BUDGET
from ugm.resources import brief_amount
from ugm.simulation.report import LimitSummary

__all__ = [
    "amount_of",
    "amount_time",
    "brief_time",
    "holder",
    "limit_value",
    "peak_share",
    "percent",
    "share_of",
    "whose",
]

#: The number of seconds from which hours are omitted.
_LONG: Final = 100 * 86400


def brief_time(seconds: float) -> str:
    """Format a duration in at most two units.

    >>> brief_time(41.3), brief_time(750), brief_time(11_100), brief_time(200_000), brief_time(10**9)
    ('41s', '12m 30s', '3h 05m', '2d 07h', '11,574d')
    """
    whole = round(seconds)
    if whole >= _LONG:
        return f"{whole // 86400:,}d"
    for size, unit, part, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            return f"{whole // size}{unit} {whole % size // part:02}{smaller}"
    return f"{whole}s"


def amount_of(resource: str | None, amount: int) -> str:
    """Format an amount with its unit.

    >>> amount_of("vcore", 2500), amount_of("memory", 2**30), amount_of(None, 3)
    ('2.5 vcore', '1Gi', '3 jobs')
    """
    # The suffix of an amount of memory is its unit.
    return brief_amount(resource, amount) + {None: " jobs", "memory": ""}.get(resource, f" {resource}")


def amount_time(resource: str | None, amount: int) -> str:
    """Format an amount times seconds.

    >>> amount_time("vcore", 5_400_000), amount_time("memory", 3600 * 2**30), amount_time("gpu", 0)
    ('1.5 vcore h', '1Gi h', '')
    """
    if not amount:
        return ""
    if resource == "memory":
        return f"{brief_amount(resource, round(amount / 3600))} h"
    return f"{amount / (3_600_000 if resource == 'vcore' else 3600):,.1f} {resource} h"


def share_of(part: float, whole: float) -> float:
    """Return the quotient of a part and the whole; 0 if the whole is 0."""
    return part / whole if whole else 0.0


def percent(share: float) -> str:
    """Format a share.

    >>> percent(0.5), percent(0.034), percent(0.0)
    ('50%', '3.4%', '0%')
    """
    return f"{share:.1%}" if 0 < share < 0.1 else f"{share:.0%}"  # noqa: PLR2004 - small shares need a digit more


def whose(limit: LimitSummary) -> str:
    """Return the subject of a limit."""
    if limit.kind != TrackingType.QUEUE:
        return f"{limit.kind} {limit.limit_name}".rstrip()
    return "the cluster" if limit.queue_path == ROOT and limit.resource is not None else "the queue"


def holder(limit: LimitSummary) -> str:
    """Return the name with the peak usage of a limit that applies to several names; empty for other limits."""
    return f" ({limit.peak_name})" if limit.limit_name == WILDCARD != limit.peak_name else ""


def limit_value(limit: LimitSummary) -> str:
    """Format the value of a limit with its unit."""
    return (amount_time if limit.kind == BUDGET else amount_of)(limit.resource, limit.limit)


def peak_share(limit: LimitSummary) -> float:
    """Return the peak usage of a limit as a share of the limit."""
    return share_of(limit.peak, limit.limit)
