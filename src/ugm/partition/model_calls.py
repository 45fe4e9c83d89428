"""The calls that change quota models as values: charges, refunds, requests and withdrawals.

`ugm.partition.model_set` makes the calls, and handles the exceptions of models.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

from ugm.budgets import BudgetChange
from ugm.model import Claim, QuotaModel
from ugm.partition.allocation import AllocationState
from ugm.partition.state import PartitionState

__all__ = [
    "INVERSE",
    "PENDING_METHODS",
    "Call",
    "Method",
    "PastCall",
    "charge_all",
    "charge_calls",
    "has_method",
    "is_pending_model",
    "ledger_calls",
    "pending_claim",
]

#: A method that changes a model.
Method: TypeAlias = Literal["charge", "charge_pending", "refund", "add_pending", "remove_pending"]
#: A change of all models: the method and its claim.
Call: TypeAlias = tuple[Method, Claim]
#: The calls of an operation of the past, or its change of a budget, with its second.
PastCall: TypeAlias = tuple[int, Sequence[Call] | BudgetChange]

#: The methods that undo each other. `ugm.model.StartingModel.charge_pending` is undone by two methods.
INVERSE: Final[dict[Method, Method]] = {
    "charge": "refund",
    "refund": "charge",
    "add_pending": "remove_pending",
    "remove_pending": "add_pending",
}

#: The methods that only a `ugm.model.PendingModel` has.
PENDING_METHODS: Final = ("add_pending", "remove_pending")


def charge_calls(claim: Claim, *, pending: bool) -> list[Call]:
    """Return the calls that charge a claim, which may be pending."""
    return [("charge_pending" if pending else "charge", claim)]


def pending_claim(claim: Claim) -> Claim:
    """Return a claim as it is while it is pending: without a promised end."""
    return claim if claim.until is None else claim._replace(until=None)


def ledger_calls(state: PartitionState) -> list[Call]:
    """Return the calls that charge a quota model with the whole ledger."""
    return [
        ("add_pending" if entry.traits.state is AllocationState.PENDING else "charge", entry.claim(allocation_id))
        for allocation_id, entry in state.ledger.items()
    ]


def charge_all(model: QuotaModel, calls: Iterable[Call]) -> None:
    """Make calls of one model, except those for which it has no method."""
    for method, claim in calls:
        if method not in PENDING_METHODS or is_pending_model(model):
            getattr(model, method)(claim)


def is_pending_model(model: QuotaModel) -> bool:
    """Return whether a model counts pending requests."""
    # Instead of `isinstance(model, PendingModel)`, which takes longer than everything else that an allocation needs.
    return all(has_method(model, name) for name in PENDING_METHODS)


def has_method(model: QuotaModel, name: str) -> bool:
    """Return whether a model has an optional method. It has not if a property of this name raises."""
    try:
        return hasattr(model, name)
    except (MemoryError, RecursionError):
        raise
    except Exception:
        # An error of the model itself comes again.
        if _always_raises(model, name):
            return False
        raise


def _always_raises(model: QuotaModel, name: str) -> bool:
    try:
        hasattr(model, name)
    except Exception:  # noqa: BLE001 - whatever the model raises
        return True
    return False
