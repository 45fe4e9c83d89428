"""The quota models that the embedding program adds: checked together, changed together or not at all.

A model is foreign code. It may raise in the middle of anything, and so may an exception from outside while it runs. Two
rules keep that away from everything else:

* *Each model is undone by itself.* Every call that has returned is listed in the undo list of the operation, with its
  inverse. If the operation fails, each inverse is called separately. A model that fails there concerns no other model.
* *A model whose state is unknown is not used.* If a call that changes a model did not return, the model may or may not
  have made the change. If it has a method `reset`, it is reset and charged with the whole ledger before the next
  operation. Otherwise it is *suspended*: it is not called any more, and every request is denied with its name, until
  `ugm.Partition.replace_model` puts another model in its place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, TypeAlias, TypeVar, final

from ugm.decision import SUSPENDED, Violation
from ugm.errors import RequestError, UgmError
from ugm.model import Claim, DemandModel, EvictingModel, QuotaModel, ResettableModel
from ugm.operation_lock import OperationLock
from ugm.partition.allocation import AllocationState
from ugm.partition.state import PartitionState

__all__ = ["Call", "ModelSet", "charging", "claims_of"]

_T = TypeVar("_T")

_LOGGER: Final = logging.getLogger(__name__)

_Method: TypeAlias = Literal["charge", "refund", "expect", "forget"]

#: A change of all models: what is called, and with which claim.
Call: TypeAlias = tuple[_Method, Claim]

_INVERSE: Final[dict[_Method, _Method]] = {
    "charge": "refund",
    "refund": "charge",
    "expect": "forget",
    "forget": "expect",
}

#: A model is suspended if it runs out of memory or of stack this many times in a row while it is reset.
_ATTEMPTS: Final = 8

#: The calls that only a `ugm.model.DemandModel` gets.
_DEMAND: Final = ("expect", "forget")


def charging(claim: Claim, *, pending: bool) -> list[Call]:
    """Return the calls that charge a claim, which is no longer pending then."""
    return [("forget", claim), ("charge", claim)] if pending else [("charge", claim)]


def claims_of(state: PartitionState) -> list[Call]:
    """Return the calls that charge a quota model with the whole ledger."""
    return [
        ("expect" if entry.traits.state is AllocationState.PENDING else "charge", entry.claim(allocation_id))
        for allocation_id, entry in state.ledger.items()
    ]


@final
class ModelSet:
    """Any number of quota models as one. False if there are none.

    Args:
        models: the models, in the order in which they are called.
        lock: the lock under which they are called.

    Raises:
        RequestError: one of them is not a `ugm.QuotaModel`, or occurs twice.
    """

    __slots__ = ("_calling", "_exhausted", "_lock", "_models", "_suspended", "_undo_errors", "_unknown")

    _models: tuple[QuotaModel, ...]
    #: The model that is in the middle of a call that changes it, or was when the call was interrupted.
    _calling: QuotaModel | None
    #: Models whose state is unknown, and that can be reset.
    _unknown: list[QuotaModel]
    #: Models that are not used any more.
    _suspended: list[QuotaModel]
    #: How many times in a row a reset found no memory or no stack.
    _exhausted: int
    #: What models raised while their calls were undone.
    _undo_errors: list[Exception]

    def __init__(self, models: Iterable[QuotaModel], lock: OperationLock) -> None:
        if not isinstance(models, Iterable):
            raise RequestError("models", models, "expected several quota models")
        self._models = tuple(models)
        for position, model in enumerate(self._models):
            require_model(model)
            if any(model is other for other in self._models[:position]):
                raise RequestError("models", model, "the model is there twice")
        self._lock: Final = lock
        self._calling = None
        self._unknown, self._suspended = [], []
        self._exhausted = 0
        self._undo_errors = []

    def __bool__(self) -> bool:
        return bool(self._models)

    @property
    def _usable(self) -> Iterable[QuotaModel]:
        if not self._suspended and not self._unknown:
            return self._models
        return [model for model in self._models if not self._is_out(model)]

    def _is_out(self, model: QuotaModel) -> bool:
        return any(model is out for out in (*self._suspended, *self._unknown))

    # Questions

    def check(self, claim: Claim) -> tuple[Violation, ...]:
        """Return every limit that a claim would exceed; a model that is suspended denies everything."""
        found: list[Violation] = []
        for model in self._models:
            if self._is_out(model):
                found.append(Violation(SUSPENDED, type(model).__name__, "", "", None, 0, 0, 0))
            else:
                found += self._ask(model, model.check, claim)
        return tuple(found)

    def evictions(self, claim: Claim) -> tuple[str, ...]:
        """Return the allocations that must go so that no model objects to a claim; none if nothing would do."""
        evicted: dict[str, None] = {}
        for model in self._models:
            if self._is_out(model):
                return ()
            if self._ask(model, model.check, claim):
                found = self._ask(model, model.evictions, claim) if isinstance(model, EvictingModel) else ()
                if not found:
                    return ()
                evicted.update(dict.fromkeys(found))
        return tuple(evicted)

    def _ask(self, model: QuotaModel, question: Callable[[Claim], Iterable[_T]], claim: Claim) -> tuple[_T, ...]:
        """Return the answer to a question, which changes nothing that matters.

        A model that keeps results of its own may be in the middle of updating them when it raises.
        """
        resettable = isinstance(model, ResettableModel)
        if resettable:
            self._calling = model
        try:
            answer = tuple(question(claim))
        except Exception as error:
            if not resettable or isinstance(error, UgmError):
                self._calling = None
                self._lock.harmless_error = error
            raise
        self._calling = None
        return answer

    # Changes

    def apply(self, calls: Sequence[Call]) -> None:
        """Change all models; if one of them raises, the operation fails and its undo list takes everything back."""
        for method, claim in calls:
            for model in self._usable:
                if method not in _DEMAND or isinstance(model, DemandModel):
                    self._call(model, method, claim)

    def _call(self, model: QuotaModel, method: _Method, claim: Claim) -> None:
        undo = self._lock.undo
        self._calling = model
        try:
            getattr(model, method)(claim)
        except BaseException:
            # Whatever the error says: the model may have changed.
            undo.append((self._undo_nothing, ()))
            raise
        undo.append((self._undo, (model, _INVERSE[method], claim)))
        self._calling = None

    def _undo_nothing(self) -> None:
        self.note_interruption()

    def take_back(self, mark: int) -> None:
        """Undo all changes since the undo list had *mark* steps; the operation goes on, unless a model raises.

        All changes are undone before the error of a model is raised.
        """
        self._undo_errors.clear()
        self._lock.roll_back(mark)
        if self._undo_errors:
            # The operation has to fail as one that changed something, so that the model is reset or suspended.
            self._lock.undo.append((self._undo_nothing, ()))
            raise self._undo_errors[0]

    def _undo(self, model: QuotaModel, inverse: _Method, claim: Claim) -> None:
        """Undo one call. A model that fails here has an unknown state; all others are undone all the same."""
        self.note_interruption()
        if self._lock.repeats:
            self._distrust(model)
            return
        self._calling = model
        try:
            getattr(model, inverse)(claim)
        except Exception as error:  # noqa: BLE001 - raised by `take_back`; otherwise the operation has failed already
            self._undo_errors.append(error)
            self._distrust(model)
        self._calling = None

    # Models whose state is unknown

    def note_interruption(self) -> None:
        """Note that the call of a model did not return, if there is one."""
        if self._calling is not None:
            self._distrust(self._calling)
            self._calling = None

    def _distrust(self, model: QuotaModel) -> None:
        if not self._is_out(model):
            # The operation may go on: it is enough to reset the model before the next one.
            self._lock.unsettled = True
            (self._unknown if isinstance(model, ResettableModel) else self._suspended).append(model)

    def rebuild(self, calls: Iterable[Call]) -> None:
        """Reset every model whose state is unknown, and charge it with all *calls*."""
        self.note_interruption()
        for model in tuple(self._unknown):
            if not self._reset(model, calls):
                self._suspended.append(model)
            self._unknown = [other for other in self._unknown if other is not model]
        self._exhausted = 0
        self._undo_errors.clear()

    def _reset(self, model: QuotaModel, calls: Iterable[Call]) -> bool:
        """Reset a model, charge it with all calls, and return whether that worked.

        Raises:
            MemoryError, RecursionError: the caller left no room for it; the next operation tries it again.
        """
        try:
            return _recharged(model, calls)
        except (MemoryError, RecursionError):
            self._exhausted += 1
            if self._exhausted < _ATTEMPTS:
                raise
            return False

    def replace(self, old: QuotaModel, new: QuotaModel, calls: Iterable[Call]) -> None:
        """Put a model that is charged with all *calls* in the place of another.

        A model in its own place is reset before, if it can be.

        Raises:
            RequestError: *old* is not one of the models, or *new* is not a model, or is one of them already.
        """
        require_model(new)
        if not any(model is old for model in self._models):
            raise RequestError("old", old, "expected one of the models of the partition")
        if any(model is new for model in self._models) and new is not old:
            raise RequestError("new", new, "the model is there already")
        if new is old:
            self._charge_again(new, calls)
        else:
            _charge_all(new, calls)
        self._models = tuple(new if model is old else model for model in self._models)
        self._unknown = [model for model in self._unknown if model is not old]
        self._suspended = [model for model in self._suspended if model is not old]

    def _charge_again(self, model: QuotaModel, calls: Iterable[Call]) -> None:
        # If it raises, the state of a model in use is unknown.
        self._lock.undo.append((self._undo_nothing, ()))
        self._calling = model
        if isinstance(model, ResettableModel):
            model.reset()
        _charge_all(model, calls)
        self._calling = None


def require_model(model: object) -> None:
    """Make sure that an object is a quota model.

    Raises:
        RequestError: it is not.
    """
    if isinstance(model, type) or not isinstance(model, QuotaModel):
        raise RequestError("models", model, "expected something with check, charge and refund")


def _recharged(model: QuotaModel, calls: Iterable[Call]) -> bool:
    """Reset a model, charge it with all calls, and return whether that worked.

    Raises:
        MemoryError, RecursionError: that says nothing about the model.
    """
    try:
        if isinstance(model, ResettableModel):
            model.reset()
        _charge_all(model, calls)
    except (MemoryError, RecursionError):
        raise
    except Exception:
        # The model is suspended, and every denial says so.
        _LOGGER.exception("quota model %s could not be charged again; it is suspended", type(model).__name__)
        return False
    return True


def _charge_all(model: QuotaModel, calls: Iterable[Call]) -> None:
    for method, claim in calls:
        if method not in _DEMAND or isinstance(model, DemandModel):
            getattr(model, method)(claim)
