"""Manifests of Kubernetes and a scheduler that reads them, for the examples of the documents."""

from __future__ import annotations

from typing import Any, Final

from ugm import Partition, UserGroup, parse_config
from ugm.kubernetes import PodTerms
from ugm.queues import Placement

__all__ = ["ANA", "embedded", "namespace", "pod", "submit"]

ANA: Final = UserGroup("ana")


def embedded(text: str) -> Partition:
    """Return a partition with a configuration."""
    return Partition(parse_config(text).partition())


def namespace(name: str, **annotations: str) -> dict[str, Any]:
    """Return the manifest of a namespace; an underscore in the name of an annotation is a dot."""
    named = {f"yunikorn.apache.org/{key.replace('_', '.')}": value for key, value in annotations.items()}
    return {"kind": "Namespace", "metadata": {"name": name, "annotations": named}}


def pod(name: str, requests: dict[str, str], **labels: str) -> dict[str, Any]:
    """Return the manifest of a pod with one container."""
    container = {"name": "main", "resources": {"requests": requests}}
    return {"kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": {"containers": [container]}}


def submit(partition: Partition, terms: PodTerms) -> Placement:
    """Submit the application of a pod, as a scheduler does."""
    quota = terms.namespace.max_resources
    return partition.submit(terms.application_id, ANA, terms.queue or "", tags=terms.tags, quota=quota)
