"""Servers with everything that the page shows, and the addresses of all its views."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import quote

from playwright.sync_api import Browser, Page
from starlette.applications import Starlette

from support import page_server as pages
from support.clocks import Clock
from support.lending import TAGS, lending_models
from support.server_fixtures import STATUS
from ugm import Partition, Resource, UserGroup, parse_config
from ugm.config import PartitionConfig
from ugm.elastic.model import GROUP_TAG
from ugm.events import ConfigurationChanged
from ugm.partition.config.compiled import CompiledConfig
from ugm.server import History
from ugm.server.configurations import Actor

#: A name of the greatest length, and one that is written from right to left.
LONG: Final = "n" * 256
HEBREW: Final = (
    "\N{HEBREW LETTER MEM}\N{HEBREW LETTER YOD}\N{HEBREW LETTER KAF}-\N{HEBREW LETTER SHIN}\N{HEBREW LETTER RESH}"
)
#: The seconds after each allocation: those of all fill an hour.
_STEP: Final = 210
_CONFIG: Final = f"""
partitions:
- name: default
  ugm:
    names: any
    thresholds: {{shares: [80, 95]}}
    budgets:
    - {{name: hours, user: "*", amounts: {{vcore: 100, nvidia.com/gpu: 3}}, unit: hour, period: year, mode: admit}}
    fairshare:
      accounts: {{dev: 60, dev/{"a" * 100}: 10, ops: 40}}
      users: {{dev/sue: 2, ops/bob: 1}}
      defaultshares: 1
      weights: {{vcore: 1/1000, nvidia.com/gpu: 10}}
  queues:
  - name: root
    limits:
    - {{users: ["*"], maxresources: {{vcore: 64, nvidia.com/gpu: 8}}, maxapplications: 9}}
    - {{groups: [dev], maxresources: {{nvidia.com/gpu: 12}}}}
    - {{groups: ["*"], maxresources: {{nvidia.com/gpu: 16}}}}
    queues:
    - name: ml
      resources: {{guaranteed: {{nvidia.com/gpu: 8}}, max: {{vcore: 64, memory: 512Gi, nvidia.com/gpu: 16}}}}
      ugm:
        schedule: [{{from: 2099-01-01, maxresources: {{vcore: 64, memory: 512Gi, nvidia.com/gpu: 2}}}}]
    - name: idle
