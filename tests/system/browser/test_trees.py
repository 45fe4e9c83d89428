"""The views of elastic groups and quota trees in a headless browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest
from playwright.sync_api import Page, expect

from support import page_server as pages
from support.lending import crowd_of_groups, lending
from support.loopback import remote
from support.page_server import ROWS
from ugm import Resource, Violation
from ugm.decision import SUSPENDED

pytestmark = pytest.mark.ci

#: The text of an amount of 0.
NONE = "\N{EN DASH}"


@pytest.fixture(scope="module")
def few() -> Iterator[str]:
    """Serve a partition with a few groups and nodes that borrow and lend; another one is that of a service."""
    with pages.served(lending(), other=remote(lending()), none=pages.crowd(3, 2)[0]) as address:
        yield address


class Crowd(NamedTuple):
    """A served partition with many elastic groups, and as many nodes of a quota tree, in teams of 100."""

    address: str
    groups: int


@pytest.fixture(scope="module", params=[1000, pytest.param(10_000, marks=pytest.mark.deep)])
def crowd(request: pytest.FixtureRequest) -> Iterator[Crowd]:
    """Serve a partition with many groups."""
    with pages.served(crowd_of_groups(request.param, every=20)) as address:
        yield Crowd(address, request.param)


def cells(page: Page, name: str) -> list[str]:
    """Return the texts of the amounts of a row, without their labels for small screens."""
    row = page.locator(f'[data-path="{name}"]')
    expect(row).to_be_visible()
    found: list[str] = row.locator(".number").evaluate_all("all => all.map((e) => e.lastChild.data)")
    return found


def test_elastic_groups(page: Page, few: str) -> None:
    """A group is shown with its usage of the maximum, minimum, runtime and request, and what it borrows and lends."""
    page.goto(f"{few}#/other/elastic")
    expect(page.locator('[role="columnheader"]')).to_have_text(
        ["Group", "Used of the maximum", "Minimum", "Runtime", "Request", "Borrowed", "Lent"]
    )
    expect(page.locator('[data-path="ml-train"] .figures')).to_have_text("2.5 of 831%")
    assert cells(page, "ml-train") == ["2", "2.5", "2.5", "0.5", NONE]
    assert cells(page, "ml-web") == ["2", "0.5", "0.5", NONE, "1.5"]
    page.locator('[data-path="ml-train"]').click()
    expect(page.locator("#detail-heading")).to_have_text("Elastic group ml-train")
    place = "In koordinator-root-quota \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} ml. Leaf."
    expect(page.locator(".detail-side > p").first).to_have_text(place)
    expect(page.locator(".detail-side .resources tbody tr")).to_have_text([re.compile("Cores2.5 of 8.*0.5.$")])
    page.locator(".detail-side").get_by_role("link", name="ml", exact=True).click()
    expect(page.locator("#detail-heading")).to_have_text("Elastic group ml")


def test_quota_trees(page: Page, few: str) -> None:
    """A node is shown with its quota, and every consumer above its own node with the node that holds it."""
    page.goto(f"{few}#/other/quota")
    assert cells(page, "A") == ["1", NONE]
    assert cells(page, "R") == [NONE, "1"]
    expect(page.locator('[data-path="B"] .badge')).to_have_text("hard")
    expect(page.locator('[data-path="R"] .badge')).to_have_attribute("title", "holds 1 consumer of nodes below")
    expect(page.locator(".held tbody tr > *")).to_have_text(["t1", "A", "R", "1 core", "0"])
    page.locator('[data-path="B"]').click()
    expect(page.locator(".detail-side .empty")).to_contain_text("Consumers of this node are held by it")


def test_only_partitions_with_trees_have_the_views(page: Page, few: str) -> None:
    """The views are offered if a model of the partition has such a tree; otherwise their addresses explain it."""
    page.goto(f"{few}#/none/queues")
    expect(page.locator("nav li")).to_contain_text(["Queues", "Users", "Groups", "Applications", "Waiting"])
    expect(page.locator("nav")).not_to_contain_text("Elastic")
    expect(page.locator("nav")).not_to_contain_text("Quota")
    page.goto(f"{few}#/none/elastic")
    expect(page.locator(".empty")).to_contain_text("No elastic groups are declared for this partition. In its")
    page.goto(f"{few}#/default/queues")
    expect(page.locator("nav li")).to_contain_text(["Queues", "Elastic groups", "Quota trees"])


def test_keyboard(page: Page, few: str) -> None:
    """Arrow keys move, open and close; Enter opens the detail, and Escape returns to the row."""
    page.goto(f"{few}#/default/elastic")
    page.locator('[data-path="koordinator-root-quota"]').focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator('[data-path="ml"]')).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(ROWS)).to_have_count(3)
    expect(page.locator('[data-path="ml"]')).to_have_attribute("aria-expanded", "false")
    expect(page.locator('[data-path="ml"]')).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.locator(ROWS)).to_have_count(5)
    page.keyboard.press("End")
    expect(page.locator('[data-path="ops"]')).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#detail-heading")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator('[data-path="ops"]')).to_be_focused()


def test_crowd_is_drawn_in_parts(page: Page, crowd: Crowd) -> None:
    """Of many groups only the visible ones are in the document; every one can be reached and found."""
    page.goto(f"{crowd.address}#/default/elastic")
    grid, teams = page.locator('[role="treegrid"]'), crowd.groups // 100
    expect(grid).to_have_attribute("aria-rowcount", str(teams + 2))
    page.get_by_label("Find a group").fill("team")
    expect(grid).to_have_attribute("aria-rowcount", str(crowd.groups + 2))
    page.locator(ROWS).first.focus()
    page.keyboard.press("End")
    last = page.locator(f':focus[aria-rowindex="{crowd.groups + 2}"]')
    expect(last).to_be_in_viewport()
    expect(last).to_contain_text(f"team{teams - 1}-98")
    page.keyboard.press("PageUp")
    expect(last).to_have_count(0)
    expect(page.locator('.rows [tabindex="0"]')).to_be_focused()
    assert page.locator("*").count() < 1500
    page.get_by_label("Find a group").fill("TEAM4-7")
    expect(page.locator(".rows .label").last).to_have_text("team4-79")
    expect(page.locator(".tools")).to_contain_text(f"Cores of {crowd.groups + 1:,} groups")


def test_crowd_is_opened(page: Page, crowd: Crowd) -> None:
    """A part of a large tree is opened, and the rows around it stay."""
    page.goto(f"{crowd.address}#/default/quota")
    page.locator('[data-path="team3"] .twist').click()
    expect(page.locator('[role="treegrid"]')).to_have_attribute("aria-rowcount", str(crowd.groups // 100 + 101))
    expect(page.locator('[data-path="team3-0"]')).to_be_visible()
    expect(page.locator('[data-path="team3-0"]')).to_have_attribute("aria-level", "3")


def test_denials_show_units(page: Page) -> None:
    """Denials by groups and nodes have the units of those of queues, with the names that the models give them."""
    partition = lending()
    partition.request("w1", "web", Resource(vcore=3600))
    with pages.served(partition) as address:
        page.goto(f"{address}#/default/applications/web")
        expect(page.locator(".reasons li")).to_have_text(
            [
                "elastic group 'ml-web': 3.6 cores requested, 0.5 of 4 cores used, 0.1 cores too much",
                "elastic group 'ml': 3.6 cores requested, 3 of 6.5 cores used, 0.1 cores too much",
                "quota node 'B' of tree 'Teams': 3.6 cores requested, 0.5 of 4 cores used, 0.1 cores too much",
            ]
        )


TEXTS: Final = {
    Violation("quota: node", "a", "", "T", "vcore", 16_000, 0, 17_600): (
        "quota: node 'a': 17.6 cores requested, never more than 16 cores allowed (limit for 'T')"
    ),
    Violation("pending user", "sue", "root", "*", "vcore", 2000, 1500, 600): (
        "user 'sue' in root: 0.6 cores requested, 1.5 of 2 cores pending, 0.1 cores too much (limit for '*')"
    ),
    Violation("pending queue", "root", "root", "", "vcore", 2000, 0, 2600): (
        "queue root: 2.6 cores requested, never more than 2 cores may be pending"
    ),
    Violation("seats", "a", "", "", None, 2, 2, 1): "seats 'a': 2 of 2 applications running, 1 more requested",
    Violation(SUSPENDED, "Rack", "", "", None, 0, 0, 0): str(Violation(SUSPENDED, "Rack", "", "", None, 0, 0, 0)),
}


@pytest.mark.parametrize(("violation", "text"), TEXTS.items(), ids=[each.kind for each in TEXTS])
def test_texts_of_models(page: Page, few: str, violation: Violation, text: str) -> None:
    """The sentence that limits have in common has the amounts of the page; other texts stay as they are."""
    page.goto(few)
    call = "found => import('./js/parts/limits.js').then(limits => limits.readable(found))"

    assert page.evaluate(call, violation.to_dict()) == text
