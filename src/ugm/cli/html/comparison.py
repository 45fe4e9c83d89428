"""The comparison of several replays as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ugm.cli.html.limit_series import total_figure
from ugm.cli.html.marks import Markup, element, joined
from ugm.cli.html.page import document
from ugm.cli.html.plots import TimeAxis
from ugm.cli.html.tables import change_table, compared_limit_table, comparison_table
from ugm.simulation import Envelope, Recorder, ReplayComparison

__all__ = ["comparison_page"]


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
    lead = f"The same jobs in {len(recorders)} replays. Changes are relative to {compared.variants[0].name}."
    return document(title, lead, list(_sections(compared, recorders, start)))


def _sections(
    compared: ReplayComparison, recorders: Sequence[Recorder], start: int | None
) -> Iterator[tuple[str, str, Markup]]:
    yield "summary", "Summary", joined(comparison_table(compared), _explanation())
    yield "time", "Waiting and running jobs over time", _plots(compared, recorders, start)
    yield "users", "Who gains and who loses: users", change_table(compared, "user", compared.users)
    yield "groups", "Who gains and who loses: groups", change_table(compared, "group", compared.groups)
    yield "limits", "Limits that delayed jobs", compared_limit_table(compared)


def _explanation() -> Markup:
    return element(
        "p",
        "“Usage and wait” is the rank correlation of the usage and the mean wait over all users: with +1, the users "
        "that use most wait longest.",
        class_="note",
    )


def _plots(compared: ReplayComparison, recorders: Sequence[Recorder], start: int | None) -> Markup:
    """Return the same plot of every replay next to each other, with one scale."""
    quantities: dict[str, tuple[str | None, list[Envelope]]] = {}
    for recorder in recorders:
        for heading, resource, series in _series(recorder):
            quantities.setdefault(heading, (resource, []))[1].append(series)
    names = [one.name for one in compared.variants]
    axes = [TimeAxis(recorder.origin, start) for recorder in recorders]
    figures = [
        total_figure(f"{heading}: {name}", series, resource, axis, scale=max(max(each.high) for each in found))
        for heading, (resource, found) in quantities.items()
        for name, series, axis in zip(names, found, axes, strict=False)
    ]
    return element("div", *figures, class_="plots")


def _series(recorder: Recorder) -> Iterator[tuple[str, str | None, Envelope]]:
    yield "Jobs waiting", None, recorder.waiting
    yield "Jobs running", None, recorder.running
    for resource, series in recorder.totals.items():
        yield f"Use of {resource}", resource, series
