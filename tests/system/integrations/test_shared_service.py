"""JupyterHub and Dask Gateway share one service: a limit of a user counts the servers and the clusters together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.dask_gateway import DaskGateway
from support.hosts import Processes, QuotaService, processes, wait_until
from support.jupyter_hub import Hub
from ugm.service import ConnectedPartition

pytestmark = pytest.mark.hosts

QUOTA: Final = """
partitions:
- name: default
  queues:
  - name: shared
    limits:
    - {users: ["*"], maxresources: {vcore: 2}}
    - {groups: [lab], maxresources: {vcore: 3}}
  placementrules: [{name: fixed, value: root.shared}]
"""
HUB: Final = """
from ugm.integrations.jupyterhub import limit_servers, quota_source
c.Spawner.cpu_limit = 1
limit_servers(c, quota_source(service={service!r}, token_file="token"))
"""
GATEWAY: Final = 'service={service!r}, token_file="token"'
GROUPS: Final = {"lab": ("ana", "ben")}


class Site:
    """Both hosts, and the service that they share."""

    def __init__(self, owner: Processes, folder: Path) -> None:
        self.service: Final = QuotaService(owner, folder, QUOTA)
        self.service.start()
        address = self.service.address
        self.hub: Final = Hub(owner, folder, HUB.format(service=address), groups=GROUPS)
        self.gateway: Final = DaskGateway(
            owner, folder, GATEWAY.format(service=address), {"ana": ("lab",), "ben": ("lab",)}
        )
        self.hub.start()
        self.gateway.start()
        self.hub.add_users(["ana", "ben"])

    def used(self, partition: ConnectedPartition) -> dict[str, int]:
        """Return the cores of each user in the ledger."""
        found: dict[str, int] = {}
        for one in partition.applications():
            found[one.user.name] = found.get(one.user.name, 0) + one.usage.get("vcore", 0)
        return found


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> Iterator[Site]:
    """Return running hosts."""
    with processes() as owner:
        yield Site(owner, tmp_path)


def test_one_limit_for_both(site: Site) -> None:
    """Servers and clusters of a user, and of a group, count for one limit; each host ends only its own work."""
    with site.service.partition() as partition:
        wait_until(lambda: site.hub.spawn("ana").status == 201, "a server starts after the first comparison")
        first = wait_until(
            lambda: _started(site.gateway.start_cluster("ana", cheap_scheduler=True)), "a cluster starts"
        )
        assert site.used(partition) == {"ana": 2000}

        denied = site.hub.spawn("ana", "second")
        assert (denied.status, "Your limit allows 2 cores" in denied.message) == (429, True)
        assert "Your limit allows 2 cores" in site.gateway.start_cluster("ana", cheap_scheduler=True)

        assert site.hub.spawn("ben").status == 201
        assert "group lab allows 3 cores" in site.gateway.start_cluster("ben", cheap_scheduler=True)

        site.gateway.stop_cluster(first, "ana")
        wait_until(lambda: site.used(partition) == {"ana": 1000, "ben": 1000}, "the cluster has ended")
        assert site.hub.spawn("ana", "second").status == 201
        assert "group lab allows 3 cores" in site.gateway.start_cluster("ana", cheap_scheduler=True)

        site.gateway.process.kill()
        site.hub.kill()
        site.hub.start()
        site.gateway.start()
        wait_until(lambda: "not ready" not in site.gateway.start_cluster("ben", cheap_scheduler=True), "it is compared")
        assert site.used(partition) == {"ana": 2000, "ben": 1000}
        partition.verify()


def _started(answer: str) -> str:
    """Return the name of a cluster; empty if the gateway has not compared the ledger yet."""
    return "" if "not ready" in answer else answer
