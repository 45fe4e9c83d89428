"""The readers of documents inside of a configuration: ElasticQuota manifests and quota trees."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from ugm._config_fields import ConfigValue
from ugm._documents.builder import UNUSABLE, Value, not_text, surrogate_in
from ugm._documents.loader import Document
from ugm._documents.located import from_place
from ugm._documents.places import Path, format_path, value_at
from ugm._json_values import Json
from ugm.configuration import ElasticGroupConfig, QuotaNodeConfig, QuotaTreeDocument
from ugm.errors import ConfigError, RequestError

if TYPE_CHECKING:
    from ugm.elastic.group import ElasticGroup

__all__ = ["DocumentReader", "ReadDocument", "document_reader", "is_usable"]

_PREFIX: Final = "quota.scheduling.koordinator.sh/"
#: The part of a place in a manifest: a name, or a name or a position in brackets.
_PART: Final = re.compile(r"\.?([A-Za-z0-9_-]+)|\[([^\]]*)\]")
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


class ReadDocument(NamedTuple):
    """The value of a document."""

    #: None if the document cannot be used.
    value: ConfigValue | None
    #: The paths of fields in the document that differ from their paths in the value.
    moved: Mapping[Path, Path]
    #: The paths at which the document is invalid.
    refused: tuple[Path, ...] = ()


#: Reads the value of a document at a path, and reports its problems.
DocumentReader: TypeAlias = Callable[[Document, Value, Path], ReadDocument]


def _is_manifest(data: Value) -> bool:
    """Return whether the data of a group are a manifest, and not its fields."""
    return isinstance(data, dict) and not data.keys().isdisjoint(("apiVersion", "kind", "metadata", "spec"))


def _read_manifest(document: Document, data: Value, path: Path) -> ReadDocument:
    # Imported late, like all modules about quota models: most configurations declare none.
    from ugm.elastic.rules import refusals_of_amounts  # noqa: PLC0415 - as above
    from ugm.kubernetes.elastic_quotas import review_elastic_quota  # noqa: PLC0415 - as above

    group, errors = review_elastic_quota(_plain(data))
    refused = [(*path, *_path_of(error.place, data)) for error in errors]
    for at, error in zip(refused, errors, strict=True):
        document.report(at, "manifest-invalid", str(error))
    for rule, reason in refusals_of_amounts(group):
        # The other rules are applied to the configuration, which does not contain the reported usage.
        if rule == "max_below_used":
            document.report((*path, "status", "used"), "elastic-max-below-used", reason)
    moved = {(*path, field): (*path, *at) for field, at in _MANIFEST_FIELDS.items()}
    # Some annotations are JSON, which may contain escapes of characters that a text must not have.
    for annotation, names in _names_in_annotations(group):
        if found := next(filter(None, map(surrogate_in, names)), None):
            place = (*path, "metadata", "annotations", annotation)
            document.report(place, "text-invalid", not_text(found))
            return ReadDocument(None, moved, (path,))
    fields = {name: getattr(group, name) for name in ElasticGroupConfig.__dataclass_fields__}
    try:
        value = ElasticGroupConfig(**{**fields, "tree_id": group.tree_id or ""})
    except RequestError as error:
        document.report(path, "manifest-invalid", str(error))
        return ReadDocument(None, moved, (path,))
    return ReadDocument(value, moved, tuple(refused))


def _names_in_annotations(group: ElasticGroup) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield the names that the annotations of a manifest contain."""
    yield f"{_PREFIX}namespaces", group.namespaces
    yield f"{_PREFIX}max-strict-check-resource-keys", group.strict_max
    yield f"{_PREFIX}shared-weight", group.shared_weight or ()


def _plain(value: Value) -> Json:
    """Return data with texts of the built-in type."""
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return list(map(_plain, value))
    return str(value) if isinstance(value, str) else value


def _path_of(place: str, data: Value) -> Iterator[str | int]:
    """Yield the parts of a place in a manifest."""
    for name, bracketed in _PART.findall(place):
        part: str | int = name or bracketed
        if isinstance(data, list):
            part = int(bracketed)
        yield part
        data = data.get(part) if isinstance(data, dict) else None


def _read_tree(document: Document, _data: Value, path: Path) -> ReadDocument:
    from ugm.quotatree.documents import tree_from_located  # noqa: PLC0415 - as above

    file, value, place = value_at(document.data, document.place, path)
    try:
        item = from_place(value, place)
        tree, problems = tree_from_located(item, file or document.problems.file, format_path(path))
    except ConfigError as error:
        problems = list(error.problems)
        tree = None
    document.problems.include(problems)
    if tree is None or problems:
        return ReadDocument(None, {}, (path,))
    nodes = tuple(
        QuotaNodeConfig(name, parent=node.parent or "", hard=node.hard, quota=node.quota)
        for name, node in tree.nodes.items()
    )
    return ReadDocument(QuotaTreeDocument(tree.name, resources=tree.resource_names, nodes=nodes), {})


def is_usable(data: Value) -> bool:
    """Return whether the loader could read all parts of some data."""
    if isinstance(data, dict):
        return all(map(is_usable, data.values()))
    if isinstance(data, list):
        return all(map(is_usable, data))
    return data is not UNUSABLE


def document_reader(kind: type[ConfigValue], data: Value) -> DocumentReader | None:
    """Return the function that reads a value of a class from a document; None if its fields are given directly."""
    if kind is QuotaTreeDocument:
        return _read_tree
    return _read_manifest if kind is ElasticGroupConfig and _is_manifest(data) else None
