"""The page in a real browser, headless: what it shows, what it hears, and that everybody can use it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from support import page_server as pages
from support.page_server import BROWSER
from ugm import Partition, Resource, UserGroup, parse_config
from ugm.server import History

pytestmark = pytest.mark.ci


Scheme: TypeAlias = Literal["light", "dark"]

#: Rows of the tree that are in the document.
ROWS = '.rows > [role="row"]'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start the browser once."""
    if BROWSER is None:
        pytest.skip("no browser: the page is not tested; install Debian's package chromium, or name one in UGM_BROWSER")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def crowd() -> Iterator[str]:
    """Serve a partition of 3,000 queues and 10,000 users."""
    with pages.served(*pages.crowd(3000, 10_000)) as address:
        yield address


@pytest.fixture
def few() -> Iterator[tuple[str, Partition]]:
    """Serve a partition of 3 queues in which somebody is at a limit."""
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
def formats(browser: Browser, crowd: str) -> Iterator[Page]:
    """Open a tab from whose address the modules of the page can be loaded."""
    tab = browser.new_page()
    tab.goto(f"{crowd}icon.svg")
    yield tab
    tab.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Open a tab that may say nothing on its console, and may ask nobody but the server."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(20_000)
    tab = context.new_page()
    said: list[str] = []
    tab.on("console", lambda message: said.extend(_told(message)))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("request", lambda request: said.extend([request.url] if "//127.0.0.1:" not in request.url else []))
    yield tab
    context.close()
    assert said == []


def _told(message: ConsoleMessage) -> list[str]:
    # The browser notes every answer that is no; the page shows it to whoever asked.
    is_refusal = "Failed to load resource" in message.text and "/ws/v1/" in message.location["url"]
    return [] if is_refusal else [f"{message.type}: {message.text}"]


def _numbers(page: Page, script: str) -> list[float]:
    found: list[float] = page.evaluate(script)
    return found


def test_tree_shows_usage_against_limits(page: Page, few: tuple[str, Partition]) -> None:
    """A queue is told with what it uses of its limit, and what it is guaranteed."""
    page.goto(few[0])
    row = page.locator('[data-path="root.a"]')
    expect(row).to_contain_text("5 of 10")
    expect(row.locator(".gauge").first).to_have_attribute("title", "5 cores used; limit 10 cores; guaranteed 2 cores")
    assert (
        _numbers(page, "[...document.querySelectorAll('[data-path=\"root.a\"] .used')].map(e => e.offsetWidth)")[0] > 0
    )


def test_page_is_live(page: Page, few: tuple[str, Partition]) -> None:
    """What changes in the partition is seen without anybody asking."""
    page.clock.install()
    page.goto(few[0])
    expect(page.locator('[data-path="root.a"]')).to_contain_text("5 of 10")
    few[1].release("first-sue")
    page.clock.run_for(30_000)
    expect(page.locator('[data-path="root.a"]')).to_contain_text("2.5 of 10")


def test_hidden_tab_asks_nothing(page: Page, few: tuple[str, Partition]) -> None:
    """A tab that nobody looks at is silent, and up to date as soon as it is looked at."""
    page.clock.install()
    page.goto(few[0])
    expect(page.locator(ROWS)).to_have_count(3)
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(60_000)
    assert asked == []
    with page.expect_request("**/queues"):
        page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")


def test_names_with_markup_are_text(page: Page, few: tuple[str, Partition]) -> None:
    """A name is shown as it is, and nothing of it is executed or becomes an element."""
    page.goto(f"{few[0]}#/default/users")
    page.get_by_role("link", name=pages.MARKUP).click()
    expect(page.locator("#detail-heading")).to_have_text(f"User {pages.MARKUP}")
    assert page.locator("main img").count() == 0
    assert page.title() == f"{pages.MARKUP} - Users - default - ugm"


@pytest.mark.deep  # depends on the tests before it; to be made independent
def test_detail_says_which_limit_binds(page: Page, few: tuple[str, Partition]) -> None:
    """The detail of a user has the whole chain; a limit with something left does not bind, one with nothing does."""
    page.goto(f"{few[0]}#/default/users/sue")
    expect(page.locator(".chain tbody tr")).to_have_count(3)
    expect(page.locator(".chain tr.binds")).to_have_count(0)
    few[1].allocate("rest", "app-sue", Resource.parse(vcore="1500m"))
    expect(page.locator(".chain tr.binds")).to_have_text([re.compile("user sue.*Cores4 of 4.*0binds")])


