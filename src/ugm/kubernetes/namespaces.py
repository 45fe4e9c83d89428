"""Namespaces: the quota and the parent queue that annotations set for the queue of a namespace.

Source: Apache YuniKorn, resource quota management. ``yunikorn.apache.org/namespace.quota`` holds a JSON object of
Kubernetes quantities, of any resources. The deprecated ``yunikorn.apache.org/namespace.max.cpu`` and
``yunikorn.apache.org/namespace.max.memory`` hold one quantity each; they are ignored if ``namespace.quota`` is set.
``yunikorn.apache.org/parentqueue`` names the queue above, with or without ``root.``.

An empty annotation is absent. An annotation that is not valid is an error, because ignoring it would remove the limit.

This module creates no queue. The quota applies to the queue that placement creates for the namespace, not to the queue
above it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from ugm.kubernetes.manifests import CPU, Fields, ManifestError, read_object
from ugm.resources import MEMORY, Resource

__all__ = ["NamespaceTerms", "read_namespace"]

#: The tags that placement rules read.
NAMESPACE_TAG: Final = "namespace"
PARENT_TAG: Final = "namespace.parentqueue"

_QUOTA: Final = "yunikorn.apache.org/namespace.quota"
_PARENT: Final = "yunikorn.apache.org/parentqueue"
#: The resource of each deprecated annotation.
_DEPRECATED: Final = {
    "yunikorn.apache.org/namespace.max.cpu": CPU,
    "yunikorn.apache.org/namespace.max.memory": MEMORY,
}


class NamespaceTerms(NamedTuple):
    """The settings of a namespace for placement and for its queue."""

    name: str
    #: The maximum of the namespace's queue; None means unlimited, and so does a missing resource.
    max_resources: Resource | None = None
    #: The queue above, as written in the annotation.
    parent_queue: str | None = None

    @property
    def tags(self) -> dict[str, str]:
        """The tags of every application in the namespace.

        >>> NamespaceTerms("finance", parent_queue="root.production").tags
        {'namespace': 'finance', 'namespace.parentqueue': 'root.production'}
        """
        tags = {NAMESPACE_TAG: self.name}
        return tags if self.parent_queue is None else {**tags, PARENT_TAG: self.parent_queue}


def read_namespace(manifest: Mapping[str, object]) -> NamespaceTerms:
    """Read the manifest of a namespace.

    Raises:
        ManifestError: the manifest has another kind or no name, or an annotation is not valid.

    >>> read_namespace({"metadata": {"name": "dev", "annotations": {
    ...     "yunikorn.apache.org/namespace.quota": '{"cpu": "64", "memory": "100G"}'}}}).max_resources
    Resource(memory=100000000000, vcore=64000)
    """
    name, metadata = read_object(manifest, "Namespace")
    annotations = metadata.mapping("annotations")
    return NamespaceTerms(name, _quota(annotations), annotations.queue(_PARENT))


def _quota(annotations: Fields) -> Resource | None:
    text = annotations.text(_QUOTA)
    limits = _deprecated(annotations) if text is None else _parse(text, annotations).amounts()
    return limits or None


def _deprecated(annotations: Fields) -> Resource:
    limits = Resource()
    for annotation, resource in _DEPRECATED.items():
        text = annotations.text(annotation)
        if text is not None:
            try:
                limits += Fields({resource: text}).amounts()
            except ManifestError as error:
                # The error names the annotation, not the resource in it.
                raise annotations.error(annotation, error.reason) from error
    return limits


def _parse(text: str, annotations: Fields) -> Fields:
    """Return the fields of the JSON object in the annotation of the quota, with numbers as texts."""
    try:
        quota = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except (json.JSONDecodeError, RecursionError):
        quota = None
    if not isinstance(quota, dict):
        raise annotations.error(_QUOTA, "expected a JSON object of quantities")
    return Fields(quota, annotations.place_of(_QUOTA))
