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
from typing import Any, Final, final

from ugm._documents.loader import Document, DocumentFormat, ReadDocument, Value
from ugm._json_values import Json, JsonObject
from ugm.arguments import require_instance
from ugm.elastic import ROOT_GROUP, ElasticGroup, GroupStatus
from ugm.elastic.validation import refusals_of_amounts
from ugm.errors import RequestError
from ugm.identity import MAX_NAME, is_name
from ugm.kubernetes.manifests import CPU, Fields, ManifestError, Path, read_object
from ugm.resources import MAX_QUANTITY, VCORE, Resource, format_amount

_PREFIX: Final = "quota.scheduling.koordinator.sh/"

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
    group, errors = _review(manifest)
    if errors:
        raise errors[0]
    return group


def _review(manifest: Mapping[str, object]) -> tuple[ElasticGroup, list[ManifestError]]:
    """Read the manifest of an elastic group, and return it with all errors. Fields with an error have their default."""
    try:
        name, metadata = read_object(manifest, _KIND)
    except ManifestError as error:
        return ElasticGroup(""), [error]
    errors: list[ManifestError] = []

    def section(name: str, fields: Fields) -> Fields:
        try:
            return fields.mapping(name)
        except ManifestError as error:
            errors.append(error)
            return Fields({})

    labels, annotations = section("labels", metadata), section("annotations", metadata)
    spec, status = section("spec", Fields(manifest)), section("status", Fields(manifest))
    readers: dict[str, Callable[[], object]] = {
        "parent": lambda: _parent(labels),
        "min": lambda: spec.mapping("min").amounts(),
        "max": lambda: spec.mapping("max").amounts(),
        "shared_weight": lambda: _vector(annotations, "shared-weight"),
        "allow_lent": lambda: _boolean(labels, "allow-lent-resource", default=True),
        "is_parent": lambda: _boolean(labels, "is-parent", default=False),
        "namespaces": lambda: _names(annotations, "namespaces"),
        "namespace": lambda: metadata.name("namespace") or "",
        "tree_id": lambda: labels.name(f"{_PREFIX}tree-id") or "",
        "is_root": lambda: _boolean(labels, "is-root", default=False),
        "force_update": lambda: _boolean(labels, "allow-force-update", default=False),
        "strict_max": lambda: _resources(annotations, "max-strict-check-resource-keys"),
        "reported_used": lambda: status.mapping("used").amounts(),
    }
    values: dict[str, Any] = {}
    for field, read in readers.items():
        try:
            values[field] = read()
        except ManifestError as error:
            errors.append(error)
    return ElasticGroup(name, **values), errors


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
    """Read a vector, in JSON or in the looser notation of the document; None if it names no resource."""
    name = f"{_PREFIX}{annotation}"
    value = annotations.json(name)
    if isinstance(value, str):
        text = value.strip()
        value = dict.fromkeys(text[1:-1].split(",")) if text.startswith("{") and text.endswith("}") else text
    if not value:
        return None
    if not isinstance(value, Mapping):
        raise annotations.error(name, "expected a mapping of quantities")
    return _quantities_of(value, (*annotations.path, name)).amounts()


def _quantities_of(vector: Mapping[Any, object], path: Path) -> Fields:
    """Return the quantities by name; YAML reads ``cpu:4``, without a blank, as a name without a value."""
    quantities: dict[Any, object] = {}
    for name, quantity in vector.items():
        if quantity is None and isinstance(name, str):
            name, quantity = (part.strip(" \t\n\"'") for part in name.partition(":")[::2])  # noqa: PLW2901 - the same pair, split
        quantities[name] = quantity
    return Fields(quantities, path)


