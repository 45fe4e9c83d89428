"""The report as a page: one file that needs nothing else, fetches nothing, and shows names as they are."""

from __future__ import annotations

import re
from functools import cache
from itertools import islice
from xml.etree import ElementTree as ET

from support.places import EXAMPLES
from ugm import Resource, UserGroup, load_config, parse_config
from ugm.cli.report.page import page
from ugm.cli.report.plots import Mark, TimeAxis, usage
from ugm.simulation import Envelope, Job, JobMapping, Recorder, read_swf, simulate

#: What a page may not hold: whatever makes a browser fetch or run something.
FORBIDDEN = re.compile(r"<(script|link|img|iframe|object|base|form)\b|\b(src|srcset|xlink:href)=|@import|url\(|https?:")


def replayed(config: str, jobs: list[Job], *, cluster: Resource | None = None) -> str:
    """Return the page of a replay."""
    recorder = Recorder()
    report = simulate(jobs, parse_config(config).partition(), cluster=cluster, recorder=recorder)
    return page(report, recorder, title="jobs under limits")


def small(names: tuple[str, ...] = ("sue",), queue: str = "root.a") -> str:
    """Return the page of two jobs of each user in a queue in which one may run, and of one that asks for too much."""
    config = "partitions: [{name: default, queues: [{name: a, maxapplications: 1, resources: {max: {vcore: 2}}}]}]"
    sizes = (1000, 1000, 3000)
    jobs = [
        Job(number, number, 60, queue, UserGroup(name), Resource(vcore=size))
        for number, (name, size) in enumerate((name, size) for name in names for size in sizes)
    ]
    return replayed(config, jobs)


def tree(text: str) -> ET.Element:
    """Return the elements of a page, which is well-formed XML after its first line."""
    return ET.fromstring(text.partition("\n")[2])  # noqa: S314 - ours


def text_of(node: ET.Element) -> str:
    """Return the text in an element."""
    return " ".join("".join(node.itertext()).split())


@cache
def grid_page() -> str:
    """Return the page of the first jobs of the bundled workload."""
    recorder, config = Recorder(), load_config(EXAMPLES / "grid.yaml").partition()
    jobs = islice(JobMapping().jobs(read_swf(EXAMPLES / "grid.swf.gz")), 1000)
    return page(simulate(jobs, config, recorder=recorder), recorder, title="grid")


def test_self_contained() -> None:
    """Nothing in the page is fetched or run, and its own policy forbids it, too; each section is linked to."""
    text = grid_page()

    assert FORBIDDEN.search(text) is None
    assert "default-src &#x27;none&#x27;; style-src &#x27;unsafe-inline&#x27;" in text
    assert len(text) < 500_000
    root = tree(text)
    sections = [section.get("id") for section in root.iter("section")]
    assert sections == ["summary", "time", "delays", "usage", "limits", "users", "groups"]
    assert [f"#{name}" for name in sections] == [link.get("href") for link in root.iterfind(".//nav//a")]
    headings = [heading.get("id") for heading in root.iterfind(".//section/h2")]
    assert headings == [f"{name}-heading" for name in sections]


def test_plots_say_what_they_show() -> None:
    """Every plot has a description for those who do not see it, and its numbers as a table."""
    figures = list(tree(grid_page()).iter("figure"))

    assert len(figures) > 20
    for figure in figures:
        svg = figure.find(".//svg[@role='img']")
        assert svg is not None
        assert "mean" in svg.get("aria-label", "")
        rows = figure.findall("details/table/tbody/tr")
        assert 8 <= len(rows) <= 16


def test_names_are_shown_as_they_are() -> None:
    """A name that looks like markup is text on the page."""
    name = "<script>alert(1)</script>&amp;\"'"
    text = small((name,))

    assert FORBIDDEN.search(text) is None
    section = tree(text).find(".//section[@id='users']")
    assert section is not None
    assert name in text_of(section)


def test_time_axis() -> None:
    """The marks of the time are at equal distances, with the times of the log."""
    series = Envelope(1800, 1800 * 50, (0,) * 50, (0,) * 50, (0,) * 50)
    root = ET.fromstring(usage(series, mark=Mark(1, "1", "peak"), axis=TimeAxis(3600), label="a"))  # noqa: S314 - ours

    texts = ["day 0, 01:00", "day 0, 06:00", "day 0, 11:00", "day 0, 16:00", "day 0, 21:00"]
    assert [span.text for span in root.iterfind(".//div[@class='time']/span")] == texts
