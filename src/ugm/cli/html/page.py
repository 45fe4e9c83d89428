"""The HTML page with all sections of the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Final

from ugm.cli.html.limit_series import borrowing_figure, limit_figure, total_figure, waiting_figure
from ugm.cli.html.marks import Markup, element, joined
from ugm.cli.html.plots import TimeAxis
from ugm.cli.html.tables import (
    budget_table,
    delaying_table,
    lending_table,
    limit_table,
    loan_table,
    reclaim_table,
    rejection_table,
    threshold_table,
    waiting_table,
)
from ugm.cli.output import counted
from ugm.cli.wording import brief_time, peak_share, summary
from ugm.identity import ROOT, TrackingType
from ugm.simulation import LimitSummary, Recorder, Report

__all__ = ["document", "page"]

#: The number of limits of each kind that are plotted.
_DRAWN: Final = 8

#: The browser loads and runs nothing, even if a name in the report contains markup.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"

_DRAWN_KINDS: Final = (
    (TrackingType.QUEUE, "Queues and the cluster"),
    (TrackingType.USER, "Users"),
    (TrackingType.GROUP, "Groups"),
)


def page(report: Report, recorder: Recorder, *, title: str, start: int | None = None) -> str:
    """Return the report as a page.

    Args:
        report: the report of a replay.
        recorder: the recorder of the same replay.
        title: the title of the page.
        start: the start of the log in seconds since 1970; None if it is unknown.
    """
    lead = "The effect of the quotas and limits of the configuration on the jobs of the log."
    return document(title, lead, list(_sections(report, recorder, TimeAxis(recorder.origin, start))))


def document(title: str, lead: str, sections: Sequence[tuple[str, str, Markup]]) -> str:
    """Return a page of sections, each with a name, a heading and its content."""
    links = [element("li", element("a", heading, href=f"#{name}")) for name, heading, _ in sections]
    body = joined(
        element("a", "Skip to the figures", class_="skip", href="#summary"),
        element(
            "header",
            element("h1", title),
            element("p", lead),
            element("nav", element("ul", *links), aria_label="Sections"),
        ),
        element("main", *(_section(*section) for section in sections)),
    )
    head = joined(
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("title", title),
        element("style", Markup(files("ugm.cli.html").joinpath("style.css").read_text(encoding="utf-8"))),
    )
    return f"<!doctype html>\n{element('html', element('head', head), element('body', body), lang='en')}\n"


def _section(name: str, heading: str, content: Markup) -> Markup:
    return element(
        "section", element("h2", heading, id=f"{name}-heading"), content, id=name, aria_labelledby=f"{name}-heading"
    )


def _sections(report: Report, recorder: Recorder, axis: TimeAxis) -> Iterable[tuple[str, str, Markup]]:
    """Yield the name, heading and content of each section."""
    yield "summary", "Summary", _summary(report, recorder, axis)
    yield "time", "All jobs over time", _totals(report, recorder, axis)
    yield "delays", "Limits that delayed jobs", delaying_table(report)
    yield "usage", "Usage over time against limits", _limit_series(report, recorder, axis)
    for heading, figures in (("user", report.users), ("group", report.groups)):
        yield f"{heading}s", f"Waiting by {heading}", waiting_table(heading, figures)
    if report.lending:
        yield "lending", "Borrowed and lent", _lending(report, recorder, axis)
    if report.budgets:
        yield "budgets", "Budgets, those that ran out first", budget_table(report, axis)
    if report.crossings:
        yield "thresholds", "Thresholds crossed", threshold_table(report, axis)
    if report.rejections:
        yield "rejected", "Rejected, because they can never start", rejection_table(report)
    yield "limits", "All limits and their peaks", limit_table(report)


def _summary(report: Report, recorder: Recorder, axis: TimeAxis) -> Markup:
    step = f"a step of the plots is {brief_time(recorder.width)}"
    rows = [
        *((name.capitalize(), text) for name, text in summary(report)),
        ("In total", brief_time(report.waiting.total)),
        ("Time", f"{_period(recorder, axis)}; {step}"),
        ("Self-check", "clean" if report.is_clean else "; ".join(report.findings)),
    ]
    return element("dl", *(element("div", element("dt", name), element("dd", text)) for name, text in rows))


def _period(recorder: Recorder, axis: TimeAxis) -> str:
    after = f"{brief_time(recorder.end)} after the first submission"
    if axis.start is None:
        return after
    first, last = axis.text(axis.origin), axis.text(axis.origin + recorder.end)
    return f"{first} to {last} UTC, {after}"


def _totals(report: Report, recorder: Recorder, axis: TimeAxis) -> Markup:
    holding = [(limit, recorder.waiting_for(limit)) for limit in report.limits if limit.delayed_seconds]
    figures = [waiting_figure(recorder.waiting, holding, axis)]
    figures.append(total_figure("Jobs running", recorder.running, None, axis))
    for resource, series in recorder.totals.items():
        figures.append(total_figure(f"Use of {resource}", series, resource, axis))
    return element("div", *figures, class_="plots")


def _lending(report: Report, recorder: Recorder, axis: TimeAxis) -> Markup:
    """Return plots of what groups borrowed and lent, and tables of it."""
    figures = []
    for (kind, resource), (borrowed, lent) in recorder.lending.items():
        groups = [one for one in report.lending if (one.kind, one.resource) == (kind, resource) and one.borrowed]
        if groups:
            named = [(one.name, recorder.borrowed(one)) for one in groups]
            heading = f"{resource} that {kind}s use beyond their guarantees"
            figures.append(borrowing_figure(heading, resource, borrowed, named, axis))
        if max(lent.high):
            heading = f"Part of it that is guaranteed to other {kind}s"
            figures.append(total_figure(heading, lent, resource, axis))
    return joined(
        element("p", "Groups first use what is guaranteed to no group, and then what is guaranteed to others."),
        element("div", *figures, class_="plots"),
        lending_table(report),
        element("h3", "Who borrowed from whom"),
        loan_table(report),
        element("h3", "Reclaimed by evictions"),
        reclaim_table(report),
    )


def _limit_series(report: Report, recorder: Recorder, axis: TimeAxis) -> Markup:
    """Return plots of the most used limits of each kind; of equals, those that delayed jobs longest."""
    parts = [
        element(
            "p",
            "The band reaches from the lowest to the highest usage in each step; the line in it is the mean, and the "
            "dashed line is the limit. If a limit applies to many users separately, the one closest to it is shown.",
        )
    ]
    for kind, heading in _DRAWN_KINDS:
        limits = [limit for limit in report.limits if limit.kind == kind]
        if closest := sorted(limits, key=_distance)[:_DRAWN]:
            figures = (limit_figure(limit, recorder.series(limit), axis) for limit in closest)
            parts += [element("h3", heading), element("div", *figures, class_="plots")]
            parts += _rest(limits[_DRAWN:])
    return joined(*parts)


def _distance(limit: LimitSummary) -> tuple[bool, float]:
    """Return a sort key: the size of the cluster first, then the limits with the highest usage."""
    is_cluster = limit.kind == TrackingType.QUEUE and limit.queue_path == ROOT
    return not is_cluster, -peak_share(limit)


def _rest(limits: Sequence[LimitSummary]) -> list[Markup]:
    text = f"{counted(len(limits), 'more limit')} in the table of all limits."
    return [element("p", text, class_="note")] if limits else []
