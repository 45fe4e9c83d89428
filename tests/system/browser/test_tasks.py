"""The everyday tasks of an operator: each takes at most three clicks on the page, or two commands."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal, NamedTuple

import pytest
from click.testing import CliRunner
from playwright.sync_api import Locator, Page, expect
from starlette.applications import Starlette

from support import page_server as pages
from ugm import Resource, UserGroup, parse_config
from ugm.cli.commands import ugm
from ugm.cli.demo import START, endless
from ugm.server import History
from ugm.simulation import JobMapping, read_swf
from ugm.simulation.replay import Replay
from ugm.simulation.timeline import Timeline
from ugm.store import open_partition

pytestmark = pytest.mark.ci

#: The clicks that a task may take.
_MOST: Final = 3
_EXAMPLES: Final = Path(__file__).parents[3] / "examples"
#: The part of the workload that is played: two days, so that yesterday at 15:00 is among them.
_PLAYED: Final = START * 3 // 5
_BUDGETS: Final = 'budgets: [{name: hours, user: "*", amounts: {vcore: 9000}, unit: hour, period: month, mode: admit}]'
#: The configuration of the demo, with GPUs and budgets.
_CONFIG: Final = (
    (_EXAMPLES / "demo.yaml")
    .read_text("utf-8")
    .replace("resources: [vcore, memory]", f"resources: [vcore, memory, gpu]\n      {_BUDGETS}")
)
#: The users of GPUs in the team of the first site, and their GPUs.
_GPUS: Final = {"nina": 3, "omar": 5}
_TEAM: Final = "root.site1"


class World(NamedTuple):
    """The served demo."""

    address: str
    #: The file with the configuration, and the store.
    file: Path
    store: Path
    #: The beginning of the workload.
    begin: int
    app: Starlette


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Serve the workload of the demo from a store, with GPUs that are all in use after their promised end."""
    folder, apps = tmp_path_factory.mktemp("demo"), list[Starlette]()
    file, store = folder / "queues.yaml", folder / "quota.db"
    file.write_text(_CONFIG, "utf-8")
    begin = int(time.time()) - _PLAYED
    timeline = Timeline(begin, parse_config(_CONFIG).partition())
    history = History(clock=timeline.second)

    def prepare(app: Starlette) -> None:
        apps.append(app)
        jobs = list(JobMapping().jobs(read_swf(_EXAMPLES / "grid.swf.gz")))
        Replay(partition, endless(jobs), timeline).run(_PLAYED - 120)
        for name, gpus in _GPUS.items():
            partition.submit(f"train-{name}", UserGroup(name, ("group1",)), f"{_TEAM}.queue1")
            assert partition.allocate(f"train-{name}.0", f"train-{name}", Resource(gpu=gpus), duration=60)
        partition.request("train-nina.1", "train-nina", Resource(gpu=1), duration=60)
        timeline.now = _PLAYED
        app.state.thresholds["default"].update()

    with (
        open_partition(
            str(store),
            parse_config(_CONFIG).partition(),
            cluster=Resource.parse(vcore="256", memory="1Ti", gpu="8"),
            subscribers=[history],
            clock=timeline.second,
        ) as partition,
        pages.served(partition, history, config_path=file, prepare=prepare) as address,
    ):
        yield World(address, file, store, begin, apps[0])


