"""The texts of reports, on the terminal and in HTML: figures, which are rounded, and the rows of tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import starmap
from typing import Final

from ugm.budgets.denial import KIND as BUDGET
from ugm.identity import ROOT, WILDCARD, TrackingType
from ugm.resources import brief_amount
from ugm.simulation.comparison import LimitComparison, ReplayComparison, WaitingComparison
from ugm.simulation.preemption_report import GuaranteeEffect, PreemptionReport
from ugm.simulation.report import LimitSummary, Report, ResourceUse, WaitingTime
from ugm.simulation.reserving import RESERVED

__all__ = [
    "DELAYING",
    "LENDING",
    "LOANS",
    "RECLAIMS",
    "WAITING",
    "amount_of",
    "amount_time",
    "brief_amount",
    "brief_time",
    "change_rows",
    "compared_limit_rows",
    "comparison_rows",
    "delaying_rows",
    "guarantee_tables",
    "holder",
    "lending_rows",
    "limit_value",
    "limits_by_peak",
    "loan_rows",
    "peak_share",
    "percent",
    "preemption_rows",
    "reasons_of",
    "reclaim_rows",
    "share_of",
    "summary",
    "waiting_rows",
    "whose",
]

#: The columns of `delaying_rows` and `waiting_rows`.
DELAYING: Final = ("queue", "limit for", "limit", "jobs", "share", "delayed for")
WAITING: Final = ("jobs", "delayed", "mean", "p95", "longest", "in total")
#: The columns of `lending_rows`, `loan_rows` and `reclaim_rows`.
LENDING: Final = ("group", "resource", "guaranteed", "peak", "borrowed", "lent")
LOANS: Final = ("borrower", "lender", "amount")
RECLAIMS: Final = ("reclaimed by", "from", "jobs", "lost run time")

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


def whose(limit: LimitSummary) -> str:
    """Return the subject of a limit."""
    if limit.kind != TrackingType.QUEUE:
        return f"{limit.kind} {limit.limit_name}".rstrip()
    return "the cluster" if limit.queue_path == ROOT and limit.resource is not None else "the queue"


def limit_value(limit: LimitSummary) -> str:
    """Format the value of a limit with its unit."""
    return (amount_time if limit.kind == BUDGET else amount_of)(limit.resource, limit.limit)


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


def peak_share(limit: LimitSummary) -> float:
    """Return the peak usage of a limit as a share of the limit."""
    return share_of(limit.peak, limit.limit)


def holder(limit: LimitSummary) -> str:
    """Return the name with the peak usage of a limit that applies to several names; empty for other limits."""
    return f" ({limit.peak_name})" if limit.limit_name == WILDCARD != limit.peak_name else ""


def summary(report: Report) -> list[tuple[str, str]]:
    """Return the counts and the waiting times of the jobs, with headings."""
    waiting = report.waiting
    states = f"{report.started:,} started, {report.rejected:,} rejected, {report.still_waiting:,} still waiting"
    share = percent(share_of(waiting.delayed, waiting.jobs))
    rows = [
        ("jobs", f"{report.submitted:,} submitted: {states}"),
        ("delayed", f"{waiting.delayed:,} jobs, {share} of those started; at most {report.most_waiting:,} at one time"),
        ("waiting", _times(waiting)),
    ]
    if report.logged is not None:
        rows.append(("logged", f"{_times(report.logged)}, according to the log"))
    in_use = [f"{use.resource} {percent(use.share)}" for use in report.utilization if use.share is not None]
    if in_use:
        rows.append(("in use", f"{', '.join(in_use)} of the cluster"))
    return rows


def _times(waiting: WaitingTime) -> str:
    return f"mean {brief_time(waiting.mean)}, p95 {brief_time(waiting.p95)}, longest {brief_time(waiting.max)}"


def comparison_rows(compared: ReplayComparison) -> list[tuple[str, ...]]:
    """Return the rows of a table with a figure of every replay in each row, with its heading."""
    reports = [one.report for one in compared.variants]
    rows = [
        ("jobs started", *(f"{one.started:,}" for one in reports)),
        ("rejected", *(f"{one.rejected:,}" for one in reports)),
        ("still waiting", *(f"{one.still_waiting:,}" for one in reports)),
        ("delayed", *(f"{one.waiting.delayed:,}" for one in reports)),
        ("mean wait", *(brief_time(one.waiting.mean) for one in reports)),
        ("p95 of waits", *(brief_time(one.waiting.p95) for one in reports)),
        ("longest wait", *(brief_time(one.waiting.max) for one in reports)),
        ("most waiting", *(f"{one.most_waiting:,}" for one in reports)),
        *_utilization_rows(reports),
        ("usage and wait", *(_correlation(one) for one in reports)),
        ("self-check", *("clean" if one.is_clean else "findings" for one in reports)),
    ]
    if any(one.logged for one in reports):
        logged = ("" if one.logged is None else brief_time(one.logged.mean) for one in reports)
        rows.insert(5, ("mean in the log", *logged))
    return rows


def _utilization_rows(reports: Sequence[Report]) -> Iterator[tuple[str, ...]]:
    sides = [{use.resource: use for use in report.utilization} for report in reports]
    for resource in sorted({name for side in sides for name in side}):
        yield (f"{resource} in use", *(_in_use(side.get(resource)) for side in sides))


def _in_use(use: ResourceUse | None) -> str:
    if use is None:
        return ""
    return brief_amount(use.resource, round(use.mean)) if use.share is None else percent(use.share)


def _correlation(report: Report) -> str:
    found = report.usage_correlation
    return "" if found is None else f"{found:+.2f}"


def change_rows(compared: Iterable[WaitingComparison]) -> list[tuple[WaitingComparison, tuple[str, ...]]]:
    """Return the users or groups whose waiting differs, each with its row: the jobs, the mean waits and the changes."""
    return [(one, _change_row(one)) for one in compared if len(set(one.waits)) > 1]


def _change_row(one: WaitingComparison) -> tuple[str, ...]:
    first, *others = one.waits
    changed = (
        f"{brief_time(waits.mean)} ({_signed(change)})" for waits, change in zip(others, one.changes[1:], strict=True)
    )
    return one.name, f"{max(waits.jobs for waits in one.waits):,}", brief_time(first.mean), *changed


def _signed(seconds: float) -> str:
    return "=" if not round(seconds) else f"{'-' if seconds < 0 else '+'}{brief_time(abs(seconds))}"


def compared_limit_rows(compared: ReplayComparison) -> list[tuple[str, ...]]:
    """Return the limits that delayed jobs in any replay, with the time for which they did."""
    return [
        (one.queue_path, whose(limit), _values(one), *map(brief_time, one.delayed_seconds))
        for one in compared.limits
        for limit in [next(limit for limit in one.limits if limit is not None)]
    ]


def _values(one: LimitComparison) -> str:
    """Return the values of a limit, which may differ between configurations."""
    return " / ".join(dict.fromkeys("none" if limit is None else limit_value(limit) for limit in one.limits))


def preemption_rows(reports: Collection[PreemptionReport]) -> list[tuple[str, ...]]:
    """Return the figures of replays with and without preemption, each row with its heading."""
    return [
        ("jobs started", *(f"{one.started:,}" for one in reports)),
        ("rejected", *(f"{one.rejected:,}" for one in reports)),
        ("still waiting", *(f"{one.still_waiting:,}" for one in reports)),
        ("mean wait", *(brief_time(share_of(one.waited, one.started)) for one in reports)),
        ("longest wait", *(brief_time(one.longest_wait) for one in reports)),
        ("evictions", *(f"{one.evictions:,}" for one in reports)),
        ("lost run time", *(brief_time(one.lost) for one in reports)),
        ("from plan to start", *(brief_time(one.longest_time_to_start) for one in reports)),
        ("self-check", *("clean" if one.is_clean else "findings" for one in reports)),
    ]


def guarantee_tables(reports: Collection[PreemptionReport]) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Return tables of the queues with guarantees, those whose guarantees were unmet longest first.

    A row has the path, the guarantee, and one figure of every replay.
    """
    figures: tuple[tuple[str, Callable[[GuaranteeEffect], float]], ...] = (
        ("Time in which guarantees were unmet", lambda one: one.unmet),
        ("Longest time that a job waited for an unmet guarantee", lambda one: one.longest_unmet),
        ("Mean wait of the jobs of queues with guarantees", lambda one: share_of(one.waited, one.jobs)),
    )
    queues = _guarantees(reports)
    return [
        (heading, [(path, _amounts(effects), *(_figure(one, figure) for one in effects)) for path, effects in queues])
        for heading, figure in figures
    ]


