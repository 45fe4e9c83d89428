"""The quota models that the embedding program adds: asked together, charged together or not at all.

A model is foreign code. It may raise at any point; whatever was charged before is refunded then, and the error goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Final, final

from ugm.decision import Violation
from ugm.errors import RequestError
from ugm.model import Claim, DemandModel, EvictingModel, QuotaModel

__all__ = ["OtherModels"]


@final
class OtherModels:
    """Any number of quota models as one. False if there are none.

    Raises:
        RequestError: one of them is no `ugm.QuotaModel`, or is there twice.
    """

    __slots__ = ("_demand", "_models")

    def __init__(self, models: Iterable[QuotaModel]) -> None:
        if not isinstance(models, Iterable):
            raise RequestError("models", models, "expected several quota models")
        self._models: Final[Sequence[QuotaModel]] = tuple(models)
        for position, model in enumerate(self._models):
            if isinstance(model, type) or not isinstance(model, QuotaModel):
                raise RequestError("models", model, "expected something with check, charge and refund")
            if any(model is other for other in self._models[:position]):
                raise RequestError("models", model, "the model is there twice")
        self._demand: Final = tuple(model for model in self._models if isinstance(model, DemandModel))

    def __bool__(self) -> bool:
        return bool(self._models)

    def check(self, claim: Claim) -> tuple[Violation, ...]:
        """Return every limit that a claim would exceed."""
        return tuple(violation for model in self._models for violation in model.check(claim))

    def charge(self, claim: Claim, *, expected: bool = False) -> None:
        """Charge a claim, which is no longer *expected* then, to all models, or to none if one of them raises."""
        with ExitStack() as undo:
            for demanding in self._demand if expected else ():
                demanding.forget(claim)
                undo.callback(demanding.expect, claim)
            for model in self._models:
                model.charge(claim)
                undo.callback(model.refund, claim)
            undo.pop_all()

    def refund(self, claim: Claim) -> None:
        """Refund a claim to all models; one that raises keeps no other from its refund."""
        _each([model.refund for model in self._models], claim)

    def take_out(self, claim: Claim) -> None:
        """Refund a claim to all models, or to none if one of them raises."""
        with ExitStack() as undo:
            for model in self._models:
                model.refund(claim)
                undo.callback(model.charge, claim)
            undo.pop_all()

    def expect(self, claim: Claim) -> None:
        """Count a claim as pending wherever that matters, or nowhere if a model raises."""
        with ExitStack() as undo:
            for model in self._demand:
                model.expect(claim)
                undo.callback(model.forget, claim)
            undo.pop_all()

    def forget(self, claim: Claim) -> None:
        """Count a claim as pending no longer."""
        _each([model.forget for model in self._demand], claim)

    def evictions(self, claim: Claim) -> tuple[str, ...]:
        """Return the allocations that must go so that no model objects to a claim; none if nothing would do."""
        evicted: dict[str, None] = {}
        for model in self._models:
            if tuple(model.check(claim)):
                found = tuple(model.evictions(claim)) if isinstance(model, EvictingModel) else ()
                if not found:
                    return ()
                evicted.update(dict.fromkeys(found))
        return tuple(evicted)


def _each(calls: Iterable[Callable[[Claim], None]], claim: Claim) -> None:
    """Make all calls, and only then let the first error go on."""
    with ExitStack() as stack:
        for call in reversed(tuple(calls)):
            stack.callback(call, claim)
