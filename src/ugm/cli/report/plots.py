"""Plots over time with a heading and a table of their numbers, as HTML and SVG elements with automatic escaping.

A `Markup` is inserted as it is; all other text is escaped. So a name from a log or a configuration is always shown
literally, even if it contains markup.

A plot of usage shows a band from the lowest to the highest amount of each column of time, and a line for the mean. It
scales with the page. The text of a plot is HTML around the drawing, so its size does not depend on its width.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from ugm.cli.output import amount_of, brief_time, limit_value, peak_share, percent, share_of, whose
from ugm.configuration.schedules import LAST_SECOND
from ugm.errors import printable
from ugm.identity import WILDCARD
from ugm.resources import brief_amount
from ugm.simulation import Envelope, LimitSummary

#: Elements without an end tag.
_VOID: Final = frozenset(("meta", "path", "line", "rect", "col"))


class Markup(str):
    """Text that is valid HTML and must not be escaped."""

    __slots__ = ()


def joined(*parts: str) -> Markup:
    """Concatenate texts and markup.

    >>> print(joined("a < b", Markup("<br>")))
    a &lt; b<br>
    """
    return Markup("".join(part if isinstance(part, Markup) else escape(printable(part)) for part in parts))


def element(name: str, /, *parts: str, **attributes: str | float | None) -> Markup:
    """Return an element; attributes with the value None are omitted, and ``_`` in their names becomes ``-``.

    >>> print(element("td", "a < b", class_="far", aria_label='"x"', title=None))
    <td class="far" aria-label="&quot;x&quot;">a &lt; b</td>
    """
    named = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(printable(str(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{named}/>")
    return Markup(f"<{name}{named}>{joined(*parts)}</{name}>")


# Drawings

#: The height of a drawing, and the width of one column, in SVG units.
_HEIGHT: Final = 400
_STEP: Final = 2

#: The part of the height below the mark.
_MARK_HEIGHT: Final = 0.92

#: The number of ticks of a time axis, which are at equal distances from its beginning.
_TICKS: Final = 5

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Mark(NamedTuple):
    """An amount that is marked with a line."""

    amount: int
    text: str
    kind: Literal["limit", "peak"]


class TimeAxis(NamedTuple):
    """The time of the plots of one replay."""

    #: The second of the log at which all series begin.
    origin: int
    #: The start of the log in seconds since 1970; None if the log has no date.
    start: int | None = None

    def text(self, second: int) -> str:
        """Format a second of the log as a date, or as a day and a time since the start of the log.

        Seconds after the year 9999 have no date.

        >>> TimeAxis(0).text(90_061), TimeAxis(0, 1_132_444_805).text(90_061)
        ('day 1, 01:01', '2005-11-21 01:01')
        """
        if self.start is None or self.start + second > LAST_SECOND:
            return f"day {second // 86400}, {second // 3600 % 24:02}:{second // 60 % 60:02}"
        return (_EPOCH + timedelta(seconds=self.start + second)).strftime("%Y-%m-%d %H:%M")


def usage(series: Envelope, *, mark: Mark, axis: TimeAxis, label: str) -> Markup:
    """Draw an amount over time.

    Args:
        series: the amount over time.
        mark: an amount to compare it with, such as the limit.
        axis: the time of the plots.
        label: a description of the plot for screen readers.
    """
    # The amount at the upper edge of the drawing.
    top = mark.amount / _MARK_HEIGHT
    around = f"{_line(series.high, top)}L{_line(series.low, top, backwards=True)[1:]}z"
    band, mean = element("path", class_="band", d=around), element("path", class_="mean", d=_line(series.means(), top))
    columns = len(series.low)
    width = _STEP * columns
    seconds = (series.width * columns * number // _TICKS for number in range(_TICKS))
    ticks = [(width * number / _TICKS, axis.text(axis.origin + second)) for number, second in enumerate(seconds)]
    grid = joined(*(element("line", class_="grid", x1=x, x2=x, y1=0, y2=_HEIGHT) for x, _ in ticks))
    height = _y(mark.amount, top)
    line = element("line", class_=mark.kind, x1=0, x2=width, y1=height, y2=height)
    box = {"viewBox": f"0 0 {width} {_HEIGHT}", "preserveAspectRatio": "none"}
    svg = element("svg", grid, band, mean, line, role="img", aria_label=label, **box)
    marks = [element("span", text, style=f"left:{100 * x / width:.2f}%") for x, text in ticks]
    scale = element("div", mark.text, class_=f"scale {mark.kind}-text", aria_hidden="true")
    return element("div", scale, svg, element("div", *marks, class_="time", aria_hidden="true"), class_="plot")


def _y(value: float, top: float) -> int:
    return _HEIGHT - round(_HEIGHT * value / top) if top else _HEIGHT


def _line(values: Sequence[float], top: float, *, backwards: bool = False) -> str:
    """Return an SVG path of steps through values, from left to right or backwards."""
    heights = [_y(value, top) for value in (reversed(values) if backwards else values)]
    step = -_STEP if backwards else _STEP
    steps = (f"v{height - before}h{step}" for before, height in pairwise((heights[0], *heights)))
    return f"M{_STEP * len(heights) if backwards else 0},{heights[0]}{''.join(steps)}"


# Figures

#: The maximum number of rows in the table of a plot.
_ROWS: Final = 16


def limit_figure(limit: LimitSummary, subject: str, series: Envelope, axis: TimeAxis) -> Markup:
    """Draw the usage under a limit, that of the user, group or queue that came closest to it."""
    mean = _mean(series)
    others = f", one of {limit.names:,}" if limit.names > 1 else ""
    name = f"{subject}{others}" if limit.limit_name == WILDCARD != subject else ""
    summary = (
        f"peak {brief_amount(limit.resource, limit.peak)}, {percent(peak_share(limit))} of the limit; "
        f"mean {percent(share_of(mean, limit.limit))}"
    )
    delayed = (
        f"; delayed {limit.delayed_jobs:,} jobs for {brief_time(limit.delayed_seconds)}" if limit.delayed_jobs else ""
    )
    heading = f"{limit.queue_path}, {whose(limit)}"
    plot = usage(
        series,
        mark=Mark(limit.limit, limit_value(limit, limit.limit), "limit"),
        axis=axis,
        label=f"{heading}, {limit_value(limit, limit.limit)}: {summary}{delayed}",
    )
    caption = joined(
        element("strong", limit.queue_path),
        " ",
        element("span", whose(limit), class_="whose"),
        *([" ", element("span", name, class_="name")] if name else []),
        element("span", summary + delayed, class_="says"),
    )
    return _figure(caption, plot, series, axis, limit.resource)


def total_figure(
    heading: str, series: Envelope, resource: str | None, axis: TimeAxis, *, scale: int | None = None
) -> Markup:
    """Draw a total of all jobs; *scale* is the marked amount, by default the peak."""
    peak = max(series.high)
    marked = peak if scale is None else scale
    summary = f"peak {amount_of(resource, peak)}, mean {percent(share_of(_mean(series), peak))} of it"
    plot = usage(
        series, mark=Mark(marked, amount_of(resource, marked), "peak"), axis=axis, label=f"{heading}: {summary}"
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
