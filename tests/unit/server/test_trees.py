"""Views and metrics of the trees of quota models: elastic groups, and nodes of quota trees."""

from __future__ import annotations

from typing import Any

import pytest

from support.failing_models import Failing, Fuse
from support.lending import crowd_of_groups, lending
from support.partition_fixtures import BrokenError, config, started
from support.server_fixtures import PREFIX, busy, client, create_partition, json_at, samples_of
from ugm import Partition, Resource
from ugm.server import PartitionCollector
from ugm.server.views.model_trees import ModelTree, TreeItem

#: Every test runs with partitions in memory, with those of a store and with clients of a service.
pytestmark = pytest.mark.usefixtures("storage")


def amounts_of(answer: Any) -> dict[str, dict[str, int | None]]:  # noqa: ANN401 - JSON
    """Return the amounts of each row of a tree."""
    return {row["name"]: row["amounts"] for row in answer["rows"]}


def test_trees_are_listed() -> None:
    """The trees of all models are listed with their kinds, and a partition without models has none."""
    found = json_at(lending(create_partition), "trees")

    assert found["trees"] == [
        {"name": "elastic", "kind": "elastic", "mode": "", "nodes": 5},
        {"name": "Teams", "kind": "quota", "mode": "normal", "nodes": 3},
    ]
    assert found["models"] == [
        {"model": "ElasticModel", "is_suspended": False},
        {"model": "TreeModel", "is_suspended": False},
    ]
    assert json_at(busy(), "trees") == {"trees": [], "models": []}


def test_elastic_groups() -> None:
    """The amounts of elastic groups show who borrows and who lends."""
    found = json_at(lending(create_partition), "tree", tree="elastic")
    amounts = amounts_of(found)

    parents = {row["name"]: row["parent"] for row in found["rows"]}
    top = "koordinator-root-quota"
    assert parents == {top: "", "ml": top, "ops": top, "ml-train": "ml", "ml-web": "ml"}
    assert (found["kind"], found["resource"], found["nodes"]) == ("elastic", "vcore", 5)
    train = {"used": 2500, "runtime": 2500, "min": 2000, "request": 2500, "max": 8000, "borrowed": 500, "lent": None}
    assert amounts["ml-train"] == train
    assert (amounts["ml-web"]["used"], amounts["ml-web"]["lent"]) == (500, 1500)
    assert amounts["ops"]["lent"] == 2000


def test_families_come_before_their_variants() -> None:
    """A tree opens with a family, also if a variant of it, which only the root limits, is used more."""
    amounts = {"gpu": 4, "gpu:a100": 1}
    nodes = {"R": TreeItem("R", "", is_hard=False, amounts={"used": dict.fromkeys(amounts, 1), "quota": amounts})}
    assert ModelTree("Teams", "quota", "", nodes).resources == ("gpu", "gpu:a100")


def test_quota_trees() -> None:
    """The amounts of the nodes of a quota tree show what is held above a node, and by which node."""
    found = json_at(lending(create_partition), "tree", tree="Teams")
    amounts = amounts_of(found)

    assert [(row["name"], row["is_hard"], row["borrowers"]) for row in found["rows"]] == [
        ("R", False, 1),
        ("A", False, 0),
        ("B", True, 0),
    ]
    assert amounts["A"] == {"used": 1500, "quota": 2000, "borrowed": 1000, "lent": 0}
    assert amounts["R"] == {"used": 3000, "quota": 8000, "borrowed": 0, "lent": 1000}
    assert (found["mode"], found["borrowers"]) == ("normal", 1)


def test_borrowers() -> None:
    """Consumers above their own node are listed with their own node and the node that holds them."""
    partition = lending(create_partition)
    expected = {
        "consumer_id": "t1",
        "group": "A",
        "node": "R",
        "request": {"vcore": 1000},
        "priority": 0,
        "unpreemptable": False,
    }

    assert json_at(partition, "tree/borrowers", tree="Teams") == {"total": 1, "consumers": [expected]}
    for chosen, count in (("A", 1), ("R", 1), ("B", 0)):
        assert json_at(partition, "tree/borrowers", tree="Teams", node=chosen)["total"] == count
    assert json_at(partition, "tree/borrowers", tree="Teams", search="t2")["total"] == 0
    assert json_at(partition, "tree/borrowers", tree="Teams", offset=1) == {"total": 1, "consumers": []}
    assert json_at(partition, "tree/borrowers", tree="elastic")["total"] == 0


@pytest.mark.parametrize(("path", "code"), [("tree?tree=x", "tree"), ("tree/node?tree=Teams&node=x", "node")])
def test_unknown_names(path: str, code: str) -> None:
    """Unknown trees and nodes are refused."""
    answer = client(lending(create_partition)).get(f"{PREFIX}/{path}")

    assert (answer.status_code, answer.json()["code"]) == (404, f"{code}-unknown")


def test_metrics() -> None:
    """Elastic groups and nodes have metrics with units in their names."""
    series = samples_of(PartitionCollector({"default": lending(create_partition)}))
    group = (("group", "ml-train"), ("tree", "elastic"))
    node = (("node", "A"), ("tree", "Teams"))
    found = {
        name.removeprefix("ugm_elastic_group_"): value for (name, labels), value in series.items() if labels == group
    }

    assert found == {
        "usage_cores": 2.5,
        "runtime_cores": 2.5,
        "min_cores": 2,
        "request_cores": 2.5,
        "max_cores": 8,
        "borrowed_cores": 0.5,
        "lent_cores": 0,
    }
    assert {name: value for (name, labels), value in series.items() if labels == node} == {
        "ugm_quota_node_usage_cores": 1.5,
        "ugm_quota_node_quota_cores": 2,
        "ugm_quota_node_borrowed_cores": 1,
        "ugm_quota_node_lent_cores": 0,
        "ugm_quota_node_borrowers": 0,
    }
    assert series["ugm_suspended_models", ()] == 0


def test_few_nodes_have_series(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many nodes the root and those closest to their limit have series, and keep them."""
    partition = crowd_of_groups(400)
    monkeypatch.setattr("ugm.server.metrics.collector._MOST_NODES", 20)
    collector = PartitionCollector({"default": partition})

    def shown() -> list[set[str]]:
        samples = samples_of(collector)
        return [
            {dict(labels)[label] for name, labels in samples if name == f"ugm_{metric}_usage_cores"}
            for label, metric in (("group", "elastic_group"), ("node", "quota_node"))
        ]

    before = shown()
    assert [len(found) for found in before] == [20, 20]
    assert "koordinator-root-quota" in before[0]
    assert "R" in before[1]
    partition.resize("team0-0/0", Resource(vcore=1))
    assert shown() == before


def test_a_suspended_model_is_counted() -> None:
    """A model whose state is unknown is stated as such."""
    model = Failing()
    partition = Partition(config("{name: a}"), models=[model])
    started(partition, "app", 1)
    model.arm(Fuse("charge", 1, is_after=False))
    with pytest.raises(BrokenError):
        partition.allocate("app-1", "app", Resource(memory=1))

    assert json_at(partition, "trees") == {"trees": [], "models": [{"model": "Failing", "is_suspended": True}]}
    assert samples_of(PartitionCollector({"default": partition}))["ugm_suspended_models", ()] == 1
