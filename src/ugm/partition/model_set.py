"""The quota models besides users, groups and queues: checked together, and changed together or not at all.

The configuration declares some of them (`ugm.partition.declared_models`), and the embedding program adds others. The
declared ones come first. When another configuration is put in force, one assignment replaces them.

The problem: a model is foreign code. It may raise in the middle of any call, and an exception from outside may arrive
while it runs. The partition and the other models must stay consistent.

The idea: two rules.

* *Each model is undone separately.* Every call that has returned is in the undo list of the operation, with its
  inverse. If the operation fails, each inverse is called separately. A model that fails there does not affect others.
* *A model of unknown state is not used.* If a call that changes a model did not return, the model may or may not have
  made the change. If it has a method `reset`, it is reset and charged with the whole ledger before the next operation.
  Otherwise it is *suspended*: it is not called any more, and every request is denied with its name, until
  `ugm.Partition.replace_model` replaces it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import get_ident
from typing import Final, Protocol, TypeVar, final, runtime_checkable

from ugm._declared_models import ModelDefinition
from ugm.budgets import Budgets
from ugm.decision import SUSPENDED, Violation
from ugm.errors import RequestError, UgmError
from ugm.fairness import FairShares
from ugm.model import (
    Borrower,
    Claim,
    ClusterModel,
    GangModel,
    HistoryModel,
    LendingModel,
    QuotaModel,
    ReportingModel,
    ResettableModel,
    TimedModel,
    TreeOrderModel,
)
from ugm.operation_lock import OperationLock
from ugm.partition.clock import PartitionClock
from ugm.partition.declared_models import DeclaredModel, ModelFactory, repeat_past, replace_declared
from ugm.partition.model_calls import (
    INVERSE,
    PENDING_METHODS,
    Call,
    Method,
    PastCall,
    charge_all,
    has_method,
    is_pending_model,
    pending_claim,
)
from ugm.resources import Resource

__all__ = ["ModelSet"]

_A = TypeVar("_A")
_T = TypeVar("_T")

_LOGGER: Final = logging.getLogger(__name__)

#: A model is suspended after this number of resets in a row that exhausted memory or the stack, or were interrupted.
_ATTEMPTS: Final = 8


@runtime_checkable
class _HoldsExchanged(Protocol):
    """A model that can hold an allocation without its group if it replaces another one."""

    def accept_missing_groups(self, allocation_ids: Iterable[str]) -> None: ...

    def expect_exchange(self, old_id: str, new_id: str) -> None: ...


@runtime_checkable
class _OnTrial(Protocol):
    """A model that undoes charges exactly within an operation, and more of them in a trial."""

    def begin_operation(self) -> None: ...

    def begin_trial(self) -> None: ...

    def end_trial(self) -> None: ...


class FollowSchedule(Protocol):
    """A function that puts the limits of a schedule in force when an operation begins."""

    def __call__(self, now: int, /, *, changes: bool) -> None:
        """Follow the schedule up to the second *now*, in a change or in a query."""
        ...


@final
class ModelSet:
    """Any number of quota models, used as one; false if there are none.

    Args:
        models: the models, in the order in which they are called.
        lock: the lock under which they are called.
        clock: the clock of the partition.

    Raises:
        RequestError: one of them is not a `ugm.QuotaModel`, or occurs twice.
    """

    __slots__ = (
        "_added",
        "_calling",
        "_declared",
        "_deniers",
        "_exhausted",
        "_holding_exchanged",
        "_lock",
        "_objecting",
        "_on_trial",
        "_pending",
        "_replaced",
        "_resettable",
        "_suspended",
        "_timed",
        "_undo_errors",
        "_unknown",
        "all",
        "clock",
        "follow_schedule",
    )

    #: Called with the time when an operation begins; None if no limit changes with the time.
    follow_schedule: FollowSchedule | None
    #: All models, in the order in which they are called: the declared ones, then those of the program. Replaced by one
    #: assignment.
    all: tuple[QuotaModel, ...]
    #: The models, each with itself if it can be reset, and otherwise with None.
    _resettable: tuple[tuple[QuotaModel, QuotaModel | None], ...]
    #: The models that count pending requests.
    _pending: tuple[QuotaModel, ...]
    #: The last claim that was denied, and the models that have denied it; None after `evictions`.
    _objecting: tuple[Claim, list[QuotaModel]] | None
    #: The models that have denied a claim, by the kinds of their violations.
    _deniers: dict[str, list[QuotaModel]]
    #: The models whose claims are announced before they are exchanged.
    _holding_exchanged: tuple[_HoldsExchanged, ...]
    #: The models that have to know when an operation begins, and that charges will be undone.
    _on_trial: tuple[_OnTrial, ...]
    #: The models that depend on the time.
    _timed: tuple[TimedModel, ...]
    #: The declared models with their definitions.
    _declared: tuple[DeclaredModel, ...]
    #: The models of the program.
    _added: tuple[QuotaModel, ...]
    #: The model in the middle of a call that changes it, which may have been interrupted.
    _calling: QuotaModel | None
    #: Models of unknown state that can be reset.
    _unknown: list[QuotaModel]
    #: Models of unknown state that cannot be reset, and are not used any more.
    _suspended: list[QuotaModel]
    #: The model that a thread is about to replace. The recovery of that operation does not reset it.
    _replaced: tuple[QuotaModel, int] | None
    #: How often in a row memory or the stack was exhausted during a reset.
    _exhausted: int
    #: The errors of models while their calls were undone.
    _undo_errors: list[Exception]

    def __init__(self, models: Iterable[QuotaModel], lock: OperationLock, clock: PartitionClock | None = None) -> None:
        if not isinstance(models, Iterable):
            raise RequestError("models", models, "expected several quota models")
        self._lock: Final = lock
        self.clock: Final = clock or PartitionClock()
        self.follow_schedule = None
        self._set((), tuple(models))
        for position, model in enumerate(self.all):
            _require_model("models", model)
            if any(model is other for other in self.all[:position]):
                raise RequestError("models", model, "the model occurs twice")
        self._calling = self._objecting = None
        self._unknown, self._suspended = [], []
        self._replaced = None
        self._exhausted = 0
        self._undo_errors = []

    def _set(self, declared: tuple[DeclaredModel, ...], added: tuple[QuotaModel, ...]) -> None:
        models = (*(one.model for one in declared), *added)
        self._declared, self._added, self.all = declared, added, models
        self._resettable = tuple((model, model if has_method(model, "reset") else None) for model in models)
        self._pending = tuple(model for model in models if is_pending_model(model))
        # Models of quota trees. They are not imported here, because few partitions have any.
        self._holding_exchanged = tuple(model for model in models if isinstance(model, _HoldsExchanged))
        self._on_trial = tuple(model for model in models if isinstance(model, _OnTrial))
        self._deniers = {}
        self._note_timed()

    def __bool__(self) -> bool:
        return bool(self.all)

    @property
    def counts_pending(self) -> bool:
        """True if a model counts pending requests."""
        return bool(self._pending)

    @property
    def added(self) -> tuple[QuotaModel, ...]:
        """The models of the program."""
        return self._added

    @property
    def added_names(self) -> tuple[str, ...]:
        """The names of the classes of the models of the program."""
        return tuple(type(model).__name__ for model in self._added)

    @property
    def declared(self) -> tuple[DeclaredModel, ...]:
        """The declared models with their definitions."""
        return self._declared

    @property
    def _usable(self) -> Iterable[QuotaModel]:
        if not self._suspended and not self._unknown:
            return self.all
        return [model for model in self.all if not self.is_unusable(model)]

    def is_unusable(self, model: object) -> bool:
        """Return whether a model is not called, because its state is unknown."""
        if not self._suspended and not self._unknown:
            return False
        return any(model is out for out in (*self._suspended, *self._unknown))

    # Time

    def _note_timed(self) -> None:
        """Let every operation begin with a reading of the clock if a model depends on the time; see `begin`."""
        self._timed = tuple(model for model in self.all if isinstance(model, TimedModel))
        is_timed = bool(self._timed) or self.follow_schedule is not None
        self.clock.is_read_first = is_timed
        self._lock.begin = self.begin if is_timed or self._on_trial else None

    def set_schedule(self, follow: FollowSchedule | None) -> None:
        """Let every operation begin with the limits of a schedule; None if no limit changes with the time."""
        self.follow_schedule = follow
        self._note_timed()

    def begin(self, *, changes: bool) -> None:
        """Read the clock for an operation, and pass the time to the models that depend on it.

        Args:
            changes: whether the operation is a change.
        """
        # The recovery is over.
        self._replaced = None
        for one in self._on_trial:
            one.begin_operation()
        if not self.clock.is_read_first:
            return
        try:
            now = self.clock.read(changes=changes)
        except Exception as error:
            self._lock.harmless_error = error
            raise
        if self.follow_schedule is not None:
            self.follow_schedule(now, changes=changes)
        timed = self._timed
        if self._suspended or self._unknown:
            timed = tuple(model for model in timed if not self.is_unusable(model))
        # One handler for all models, because every operation executes this.
        try:
            for model in timed:
                self._calling = model
                model.at(now)
        except BaseException:
            self._lock.undo.append((self._note_interruption, ()))
            raise
        self._calling = None

    # Declared models

    def declare(
        self,
        definitions: Iterable[ModelDefinition],
        total: Resource | None,
        calls: Callable[[], Sequence[Call]],
        *,
        changes: bool = True,
    ) -> None:
        """Replace the declared models by those of some definitions. A model whose definition is the same stays.

        Args:
            definitions: the definitions.
            total: the sum of the nodes; None if there is none.
            calls: returns the calls that charge a new model with the ledger.
            changes: whether the operation is a change, and not a restoration.
        """
        factory = ModelFactory(total, calls, partial(self.clock.now, changes=changes))

        def make(definition: ModelDefinition, before: QuotaModel | None) -> QuotaModel:
            return factory.make(definition, None if before is None or self.is_unusable(before) else before)

        declared = replace_declared(self._declared, definitions, make)
        self._lock.undo.append((self._set, (self._declared, self._added)))
        self._set(declared, self._added)

    def restore(
        self,
        definitions: Iterable[ModelDefinition],
        total: Resource | None,
        calls: Callable[[], Sequence[Call]],
        past: Callable[[], Iterable[PastCall]] | None = None,
        declared: Iterable[DeclaredModel] = (),
    ) -> None:
        """Charge the models of the program with the ledger of a restored partition, and make the declared models.

        Args:
            definitions: the definitions of the declared models.
            total: the sum of the nodes; None if there is none.
            calls: returns the calls that charge a new model with the ledger.
            past: returns all calls of the past, for models of the program that depend on it; None if it is unknown.
            declared: declared models with their claims and their past, which are not made again.
        """
        self.resize(None, total)
        repeated: list[QuotaModel] = []
        for timed in self._timed:
            if past is not None and isinstance(timed, HistoryModel):
                repeat_past(timed, past())
                repeated.append(timed)
        if self._timed:
            self.begin(changes=False)
        present = calls() if len(repeated) < len(self.all) else ()
        for model in self.all:
            if not any(model is other for other in repeated):
                charge_all(model, present)
        self._set(tuple(declared), self._added)
        self.declare(definitions, total, calls, changes=past is None)

    def resize(self, before: Resource | None, after: Resource | None) -> None:
        """Pass the sum of the nodes on to the models that depend on it."""
        for model in self._usable:
            if isinstance(model, ClusterModel):
                self._lock.undo.append((self._undo_resize, (model, before)))
                self._calling = model
                model.set_cluster(after)
                self._calling = None

    def _undo_resize(self, model: ClusterModel, before: Resource | None) -> None:
        self._note_interruption()
        if self._lock.repeats:
            self._mark_state_unknown(model)
            return
        self._calling = model
        try:
            model.set_cluster(before)
        except Exception:
            # The model is reset before it is used again.
            _LOGGER.exception("quota model %s did not accept the size of the cluster", type(model).__name__)
            self._mark_state_unknown(model)
        self._calling = None

    # Budgets

    def budgets_with(self, name: str) -> Budgets:
        """Return the model with a budget.

        Raises:
            RequestError: there is no such budget, or the state of its model is unknown.
        """
        for model in self.all:
            if isinstance(model, Budgets) and model.has_budget(name):
                if self.is_unusable(model):
                    raise RequestError("budget", name, "its quota model is suspended", "state-conflict")
                return model
        raise RequestError("budget", name, "there is no such budget", "object-unknown")

    # Queries

    def order_tree(self, name: str) -> TreeOrderModel:
        """Return the model with a tree that a scheduling pass can traverse.

        Raises:
            RequestError: there is none.
        """
        found = [model for model in self._usable if isinstance(model, TreeOrderModel)]
        for model in found:
            if name in model.order_trees():
                return model
        known = ", ".join(repr(tree) for model in found for tree in model.order_trees())
        raise RequestError(
            "tree", name, f"no quota model has such a tree (existing: {known or 'none'})", "tree-unknown"
        )

    def fair_shares(self) -> FairShares | None:
        """Return the shares of users that order requests: the declared ones, or those of the program."""
        return next((model for model in self._usable if isinstance(model, FairShares)), None)

    def check(self, claim: Claim) -> tuple[Violation, ...]:
        """Return every limit that a claim would exceed; a suspended model denies every claim."""
        if self._suspended or self._unknown:
            return self._check_usable(claim)
        found: tuple[Violation, ...] = ()
        # The same as `query` for each model. It is repeated here because every allocation executes it.
        try:
            for model, self._calling in self._resettable:  # noqa: B020 - an attribute is the second variable
                if denied := tuple(model.check(claim)):
                    self._note_objection(model, claim, denied, is_first=not found)
                    found += denied
        except Exception as error:
            self._note_query_error(error)
            raise
        self._calling = None
        return found

    def _note_objection(
        self, model: QuotaModel, claim: Claim, violations: Iterable[Violation], *, is_first: bool
    ) -> None:
        if is_first or self._objecting is None:
            self._objecting = claim, []
        self._objecting[1].append(model)
        self._note_deniers(model, violations)

    def _note_deniers(self, model: QuotaModel, violations: Iterable[Violation]) -> None:
        for violation in violations:
            known = self._deniers.setdefault(violation.kind, [])
            if not any(model is other for other in known):
                known.append(model)

    def _check_usable(self, claim: Claim) -> tuple[Violation, ...]:
        found: tuple[Violation, ...] = ()
        for model in self.all:
            if self.is_unusable(model):
                found += (_suspension(model),)
            else:
                denied = self.query(model, model.check, claim)
                self._note_deniers(model, denied)
                found += denied
        return found

    def rooms(self, limits: Sequence[tuple[str, str, str]]) -> tuple[int | None, ...]:
        """Return `room` for each of some limits."""
        return tuple([self.room(*limit) for limit in limits])

    def room(self, kind: str, name: str, resource: str) -> int | None:
        """Return `ugm.model.ReportingModel.room` of the models that have such limits; None if it is unknown.

        Several models may have limits of the same kind and name. A claim may be charged to one of them only, so the
        largest room counts.
        """
        largest: int | None = None
        # The same as `query` for each model, because a replay asks for many limits at once.
        try:
            for model in self._deniers.get(kind, ()):
                if not isinstance(model, ReportingModel) or self.is_unusable(model):
                    return None
                self._calling = model if self._can_be_reset(model) else None
                room = model.room(kind, name, resource)
                self._calling = None
                if room is None:
                    return None
                largest = room if largest is None else max(largest, room)
        except Exception as error:
            self._note_query_error(error)
            raise
        return largest

    def evictions(self, claim: Claim) -> tuple[str, ...]:
        """Return the allocations to evict so that all models allow a claim; empty if no evictions would help."""
        noted, self._objecting = self._objecting, None
        if any(self.is_unusable(model) for model in self.all):
            return ()
        if noted is None or noted[0] is not claim:
            noted = claim, [model for model in self.all if self.query(model, model.check, claim)]
        evicted: dict[str, None] = {}
        for model in noted[1]:
            # Instead of `isinstance(model, EvictingModel)`, which takes longer than most checks.
            proposal = getattr(model, "evictions", None)
            found = self.query(model, proposal, claim) if proposal else ()
            if not found:
                return ()
            evicted.update(dict.fromkeys(found))
        return tuple(evicted)

    def never(self, claims: Sequence[Claim]) -> tuple[Violation, ...]:
        """Return every limit that some claims exceed together in an empty partition at every time."""
        return tuple(
            violation
            for model in self._usable
            if isinstance(model, GangModel)
            for violation in self.query(model, model.never, claims)
        )

    def shortage(self, claim: Claim, leaving: Sequence[Claim]) -> tuple[Violation, ...]:
        """Return every limit that a claim would exceed if others were refunded. The models are unchanged afterwards."""
        # A dictionary keeps the order, in which a model may let them leave.
        names = dict.fromkeys(other.allocation_id for other in leaving).keys()
        found: tuple[Violation, ...] = ()
        for model in self.all:
            if self.is_unusable(model):
                found += (_suspension(model),)
            elif isinstance(model, LendingModel):
                found += self.query(model, partial(model.shortage, without=names), claim)
            else:
                found += self._check_without(model, claim, leaving)
        return found

    def _check_without(self, model: QuotaModel, claim: Claim, leaving: Sequence[Claim]) -> tuple[Violation, ...]:
        mark = len(self._lock.undo)
        for other in leaving:
            self._call(model, "refund", other)
        found = self.query(model, model.check, claim)
        self.undo_since(mark)
        return found

    def borrowers(self, claim: Claim, without: Collection[str]) -> list[tuple[Borrower, ...]]:
        """Return the groups that may use what the owner of a claim is guaranteed, for each model that lends."""
        return [
            self.query(model, partial(model.borrowers, without=without), claim)
            for model in self._usable
            if isinstance(model, LendingModel)
        ]

    def query(self, model: QuotaModel, query: Callable[[_A], Iterable[_T]], argument: _A) -> tuple[_T, ...]:
        """Return the result of a query of a model, which does not change its limits or its usage.

        The model may cache results. If it raises while it updates its cache, its state is unknown.
        """
        if self._can_be_reset(model):
            self._calling = model
        try:
            answer = tuple(query(argument))
        except Exception as error:
            self._note_query_error(error)
            raise
        self._calling = None
        return answer

    def _note_query_error(self, error: Exception) -> None:
        """Note that a query has raised, which is harmless unless it may have changed a cache of the model."""
        if self._calling is None or isinstance(error, UgmError):
            self._calling = None
            self._lock.harmless_error = error

    # Changes

    def reset(self) -> None:
        """Let all models that can be reset forget all claims, which may be those of an earlier partition."""
        for model in self._usable:
            if isinstance(model, ResettableModel):
                model.reset()

    def apply(self, calls: Sequence[Call]) -> None:
        """Change all models. If one of them raises, the operation fails, and its undo list undoes all changes."""
        for method, claim in calls:
            if method == "charge_pending":
                self._charge_pending(claim)
            else:
                self.change(method, claim)

    def change(self, method: Method, claim: Claim) -> None:
        """Change all models by the same method, like `apply`. Every allocation and release executes it."""
        inverse, undo = INVERSE[method], self._lock.undo
        models = self._pending if method in PENDING_METHODS else self.all
        if self._suspended or self._unknown:
            models = tuple(model for model in models if not self.is_unusable(model))
        try:
            for model in models:
                self._calling = model
                getattr(model, method)(claim)
                undo.append((self._undo, (model, inverse, claim)))
                self._calling = None
        except BaseException:
            # After any error, the model may have changed.
            undo.append((self._note_interruption, ()))
            raise

    def _charge_pending(self, claim: Claim) -> None:
        """Charge all models with a claim that is pending."""
        for model in self._usable:
            # Instead of `isinstance(model, StartingModel)`, which takes longer than the call.
            if hasattr(model, "charge_pending"):
                self._call(model, "charge_pending", claim)
                continue
            if is_pending_model(model):
                self._call(model, "remove_pending", pending_claim(claim))
            self._call(model, "charge", claim)

    def expect_exchange(self, old_id: str, new_id: str) -> None:
        """Announce that the next calls refund one allocation and charge another one for it, or the same again."""
        for model in self._holding_exchanged:
            if not self.is_unusable(model):
                model.expect_exchange(old_id, new_id)

    def _call(self, model: QuotaModel, method: Method, claim: Claim) -> None:
        undo = self._lock.undo
        self._calling = model
        try:
            getattr(model, method)(claim)
        except BaseException:
            # After any error, the model may have changed.
            undo.append((self._note_interruption, ()))
            raise
        if method == "charge_pending":
            undo.append((self._undo, (model, "add_pending", pending_claim(claim))))
            undo.append((self._undo, (model, "refund", claim)))
        else:
            undo.append((self._undo, (model, INVERSE[method], claim)))
        self._calling = None

    def begin_trial(self) -> None:
        """Announce charges that are refunded in reverse order, with nothing else in between but queries.

        If the operation fails, the trial ends after its charges are undone.
        """
        if self._on_trial:
            self._lock.undo.append((self.end_trial, ()))
        for model in self._on_trial:
            model.begin_trial()

    def end_trial(self) -> None:
        """Announce that these charges are refunded."""
        for model in self._on_trial:
            model.end_trial()

    def undo_since(self, mark: int) -> None:
        """Undo all changes since the undo list had *mark* steps. The operation continues, unless a model raises.

        All changes are undone before the error of a model is raised.
        """
        self._undo_errors.clear()
        self._lock.roll_back(mark)
        if self._undo_errors:
            # The operation must count as one that has changed something, so that the model is reset or suspended.
            self._lock.undo.append((self._note_interruption, ()))
            raise self._undo_errors[0]

    def _undo(self, model: QuotaModel, inverse: Method, claim: Claim) -> None:
        """Undo one call. If the model raises, its state is unknown, and the other models are undone nevertheless."""
        self._note_interruption()
        if self._lock.repeats:
            self._mark_state_unknown(model)
            return
        self._calling = model
        try:
            getattr(model, inverse)(claim)
        except Exception as error:  # noqa: BLE001 - raised by `undo_since`; or the operation has failed already
            self._undo_errors.append(error)
            self._mark_state_unknown(model)
        self._calling = None

    # Models whose state is unknown

    def _note_interruption(self) -> None:
        """Mark the state of the model whose call did not return as unknown, if there is one."""
        if self._calling is not None:
            self._mark_state_unknown(self._calling)
            self._calling = None

    def _mark_state_unknown(self, model: QuotaModel) -> None:
        if not self.is_unusable(model):
            # The operation may continue: the model is reset before the next one.
            self._lock.needs_rebuild = True
            (self._unknown if self._can_be_reset(model) else self._suspended).append(model)

    def _can_be_reset(self, model: QuotaModel) -> bool:
        return any(model is one for _, one in self._resettable)

    def rebuild(self, calls: Collection[Call]) -> None:
        """Reset every model of unknown state, and charge it with all *calls*."""
        self._note_interruption()
        for model in tuple(self._unknown):
            if self._is_being_replaced(model):
                self._replaced = None
                # If the replacement fails, this model is reset after all.
                self._lock.undo.append((self._require_rebuild, ()))
                continue
            if not self._charge_unknown(model, calls):
                self._suspended.append(model)
            self._unknown = [other for other in self._unknown if other is not model]
        self._exhausted = 0
        self._undo_errors.clear()

    def _is_being_replaced(self, model: QuotaModel) -> bool:
        return self._replaced is not None and self._replaced[0] is model and self._replaced[1] == get_ident()

    def _charge_unknown(self, model: QuotaModel, calls: Collection[Call]) -> bool:
        """Reset a model of unknown state, charge it with all calls, and return whether that worked.

        Raises:
            MemoryError, RecursionError: memory or the stack was exhausted; the next operation tries again.
            Exception: a signal handler raised it, or the model only once; the next operation tries again.
            BaseException: as for `MemoryError`.
        """
        try:
            self._reset_and_charge(model, calls)
        except (MemoryError, RecursionError):
            self._exhausted += 1
            if self._exhausted < _ATTEMPTS:
                raise
            return False
        except Exception:
            # An error of the model itself comes again.
            if self._can_be_charged(model, calls):
                raise
            return False
        except BaseException:
            self._exhausted += 1
            if self._exhausted >= _ATTEMPTS:
                self._suspended.append(model)
                self._unknown = [other for other in self._unknown if other is not model]
                self._exhausted = 0
            raise
        return True

    def _can_be_charged(self, model: QuotaModel, calls: Collection[Call]) -> bool:
        """Reset and charge a model once more, and return whether that worked."""
        try:
            self._reset_and_charge(model, calls)
        except Exception:
            # The model is suspended, and every denial contains its name.
            _LOGGER.exception("quota model %s could not be charged again; it is suspended", type(model).__name__)
            return False
        return True

    @contextmanager
    def replacing(self, model: QuotaModel) -> Iterator[None]:
        """Let the next operation of this thread replace a model, which perhaps can never be reset."""
        try:
            self._replaced = model, get_ident()
            yield
        finally:
            self._replaced = None

    def replace(self, old: QuotaModel, new: QuotaModel, calls: Iterable[Call]) -> None:
        """Replace a model by another one, which is charged with all *calls*.

        The new model is reset first, if it has a method for this, because an earlier attempt may have failed halfway.

        Raises:
            RequestError: *old* is not one of the models, or *new* is not a model, or is one of them already.
        """
        self._replaced = None
        _require_model("new", new)
        if not any(model is old for model in self.all):
            raise RequestError("old", old, "expected one of the models of the partition")
        if new is not old and not any(model is old for model in self._added):
            raise RequestError(
                "old", old, "the configuration declares this model; change the configuration instead", "state-conflict"
            )
        if any(model is new for model in self.all) and new is not old:
            raise RequestError("new", new, "already a model of this partition", "id-in-use")
        if new is old:
            # If it raises, the state of this model is unknown.
            self._lock.undo.append((self._note_interruption, ()))
            self._calling = new
        if isinstance(new, TimedModel) and not self.clock.is_read_first:
            self.clock.read(changes=True)
        self._reset_and_charge(new, calls)
        self._calling = None
        self._lock.undo.append((self._undo_replace, (self._added, self._unknown, self._suspended)))
        self._set(self._declared, tuple(new if model is old else model for model in self._added))
        self._unknown = [model for model in self._unknown if model is not old]
        self._suspended = [model for model in self._suspended if model is not old]

    def _require_rebuild(self) -> None:
        self._lock.needs_rebuild = True

    def _undo_replace(
        self, added: tuple[QuotaModel, ...], unknown: list[QuotaModel], suspended: list[QuotaModel]
    ) -> None:
        """Put the old model in force again, as unusable as it was."""
        self._unknown, self._suspended = unknown, suspended
        self._set(self._declared, added)

    def _reset_and_charge(self, model: QuotaModel, calls: Iterable[Call]) -> None:
        if isinstance(model, TimedModel):
            # Before the reset: what it has counted counts up to now.
            model.at(self.clock.latest)
        if isinstance(model, ResettableModel):
            model.reset()
        charge_all(model, calls)


def _suspension(model: QuotaModel) -> Violation:
    return Violation(SUSPENDED, type(model).__name__, "", "", None, 0, 0, 0)


def _require_model(argument: str, model: object) -> None:
    """Check that an object is a quota model.

    Args:
        argument: the name of the argument that has it.
        model: the object.

    Raises:
        RequestError: it is not.
    """
    if isinstance(model, type) or not isinstance(model, QuotaModel):
        raise RequestError(argument, model, "expected a QuotaModel with the methods check, charge and refund")
