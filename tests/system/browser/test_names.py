"""Names that a browser treats in a special way, in every view of the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Final, NamedTuple
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect
from starlette.applications import Starlette

from support import page_server as pages
from support.server_fixtures import STATUS
from ugm import Partition, Resource, UserGroup, parse_config
from ugm.elastic import ElasticGroup, ElasticModel, ElasticQuota, ElasticTree
from ugm.elastic.model import GROUP_TAG
from ugm.quotatree import Mode, QuotaManager, TreeModel
from ugm.server import History
from ugm.server.configurations import Actor

pytestmark = pytest.mark.ci

#: Half of a surrogate pair, which no address can contain.
SURROGATES: Final = ("\ud800x", "x\udfff")
#: Names that a browser removes from paths of addresses, even if they are escaped.
DOTS: Final = (".", "..")
#: Properties of every object of JavaScript that has a prototype.
MEMBERS: Final = ("constructor", "toString", "__proto__", "hasOwnProperty")
#: An amount that a number of JavaScript cannot hold.
HUGE: Final = 2**53 + 1
#: The views, and what each has as soon as it is complete.
VIEWS: Final = {
    "queues": '[data-path="root.a"] .gauge',
    "queues/root.a": "#history .tools",
    "users": ".utilization .bar",
    "users/sue": "#history .tools",
    "groups": ".utilization .bar",
    "groups/dev": "#history .tools",
    "elastic": '[data-path="all"]',
    "elastic/all": ".detail-side .resources",
    "quota": '[data-path="R"]',
    "quota/R": ".detail-side .resources",
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
    "alerts": ".alerts tbody tr",
    "check": ".check-form",
    "nodes": ".nodes tbody tr",
    "configuration": ".attempts li",
    "service": ".facts",
}
#: What the detail of an object has, and the text if there is no such object.
DETAILS: Final = {
    "users": ".chain tbody tr",
    "groups": ".usage tbody tr",
    "elastic": ".resources tbody tr",
    "quota": ".resources tbody tr",
    "applications": ".chain tbody tr",
}
MISSING: Final = {
    "users": "Nothing runs or waits for {} now.",
    "groups": "No limit names {} where its members run, so nothing is charged to the group now.",
    "applications": "There is no application {} now.",
    "preemption": "There is no pending request {} now.",
}


class World(NamedTuple):
    """A served partition with some names."""

    address: str
    names: tuple[str, ...]


def _config(resources: tuple[str, ...]) -> str:
    amounts = json.dumps(dict.fromkeys(resources, HUGE + 2))[1:-1]
    groups = json.dumps(["dev", *resources])
    some = f"{{vcore: 64, {amounts}}}"
    return f"""
partitions:
- name: default
  ugm:
    names: any
    thresholds: {{shares: [6]}}
    budgets:
    - {{name: hours, user: "*", amounts: {some}, unit: hour, period: month, mode: admit}}
    fairshare: {{defaultshares: 1, weights: {{vcore: 1}}}}
  queues:
  - name: root
    limits: [{{users: ["*"], maxresources: {some}}}, {{groups: {groups}, maxresources: {some}}}]
    queues:
    - {{name: a, resources: {{guaranteed: {some}, max: {some}}}}}
    - name: b
