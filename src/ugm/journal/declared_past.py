"""The declared quota models that depend on the past, kept up to date with the changes of a log.

The problem: budgets, fair shares and the nodes that hold the consumers of a quota tree must be exact after a restart,
also if the changes before a compaction are gone, and if the configuration has changed them meanwhile.

The idea: a compaction stores the past of each such model with the state of the partition. The models are made from it,
are charged with the allocations of that state, and are then called with every later change at its time, as the
partition has called them.

Older versions have stored no past of fair shares. It is then that of the history, as far as it tells. They have stored
no past of quota trees either. Their consumers are then charged in the order of the allocations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, cast, final

from ugm._declared_models import ModelDefinition
from ugm.budgets import AccountState, Budgets
from ugm.errors import RequestError
from ugm.fairness import FairShares
from ugm.journal.claim_history import ClaimHistory
from ugm.journal.contents import JournalContents, JournalEntry, StartState
from ugm.journal.model_history import calls_before
from ugm.model import PersistentModel, QuotaModel, TimedModel
from ugm.partition.checkpoint import ModelRecord, checkpoint_of
from ugm.partition.declared_models import DeclaredModel, ModelFactory, repeat_past, replace_declared
from ugm.partition.events import BudgetChanged, ConfigurationChanged, Event
from ugm.partition.model_calls import Call, PastCall
from ugm.partition.state import PartitionState

__all__ = ["DeclaredPast", "declared_accounts", "declared_models", "have_past"]


def declared_models(
    definitions: Sequence[ModelDefinition], open_contents: AbstractContextManager[JournalContents]
) -> tuple[DeclaredModel, ...]:
    """Return the declared models that depend on the past, as they are after the last change of a log.

    Args:
        definitions: the definitions of the configuration that is in force then.
        open_contents: opens the log. It is read only if there are such models.
    """
    if not have_past(definitions):
        return ()
    with open_contents as contents:
        return DeclaredPast.of(contents).models


def have_past(definitions: Iterable[ModelDefinition]) -> bool:
    """Return whether a declared model depends on the past."""
    return any(one.has_past for one in definitions)


def declared_accounts(open_contents: AbstractContextManager[JournalContents], now: int) -> tuple[AccountState, ...]:
    """Return the accounts of the budgets that the configuration in a log declares.

    Args:
        open_contents: opens the log, which a partition or a service may use.
        now: the time, in seconds since 1970; the last change of the log if that is later.

    Raises:
        JournalError: the log cannot be read.
    """
    with open_contents as contents:
        models = [one.model for one in DeclaredPast.of(contents).models if isinstance(one.model, Budgets)]
    for model in models:
        model.at(now)
    return tuple(account for model in models for account in model.accounts())


@final
class DeclaredPast:
    """The declared models that depend on the past, after a change of a log.

    Args:
        start: the state before the first change.
        before: returns the calls for the usage before that state.
    """

    __slots__ = ("_claims", "_held", "_second", "models")

    #: The models.
    models: tuple[DeclaredModel, ...]
    #: The calls that charge a new model, by allocation.
    _held: dict[str, Call]
    #: The time of the last change.
    _second: int

    def __init__(self, start: StartState, before: Callable[[ClaimHistory], Iterable[PastCall]]) -> None:
        self._claims: Final = ClaimHistory(start.checkpoint.applications)
        self._held, self._second = {}, start.at // 1000
        past = {(record.kind, record.name): record for record in start.checkpoint.models}
        self.models = tuple(
            _resumed(one, past.get(one.key), partial(before, self._claims), self._second)
            for one in start.compiled.models
            if one.has_past
        )
        for allocation in start.checkpoint.allocations:
            self._call(self._claims.start(allocation))

    @classmethod
    def of(cls, contents: JournalContents) -> DeclaredPast:
        """Return the models after the last change of a log."""
        with contents.decoding():
            past = cls(contents.start, partial(calls_before, contents))
            for entry in contents.changes():
                past.process(entry)
        return past

    @classmethod
    def begin(cls, state: PartitionState, at: int) -> DeclaredPast:
        """Return the past of a state at an instant whose configuration declares no such model; there are none yet."""
        start = StartState(0, at, 0, 0, state.compiled, checkpoint_of(state))
        return cls(start, lambda _: ())

    def records(self) -> tuple[ModelRecord, ...]:
        """Return the past of all models, for a checkpoint."""
        return tuple(ModelRecord(*one.definition.key, cast("PersistentModel", one.model).save()) for one in self.models)

    def process(self, entry: JournalEntry) -> None:
        """Repeat a change."""
        self._second = entry.at // 1000
        for operation in entry.operations:
            # Every operation begins with the time, also if it is that of the operation before.
            for one in self.models:
                _begin(one.model, self._second)
            for event in operation.events:
                self._repeat(event)

    def _repeat(self, event: Event) -> None:
        match event:
            case ConfigurationChanged(_, after):
                self._declare(after.models)
            case BudgetChanged(change):
                for one in self.models:
                    if isinstance(one.model, Budgets) and one.model.has_budget(change.budget):
                        one.model.change(change)
            case _:
                self._call(list(self._claims.calls((event,))))

    def _call(self, calls: Sequence[Call]) -> None:
        """Make calls that follow from one event, which leave one allocation charged, pending or gone."""
        last: dict[str, Call] = {claim.allocation_id: (method, claim) for method, claim in calls}
        for name, (method, claim) in last.items():
            # As in the ledger, an allocation that stays keeps its position.
            if method in ("charge", "add_pending"):
                self._held[name] = method, claim
            else:
                self._held.pop(name, None)
        for method, claim in calls:
            for one in self.models:
                if hasattr(one.model, method):
                    getattr(one.model, method)(claim)

    def _declare(self, definitions: Iterable[ModelDefinition]) -> None:
        """Replace the models like `ugm.partition.model_set.ModelSet.declare`."""
        factory = ModelFactory(None, lambda: list(self._held.values()), lambda: self._second)
        with_past = (definition for definition in definitions if definition.has_past)
        self.models = replace_declared(self.models, with_past, factory.make)


def _begin(model: QuotaModel, second: int) -> None:
    """Let an operation of a model begin."""
    if isinstance(model, TimedModel):
        model.at(second)
    elif hasattr(model, "begin_operation"):
        # A quota tree. Its class is not imported here, because few partitions have any.
        model.begin_operation()


def _resumed(
    definition: ModelDefinition,
    record: ModelRecord | None,
    before: Callable[[], Iterable[PastCall]],
    second: int,
) -> DeclaredModel:
    """Return a model without claims that continues a stored past, or begins if none is stored."""
    model = cast("PersistentModel", definition.build())
    if record is not None:
        try:
            model.load(record.past)
        except (LookupError, ValueError, TypeError, ArithmeticError) as error:
            raise RequestError(
                "models", definition.kind, "its stored past belongs to another configuration", "state-conflict"
            ) from error
    elif isinstance(model, FairShares):
        repeat_past(model, before())
    _begin(model, second)
    if isinstance(model, FairShares):
        model.expect_ledger()
    return DeclaredModel(definition, model)
