"""Pods: what they use, which application they belong to, and what placement needs to find their queue.

A pod uses what its containers *request*; a missing request is nothing, and limits are not looked at. (Where a manifest
has a limit and no request, Kubernetes itself fills in the request when it accepts the pod: read pods as they come from
there, or write requests.)

Containers that run side by side are added up: the ordinary ones, and init containers with the restart policy
``Always``. Other init containers run before, one after another, each beside the restartable ones that have started by
then, so a pod uses at least what the largest of these steps needs. Requests of the pod as a whole replace what its
containers come to, resource by resource. The overhead of its runtime class is added last. (Source: Kubernetes, pod
requests.) Each request is rounded up to the base unit by itself.

The pod itself is not counted: there is no resource ``pods`` in the result (source: the example in Apache YuniKorn,
resource quota management). Nor is a pod's status read: neither a resize that is under way, nor whether it has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from ugm.errors import RequestError
from ugm.identity import MAX_NAME
from ugm.kubernetes.manifests import (
    CPU,
    ManifestError,
    below,
    check_kind,
    read_amounts,
    read_list,
    read_mapping,
    read_name,
    read_queue,
    read_text,
)
from ugm.kubernetes.namespaces import NamespaceTerms
from ugm.resources import MEMORY, Resource

__all__ = ["PodTerms", "pod_usage", "read_pod"]

#: Where Kubernetes puts a pod that names no namespace.
DEFAULT_NAMESPACE: Final = "default"

#: Where an application id and a queue are looked for; the first that is there wins.
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

#: What a pod as a whole can request, besides huge pages of any size.
_POD_LEVEL: Final = (CPU, MEMORY)
_HUGE_PAGES: Final = "hugepages-"

#: So much of the namespace is part of an application id made for one pod; with the uid that makes 63 characters.
_NAMESPACE_LENGTH: Final = 26


class PodTerms(NamedTuple):
    """A pod, as a scheduler hands it on: submit the application with the first of its pods, then allocate each."""

    application_id: str
    #: The queue that the pod asks for, as it says it; None leaves it to the placement rules.
    queue: str | None
    usage: Resource
    name: str | None
    #: Kubernetes gives it to a pod when it accepts it.
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
) -> PodTerms:
    """Read the manifest of a pod.

    The application id is that of the label ``yunikorn.apache.org/app-id``, else of the annotation of the same name,
    else of the label ``applicationId``; the queue likewise, the last label being ``queue``. Empty ones are absent.

    Args:
        manifest: the pod.
        namespace: the pod's namespace; without it, what its annotations say is not known.
        generated_ids: the application of pods that name none: one for each namespace (``yunikorn-dev-autogen``), or one
            for each pod (``dev-`` and the pod's uid). An application belongs to one user, so take the latter where
            several users share a namespace.

    Raises:
        ManifestError: the manifest cannot be understood, or an id is to be made for a pod without a uid.
        RequestError: *namespace* is not the pod's, or *generated_ids* is something else.
    """
    if generated_ids not in ("namespace", "pod"):
        raise RequestError("generated_ids", generated_ids, "expected 'namespace' or 'pod'")
    usage = pod_usage(manifest)
    metadata = read_mapping(manifest, "metadata")
    terms = _namespace(metadata, namespace)
    name, uid = (read_name(metadata, field, "metadata") for field in ("name", "uid"))
    application_id = _application_id(metadata)
    if application_id is None and generated_ids == "pod":
        application_id = _id_for_pod(terms.name, uid)
    application_id = application_id or f"yunikorn-{terms.name}-autogen"
    if len(application_id) > MAX_NAME:
        raise ManifestError("metadata", application_id, f"an application id has 1 to {MAX_NAME} characters")
    return PodTerms(application_id, _queue(metadata), usage, name, uid, terms)


def _namespace(metadata: Mapping[str, object], given: NamespaceTerms | None) -> NamespaceTerms:
    name = read_name(metadata, "namespace", "metadata")
    if given is None:
        return NamespaceTerms(name or DEFAULT_NAMESPACE)
    if name not in (None, given.name):
        raise RequestError("namespace", given.name, f"the pod is in {name!r}")
    return given


def _application_id(metadata: Mapping[str, object]) -> str | None:
    for kind, name in _APPLICATION_ID:
        found = read_name(read_mapping(metadata, kind, "metadata"), name, f"metadata.{kind}")
        if found is not None:
            return found
    return None


def _id_for_pod(namespace: str, uid: str | None) -> str:
    if uid is None:
        raise ManifestError("metadata.uid", None, "needed for the id of an application of one pod")
    return f"{namespace[:_NAMESPACE_LENGTH]}-{uid}"


def _queue(metadata: Mapping[str, object]) -> str | None:
    for kind, name in _QUEUE:
        found = read_queue(read_mapping(metadata, kind, "metadata"), name, f"metadata.{kind}")
        if found is not None:
            return found
    return None


def pod_usage(manifest: Mapping[str, object]) -> Resource:
    """Return what a pod uses as long as it runs.

    Raises:
        ManifestError: it is no pod, has no containers, or a request is no quantity or a negative one.

    An init container that needs more than what runs after it counts, though it ends:

    >>> container = {"resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}}
    >>> unpacking = {"resources": {"requests": {"cpu": 1}}}
    >>> pod_usage({"kind": "Pod", "spec": {"initContainers": [unpacking], "containers": [container]}})
    Resource(memory=1073741824, vcore=1000)
    """
    check_kind(manifest, "Pod")
    spec = read_mapping(manifest, "spec")
    if not read_list(spec, "containers", "spec"):
        raise ManifestError("spec.containers", spec.get("containers"), "a pod has at least one container")
    usage = {**_containers(spec), **_pod_level(spec)}
    return Resource(usage) + read_amounts(read_mapping(spec, "overhead", "spec"), "spec.overhead")


def _containers(spec: Mapping[str, object]) -> Resource:
    """Return what the containers need: while they run, or in the largest step before."""
    started: dict[str, int] = {}
    peak: dict[str, int] = {}
    for requests, restartable in _requests(spec, "initContainers"):
        for name, amount in requests.items():
            step = started.get(name, 0) + amount
            peak[name] = max(peak.get(name, 0), step)
            if restartable:
                started[name] = step
    running = started
    for requests, _ in _requests(spec, "containers"):
        for name, amount in requests.items():
            running[name] = running.get(name, 0) + amount
    return Resource({name: max(running.get(name, 0), peak.get(name, 0)) for name in {**running, **peak}})


def _requests(spec: Mapping[str, object], kind: str) -> list[tuple[Resource, bool]]:
    """Return what each container requests, and whether it stays when the next one starts."""
    found = []
    for number, container in enumerate(read_list(spec, kind, "spec")):
        place = f"spec.{kind}[{number}]"
        requests = _amounts(container, place)
        found.append((requests, read_text(container, "restartPolicy", place) == "Always"))
    return found


def _amounts(holder: Mapping[str, object], place: str) -> Resource:
    """Return the requests of a container or of a pod."""
    where = f"{place}.resources"
    requests = read_mapping(read_mapping(holder, "resources", place), "requests", where)
    return read_amounts(requests, f"{where}.requests")


def _pod_level(spec: Mapping[str, object]) -> Resource:
    place = "spec.resources.requests"
    for name, quantity in read_mapping(read_mapping(spec, "resources", "spec"), "requests", "spec.resources").items():
        if name not in _POD_LEVEL and not _is_huge_page(name):
            raise ManifestError(below(place, name), quantity, "a pod as a whole requests cpu, memory and huge pages")
    return _amounts(spec, "spec")


def _is_huge_page(name: object) -> bool:
    return isinstance(name, str) and name.startswith(_HUGE_PAGES)
