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
from functools import partial
from typing import Final, NamedTuple

from ugm.kubernetes.manifests import (
    CPU,
    ManifestError,
    below,
    check_kind,
    read_amounts,
    read_mapping,
    read_name,
    read_queue,
    read_text,
)
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

_PLACE: Final = "metadata.annotations"


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
    check_kind(manifest, "Namespace")
    metadata = read_mapping(manifest, "metadata")
    name = read_name(metadata, "name", "metadata")
    if name is None:
        raise ManifestError("metadata.name", None, "expected a name")
    annotations = read_mapping(metadata, "annotations", "metadata")
    return NamespaceTerms(name, _quota(annotations), read_queue(annotations, _PARENT, _PLACE))


def _quota(annotations: Mapping[str, object]) -> Resource | None:
    text = read_text(annotations, _QUOTA, _PLACE)
    limits = _deprecated(annotations) if text is None else read_amounts(_json(text), below(_PLACE, _QUOTA))
    return limits or None


def _deprecated(annotations: Mapping[str, object]) -> Resource:
    limits = Resource()
    for annotation, resource in _DEPRECATED.items():
        text = read_text(annotations, annotation, _PLACE)
        if text is not None:
            limits += _one(text, resource, below(_PLACE, annotation))
    return limits


def _one(text: str, resource: str, place: str) -> Resource:
    """Read a quantity that is a whole annotation; errors name the annotation, not a resource in it."""
    try:
        return read_amounts({resource: text}, place)
    except ManifestError as error:
        raise ManifestError(place, text, error.reason) from error


def _json(text: str) -> Mapping[str, object]:
    """Return the JSON object of a text, with numbers as texts."""
    place = below(_PLACE, _QUOTA)
    unique = partial(_unique, place)
    try:
        quota = json.loads(text, object_pairs_hook=unique, parse_int=str, parse_float=str, parse_constant=str)
    except (json.JSONDecodeError, RecursionError):
        raise ManifestError(place, text, "expected a JSON object of quantities") from None
    if not isinstance(quota, dict):
        raise ManifestError(place, text, "expected a JSON object of quantities")
    return quota


def _unique(place: str, pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ManifestError(place, sorted(name for name, _ in pairs), "a resource is listed twice")
    return members
