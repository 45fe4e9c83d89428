"""The calls that change quota models, as values, and the models that the configuration declares.

A declared model is charged with the whole ledger. Some models depend on the past. A new one continues the past of the
model that it replaces, or a stored one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from ugm._json_values import JsonMapping
from ugm.configuration.model_kinds import ModelDefinition
from ugm.decision import SUSPENDED, Violation
from ugm.errors import RequestError
from ugm.model import Claim, ClusterModel, PersistentModel, QuotaModel, TimedModel
from ugm.partition.engine.application import claim_of
from ugm.partition.rows import Allocation, AllocationState, ApplicationRow, Tables
from ugm.resources import Resource

#: A method that changes a model.
Method: TypeAlias = Literal["charge", "refund", "add_pending", "remove_pending"]
#: A change of all models: the method and its claim.
Call: TypeAlias = tuple[Method, Claim]

#: The methods that undo each other.
INVERSE: Final[dict[Method, Method]] = {
    "charge": "refund",
    "refund": "charge",
    "add_pending": "remove_pending",
    "remove_pending": "add_pending",
}
#: The methods that only a `ugm.model.PendingModel` has.
PENDING_METHODS: Final = ("add_pending", "remove_pending")
_PENDING: Final = AllocationState.PENDING
_NOTHING: Final[Mapping[str, JsonMapping]] = MappingProxyType({})


# The calls that change models, as values


def row_calls(tables: Tables) -> list[Call]:
    """Return the calls that charge a quota model with all rows."""
    owners = tables.applications
    return [
        ("add_pending" if row.state is _PENDING else "charge", claim_of(owners[row.application_id], row))
        for row in tables.allocations.values()
    ]


def calls_of_change(owner: ApplicationRow, old: Allocation | None, new: Allocation | None) -> list[Call]:
    """Return the calls of a quota model for the change of an allocation, whose application is *owner*."""
    calls: list[Call] = []
    if old is not None:
        calls.append(("remove_pending" if old.state is _PENDING else "refund", claim_of(owner, old)))
    if new is not None:
        calls.append(("add_pending" if new.state is _PENDING else "charge", claim_of(owner, new)))
    if old is not None and new is not None and INVERSE[calls[0][0]] == calls[1][0] and calls[0][1] == calls[1][1]:
        return []
    return calls


def charge_all(model: QuotaModel, calls: Iterable[Call]) -> None:
    """Make calls of one model, except those for which it has no method."""
    is_pending_model = counts_pending(model)
    for method, claim in calls:
        if is_pending_model or method not in PENDING_METHODS:
            getattr(model, method)(claim)


def counts_pending(model: QuotaModel) -> bool:
    """Return whether a model counts pending requests."""
    # `isinstance(model, PendingModel)` takes longer.
    return all(hasattr(model, name) for name in PENDING_METHODS)


def pending_claim(claim: Claim, usage: Resource) -> Claim:
    """Return a claim as it is while it is pending: without a promised end or a node, and with open amounts."""
    is_same = claim.until is None and claim.node is None and usage is claim.usage
    return claim if is_same else claim._replace(until=None, node=None, usage=usage)


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
    #: The stored past of models, by `ModelDefinition.key` or by a key that the caller has chosen.
    saved: Mapping[str, JsonMapping] = _NOTHING

    def make(self, definition: ModelDefinition, before: QuotaModel | None = None) -> QuotaModel:
        """Return a charged model.

        Args:
            definition: its definition.
            before: the model that it replaces, whose past it continues; None for none, or if its state is unknown.
        """
        model = definition.build()
        self.begin(model, "/".join(definition.key), before)
        return model

    def begin(self, model: QuotaModel, key: str, before: QuotaModel | None = None) -> None:
        """Let a new model continue its stored past, or begin now, and charge it.

        Raises:
            RequestError: the stored past is that of another model.
        """
        past = self.saved.get(key)
        if past is not None and isinstance(model, PersistentModel):
            try:
                model.load(past)
            except (LookupError, ValueError, TypeError, ArithmeticError) as error:
                raise RequestError(
                    "models", key, "its stored past belongs to another model", "state-conflict"
                ) from error
        elif isinstance(model, TimedModel):
            model.at(self.time())
        # A declared model may continue the past of the one that it replaces, of the same class.
        if before is not None and hasattr(model, "continue_past"):
            model.continue_past(before)
        calls = self.calls()
        if isinstance(model, ClusterModel):
            model.set_cluster(self.total)
        # For some it matters when a claim began.
        if hasattr(model, "expect_ledger"):
            model.expect_ledger()
        charge_all(model, calls)


def suspension(model: QuotaModel) -> Violation:
    """Return the denial of every request by a suspended model."""
    return Violation(SUSPENDED, type(model).__name__, "", "", None, 0, 0, 0)


def require_model(argument: str, model: object) -> None:
    """Check that an object is a quota model.

    Args:
        argument: the name of the argument that has it.
        model: the object.

    Raises:
        RequestError: it is not.
    """
    if isinstance(model, type) or not isinstance(model, QuotaModel):
        raise RequestError(argument, model, "expected a QuotaModel with the methods check, charge and refund")
