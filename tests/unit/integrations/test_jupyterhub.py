"""The hooks, the form and the comparison for JupyterHub, with objects that have the attributes of those of the hub."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import pytest

from support.places import EXAMPLES
from ugm import Partition, RequestError, Resource, parse_config
from ugm.integrations import Grants
from ugm.integrations.jupyterhub import ServerLimits, limit_servers, server_usage

CONFIG: Final = """
partitions:
- name: default
  queues:
  - name: hub
    limits:
    - {users: ["*"], maxresources: {servers: 2, memory: 4Gi}}
    - {groups: [lab], maxresources: {servers: 3}}
  placementrules: [{name: fixed, value: root.hub}]
"""
#: The configuration of a hub, whose sections come into being when they are used.
Settings = defaultdict[str, dict[str, Any]]


class SpawnException(Exception):  # noqa: N818 - the name in the hub
    """The error of the hub for denied servers."""

    def __init__(self, message: str, *, reason: str, status_code: int) -> None:
        super().__init__(message)
        self.message, self.reason, self.status_code = message, reason, status_code


@dataclass
class User:
    """A user of the hub."""

    name: str = "ana"
    group_names: tuple[str, ...] = ("lab",)
    spawners: dict[str, Spawner] = field(default_factory=dict)

    @property
    def groups(self) -> list[SimpleNamespace]:
        """The groups, as objects."""
        return [SimpleNamespace(name=name) for name in self.group_names]


@dataclass
class Spawner:
    """A server of a user."""

    name: str = ""
    user: User = field(default_factory=User)
    server: object = None
    pending: str | None = None
    mem_guarantee: int | None = None
    mem_limit: int | None = None
    cpu_guarantee: float | None = None
    cpu_limit: float | None = None
    default_form: str = ""
    user_options: dict[str, Any] = field(default_factory=dict)
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("hub"))

    def __post_init__(self) -> None:
        """Add the server to its user."""
        self.user.spawners[self.name] = self

    def trait_defaults(self, name: str, /) -> str:
        """Return the form of the class."""
        assert name == "options_form"
        return self.default_form


class Hub:
    """The application."""

    def __init__(self, config: Settings) -> None:
        self.config = config
        self.spawner_class = type("KubeSpawner", (type("Spawner", (), {}),), {})
        self.log = logging.getLogger("hub")
        self.users: dict[int, User] = {}
        self.has_started = False

    async def start(self) -> None:
        """Start the application."""
        await asyncio.sleep(0)
        self.has_started = True


@pytest.fixture(name="c", autouse=True)
def _c(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return the configuration of a hub that runs."""
    c: Settings = defaultdict(dict)
    app, spawner = ModuleType("jupyterhub.app"), ModuleType("jupyterhub.spawner")
    hub = Hub(c)
    app.JupyterHub = SimpleNamespace(initialized=lambda: True, instance=lambda: hub)  # type: ignore[attr-defined]
    spawner.SpawnException = SpawnException  # type: ignore[attr-defined]
    for module in (ModuleType("jupyterhub"), app, spawner):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(logging.getLogger("ugm"), "parent", logging.getLogger().root)
    return c


def hub_of() -> Hub:
    """Return the application of the configuration."""
    hub: Hub = sys.modules["jupyterhub.app"].JupyterHub.instance()
    return hub


@pytest.fixture(name="partition")
def _partition() -> Partition:
    """Return the quotas."""
    return Partition(parse_config(CONFIG).partition())


def ready(partition: Partition, **options: Any) -> ServerLimits:  # noqa: ANN401 - those of the class
    """Return limits that have been compared with an idle hub."""
    limits = ServerLimits(Grants(partition, "hub"), **options)
    run(limits.grants.reconcile(lambda held: limits.list_work([], held)))
    return limits


def run(awaitable: Awaitable[Any]) -> Any:  # noqa: ANN401 - whatever it returns
    """Run a coroutine of the hub."""

    async def result() -> Any:  # noqa: ANN401 - as above
        return await awaitable

    return asyncio.run(result())


def denial(coroutine: Coroutine[Any, Any, Any]) -> SpawnException:
    """Return the denial of a start."""
    with pytest.raises(SpawnException) as caught:
        asyncio.run(coroutine)
    return caught.value


# Usage and ids


