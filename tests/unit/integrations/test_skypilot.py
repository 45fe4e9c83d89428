"""The policy for SkyPilot: requests as SkyPilot 0.14 encodes them, and lists of clusters as it prints them."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from starlette.testclient import TestClient

from ugm import Partition, Resource, UserGroup, parse_config
from ugm.integrations import Grants, Work
from ugm.integrations.skypilot import Clusters, create_app, main, task_usage

CONFIG: Final = """
partitions:
- name: default
  queues:
  - name: skypilot
    resources: {max: {gpu: 12}}
    limits:
    - {users: ["*"], maxresources: {gpu: 8}}
    - {groups: [labs], maxresources: {gpu: 10}}
  ugm:
    budgets:
    - {name: GPU hours, user: "*", amounts: {gpu: 100}, unit: hour, period: week, mode: admit}
"""
GPUS_2: Final = {"accelerators": {"L4": 2}, "cpus": "4+", "memory": "16+"}
#: A cluster as ``sky status --output json`` prints it, with the fields that matter.
RECORD: Final[Mapping[str, Any]] = {
    "name": "c1",
    "status": "UP",
    "user_name": "ana",
    "workspace": "labs",
    "nodes": 1,
    "cpus": "8.0",
    "memory": "32.0",
    "accelerators": "{'L4': 2}",
}


def encoded(
    resources: Mapping[str, Any], *, name: str = "launch", user: str = "ana", nodes: int = 1, **changes: object
) -> str:
    """Return a request as SkyPilot encodes it."""
    options = {"cluster_name": changes.pop("cluster", "c1"), "down": False, "dryrun": changes.pop("dryrun", False)}
    task = {"resources": resources, "num_nodes": nodes, "run": "hostname"}
    body = {
        "task": yaml.safe_dump(task),
        "skypilot_config": yaml.safe_dump({"active_workspace": "labs"}),
        "request_name": name,
        "request_options": options,
        "at_client_side": False,
        "user": yaml.safe_dump({"id": "ab12", "name": user}),
    }
    return json.dumps({**body, **changes})


class Policy:
    """A policy over a partition in memory, and its client."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.partition = Partition(parse_config(CONFIG).partition(), clock=lambda: self.now)
        self.grants = Grants(self.partition, "skypilot", tentative=600, clock=lambda: self.now)
        self.clusters = Clusters(self.grants)
        self.client = TestClient(create_app(self.clusters))

    def reconcile(self, *records: Mapping[str, Any]) -> None:
        """Compare the ledger with a list of clusters."""
        work: Callable[[Any], Work] = lambda held: self.clusters.work(records, held)  # noqa: E731 - a short one
        asyncio.run(self.grants.reconcile(work))

    def post(self, body: str) -> str:
        """Return the reason of a rejection, or an empty text."""
        answer = self.client.post("/skypilot/policy", json=body)
        if answer.status_code == 400:
            return answer.text
        posted = json.loads(body)
        assert json.loads(answer.json()) == {name: posted[name] for name in ("task", "skypilot_config")}
        return ""

    def held(self) -> dict[str, int]:
        """Return the GPUs of each cluster in the ledger."""
        return {one.allocation_id: one.usage.get("gpu", 0) for one in self.partition.allocations()}


@pytest.fixture(name="policy")
def _policy() -> Policy:
    """Return a policy that may grant."""
    policy = Policy()
    policy.reconcile()
    return policy


def test_rejection_has_amounts_and_a_remedy(policy: Policy) -> None:
    """A cluster holds the resources of its task on all nodes, for the user in the group of the workspace.

    A rejected cluster charges nothing, and the text says what can help.
    """
    assert not policy.post(encoded(GPUS_2, nodes=3))
    [allocation], [application] = policy.partition.allocations(), policy.partition.applications()
    assert allocation.usage == Resource(clusters=1, nodes=3, L4=6, gpu=6, vcore=12000, memory=3 * 2**34)
    assert (application.user, application.group) == (UserGroup("ana", ("labs",)), "labs")

    assert policy.post(encoded(GPUS_2, nodes=2, cluster="c2")) == (
        "Your limit allows 8 GPUs (in use: 6 GPUs), and the request is for 4 GPUs. Try again when other work has ended."
    )
    assert policy.held() == {"skypilot/c1": 6}


@pytest.mark.parametrize(
    "body",
    [
        encoded(GPUS_2, nodes=20, at_client_side=True, user=""),
        encoded(GPUS_2, nodes=20, dryrun=True),
        encoded(GPUS_2, nodes=20, name="exec"),
        encoded(GPUS_2, nodes=20, name="jobs.launch_controller"),
        encoded(GPUS_2, nodes=2, name="validate"),
        encoded(GPUS_2, nodes=2, name="jobs.launch", request_options=None),
    ],
    ids=["client", "dry run", "exec", "controller", "validate", "job"],
)
def test_other_requests_charge_nothing(policy: Policy, body: str) -> None:
    """Requests that start no cluster of the user are accepted, and the ledger stays empty."""
    assert not policy.post(body)
    assert not policy.held()