def test_what_waits_shows_what_binds(page: Page, few: tuple[str, Partition]) -> None:
    """A limit that leaves less than is pending binds, although something is left."""
    few[1].request("second", "app-sue", Resource.parse(vcore="2"))
    page.goto(f"{few[0]}#/default/applications/app-sue")
    expect(page.locator(".chain tr.binds")).to_have_text([re.compile("user sue.*Cores2.5 of 4.*1.5binds")])


def test_denials_have_reasons(page: Page, few: tuple[str, Partition]) -> None:
    """A denial says who asked for what, and every limit in the way."""
    page.goto(f"{few[0]}#/default/denials")
    expect(page.locator(".denials li").first).to_contain_text("app-sue asked for 2 cores")
    reason = "user sue (by *) in root: 2 cores requested, 2.5 of 4 cores used, 0.5 cores too much"
    expect(page.locator(".reasons li")).to_have_text(reason)


def test_form_explains(page: Page, few: tuple[str, Partition]) -> None:
    """The form answers with yes or no, why, and who holds what is missing; a screen reader is told in short."""
    page.goto(f"{few[0]}#/default/ask")
    page.get_by_label("User").fill("sue")
    page.get_by_label("Queue, if").fill("root.a")
    page.get_by_label("Cores").fill("1.75")
    page.keyboard.press("Enter")
    expect(page.locator("#answer h3")).to_have_text("No, not now: waiting can help.")
    expect(page.locator(".reasons")).to_contain_text("Mostly held by app-sue (sue, 2.5 cores).")
    expect(page.locator("#told")).to_have_text("No, not now: waiting can help.")
    page.get_by_label("Cores").fill("lots")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("#answer .error")).to_contain_text("The server refused the request: ")


def test_lost_server_is_told(page: Page) -> None:
    """When the server is gone, the last figures stay, and the page says of when they are."""
    with pages.served(*pages.crowd(3, 5)) as address:
        page.clock.install()
        page.goto(address)
        expect(page.locator(ROWS)).to_have_count(4)
    page.clock.run_for(30_000)
    expect(page.locator(".view > .error")).to_contain_text("the server does not respond. The figures are of ")
    expect(page.locator(".live > span")).to_contain_text("not connected, as of ")
    expect(page.locator(ROWS)).to_have_count(4)
    page.clock.run_for(1000)
    expect(page.locator("#told")).to_have_text("the server does not respond; trying again.")


def test_partitions_are_chosen(page: Page) -> None:
    """Where there are several partitions, the one to look at is chosen; one without a history says so."""
    small, large = pages.crowd(1, 2)[0], pages.crowd(5, 9)[0]
    with pages.served(small, large=large) as address:
        page.goto(f"{address}#/default/denials")
        expect(page.locator(".empty")).to_have_text("The server keeps no history of this partition.")
        page.get_by_role("link", name="Queues").click()
        page.get_by_label("Partition").select_option("large")
        expect(page.locator(ROWS)).to_have_count(6)
        assert page.url == f"{address}#/large/queues"


def test_pause_stops_the_figures(page: Page, few: tuple[str, Partition]) -> None:
    """What changes while the page is paused is seen when it goes on."""
    page.clock.install()
    page.goto(few[0])
    row = page.locator('[data-path="root.a"]')
    page.get_by_role("button", name="Pause").click()
    few[1].release("first-sue")
    page.clock.run_for(60_000)
    expect(row).to_contain_text("5 of 10")
    page.get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("2.5 of 10")


def test_amounts_are_exact(page: Page, few: tuple[str, Partition]) -> None:
    """An amount that no floating-point number holds is shown to the last digit."""
    address, partition = few
    partition.submit("app-large", UserGroup("large"), "root.b")
    partition.adopt("large", "app-large", Resource(memory=2**53 + 1))
    page.goto(address)
    title = "9,007,199,254,740,993 bytes used"
    expect(page.locator('[data-path="root.b"] .gauge').nth(1)).to_have_attribute("title", title)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("withUnit('vcore', 1000)", "1 core"),
        ("withUnit('vcore', 2500)", "2.5 cores"),
        ("withUnit('memory', 4 * 2 ** 30)", "4Gi"),
        ("amountText('memory', 2n ** 70n)", "1,024Ei"),
        ("amountText('memory', -1536)", "-1.5Ki"),
        ("withUnit('gpu', 12345)", "12,345 gpu"),
        ("amountsText({memory: 1, gpu: 2, vcore: 0})", "no cores, 1, 2 gpu"),
        ("percent(0.9999)", "99%"),
        ("percent(0.001)", "<1%"),
        ("ago(0, 7200000)", "2 h ago"),
        ("amountText('ephemeral-storage', 858993459200)", "800Gi"),
        ("amountText('hugepages-2Mi', 2097152)", "2Mi"),
        ("amountText('licences', 858993459200)", "858.99G"),
        ("amountText('licences', 999999)", "999,999"),
        ("exactText('ephemeral-storage', 2048)", "2,048 bytes of ephemeral-storage"),
        ("byName && ['team10', 'team2', 'Team1', 'a'].sort(format.byName).join()", "a,Team1,team2,team10"),
    ],
)
def test_figures_as_people_write_them(formats: Page, call: str, text: str) -> None:
    """Figures have their units, and what does not fit is cut off, never rounded up."""
    assert formats.evaluate(f"import('./js/format.js').then(format => format.{call})") == text


