"""Figures with a heading, a plot and its numbers: one limit, one total, or all that waited."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from ugm.cli.html.marks import Markup, element, joined
from ugm.cli.html.plots import Layer, Mark, clock, layers, usage
from ugm.cli.wording import amount_of, brief_amount, brief_time, most, percent, share_of, whose
from ugm.identity import WILDCARD
from ugm.simulation import Envelope, LimitSeries, LimitSummary

__all__ = ["limit_figure", "total_figure", "waiting_figure"]

#: How many limits have a layer of their own.
_LAYERS: Final = 6

#: The most rows that the numbers of a plot take.
_ROWS: Final = 16


def limit_figure(limit: LimitSummary, series: LimitSeries, origin: int) -> Markup:
    """Draw the usage under a limit."""
    usage_ = series.usage
    mean = _mean(usage_)
    others = f", one of {series.names:,}" if series.names > 1 else ""
    name = f"{series.name}{others}" if limit.limit_name == WILDCARD != series.name else ""
    says = (
        f"peak {brief_amount(limit.resource, limit.peak)}, {percent(share_of(limit.peak, limit.limit))} of the limit; "
        f"mean {percent(share_of(mean, limit.limit))}"
    )
    held = f"; held {limit.held_jobs:,} jobs for {brief_time(limit.held_seconds)}" if limit.held_jobs else ""
    heading = f"{limit.queue_path}, {whose(limit)}"
    plot = usage(
        usage_,
        mark=Mark(limit.limit, most(limit), "limit"),
        origin=origin,
        label=f"{heading}, {most(limit)}: {says}{held}",
    )
    caption = joined(
        element("strong", limit.queue_path),
        " ",
        element("span", whose(limit), class_="whose"),
        *([Markup(" "), element("span", name, class_="name")] if name else []),
        element("span", says + held, class_="says"),
    )
    return _figure(caption, plot, usage_, origin, lambda amount: brief_amount(limit.resource, amount))


def total_figure(heading: str, series: Envelope, resource: str | None, origin: int) -> Markup:
    """Draw what all jobs together did."""
    peak = max(series.high)
    says = f"peak {amount_of(resource, peak)}, mean {percent(share_of(_mean(series), peak))} of it"
    plot = usage(
        series,
        mark=Mark(peak, amount_of(resource, peak), "peak"),
        origin=origin,
        label=f"{heading}: {says}",
    )
    caption = joined(element("strong", heading), element("span", says, class_="says"))
    return _figure(caption, plot, series, origin, lambda amount: brief_amount(resource, amount))


def waiting_figure(series: Envelope, holding: Sequence[tuple[LimitSummary, Envelope]], origin: int) -> Markup:
    """Draw how many jobs waited, and for which limits: the mean of each step, those that held longest at the bottom."""
    named = [Layer(_label(limit), waits.means()) for limit, waits in holding[:_LAYERS]]
    if rest := holding[_LAYERS:]:
        means = [sum(column) for column in zip(*(waits.means() for _, waits in rest), strict=True)]
        named.append(Layer(f"{len(rest):,} other limits" if len(rest) > 1 else _label(rest[0][0]), means))
    peak, highest = max(series.high), math.ceil(max(series.means()))
    says = f"at most {peak:,}, mean {round(_mean(series)):,}; drawn is the mean of each step"
    plot = layers(
        series,
        named,
        mark=Mark(highest, amount_of(None, highest), "peak"),
        origin=origin,
        label=f"Jobs waiting, by limit: {says}. {'; '.join(layer.label for layer in named)}.",
    )
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
    caption = joined(element("strong", "Jobs waiting, by limit"), element("span", says, class_="says"))
    legend = element("ul", *keys, class_="legend")
    return _figure(caption, joined(plot, legend), series, origin, lambda amount: f"{amount:,}", class_="wide")


def _label(limit: LimitSummary) -> str:
    return f"{limit.queue_path}, {whose(limit)}, {most(limit)}"


def _mean(series: Envelope) -> float:
    return share_of(sum(series.area), series.end)


def _figure(
    caption: Markup,
    plot: Markup,
    series: Envelope,
    origin: int,
    write: Callable[[int], str],
    class_: str | None = None,
) -> Markup:
    return element("figure", element("figcaption", caption), plot, _numbers(series, origin, write), class_=class_)


def _numbers(series: Envelope, origin: int, write: Callable[[int], str]) -> Markup:
    """Return the plot as a table, in fewer and wider steps."""
    wide = series.merged(_ROWS)
    heads = element("tr", *(element("th", text, scope="col") for text in ("from", "lowest", "mean", "highest")))
    rows = [
        element(
            "tr",
            element("th", clock(origin + column * wide.width), scope="row"),
            *(element("td", write(round(value))) for value in (low, mean, high)),
        )
        for column, (low, mean, high) in enumerate(zip(wide.low, wide.means(), wide.high, strict=True))
    ]
    listed = element("table", element("thead", heads), element("tbody", *rows))
    return element("details", element("summary", "Numbers"), listed, class_="numbers")