class Operator:
    """An operator at the page, whose clicks are counted; a text that is typed in one field is one."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = 0

    def click(self, role: Literal["button", "link", "row"], name: str) -> None:
        """Click what has a role and a name."""
        self._count(self.page.get_by_role(role, name=name, exact=role != "row").first.click)

    def type(self, label: str, text: str) -> None:
        """Type a text in a field."""
        self._count(lambda: self.page.get_by_label(label, exact=True).fill(text))

    def _count(self, act: Callable[[], None]) -> None:
        act()
        self.clicks += 1

    def row(self, table: str, *texts: str) -> None:
        """Expect that the first row of a table with the first text also has the others."""
        rows = self.page.get_by_role("table", name=table, exact=True).locator("tbody").get_by_role("row")
        self._expect(rows.filter(has_text=texts[0]).first, *texts)

    def first_row(self, table: str, *texts: str) -> None:
        """Expect texts in the first row of a table."""
        self._expect(self.page.get_by_role("table", name=table).locator("tbody").get_by_role("row").first, *texts)

    def tree_row(self, name: str, *texts: str) -> None:
        """Expect texts in a row of a tree."""
        self._expect(self.page.get_by_role("treegrid").get_by_role("row", name=name).first, *texts)

    def text(self, *texts: str) -> None:
        """Expect texts in the view."""
        self._expect(self.page.get_by_role("main"), *texts)

    def _expect(self, place: Locator, *texts: str) -> None:
        for text in texts:
            expect(place).to_contain_text(text)
        assert self.clicks <= _MOST


@pytest.fixture
def operator(page: Page, world: World) -> Operator:
    """Open the page at its first view."""
    page.goto(world.address)
    page.get_by_role("treegrid").wait_for()
    return Operator(page)


def test_who_uses_most_gpus_of_a_team(operator: Operator) -> None:
    """The users of a queue are sorted by their usage of a resource."""
    operator.click("link", "Users")
    operator.type("Queue", _TEAM)
    operator.click("button", "gpu")
    operator.first_row("users", "omar", "5")


def test_why_a_job_waits(operator: Operator) -> None:
    """A pending request names the limit that blocks it, and who holds the missing resources."""
    operator.click("link", "Waiting")
    operator.type("Find", "nina")
    operator.row("Pending requests", "train-nina.1", "queue root: 1 gpu requested", "Mostly held by train-omar")


def test_what_a_user_may_start(operator: Operator) -> None:
    """The detail of a user says what would still be granted."""
    operator.click("link", "Users")
    operator.click("link", "omar")
    operator.text("One more allocation there may take 48 cores, 160Gi, no gpu.")


def test_whether_a_user_may_start_a_job(world: World) -> None:
    """The command explains a hypothetical request."""
    request = ("--user", "omar", "--queue", f"{_TEAM}.queue1", "--usage", "gpu=2", "--duration", 60)
    denied = _run("explain", world.address, *request, status=3)
    assert "queue root: 2 gpu requested, 8 of 8 used, 2 too much" in denied
    assert "train-omar" in denied


def test_an_alert(operator: Operator) -> None:
    """The reason of an alert is found by the name of the limit."""
    operator.click("link", "Alerts")
    operator.type("Find a limit", "guests")
    operator.row("Nearly full limits", "quota node guests in sites", "56 of 56", "100%", "95%, 80%")
    operator.text("thresholds of 80%, 95%: 2 exceeded")


def test_yesterday_at_three(operator: Operator) -> None:
    """The usage at an earlier time is read from the history, of the resource that is scarcest now."""
    then = (datetime.now().astimezone() - timedelta(days=1)).replace(hour=15, minute=0)
    operator.click("row", "root")
    operator.type("At", f"{then:%Y-%m-%dT%H:%M}")
    operator.text(f"{then:%a} {then.day} {then:%b}", "15:00: ", " used")


def test_a_lower_limit(operator: Operator, world: World) -> None:
    """A limit is lowered in the file; the command shows the change before, and the page after it."""
    limit = "users: [user1]\n            maxresources: {vcore: 120"
    with _edited(world, limit, limit.replace("120", "100")) as difference:
        assert "~ user limit 'user1' in root: vcore 120 -> 100" in difference
        operator.click("link", "Configuration")
        operator.text("applied", "120 -> 100")


def test_draining(operator: Operator, world: World) -> None:
    """A queue that is removed from the file takes no more work."""
    queue = re.search(r" {14}- name: queue2\n.*?(?= {14}- name: queue3)", _CONFIG, re.DOTALL)
    assert queue
    with _edited(world, queue[0], "") as difference:
        assert f"queue {_TEAM}.queue2" in difference
        operator.tree_row("queue2", "draining")


def test_twenty_new_users(world: World) -> None:
    """Twenty users get the same limit at once."""
    names = [f"guest{number}" for number in range(20)]
    entry = f"          - {{users: [{', '.join(names)}], maxresources: {{vcore: 2}}}}\n"
    before = "          - limit: every other user"
    with _edited(world, before, entry + before) as difference:
        assert all(f"user limit '{name}' in root" in difference for name in names)
        request = ("--user", names[-1], "--queue", f"{_TEAM}.queue1", "--usage", "vcore=3", "--duration", 60)
        assert "never more than 2" in _run("explain", world.address, *request, status=3)


def test_bill(world: World) -> None:
    """The usage of every user in a calendar month is one table."""
    month = datetime.fromtimestamp(world.begin + _PLAYED // 2, UTC)
    lines = _run("usage", world.store, "--by", "user", "--month", f"{month:%Y-%m}", "--csv").splitlines()
    assert any("user1" in line.split(",") for line in lines)


def _run(*arguments: object, status: int = 0) -> str:
    """Run a command, and return its output."""
    answer = CliRunner().invoke(ugm, [str(one) for one in arguments], env={"COLUMNS": "200"})
    assert answer.exit_code == status, answer.output
    return answer.stdout


@contextmanager
def _edited(world: World, old: str, new: str) -> Iterator[str]:
    """Compare the configuration with an edited copy, and use the copy during the block; yield the differences."""
    copy = world.file.with_name("edited.yaml")
    copy.write_text(_CONFIG.replace(old, new), "utf-8")
    difference = _run("diff", world.file, copy, status=1)
    try:
        _install(world, copy.read_text("utf-8"))
        yield difference
    finally:
        _install(world, _CONFIG)


def _install(world: World, text: str) -> None:
    """Write the file, as the command ``cp`` does; the server reads it at the next check."""
    world.file.write_text(text, "utf-8")
    assert world.app.state.configurations.reload_if_changed()