def test_keyboard_walks_the_tree(page: Page, few: tuple[str, Partition]) -> None:
    """Arrow keys move, open and close; Enter opens the detail and takes the focus there, closing brings it back."""
    page.goto(few[0])
    page.locator('[data-path="root"]').focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator('[data-path="root.a"]')).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#detail-heading")).to_be_focused()
    page.get_by_role("link", name="Close").press("Enter")
    expect(page.locator('[data-path="root.a"]')).to_be_focused()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(ROWS)).to_have_count(1)
    page.keyboard.press("ArrowRight")
    expect(page.locator(ROWS)).to_have_count(3)


def test_crowd_is_drawn_in_parts(page: Page, crowd: str) -> None:
    """Of 3,000 queues only those that can be seen are in the document, from the first to the last."""
    page.goto(crowd)
    page.get_by_label("Find a queue").fill("leaf")
    expect(page.locator('[role="treegrid"]')).to_have_attribute("aria-rowcount", "3002")
    page.locator(ROWS).first.focus()
    page.keyboard.press("End")
    last = page.locator(':focus[aria-rowindex="3002"]')
    expect(last).to_be_in_viewport()
    assert page.locator("*").count() < 1500


def test_crowd_is_found_and_paged(page: Page, crowd: str) -> None:
    """Of 10,000 users a page shows those closest to a limit, and anybody is found by a part of the name."""
    page.goto(f"{crowd}#/default/users")
    expect(page.locator(".list tbody tr")).to_have_count(50)
    shares = page.locator(".list .share").all_inner_texts()
    assert shares == sorted(shares, key=lambda text: -int(text.rstrip("%")))
    page.get_by_role("link", name="Next").click()
    expect(page.locator(".pages")).to_contain_text("2 of ")
    page.get_by_label("Find a user").fill("R4321")
    expect(page.locator(".list tbody th")).to_have_text(["user4321"])


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_accessibility(browser: Browser, few: tuple[str, Partition], scheme: Scheme, width: int) -> None:
    """No view breaks a rule of axe, nor is wider than the window, light or dark, wide or narrow."""
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce")
    for view in ("queues/root.a", "users/sue", "groups", "applications/app-sue", "denials", "ask"):
        tab.goto(f"{few[0]}#/default/{view}")
        tab.locator(f'nav a[aria-current="page"][href$="{view.split("/")[0]}"]').wait_for()
        tab.locator("#heading").wait_for()
        if view == "ask":
            tab.get_by_label("User").fill("sue")
            tab.get_by_label("Cores").fill("3")
            tab.keyboard.press("Enter")
            tab.locator("#answer h3").wait_for()
        found = Axe().run(tab)
        assert found.violations_count == 0, f"{view}: {found.generate_report()}"
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.close()


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
    """The resource that is short has a column, whatever its name; storage is shown in its unit."""
    page.goto(gpus)
    expect(page.locator('[data-path="root.ml"]')).to_contain_text("16 of 16")
    expect(page.locator('[data-path="root.ml"]')).to_contain_text("800Gi of 4Ti")
    expect(page.locator('[role="columnheader"]')).to_contain_text(
        ["Queue", "Cores", "Memory", "ephemeral-storage", "nvidia.com/gpu", "Applications", "Pending"]
    )
    expect(page.locator(".tools")).to_contain_text("also counted: nvidia.com/mig-1g.10gb")
    expect(page.locator(".summary")).to_contain_text("16 of 16")
    page.goto(f"{gpus}#/default/users")
    expect(page.locator(".standing thead")).to_contain_text("nvidia.com/gpu")


def test_order_of_queues(page: Page, gpus: str) -> None:
    """Queues are sorted as people count; the fullest are those with the largest used share of their nearest limit."""
    page.goto(gpus)
    names = page.locator(".rows .label")
    expect(names).to_have_text(["root", "full", "guaranteed", "ml", "team2", "team10"])
    page.get_by_label("fullest first").check()
    expect(names).to_have_text(["root", "ml", "full", "guaranteed", "team2", "team10"])