def _guarantees(reports: Collection[PreemptionReport]) -> list[tuple[str, list[GuaranteeEffect | None]]]:
    """Return the queues with a guarantee in any replay, each with its effects in all of them."""
    sides = [{one.queue_path: one for one in report.guarantees} for report in reports]
    queues = [(path, [side.get(path) for side in sides]) for path in {path: None for side in sides for path in side}]
    return sorted(queues, key=lambda row: (-max(one.unmet for one in row[1] if one), row[0]))


def _amounts(effects: Sequence[GuaranteeEffect | None]) -> str:
    """Return the guarantee of a queue, which may differ between configurations."""
    found = ("none" if one is None else ", ".join(starmap(amount_of, one.guaranteed.items())) for one in effects)
    return " / ".join(dict.fromkeys(found))


def _figure(effect: GuaranteeEffect | None, figure: Callable[[GuaranteeEffect], float]) -> str:
    return "" if effect is None else brief_time(figure(effect))


def delaying_rows(report: Report) -> list[tuple[LimitSummary, tuple[str, ...]]]:
    """Return the limits that delayed jobs, each with its row of a table; the limits are sorted by their effect."""
    total = sum(limit.delayed_seconds for limit in report.limits)
    return [(limit, _delaying(limit, total)) for limit in report.limits if limit.delayed_seconds or limit.delayed_jobs]