@pytest.mark.parametrize(
    ("amounts", "usage"),
    [
        ({}, Resource(servers=1)),
        ({"mem_limit": 2**30, "cpu_limit": 1.5}, Resource(servers=1, memory=2**30, vcore=1500)),
        (
            {"mem_limit": 2**30, "mem_guarantee": 2**20, "cpu_limit": 4.0, "cpu_guarantee": 0.1},
            Resource(servers=1, memory=2**20, vcore=100),
        ),
    ],
)
def test_the_usage_is_what_is_guaranteed(amounts: Mapping[str, Any], usage: Resource) -> None:
    """A server counts with its guarantees; a limit counts if there is no guarantee."""
    assert server_usage(Spawner(**amounts)) == usage


NAMES: Final = ["ana", "ana.b", "ana b", "ána@example.org", "ana%2Fx", "a" * 100, "a" * 255, "-", "."]


def test_ids_are_unambiguous(partition: Partition) -> None:
    """No two servers have the same id, whatever their names are, and all ids are valid."""
    limits = ready(partition)
    servers = [Spawner(server, User(user)) for user in NAMES for server in ("", "x", "s" * 255)]
    for one in servers:
        one.server = "http"
    work = run(limits.list_work([one.user for one in servers], {}))
    names = [one.application_id for one in work.running]

    assert len(names) == len(servers)
    assert all(first != second for first, second in combinations(names, 2))
    run(limits.grants.reconcile(lambda held: limits.list_work([one.user for one in servers], held)))
    assert len(partition.application_ids()) == len(servers)


# Denials


def test_a_denial_says_what_can_help(partition: Partition) -> None:
    """The status tells whether waiting helps, and pages that show the failure later have the same text."""
    limits, user = ready(partition, duration=lambda _: 3600), User()
    for name in ("", "b"):
        run(limits.grant(Spawner(name, user)))
    assert [one.duration for one in partition.allocations()] == [3600, 3600]
    later = denial(limits.grant(Spawner("c", user)))
    never = denial(limits.grant(Spawner("", User("ben"), mem_limit=2**40)))

    assert (later.status_code, never.status_code) == (429, 403)
    assert later.message.startswith("Your limit allows 2 servers")
    assert "Ask" in never.message or "ask" in never.message
    assert later.jupyterhub_message == later.message  # type: ignore[attr-defined]
    assert later.reason == "quota"


def test_errors_in_functions_of_the_operator_deny(partition: Partition, caplog: pytest.LogCaptureFixture) -> None:
    """A user who sends strange options is denied, and the log has the error; an outage denies as well.

    A status of 500 would make the hub stop after some denials.
    """

    def usage(spawner: Any) -> Resource:  # noqa: ANN401 - the attributes of the test
        return Resource(servers=1, gpu=int(spawner.user_options["gpu"]))

    limits = ready(partition, usage=usage)
    assert denial(limits.grant(Spawner(user_options={"gpu": "many"}))).status_code == 409
    assert "invalid literal" in caplog.text

    async def fail() -> Any:  # noqa: ANN401 - as a source
        raise ConnectionError

    limits = ServerLimits(Grants(fail, "hub"))
    assert denial(limits.grant(Spawner())).status_code == 409
    limits.grants.is_ready = True
    assert denial(limits.grant(Spawner())).status_code == 409
    run(limits.end(Spawner()))


class KubeSpawner(Spawner):
    """A server whose profile is applied late."""

    async def load_user_options(self) -> None:
        """Apply the profile that the user has chosen."""
        self.mem_limit = {"small": 2**20, "large": 2**30}[self.user_options["profile"]]


def test_profiles_are_applied_before_the_usage_is_read(partition: Partition) -> None:
    """Also for servers that are found after a restart; one whose profile is gone counts without it."""
    limits, user = ready(partition), User()
    run(limits.grant(KubeSpawner("a", user, user_options={"profile": "large"})))
    KubeSpawner("b", user, "http", user_options={"profile": "small"})
    KubeSpawner("c", user, "http", user_options={"profile": "gone"})
    run(limits.grants.reconcile(lambda held: limits.list_work([user], held)))
    assert {one.allocation_id: one.usage.get("memory") for one in partition.allocations()} == {
        "hub/ana/b": 2**20,
        "hub/ana/c": None,
    }
    assert denial(limits.grant(KubeSpawner("d", User(), user_options={"profile": "gone"}))).status_code == 409


# Hooks of the operator


