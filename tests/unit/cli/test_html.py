"""The report as a page: one file that needs nothing else, fetches nothing, and shows names as they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from support.grid_replay import grid_replay
from ugm import Resource, UserGroup, parse_config
from ugm.cli import commands
from ugm.cli.report.marks import Markup, element
from ugm.cli.report.page import page
from ugm.cli.report.plots import Mark, TimeAxis, usage
from ugm.simulation import Envelope, Job, Recorder, simulate

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
    """Return the page of the bundled workload."""
    return page(*grid_replay(), title="grid")


def test_self_contained() -> None:
    """Nothing in the page is fetched or run, and its own policy forbids it, too."""
    text = grid_page()

    assert FORBIDDEN.search(text) is None
    assert "default-src &#x27;none&#x27;; style-src &#x27;unsafe-inline&#x27;" in text
    assert len(text) < 500_000


def test_same_every_time() -> None:
    """The page depends on the replay alone, not on when or how fast it ran."""
    assert page(*grid_replay(), title="grid") == grid_page()


def test_sections() -> None:
    """Every section is linked to, and has a heading that names it."""
    root = tree(grid_page())
    sections = {section.get("id"): section for section in root.iter("section")}

    assert list(sections) == ["summary", "time", "delays", "usage", "limits", "users", "groups"]
    assert [f"#{name}" for name in sections] == [link.get("href") for link in root.iterfind(".//nav//a")]
    for name, section in sections.items():
        heading = section.find("h2")
        assert heading is not None
        assert section.get("aria-labelledby") == heading.get("id") == f"{name}-heading"


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


def test_limit_plot() -> None:
    """The plot of a limit says whose usage it shows, how close it came, and what the limit did."""
    labels = [svg.get("aria-label") for svg in tree(grid_page()).iterfind(".//svg[@role='img']")]

    assert "root, user user1, 240 vcore: peak 240, 100% of the limit; mean 43%; delayed 443 jobs for 166d" in labels


def test_every_limit_is_listed() -> None:
    """All limits are listed with their peaks, however many there are."""
    section = tree(grid_page()).find(".//section[@id='limits']")

    assert section is not None
    assert len(section.findall(".//tbody/tr")) == len(grid_replay()[0].limits)


def test_whom_limits_held() -> None:
    """Each limit that delayed jobs names the users of these jobs, and the time."""
    section = tree(grid_page()).find(".//section[@id='delays']")

    assert section is not None
    rows = [text_of(row) for row in section.iterfind(".//tbody/tr")]
    assert rows[0].startswith("rootuser user1240 vcore44328%166d")
    assert rows[0].endswith("user1 166d")


def test_rejections() -> None:
    """Jobs that can never start are listed with the reason."""
    section = tree(small()).find(".//section[@id='rejected']")

    assert section is not None
    assert text_of(section).endswith("12queue root.a: 3 vcore requested, never more than 2 allowed")


def test_names_are_shown_as_they_are() -> None:
    """A name that looks like markup is text on the page."""
    name = "<script>alert(1)</script>&amp;\"'"
    text = small((name,))

    assert FORBIDDEN.search(text) is None
    section = tree(text).find(".//section[@id='users']")
    assert section is not None
    assert name in text_of(section)


def test_many_users() -> None:
    """A page lists a thousand users, and says how many are left to the JSON."""
    text = small(tuple(f"u{number}" for number in range(1200)))
    section = tree(text).find(".//section[@id='users']")

    assert section is not None
    assert len(section.findall(".//tbody/tr")) == 1000
    assert "200 more users are in the output of --json." in text_of(section)
    assert len(text) < 1_000_000


def test_no_jobs() -> None:
    """A replay of nothing makes a page that says so."""
    root = tree(replayed("partitions: [{name: default, queues: [{name: a}]}]", []))

    assert "0 submitted: 0 started" in text_of(root)
    assert root.find(".//section[@id='delays']/p") is not None


def test_cluster_comes_first() -> None:
    """The size of the cluster is drawn before the quotas of queues, however close these were come to."""
    config = "partitions: [{name: default, queues: [{name: a, maxapplications: 1}]}]"
    jobs = [Job(1, 0, 60, "root.a", UserGroup("sue"), Resource(vcore=1000))]
    root = tree(replayed(config, jobs, cluster=Resource(vcore=9000)))

    first = root.find(".//section[@id='usage']//figcaption")
    assert first is not None
    assert text_of(first) == "root the clusterpeak 1, 11% of the limit; mean 11%"


def test_drawing() -> None:
    """A plot of usage is a band, a line of means and the mark, in steps; what is level is one step."""
    series = Envelope(10, 40, (0, 0, 46, 46), (92, 0, 46, 46), (460, 0, 460, 460))
    root = ET.fromstring(usage(series, mark=Mark(92, "92", "limit"), axis=TimeAxis(0), label="a"))  # noqa: S314 - ours

    paths = {path.get("class"): path.get("d") for path in root.iter("path")}
    assert paths == {
        "band": "M0,32h2v368h2v-184h4L8,216h-4v184h-4z",
        "mean": "M0,216h2v184h2v-184h4",
    }
    marks = [line.get("y1") for line in root.iter("line") if line.get("class") == "limit"]
    assert marks == ["32"]


@pytest.mark.parametrize(
    ("origin", "width", "columns", "texts"),
    [
        (0, 1, 30, ["0 s", "5 s", "10 s", "15 s", "20 s", "25 s"]),
        (50, 1, 120, ["1 min", "2 min"]),
        (0, 1800, 48, ["0 h", "6 h", "12 h", "18 h"]),
        (0, 86400, 600, ["day 0", "day 100", "day 200", "day 300", "day 400", "day 500"]),
    ],
)
def test_time_axis(origin: int, width: int, columns: int, texts: list[str]) -> None:
    """The marks of the time are at round times of the log, six at most."""
    series = Envelope(width, width * columns, (0,) * columns, (0,) * columns, (0,) * columns)
    root = ET.fromstring(usage(series, mark=Mark(1, "1", "peak"), axis=TimeAxis(origin), label="a"))  # noqa: S314 - ours

    assert [span.text for span in root.iterfind(".//div[@class='time']/span")] == texts


def test_time_axis_after_the_year_9999() -> None:
    """Times without a date are those since the start of the log, also if only the last ones have no date."""
    last = 253_402_214_399
    axis = TimeAxis(0, last - 86_400)

    assert axis.text(86_400) == "9999-12-30 23:59"
    assert axis.text(86_401) == "day 1, 00:00"
    assert list(axis.ticks(86_400, 43_200)) == [(1, "30 Dec"), (43_201, "12:00")]
    assert list(axis.ticks(86_401, 43_200)) == [(0, "0 h"), (43_200, "12 h"), (86_400, "24 h")]


def test_element() -> None:
    """Text and attributes are escaped, markup is not, and control characters are made visible."""
    assert element("p", "<", Markup("<br/>"), "\x1b", title='"') == '<p title="&quot;">&lt;<br/>\\x1b</p>'
    assert element("rect", width=3, x=None) == '<rect width="3"/>'


@pytest.fixture(name="command")
def _command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    Path("limits.yaml").write_text("partitions: [{name: default, queues: [{name: site3, maxapplications: 1}]}]")
    Path("jobs.swf").write_text("1 0 -1 100 1 -1 -1 1 100 -1 1 1 2 -1 -1 3 -1 -1\n")
    arguments = ["simulate", "jobs.swf", "--config", "limits.yaml"]
    return lambda *options: CliRunner().invoke(commands.ugm, [*arguments, *options])


def test_command(command: Callable[..., Result]) -> None:
    """The page is written in addition to the printed report, and replaces an existing file."""
    Path("report.html").write_text("old")
    result = command("--html", "report.html")

    assert result.exit_code == 0
    assert result.stdout.startswith("\njobs.swf under limits.yaml\n")
    assert Path("report.html").read_bytes().startswith(b"<!doctype html>\n<html lang=")


def test_command_with_json(command: Callable[..., Result]) -> None:
    """The JSON is the same with a page and without."""
    plain, with_page = (
        re.sub(r'"timing".*', "", command("--json", *options).stdout, flags=re.DOTALL)
        for options in ((), ("--html", "a.html"))
    )

    assert plain == with_page


def test_command_without_the_folder(command: Callable[..., Result]) -> None:
    """A folder that is not there is wrong usage, found before anything is replayed."""
    result = command("--html", "reports/june.html")

    assert result.exit_code == 2
    assert "Invalid value for '--html': the folder 'reports' does not exist" in result.stderr
    assert result.stdout == ""


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="the system has no file of the standard output")
def test_command_to_the_standard_output(command: Callable[..., Result], tmp_path: Path) -> None:
    """The page may be written to the standard output, also if that is a file, which is not replaced."""
    assert command("--html", "/dev/null").exit_code == 0
    program = [sys.executable, "-c", "from ugm.cli import main; main()"]
    arguments = ["simulate", "jobs.swf", "--config", "limits.yaml", "--html", "/dev/stdout"]
    with (tmp_path / "page.html").open("wb") as stream:
        subprocess.run([*program, *arguments], stdout=stream, check=True)  # noqa: S603 - our own program
        inode = os.fstat(stream.fileno()).st_ino

    assert (tmp_path / "page.html").stat().st_ino == inode
    assert b"</html>" in (tmp_path / "page.html").read_bytes()


def test_command_that_cannot_write(command: Callable[..., Result]) -> None:
    """A page that cannot be written is a problem, said with the name of the file."""
    name = "x" * 300
    result = command("--html", name)

    assert result.exit_code == 1
    assert result.stderr == f"{name}: cannot be written: File name too long\n"
