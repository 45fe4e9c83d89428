"""Names that a browser treats in a special way, on the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from support import page_server as pages
from ugm import Partition, Resource, UserGroup, parse_config
from ugm.server import History

pytestmark = pytest.mark.ci

#: Half of a surrogate pair, which no address can contain, and names that a browser removes from paths of addresses,
#: even if they are escaped.
WITHOUT_PATH: Final = ("\ud800x", ".", "..")
#: Properties of every object of JavaScript that has a prototype.
MEMBERS: Final = ("constructor", "toString", "__proto__", "hasOwnProperty")
#: An amount that a number of JavaScript cannot hold.
HUGE: Final = 2**53 + 1
#: The views, and what each has as soon as it is complete.
VIEWS: Final = {
    "queues": '[data-path="root.a"] .gauge',
    "queues/root.a": "#history",
    "users": ".utilization .bar",
    "users/sue": "#history",
    "groups": ".utilization .bar",
    "groups/dev": "#history",
    "budgets": ".accounts tbody tr",
    "shares": ".shares tbody tr",
    "applications": ".applications tbody tr",
    "applications/app": ".chain tbody tr",
    "waiting": ".waiting tbody tr",
    "waiting?by=applications": ".waiting tbody tr",
    "waiting?by=users": ".waiting tbody tr",
    "waiting?by=order": ".waiting tbody .reasons",
    "preemption": ".list tbody tr",
    "preemption/wait": ".detail-side .tools",
    "denials": ".denials li",
    "alerts": ".list-side > *:nth-child(2)",
    "nodes": ".nodes tbody tr",
    "configuration": ".yaml",
}
#: What the detail of an object has, and the text if there is no such object.
DETAILS: Final = {"users": ".chain tbody tr", "groups": ".usage tbody tr", "applications": ".chain tbody tr"}
MISSING: Final = {
    "users": "Nothing runs or waits for {} now.",
    "groups": "No limit names {} where its members run, so nothing is charged to the group now.",
    "applications": "There is no application {} now.",
    "preemption": "There is no pending request {} now.",
}
#: Waits for the tree, which the server pushes, and returns the amounts in use.
AMOUNTS: Final = """
async () => {
  const {live} = await import("./js/base/live.js");
  for (let waits = 0; waits < 600 && !live.tree(); waits += 1) await new Promise((go) => setTimeout(go, 100));
  return Object.entries(live.tree().usage).map(String);
}
"""


class World(NamedTuple):
    """A served partition with some names."""

    address: str
    names: tuple[str, ...]


def _config(names: tuple[str, ...]) -> str:
    amounts, groups = json.dumps(dict.fromkeys(("vcore", *names), HUGE + 2)), json.dumps(["dev", *names])
    return f"""
partitions:
- ugm:
    names: any
    budgets: [{{name: hours, user: "*", amounts: {amounts}, unit: hour, period: month, mode: admit}}]
    fairshare: {{defaultshares: 1, weights: {{vcore: 1}}}}
  queues:
  - name: root
    limits: [{{users: ["*"], maxresources: {amounts}}}, {{groups: {groups}, maxresources: {amounts}}}]
    queues: [{{name: a, resources: {{guaranteed: {amounts}, max: {amounts}}}}}, {{name: b}}]
"""


@contextmanager
def _served(names: tuple[str, ...]) -> Iterator[str]:
    """Serve a partition whose users, groups, applications, allocations and resources have some names."""
    resources = tuple(name for name in names if name.isprintable())
    history = History()
    partition = Partition(parse_config(_config(resources)).partition(), subscribers=[history])
    partition.add_node("node", Resource(dict.fromkeys(("vcore", *resources), HUGE + 2)))
    partition.submit("app", UserGroup("sue", ("dev",)), "root.a")
    for name in names:
        partition.submit(name, UserGroup(name, (name,)), "root.b")
        assert partition.allocate(name, name, Resource(vcore=1000))
    held = Resource({"vcore": 8000, **dict.fromkeys(resources, HUGE)})
    assert partition.allocate("first", "app", held, duration=60)
    for allocation_id, application_id in (("wait", "app"), *((f"{name}-wait", name) for name in names)):
        wanted = Resource({"vcore": 1, **dict.fromkeys(resources, 3)})
        partition.request(allocation_id, application_id, wanted)
        assert not partition.allocate(allocation_id, application_id, wanted)
    with pages.served(partition, history) as address:
        yield address


@pytest.fixture(scope="module", params=[WITHOUT_PATH, MEMBERS], ids=["without-path", "members"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Serve a partition for each kind of names."""
    with _served(request.param) as address:
        yield World(address, request.param)


def test_views_and_details(page: Page, world: World) -> None:
    """No name breaks a view; each object has a detail, or the page says that no path can contain its name."""
    page.goto(world.address)
    # The page chooses its first view only when it knows the partitions.
    page.wait_for_url("**#/default/queues")
    for view, ready in VIEWS.items():
        _open(page, world, view, ready)
    has_path = world.names is MEMBERS
    for name in world.names:
        # An address has U+FFFD instead of half of a surrogate pair.
        known = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in name)
        for view, found in (DETAILS if has_path else MISSING).items():
            _open(page, world, f"{view}/{quote(known)}", f".detail-side {found if has_path else '> .quiet'}")
            if not has_path:
                expect(page.locator(".detail-side > .quiet")).to_have_text(found.format(known))


def test_pushed_amounts(page: Page) -> None:
    """The amounts in the tree that the server pushes are exact, whatever the resource is called."""
    with _served(MEMBERS) as address:
        page.goto(address)
        assert set(page.evaluate(AMOUNTS)) >= {f"{name},{HUGE}" for name in MEMBERS}
        page.goto("about:blank")


def _open(page: Page, world: World, view: str, ready: str) -> None:
    # The view before must not look like this one.
    page.evaluate("document.getElementById('view').replaceChildren()")
    page.goto(f"{world.address}#/default/{view}")
    page.locator(ready).first.wait_for(state="attached")
    expect(page.locator("#view > .error")).to_have_count(0)
