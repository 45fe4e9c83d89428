"""The models that a configuration declares: elastic quotas, quota trees and forests, budgets, and fair shares.

A definition is an immutable part of a configuration from which a model is made. Equal definitions stand for equal
models, so a new configuration replaces only the models whose definition has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ugm.configuration import (
    BudgetConfig,
    ElasticConfig,
    FairShareConfig,
    PartitionConfig,
    QuotaTreeConfig,
    QuotaTreeRules,
)
from ugm.errors import RequestError, UgmError
from ugm.model import Claim, QuotaModel, ReportingModel

__all__ = ["DeclaredBudgets", "ModelDefinition", "definitions_of"]

_Trees: TypeAlias = tuple[QuotaTreeRules, tuple[QuotaTreeConfig, ...]]


class DeclaredBudgets(NamedTuple):
    """All budgets of a configuration, with the models whose groups and nodes they limit."""

    budgets: tuple[BudgetConfig, ...]
    #: The definitions of elastic groups and quota trees; empty if no budget limits one of them.
    groups: tuple[ModelDefinition, ...]
    trees: tuple[ModelDefinition, ...]


@dataclass(frozen=True, slots=True)
class ModelDefinition:
    """The definition of a declared model."""

    #: ``elastic groups``, ``quota tree``, ``quota forest``, ``budgets`` or ``fair shares``.
    kind: str
    #: The name of the tree or forest; empty for the others, of which there is one.
    name: str
    #: The part of the configuration that describes the model.
    content: ElasticConfig | DeclaredBudgets | FairShareConfig | _Trees
    #: The model that `check` has made, for the next call of `build`.
    _checked: list[QuotaModel] = field(default_factory=list, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        """Leave out the model of the check: it has a lock, and another process or copy makes its own."""
        return type(self), (self.kind, self.name, self.content)

    @property
    def key(self) -> tuple[str, str]:
        """The identity of the model; definitions of different configurations with the same key are compared."""
        return self.kind, self.name

    @property
    def has_past(self) -> bool:
        """True if the model depends on its past calls.

        Budgets and fair shares depend on past usage. The nodes of a quota tree that hold its consumers depend on the
        order in which they came and left.
        """
        return not isinstance(self.content, ElasticConfig)

    def check(self) -> None:
        """Check that the model can be made.

        Raises:
            UgmError: it cannot.
        """
        self._checked[:] = [self._made()]

    def forget_checked(self) -> None:
        """Forget the model of the check, which is not needed."""
        self._checked.clear()

    def build(self) -> QuotaModel:
        """Return a new model without claims: that of the check at first.

        Raises:
            UgmError: the model cannot be made.
        """
        with suppress(IndexError):
            return self._checked.pop()
        return self._made()

    def _made(self) -> QuotaModel:
        # Imported late: most programs declare no models.
        if isinstance(self.content, ElasticConfig):
            from ugm.elastic import ElasticModel  # noqa: PLC0415 - as above

            return ElasticModel.declared(self.content)
        if isinstance(self.content, FairShareConfig):
            from ugm.fairness.declared import declared_shares  # noqa: PLC0415 - as above

            return declared_shares(self.content)
        if isinstance(self.content, DeclaredBudgets):
            from ugm.budgets.declared import declared_budgets  # noqa: PLC0415 - as above

            budgets, groups, trees = self.content
            return declared_budgets(budgets, _owner_finder(groups), _owner_finder(trees))
        from ugm.quotatree.declared import declared_model  # noqa: PLC0415 - as above

        rules, trees_of_model = self.content
        return declared_model(trees_of_model, rules)


def _owner_finder(definitions: Iterable[ModelDefinition]) -> Callable[[Claim], Iterable[str]] | None:
    """Return a function that returns the owners of a claim in some models; None without models."""
    # The owners depend only on the application of a claim, so models without claims can tell them.
    models = [model for each in definitions if isinstance(model := each.build(), ReportingModel)]
    return (lambda claim: [name for model in models for _, name in model.owners(claim)]) if models else None


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
            definition.check()
        except UgmError as error:
            label = " ".join(filter(None, definition.key))
            raise RequestError("config", label, str(error)) from error
    return found


def _definitions(config: PartitionConfig) -> Iterator[ModelDefinition]:
    groups, trees = tuple(_elastic_definition(config)), tuple(_tree_definitions(config))
    yield from groups
    yield from trees
    budgets = config.ugm.budgets
    if budgets:
        limits_groups, limits_nodes = any(one.elastic_group for one in budgets), any(one.quota_node for one in budgets)
        content = DeclaredBudgets(budgets, groups if limits_groups else (), trees if limits_nodes else ())
        yield ModelDefinition("budgets", "", content)
    if config.ugm.fair_share is not None:
        yield ModelDefinition("fair shares", "", config.ugm.fair_share)


def _elastic_definition(config: PartitionConfig) -> Iterator[ModelDefinition]:
    if config.ugm.elastic is not None:
        yield ModelDefinition("elastic groups", "", config.ugm.elastic)


def _tree_definitions(config: PartitionConfig) -> Iterator[ModelDefinition]:
    extensions = config.ugm
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