def test_early_checks(policy: Policy) -> None:
    """A cluster that cannot start now is rejected at validation; a job, which can wait, only if it never can run."""
    assert not policy.post(encoded(GPUS_2, nodes=3))

    assert "in use: 6 GPUs" in policy.post(encoded(GPUS_2, nodes=2, name="validate", cluster="c2"))
    assert not policy.post(encoded(GPUS_2, nodes=4, name="validate", cluster="c1"))
    assert not policy.post(encoded(GPUS_2, nodes=2, name="jobs.launch", request_options=None))
    assert "Waiting does not help" in policy.post(encoded(GPUS_2, nodes=5, name="jobs.launch", request_options=None))


def test_existing_clusters(policy: Policy) -> None:
    """A smaller request on an existing cluster charges nothing more, also by another user; a larger one is decided."""
    assert not policy.post(encoded(GPUS_2, nodes=2))
    assert not policy.post(encoded(GPUS_2, nodes=1))
    assert not policy.post(encoded({"cpus": 1}, user="ben"))
    assert policy.held() == {"skypilot/c1": 4}

    assert not policy.post(encoded(GPUS_2, nodes=4))
    assert "8 GPUs at most" in policy.post(encoded(GPUS_2, nodes=5))
    assert policy.held() == {"skypilot/c1": 8}


def test_list_of_clusters(policy: Policy) -> None:
    """Stopped clusters and those of SkyPilot itself hold nothing. Sizes are those of the machines, once known."""
    policy.post(encoded(GPUS_2, cluster="c2", user="ben"))
    launching = {**RECORD, "name": "c2", "status": "INIT", "nodes": 1, "cpus": None, "memory": None}
    stopped = {**RECORD, "name": "c3", "status": "STOPPED"}
    controller = {**RECORD, "name": "sky-jobs-controller-ab12"}
    policy.reconcile({**RECORD, "nodes": 2}, {**launching, "accelerators": None}, stopped, controller)

    found = {one.allocation_id: one.usage for one in policy.partition.allocations()}
    assert found == {
        "skypilot/c1": Resource(clusters=1, nodes=2, L4=4, gpu=4, vcore=16000, memory=2**36),
        "skypilot/c2": Resource(clusters=1, nodes=1, L4=2, gpu=2, vcore=4000, memory=2**34),
    }
    assert {one.user.name for one in policy.partition.applications()} == {"ana", "ben"}
    policy.partition.verify()
    # A grant ends if SkyPilot does not list the cluster in ten minutes.
    policy.post(encoded(GPUS_2, cluster="c4"))
    for seconds, held in ((599, {"skypilot/c1", "skypilot/c4"}), (2, {"skypilot/c1"})):
        policy.now += seconds
        policy.reconcile(RECORD)
        assert set(policy.held()) == held


@pytest.mark.parametrize(
    ("resources", "usage"),
    [
        ({"cpus": 0.5, "memory": "1.5"}, {"vcore": 500, "memory": 3 * 2**29}),
        ({"cpus": "4+", "memory": "2x"}, {"vcore": 4000, "memory": 2**33}),
        ({"accelerators": {"L4": 0.5}}, {"L4": 1, "gpu": 1}),
        (
            {"cpus": "4", "any_of": [{"accelerators": {"A100": 1}}, {"accelerators": {"L4": 4}}]},
            {"A100": 1, "L4": 4, "gpu": 4, "vcore": 4000},
        ),
        ({"ordered": [{"cpus": "8", "memory": "16"}, {"cpus": "4", "memory": "64"}]}, {"vcore": 8000, "memory": 2**36}),
    ],
)
def test_usage_of_tasks(resources: Mapping[str, Any], usage: Mapping[str, int]) -> None:
    """Amounts are rounded up; of alternatives, the largest amounts count."""
    assert task_usage({"resources": resources}).items() >= {"clusters": 1, "nodes": 1, **usage}.items()


def test_command_reconciles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``reconcile`` reads what ``sky status`` prints, with lines of a log, and prints the differences."""
    (tmp_path / "limits.yaml").write_text(CONFIG, "utf-8")
    text = f"D 11-28 a line of a log\n{json.dumps([RECORD], indent=2)}\nD 11-28 another line\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    main(["reconcile", str(tmp_path / "limits.yaml")])

    assert "adopted applications: 'skypilot/c1'" in capsys.readouterr().out
