"""The page in a headless browser: its content, its input, and its accessibility."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from starlette.applications import Starlette

from support import page_server as pages
from support.page_server import CUT_OFF, ROWS
from support.server_fixtures import STATUS
from ugm import Partition, Resource, UserGroup, parse_config
from ugm.server import History
from ugm.service import ServiceStatus

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def crowd() -> Iterator[str]:
    """Serve a partition of 60 queues and 1,000 users."""
    with pages.served(*pages.crowd(60, 1000)) as address:
        yield address


@pytest.fixture
def few() -> Iterator[tuple[str, Partition]]:
    """Serve a partition of 3 queues in which a user is close to a limit."""
    history = History()
    limits = "limits: [{users: ['*'], maxresources: {vcore: 4, memory: 8Gi}}]"
    quota = "resources: {guaranteed: {vcore: 2}, max: {vcore: 10}}"
    text = f"partitions: [{{queues: [{{name: root, {limits}, queues: [{{name: a, {quota}}}, {{name: b}}]}}]}}]"
    partition = Partition(parse_config(text).partition(), subscribers=[history])
    for name in ("sue", pages.MARKUP):
        partition.submit(f"app-{name}", UserGroup(name, ("dev",)), "root.a")
        partition.allocate(f"first-{name}", f"app-{name}", Resource.parse(vcore="2500m", memory="4Gi"))
    partition.allocate("second", "app-sue", Resource.parse(vcore="2"))
    with pages.served(partition, history) as address:
        yield address, partition


@pytest.fixture(scope="module")
def formats(browser: Browser, gpus: str) -> Iterator[Page]:
    """Open a tab that can import the modules of the page."""
    tab = browser.new_page()
    tab.goto(f"{gpus}icon.svg")
    yield tab
    tab.close()


def test_tree_shows_usage_against_limits(page: Page, few: tuple[str, Partition]) -> None:
    """A queue is shown with the used part of its limit, and its guaranteed amount."""
    page.goto(few[0])
    row = page.locator('[data-path="root.a"]')
    expect(row).to_contain_text("5 of 10")
    expect(row.locator(".gauge").first).to_have_attribute("title", "5 cores used; limit 10 cores; guaranteed 2 cores")
    assert row.locator(".used").first.evaluate("(part) => part.offsetWidth") > 0


def test_changes_are_pushed(page: Page, few: tuple[str, Partition]) -> None:
    """The server tells of a change; until then, the page loads nothing."""
    page.goto(few[0])
    row = page.locator('[data-path="root.a"]')
    expect(row).to_contain_text("5 of 10")
    page.wait_for_function("import('./js/base/live.js').then(({live}) => live.tree() !== null)")
    page.wait_for_timeout(3000)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    page.wait_for_timeout(4000)
    assert [url for url in sent if "stream" not in url] == []
    few[1].release("first-sue")
    expect(row).to_contain_text("2.5 of 10")
    assert [url for url in sent if url.endswith("/queues")] == []


def test_pushed_queues_are_those_of_the_server(page: Page, few: tuple[str, Partition]) -> None:
    """The tree of the stream is the one that the server returns, after changes of every kind."""
    page.goto(few[0])
    page.wait_for_function("import('./js/base/live.js').then(({live}) => live.tree() !== null)")
    few[1].release("first-sue")
    few[1].submit("more", UserGroup("ana"), "root.b")
    few[1].request("waits", "more", Resource.parse(vcore="2"))
    same = """async () => {
      const { live } = await import('./js/base/live.js');
      const { get } = await import('./js/base/api.js');
      return JSON.stringify(live.tree()) === JSON.stringify(await get('partition/default/queues'));
    }"""
    page.wait_for_function(same)
    # The stream may connect again meanwhile, and has no tree until then.
    page.wait_for_function("import('./js/base/live.js').then(({live}) => live.tree()?.children.length === 2)")


def test_hidden_tab_sends_no_requests(page: Page, few: tuple[str, Partition]) -> None:
    """A hidden tab sends no requests, and is updated as soon as it is visible."""
    page.clock.install()
    page.goto(few[0])
    expect(page.locator(ROWS)).to_have_count(3)
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    page.clock.run_for(60_000)
    assert sent == []
    with page.expect_request("**/queues"):
        page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")


def test_names_with_markup_are_text(page: Page, few: tuple[str, Partition]) -> None:
    """A name is shown as it is, and nothing of it is executed or becomes an element."""
    page.goto(f"{few[0]}#/default/users")
    page.get_by_role("link", name=pages.MARKUP).click()
    expect(page.locator("#detail-heading")).to_have_text(f"User {pages.MARKUP}")
    assert page.locator("main img").count() == 0
    assert page.title() == f"{pages.MARKUP} - Users - default - ugm"


def test_detail_says_which_limit_binds(page: Page, few: tuple[str, Partition]) -> None:
    """The detail of a user has the whole chain. A limit binds if it leaves nothing."""
    page.clock.install()
    page.goto(f"{few[0]}#/default/users/sue")
    expect(page.locator(".chain tbody tr")).to_have_count(3)
    expect(page.locator(".chain tr:has(.badge)")).to_have_count(0)
    few[1].allocate("rest", "app-sue", Resource.parse(vcore="1500m"))
    # The page waits 15 times as long as the last answers took, on a busy machine up to 30 seconds.
    page.clock.run_for(30_000)
    expect(page.locator(".chain tr:has(.badge)")).to_have_text([re.compile("user sue.*Cores4 of 4.*0binds")])


def test_pending_allocations_show_binding_limits(page: Page, few: tuple[str, Partition]) -> None:
    """A limit that leaves less than a pending allocation requests is binding."""
    few[1].request("second", "app-sue", Resource.parse(vcore="2"))
    page.goto(f"{few[0]}#/default/applications/app-sue")
    expect(page.locator(".chain tr:has(.badge)")).to_have_text([re.compile("user sue.*Cores2.5 of 4.*1.5binds")])


def test_denials_have_reasons(page: Page, few: tuple[str, Partition]) -> None:
    """A denial shows its application, the requested amounts, and every violated limit."""
    page.goto(f"{few[0]}#/default/denials")
    expect(page.locator(".denials li").first).to_contain_text("app-sue requested 2 cores")
    reason = "user sue (by *) in root: 2 cores requested, 2.5 of 4 cores used, 0.5 cores too much"
    expect(page.locator(".reasons li")).to_have_text(reason)


def test_form_explains(page: Page, few: tuple[str, Partition]) -> None:
    """The form shows the decision, its reasons and the holders; a short form of it is announced to screen readers.

    An invalid value is explained with examples, not with a pattern.
    """
    page.goto(f"{few[0]}#/default/check")
    page.get_by_label("User").fill("sue")
    page.get_by_label("Queue, if").fill("root.a")
    page.get_by_label("Cores").fill("1.75")
    page.keyboard.press("Enter")
    expect(page.locator("#answer h3")).to_have_text("No, not now: waiting can help.")
    expect(page.locator(".reasons")).to_contain_text("Mostly held by app-sue (sue, 2.5 cores).")
    expect(page.locator("#announcements")).to_have_text("No, not now: waiting can help.")
    assert Axe().run(page).violations_count == 0
    page.get_by_label("Memory").fill("8 gigs")
    page.get_by_role("button", name="Ask").click()
    error = page.locator("#answer .error")
    expect(error).to_contain_text("The server refused the request: ")
    expect(error).to_contain_text("'memory': expected a whole number in the base unit, or a quantity")
    expect(error).not_to_contain_text("[0-9]")


def test_freshness_is_honest(page: Page) -> None:
    """Figures are called live only while they are current; otherwise the page shows their time and the reason."""
    with pages.served(*pages.crowd(3, 5)) as address:
        page.clock.install()
        page.goto(address)
        expect(page.locator(ROWS)).to_have_count(4)
        expect(page.locator(".live > span")).to_contain_text("live, ")
        page.get_by_role("button", name="Pause").click()
        expect(page.locator(".live > span")).to_contain_text("paused, as of ")
        # The requests are blocked before the page polls again: an answer that is already under way would appear to
        # have taken as long as the clock is advanced.
        page.route("**/api/v1/**", lambda _route: None)
        page.get_by_role("button", name="Pause").click()
        page.clock.run_for(15_000)
        expect(page.locator(".live > span")).to_contain_text("waiting for the server, as of ")
        page.unroute("**/api/v1/**")
        page.reload()
        expect(page.locator(ROWS)).to_have_count(4)
    page.clock.run_for(30_000)
    expect(page.locator(".view > .error")).to_contain_text("The server does not respond. The figures are of ")
    expect(page.locator(".live > span")).to_contain_text("not connected, as of ")
    expect(page.locator(ROWS)).to_have_count(4)
    page.clock.run_for(1000)
    expect(page.locator("#announcements")).to_have_text("The server does not respond; trying again.")


def test_refused_configuration_is_shown(page: Page, tmp_path: Path) -> None:
    """While the configuration file has problems, every view shows the first of them."""
    file = tmp_path / "queues.yaml"
    file.write_text("partitions: [{queues: [{name: a}]}]")

    def refuse(app: Starlette) -> None:
        file.write_text("partitions: [{queues: [{name: a, resources: {max: {memory: -1}}}, {name: a}]}]")
        assert app.state.configurations.reload_if_changed()

    with pages.served(*pages.crowd(3, 5), config_path=file, prepare=refuse) as address:
        for view in ("queues", "users", "denials"):
            page.goto(f"{address}#/default/{view}")
            banner = page.locator(".view > .error")
            expect(banner).to_contain_text(
                "The configuration file has problems, so that of the start is still in force"
            )
            expect(banner).to_contain_text("-1")
            expect(banner).to_contain_text("(and 1 other problem)")
            assert page.evaluate(CUT_OFF) == []
        assert Axe().run(page).violations_count == 0
    page.goto("about:blank")


def test_partitions_are_chosen(page: Page) -> None:
    """The reader can choose one of several partitions; the page shows if one has no history."""
    small, large = pages.crowd(1, 2)[0], pages.crowd(5, 9)[0]
    with pages.served(small, large=large) as address:
        page.goto(f"{address}#/default/denials")
        expect(page.locator(".empty")).to_have_text("The server keeps no history of this partition.")
        page.get_by_role("link", name="Queues").click()
        page.get_by_label("Partition").select_option("large")
        expect(page.locator(ROWS)).to_have_count(6)
        assert page.url == f"{address}#/large/queues"


def test_pause_stops_the_figures(page: Page, few: tuple[str, Partition]) -> None:
    """A change during a pause is shown when the page continues."""
    page.clock.install()
    page.goto(few[0])
    row = page.locator('[data-path="root.a"]')
    page.get_by_role("button", name="Pause").click()
    few[1].release("first-sue")
    page.clock.run_for(60_000)
    expect(row).to_contain_text("5 of 10")
    page.get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("2.5 of 10")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("withUnit('vcore', 2500)", "2.5 cores"),
        ("withUnit('memory', 4 * 2 ** 30)", "4Gi"),
        ("amountText('memory', 2n ** 70n)", "1,024Ei"),
        ("amountText('memory', -1536)", "-1.5Ki"),
        ("withUnit('gpu', 12345)", "12,345 gpu"),
        ("amountsText({memory: 1, gpu: 2, vcore: 0})", "no cores, 1, 2 gpu"),
        ("percent(0.001)", "<1%"),
        ("ago(0, 7200000)", "2 h ago"),
        (
            "duration && [0, 0.0405, 0.9996, 59.99, 119, 7200].map(format.duration).join()",
            "<1 ms,40 ms,999 ms,59.9 s,1 min,2 h",
        ),
        ("amountText('ephemeral-storage', 858993459200)", "800Gi"),
        ("amountText('licences', 858993459200)", "858.99G"),
        ("exactText('ephemeral-storage', 2048)", "2,048 bytes of ephemeral-storage"),
        ("byName && ['team10', 'team2', 'Team1', 'a'].sort(format.byName).join()", "a,Team1,team2,team10"),
    ],
)
def test_formats(formats: Page, call: str, text: str) -> None:
    """Amounts have their units, and digits are truncated, never rounded up."""
    assert formats.evaluate(f"import('./js/base/format.js').then(format => format.{call})") == text


def test_crowd_is_found_and_paged(page: Page, crowd: str) -> None:
    """Of 1,000 users a page shows those closest to a limit, and each can be found by a part of the name."""
    page.goto(f"{crowd}#/default/users")
    expect(page.locator(".list tbody tr")).to_have_count(50)
    shares = page.locator(".list .share").all_inner_texts()
    assert shares == sorted(shares, key=lambda text: -int(text.rstrip("%")))
    page.get_by_role("link", name="Next").click()
    expect(page.locator(".pages")).to_contain_text("2 of ")
    page.get_by_label("Find a user").fill("R432")
    expect(page.locator(".list tbody th")).to_have_text(["user432"])


def test_menu_of_a_narrow_window(page: Page, few: tuple[str, Partition]) -> None:
    """In a narrow window the views are in a menu, whose button shows the current one; Escape or a choice closes it."""
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{few[0]}#/default/users")
    button, views = page.locator(".menu"), page.locator("nav ul")
    expect(button).to_have_accessible_name("View: Users")
    expect(views).to_be_hidden()
    button.press("Enter")
    expect(button).to_have_attribute("aria-expanded", "true")
    assert Axe().run(page).violations_count == 0
    assert page.evaluate(CUT_OFF) == []
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    expect(views).to_be_hidden()
    expect(button).to_be_focused()
    button.press("Enter")
    views.get_by_role("link", name="Denials").click()
    expect(button).to_have_accessible_name("View: Denials")
    expect(views).to_be_hidden()
    expect(page.locator("#heading")).to_be_focused()


@pytest.fixture
def led() -> Iterator[tuple[str, list[ServiceStatus]]]:
    """Serve a partition of a service whose last status is shown."""
    found = [STATUS]
    history = History()
    partition = Partition(parse_config("partitions: [{queues: [{name: root}]}]").partition(), subscribers=[history])
    with pages.served(partition, history, status=lambda: found[-1]) as address:
        yield address, found


def test_service_is_shown(page: Page, led: tuple[str, list[ServiceStatus]]) -> None:
    """The view of a service has its leader, its clients and its commits, or the age of a standby."""
    page.clock.install()
    page.goto(led[0])
    page.get_by_role("link", name="Service", exact=True).click()
    facts = page.locator(".facts")
    for text in ("a:1", "unix:/a · this process", "Term3", "1 not connected", "Waiting operations6", "4 ms"):
        expect(facts).to_contain_text(text)
    expect(page.locator("#view .error")).to_have_count(0)

    led[1].append(replace(STATUS, name="b:2", is_leading=False, age=12.0, outage="no space"))
    page.clock.run_for(30_000)
    expect(page.locator("#view .error")).to_contain_text(["no space", "has not read the log for 12 s"])
    expect(facts).to_contain_text("this process, b:2, stands by")
    expect(facts).to_contain_text("Age12 s")
    assert Axe().run(page).violations_count == 0


def test_a_standby_refers_to_the_leader_for_denials(page: Page, led: tuple[str, list[ServiceStatus]]) -> None:
    """A standby knows no denials, and does not say that there were none."""
    page.goto(f"{led[0]}#/default/denials")
    expect(page.locator(".empty")).to_have_text("Nothing was denied yet.")
    led[1].append(replace(STATUS, name="b:2", is_leading=False))
    page.reload()
    expect(page.locator(".empty")).to_have_text("No denial is known here.")
    expect(page.locator("#view")).to_contain_text("Denials are known only at the leader, a:1 at unix:/a.")
    expect(page.locator("#view")).not_to_contain_text("0 denials")


def test_status_is_shown_without_a_leader(page: Page, led: tuple[str, list[ServiceStatus]]) -> None:
    """While no process leads, the partition cannot be read, and the status of the service is still shown."""
    page.route("**/partition/default", lambda route: route.fulfill(status=503, json={"code": "x", "detail": "y"}))
    led[1].append(replace(STATUS, is_leading=False, age=12.0))
    page.goto(f"{led[0]}#/default/service")
    expect(page.locator("#view .error")).to_contain_text("has not read the log for 12 s")
    expect(page.locator(".facts")).to_contain_text("Term3")


def test_partition_without_a_service_has_no_view_of_it(page: Page, few: tuple[str, Partition]) -> None:
    """The tab is missing if the partition is not part of a service, and an address of the view says so."""
    page.goto(f"{few[0]}#/default/service")
    expect(page.locator("#view")).to_contain_text("This partition is not part of a service")
    page.get_by_role("link", name="Users").click()
    expect(page.locator(".utilization")).to_be_visible()
    expect(page.get_by_role("link", name="Service", exact=True)).to_have_count(0)


GPUS = """
partitions:
- queues:
  - name: root
    limits: [{users: ["*"], maxresources: {nvidia.com/gpu: 8}}]
    queues:
    - name: ml
      resources:
        max: {vcore: 64, memory: 512Gi, nvidia.com/gpu: 16, ephemeral-storage: 4Ti, nvidia.com/mig-1g.10gb: 14}
    - {name: full, resources: {max: {vcore: 10}}}
    - {name: guaranteed, resources: {guaranteed: {vcore: 1}, max: {vcore: 100}}}
    - {name: team10}
    - {name: team2}
