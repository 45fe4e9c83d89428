"""History, nodes, budgets and the configuration in a headless browser."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Iterator
from typing import Literal, NamedTuple

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from starlette.applications import Starlette

from support import page_server as pages
from support.clocks import Clock
from ugm import Partition, Resource, UserGroup, parse_config
from ugm.events import ConfigurationChanged
from ugm.partition.config.compiled import CompiledConfig
from ugm.server import History
from ugm.server.configurations import Actor

pytestmark = pytest.mark.ci

#: Seconds between two allocations.
STEP = 60
LONG = "n" * 256
#: A name that is written from right to left.
HEBREW = "\N{HEBREW LETTER MEM}\N{HEBREW LETTER YOD}\N{HEBREW LETTER KAF}-\N{HEBREW LETTER SHIN}\N{HEBREW LETTER RESH}"
CONFIG = """
partitions:
- name: default
  queues:
  - name: root
    limits: [{users: ["*"], maxresources: {vcore: 64, nvidia.com/gpu: 12}}]
    queues:
    - {name: ml, resources: {guaranteed: {nvidia.com/gpu: 8}, max: {vcore: 64, memory: 512Gi, nvidia.com/gpu: 16}}}
    - {name: idle}
"""
#: The first of November 2026, in UTC.
START = 1_793_491_200

LOWER = CONFIG.replace("max: {vcore: 64", "max: {vcore: 48")


class World(NamedTuple):
    """A served partition."""

    address: str
    partition: Partition
    app: Starlette
    clock: Clock


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """Serve a partition whose GPUs were taken one after the other in the last 18 minutes, with names of all kinds."""
    clock, apps = Clock(START), list[Starlette]()
    history = History(clock=clock)

    def prepare(app: Starlette) -> None:
        apps.append(app)
        node = Resource.parse(**{"vcore": "64", "memory": "256Gi", "nvidia.com/gpu": "8"})
        for name in ("gpu-2", "gpu-10", LONG):
            partition.add_node(name, node)
        for name in ("sue", HEBREW, LONG):
            partition.submit(f"app-{name}"[:256], UserGroup(name, ("dev",)), "root.ml")
        for number in range(16):
            usage = Resource.parse(**{"vcore": "500m", "nvidia.com/gpu": "1"})
            owner = f"app-{('sue', HEBREW, LONG)[number % 3]}"[:256]
            assert partition.allocate(f"gpu-{number}", owner, usage)
            clock.now += STEP
        for number, name in enumerate(("sue", HEBREW)):
            partition.request(f"wait-{number}", f"app-{name}", Resource.parse(**{"nvidia.com/gpu": "2"}))
            clock.now += 60
        before, after = (CompiledConfig.of(parse_config(text).partition()) for text in (LOWER, CONFIG))
        earlier = (ConfigurationChanged(before, after, author) for author in ("nightly by cron", ""))
        app.state.configurations.add_earlier("default", ((START - 60 * at, one) for at, one in enumerate(earlier, 1)))
        app.state.configurations.upload(LOWER, Actor("10.0.0.7", "operator"), confirm=True)

    with (
        pages.stored(parse_config(CONFIG).partition(), subscribers=[history], clock=clock) as partition,
        pages.served(partition, history, prepare=prepare, clock=clock) as address,
    ):
        yield World(address, partition, apps[0], clock)


def test_history_has_the_limit(page: Page, world: World) -> None:
    """The plot of a queue shows the scarcest resource with its limit; the text has the exact values."""
    page.goto(f"{world.address}#/default/queues/root.ml")
    plot = page.locator("#history")
    expect(plot.locator(".legend li")).to_have_text(["Used", "Limit now"])
    expect(plot.locator(".readout")).to_contain_text(
        "16 nvidia.com/gpu in the newest step, at most 16 nvidia.com/gpu; limit now 16"
    )
    assert plot.locator("path.used").get_attribute("d") is not None
    plot.get_by_label("Of").select_option("Cores")
    expect(plot.locator(".readout")).to_contain_text("8 cores in the newest step")


def test_history_as_a_file(page: Page, world: World) -> None:
    """The file has the value of every step."""
    page.goto(f"{world.address}#/default/queues/root.ml")
    with page.expect_download() as found:
        page.get_by_role("link", name="CSV").click()
    lines = csv.DictReader(found.value.path().read_text().splitlines())
    gpus = [line["usage"] for line in lines if line["resource"] == "nvidia.com/gpu"]
    assert gpus == ["0"] * 42 + [str(number) for number in range(1, 17)] + ["16"] * 2


def test_history_of_other_ranges(page: Page, world: World) -> None:
    """The reader chooses the last hour, day or week, and the browser remembers it."""
    page.goto(f"{world.address}#/default/queues/root.ml")
    page.get_by_role("button", name="Last day").click()
    page.reload()
    expect(page.get_by_role("button", name="Last day")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#history path.used")).to_have_count(1)


def test_nodes(page: Page, world: World) -> None:
    """The nodes are listed in natural order, and found by a part of their name."""
    page.goto(f"{world.address}#/default/nodes")
    expect(page.locator(".nodes tbody th")).to_have_text(["gpu-2", "gpu-10", LONG])
    expect(page.locator(".nodes tbody tr").first.locator("td")).to_have_text(["64", "256Gi", "8"])
    page.get_by_label("Find a node").fill("PU-1")
    expect(page.locator(".nodes tbody th")).to_have_text(["gpu-10"])


def test_configuration(page: Page, world: World) -> None:
    """The view shows the configuration in force, and who has changed what."""
    page.goto(f"{world.address}#/default/configuration")
    expect(page.locator(".yaml")).to_contain_text("nvidia.com/gpu: '16'")
    expect(page.locator(".attempts li").first).to_contain_text("an upload, by an operator at 10.0.0.7. applied")
    difference = page.locator(".attempts > li").first.locator(".difference li")
    expect(difference).to_have_count(1)
    expect(difference).to_contain_text("root.ml")
    expect(page.locator(".list-side")).to_contain_text("from an upload")


def test_changes_by_programs(page: Page, world: World) -> None:
    """A change that a program made before the start has an author, and is no upload."""
    page.goto(f"{world.address}#/default/configuration")
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


def test_waiting_work(page: Page, world: World) -> None:
    """Pending requests are listed with their age, what blocks them, and why they have their place."""
    page.goto(f"{world.address}#/default/waiting")
    rows = page.locator(".waiting tbody tr")
    expect(rows.locator("th .clip:first-child")).to_have_text(["wait-0", "wait-1"])
    expect(rows.first.locator("[data-label=Age]")).to_have_text("2 min")
    expect(rows.first.locator(".reasons li").first).to_contain_text(
        "queue root.ml: 2 nvidia.com/gpu requested, 16 of 16"
    )

    page.locator("select[name=by]").select_option("users")
    page.get_by_role("link", name=f"1 request of {HEBREW}").click()
    expect(rows.locator("th .clip:first-child")).to_have_text(["wait-1"])
    page.goto(f"{world.address}#/default/waiting?by=order")
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
