"""Short texts for figures in reports, on the terminal and in HTML; they are rounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ugm.identity import ROOT, TrackingType
from ugm.simulation.report import JobRejection, LimitSummary

__all__ = ["amount_of", "brief_amount", "brief_time", "most", "percent", "reasons_of", "share_of", "whose"]

#: The number of seconds from which hours are omitted.
_LONG: Final = 100 * 86400

_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


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


def brief_amount(resource: str | None, amount: int) -> str:
    """Format an amount: cores, bytes with a suffix, or a count.

    >>> brief_amount("vcore", 2500), brief_amount("memory", 3 * 2**29), brief_amount(None, 1200)
    ('2.5', '1.5Gi', '1,200')
    """
    if resource == "vcore":
        return _decimals(amount / 1000, 3)
    if resource == "memory":
        power = min(max(amount.bit_length() - 1, 0) // 10, len(_BINARY) - 1)
        return _decimals(amount / 1024**power, 2) + _BINARY[power]
    return f"{amount:,}"


def _decimals(number: float, most: int) -> str:
    return f"{number:,.{most}f}".rstrip("0").rstrip(".")


def whose(limit: LimitSummary) -> str:
    """Return the subject of a limit."""
    if limit.kind != TrackingType.QUEUE:
        return f"{limit.kind} {limit.limit_name}"
    return "the cluster" if limit.queue_path == ROOT and limit.resource is not None else "the queue"


def most(limit: LimitSummary) -> str:
    """Format the value of a limit with its unit."""
    return amount_of(limit.resource, limit.limit)


def amount_of(resource: str | None, amount: int) -> str:
    """Format an amount with its unit.

    >>> amount_of("vcore", 2500), amount_of("memory", 2**30), amount_of(None, 3)
    ('2.5 vcore', '1Gi', '3 jobs')
    """
    # The suffix of an amount of memory is its unit.
    return brief_amount(resource, amount) + {None: " jobs", "memory": ""}.get(resource, f" {resource}")


def share_of(part: float, whole: float) -> float:
    """Return the quotient of a part and the whole; 0 if the whole is 0."""
    return part / whole if whole else 0.0


def percent(share: float) -> str:
    """Format a share.

    >>> percent(0.5), percent(0.034), percent(0.0)
    ('50%', '3.4%', '0%')
    """
    return f"{share:.1%}" if 0 < share < 0.1 else f"{share:.0%}"  # noqa: PLR2004 - small shares need a digit more


def reasons_of(rejections: Sequence[JobRejection]) -> list[tuple[int, int, str]]:
    """Group rejections by reason, and return the number of jobs, the first of them and the reason, sorted."""
    found: dict[str, tuple[int, int]] = {}
    for rejection in rejections:
        jobs, first = found.get(rejection.reason, (0, rejection.first_job))
        found[rejection.reason] = jobs + rejection.jobs, min(first, rejection.first_job)
    rows = [(jobs, first, reason) for reason, (jobs, first) in found.items()]
    return sorted(rows, key=lambda row: (-row[0], row[1]))