def hooks(order: list[str]) -> tuple[Callable[[object], None], Callable[[object], Coroutine[Any, Any, None]]]:
    """Return a plain hook and a coroutine function, which record their calls."""

    async def coroutine(_: object) -> None:
        await asyncio.sleep(0)
        order.append("coroutine")

    return lambda _: order.append("plain"), coroutine


@pytest.mark.parametrize("section", ["Spawner", "KubeSpawner"])
@pytest.mark.parametrize("number", [0, 1])
def test_hooks_of_the_operator_run(c: Settings, partition: Partition, section: str, number: int) -> None:
    """The grant follows the first hook, which may change the server, and its end does not wait for the second hook."""
    order: list[str] = []
    hook = hooks(order)[number]
    c[section]["pre_spawn_hook"] = c[section]["post_stop_hook"] = hook
    limits = limit_servers(c, _source(partition), usage=lambda _: _noted(order, "usage"))
    limits.grants.is_ready = True
    run(c[section]["pre_spawn_hook"](Spawner()))
    assert order == [["plain", "coroutine"][number], "usage"]
    assert partition.application_ids() == ("jupyterhub/ana/",)
    run(c[section]["post_stop_hook"](Spawner()))
    assert len(order) == 3
    assert partition.application_ids() == ()


def _noted(order: list[str], text: str) -> Resource:
    order.append(text)
    return Resource(servers=1)


def _source(partition: Partition) -> Callable[[], Coroutine[Any, Any, Partition]]:
    async def source() -> Partition:
        return partition

    return source


# The form


def test_the_form_shows_what_remains(partition: Partition) -> None:
    """The amounts come first, and then the form of the operator."""
    limits = ready(partition)
    forms = ["<b>x</b>", lambda _: "<b>x</b>", lambda _: asyncio.sleep(0, "<b>x</b>")]
    for form in forms:
        text = run(limits.options_form(form)(Spawner()))  # type: ignore[arg-type]
        assert text == '<p class="ugm-remaining">You can still start: 4 GiB of memory, 2 servers.</p>\n<b>x</b>'
    assert run(limits.options_form()(Spawner())).endswith("</p>\n")
    assert run(limits.options_form()(Spawner(default_form="profiles"))).endswith("</p>\nprofiles")


# The comparison


def test_a_server_keeps_its_usage(partition: Partition) -> None:
    """The hub does not know after a restart which limits a server was started with, but the ledger does.

    Servers that are checked after a restart run; those that start or stop are left as they are.
    """
    limits, server = ready(partition), Spawner(mem_limit=2**31)
    run(limits.grant(server))
    server.mem_limit, server.server = 2**30, "http"
    other = Spawner("other", server.user, "http", "check", mem_limit=2**30)
    for name, pending, address in (("idle", None, None), ("spawn", "spawn", "http"), ("stop", "stop", "http")):
        Spawner(name, server.user, address, pending)
    assert list(run(limits.list_work([server.user], {})).starting) == ["ana/spawn", "ana/stop"]
    run(limits.grants.reconcile(lambda held: limits.list_work([server.user], held)))

    assert {one.allocation_id: one.usage["memory"] for one in partition.allocations()} == {
        "hub/ana/": 2**31,
        f"hub/ana/{other.name}": 2**30,
    }


@pytest.mark.parametrize("name", ["pre_spawn_hook", "post_stop_hook"])
@pytest.mark.parametrize("section", ["Spawner", "KubeSpawner"])
def test_a_hook_that_replaces_the_limits_stops_the_hub(
    c: Settings, partition: Partition, name: str, section: str
) -> None:
    """Otherwise servers would start without limits."""
    limit_servers(c, _source(partition))
    c[section][name] = print
    with pytest.raises(RequestError, match="limit_servers"):
        run(hub_of().start())
    assert not hub_of().has_started


@pytest.mark.parametrize("name", ["minimal", "shared"])
def test_the_lines_of_the_page(c: Settings, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of the examples limit the servers of a hub."""
    shutil.copy(EXAMPLES / "jupyterhub" / "quota.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    text = (EXAMPLES / "jupyterhub" / f"{name}.py").read_text("utf-8")
    exec(text.replace("c.Spawner.options_form", 'c["Spawner"]["options_form"]'), {"c": c})  # noqa: S102 - as the hub does
    assert c["Spawner"]["pre_spawn_hook"]
