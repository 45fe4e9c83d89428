"""ElasticQuota manifests as the elastic groups of a configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, final

from ugm._documents.loader import Document, DocumentFormat, ReadDocument, Value
from ugm._json_values import Json
from ugm.configuration import ElasticGroupConfig
from ugm.configuration.scheduler import Path
from ugm.elastic.validation import refusals_of_amounts
from ugm.errors import RequestError
from ugm.kubernetes.elastic_quotas import review_elastic_quota

__all__ = ["FORMAT"]

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


@final
class _ManifestFormat(DocumentFormat):
    __slots__ = ()

    def recognises(self, data: Value) -> bool:
        """Return whether the data of a group are a manifest, and not its fields."""
        return isinstance(data, dict) and not data.keys().isdisjoint(("apiVersion", "kind", "metadata", "spec"))

    def read(self, document: Document, data: Value, path: Path) -> ReadDocument:
        """Return the group of a manifest."""
        group, errors = review_elastic_quota(_plain(data))
        refused = [(*path, *_path_of(error.place, data)) for error in errors]
        for at, error in zip(refused, errors, strict=True):
            document.report(at, "manifest-invalid", str(error))
        for rule, reason in refusals_of_amounts(group):
            # The other rules are applied to the configuration, which does not contain the reported usage.
            if rule == "max_below_used":
                document.report((*path, "status", "used"), "elastic-max-below-used", reason)
        moved = {(*path, field): (*path, *at) for field, at in _MANIFEST_FIELDS.items()}
        fields = {name: getattr(group, name) for name in ElasticGroupConfig.__dataclass_fields__}
        try:
            value = ElasticGroupConfig(**{**fields, "tree_id": group.tree_id or ""})
        except RequestError as error:
            document.report(path, "manifest-invalid", str(error))
            return ReadDocument(None, moved, (path,))
        return ReadDocument(value, moved, tuple(refused))


FORMAT: Final = _ManifestFormat()


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
        part: str | int = int(bracketed) if isinstance(data, list) else name or bracketed
        yield part
        data = data.get(part) if isinstance(data, dict) else None