"""
LONG = "name-" * 51


@pytest.fixture(scope="module")
def gpus() -> Iterator[str]:
    """Serve a partition with many resources, of which GPUs are used up, names of all lengths, and a waiting user."""
    history = History()
    partition = Partition(parse_config(GPUS).partition(), subscribers=[history])
    node = {"nvidia.com/gpu": "16", "ephemeral-storage": "8Ti", "nvidia.com/mig-1g.10gb": "14"}
    partition.add_node("node", Resource.parse(vcore="256", memory="1Ti", **node))
    usage = Resource.parse(vcore="8", memory="64Gi", **{"nvidia.com/gpu": "4", "ephemeral-storage": "200Gi"})
    for number in range(4):
        partition.submit(f"train-{number}", UserGroup(f"user{number}"), "root.ml")
        assert partition.allocate(f"w{number}", f"train-{number}", usage)
    partition.submit("train-9", UserGroup("starved"), "root.ml")
    partition.request("w9", "train-9", usage)
    partition.allocate("w9", "train-9", usage)
    for queue, name, cores in (("full", LONG, "9"), ("guaranteed", "plain", "20")):
        partition.submit(name, UserGroup(name), f"root.{queue}")
        assert partition.allocate(name, name, Resource.parse(vcore=cores))
    with pages.served(partition, history) as address:
        yield address


def test_short_resources_are_visible(page: Page, gpus: str) -> None:
    """The resource that is short has a column, whatever its name; users with only pending allocations are listed."""
    page.goto(gpus)
    expect(page.locator('[data-path="root.ml"]')).to_contain_text("16 of 16")
    expect(page.locator('[data-path="root.ml"]')).to_contain_text("800Gi of 4Ti")
    expect(page.locator('[role="columnheader"]')).to_contain_text(
        ["Queue", "Cores", "Memory", "ephemeral-storage", "nvidia.com/gpu", "Running", "Pending"]
    )
    expect(page.locator(".tools")).to_contain_text("also counted: nvidia.com/mig-1g.10gb")
    expect(page.locator(".summary")).to_contain_text("16 of 16")
    page.goto(f"{gpus}#/default/users")
    expect(page.locator(".utilization thead")).to_contain_text("nvidia.com/gpu")
    row = page.locator(".utilization tbody tr", has_text="starved")
    expect(row.locator("td").last).to_have_text("1")
    row.get_by_role("link", name="starved").click()
    expect(page.locator(".chain")).to_contain_text("user starved")


def test_order_of_queues(page: Page, gpus: str) -> None:
    """Queues are in natural order, or sorted by the used share of their nearest limit or by any column."""
    page.goto(gpus)
    names = page.locator(".rows .label")
    expect(names).to_have_text(["root", "full", "guaranteed", "ml", "team2", "team10"])
    page.get_by_label("Order").select_option("Share of the limit")
    expect(names).to_have_text(["root", "ml", "full", "guaranteed", "team2", "team10"])
    page.get_by_role("button", name="Memory").click()
    expect(names).to_have_text(["root", "ml", "full", "guaranteed", "team2", "team10"])
    page.get_by_role("button", name="Running").click()
    expect(names).to_have_text(["root", "ml", "full", "guaranteed", "team2", "team10"])
    page.reload()
    expect(page.get_by_role("columnheader", name="Running")).to_have_attribute("aria-sort", "descending")
    page.get_by_role("button", name="Queue", exact=True).click()
    expect(names).to_have_text(["root", "full", "guaranteed", "ml", "team2", "team10"])


def test_users_are_sorted_by_every_column(page: Page, gpus: str) -> None:
    """Users are sorted by every column; the browser remembers the order and the selected columns."""
    page.goto(f"{gpus}#/default/users")
    names = page.locator(".utilization tbody th")
    expect(names.first).to_have_text("user0")
    page.get_by_role("button", name="User", exact=True).click()
    expect(names).to_have_text([LONG, "plain", "starved", "user0", "user1", "user2", "user3"])
    page.get_by_role("button", name="Cores").click()
    expect(names.first).to_have_text("plain")
    page.get_by_role("button", name="Pending").click()
    expect(names.first).to_have_text("starved")
    page.locator("summary", has_text="Columns").click()
    page.get_by_role("checkbox", name="Memory").click()
    page.reload()
    expect(names.first).to_have_text("starved")
    expect(page.locator("thead")).not_to_contain_text("Memory")
    page.locator("summary", has_text="Columns").click()
    page.get_by_role("checkbox", name="the scarcest").click()
    expect(page.locator("thead")).to_contain_text("Memory")
    expect(page.get_by_role("columnheader", name="Pending")).to_have_attribute("aria-sort", "descending")


def test_only_exhausted_quotas_bind(page: Page, gpus: str) -> None:
    """In the detail of a queue, quotas with a free amount do not bind, however much is pending."""
    page.goto(f"{gpus}#/default/queues/root.ml")
    expect(page.locator(".chain tr:has(.badge)")).to_have_text([re.compile("16 of 16.*0binds")] * 2)


def test_allocations_of_an_application(page: Page, few: tuple[str, Partition]) -> None:
    """The detail of an application lists its allocations with their nodes, and the nodes of pending ones."""
    address, partition = few
    partition.submit("placed", UserGroup("ana"), "root.b")
    assert partition.allocate("placed-0", "placed", Resource(), node="n1")
    partition.request("placed-1", "placed", Resource(), node="n2")
    page.goto(f"{address}#/default/applications/placed")
    expect(page.locator(".detail-side .plain li")).to_have_text(
        [re.compile("placed-0.* on n1"), re.compile("placed-1.* on n2")]
    )
