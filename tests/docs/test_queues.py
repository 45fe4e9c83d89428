"""The examples of the documents on queue quotas, end to end: from configuration and manifests to a decision.

Source: Apache YuniKorn, resource quota management.
"""

from __future__ import annotations

from typing import Final

import pytest
import yaml

from support.manifests import ANA, embedded, pod, submit
from ugm import ConfigError, Resource, parse_config
from ugm.kubernetes import read_pod

G: Final = 10**9

STATIC: Final = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: advertisement
            resources:
              guaranteed: {memory: 500G, vcore: 50}
              max: {memory: 800G, vcore: 80}
          - name: search
            resources:
              guaranteed: {memory: 400G, vcore: 40}
              max: {memory: 600G, vcore: 60}
          - name: sandbox
            resources:
              guaranteed: {memory: 100G, vcore: 10}
              max: {memory: 100G, vcore: 10}
"""

POD: Final = """
apiVersion: v1
kind: Pod
spec:
  containers:
    - name: container-1
      resources:
        requests:
          cpu: "250m"
          memory: "1Gi"
          hugepages-1Gi: "1"
"""


# Static queues


def test_static_queues() -> None:
    """The three static queues have the maxima and guaranteed amounts of the document, and every user may submit."""
    root = embedded(STATIC).queue()
    assert root is not None
    assert {queue.queue_path: (queue.guaranteed, queue.max_resources) for queue in root.children} == {
        f"root.{name}": (Resource(memory=least * G, vcore=vcore * 1000), Resource(memory=most * G, vcore=cores * 1000))
        for name, least, vcore, most, cores in [
            ("advertisement", 500, 50, 800, 80),
            ("sandbox", 100, 10, 100, 10),
            ("search", 400, 40, 600, 60),
        ]
    }
    assert all(embedded(STATIC).submit("app", ANA, queue.queue_path) for queue in root.children)


def test_application_in_a_static_queue() -> None:
    """All pods with the labels of the document form one application in root.sandbox, under its quota."""
    partition = embedded(STATIC)
    labels = {"app": "my-test-app", "applicationId": "my-test-app-01", "queue": "root.sandbox"}
    for number in range(3):
        terms = read_pod(pod(f"pod-{number}", {"cpu": "3", "memory": "30G"}, **labels))
        assert submit(partition, terms).queue_path == "root.sandbox"
        assert partition.allocate(f"pod-{number}", terms.application_id, terms.usage)

    terms = read_pod(pod("pod-3", {"cpu": "3", "memory": "10G"}, **labels))
    assert str(partition.allocate("pod-3", terms.application_id, terms.usage)) == (
        "denied, waiting can help:\n  queue root.sandbox: 3 vcore requested, 9 of 10 used, 2 too much"
    )
    (application,) = partition.applications()
    assert (application.application_id, application.allocations) == ("my-test-app-01", 3)


def test_pending_pods_count_nowhere() -> None:
    """A pending pod does not count for the quota; a scheduled pod does."""
    partition = embedded(STATIC)
    partition.submit("app", ANA, "root.sandbox")
    for number in range(9):
        partition.request(f"pod-{number}", "app", Resource(vcore=9000))
    assert partition.allocate("pod-8", "app", Resource(vcore=9000))
    assert not partition.allocate("pod-7", "app", Resource(vcore=9000))
    assert partition.release("pod-8")
    assert partition.allocate("pod-7", "app", Resource(vcore=9000))


# A parent of 900

DISTRIBUTIONS: Final = [
    {"child1": 900},
    {"child1": 300, "child2": 300, "child3": 300},
    {"child2": 750, "child3": 150},
]
HIERARCHY: Final = """
partitions:
  - queues:
      - name: parent
        resources: {max: {memory: 900}}
        queues:
          - name: child1
          - name: child2
            resources: {max: {memory: 750}}
          - name: child3
            resources: {max: {memory: 750}}
"""


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_parent_of_900(distribution: dict[str, int]) -> None:
    """The children of a parent may use 900 together, in every distribution of the document."""
    partition = embedded(HIERARCHY)
    for name in ["child1", "child2", "child3"]:
        partition.submit(name, ANA, f"root.parent.{name}")
    for name, amount in distribution.items():
        assert partition.allocate(name, name, Resource(memory=amount))

    parent = partition.queue("root.parent")
    assert parent is not None
    assert parent.usage == Resource(memory=900)
    for name in ["child1", "child2", "child3"]:
        assert "root.parent" in [violation.name for violation in partition.check(name, Resource(memory=1)).violations]


def test_child_without_a_quota() -> None:
    """The quota of the parent limits all children; a child may have an additional quota."""
    partition = embedded(HIERARCHY)
    most = [partition.queue_maximum(f"root.parent.child{number}") for number in (1, 2, 3)]
    assert most == [Resource(memory=amount) for amount in (900, 750, 750)]
    partition.submit("app", ANA, "root.parent.child2")
    assert [violation.name for violation in partition.check("app", Resource(memory=751)).violations] == [
        "root.parent.child2"
    ]


def test_quota_above_the_parents() -> None:
    """A quota above that of the parent is a problem of the configuration, with its line."""
    with pytest.raises(ConfigError) as caught:
        parse_config(HIERARCHY.replace("750", "950", 1), file="queues.yaml")
    (problem,) = caught.value.problems
    assert (problem.line, problem.path) == (9, "partitions[0].queues[0].queues[1].resources.max.memory")
    assert str(problem).endswith(
        ": root.parent.child2 may use up to memory 950, but root.parent only 900 [queue-max-above-parent]"
    )


def test_root_has_no_quota() -> None:
    """The root cannot have a quota in the configuration: the nodes determine it."""
    with pytest.raises(ConfigError, match=r"\[root-has-resources\]"):
        parse_config("partitions: [{queues: [{name: root, resources: {max: {memory: 5}}, queues: [{name: a}]}]}]")
    partition = embedded(HIERARCHY)
    sizes = []
    for node in ["one", "two"]:
        partition.add_node(node, Resource(memory=500))
        sizes.append(partition.queue_maximum("root"))
    partition.remove_node("one")
    assert [*sizes, partition.queue_maximum("root")] == [Resource(memory=amount) for amount in (500, 1000, 500)]


# Pods


def test_pod_of_the_document() -> None:
    """The pod with 250m, 1Gi and a huge page has this usage in base units."""
    assert read_pod(yaml.safe_load(POD)).usage == Resource({"vcore": 250, "memory": 1073741824, "hugepages-1Gi": 1})
