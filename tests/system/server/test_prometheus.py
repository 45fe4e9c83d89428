"""Metrics, alert rules and the dashboard, with the programs of Prometheus."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from starlette.testclient import TestClient

from support.lending import TAGS, lending_models
from support.places import EXAMPLES
from support.server_fixtures import STATUS, running
from ugm import AllocationRequest, Partition, Resource, UserGroup, parse_config
from ugm.budgets import Budget, Budgets, Period
from ugm.partition import ThresholdWatch
from ugm.server import DecisionTimes, History, PartitionCollector, create_app
from ugm.server.metrics.collector import exposition
from ugm.server.metrics.table import descriptions
from ugm.server.serving import listen

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
#: The values of the variables of the dashboard.
VARIABLES: Final = {"$partition": ".*", "$queue": ".*", "$__rate_interval": "1m"}
DASHBOARD: Final = json.loads((EXAMPLES / "monitoring" / "grafana-dashboard.json").read_text())
QUERIES: Final = [
    (panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel.get("targets", ())
]


class World:
    """A server of a partition in which every metric has a value, and its work."""

    def __init__(self) -> None:
        self.history, self.times = History(), DecisionTimes()
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
        self.allocate = self.times.timed(self.partition.allocate)
        watch = ThresholdWatch(self.partition)
        watch.update()
        collector = PartitionCollector(
            {"default": self.partition},
            thresholds={"default": watch},
            history={"default": self.history},
            services={"default": lambda: STATUS},
            times={"default": self.times},
        )
        self.exposition = exposition(collector)

    def work(self) -> None:
        """Grant, release and deny something."""
        assert self.allocate("more", "app", Resource(memory=1))
        self.partition.release("more")
        assert not self.allocate("more", "app", Resource(memory=100))
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


def selected(query: str) -> str:
    """Return a query of the dashboard with the values of its variables."""
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    return query


def test_promtool_accepts_the_metrics() -> None:
    """Names, kinds, units and descriptions follow the conventions of Prometheus, also those of the server."""
    world = World()
    world.work()
    text = TestClient(create_app({"default": world.partition}, metrics=world.exposition)).get("/metrics").text

    promtool("check", "metrics", text=text)
    missing = {name.removesuffix("_total") for name in descriptions()} - {
        line.split()[2].removesuffix("_total") for line in text.splitlines() if line.startswith("# TYPE")
    }
    assert missing == UNUSED


#: The units that amounts of the models do not have here: the groups and nodes limit only cores.
UNUSED: Final = {
    name
    for name in descriptions()
    if name.startswith(("ugm_elastic_group_", "ugm_quota_node_")) and name.endswith(("_bytes", "_units"))
}


def test_promtool_accepts_rules_and_configuration() -> None:
    """The alert rules, and the example of a configuration that uses them."""
    folder = EXAMPLES / "monitoring"

    promtool("check", "rules", str(folder / "prometheus-alerts.yaml"))
    promtool("check", "config", str(folder / "prometheus.yaml"))


def test_promtool_accepts_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    """Every query of the dashboard is a valid expression."""
    rules = [{"record": f"query:{number}", "expr": selected(query)} for number, (_, query) in enumerate(QUERIES)]
    file = tmp_path / "queries.json"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))

    promtool("check", "rules", str(file))


@contextmanager
def prometheus(folder: Path, targets: list[int]) -> Iterator[str]:
    """Run Prometheus with the alert rules, and yield its address."""
    with listen("127.0.0.1", 0) as reserved:
        port = reserved.getsockname()[1]
    rules = EXAMPLES / "monitoring" / "prometheus-alerts.yaml"
    jobs = [{"job_name": "ugm", "static_configs": [{"targets": [f"127.0.0.1:{target}" for target in targets]}]}]
    settings = {"global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"}}
    file = folder / "prometheus.json"
    file.write_text(json.dumps({**settings, "rule_files": [str(rules)], "scrape_configs": jobs}))
    arguments = [
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with subprocess.Popen([program("prometheus"), *arguments]) as process:  # noqa: S603 - of the tests
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def results(address: str, path: str, **query: str) -> Any:  # noqa: ANN401 - JSON
    """Return the data of an answer of Prometheus; None while it does not answer."""
    try:
        with urlopen(f"{address}/api/v1/{path}?{urlencode(query)}") as answer:  # noqa: S310 - our own server
            return json.load(answer)["data"]
    except OSError:
        return None


def test_every_query_returns_data(tmp_path: Path) -> None:
    """Prometheus scrapes a server, and every query of the dashboard and every metric of an alert has data."""
    world, ended = World(), threading.Event()

    def work() -> None:
        while not ended.wait(0.05):
            world.work()

    worker = threading.Thread(target=work)
    with running(create_app({"default": world.partition}, metrics=world.exposition)) as port:
        worker.start()
        try:
            with prometheus(tmp_path, [port]) as address:
                empty = _empty_queries(address)
                alerts = results(address, "rules")
        finally:
            ended.set()
            worker.join()

    assert empty == []
    rules = alerts["groups"][0]["rules"]
    assert {rule["health"] for rule in rules} == {"ok"}


def _empty_queries(address: str) -> list[tuple[str, str]]:
    """Return the queries without data, when all have data or after half a minute."""
    left = [query for query in QUERIES if not selected(query[1]).startswith(tuple(UNUSED))]
    for _ in range(60):
        left = [
            query for query in left if not (results(address, "query", query=selected(query[1])) or {}).get("result")
        ]
        if not left:
            break
        time.sleep(0.5)
    return left