def _delaying(limit: LimitSummary, total: int) -> tuple[str, ...]:
    share, time = percent(share_of(limit.delayed_seconds, total)), brief_time(limit.delayed_seconds)
    return limit.queue_path, whose(limit), limit_value(limit), f"{limit.delayed_jobs:,}", share, time


def lending_rows(report: Report) -> list[tuple[str, ...]]:
    """Return the groups that borrowed or lent, each with its row of a table."""
    has_several_kinds = len({one.kind for one in report.lending}) > 1
    return [
        (
            f"{one.kind} {one.name}" if has_several_kinds else one.name,
            one.resource,
            brief_amount(one.resource, one.guaranteed),
            brief_amount(one.resource, one.peak),
            amount_time(one.resource, one.borrowed),
            amount_time(one.resource, one.lent),
        )
        for one in report.lending
        if one.borrowed or one.lent
    ]


def loan_rows(report: Report) -> list[tuple[str, ...]]:
    """Return what each group lent to each other group, as rows of a table."""
    return [(one.borrower, one.lender, amount_time(one.resource, one.amount)) for one in report.loans]


def reclaim_rows(report: Report) -> list[tuple[str, ...]]:
    """Return the evictions by owner and borrower, as rows of a table."""
    return [(one.owner, one.borrower, f"{one.jobs:,}", brief_time(one.lost_seconds)) for one in report.reclaims]


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


def limits_by_peak(report: Report) -> list[LimitSummary]:
    """Return all limits except budgets, which have no peak; the one with the highest share of use first."""
    return sorted(
        (one for one in report.limits if one.kind not in (BUDGET, RESERVED)), key=lambda limit: -peak_share(limit)
    )


def waiting_rows(figures: Sequence[tuple[str, WaitingTime]]) -> list[tuple[WaitingTime, tuple[str, ...]]]:
    """Return the users or groups whose jobs waited, each with its name and its row of a table."""
    return [(waits, (name, *_waiting(waits))) for name, waits in figures if waits.delayed]


def _waiting(waits: WaitingTime) -> tuple[str, ...]:
    times = map(brief_time, (waits.mean, waits.p95, waits.max, waits.total))
    return f"{waits.jobs:,}", f"{waits.delayed:,}", *times


def reasons_of(report: Report) -> list[tuple[str, str, str]]:
    """Return the number of rejected jobs, the first of them and the reason for each reason, the most jobs first."""
    found: dict[str, tuple[int, int]] = {}
    for rejection in report.rejections:
        jobs, first = found.get(rejection.reason, (0, rejection.first_job))
        found[rejection.reason] = jobs + rejection.jobs, min(first, rejection.first_job)
    rows = sorted(found.items(), key=lambda row: (-row[1][0], row[1][1]))
    return [(f"{jobs:,}", str(first), reason) for reason, (jobs, first) in rows]
