"""``ugm top``: tables that fit the terminal, keys, sorting and filtering."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from support.server_fixtures import running, served
from ugm import Partition, Resource, UserGroup, parse_config
from ugm.cli import commands, top
from ugm.cli.client import ServerError
from ugm.cli.fitting import Column, FittedTable, shortened
from ugm.cli.top import render_screen
from ugm.cli.top_keys import names_of_keys
from ugm.cli.top_state import TABLES, RowSelection, TopState
from ugm.server import History

#: Names of 60 characters.
QUEUE: Final = "root.research-physics-simulation-of-the-large-detector-west1"
USER: Final = "user-of-the-department-with-a-very-long-name-in-the-tree-001"
GROUP: Final = "group-of-all-users-that-have-accounts-at-the-west-building-1"
APPLICATION: Final = "application-of-the-simulation-of-the-large-detector-20261123"
GPU: Final = "nvidia.com/gpu"

TEAMS: Final = ", ".join(f"{{name: t{n}, resources: {{max: {{vcore: 4}}}}}}" for n in range(1, 31))
CONFIG: Final = f"""
partitions:
- name: default
  placementrules: [{{name: provided, create: true}}]
  queues:
  - name: root
    limits:
    - {{limit: team, groups: [{GROUP}], maxresources: {{memory: 800Gi, {GPU}: 24}}}}
    - {{limit: all, users: ["*"], maxresources: {{memory: 10000Gi, {GPU}: 20}}, maxapplications: 30}}
    queues:
    - name: {QUEUE.removeprefix("root.")}
      resources: {{max: {{memory: 900Gi, {GPU}: 16, example.org/another-scarce-resource: 7}}}}
    - {{name: b}}
    - {{name: c, queues: [{TEAMS}]}}
