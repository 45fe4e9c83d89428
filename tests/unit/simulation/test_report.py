"""The figures of a replay, their JSON, and how they look."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from ugm import Resource
from ugm.cli.output import brief_time
from ugm.cli.report.terminal import render
from ugm.identity import TrackingType
from ugm.resources import brief_amount
from ugm.simulation import JobRejection, LimitSummary, Report, ResourceUse, UserImpact, WaitingTime

LIMIT = LimitSummary(
    kind=TrackingType.USER,
    queue_path="root.prod",
    limit_name="*",
    resource="memory",
    place="root.prod limits[1]",
    limit=4 * 2**30,
    peak=3 * 2**30,
    peak_name="sue",
    names=2,
    delayed_jobs=3,
    delayed_seconds=90,
    rejected=1,
    users=(UserImpact("sue", 2, 80), UserImpact("bob", 1, 10)),
)

REPORT = Report(
    submitted=6,
    still_waiting=1,
    most_waiting=2,
    decisions=9,
    end_time=500,
    waiting=WaitingTime.of([0, 0, 30, 50]),
    users=(("sue", WaitingTime.of([0, 30, 50])), ("eve", WaitingTime.of([0]))),
    groups=(("dev", WaitingTime.of([0, 30, 50])),),
    limits=(LIMIT,),
    rejections=(JobRejection("bob", "root.prod", Resource(memory=5 * 2**30), "too much", 1, 17),),
    findings=(),
)
#: With everything that not all logs and clusters have.
FULL = replace(
    REPORT,
    logged=WaitingTime.of([5]),
    utilization=(ResourceUse("vcore", 6000, 100, 600), ResourceUse("gpu", 100, 100, None)),
)


@pytest.mark.parametrize(
    ("waits", "figures"),
    [
        ([], WaitingTime(0, 0, 0, 0, 0)),
        ([7], WaitingTime(1, 1, 7, 7, 7)),
        ([0] * 19 + [9], WaitingTime(20, 1, 9, 0, 9)),
        ([0] * 18 + [8, 9], WaitingTime(20, 2, 17, 8, 9)),
        (list(range(100, 0, -1)), WaitingTime(100, 100, 5050, 95, 100)),
    ],
)
def test_waiting(waits: list[int], figures: WaitingTime) -> None:
    """The 95th percentile is the shortest wait that 95 of 100 jobs do not exceed."""
    assert WaitingTime.of(waits) == figures


def test_json() -> None:
    """The JSON of a report has these names, which programs rely on."""
    waiting = {"jobs": 3, "delayed": 2, "total": 80, "p95": 50, "max": 50, "mean": 26.667}
    assert json.loads(json.dumps(FULL.to_dict())) == {
        "jobs": {"submitted": 6, "started": 4, "rejected": 1, "still_waiting": 1, "most_waiting": 2},
        "decisions": 9,
        "end_time": 500,
        "waiting": {"jobs": 4, "delayed": 2, "total": 80, "p95": 50, "max": 50, "mean": 20.0},
        "logged_waiting": {"jobs": 1, "delayed": 1, "total": 5, "p95": 5, "max": 5, "mean": 5.0},
        "utilization": [
            {"resource": "vcore", "area": 6000, "seconds": 100, "available": 600, "mean": 60.0, "share": 0.1},
            {"resource": "gpu", "area": 100, "seconds": 100, "available": None, "mean": 1.0, "share": None},
        ],
        "users": [
            {"user": "sue", **waiting},
            {"user": "eve", "jobs": 1, "delayed": 0, "total": 0, "p95": 0, "max": 0, "mean": 0.0},
        ],
        "groups": [{"group": "dev", **waiting}],
        "limits": [LIMIT_JSON],
        "rejections": [REJECTION_JSON],
        "reclaims": [],
        "budgets": [],
        "verify": {"clean": True, "findings": []},
    }


LIMIT_JSON = {
    "kind": "user",
    "queue_path": "root.prod",
    "limit_name": "*",
    "resource": "memory",
    "place": "root.prod limits[1]",
    "limit": 4294967296,
    "peak": 3221225472,
    "peak_name": "sue",
    "names": 2,
    "delayed_jobs": 3,
    "delayed_seconds": 90,
    "rejected": 1,
    "users": [{"user": "sue", "jobs": 2, "seconds": 80}, {"user": "bob", "jobs": 1, "seconds": 10}],
    "guaranteed": None,
    "borrowed": 0,
}

REJECTION_JSON = {
    "user": "bob",
    "queue_path": "root.prod",
    "usage": {"memory": 5368709120},
    "reason": "too much",
    "jobs": 1,
    "first_job": 17,
}


def rendered(report: Report, *, top: int = 8, width: int = 80, encoding: str = "utf-8") -> list[str]:
    """Return the lines of a report without the blanks at their ends."""
    file = io.TextIOWrapper(io.BytesIO(), encoding)
    render(report, Console(file=file, width=width), title="jobs under limits", seconds=0.5, top=top)
    file.seek(0)
    return [line.rstrip() for line in file.read().splitlines()]


def test_rejections_of_one_reason() -> None:
    """Rejections of many users and sizes for one reason are one line, with the first of their jobs."""
    one = replace(REPORT.rejections[0], reason="none", jobs=2, first_job=40)
    other = JobRejection("sue", "root.x", None, "none", 3, 50)

    report = rendered(replace(REPORT, rejections=(*REPORT.rejections, one, other)))

    assert report[report.index("jobs  first  why") + 1 :] == ["   5     40  none", "   1     17  too much", ""]
    assert other.to_dict()["usage"] is None


def test_what_is_not_printable() -> None:
    """Names with signs for the terminal are shown, not obeyed; so is what looks like markup."""
    odd = "\x1b[31m\n[red]"
    limit = replace(LIMIT, queue_path=odd, limit_name=odd, resource=odd, peak_name=odd, users=(UserImpact(odd, 2, 80),))
    rejection = JobRejection(odd, odd, Resource(), odd, 1, 17)
    waits = ((odd, WaitingTime.of([30])),)
    report = replace(REPORT, limits=(limit,), rejections=(rejection,), users=waits, groups=waits, findings=(odd,))

    lines = rendered(report, width=400)

    assert not report.is_clean
    assert all(line.isprintable() for line in lines)
    assert sum(line.count(r"\x1b[31m\n[red]") for line in lines) == 11


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.4, "59s"), (59.6, "1m 00s"), (3600, "1h 00m"), (10**9, "11,574d")]
)
def test_brief_time(seconds: float, text: str) -> None:
    """A time has at most two units."""
    assert brief_time(seconds) == text


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("vcore", 0, "0"),
        ("vcore", 1_500_000, "1,500"),
        ("vcore", 1, "0.001"),
        ("memory", 1500 * 2**30, "1.46Ti"),
        ("memory", 2**80, "1,048,576Ei"),
        ("nvidia.com/gpu", 12_000, "12,000"),
    ],
)
def test_brief_amount(resource: str, amount: int, text: str) -> None:
    """Amounts are written for reading: cores, bytes with a suffix, or counts."""
    assert brief_amount(resource, amount) == text
