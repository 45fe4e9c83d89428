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


def test_quota_before_the_deprecated_ones() -> None:
    """The deprecated annotations are ignored if there is a namespace.quota."""
    manifest = namespace("dev", namespace_quota='{"cpu": "2"}', namespace_max_cpu="64", namespace_max_memory="100Gi")
    partition = embedded(NAMESPACES)
    submit(partition, read_pod(pod("pod", {}), read_namespace(manifest)))
    assert partition.queue_maximum("root.dev") == Resource(vcore=2000)


def test_quota_that_changes() -> None:
    """The quota of the last submission applies to all applications of the namespace."""
    partition = embedded(NAMESPACES)
    for name, quota in [("first", '{"cpu": "4"}'), ("next", '{"cpu": "2"}')]:
        manifest = namespace("dev", namespace_quota=quota)
        terms = read_pod(pod(name, {"cpu": "3"}, applicationId=name), read_namespace(manifest))
        submit(partition, terms)
        partition.allocate(name, name, terms.usage)
    assert [allocation.allocation_id for allocation in partition.allocations()] == ["first"]
    assert [str(over) for over in partition.exceeded_limits()] == ["queue root.dev: 3 of 2 vcore used, 1 too much"]
    partition.verify()


# Parent queues


@pytest.mark.parametrize("annotation", ["root.production", "production", "ROOT.Production"])
def test_parent_queue(annotation: str) -> None:
    """Applications in the namespace finance run in root.production.finance, with or without root in the annotation."""
    partition = embedded(PARENTS)
    terms = read_pod(pod("pod", {"cpu": "1"}), read_namespace(namespace("finance", parentqueue=annotation)))
    placement = submit(partition, terms)
    assert (placement.queue_path, placement.creates) == ("root.production.finance", True)


def test_namespaces_under_their_parents() -> None:
    """Finance and sales are grouped under production, dev and test under development."""
    partition = embedded(PARENTS)
    for name, above in [
        ("finance", "production"),
        ("sales", "production"),
        ("dev", "development"),
        ("test", "development"),
    ]:
        submit(partition, read_pod(pod("pod", {}), read_namespace(namespace(name, parentqueue=f"root.{above}"))))
    root = partition.queue()
    assert root is not None
    assert [queue.queue_path for queue in root.walk()] == [
        "root",
        "root.development",
        "root.development.dev",
        "root.development.test",
        "root.production",
        "root.production.finance",
        "root.production.sales",
    ]


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        ({"parentqueue": "root.marketing"}, "root.marketing does not exist, and the parent rule does not create it"),
        ({}, "the application has no tag 'namespace.parentqueue'"),
    ],
)
def test_parent_queue_that_is_missing(annotations: dict[str, str], reason: str) -> None:
    """A submission without a configured parent queue is rejected with the reason."""
    partition = embedded(PARENTS)
    placement = submit(partition, read_pod(pod("pod", {}), read_namespace(namespace("finance", **annotations))))
    assert not placement
    assert placement.trials[0].reason == reason
    assert partition.applications() == ()


def test_quota_is_not_the_parents() -> None:
    """The quota of a namespace applies to its queue and not to the parent queue."""
    manifest = namespace("finance", parentqueue="production", namespace_quota='{"cpu": "2"}')
    partition = embedded(PARENTS)
    submit(partition, read_pod(pod("pod", {}), read_namespace(manifest)))
    assert partition.queue_maximum("root.production.finance") == Resource(vcore=2000)
    assert partition.queue_maximum("root.production") is None


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
