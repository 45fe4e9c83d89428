"""Pods, namespaces and nodes: their amounts, and the data that placement needs.

*Pods.* The usage of a pod is computed from the *requests* of its containers. A resource without a request has the
amount of its limit, and one without both counts as 0. The API server of Kubernetes applies the same rule when it
accepts a pod, so a pod and the template that it is made from have the same usage.

The requests of containers that run at the same time are added: ordinary containers, and init containers with the
restart policy ``Always``. Other init containers run earlier, one after the other, together with the restartable ones
that have started by then; so the usage is at least that of the largest of these steps. Requests of the pod as a whole
replace the sum of its containers, resource by resource. A limit of the pod as a whole counts if neither the pod nor a
container requests the resource. The overhead of the runtime class is added last. (Source: Kubernetes, pod requests.)
Each request is rounded up to the base unit separately.

The pod itself is not counted: the result has no resource ``pods`` (source: the example in Apache YuniKorn, resource
quota management). The status of a pod is not read: neither a resize in progress nor the end of the pod.

*Namespaces.* ``yunikorn.apache.org/namespace.quota`` holds a JSON object of Kubernetes quantities, of any resources.
The deprecated ``yunikorn.apache.org/namespace.max.cpu`` and ``yunikorn.apache.org/namespace.max.memory`` hold one
quantity each; they are ignored if ``namespace.quota`` is set. ``yunikorn.apache.org/parentqueue`` names the queue
above, with or without ``root.``. An annotation that is not valid is an error, because ignoring it would remove the
limit. No queue is created here. The quota applies to the queue that placement creates for the namespace, not to the
queue above it. (Source: Apache YuniKorn, resource quota management.)

*Variants.* Kubernetes counts ``nvidia.com/gpu`` of all models together. The model is a label of the node, which a pod
can require. Rules map labels to variants: ``{"nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB": "nvidia.com/gpu:a100"}``.
An amount of a known variant is counted for the family and for the variant; see `ugm.families`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, final

from ugm.arguments import require_mapping
from ugm.errors import RequestError
from ugm.families import SEPARATOR, family_name
from ugm.kubernetes.manifests import Fields, read_manifest, read_object
from ugm.resources import MEMORY, VCORE, Resource

#: No rules, or no labels.
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

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
    named = metadata.name("namespace")
    terms = NamespaceTerms(named or "default") if namespace is None else namespace
    if named not in (None, terms.name):
        raise RequestError("namespace", terms.name, f"the pod is in {named!r}")
    name, uid = metadata.name("name"), metadata.name("uid")
    application_id = _labelled(metadata, Fields.name, "app-id", "applicationId")
    if application_id is None and generated_ids == "pod":
        if uid is None:
            raise metadata.error("uid", "a generated application id needs the uid of the pod")
        application_id = f"{terms.name[:_NAMESPACE_LENGTH]}-{uid}"
    application_id = application_id or f"yunikorn-{terms.name}-autogen"
    queue = _labelled(metadata, Fields.queue, "queue", "queue")
    return PodTerms(application_id, queue, usage, name, uid, terms)


def _labelled(metadata: Fields, read: Callable[[Fields, str], str | None], name: str, old_label: str) -> str | None:
    """Return a value from the first of the labels and annotations that may hold it."""
    name = f"yunikorn.apache.org/{name}"
    for kind, field in (("labels", name), ("annotations", name), ("labels", old_label)):
        value = read(metadata.mapping(kind), field)
        if value is not None:
            return value
    return None


def pod_usage(
    manifest: Mapping[str, object], variants: Mapping[str, str] = NOTHING, node_labels: Mapping[str, str] = NOTHING
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
    usage = _requested(spec, _containers(spec)) + spec.mapping("overhead").amounts()
    return _with_variants(
        usage, variants, lambda label: _required_values(spec, label) or {node_labels.get(label)} - {None}
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


def _requested(spec: Fields, parts: Resource = Resource()) -> Resource:  # noqa: B008 - a value
    """Return the requests of a container or a pod. Without one, the amount is that of its parts, or else its limit."""
    limits, requests = (spec.mapping("resources").mapping(kind).amounts() for kind in ("limits", "requests"))
    return Resource({**limits, **parts, **requests})


def _largest(one: Resource, other: Resource) -> Resource:
    return Resource({name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}})


_QUOTA: Final = "yunikorn.apache.org/namespace.quota"
_PARENT: Final = "yunikorn.apache.org/parentqueue"
#: The resource of each deprecated annotation.
_DEPRECATED: Final = {
    "yunikorn.apache.org/namespace.max.cpu": VCORE,
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
        tags = {"namespace": self.name}
        return tags if self.parent_queue is None else {**tags, "namespace.parentqueue": self.parent_queue}


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
    if annotations.text(_QUOTA) is None:
        limits = {
            resource: annotations.quantity(name, cpu=resource == VCORE)
            for name, resource in _DEPRECATED.items()
            if annotations.text(name) is not None
        }
        return Resource(limits) if limits else None
    quota = annotations.json(_QUOTA)
    if not isinstance(quota, dict):
        raise annotations.error(_QUOTA, "expected a JSON object of quantities")
    return Fields(quota, (*annotations.path, _QUOTA)).amounts() or None


_AFFINITY: Final = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


def node_offers(manifest: Mapping[str, object], variants: Mapping[str, str] = NOTHING) -> Resource:
    """Return the allocatable amounts of a node.

    Args:
        manifest: the node.
        variants: the variant for each label of nodes, as ``label=value``.

    Raises:
        ManifestError: the manifest has another kind, an amount is invalid, or no label names the variant of an amount.
        RequestError: a label or a variant is invalid.

    >>> node = {"metadata": {"labels": {"model": "T4"}}, "status": {"allocatable": {"gpu": 8}}}
    >>> node_offers(node, {"model=T4": "gpu:t4"})
    Resource({'gpu': 8, 'gpu:t4': 8})
    """
    node = read_manifest(manifest, "Node")
    metadata, labels = node.mapping("metadata"), node.at(("metadata", "labels"))
    allocatable = node.at(("status", "allocatable")).amounts()
    offers = _with_variants(allocatable, variants, lambda label: {labels.text(label)} - {None})
    for family in {family_name(variant) for variant in variants.values()}:
        if offers.get(family) and not any(name.startswith(f"{family}{SEPARATOR}") for name in offers):
            raise metadata.error("labels", f"expected one of those that name variants of {family}")
    return offers


def _with_variants(
    amounts: Resource, variants: Mapping[str, str], values_of: Callable[[str], Collection[object]]
) -> Resource:
    """Return amounts with those of variants: if all possible values of the labels of a family stand for one variant.

    Args:
        amounts: the amounts.
        variants: the variant for each label, as ``label=value``.
        values_of: returns the possible values of a label; none if all are possible.

    Raises:
        RequestError: a label or a variant is invalid.
    """
    families, found = dict[str, dict[str, str]](), dict(amounts)
    for selector, variant in require_variants(variants).items():
        families.setdefault(family_name(variant), {})[selector] = variant
    for family, rules in families.items():
        labels = {selector.partition("=")[0] for selector in rules}
        possible = {rules.get(f"{label}={value}") for label in labels for value in values_of(label)}
        name = possible.pop() if len(possible) == 1 and family in amounts else None
        if name is not None:
            found[name] = amounts[family]
    return Resource(found)


def require_variants(variants: object) -> dict[str, str]:
    """Return rules, after checking that each maps a label with its value to a variant.

    Raises:
        RequestError: one does not.
    """
    rules = require_mapping("variants", variants)
    for selector, variant in rules.items():
        if type(selector) is not str or not all(selector.partition("=")):
            raise RequestError("variants", selector, "expected label=value")
        if type(variant) is not str or not all(variant.partition(SEPARATOR)):
            raise RequestError("variants", variant, f"expected family{SEPARATOR}variant")
    return rules


def _required_values(spec: Fields, label: str) -> set[str]:
    """Return the values of a label that the node of a pod must have; empty if other values are possible.

    Raises:
        ManifestError: the node selector or the affinity is invalid.
    """
    selected = spec.mapping("nodeSelector").text(label)
    if selected is not None:
        return {selected}
    found: set[str] = set()
    # A node has to fit one of the terms.
    for term in spec.at(_AFFINITY).mappings("nodeSelectorTerms"):
        values = [_values(one) for one in term.mappings("matchExpressions") if one.text("key") == label]
        if not any(values):
            return set()
        found |= next(filter(None, values))
    return found


def _values(expression: Fields) -> set[str]:
    """Return the values that an expression allows; empty for an expression without a list of them."""
    values = expression.values.get("values") if expression.text("operator") == "In" else []
    if not isinstance(values, list | tuple) or not all(type(value) is str for value in values):
        raise expression.error("values", "expected a list of texts")
    return set(values)
