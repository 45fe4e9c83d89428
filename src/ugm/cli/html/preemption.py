"""The comparison of replays with and without preemption as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ugm.cli.html.marks import Markup
from ugm.cli.html.page import document
from ugm.cli.html.tables import guarantee_table, preemption_table
from ugm.cli.wording import guarantee_tables
from ugm.simulation import PreemptionReport

__all__ = ["preemption_page"]


def preemption_page(reports: Mapping[str, PreemptionReport], *, title: str) -> str:
    """Return replays side by side as a page.

    Args:
        reports: the report of each replay, by its name.
        title: the title of the page.
    """
    lead = f"The same jobs in {len(reports)} replays, with and without preemption for guarantees."
    return document(title, lead, list(_sections(reports)))


def _sections(reports: Mapping[str, PreemptionReport]) -> Iterator[tuple[str, str, Markup]]:
    yield "summary", "Summary", preemption_table(reports)
    for number, (heading, rows) in enumerate(guarantee_tables(reports.values()), start=1):
        yield f"guarantees{number}", heading, guarantee_table(heading, list(reports), rows)
