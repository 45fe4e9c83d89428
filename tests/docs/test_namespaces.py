"""The examples of the documents on namespaces, end to end: from manifests to the queue and its quota.

Source: Apache YuniKorn, resource quota management.
"""

from __future__ import annotations

import json
from typing import Final

import pytest

from support.manifests import embedded, namespace, pod, submit
from ugm import Resource
from ugm.kubernetes import read_namespace, read_pod

NAMESPACES: Final = """
partitions:
  - name: default
    placementrules:
      - name: tag
        value: namespace
        create: true
    queues:
      - name: root
        submitacl: '*'
        properties:
          application.sort.policy: stateaware
"""

PARENTS: Final = """
partitions:
  - name: default
    placementrules:
      - name: tag
        value: namespace
        create: true
        parent:
          name: tag
          value: namespace.parentqueue
    queues:
      - name: root
        queues:
          - name: production
            parent: true
          - name: development
            parent: true
"""


# Namespaces


def test_namespace_without_annotations() -> None:
    """An application in the namespace development runs in root.development, which is created without limits."""
    partition = embedded(NAMESPACES)
    terms = read_pod(pod("pod", {"cpu": "1"}), read_namespace(namespace("development")))
    placement = submit(partition, terms)
    assert (placement.queue_path, placement.creates) == ("root.development", True)
    assert partition.queue_maximum("root.development") is None
    partition.complete(terms.application_id)
    assert partition.queue("root.development") is None


def test_namespace_quota() -> None:
    """The annotated quota limits the queue of the namespace."""
    quota = json.dumps({"cpu": "64", "memory": "100G", "nvidia.com/gpu": "1"})
    partition = embedded(NAMESPACES)
    terms = read_pod(pod("pod", {"nvidia.com/gpu": "1"}), read_namespace(namespace("dev", namespace_quota=quota)))
    submit(partition, terms)

    assert partition.queue_maximum("root.dev") == Resource({"vcore": 64000, "memory": 100 * 10**9, "nvidia.com/gpu": 1})
    assert partition.allocate("pod", terms.application_id, terms.usage)
    assert str(partition.allocate("next", terms.application_id, terms.usage)) == (
        "denied, waiting can help:\n  queue root.dev: 1 nvidia.com/gpu requested, 1 of 1 used, 1 too much"
    )


def test_deprecated_quota() -> None:
    """The deprecated annotations limit cpu and memory separately."""
    partition = embedded(NAMESPACES)
    both = namespace("both", namespace_max_cpu="64", namespace_max_memory="100Gi")
    for manifest in [both, namespace("one", namespace_max_cpu="64")]:
        submit(
            partition, read_pod(pod("pod", {}, applicationId=manifest["metadata"]["name"]), read_namespace(manifest))
        )
    assert partition.queue_maximum("root.both") == Resource(vcore=64000, memory=100 * 2**30)
    assert partition.queue_maximum("root.one") == Resource(vcore=64000)


# Parent queues


@pytest.mark.parametrize("annotation", ["root.production", "production", "ROOT.Production"])
def test_parent_queue(annotation: str) -> None:
    """Applications in the namespace finance run in root.production.finance, with or without root in the annotation."""
    partition = embedded(PARENTS)
    terms = read_pod(pod("pod", {"cpu": "1"}), read_namespace(namespace("finance", parentqueue=annotation)))
    placement = submit(partition, terms)
    assert (placement.queue_path, placement.creates) == ("root.production.finance", True)


def test_pod_is_charged() -> None:
    """The pod of the document is charged to its queue with all its resources."""
    partition = embedded(NAMESPACES)
    terms = read_pod(
        pod("pod", {"cpu": "250m", "memory": "1Gi", "hugepages-1Gi": "1"}), read_namespace(namespace("development"))
    )
    assert submit(partition, terms).queue_path == "root.development"
    assert partition.allocate("pod", terms.application_id, terms.usage)
    queue = partition.queue("root.development")
    assert queue is not None
    assert queue.usage == terms.usage