"""


def _models(names: tuple[str, ...], total: Resource) -> tuple[ElasticModel, TreeModel]:
    groups = [ElasticGroup("all", "", total, total, is_parent=True)]
    groups += [ElasticGroup(name, "all", Resource(), total) for name in names]
    quota = {name: str(amount) for name, amount in total.items()}
    nodes = {"R": {"parent": "nil", "hard": "false", "quota": quota}}
    nodes |= {name: {"parent": "R", "hard": "false", "quota": quota} for name in names}
    manager = QuotaManager()
    spec = {"resourceNames": list(total), "nodes": nodes}
    manager.add_tree_from_struct({"kind": "QuotaTree", "metadata": {"name": "Teams"}, "spec": spec})
    manager.set_mode(Mode.NORMAL)
    elastic = ElasticModel(ElasticQuota(ElasticTree(total, groups)))
    return elastic, TreeModel(manager, "Teams", lambda claim: claim.tags.get(GROUP_TAG))


@contextmanager
def _served(names: tuple[str, ...]) -> Iterator[str]:
    """Serve a partition whose users, groups, applications, allocations and resources have some names."""
    resources = tuple(name for name in names if name.isprintable())
    total = Resource({"vcore": 64_000, **dict.fromkeys(resources, HUGE + 2)})
    config = _config(resources)
    history = History()

    def prepare(app: Starlette) -> None:
        partition.add_node("node", total)
        partition.submit("app", UserGroup("sue", ("dev",)), "root.a", tags={GROUP_TAG: names[0]})
        for name in names:
            partition.submit(name, UserGroup(name, (name,)), "root.b", tags={GROUP_TAG: name})
        granted = partition.allocate(
            "first", "app", Resource({"vcore": 8000, **dict.fromkeys(resources, HUGE)}), duration=60
        )
        assert granted, str(granted)
        for name in names:
            assert partition.allocate(name, name, Resource(vcore=1000))
        wanted = Resource({"vcore": 63_000, **dict.fromkeys(resources, 3)})
        for allocation_id, application_id in (("wait", "app"), *((f"{name}-wait", name) for name in names)):
            partition.request(allocation_id, application_id, wanted)
            assert not partition.allocate(allocation_id, application_id, wanted)
        app.state.thresholds["default"].update()
        app.state.configurations.upload(
            config.replace("name: b", "name: c"), Actor("10.0.0.7", "operator"), confirm=True
        )

    parsed, models = parse_config(config).partition(), _models(names, total)
    with (
        # A database cannot store halves of surrogate pairs.
        nullcontext(Partition(parsed, models=models, subscribers=[history]))
        if names is SURROGATES
        else pages.stored(parsed, models=models, subscribers=[history]) as partition,
        pages.served(partition, history, lambda: STATUS, prepare=prepare) as address,
    ):
        yield address


@pytest.fixture(scope="module", params=[SURROGATES, MEMBERS, DOTS], ids=["surrogates", "members", "dots"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Serve a partition for each kind of names."""
    with _served(request.param) as address:
        yield World(address, request.param)


def test_views(page: Page, world: World) -> None:
    """No name breaks a view, or the detail of another object."""
    _load(page, world)
    for view, ready in VIEWS.items():
        _open(page, world, view, ready.replace(" svg", "") if world.names is SURROGATES else ready)


def test_details(page: Page, world: World) -> None:
    """Each object has a detail, unless its name cannot be a part of a path: then the page says that there is none."""
    has_path = world.names is MEMBERS
    _load(page, world)
    for name in world.names:
        # An address has U+FFFD instead of half of a surrogate pair.
        known = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in name)
        for view, found in (DETAILS if has_path else MISSING).items():
            _open(page, world, f"{view}/{quote(known)}", f".detail-side {found if has_path else '> .quiet'}")
            if not has_path:
                expect(page.locator(".detail-side > .quiet")).to_have_text(found.format(known))


#: Waits for the tree, which the server pushes, and returns the amounts in use.
AMOUNTS = """
async () => {
  const {live} = await import("./js/base/live.js");
  for (let waits = 0; waits < 600 && !live.tree(); waits += 1) await new Promise((go) => setTimeout(go, 100));
  return Object.entries(live.tree().usage).map(String);
}
"""


def test_pushed_amounts(page: Page) -> None:
    """The amounts in the tree that the server pushes are exact, whatever the resource is called."""
    with _served(MEMBERS) as address:
        page.goto(address)
        usage = page.evaluate(AMOUNTS)
        assert set(usage) >= {f"{name},{HUGE}" for name in MEMBERS}
        page.goto("about:blank")


def _load(page: Page, world: World) -> None:
    page.goto(world.address)
    # The page chooses its first view only when it knows the partitions.
    page.wait_for_url("**#/default/queues")


def _open(page: Page, world: World, view: str, ready: str) -> None:
    # The view before must not look like this one.
    page.evaluate("document.getElementById('view').replaceChildren()")
    page.goto(f"{world.address}#/default/{view}")
    page.locator(ready).first.wait_for(state="attached")
    expect(page.locator("#view > .error")).to_have_count(0)
