"""Metrics, alert rules and the dashboard, with the programs of Prometheus."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from starlette.testclient import TestClient

from support.lending import TAGS, lending_models
from support.places import EXAMPLES
from support.server_fixtures import STATUS
from ugm import AllocationRequest, Partition, Resource, UserGroup, parse_config
from ugm.budgets import Budget, Budgets, Period
from ugm.partition import ThresholdWatch
from ugm.server import History, PartitionCollector, create_app
from ugm.server.metrics.collector import exposition
from ugm.server.metrics.table import descriptions

pytestmark = pytest.mark.ci

CONFIG: Final = """
partitions:
- name: default
  preemption: {quotapreemptionenabled: true}
  ugm:
    fairshare: {accounts: {team: 1}, users: {team/ana: 1}, halflife: 3600}
    thresholds: {shares: [80]}
  queues:
  - name: a
    maxapplications: 10
    resources: {guaranteed: {vcore: 2, memory: 4, gpu: 1}, max: {vcore: 8, memory: 9, gpu: 2}}
  - name: lowered
    resources: {max: {memory: 3}}
    properties: {quota.preemption.delay: 1h}
  limits:
  - {limit: all, users: ["*"], maxresources: {vcore: 6, memory: 8, gpu: 2}, maxapplications: 4}
  - {limit: team, groups: [team], maxresources: {vcore: 6, memory: 8, gpu: 2}, maxapplications: 4}
"""
DASHBOARD: Final = json.loads((EXAMPLES / "monitoring" / "grafana-dashboard.json").read_text())
QUERIES: Final = [
    (panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel.get("targets", ())
]


class World:
    """A server of a partition in which every metric has a value, and its work."""

    def __init__(self) -> None:
        self.history = History()
        budgets = Budgets([Budget("monthly", user="*", amounts=Resource(vcore=10**9), period=Period.MONTH)])
        models = [*lending_models(), budgets]
        self.partition = Partition(parse_config(CONFIG).partition(), models=models, subscribers=[self.history])
        self.partition.add_node("node", Resource(vcore=8000, memory=16, gpu=4))
        self.partition.submit("app", UserGroup("ana", ("team",)), "root.a", tags=TAGS)
        assert self.partition.allocate("held", "app", Resource(vcore=500, memory=2, gpu=1), duration=3600)
        self.partition.request("pending", "app", Resource(memory=4, gpu=1))
        self.partition.submit("reduced", UserGroup("ben"), "root.lowered", tags=TAGS)
        assert self.partition.allocate("reduced", "reduced", Resource(memory=3))
        self.partition.configure(parse_config(CONFIG.replace("memory: 3", "memory: 2")).partition())
        watch = ThresholdWatch(self.partition)
        watch.update()
        collector = PartitionCollector(
            {"default": self.partition},
            thresholds={"default": watch},
            history={"default": self.history},
            services={"default": lambda: STATUS},
        )
        self.exposition = exposition(collector)

    def work(self) -> None:
        """Grant, release and deny something."""
        assert self.partition.allocate("more", "app", Resource(memory=1))
        self.partition.release("more")
        assert not self.partition.allocate("more", "app", Resource(memory=100))
        self.partition.plan_preemption(AllocationRequest("more", "app", Resource(memory=1)), since=0)


def program(name: str) -> str:
    """Return the path of a program of Prometheus."""
    found = shutil.which(name)
    assert found, f"{name} is missing; it belongs to the package prometheus of Debian"
    return found


def promtool(*arguments: str, text: str = "") -> None:
    """Run promtool, which must accept its input."""
    command = [program("promtool"), *arguments]
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)  # noqa: S603 - of the tests
    assert (result.returncode, result.stderr.strip()) == (0, ""), result.stdout + result.stderr


def test_promtool_accepts_the_metrics() -> None:
    """Names, kinds, units and descriptions follow the conventions of Prometheus, also those of the server.

    Every metric has a value here, and those of the dashboard and of the alerts exist.
    """
    world = World()
    world.work()
    text = TestClient(create_app({"default": world.partition}, metrics=world.exposition)).get("/metrics").text

    promtool("check", "metrics", text=text)
    families = {line.split()[2].removesuffix("_total") for line in text.splitlines() if line.startswith("# TYPE")}
    # The groups and nodes limit only cores here.
    unused = {
        name
        for name in (described.removesuffix("_total") for described in descriptions())
        if name.startswith(("ugm_elastic_group_", "ugm_quota_node_")) and name.endswith(("_bytes", "_units"))
    }
    assert {name.removesuffix("_total") for name in descriptions()} - families == unused
    samples = {line.partition("{")[0].partition(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    alerts = (EXAMPLES / "monitoring" / "prometheus-alerts.yaml").read_text()
    used = re.findall(r"\bugm_\w+", " ".join([alerts, *(query for _, query in QUERIES)]))
    assert set(used) - samples - unused == set()


def test_promtool_accepts_rules_and_configuration() -> None:
    """The alert rules, and the example of a configuration that uses them."""
    folder = EXAMPLES / "monitoring"

    promtool("check", "rules", str(folder / "prometheus-alerts.yaml"))
    promtool("check", "config", str(folder / "prometheus.yaml"))


def test_promtool_accepts_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    """Every query of the dashboard is a valid expression, with any values of its variables."""
    variables = {"$partition": ".*", "$queue": ".*", "$__rate_interval": "1m"}
    rules = []
    for number, (_, query) in enumerate(QUERIES):
        for name, value in variables.items():
            query = query.replace(name, value)  # noqa: PLW2901 - with all of them
        rules.append({"record": f"query:{number}", "expr": query})
    file = tmp_path / "queries.json"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))

    promtool("check", "rules", str(file))
