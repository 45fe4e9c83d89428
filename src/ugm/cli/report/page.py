"""The report of a replay, or of a comparison, as a self-contained HTML file.

The file contains its styles, draws plots as inline SVG, and has no scripts. A plotting library would be a hundred times
as large as these plots, and would need scripts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Final

from ugm.cli.output import brief_time, counted, peak_share
from ugm.cli.report.plots import Markup, TimeAxis, element, joined, limit_figure, total_figure
from ugm.cli.report.sections import (
    Bars,
    Cell,
    Column,
    Section,
    comparison_figures,
    comparison_sections,
    report_sections,
    summary,
)
from ugm.identity import ROOT, TrackingType
from ugm.simulation import Envelope, LimitSummary, Recorder, ReplayComparison, Report

#: The number of limits of each kind that are plotted.
_DRAWN: Final = 8
#: Rows that are visible at first; the others are collapsed.
_FIRST: Final = 12
#: The maximum number of rows in a table; ``--json`` has all of them.
_ROWS: Final = 1000

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
    return _document(title, lead, list(_report(report, recorder, TimeAxis(recorder.origin, start))))


def comparison_page(
    compared: ReplayComparison, recorders: Sequence[Recorder], *, title: str, start: int | None = None
) -> str:
    """Return a comparison as a page.

    Args:
        compared: the comparison.
        recorders: the recorder of each of its replays.
        title: the title of the page.
        start: the start of the log in seconds since 1970; None if it is unknown.
    """
    lead = f"The same jobs in {len(recorders)} replays. Changes are relative to {next(iter(compared.reports))}."
    return _document(title, lead, list(_comparison(compared, recorders, start)))


def _document(title: str, lead: str, sections: Sequence[tuple[str, str, Markup]]) -> str:
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
        element("style", Markup(files("ugm.cli.report").joinpath("style.css").read_text(encoding="utf-8"))),
    )
    return f"<!doctype html>\n{element('html', element('head', head), element('body', body), lang='en')}\n"


def _section(name: str, heading: str, content: Markup) -> Markup:
    return element(
        "section", element("h2", heading, id=f"{name}-heading"), content, id=name, aria_labelledby=f"{name}-heading"
    )


def _report(report: Report, recorder: Recorder, axis: TimeAxis) -> Iterator[tuple[str, str, Markup]]:
    yield "summary", "Summary", _summary(report, recorder, axis)
    totals = (total_figure(heading, series, resource, axis) for heading, resource, series in _series(recorder))
    yield "time", "All jobs over time", element("div", *totals, class_="plots")
    delays, *others = report_sections(report, axis.text)
    yield delays.name, delays.heading, _content(delays)
    yield "usage", "Usage over time against limits", _limit_series(report, recorder, axis)
    for one in others:
        yield one.name, one.heading, _content(one)


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


def _series(recorder: Recorder) -> Iterator[tuple[str, str | None, Envelope]]:
    yield "Jobs waiting", None, recorder.waiting
    yield "Jobs running", None, recorder.running
    for resource, series in recorder.totals.items():
        yield f"Use of {resource}", resource, series


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
            figures = (limit_figure(limit, *recorder.series(limit), axis) for limit in closest)
            parts += [element("h3", heading), element("div", *figures, class_="plots")]
        if more := len(limits[_DRAWN:]):
            parts.append(element("p", f"{counted(more, 'more limit')} in the table of all limits.", class_="note"))
    return joined(*parts)


def _distance(limit: LimitSummary) -> tuple[bool, float]:
    """Return a sort key: the size of the cluster first, then the limits with the highest usage."""
    is_cluster = limit.kind == TrackingType.QUEUE and limit.queue_path == ROOT
    return not is_cluster, -peak_share(limit)


def _comparison(
    compared: ReplayComparison, recorders: Sequence[Recorder], start: int | None
) -> Iterator[tuple[str, str, Markup]]:
    yield "summary", "Summary", _rows("Figures of every replay", *comparison_figures(compared))
    yield "time", "Waiting and running jobs over time", _compared_plots(compared, recorders, start)
    for one in comparison_sections(compared):
        yield one.name, one.heading, _content(one)


def _compared_plots(compared: ReplayComparison, recorders: Sequence[Recorder], start: int | None) -> Markup:
    """Return the same plot of every replay next to each other, with one scale."""
    quantities: dict[str, tuple[str | None, list[Envelope]]] = {}
    for recorder in recorders:
        for heading, resource, series in _series(recorder):
            quantities.setdefault(heading, (resource, []))[1].append(series)
    names = list(compared.reports)
    axes = [TimeAxis(recorder.origin, start) for recorder in recorders]
    figures = [
        total_figure(f"{heading}: {name}", series, resource, axis, scale=max(max(each.high) for each in found))
        for heading, (resource, found) in quantities.items()
        for name, series, axis in zip(names, found, axes, strict=False)
    ]
    return element("div", *figures, class_="plots")


def _content(one: Section) -> Markup:
    """Return a table, of which only the first rows are visible at first."""
    columns = [column for column in one.columns if column.only != "terminal"]
    shown = one.items[:_ROWS]
    parts = [_rows(one.heading, columns, shown[:_FIRST])] if shown else []
    if more := shown[_FIRST:]:
        title = element("summary", counted(len(more), f"more {one.noun}"))
        parts.append(element("details", title, _rows(f"{one.heading}, continued", columns, more)))
    left = len(one.items) - len(shown)
    notes = [f"{counted(left, f'more {one.noun}')} are in the output of --json."] if left else []
    notes += [f"{one.note}."] if one.note else []
    if notes or not shown:
        parts.append(element("p", " ".join(notes) or "None.", class_="note"))
    return joined(*parts)


def _rows(title: str, columns: Sequence[Column], items: Sequence[object]) -> Markup:
    heads = [element("th", element("span", column.head), scope="col", class_=_style(column)) for column in columns]
    body = [
        element("tr", *(element("td", _cell(column.value(item)), class_=_style(column)) for column in columns))
        for item in items
    ]
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *body))
    # A scrollable table must be reachable with the keyboard.
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=f"Table: {title}")


def _style(column: Column) -> str | None:
    return None if column.kind in {"text", "name"} else column.kind


def _cell(cell: Cell) -> str:
    return joined(*map(_bar, cell.bars)) if isinstance(cell, Bars) else cell


def _bar(parts: Sequence[float]) -> Markup:
    """Draw a bar of several shares; screen readers skip it, because the table has the same numbers."""
    drawn, left = [], 0.0
    for number, part in enumerate(parts):
        if width := round(100 * part, 1):
            drawn.append(element("rect", class_=f"part{number}", x=round(left, 1), width=width, height=1))
        left += 100 * part
    return element("svg", *drawn, class_="bar", viewBox="0 0 100 1", preserveAspectRatio="none", aria_hidden="true")
