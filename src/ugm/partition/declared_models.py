"""The quota models that the configuration declares, made from its definitions.

When another configuration is put in force, a model whose definition is the same stays. Each of the others is replaced
by a new model, which is charged with the whole ledger. The old models are not changed, so this can be undone.

Some models depend on the past. A new one continues the past of the model that it replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol, runtime_checkable

from ugm._declared_models import ModelDefinition
from ugm.budgets import BudgetChange, Budgets
from ugm.errors import RequestError
from ugm.model import ClusterModel, HistoryModel, PersistentModel, QuotaModel, TimedModel
from ugm.partition.model_calls import Call, PastCall, charge_all
from ugm.resources import Resource

__all__ = ["DeclaredModel", "ModelFactory", "repeat_past", "replace_declared"]


@runtime_checkable
class _AcceptsMissingGroups(Protocol):
    """A declared model that can hold allocations whose group the configuration has removed."""

    def accept_missing_groups(self, allocation_ids: Iterable[str]) -> None: ...


@runtime_checkable
class _ExpectsLedger(Protocol):
    """A declared model for which it matters when a claim began."""

    def expect_ledger(self) -> None: ...


class DeclaredModel(NamedTuple):
    """A model that the configuration declares."""

    definition: ModelDefinition
    model: QuotaModel


class ModelFactory(NamedTuple):
    """Makes declared models, and charges them with a ledger."""

    #: The sum of the nodes; None if there is none.
    total: Resource | None
    #: Returns the calls that charge a model with the ledger.
    calls: Callable[[], Sequence[Call]]
    #: Returns the second at which a model begins, if it depends on the time.
    time: Callable[[], int]

    def make(self, definition: ModelDefinition, before: QuotaModel | None = None) -> QuotaModel:
        """Return a charged model.

        Args:
            definition: its definition.
            before: the model that it replaces, whose past it continues; None for none, or if its state is unknown.
        """
        model = definition.build()
        if isinstance(model, TimedModel):
            model.at(self.time())
        if isinstance(model, PersistentModel) and before is not None:
            model.continue_past(before)
        self._charge(model)
        return model

    def _charge(self, model: QuotaModel) -> None:
        calls = self.calls()
        if isinstance(model, ClusterModel):
            model.set_cluster(self.total)
        if isinstance(model, _AcceptsMissingGroups):
            model.accept_missing_groups(claim.allocation_id for _, claim in calls)
        if isinstance(model, _ExpectsLedger):
            model.expect_ledger()
        charge_all(model, calls)


def replace_declared(
    declared: Iterable[DeclaredModel],
    definitions: Iterable[ModelDefinition],
    make: Callable[[ModelDefinition, QuotaModel | None], QuotaModel],
) -> tuple[DeclaredModel, ...]:
    """Return the models of some definitions. A model whose definition is the same stays.

    Args:
        declared: the models in force.
        definitions: the definitions.
        make: returns a new model in the place of another one, or of none.
    """
    known = {one.definition.key: one for one in declared}
    models = []
    for definition in definitions:
        found = known.get(definition.key)
        if found is None or found.definition != definition:
            found = DeclaredModel(definition, make(definition, None if found is None else found.model))
        else:
            definition.forget_checked()
        models.append(found)
    return tuple(models)


def repeat_past(model: HistoryModel, past: Iterable[PastCall]) -> None:
    """Bring a model into the state that it had after all calls of the past."""
    model.forget()
    for second, calls in past:
        # Every operation begins with the time.
        model.at(second)
        if not isinstance(calls, BudgetChange):
            charge_all(model, calls)
        elif isinstance(model, Budgets):
            # The program may have other budgets now.
            with suppress(RequestError):
                model.change(calls)