"""


def crowded() -> tuple[Partition, History]:
    """Return a partition with 16 of 16 GPUs in use, long names, 30 queues with a maximum, and two users."""
    history = History(clock=lambda: 7)
    partition = Partition(parse_config(CONFIG).partition(), subscribers=[history])
    partition.submit(APPLICATION, UserGroup(USER, (GROUP,)), QUEUE)
    assert partition.allocate("held", APPLICATION, Resource({GPU: 16, "memory": 300 * 2**30 + 1}))
    assert not partition.allocate("x", APPLICATION, Resource({GPU: 1}))
    partition.submit("small", UserGroup("bob"), "root.c.t2")
    assert partition.allocate("y", "small", Resource(vcore=1000))
    partition.request("z", "small", Resource(vcore=4000))
    return partition, history


@pytest.fixture(name="url", scope="module")
def _url() -> Iterator[str]:
    partition, history = crowded()
    with running(served(partition, history={"default": history})) as port:
        yield f"http://127.0.0.1:{port}"


def run(columns: int, *arguments: str) -> Result:
    """Run `ugm top` in a terminal of a width."""
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(commands.ugm, ["top", *arguments])


def lines_of(columns: int, *arguments: str) -> list[str]:
    """Return the lines that `ugm top --once` prints below the summary."""
    printed = run(columns, *arguments, "--once").stdout
    return [line.rstrip() for line in printed.split("\n\n", 1)[1].splitlines()]


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_tables_fit_the_terminal(columns: int, url: str) -> None:
    """Each row is one line; shortened names have an ellipsis, and numbers are complete."""
    lines = lines_of(columns, url)
    gpus = [line for line in lines if re.search(r"100%\s+16\s+16", line)]

    assert max(map(cell_len, lines)) <= columns
    assert len(gpus) == 1
    # A title and headings for each of four tables, blank lines between them, and 8, 2, 1 and 1 rows.
    assert len(lines) == 4 * 2 + 3 + 12
    assert (QUEUE in gpus[0]) == (columns == 200)
    assert (QUEUE in gpus[0]) or "…" in gpus[0].split()[0]
    assert gpus[0].split()[0].endswith("west1")


def test_narrow_terminals_omit_bars(url: str) -> None:
    """The columns that repeat others are omitted before names are shortened to nothing."""
    assert lines_of(60, url)[1].split() == ["queue", "resource", "share", "used", "of", "waiting"]
    assert "apps" in lines_of(120, url)[1]
    assert "apps" in lines_of(60, url, "--sort", "applications")[1]


@pytest.mark.parametrize(
    ("options", "queues", "users"),
    [
        (["--sort", "waiting"], ["root", "root.c"], ["bob", "user-"]),
        (["--sort", "applications", "--reverse"], ["root.c.t30", "root.c.t29"], ["user-", "bob"]),
        (["--sort", "name", "--filter", "C.T"], ["root.c.t1", "root.c.t2"], []),
        (["--sort", "name", "--filter", "t2", "--reverse"], ["root.c.t29", "root.c.t28"], []),
        (["--filter", "BOB"], [], ["bob"]),
    ],
)
def test_order_and_filter(options: list[str], queues: list[str], users: list[str], url: str) -> None:
    """Names are sorted in natural order, and filtered without regard to case."""
    lines = lines_of(120, url, *options)

    assert rows(lines, "queue")[:2] == queues
    assert [re.sub("-.*", "-", name) for name in rows(lines, "user")] == users


def rows(lines: list[str], heading: str) -> list[str]:
    """Return the first cells of a table."""
    start = next((n for n, line in enumerate(lines) if line.startswith(heading + " ")), len(lines))
    found = "\n".join(lines[start + 1 :]).split("\n\n", 1)[0]
    return [line.split()[0] for line in found.splitlines()]


def test_the_last_page_of_users(url: str) -> None:
    """The reversed order shows those at the end of the order, not the first ones reversed."""
    shown = json.loads(run(80, url, "--json", "--lines", "1", "--reverse").stdout)

    assert [entry["name"] for entry in shown["users"]["utilizations"]] == ["bob"]
    assert shown["users"]["total"] == 2


@pytest.mark.parametrize(("search", "count"), [("DETECTOR-2026", 1), ("west1", 1), ("bob", 0)])
def test_filter_of_denials(search: str, count: int, url: str) -> None:
    """Denials are found by the application, and by the owner or queue of a limit."""
    assert len(json.loads(run(80, url, "--json", "--filter", search).stdout)["denials"]) == count


@pytest.mark.parametrize("width", [30, 24])
def test_very_narrow_terminals(width: int) -> None:
    """If nothing else helps, texts are shortened to a few characters, and numbers remain complete."""
    columns = (
        Column("queue", least=16),
        Column("resource", least=8),
        Column("bar", omitted=1),
        Column("used", is_number=True),
    )
    console = Console(width=width)
    with console.capture() as capture:
        console.print(FittedTable(columns, [(QUEUE, GPU, "x" * 20, "123456")], "Queues"))
    lines = capture.get().splitlines()

    assert len(lines) == 3
    assert max(map(cell_len, lines)) <= width
    assert lines[2].count("…") == 2
    assert lines[2].endswith(" 123456")


def test_nothing_matches(url: str) -> None:
    """A filter without matches is visible."""
    assert lines_of(80, url, "--filter", "no such name") == ["nothing to show"]


@pytest.mark.parametrize(
    ("text", "width", "result"),
    [("abc", 3, "abc"), ("abcdef", 5, "ab…ef"), ("abcdef", 4, "ab…f"), ("漢字漢字", 5, "漢…字"), ("abc", 1, "…")],
)
def test_shortened_names(text: str, width: int, result: str) -> None:
    """Names lose their middle; characters of two cells are not divided."""
    assert shortened(text, width) == result
    assert cell_len(result) <= width


def test_short_names_stay_complete() -> None:
    """Long texts are shortened first, and cells that are missing are empty."""
    columns = Column("a", least=3), Column("b", least=3), Column("n", is_number=True)
    console = Console(width=20)
    with console.capture() as capture:
        console.print(FittedTable(columns, [("short", "x" * 30, "123"), (Text("y" * 30),)], "A long title of a table"))

    lines = capture.get().splitlines()
    assert lines[0] == "A long tit…f a table"
    assert lines[2].endswith("123")
    assert all("…" in line for line in (lines[2], lines[3]))


# Keys


def pressed(*keys: str) -> TopState:
    """Return the state after keys."""
    state = TopState(RowSelection(lines=3))
    for key in keys:
        state.press(key)
    return state


@pytest.mark.parametrize(
    ("keys", "query"),
    [
        (["s"], RowSelection("name", lines=3)),
        (["<"], RowSelection("applications", lines=3)),
        ([">", ">", "<", "r"], RowSelection("name", is_reversed=True, lines=3)),
        (["/", "q", "x", "backspace", "enter"], RowSelection(search="q", lines=3)),
        (["/", "q", "escape"], RowSelection(lines=3)),
        (["/", "q", "enter", "escape"], RowSelection(lines=3)),
        (["/", "a", "enter", "/", "up", "b", "enter"], RowSelection(search="ab", lines=3)),
        (["tab"], RowSelection(lines=1000)),
        (["tab", "back tab", "x"], RowSelection(lines=3)),
    ],
)
def test_keys_select_rows(keys: list[str], query: RowSelection) -> None:
    """Keys change the order, the filter and the number of rows."""
    assert pressed(*keys).query == query


def test_keys_of_the_screen() -> None:
    """A table can be shown alone; help ends with any key; q quits, but not while a filter is entered."""
    assert pressed("left").table == TABLES[-1]
    assert (pressed("?").helping, pressed("h", "s").helping, pressed("?", "s").query.sort) == (True, False, "share")
    assert (pressed(" ").paused, pressed(" ", " ").paused) == (True, False)
    assert [pressed(*keys).finished for keys in ("q", "Q", "?q", "/q")] == [True, True, True, False]
    assert [pressed(*keys).offset for keys in (["j", "down", "k"], ["up"], ["page down"], ["end", "home"])] == [
        1,
        0,
        1,
        0,
    ]


def test_input_of_terminals() -> None:
    """Sequences of several terminals have one name; those without a name and control characters are ignored."""
    assert names_of_keys("\x1bOA\x1b[A\x1b[1~\x1b[15~\x01é\x7f\x04") == ["up", "up", "home", "é", "backspace", "q"]


def screen(state: TopState, view: dict[str, Any]) -> list[str]:
    """Return the lines of a terminal of 60 by 14 characters."""
    console = Console(width=60, height=14, color_system=None, force_terminal=True)
    with console.capture() as capture:
        console.print(render_screen(console, view, state, Text("status")), end="")
    return [line.rstrip() for line in capture.get().splitlines()]


def test_scrolling(url: str) -> None:
    """A table that is shown alone keeps its headings; the last page is full; the screen has no further lines."""
    view = json.loads(run(60, url, "--json").stdout)
    state = pressed("tab", "s", "end")
    lines = screen(state, view)

    assert len(lines) == 14
    # The summary has two lines.
    assert lines[2:4] == ["status", "Queues by name"]
    assert lines[4].startswith("queue ")
    assert re.match("root.res…r-west1 .* 100% ", lines[12])
    assert lines[13].startswith("q quit")
    state.press("page up")
    assert screen(state, view)[5] != lines[5]


def test_help_and_filter_on_the_screen(url: str) -> None:
    """The help lists all keys, and the last line shows the filter while it is entered."""
    view = json.loads(run(60, url, "--json").stdout)

    assert any(line.startswith("Page Up") for line in screen(pressed("?"), view))
    assert screen(pressed("/", "a", "b"), view)[-1].startswith("filter: ab_")


# A terminal


@contextmanager
def terminal(columns: int, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run `ugm top` in a pseudo-terminal of 24 lines, and yield the process and the other end of the terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm"}
    for name in ("COLUMNS", "LINES"):
        environment.pop(name, None)
    command = [sys.executable, "-c", "from ugm.cli import main; main()", "top", *arguments]
    pipes = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen(command, env=environment, start_new_session=True, **pipes) as process:  # type: ignore[call-overload]  # noqa: S603 - our own program
        try:
            yield process, ours
        finally:
            process.kill()
            os.close(theirs)
            os.close(ours)


def read_until(ours: int, pattern: str) -> str:
    """Return the last frame when it contains a pattern, without colours."""
    text = b""
    while select.select([ours], [], [], 20)[0]:
        text += os.read(ours, 65536)
        frame = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.decode(errors="replace").rpartition("\x1b[H")[2])
        if re.search(pattern, frame):
            return frame
    raise AssertionError(text)


@pytest.mark.ci
@pytest.mark.parametrize("columns", [60, 120])
def test_in_a_terminal(columns: int, url: str) -> None:
    """Keys change the screen of a terminal at once, and q restores the terminal."""
    with terminal(columns, url, "--interval", "1000") as (process, ours):
        before = termios.tcgetattr(ours)
        frame = read_until(ours, "quit")
        assert max(len(line.rstrip()) for line in frame.splitlines()) <= columns
        os.write(ours, b"\t")
        read_until(ours, "queues, by share(?s:.*)help")
        os.write(ours, b"s/t2\r")
        read_until(ours, "by name, filter 't2'(?s:.*)help")
        os.write(ours, b"q")
        assert process.wait(30) == 0
        assert termios.tcgetattr(ours)[3] == before[3]


@pytest.mark.ci
def test_interrupted_in_a_terminal(url: str) -> None:
    """Ctrl-C ends the view with success."""
    with terminal(60, url) as (process, ours):
        read_until(ours, "quit")
        # CPython discards an exception that arrives in a finalizer, so a single signal may be lost.
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
                break
            while select.select([ours], [], [], 0)[0]:
                os.read(ours, 65536)
        assert process.poll() == 0


def test_lost_server(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The view stays, with the time of its data, if the server does not respond."""
    statuses: list[str] = []
    responses: Iterator[dict[str, Any] | None] = iter([json.loads(run(60, url, "--json").stdout), None])

    def fetch(*_arguments: object) -> dict[str, Any]:
        response = next(responses, None)
        if response is None:
            raise ServerError("no response")
        return response

    def draw(_console: Console, _view: object, state: TopState, status: Text) -> Text:
        statuses.append(status.plain)
        state.finished = len(statuses) == 2
        return status

    monkeypatch.setattr(top, "_fetch", fetch)
    monkeypatch.setattr(top, "render_screen", draw)
    # Each key pauses or continues, with new data.
    monkeypatch.setattr(top, "pressed_keys", lambda: nullcontext(lambda _seconds: [" "]))

    assert run(60, url).exit_code == 0
    assert re.fullmatch("data of [0-9:]{8}: no response", statuses[1])
