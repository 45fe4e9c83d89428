"""The examples of the documents on queue quotas, end to end: from configuration and manifests to a decision.

Source: Apache YuniKorn, resource quota management.
"""

from __future__ import annotations

from typing import Final

import pytest

from support.manifests import ANA, embedded, pod, submit
from ugm import Resource
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


# Pods
