"""JupyterHub with its proxy and servers, and limits in the hub or of a service; with kills of each process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import pytest

from support.hosts import Processes, QuotaService, processes, retry, wait_until
from support.jupyter_hub import Answer, Hub, Visitor, example
from ugm import Resource, UserGroup, parse_config
from ugm.partition import AbstractPartition, RunningApplication
from ugm.store import open_partition
from ugm.testing import check_running

pytestmark = pytest.mark.hosts

QUOTA: Final = """
partitions:
- name: default
  queues:
  - name: hub
    resources: {max: {servers: 6}}
    limits:
    - {users: ["*"], maxresources: {servers: 2}}
    - {groups: [lab], maxresources: {servers: 3}}
  placementrules: [{name: fixed, value: root.hub}]
  ugm:
    budgets:
    - {name: gpu time, user: "*", amounts: {gpu: 3}, unit: second, period: year, mode: admit}
"""
LIMITS: Final = """
from ugm import Resource
from ugm.integrations.jupyterhub import limit_servers, quota_source, server_usage

def usage(spawner):
    return server_usage(spawner) + Resource(gpu=int(spawner.user_options.get("gpu", 0)))

c.Spawner.options_form = "A form."
c.Spawner.options_from_form = lambda form: {"gpu": form["gpu"][0]}
limit_servers(c, quota_source(%s), usage=usage)
"""
EMBEDDED: Final = '"quota.yaml", store="quota.db"'
SHARED: Final = 'service={address!r}, token_file="token", deadline=2'
GROUPS: Final = {"lab": ["ana", "ben"], "ops": ["eve", "joe"]}
#: The time in which everything is repaired.
REPAIR: Final = 60


class Site:
    """A hub with limits.

    Args:
        owner: starts the processes.
        folder: the folder of all files.
        is_shared: whether the limits are those of a service.
    """

    def __init__(self, owner: Processes, folder: Path, *, is_shared: bool = False) -> None:
        self.folder: Final = folder
        self.service: Final = QuotaService(owner, folder, QUOTA) if is_shared else None
        source = EMBEDDED
        if self.service is None:
            (folder / "quota.yaml").write_text(QUOTA, "utf-8")
        else:
            self.service.start()
            source = SHARED.format(address=self.service.address)
        self.hub: Final = Hub(owner, folder, LIMITS % source, groups=GROUPS)
        self.hub.start()
        self.hub.add_users(["ana", "ben", "eve", "joe"])

    def spawn(self, user: str, server: str = "", /, **options: object) -> Answer:
        """Start a server as soon as the quotas are ready."""
        return wait_until(
            lambda: (answer := self.hub.spawn(user, server, **options)).status != 409 and answer,
            "the quotas are ready",
            seconds=REPAIR,
            details=lambda: self.hub.log()[-4000:],
        )  # type: ignore[return-value]  # never false

    def audit(self) -> None:
        """Check that the ledger has exactly what runs, and that no limit is exceeded, at the end of a test.

        The hub stops for it if it has the ledger.
        """
        running = [
            RunningApplication(f"jupyterhub/{name}", UserGroup("any"), "root.hub", [(f"jupyterhub/{name}", usage)])
            for name, usage in self._usage().items()
        ]
        if self.service is None:
            self.hub.stop()
        with self.ledger() as partition:
            check_running(partition, running, within_limits=True)

    def ledger(self) -> AbstractContextManager[AbstractPartition]:
        """Return the partition of the service, or of the hub, which has to be stopped."""
        if self.service is not None:
            return self.service.partition()
        return open_partition(self.folder / "quota.db", parse_config(QUOTA).partition())

    def _usage(self) -> dict[str, Resource]:
        users = self.hub.call("GET", "/users").body
        return {
            f"{user['name']}/{name}": Resource(servers=1, gpu=int(server["user_options"].get("gpu", 0)))
            for user in users
            for name, server in user["servers"].items()
        }


@pytest.fixture(name="owner")
def _owner() -> Iterator[Processes]:
    with processes() as owner:
        yield owner


@pytest.fixture(name="site")
def _site(kind: str, owner: Processes, tmp_path: Path) -> Site:
    return Site(owner, tmp_path, is_shared=kind == "service")


@pytest.mark.parametrize("kind", [pytest.param("embedded", marks=pytest.mark.deep), "service"])
def test_users_are_denied_and_served_after_a_release(site: Site) -> None:
    """A denial names the limit and what can help, in REST and on the page; the form shows what remains."""
    hub = site.hub
    assert [site.spawn("ana", name).status for name in ("", "b")] == [201, 201]
    denied = site.spawn("ana", "c")
    assert denied.status == 429
    assert denied.message.startswith("Your limit allows 2 servers (in use: 2 servers)")
    assert denied.message.endswith("Try again when other work has ended.")
    assert site.spawn("ben").status == 201
    assert "The limit of the group lab allows 3 servers" in site.spawn("ben", "b").message

    visitor = Visitor(hub, "eve")
    assert "You can still start: 2 servers." in visitor.open("/hub/spawn").text
    assert visitor.open("/hub/spawn", gpu="0").status == 200
    assert site.spawn("eve", "b").status == 201
    page = visitor.open("/hub/spawn/eve/c", gpu="0")
    assert page.status == 429
    assert "Your limit allows 2 servers (in use: 2 servers)" in page.text
    assert "You can still start: 0 servers. You can still use until " in page.text
    assert page.text.endswith("A form. Start Error The error OK")

    hub.stop_server("ana")
    assert site.spawn("ben", "b").status == 201
    site.audit()


@pytest.mark.parametrize("kind", ["embedded", pytest.param("service", marks=pytest.mark.deep)])
def test_the_hub_and_a_server_are_killed(site: Site) -> None:
    """The hub finds the servers that still run after a restart, and the place of the others is free."""
    hub = site.hub
    for user, server in (("ana", ""), ("ana", "b"), ("ben", "")):
        assert site.spawn(user, server).status == 201
    first, second, _ = hub.servers().values()
    hub.kill()
    os.kill(first, signal.SIGKILL)
    hub.start()
    assert sorted(hub.servers()) == ["ana/b", "ben/"]
    assert site.spawn("ana").status == 201
    assert site.spawn("ana", "c").status == 429

    os.kill(second, signal.SIGKILL)
    wait_until(lambda: site.spawn("ana", "c").status == 201, "the place of a killed server is free", seconds=REPAIR)
    site.audit()


@pytest.mark.parametrize("failure", ["killed", pytest.param("suspended", marks=pytest.mark.deep)])
@pytest.mark.parametrize("kind", ["service"])
def test_the_quota_service_does_not_answer(site: Site, failure: str) -> None:
    """Nothing starts, the hub stays up and answers at once, and everything is repaired when the service is back."""
    hub, service = site.hub, site.service
    assert service is not None
    assert site.spawn("ana").status == 201
    assert site.spawn("eve").status == 201
    begin, end = (
        (service.process.kill, service.start)
        if failure == "killed"
        else (service.process.suspend, service.process.resume)
    )
    begin()
    answers = hub.spawn_all([("ben", ""), ("joe", ""), ("ana", "b"), ("eve", "b"), ("joe", "b")])
    assert [answer.status for answer in answers] == [409] * 5
    assert answers[0].message.startswith("The quota service is not available")
    page = Visitor(hub, "joe").open("/hub/spawn")
    assert "The quota service is not available" in page.text
    start = time.monotonic()
    assert hub.call("GET", "/users").status == 200
    assert time.monotonic() - start < 5
    hub.stop_server("ana")
    assert hub.process.is_alive

    end()
    # A resumed service first grants the calls that have expired, and the comparison ends these grants.
    wait_until(lambda: site.spawn("ben").status == 201, "the quotas are repaired", seconds=REPAIR)
    retry(site.audit)
    assert set(hub.servers()) == {"eve/", "ben/"}


def test_the_example(owner: Processes, tmp_path: Path) -> None:
    """The hub of the examples denies a GPU, and more memory than a user can have."""
    hub = example(owner, tmp_path)
    hub.start()
    visitor = Visitor(hub, "ana")
    start = visitor.open("/hub/spawn/ana", memory="2G", gpu="1")
    assert start.status == 200, start.text
    hub.process.wait_until(lambda: "ana/" in hub.servers(), "the server runs")
    page = visitor.open("/hub/spawn/ana/two", memory="1G", gpu="1")
    assert page.status == 429
    assert "Your limit allows 1 GPU (in use: 1 GPU), and the request is for 1 GPU." in page.text
    assert "You can still start: 0 GPUs, 2 GiB of memory, 1 server." in page.text
    page = visitor.open("/hub/spawn/ana/two", memory="8G", gpu="0")
    assert page.status == 403
    assert "Your limit allows 4 GiB of memory at most" in page.text
