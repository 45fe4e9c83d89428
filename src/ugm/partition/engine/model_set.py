"""The quota models besides users, groups and queues: checked together, and changed together or not at all.

The configuration declares some of them, and the embedding program adds others. The declared ones come first. When
another configuration is put in force, a model whose definition is the same stays. Each of the others is replaced by a
new model, which is charged with the whole ledger.

The problem: a model is foreign code. It may raise in the middle of any call, and an exception from outside may arrive
while it runs. The partition and the other models must stay consistent.

The idea: two rules.

* *Each model is put back separately.* Every call that has returned is in the list of changes of the operation, with its
  inverse. If the operation fails, each inverse is called separately. A model that fails there does not affect others.
* *A model of unknown state is not used.* If a call that changes a model did not return, the model may or may not have
  made the change. If it has a method `reset`, it is reset and charged with the whole ledger before the next operation.
  Otherwise it is *suspended*: it is not called any more, and every request is denied with its name, until
  `ugm.Partition.replace_model` replaces it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, final

from ugm._json_values import JsonMapping
from ugm.configuration.model_kinds import ModelDefinition
from ugm.decision import Violation
from ugm.engine_lock import EngineLock
from ugm.errors import RequestError, UgmError
from ugm.model import (
    AccountModel,
    Borrower,
    Claim,
    ClusterModel,
    GangModel,
    LendingModel,
    PersistentModel,
    QuotaModel,
    RankingModel,
    ReportingModel,
    ResettableModel,
    TimedModel,
    TreeOrderModel,
)
from ugm.partition.engine.model_calls import (
    INVERSE,
    PENDING_METHODS,
    Call,
    DeclaredModel,
    Method,
    ModelFactory,
    charge_all,
    counts_pending,
    pending_claim,
    require_model,
    suspension,
)
from ugm.partition.engine.transaction import PartitionClock
from ugm.resources import Resource

_A = TypeVar("_A")
_T = TypeVar("_T")

_LOGGER: Final = logging.getLogger(__name__)


class _Call(NamedTuple):
    """A call of a model that has returned, in the changes of the operation."""

    models: ModelSet
    #: None if the call concerns no single model.
    model: Any
    inverse: Callable[..., object]
    arguments: tuple[Any, ...]

    def take_back(self) -> None:
        """Make the inverse call, and remove this one from the changes of the operation."""
        self.models.take_back_last(self)


#: Puts the limits of a schedule in force when an operation begins: up to a second, in a change or in a query.
FollowSchedule: TypeAlias = Callable[..., None]


@final
class ModelSet:
    """Any number of quota models, used as one; false if there are none.

    Args:
        models: the models of the program, in the order in which they are called.
        lock: the lock under which they are called.
        clock: the clock of the partition.

    Raises:
        RequestError: one of them is not a `ugm.QuotaModel`, or occurs twice.
    """

    #: All models, in the order in which they are called.
    all: tuple[QuotaModel, ...]
    #: The declared models with their definitions.
    declared: tuple[DeclaredModel, ...]
    #: The models of the program, which are called after the declared ones.
    added: tuple[QuotaModel, ...]
    #: The models whose state is known.
    _usable: tuple[QuotaModel, ...]
    #: Those of them that count pending requests, that have to know when an operation begins, that depend on the time;
    #: and the first one that orders requests.
    pending: tuple[QuotaModel, ...]
    _seeing_operations: tuple[Any, ...]
    _timed: tuple[TimedModel, ...]
    _ranking: RankingModel | None
    #: Whether a model may deny a request.
    may_deny: bool
    #: Whether the answer of a model may depend on the node of a claim.
    sees_nodes: bool

    def __init__(self, models: Iterable[QuotaModel], lock: EngineLock, clock: PartitionClock | None = None) -> None:
        if not isinstance(models, Iterable):
            raise RequestError("models", models, "expected several quota models")
        self._lock: Final = lock
        self.clock: Final = clock or PartitionClock()
        #: The model in the middle of a call that changes it, which may have been interrupted.
        self._calling: QuotaModel | None = None
        #: Models of unknown state: those that can be reset; and those that cannot, and are not used any more.
        self._unknown: list[QuotaModel] = []
        self._suspended: list[QuotaModel] = []
        #: Called with the time when an operation begins; None if no limit changes with the time.
        self._follow_schedule: FollowSchedule | None = None
        added = tuple(models)
        for position, model in enumerate(added):
            require_model("models", model)
            if any(model is other for other in added[:position]):
                raise RequestError("models", model, "the model occurs twice")
        self._set((), added)

    def _set(self, declared: tuple[DeclaredModel, ...], added: tuple[QuotaModel, ...]) -> None:
        self.declared, self.added = declared, added
        self.all: tuple[QuotaModel, ...] = (*(one.model for one in declared), *added)
        #: The models that have denied a claim, by the kinds of their violations.
        self._deniers: dict[str, list[QuotaModel]] = {}
        self._refresh()

    def _refresh(self) -> None:
        """Note which models are used, and what they need, after a change of the models or of their states."""
        usable = self._usable = tuple(model for model in self.all if not self.is_unusable(model))
        self.may_deny = any(getattr(model, "may_deny", True) or self.is_unusable(model) for model in self.all)
        self.sees_nodes = any(getattr(model, "sees_nodes", True) for model in usable)
        self._suspensions = tuple(suspension(model) for model in self.all if self.is_unusable(model))
        self.pending = tuple(model for model in usable if counts_pending(model))
        # Models of quota trees, which undo charges and refunds of one operation exactly.
        self._seeing_operations = tuple(model for model in usable if hasattr(model, "begin_operation"))
        self._timed = tuple(model for model in usable if isinstance(model, TimedModel))
        self._ranking = next((model for model in usable if isinstance(model, RankingModel)), None)
        self.set_schedule(self._follow_schedule)

    def __bool__(self) -> bool:
        return bool(self.all)

    @property
    def added_names(self) -> tuple[str, ...]:
        """The names of the classes of the models of the program."""
        return tuple(type(model).__name__ for model in self.added)

    def is_unusable(self, model: object) -> bool:
        """Return whether a model is not called, because its state is unknown."""
        return any(model is out for out in (*self._suspended, *self._unknown))

    # Time

    def set_schedule(self, follow: FollowSchedule | None) -> None:
        """Let every operation begin with the limits of a schedule; None if no limit changes with the time."""
        self._follow_schedule = follow
        self.clock.is_read_first = bool(self._timed) or follow is not None
        self._lock.begin = self.begin if self.clock.is_read_first or self._seeing_operations else None

    def begin(self, *, changes: bool) -> None:
        """Read the clock for an operation, and pass the time to the models that depend on it.

        Args:
            changes: whether the operation is a change.
        """
        for one in self._seeing_operations:
            one.begin_operation()
        if not self.clock.is_read_first:
            return
        now = self.clock.read(changes=changes)
        if self._follow_schedule is not None:
            self._follow_schedule(now, changes=changes)
        # One handler for all models, because every operation executes this.
        try:
            for model in self._timed:
                self._calling = model
                model.at(now)
        except BaseException:
            self._lock.unsettled = True
            raise
        self._calling = None

    # Other models

    def declare(
        self, definitions: Iterable[ModelDefinition], total: Resource | None, calls: Callable[[], Sequence[Call]]
    ) -> None:
        """Replace the declared models by those of some definitions. A model whose definition is the same stays.

        Args:
            definitions: the definitions.
            total: the sum of the nodes; None if there is none.
            calls: returns the calls that charge a new model with the ledger.
        """
        declared = self._declared(definitions, ModelFactory(total, calls, partial(self.clock.now, changes=True)))
        self._note(None, self._set, self.declared, self.added)
        self._set(declared, self.added)

    def _declared(self, definitions: Iterable[ModelDefinition], factory: ModelFactory) -> tuple[DeclaredModel, ...]:
        known = {one.definition.key: one for one in self.declared}
        models = []
        for definition in definitions:
            found = known.get(definition.key)
            if found is None or found.definition != definition:
                before = None if found is None or self.is_unusable(found.model) else found.model
                found = DeclaredModel(definition, factory.make(definition, before))
            else:
                definition.forget_checked()
            models.append(found)
        return tuple(models)

    def restore(
        self,
        definitions: Iterable[ModelDefinition],
        total: Resource | None,
        calls: Callable[[], Sequence[Call]],
        saved: Mapping[str, JsonMapping],
    ) -> None:
        """Make the declared models, and charge all models with the ledger of a restored partition.

        Args:
            definitions: the definitions of the declared models.
            total: the sum of the nodes; None if there is none.
            calls: returns the calls that charge a new model with the ledger.
            saved: the stored past of models, as `save` has returned it.
        """
        factory = ModelFactory(total, calls, partial(self.clock.read, changes=False), saved)
        for position, model in enumerate(self.added):
            factory.begin(model, _added_key(position, model))
        self._set(self._declared(definitions, factory), self.added)

    def save(self) -> dict[str, JsonMapping]:
        """Return the past of the models that depend on it."""
        keyed = [("/".join(one.definition.key), one.model) for one in self.declared]
        keyed += [(_added_key(position, model), model) for position, model in enumerate(self.added)]
        return {
            key: model.save()
            for key, model in keyed
            if isinstance(model, PersistentModel) and not self.is_unusable(model)
        }

    def replace(self, old: QuotaModel, new: QuotaModel, calls: Iterable[Call]) -> None:
        """Replace a model by another one, which is charged with all *calls*.

        The new model is reset first, if it has a method for this, because an earlier attempt may have failed halfway.

        Raises:
            RequestError: *old* is not one of the models, or *new* is not a model, or is one of them already.
        """
        require_model("new", new)
        if not any(model is old for model in self.all):
            raise RequestError("old", old, "expected one of the models of the partition")
        if new is not old and not any(model is old for model in self.added):
            raise RequestError(
                "old", old, "the configuration declares this model; change the configuration instead", "state-conflict"
            )
        if any(model is new for model in self.all) and new is not old:
            raise RequestError("new", new, "already a model of this partition", "id-in-use")
        if new is old:
            # If it raises, the state of this model is unknown.
            self._calling, self._lock.unsettled = new, True
        if isinstance(new, TimedModel) and not self.clock.is_read_first:
            self.clock.read(changes=True)
        self._reset_and_charge(new, calls)
        self._calling, self._lock.unsettled = None, False
        self._note(None, self._put_back, self.added, self._unknown, self._suspended)
        self._put_back(
            tuple(new if model is old else model for model in self.added),
            [model for model in self._unknown if model is not old],
            [model for model in self._suspended if model is not old],
        )

    def _put_back(self, added: tuple[QuotaModel, ...], unknown: list[QuotaModel], suspended: list[QuotaModel]) -> None:
        """Put the models of the program in force, of which some are unusable."""
        self._unknown, self._suspended = unknown, suspended
        self._set(self.declared, added)

    # Changes

    def apply(self, calls: Iterable[Call]) -> None:
        """Change all models. If one of them raises, the operation fails, and the calls of the others are taken back."""
        for method, claim in calls:
            self.change(method, claim)

    def charge(self, claim: Claim, *, waiting: Resource | None) -> None:
        """Charge all models with a claim, which may be pending with the usage *waiting*."""
        if waiting is not None:
            self.change("remove_pending", pending_claim(claim, waiting))
        self.change("charge", claim)

    def change(self, method: Method, claim: Claim) -> None:
        """Change all models by the same method, like `apply`. Every allocation and release executes it."""
        inverse = INVERSE[method]
        for model in self.pending if method in PENDING_METHODS else self._usable:
            self._call(model, getattr(model, method), getattr(model, inverse), claim)

    def add_pending_again(self, claim: Claim, waiting: Resource) -> None:
        """Refund a claim that was pending with another usage before it was charged."""
        self.apply([("refund", claim), ("add_pending", pending_claim(claim, waiting))])

    def resize(self, before: Resource | None, after: Resource | None) -> None:
        """Pass the sum of the nodes on to the models that depend on it."""
        for model in self._usable:
            if isinstance(model, ClusterModel):
                self._call(model, model.set_cluster, model.set_cluster, after, before)

    def _call(
        self,
        model: QuotaModel,
        method: Callable[..., object],
        inverse: Callable[..., object],
        argument: object,
        *before: object,
    ) -> None:
        """Call a method that changes a model. If it does not return, the state of the model is unknown."""
        self._calling = model
        try:
            method(argument)
            self._note(model, inverse, *(before or (argument,)))
        except BaseException:
            self._lock.unsettled = True
            raise
        self._calling = None

    def _note(self, model: QuotaModel | None, inverse: Callable[..., object], *arguments: object) -> None:
        """Add a call that has returned to the changes of the operation."""
        self._lock.changes.append(_Call(self, model, inverse, arguments))

    def note_undo(self, undo: Callable[[], None]) -> None:
        """Let a function put back a change of a model that follows, if the operation fails."""
        self._note(None, undo)

    def take_back(self, mark: int) -> None:
        """Take back all calls since the operation had *mark* changes. It continues unless a model raises."""
        while len(self._lock.changes) > mark:
            self._lock.changes[-1].take_back()

    def take_back_last(self, call: _Call) -> None:
        """Take back the last call. If the model raises, its state is unknown."""
        self._note_interruption()
        if call.model is None:
            call.inverse(*call.arguments)
            self._lock.changes.pop()
            return
        # From here on an interruption leaves the model in an unknown state.
        self._calling = call.model
        self._lock.changes.pop()
        if not self.is_unusable(call.model):
            try:
                call.inverse(*call.arguments)
            except BaseException:
                self._lock.unsettled = True
                raise
        self._calling = None

    # Models of unknown state

    def _note_interruption(self) -> None:
        """Mark the state of the model whose call did not return as unknown, if there is one."""
        model = self._calling
        if model is not None and not self.is_unusable(model):
            (self._unknown if hasattr(model, "reset") else self._suspended).append(model)
            self._refresh()
        self._calling = None

    def rebuild(self, calls: Collection[Call]) -> None:
        """Reset every model of unknown state, and charge it with all *calls*; a model that raises is suspended."""
        self._note_interruption()
        for model in tuple(self._unknown):
            try:
                self._reset_and_charge(model, calls)
            except Exception:
                # Every denial contains its name.
                _LOGGER.exception("quota model %s could not be charged again; it is suspended", type(model).__name__)
                self._suspended.append(model)
            self._unknown = [other for other in self._unknown if other is not model]
        self._refresh()

    def _reset_and_charge(self, model: QuotaModel, calls: Iterable[Call]) -> None:
        if isinstance(model, TimedModel):
            # Before the reset: what it has counted counts up to now.
            model.at(self.clock.latest)
        if isinstance(model, ResettableModel):
            model.reset()
        charge_all(model, calls)

    # Queries

    def query(self, model: QuotaModel, query: Callable[[_A], Iterable[_T]], argument: _A) -> tuple[_T, ...]:
        """Return the result of a query of a model, which does not change its limits or its usage.

        The model may cache results. If it raises while it updates its cache, its state is unknown.
        """
        if hasattr(model, "reset"):
            self._calling = model
        try:
            answer = tuple(query(argument))
        except UgmError:
            # The model has refused the query, and has not changed its cache.
            self._calling = None
            raise
        self._calling = None
        return answer

    def check(self, claim: Claim) -> tuple[Violation, ...]:
        """Return every limit that a claim would exceed; a suspended model denies every claim."""
        found = self._suspensions
        for model in self._usable:
            if denied := self.query(model, model.check, claim):
                self._note_denier(model, denied)
                found += denied
        return found

    def _note_denier(self, model: QuotaModel, violations: Iterable[Violation]) -> None:
        for violation in violations:
            known = self._deniers.setdefault(violation.kind, [])
            if not any(model is other for other in known):
                known.append(model)

    def room(self, kind: str, name: str, resource: str) -> int | None:
        """Return `ugm.model.ReportingModel.room` of the models that have such limits; None if it is unknown.

        Several models may have limits of the same kind and name. A claim may be charged to one of them only, so the
        largest room counts.
        """
        rooms: list[int] = []
        for model in self._deniers.get(kind, ()):
            if not isinstance(model, ReportingModel) or self.is_unusable(model):
                return None
            (room,) = self.query(model, lambda model: (model.room(kind, name, resource),), model)
            if room is None:
                return None
            rooms.append(room)
        return max(rooms, default=None)

    def evictions(self, claim: Claim) -> tuple[str, ...]:
        """Return the allocations to evict so that all models allow a claim; empty if no evictions would help."""
        if self._suspensions:
            return ()
        evicted: dict[str, None] = {}
        for model in self.all:
            if not self.query(model, model.check, claim):
                continue
            # Instead of `isinstance(model, EvictingModel)`, which takes longer than most checks.
            proposal = getattr(model, "evictions", None)
            found = self.query(model, proposal, claim) if proposal else ()
            if not found:
                return ()
            evicted.update(dict.fromkeys(found))
        return tuple(evicted)

    def never(self, claims: Sequence[Claim]) -> tuple[Violation, ...]:
        """Return every limit that some claims exceed together in an empty partition at every time."""
        gangs = [model for model in self._usable if isinstance(model, GangModel)]
        return tuple(violation for model in gangs for violation in self.query(model, model.never, claims))

    def shortage(self, claim: Claim, leaving: Sequence[Claim]) -> tuple[Violation, ...]:
        """Return every limit that a claim would exceed if others were refunded. The models are unchanged afterwards."""
        # A dictionary keeps the order, in which a model may let them leave.
        names = dict.fromkeys(other.allocation_id for other in leaving).keys()
        found = self._suspensions
        for model in self._usable:
            if isinstance(model, LendingModel):
                found += self.query(model, partial(model.shortage, without=names), claim)
                continue
            mark = len(self._lock.changes)
            for other in leaving:
                self._call(model, model.refund, model.charge, other)
            found += self.query(model, model.check, claim)
            self.take_back(mark)
        return found

    def borrowers(self, claim: Claim, without: Collection[str]) -> list[tuple[Borrower, ...]]:
        """Return the groups that may use what the owner of a claim is guaranteed, for each model that lends."""
        lending = [model for model in self._usable if isinstance(model, LendingModel)]
        return [self.query(model, partial(model.borrowers, without=without), claim) for model in lending]

    def order_tree(self, name: str) -> TreeOrderModel:
        """Return the model with a tree that a scheduling pass can traverse.

        Raises:
            RequestError: there is none.
        """
        found = [model for model in self._usable if isinstance(model, TreeOrderModel)]
        for model in found:
            if name in model.order_trees():
                return model
        known = ", ".join(repr(tree) for model in found for tree in model.order_trees()) or "none"
        raise RequestError("tree", name, f"no quota model has such a tree (existing: {known})", "tree-unknown")

    def fair_shares(self) -> RankingModel | None:
        """Return the shares of users that order requests: the declared ones, or those of the program."""
        return self._ranking

    def budgets_with(self, name: str) -> AccountModel:
        """Return the model with a budget.

        Raises:
            RequestError: there is no such budget, or the state of its model is unknown.
        """
        for model in self.all:
            if isinstance(model, AccountModel) and model.has_budget(name):
                if self.is_unusable(model):
                    raise RequestError("budget", name, "its quota model is suspended", "state-conflict")
                return model
        raise RequestError("budget", name, "there is no such budget", "object-unknown")


def _added_key(position: int, model: QuotaModel) -> str:
    """Return the key of the stored past of a model of the program."""
    return f"{position} {type(model).__name__}"
