"""The quota models that a configuration declares: elastic quotas, quota trees and forests.

A definition is an immutable part of a configuration from which a model is made. Equal definitions stand for equal
models, so a new configuration replaces only the models whose definition has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from ugm.configuration import ElasticConfig, PartitionConfig, QuotaTreeConfig, QuotaTreeRules
from ugm.errors import RequestError, UgmError
from ugm.model import QuotaModel

__all__ = ["ModelDefinition", "definitions_of"]

_Trees: TypeAlias = tuple[QuotaTreeRules, tuple[QuotaTreeConfig, ...]]


class ModelDefinition(NamedTuple):
    """The definition of a declared model."""

    #: ``elastic groups``, ``quota tree`` or ``quota forest``.
    kind: str
    #: The name of the tree or forest; empty for elastic groups.
    name: str
    #: The part of the configuration that describes the model.
    content: ElasticConfig | _Trees

    @property
    def key(self) -> tuple[str, str]:
        """The identity of the model; definitions of different configurations with the same key are compared."""
        return self.kind, self.name

    def build(self) -> QuotaModel:
        """Return a new model without claims.

        Raises:
            RequestError: the model cannot be made.
        """
        # Imported late: most programs declare no models.
        if isinstance(self.content, ElasticConfig):
            from ugm.elastic import ElasticModel  # noqa: PLC0415 - as above

            return ElasticModel.declared(self.content)
        from ugm.quotatree.declared import declared_model  # noqa: PLC0415 - as above

        rules, trees = self.content
        return declared_model(trees, rules)


def definitions_of(config: PartitionConfig | None) -> tuple[ModelDefinition, ...]:
    """Return the definitions of all models that a configuration declares, after a check that each can be made.

    Raises:
        RequestError: a model cannot be made, or two trees have the same name.
    """
    if config is None:
        return ()
    found = tuple(_definitions(config))
    _require_unique(one.tree.name for one in config.ugm.quota_trees)
    for definition in found:
        try:
            definition.build()
        except UgmError as error:
            label = " ".join(filter(None, definition.key))
            raise RequestError("config", label, str(error)) from error
    return found


def _definitions(config: PartitionConfig) -> Iterator[ModelDefinition]:
    extensions = config.ugm
    if extensions.elastic is not None:
        yield ModelDefinition("elastic groups", "", extensions.elastic)
    models: dict[tuple[str, str], list[QuotaTreeConfig]] = {}
    for one in extensions.quota_trees:
        key = ("quota forest", one.forest) if one.forest else ("quota tree", one.tree.name)
        models.setdefault(key, []).append(one)
    for (kind, name), trees in models.items():
        yield ModelDefinition(kind, name, (extensions.quota_tree_rules, tuple(trees)))


def _require_unique(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise RequestError("config", name, "two quota trees have this name")
        seen.add(name)
