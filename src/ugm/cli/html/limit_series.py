"""Figures with a heading, a plot and a table of its numbers: for a limit, a total, or all waiting jobs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from ugm.cli.html.marks import Markup, element, joined
from ugm.cli.html.plots import Layer, Mark, TimeAxis, layers, usage
from ugm.cli.wording import amount_of, brief_amount, brief_time, limit_value, peak_share, percent, share_of, whose
from ugm.identity import WILDCARD
from ugm.simulation import Envelope, LimitSeries, LimitSummary

__all__ = ["borrowing_figure", "limit_figure", "total_figure", "waiting_figure"]

#: The number of limits with a layer of their own.
_LAYERS: Final = 6

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


def waiting_figure(series: Envelope, holding: Sequence[tuple[LimitSummary, Envelope]], axis: TimeAxis) -> Markup:
    """Draw the mean number of waiting jobs by limit; the limits that delayed jobs longest are at the bottom."""
    named = [Layer(_label(limit), waits.means()) for limit, waits in holding[:_LAYERS]]
    if rest := holding[_LAYERS:]:
        means = [sum(column) for column in zip(*(waits.means() for _, waits in rest), strict=True)]
        named.append(Layer(f"{len(rest):,} other limits" if len(rest) > 1 else _label(rest[0][0]), means))
    peak, highest = max(series.high), math.ceil(max(series.means()))
    summary = f"at most {peak:,}, mean {round(_mean(series)):,}; each step shows its mean"
    mark = Mark(highest, amount_of(None, highest), "peak")
    return _stacked("Jobs waiting, by limit", summary, series, named, mark, axis, None)


def borrowing_figure(
    heading: str, resource: str, series: Envelope, groups: Sequence[tuple[str, Envelope]], axis: TimeAxis
) -> Markup:
    """Draw the mean amount that groups borrowed; the groups that borrowed most are at the bottom."""
    named = [Layer(name, borrowed.means()) for name, borrowed in groups[:_LAYERS]]
    if rest := groups[_LAYERS:]:
        means = [sum(column) for column in zip(*(borrowed.means() for _, borrowed in rest), strict=True)]
        named.append(Layer(f"{len(rest):,} other groups" if len(rest) > 1 else rest[0][0], means))
    highest = math.ceil(max(series.means()))
    mean = amount_of(resource, round(_mean(series)))
    summary = f"at most {amount_of(resource, max(series.high))}, mean {mean}; each step shows its mean"
    mark = Mark(highest, amount_of(resource, highest), "peak")
    return _stacked(heading, summary, series, named, mark, axis, resource)


def _stacked(
    heading: str,
    summary: str,
    series: Envelope,
    named: Sequence[Layer],
    mark: Mark,
    axis: TimeAxis,
    resource: str | None,
) -> Markup:
    """Draw layers with a legend."""
    label = f"{heading}: {summary}. {'; '.join(layer.label for layer in named)}."
    plot = layers(series, named, mark=mark, axis=axis, label=label)
    keys = [
        element(
            "li",
            element(
                "svg",
                element("rect", class_=f"layer{number}", width=12, height=12),
                class_="key",
                viewBox="0 0 12 12",
                aria_hidden="true",
            ),
            layer.label,
        )
        for number, layer in enumerate(named)
    ]
    caption = joined(element("strong", heading), element("span", summary, class_="says"))
    legend = element("ul", *keys, class_="legend")
    return _figure(caption, joined(plot, legend), series, axis, resource, class_="wide")


def _label(limit: LimitSummary) -> str:
    return f"{limit.queue_path}, {whose(limit)}, {limit_value(limit)}"


def _mean(series: Envelope) -> float:
    return share_of(sum(series.area), series.end)


def _figure(
    caption: Markup, plot: Markup, series: Envelope, axis: TimeAxis, resource: str | None, class_: str | None = None
) -> Markup:
    numbers = _numbers(series, axis, resource)
    return element("figure", element("figcaption", caption), plot, numbers, class_=class_)


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
