"""Pods: their usage, their application, and the data that placement needs to find their queue.

The usage of a pod is computed from the *requests* of its containers. A resource without a request has the amount of
its limit, and one without both counts as 0. The API server of Kubernetes applies the same rule when it accepts a pod,
so a pod and the template that it is made from have the same usage.

The requests of containers that run at the same time are added: ordinary containers, and init containers with the
restart policy ``Always``. Other init containers run earlier, one after the other, together with the restartable ones
that have started by then; so the usage is at least that of the largest of these steps. Requests of the pod as a whole
replace the sum of its containers, resource by resource. A limit of the pod as a whole counts if neither the pod nor a
container requests the resource. The overhead of the runtime class is added last. (Source: Kubernetes, pod requests.)
Each request is rounded up to the base unit separately.

The pod itself is not counted: the result has no resource ``pods`` (source: the example in Apache YuniKorn, resource
quota management). The status of a pod is not read: neither a resize in progress nor the end of the pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, final

from ugm.errors import RequestError
from ugm.identity import MAX_NAME
from ugm.kubernetes.manifests import Fields, ManifestError, read_manifest
from ugm.kubernetes.namespaces import NamespaceTerms
from ugm.kubernetes.variants import NOTHING, required_values, with_variants
from ugm.resources import Resource

__all__ = ["PodTerms", "pod_usage", "read_pod"]

#: The namespace of a pod that names none.
DEFAULT_NAMESPACE: Final = "default"

#: The labels and annotations that may hold an application id and a queue, in order of precedence.
_APPLICATION_ID: Final = (
    ("labels", "yunikorn.apache.org/app-id"),
    ("annotations", "yunikorn.apache.org/app-id"),
    ("labels", "applicationId"),
)
_QUEUE: Final = (
    ("labels", "yunikorn.apache.org/queue"),
    ("annotations", "yunikorn.apache.org/queue"),
    ("labels", "queue"),
)

#: The length of the namespace in the application id of a single pod; with the uid the id has at most 63 characters.
_NAMESPACE_LENGTH: Final = 26


@final
@dataclass(frozen=True, slots=True)
class PodTerms:
    """A pod in ugm's terms: submit the application with its first pod, then allocate each pod."""

    application_id: str
    #: The queue that the pod names, as written; None leaves it to the placement rules.
    queue: str | None
    usage: Resource
    name: str | None
    #: Kubernetes assigns it when it accepts the pod.
    uid: str | None
    namespace: NamespaceTerms

    @property
    def tags(self) -> dict[str, str]:
        """The tags of the application: those of the namespace."""
        return self.namespace.tags


def read_pod(
    manifest: Mapping[str, object],
    namespace: NamespaceTerms | None = None,
    *,
    generated_ids: Literal["namespace", "pod"] = "namespace",
    variants: Mapping[str, str] = NOTHING,
) -> PodTerms:
    """Read the manifest of a pod.

    The application id is read from the label ``yunikorn.apache.org/app-id``, else from the annotation of the same name,
    else from the label ``applicationId``. The queue is read from the label ``yunikorn.apache.org/queue``, else from
    the annotation of the same name, else from the label ``queue``. An empty value is absent.

    Args:
        manifest: the pod.
        namespace: the pod's namespace; if it is missing, its annotations have no effect.
        generated_ids: the application id of pods without one: one id for each namespace (``yunikorn-dev-autogen``), or
            one for each pod (``dev-`` and the pod's uid). An application belongs to one user, so use ``"pod"`` if
            several users share a namespace.
        variants: as for `pod_usage`.

    Raises:
        ManifestError: a value in the manifest is not valid, or the id of a pod without a uid has to be generated.
        RequestError: *namespace* is not the namespace of the pod, or another argument has an invalid value.
    """
    if generated_ids not in ("namespace", "pod"):
        raise RequestError("generated_ids", generated_ids, "expected 'namespace' or 'pod'")
    usage = pod_usage(manifest, variants)
    metadata = Fields(manifest).mapping("metadata")
    terms = _namespace(metadata, namespace)
    name, uid = metadata.name("name"), metadata.name("uid")
    application_id = _first(metadata.mapping(kind).name(field) for kind, field in _APPLICATION_ID)
    if application_id is None and generated_ids == "pod":
        if uid is None:
            raise ManifestError("metadata.uid", None, "a generated application id needs the uid of the pod")
        application_id = f"{terms.name[:_NAMESPACE_LENGTH]}-{uid}"
    application_id = application_id or f"yunikorn-{terms.name}-autogen"
    if len(application_id) > MAX_NAME:
        raise ManifestError("metadata", application_id, f"expected an application id of 1 to {MAX_NAME} characters")
    queue = _first(metadata.mapping(kind).queue(field) for kind, field in _QUEUE)
    return PodTerms(application_id, queue, usage, name, uid, terms)


def _namespace(metadata: Fields, given: NamespaceTerms | None) -> NamespaceTerms:
    name = metadata.name("namespace")
    if given is None:
        return NamespaceTerms(name or DEFAULT_NAMESPACE)
    if name not in (None, given.name):
        raise RequestError("namespace", given.name, f"the pod is in {name!r}")
    return given


def _first(values: Iterable[str | None]) -> str | None:
    return next((value for value in values if value is not None), None)


def pod_usage(
    manifest: Mapping[str, object],
    variants: Mapping[str, str] = NOTHING,
    node_labels: Mapping[str, str] = NOTHING,
) -> Resource:
    """Return the usage of a running pod.

    Args:
        manifest: the pod.
        variants: the variant for each label of nodes, as ``label=value``. A pod requests a variant if its node selector
            or its required node affinity allows no other one.
        node_labels: the labels of the node that it runs on. They name the variants that it does not request.

    Raises:
        ManifestError: the manifest has another kind or no containers, or a request is not a quantity of at least 0.
        RequestError: a label or a variant is invalid.

    An init container that requests more than the containers after it determines the usage, although it ends:

    >>> container = {"resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}}
    >>> unpacking = {"resources": {"requests": {"cpu": 1}}}
    >>> pod_usage({"kind": "Pod", "spec": {"initContainers": [unpacking], "containers": [container]}})
    Resource(memory=1073741824, vcore=1000)
    """
    spec = read_manifest(manifest, "Pod").mapping("spec")
    if not spec.mappings("containers"):
        raise spec.error("containers", "expected at least one container")
    containers = _containers(spec)
    requests, limits = (spec.mapping("resources").mapping(kind).amounts() for kind in ("requests", "limits"))
    usage = Resource({**limits, **containers, **requests}) + spec.mapping("overhead").amounts()
    return with_variants(
        usage, variants, lambda label: required_values(spec, label) or {node_labels.get(label)} - {None}
    )


def _containers(spec: Fields) -> Resource:
    """Return the maximum, per resource, of the sum over running containers and the peak during initialization."""
    running = peak = Resource()
    for container in spec.mappings("initContainers"):
        step = running + _requested(container)
        peak = _largest(peak, step)
        if container.text("restartPolicy") == "Always":
            running = step
    for container in spec.mappings("containers"):
        running += _requested(container)
    return _largest(running, peak)


def _requested(container: Fields) -> Resource:
    """Return the requests of a container; a resource without a request has the amount of its limit."""
    limits, requests = (container.mapping("resources").mapping(kind).amounts() for kind in ("limits", "requests"))
    return Resource({**limits, **requests})


def _largest(one: Resource, other: Resource) -> Resource:
    return Resource({name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}})
