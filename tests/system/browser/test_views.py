"""History, nodes, budgets and the configuration in a headless browser."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Iterator
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from support import page_server as pages
from support.page_worlds import HEBREW, LONG, SCENARIOS, Place, open_place
from ugm import Partition, Resource, UserGroup, parse_config
from ugm.server import History

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a partition whose GPUs were taken one after the other in the last hour, with names of all kinds."""
    with SCENARIOS["full"].serve(tmp_path_factory.mktemp("full")) as address:
        yield address


def test_history_has_the_limit(page: Page, full: str) -> None:
    """The plot of a queue shows the scarcest resource with its limit; the text has the exact values."""
    page.goto(f"{full}#/default/queues/root.ml")
    plot = page.locator("#history")
    expect(plot.locator(".legend li")).to_have_text(["Used", "Limit now"])
    expect(plot.locator(".readout")).to_contain_text(
        "16 nvidia.com/gpu in the newest step, at most 16 nvidia.com/gpu; limit now 16"
    )
    assert plot.locator("path.used").get_attribute("d") is not None
    plot.get_by_label("Of").select_option("Cores")
    expect(plot.locator(".readout")).to_contain_text("4 cores in the newest step")


def test_history_as_a_file(page: Page, full: str) -> None:
    """The file has the value of every step."""
    page.goto(f"{full}#/default/queues/root.ml")
    with page.expect_download() as found:
        page.get_by_role("link", name="CSV").click()
    lines = csv.DictReader(found.value.path().read_text().splitlines())
    gpus = [line["usage"] for line in lines if line["resource"] == "nvidia.com/gpu"]
    # Each step has the average of a minute; the GPUs were taken every 210 seconds.
    assert gpus == [str(min(16, 1 + 60 * minute // 210)) for minute in range(60)]


def test_history_of_other_ranges(page: Page, full: str) -> None:
    """The reader chooses the last hour, day or week, and the browser remembers it."""
    page.goto(f"{full}#/default/queues/root.ml")
    page.get_by_role("button", name="Last day").click()
    page.reload()
    expect(page.get_by_role("button", name="Last day")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#history path.used")).to_have_count(1)


def test_nodes(page: Page, full: str) -> None:
    """The nodes are listed in natural order, and found by a part of their name."""
    page.goto(f"{full}#/default/nodes")
    expect(page.locator(".nodes tbody th")).to_have_text(["gpu-2", "gpu-10", LONG])
    expect(page.locator(".nodes tbody tr").first.locator("td")).to_have_text(["64", "256Gi", "16"])
    page.get_by_label("Find a node").fill("PU-1")
    expect(page.locator(".nodes tbody th")).to_have_text(["gpu-10"])


def test_configuration(page: Page, full: str) -> None:
    """The view shows the configuration in force, and who has changed what."""
    page.goto(f"{full}#/default/configuration")
    expect(page.locator(".yaml")).to_contain_text("nvidia.com/gpu: '16'")
    expect(page.locator(".attempts li").first).to_contain_text("an upload, by an operator at 10.0.0.7. applied")
    difference = page.locator(".attempts > li").first.locator(".difference li")
    expect(difference).to_have_count(1)
    expect(difference).to_contain_text("root.ml")
    expect(page.locator(".list-side")).to_contain_text("from an upload")


def test_changes_by_programs(page: Page, full: str) -> None:
    """A change that a program made before the start has an author, and is no upload."""
    page.goto(f"{full}#/default/configuration")
    expected = ("an upload, by an operator", ": by nightly by cron. applied$", ": by the program. applied$")
    expect(page.locator(".attempts li > p")).to_have_text([re.compile(text) for text in expected])


PREEMPTING = """
partitions:
- name: default
  ugm:
    budgets:
    - {name: hours, user: "*", amounts: {vcore: 100}, unit: hour, period: month, mode: admit}
  queues:
  - name: root
    queues:
    - {name: a, resources: {guaranteed: {vcore: 6}, max: {vcore: 10}}}
    - {name: b, resources: {guaranteed: {vcore: 2}, max: {vcore: 10}}}
"""


@pytest.fixture(scope="module")
def preempting() -> Iterator[str]:
    """Serve a partition in which a queue has for a minute borrowed what another one is guaranteed, with budgets."""
    partition = Partition(
        parse_config(PREEMPTING).partition(), subscribers=[history := History(clock=lambda: time.time() - 60)]
    )
    partition.add_node("node", Resource.parse(vcore="10"))
    partition.submit("claims", UserGroup("sue"), "root.a")
    partition.submit("borrows", UserGroup("bob"), "root.b")
    for number in range(5):
        assert partition.allocate(f"borrowed-{number}", "borrows", Resource.parse(vcore="2"))
    partition.request("claim", "claims", Resource.parse(vcore="4"))
    with pages.served(partition, history) as address:
        yield address


def test_preemption(page: Page, preempting: str) -> None:
    """The view shows who could be preempted for a pending request, and what protects the others."""
    page.goto(f"{preempting}#/default/preemption")
    page.get_by_role("link", name="claim", exact=True).click()
    detail = page.locator(".detail-side")
    expect(detail).to_contain_text("It would fit without these allocations:")
    expect(detail.locator(".reasons").first.locator("> li")).to_have_text(
        [
            re.compile(f"borrowed-{number} of borrows in root.b: 2 cores.*root.b would keep 6 of 2 cores")
            for number in (3, 4)
        ]
    )
    expect(detail).to_contain_text("3 allocations: nothing protects them, but other victims cost less")
    with page.expect_request("**/plan_preemption"):
        page.get_by_role("button", name="Plan again").click()


def test_waiting_work(page: Page, full: str) -> None:
    """Pending requests are listed with their age, what blocks them, and why they have their place."""
    page.goto(f"{full}#/default/waiting")
    rows = page.locator(".waiting tbody tr")
    expect(rows.locator("th .clip:first-child")).to_have_text([f"wait-{number}" for number in range(4)])
    expect(rows.first.locator("[data-label=Age]")).to_have_text("4 min")
    expect(rows.first.locator(".reasons li", has_text="queue root.ml")).to_contain_text(
        "queue root.ml: 2 nvidia.com/gpu requested, 16 of 16"
    )

    page.locator("select[name=by]").select_option("users")
    page.get_by_role("link", name=f"1 request of {HEBREW}").click()
    expect(rows.locator("th .clip:first-child")).to_have_text(["wait-1"])
    page.goto(f"{full}#/default/waiting?by=order")
    expect(rows.first.locator(".why li").first).to_contain_text("root.ml is the only one in root")


FAMILIES = """
partitions:
- name: default
  ugm: {families: {gpu: [a100, v100]}}
  queues:
  - name: root
    limits: [{users: ["*"], maxresources: {gpu: 8, gpu:a100: 6}}]
    queues: [{name: ml, resources: {max: {vcore: 64, memory: 512Gi, gpu: 8, gpu:a100: 4, gpu:v100: 8}}}]
"""


@pytest.fixture(scope="module")
def families() -> Iterator[str]:
    """Serve a partition with GPUs of two models."""
    partition = Partition(parse_config(FAMILIES).partition())
    gpus = {"gpu:a100": "4", "gpu:v100": "4"}
    partition.add_node("node", Resource.parse(vcore="64", memory="1Ti", **gpus))
    partition.submit("app", UserGroup("sue"), "root.ml")
    assert partition.allocate("first", "app", Resource.parse(gpu="6"))
    with pages.served(partition) as address:
        yield address


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_families(browser: Browser, families: str, scheme: Literal["light", "dark"], width: int) -> None:
    """A family of resources is one column or row that opens into its variants, in all places at once."""
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce")
    tab.goto(f"{families}#/default/queues/root.ml")
    buttons = tab.get_by_role("button", name="Variants of gpu")
    names = tab.get_by_role("table", name="Resources").get_by_role("rowheader")
    expect(names).to_have_count(3)
    expect(buttons.first).to_have_attribute("aria-expanded", "false")
    buttons.first.press("Enter")
    expect(names).to_contain_text(["Cores", "Memory", "gpu", "gpu:a100", "gpu:v100"])
    expect(buttons.first).to_be_focused()
    expect(buttons.first).to_have_attribute("aria-expanded", "true")
    for view in ("queues", "queues/root.ml", "users", "users/sue", "nodes"):
        tab.goto(f"{families}#/default/{view}")
        tab.locator("#detail-heading" if "/" in view else "#heading").wait_for()
        expect(tab.locator("#view")).to_contain_text("gpu:a100")
        found = Axe().run(tab)
        assert found.violations_count == 0, f"{view}: {found.generate_report()}"
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.evaluate(pages.CUT_OFF) == []
    buttons.first.click()
    expect(tab.locator("#view")).not_to_contain_text("gpu:a100")
    tab.close()


def test_applications_are_found(page: Page, full: str) -> None:
    """Applications are found by text, user, queue, state and age, and the address keeps the search."""
    open_place(page, full, Place("applications", ready=".applications tbody tr"))
    rows = page.locator(".applications tbody th")

    def names(expected: list[str]) -> None:
        page.wait_for_function(
            "(expected) => JSON.stringify([...document.querySelectorAll('.applications tbody th')]"
            ".map((e) => e.textContent.slice(0, 5))) === JSON.stringify(expected)",
            arg=expected,
        )

    page.get_by_role("searchbox", name="User").fill("sue")
    names(["app-0", "app-0"])
    page.get_by_role("searchbox", name="Queue").fill("root.ml")
    names(["app-0"])
    assert "user=sue" in page.url
    page.get_by_role("link", name="Show all").click()
    page.locator("select[name=state]").select_option("accepted")
    names(["app-3"])
    page.locator("select[name=older_than]").select_option("86400")
    page.get_by_text("No application matches.").wait_for()
    page.reload()
    page.get_by_text("No application matches.").wait_for()
    assert rows.count() == 0


def test_shares_and_alerts(page: Page, full: str) -> None:
    """Shares list users and accounts; alerts list nearly full limits, overdue allocations and coming limits.

    A budget that blocks a request is described in hours, like the budget itself.
    """
    open_place(page, full, Place("shares", ready=".shares tbody tr"))
    users, accounts = (page.locator(".shares").nth(number).locator("tbody th") for number in range(2))
    assert users.first.inner_text().split() == ["bob", "ops"]
    assert accounts.all_inner_texts() == ["dev", f"dev/{'a' * 100}", "ops"]
    open_place(page, full, Place("alerts", ready=".alerts tbody tr"))
    limits = page.locator(".alerts").first.locator("tbody tr", has_text="queue root.ml")
    assert limits.locator("td").last.inner_text() == "95%, 80%"
    node = page.locator(".alerts").first.locator("tbody th", has_text="quota node B in Teams")
    # The tree is no queue.
    assert (node.count(), node.locator("a").count()) == (1, 0)
    budget = page.locator(".alerts").first.locator("tbody tr", has_text="budget hours of sue")
    assert budget.locator("td").first.inner_text() == "nvidia.com/gpu hours"
    assert budget.locator(".figures").inner_text().split() == ["3.37", "of", "3", "112%"]
    assert page.locator(".tools").inner_text().endswith("thresholds of 80%, 95%: 12 exceeded")
    assert page.locator(".alerts").nth(1).locator("tbody tr").count() == 4
    assert "nvidia.com/gpu 16 -> 2" in page.locator(".attempts").inner_text()
    assert "1 limit would be exceeded" in page.locator(".attempts").inner_text()
    open_place(page, full, Place("waiting", ready=".waiting tbody tr"))
    reasons = page.locator(".waiting tbody tr").first.locator(".reasons li", has_text="budget")
    assert "in root: 3.38 of 3 nvidia.com/gpu-hours used or promised; never" in reasons.inner_text()