def test_only_exhausted_quotas_bind(page: Page, gpus: str) -> None:
    """In the detail of a queue, quotas with something left do not bind, however much is pending."""
    page.goto(f"{gpus}#/default/queues/root.ml")
    expect(page.locator(".chain tr.binds")).to_have_text([re.compile("16 of 16.*0binds")] * 2)


def test_user_with_nothing_but_pending_work(page: Page, gpus: str) -> None:
    """A user for whom nothing runs yet is listed with what is pending, and has a detail."""
    page.goto(f"{gpus}#/default/users")
    row = page.locator(".standing tbody tr", has_text="starved")
    expect(row.locator("td").last).to_have_text("1")
    row.get_by_role("link", name="starved").click()
    expect(page.locator(".chain")).to_contain_text("user starved")


#: Elements whose text is cut off, other than by dots, and those that stick out of the window.
CUT_OFF = """() => [...document.querySelectorAll('#view *, #top *')].filter((e) => {
  const style = getComputedStyle(e);
  if (!e.offsetParent || !e.clientWidth || e.closest('.unseen')) return false;
  const hasDots = style.textOverflow === 'ellipsis' || /[0-9]/.test(style.webkitLineClamp);
  const cut = style.overflowX !== 'visible' && !hasDots;
  const isOut = e.getBoundingClientRect().right > document.documentElement.clientWidth + 1;
  return isOut || (cut && e.scrollWidth > e.clientWidth + 1);
}).map((e) => `${e.tagName}.${e.className}`)"""


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize(
    "view", ["queues", "queues/root.ml", "users", f"users/{LONG}", "applications/train-9", "denials"]
)
def test_nothing_is_cut_off(page: Page, gpus: str, view: str, width: int) -> None:
    """On a usual and on a small screen, all is in its place, with names of 255 characters, too."""
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{gpus}#/default/{view}")
    page.locator("#detail-heading" if "/" in view else "#heading").wait_for()
    assert page.evaluate(CUT_OFF) == []
    for one in page.locator(".clip, .name-link, .long-name").all():
        assert one.get_attribute("title")


def test_escape_closes_the_detail(page: Page, gpus: str) -> None:
    """Escape closes a detail, and leaves a search field alone that has something in it."""
    page.goto(f"{gpus}#/default/queues/root.ml")
    expect(page.locator("#detail-heading")).to_be_visible()
    page.get_by_label("Find a queue").fill("ml")
    page.keyboard.press("Escape")
    expect(page.locator("#detail-heading")).to_be_visible()
    page.locator("#detail-heading").focus()
    page.keyboard.press("Escape")
    expect(page.locator("#detail-heading")).to_have_count(0)
    assert page.url == f"{gpus}#/default/queues"


def test_freshness_is_honest(page: Page) -> None:
    """Figures are called live only while they are; then the page says of when they are, and why."""
    with pages.served(*pages.crowd(3, 5)) as address:
        page.clock.install()
        page.goto(address)
        expect(page.locator(".live > span")).to_contain_text("live, ")
        page.get_by_role("button", name="Pause").click()
        expect(page.locator(".live > span")).to_contain_text("paused, as of ")
        page.get_by_role("button", name="Pause").click()
        expect(page.locator(".live > span")).to_contain_text("live, ")
        page.route("**/ws/v1/**", lambda _route: None)
        page.clock.run_for(15_000)
        expect(page.locator(".live > span")).to_contain_text("waiting for the server, as of ")
        page.unroute("**/ws/v1/**")
    page.goto("about:blank")


def test_long_intervals_are_not_live(page: Page, few: tuple[str, Partition]) -> None:
    """Where answers take long and the page asks seldom, it says how often instead of calling itself live."""
    page.goto(few[0])
    expect(page.locator(".live > span")).to_contain_text("live, ")
    rested = "const p = new Pace(async () => {}); p.rest(1900); p.stop(); return p.interval;"
    assert page.evaluate(f"import('./js/pace.js').then(({{Pace}}) => {{ {rested} }})") == 28_500


def test_refused_form_has_no_patterns(page: Page, few: tuple[str, Partition]) -> None:
    """What the server does not understand is explained with examples, not with a pattern."""
    page.goto(f"{few[0]}#/default/ask")
    page.get_by_label("User").fill("sue")
    page.get_by_label("Memory").fill("8 gigs")
    page.keyboard.press("Enter")
    expect(page.locator("#answer .error")).to_contain_text(
        "'8 gigs' is not a whole number in the base unit, or a quantity"
    )
    expect(page.locator("#answer .error")).not_to_contain_text("[0-9]")
