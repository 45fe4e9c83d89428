"""ElasticQuota manifests: read in the documented or the current form of Koordinator, written in the current form.

Source: Koordinator, multi-hierarchy elastic quota management, "API". Labels and annotations all start with
``quota.scheduling.koordinator.sh/``. Koordinator's documentation names the parent in the label ``parent-quota-name``;
current manifests use ``parent``. In the documentation, booleans are written without quotes, and vectors are mappings
such as ``{cpu:4, memory: 8Gi}``; in current manifests both are strings, and a vector is in JSON. All forms are read.

A value that cannot be understood is an error: a misspelt boolean could lend resources that must not be lent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

from ugm._json_values import JsonObject
from ugm.arguments import require_instance
from ugm.elastic import ROOT_GROUP, ElasticGroup, GroupStatus
from ugm.errors import RequestError
from ugm.identity import MAX_NAME
from ugm.kubernetes.manifests import CPU, Fields, ManifestError, read_object
from ugm.resources import MAX_QUANTITY, VCORE, Resource, format_amount

__all__ = ["read_elastic_quota", "review_elastic_quota", "write_elastic_quota"]

FieldT = TypeVar("FieldT")

_PREFIX: Final = "quota.scheduling.koordinator.sh/"

_API_VERSION: Final = "scheduling.sigs.k8s.io/v1alpha1"
_KIND: Final = "ElasticQuota"


def read_elastic_quota(manifest: Mapping[str, object]) -> ElasticGroup:
    """Read the manifest of an elastic group.

    Raises:
        ManifestError: the manifest has another kind or no name, or a value in it is not valid.

    >>> group = read_elastic_quota({
    ...     "metadata": {
    ...         "name": "test",
    ...         "annotations": {"quota.scheduling.koordinator.sh/shared-weight": "{cpu:4, memory: 8Gi}"},
    ...         "labels": {"quota.scheduling.koordinator.sh/parent-quota-name": "team",
    ...                    "quota.scheduling.koordinator.sh/allow-lent-resource": False},
    ...     },
    ...     "spec": {"max": {"cpu": 20, "memory": "40Gi"}, "min": {"cpu": 10}},
    ... })
    >>> group.parent, group.allow_lent, group.min, group.shared_weight
    ('team', False, Resource(vcore=10000), Resource(memory=8589934592, vcore=4000))
    """
    group, errors = review_elastic_quota(manifest)
    if errors:
        raise errors[0]
    return group


def review_elastic_quota(manifest: Mapping[str, object]) -> tuple[ElasticGroup, list[ManifestError]]:
    """Read the manifest of an elastic group, and return it with all errors. Fields with an error have their default."""
    errors: list[ManifestError] = []

    def read(field: Callable[[], FieldT], default: FieldT) -> FieldT:
        try:
            return field()
        except ManifestError as error:
            errors.append(error)
            return default

    nothing, no_names = Fields({}), cast("tuple[str, ...]", ())
    name, metadata = read(lambda: read_object(manifest, _KIND), ("", nothing))
    if errors:
        return ElasticGroup(name), errors
    labels = read(lambda: metadata.mapping("labels"), nothing)
    annotations = read(lambda: metadata.mapping("annotations"), nothing)
    spec = read(lambda: Fields(manifest).mapping("spec"), nothing)
    status = read(lambda: Fields(manifest).mapping("status"), nothing)
    strict = read(lambda: _names(annotations, "max-strict-check-resource-keys"), no_names)
    group = ElasticGroup(
        name,
        read(lambda: _parent(labels), ROOT_GROUP),
        min=read(lambda: spec.mapping("min").amounts(), Resource()),
        max=read(lambda: spec.mapping("max").amounts(), Resource()),
        shared_weight=read(lambda: _vector(annotations, "shared-weight"), None),
        allow_lent=read(lambda: _boolean(labels, "allow-lent-resource", default=True), default=True),
        is_parent=read(lambda: _boolean(labels, "is-parent", default=False), default=False),
        namespaces=read(lambda: _names(annotations, "namespaces"), no_names),
        namespace=read(lambda: metadata.name("namespace"), None) or "",
        tree_id=read(lambda: labels.name(f"{_PREFIX}tree-id"), None),
        is_root=read(lambda: _boolean(labels, "is-root", default=False), default=False),
        force_update=read(lambda: _boolean(labels, "allow-force-update", default=False), default=False),
        strict_max=tuple(VCORE if each == CPU else each for each in strict),
        reported_used=read(lambda: status.mapping("used").amounts(), Resource()),
    )
    return group, errors


def _parent(labels: Fields) -> str:
    now, before = (labels.name(f"{_PREFIX}{label}") for label in ("parent", "parent-quota-name"))
    if now is not None and before is not None and now != before:
        raise labels.error(f"{_PREFIX}parent-quota-name", f"differs from the label 'parent', which is {now!r}")
    return now or before or ROOT_GROUP


def _boolean(labels: Fields, label: str, *, default: bool) -> bool:
    value = labels.values.get(f"{_PREFIX}{label}")
    if value is None or value == "":
        return default
    if isinstance(value, bool):
        return value
    if value not in ("true", "false"):
        raise labels.error(f"{_PREFIX}{label}", "expected true or false")
    return value == "true"


def _vector(annotations: Fields, annotation: str) -> Resource | None:
    """Read a vector; None if it names no resource."""
    name = f"{_PREFIX}{annotation}"
    value = annotations.values.get(name)
    if isinstance(value, str):
        value = _parse_mapping(value)
    if value is not None and not isinstance(value, Mapping):
        raise ManifestError(annotations.place_of(name), value, "expected a mapping of quantities")
    return _quantities_of(value, annotations.place_of(name)).amounts() if value else None


def _parse_mapping(text: str) -> object:
    """Parse a mapping in JSON, or in the looser notation of the document; the text itself if it is neither."""
    if not text.strip():
        return None
    try:
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except (json.JSONDecodeError, RecursionError):
        inner = text.strip()
    return dict.fromkeys(inner[1:-1].split(",")) if inner.startswith("{") and inner.endswith("}") else text


def _quantities_of(vector: Mapping[Any, object], place: str) -> Fields:
    """Return the quantities by name; YAML reads ``cpu:4``, without a blank, as a name without a value."""
    quantities: dict[Any, object] = {}
    for name, quantity in vector.items():
        if quantity is None and isinstance(name, str):
            name, _, quantity = name.partition(":")  # noqa: PLW2901 - the same pair, split
            name, quantity = name.strip(" \t\n\"'"), quantity.strip(" \t\n\"'")  # noqa: PLW2901 - as above
        quantities[name] = quantity
    return Fields(quantities, place)


def _names(annotations: Fields, annotation: str) -> tuple[str, ...]:
    name = f"{_PREFIX}{annotation}"
    names = annotations.values.get(name)
    if isinstance(names, str):
        try:
            names = json.loads(names) if names.strip() else None
        except (ValueError, RecursionError):
            raise annotations.error(name, "expected a JSON list of names") from None
    if names is None:
        return ()
    if not isinstance(names, list | tuple) or not all(isinstance(each, str) and each for each in names):
        raise annotations.error(name, "expected a list of names")
    if any(len(each) > MAX_NAME for each in names):
        raise annotations.error(name, f"a name has 1 to {MAX_NAME} characters")
    return tuple(dict.fromkeys(names))


def write_elastic_quota(group: ElasticGroup, status: GroupStatus | None = None) -> JsonObject:
    """Return the manifest of a group; with *status*, also its request, usage and runtime quota.

    Reading the manifest gives an equal group, except that weights that could not be parsed are left out, and that empty
    weights become None.

    Raises:
        RequestError: an amount is not valid in Kubernetes, or the resource ``cpu`` is named, which ugm calls ``vcore``;
            or an argument has another type.
    """
    require_instance("group", group, ElasticGroup)
    if status is not None:
        require_instance("status", status, GroupStatus)
    labels = {
        "parent": group.parent or ROOT_GROUP,
        "is-parent": json.dumps(group.is_parent),
        "allow-lent-resource": json.dumps(group.allow_lent),
        "tree-id": group.tree_id,
        "is-root": "true" if group.is_root else None,
        "allow-force-update": "true" if group.force_update else None,
    }
    strict = [CPU if name == VCORE else name for name in group.strict_max]
    annotations = {
        "shared-weight": json.dumps(_quantities(group.shared_weight)) if group.shared_weight else None,
        "namespaces": json.dumps(group.namespaces) if group.namespaces else None,
        "max-strict-check-resource-keys": json.dumps(strict) if strict else None,
    }
    if status is not None:
        shown = {"runtime": status.runtime, "request": status.request, "child-request": status.child_request}
        annotations |= {field: json.dumps(_quantities(vector)) for field, vector in shown.items()}
    metadata: JsonObject = {"name": group.name}
    if group.namespace:
        metadata["namespace"] = group.namespace
    metadata["labels"], metadata["annotations"] = _prefixed(labels), _prefixed(annotations)
    spec = {"min": _quantities(group.min), "max": _quantities(group.max)}
    manifest = {"apiVersion": _API_VERSION, "kind": _KIND, "metadata": metadata, "spec": spec}
    used = group.reported_used if status is None else status.used
    return {**manifest, "status": {"used": _quantities(used)}} if used else manifest


def _prefixed(fields: Mapping[str, str | None]) -> dict[str, str]:
    return {f"{_PREFIX}{field}": text for field, text in fields.items() if text is not None}


def _quantities(amounts: Resource) -> dict[str, str]:
    if CPU in amounts:
        raise RequestError(
            "amounts", amounts, f"the resource {CPU!r} is named; expected {VCORE!r}, in thousandths of a core"
        )
    if not all(0 <= amount <= MAX_QUANTITY for amount in amounts.values()):
        raise RequestError("amounts", amounts, f"expected amounts from 0 to {MAX_QUANTITY}")
    return {CPU if name == VCORE else name: format_amount(name, amount) for name, amount in amounts.items()}
