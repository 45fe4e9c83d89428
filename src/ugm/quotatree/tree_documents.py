"""Documents of quota trees as values of a configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast, final

from ugm._documents.builder import Value, format_path, value_at
from ugm._documents.loader import Document, DocumentFormat, ReadDocument
from ugm._documents.located import from_place
from ugm.configuration import QuotaNodeConfig, QuotaTreeDocument
from ugm.configuration.fields import ConfigValue
from ugm.configuration.scheduler import Path
from ugm.quotatree.declared import document_of
from ugm.quotatree.documents import tree_from_located

__all__ = ["FORMAT"]


@final
class _TreeFormat(DocumentFormat):
    __slots__ = ()

    def read(self, document: Document, data: Value, path: Path) -> ReadDocument:  # noqa: ARG002 - read with its places
        """Return the tree of a document."""
        file, value, place = value_at(document.data, document.place, path)
        item = from_place(value, place)
        tree, problems = tree_from_located(item, file or document.problems.file, format_path(path))
        document.problems.include(problems)
        if problems:
            return ReadDocument(None, {}, (path,))
        nodes = tuple(
            QuotaNodeConfig(name, parent=node.parent or "", hard=node.hard, quota=node.quota)
            for name, node in tree.nodes.items()
        )
        return ReadDocument(QuotaTreeDocument(tree.name, resources=tree.resource_names, nodes=nodes), {})

    def write(self, value: ConfigValue, write_amount: Callable[[str, int], object]) -> object:
        """Return the document of a tree."""
        return document_of(cast("QuotaTreeDocument", value), write_amount)


FORMAT: Final = _TreeFormat()
