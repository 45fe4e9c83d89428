"""The parts of the engine behind the operations of a partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, final

from ugm.decision import Decision, Violation
from ugm.engine_lock import EngineLock
from ugm.partition.admission.admission import AdmissionControl
from ugm.partition.admission.applications import ApplicationLifecycle
from ugm.partition.answers.queries import SubjectQueries
from ugm.partition.config.administration import Administration
from ugm.partition.engine.application import ChangeMarks
from ugm.partition.engine.model_calls import row_calls
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.state import PartitionState, ReductionTimers
from ugm.partition.engine.transaction import EventOutbox, TransactionLog, Transactions
from ugm.partition.rows import RequestFields
from ugm.resources import Resource

if TYPE_CHECKING:
    from ugm.partition.admission.gangs import GangAdmission
    from ugm.partition.admission.running_work import Synchronization
    from ugm.partition.answers.model_queries import ModelQueries
    from ugm.partition.eviction.preemption import PreemptionPlanning
    from ugm.partition.eviction.reclaim import ReclaimPlanning
    from ugm.partition.ordering.reservations import Reservations
    from ugm.partition.ordering.waiting_list import WaitingList

P = ParamSpec("P")
T = TypeVar("T")
ResourceT = TypeVar("ResourceT", Resource, Resource | None)


@final
class _Part(Generic[T]):
    """A part of the engine that is imported and made when it is first used: most programs use few of them."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make: Final = make

    def __get__(self, partition: PartitionParts, kind: type) -> T:
        # Of two threads, one makes the part that both use. Later look-ups find the attribute of the object.
        part: T = vars(partition).setdefault(self._make.__name__, self._make(partition))
        return part


class PartitionParts:
    """The engine of a partition: its state and the parts that work on it."""

    _lock: EngineLock
    _state: PartitionState
    _transactions: Transactions
    _waiting: WaitingList | None

    def _assemble(
        self,
        state: PartitionState,
        models: ModelSet,
        outbox: EventOutbox | None = None,
        log: TransactionLog | None = None,
    ) -> None:
        """Put the parts of the engine together around a state."""
        lock = state.active_limits.lock
        state.fair_shares = models.fair_shares
        self._lock = lock
        self._state = state
        self._models = models
        self._transactions = Transactions(lock, outbox, log, state.revert_all)
        self._timers = ReductionTimers(state, models.clock)
        state.config_changed = self._follow_config
        self._admission = AdmissionControl(state, models, self._timers)
        self._lifecycle = ApplicationLifecycle(state, models, self._admission)
        self._administration = Administration(state, models, self._admission)
        self._subject_queries = SubjectQueries(state, models, self._admission)
        self._waiting = None
        self._follow_config()
        lock.rebuild = self._rebuild
        lock.mark_consistent()

    @_Part
    def _model_queries(self) -> ModelQueries:
        from ugm.partition.answers.model_queries import ModelQueries  # noqa: PLC0415 - as above

        return ModelQueries(self._models)

    @_Part
    def _running_work(self) -> Synchronization:
        from ugm.partition.admission.running_work import Synchronization  # noqa: PLC0415 - as above

        return Synchronization(self._state, self._models, self._admission)

    @_Part
    def _gangs(self) -> GangAdmission:
        from ugm.partition.admission.gangs import GangAdmission  # noqa: PLC0415 - as above

        return GangAdmission(self._state, self._models, self._admission)

    @_Part
    def _reservations(self) -> Reservations:
        from ugm.partition.ordering.reservations import Reservations  # noqa: PLC0415 - as above

        return Reservations(self._state, self._models, self._admission, self._start_marking)

    @_Part
    def _reclaiming(self) -> ReclaimPlanning:
        from ugm.partition.eviction.reclaim import ReclaimPlanning  # noqa: PLC0415 - as above

        return ReclaimPlanning(self._state, self._models, self._admission)

    @_Part
    def _preempting(self) -> PreemptionPlanning:
        from ugm.partition.eviction.preemption import PreemptionPlanning  # noqa: PLC0415 - as above

        return PreemptionPlanning(self._state, self._models, self._admission, self._reservations.reserve_placed)

    def _follow_config(self) -> None:
        """Follow the schedule and the reservations of the configuration in force."""
        self._administration.follow_schedule()
        self._state.reserves = self._state.compiled.mentions_reservations and self._reservations.are_enabled

    def _start_recording(self) -> None:
        """Start recording events. The initial state is not recorded."""
        self._transactions.start_recording()
        self._state.is_recorded = True

    def __repr__(self) -> str:
        # Without the lock: a debugger may call this while another thread holds it.
        tree, applications, allocations = self._state.tree, self._state.applications, self._state.allocations
        counts = f"queues={len(tree.queues)} applications={len(applications)} allocations={len(allocations)}"
        return f"<{type(self).__name__} {counts}>"

    def _rebuild(self) -> None:
        """Recompute every counter from the ledger, and charge models of unknown state with the ledger."""
        self._state.rebuild()
        self._follow_config()
        if self._models:
            self._models.rebuild(row_calls(self._state.tables))

    def _require_listed(self, argument: str, amounts: ResourceT) -> ResourceT:
        """Return amounts of a call, after a check of their names."""
        self._state.active_limits.request_names.require(argument, amounts)
        return amounts

    def _read(self, query: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._lock.run(query, *args, **kwargs)

    def _record_models(self) -> None:
        """Record which models the program has added to a restored partition, if these are not the same as before."""
        if self._models.added_names != self._state.row.added_models:
            self._transactions.run(self._state.change_partition, added_models=self._models.added_names)

    def _restore_limits(self, second: int) -> None:
        """Put the limits of the last change in force in a restored partition; see `Administration.restore`."""
        self._administration.restore(second)

    def _allocate(self, request: RequestFields) -> Decision:
        """Decide about a request, with reservations if some queue reserves capacity."""
        return (self._reservations if self._state.reserves else self._admission).allocate(request)

    def _start_marking(self) -> ChangeMarks:
        """Return marks of all changes from now on; the caller holds the lock."""
        marks = ChangeMarks()
        self._state.follow_changes(marks)
        return marks

    def _exceeded_limits(self) -> tuple[Violation, ...]:
        return (*self._state.exceeded_limits(), *self._model_queries.exceeded())