"""
_GPUS: Final = 16
#: The seconds in which the partition is filled.
_FILLING: Final = _GPUS * _STEP + 4 * 60


class Place(NamedTuple):
    """A view of the page; the fragment of its address without the partition."""

    view: str
    partition: str = "default"
    #: What the view has as soon as it is complete.
    ready: str = "#heading"

    @property
    def name(self) -> str:
        """A name for files and messages."""
        text = self.view.replace(LONG, "long").replace(quote(HEBREW), "rtl")
        return "".join(c if c.isalnum() else "-" for c in text)


def _detail(view: str, partition: str = "default", ready: str = "#detail-heading") -> Place:
    return Place(view, partition, ready)


_PLOT: Final = "#history svg"
_VIEWS: Final = (
    Place("queues", ready='[data-path="root.ml"] .gauge'),
    _detail("queues/root.ml", ready=_PLOT),
    Place("users", ready=".utilization .bar"),
    _detail(f"users/{LONG}", ready=_PLOT),
    _detail(f"users/{quote(HEBREW)}", ready=_PLOT),
    Place("groups", ready=".utilization tbody"),
    _detail("groups/dev", ready=_PLOT),
    Place("elastic", ready='[data-path="ml-train"]'),
    _detail("elastic/ml-train", ready="#history .quiet"),
    Place("quota", ready=".held tbody, .held + .empty, .empty"),
    _detail("quota/R", ready="#history .quiet"),
    Place("budgets", ready=".accounts tbody tr"),
    Place("shares", ready=".shares tbody tr"),
    Place("applications", ready=".applications tbody tr"),
    _detail("applications/app-2", ready=".chain"),
    Place("waiting", ready=".waiting tbody tr"),
    Place("waiting?by=applications", ready=".waiting tbody tr"),
    Place("waiting?by=users", ready=".waiting tbody tr"),
    Place("waiting?by=order", ready=".waiting tbody tr"),
    Place("preemption", ready=".list tbody tr"),
    _detail("preemption/wait-0"),
    Place("denials", ready=".denials li"),
    Place("alerts", ready=".alerts tbody tr"),
    Place("check", ready=".check-form"),
    Place("nodes", ready=".nodes tbody tr"),
    Place("configuration", ready=".yaml"),
    Place("service", ready=".facts"),
)
_EMPTY: Final = tuple(
    Place(view, ready=".list-side > *:nth-child(2)")
    for view in (
        *("queues", "users", "groups", "elastic", "quota", "budgets", "shares", "applications", "waiting"),
        *("preemption", "denials", "alerts", "check", "nodes", "configuration", "service"),
    )
)
_TROUBLED: Final = tuple(place for place in _VIEWS if "/" not in place.view or place.view == "queues/root.ml")


class Scenario(NamedTuple):
    """A server in some state, and the views to look at."""

    serve: Callable[[Path], AbstractContextManager[str]]
    places: tuple[Place, ...]


def _parsed() -> PartitionConfig:
    return parse_config(_CONFIG).partition()


def _fill(partition: Partition, clock: Clock, app: Starlette) -> None:
    """Use up all GPUs, one after the other, and let requests wait and allocations be overdue."""
    partition.add_node("gpu-2", Resource.parse(**{"vcore": "64", "memory": "256Gi", "nvidia.com/gpu": str(_GPUS)}))
    for name in ("gpu-10", LONG):
        partition.add_node(name, Resource.parse(vcore="64", memory="1Ti"))
    for number, name in enumerate(("sue", HEBREW, LONG, "bob")):
        group = ("dev", "dev", "a" * 100, "ops")[number]
        tags = {**TAGS, GROUP_TAG: ("ml-web", "ml-train")[number % 2]}
        partition.submit(f"app-{number}", UserGroup(name, (group,)), "root.ml", tags=tags)
        partition.submit(f"app-{number}-{LONG}"[:256], UserGroup(name, (group,)), "root.idle", tags=tags)
    for number in range(_GPUS):
        usage = Resource.parse(**{"vcore": "250m", "memory": "7Gi", "nvidia.com/gpu": "1"})
        lasts = 60 if number % 4 == 0 else None
        granted = partition.allocate(f"gpu-{number}", f"app-{number % 3}", usage, duration=lasts)
        assert granted, str(granted)
        clock.now += _STEP
    for number in range(4):
        wanted = Resource.parse(**{"vcore": "1", "nvidia.com/gpu": "2"})
        partition.request(f"wait-{number}", f"app-{number}", wanted)
        partition.allocate(f"wait-{number}", f"app-{number}", wanted)
        clock.now += 60
    app.state.thresholds["default"].update()
    changed = _CONFIG.replace("max: {vcore: 64", "max: {vcore: 48")
    before, after = (CompiledConfig.of(parse_config(text).partition()) for text in (changed, _CONFIG))
    earlier = (ConfigurationChanged(before, after, author) for author in ("nightly by cron", ""))
    begin = clock.now - _FILLING
    app.state.configurations.add_earlier("default", ((begin - 60 * at, one) for at, one in enumerate(earlier, 1)))
    app.state.configurations.upload(changed, Actor("10.0.0.7", "operator"), confirm=True)


def _clock() -> Clock:
    """Return a clock of which it is the present minute once the partition is filled."""
    return Clock(time.time() // 60 * 60 - _FILLING)


@contextmanager
def _full(_folder: Path) -> Iterator[str]:
    clock = _clock()
    history = History(clock=clock)
    with (
        pages.stored(_parsed(), models=lending_models(), subscribers=[history], clock=clock) as partition,
        pages.served(
            partition, history, lambda: STATUS, prepare=lambda app: _fill(partition, clock, app), clock=clock
        ) as address,
    ):
        yield address


@contextmanager
def _empty(_folder: Path) -> Iterator[str]:
    history = History()
    partition = Partition(parse_config("partitions: [{queues: [{name: root}]}]").partition(), subscribers=[history])
    with pages.served(partition, history) as address:
        yield address


@contextmanager
def _refused(folder: Path) -> Iterator[str]:
    file, clock = folder / "queues.yaml", _clock()
    file.write_text(_CONFIG)
    history = History(clock=clock)

    def refuse(app: Starlette) -> None:
        _fill(partition, clock, app)
        file.write_text(_CONFIG.replace("memory: 512Gi", f"memory: -1, {LONG}: 2"))
        app.state.configurations.reload_if_changed()

    with (
        pages.stored(_parsed(), models=lending_models(), subscribers=[history], clock=clock) as partition,
        pages.served(partition, history, lambda: STATUS, config_path=file, prepare=refuse, clock=clock) as address,
    ):
        yield address


#: All states of a server, by name.
SCENARIOS: Final[Mapping[str, Scenario]] = {
    "full": Scenario(_full, _VIEWS),
    "empty": Scenario(_empty, _EMPTY),
    "refused": Scenario(_refused, _TROUBLED),
}


#: The heights of windows by width; 640 by 400 are 1280 by 800 pixels at a zoom of 200 %.
WIDTHS: Final[Mapping[int, int]] = {390: 844, 640: 400, 1280: 800, 1920: 1080}


def open_tab(browser: Browser, scheme: Literal["light", "dark"], width: int) -> Page:
    """Open a tab with a window of some width."""
    zoom = 2 if width == 640 else 1
    context = browser.new_context(
        viewport={"width": width, "height": WIDTHS[width]},
        device_scale_factor=zoom,
        color_scheme=scheme,
        reduced_motion="reduce",
    )
    context.set_default_timeout(pages.TIMEOUT)
    return context.new_page()


def open_place(tab: Page, address: str, place: Place) -> None:
    """Open a view, and wait until it is complete."""
    # Another query makes the browser load the document again.
    query = quote(f"{place.partition} {place.view}"[:60])
    tab.goto(f"{address}?{query}#/{place.partition}/{place.view}")
    tab.locator(place.ready).first.wait_for(state="attached")
