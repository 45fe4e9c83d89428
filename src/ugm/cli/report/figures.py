"""Figures with a heading, a plot and a table of its numbers: for a limit or a total."""

from __future__ import annotations

from typing import Final

from ugm.cli.report.amounts import amount_of, brief_time, limit_value, peak_share, percent, share_of, whose
from ugm.cli.report.marks import Markup, element, joined
from ugm.cli.report.plots import Mark, TimeAxis, usage
from ugm.identity import WILDCARD
from ugm.resources import brief_amount
from ugm.simulation import Envelope, LimitSeries, LimitSummary

__all__ = ["limit_figure", "total_figure"]

#: The maximum number of rows in the table of a plot.
_ROWS: Final = 16


def limit_figure(limit: LimitSummary, series: LimitSeries, axis: TimeAxis) -> Markup:
    """Draw the usage under a limit."""
    mean = _mean(series.usage)
    others = f", one of {series.names:,}" if series.names > 1 else ""
    name = f"{series.name}{others}" if limit.limit_name == WILDCARD != series.name else ""
    summary = (
        f"peak {brief_amount(limit.resource, limit.peak)}, {percent(peak_share(limit))} of the limit; "
        f"mean {percent(share_of(mean, limit.limit))}"
    )
    delayed = (
        f"; delayed {limit.delayed_jobs:,} jobs for {brief_time(limit.delayed_seconds)}" if limit.delayed_jobs else ""
    )
    heading = f"{limit.queue_path}, {whose(limit)}"
    plot = usage(
        series.usage,
        mark=Mark(limit.limit, limit_value(limit), "limit"),
        axis=axis,
        label=f"{heading}, {limit_value(limit)}: {summary}{delayed}",
    )
    caption = joined(
        element("strong", limit.queue_path),
        " ",
        element("span", whose(limit), class_="whose"),
        *([" ", element("span", name, class_="name")] if name else []),
        element("span", summary + delayed, class_="says"),
    )
    return _figure(caption, plot, series.usage, axis, limit.resource)


def total_figure(
    heading: str, series: Envelope, resource: str | None, axis: TimeAxis, *, scale: int | None = None
) -> Markup:
    """Draw a total of all jobs; *scale* is the marked amount, by default the peak."""
    peak = max(series.high)
    marked = peak if scale is None else scale
    summary = f"peak {amount_of(resource, peak)}, mean {percent(share_of(_mean(series), peak))} of it"
    plot = usage(
        series,
        mark=Mark(marked, amount_of(resource, marked), "peak"),
        axis=axis,
        label=f"{heading}: {summary}",
    )
    caption = joined(element("strong", heading), element("span", summary, class_="says"))
    return _figure(caption, plot, series, axis, resource)


def _mean(series: Envelope) -> float:
    return share_of(sum(series.area), series.end)


def _figure(caption: Markup, plot: Markup, series: Envelope, axis: TimeAxis, resource: str | None) -> Markup:
    numbers = _numbers(series, axis, resource)
    return element("figure", element("figcaption", caption), plot, numbers)


def _numbers(series: Envelope, axis: TimeAxis, resource: str | None) -> Markup:
    """Return the data of a plot as a table with fewer and wider steps."""
    wide = series.merged(_ROWS)
    heads = element("tr", *(element("th", text, scope="col") for text in ("from", "lowest", "mean", "highest")))
    rows = [
        element(
            "tr",
            element("th", axis.text(axis.origin + column * wide.width), scope="row"),
            *(element("td", brief_amount(resource, round(value))) for value in (low, mean, high)),
        )
        for column, (low, mean, high) in enumerate(zip(wide.low, wide.means(), wide.high, strict=True))
    ]
    listed = element("table", element("thead", heads), element("tbody", *rows))
    return element("details", element("summary", "Numbers"), listed, class_="numbers")