def _names(annotations: Fields, annotation: str) -> tuple[str, ...]:
    name = f"{_PREFIX}{annotation}"
    names = annotations.values.get(name) or ()
    if isinstance(names, str):
        try:
            names = json.loads(names)
        except (ValueError, RecursionError):
            raise annotations.error(name, "expected a JSON list of names") from None
    if not isinstance(names, list | tuple) or not all(isinstance(each, str) and is_name(each) for each in names):
        raise annotations.error(name, f"expected a list of names of 1 to {MAX_NAME} characters")
    return tuple(dict.fromkeys(names))


def _resources(annotations: Fields, annotation: str) -> tuple[str, ...]:
    return tuple(VCORE if each == CPU else each for each in _names(annotations, annotation))


def write_elastic_quota(group: ElasticGroup, status: GroupStatus | None = None) -> JsonObject:
    """Return the manifest of a group; with *status*, also its request, usage and runtime quota.

    Reading the manifest gives an equal group, except that empty weights become None.

    Raises:
        RequestError: an amount is not valid in Kubernetes, or the resource ``cpu`` is named, which ugm calls ``vcore``;
            or an argument has another type.
    """
    require_instance("group", group, ElasticGroup)
    if status is not None:
        require_instance("status", status, GroupStatus)
    labels = {
        "parent": group.parent,
        "is-parent": json.dumps(group.is_parent),
        "allow-lent-resource": json.dumps(group.allow_lent),
        "tree-id": group.tree_id or None,
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
    manifest = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": _KIND, "metadata": metadata, "spec": spec}
    used = group.reported_used if status is None else status.used
    return {**manifest, "status": {"used": _quantities(used)}} if used else manifest


def _prefixed(fields: Mapping[str, str | None]) -> dict[str, str]:
    return {f"{_PREFIX}{field}": text for field, text in fields.items() if text is not None}


def _quantities(amounts: Resource) -> dict[str, str]:
    if CPU in amounts or not all(0 <= amount <= MAX_QUANTITY for amount in amounts.values()):
        reason = f"expected amounts from 0 to {MAX_QUANTITY}, and {VCORE!r}, in thousandths of a core, for {CPU!r}"
        raise RequestError("amounts", amounts, reason)
    return {CPU if name == VCORE else name: format_amount(name, amount) for name, amount in amounts.items()}


# Manifests as the elastic groups of a configuration.

#: The places of the fields of a group in its manifest.
_MANIFEST_FIELDS: Final[Mapping[str, Path]] = {
    "name": ("metadata", "name"),
    "parent": ("metadata", "labels", f"{_PREFIX}parent"),
    "treeid": ("metadata", "labels", f"{_PREFIX}tree-id"),
    "sharedweight": ("metadata", "annotations", f"{_PREFIX}shared-weight"),
    "namespaces": ("metadata", "annotations", f"{_PREFIX}namespaces"),
    "min": ("spec", "min"),
    "max": ("spec", "max"),
}


@final
class _ManifestFormat(DocumentFormat):
    def recognises(self, data: Value) -> bool:
        """Return whether the data of a group are a manifest, and not its fields."""
        return isinstance(data, dict) and not data.keys().isdisjoint(("apiVersion", "kind", "metadata", "spec"))

    def read(self, document: Document, data: Value, path: Path) -> ReadDocument:
        """Return the group of a manifest."""
        group, errors = _review(_plain(data))
        for error in errors:
            document.report((*path, *error.path), "manifest-invalid", str(error))
        for rule, reason, _ in refusals_of_amounts(group):
            # The other rules are applied to the configuration, which does not contain the reported usage.
            if rule == "max_below_used":
                document.report((*path, "status", "used"), "elastic-max-below-used", reason)
        moved = {(*path, field): (*path, *at) for field, at in _MANIFEST_FIELDS.items()}
        return ReadDocument(group, moved, tuple((*path, *error.path) for error in errors))


FORMAT: Final = _ManifestFormat()


def _plain(value: Value) -> Json:
    """Return data with texts of the built-in type."""
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return list(map(_plain, value))
    return str(value) if isinstance(value, str) else value
