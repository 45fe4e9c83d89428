"""The in-memory partition: the engine behind the partition interface.

`Partition` implements `AbstractPartition`. Its methods check the arguments that need no state and call the parts of the
engine, which check the rest:

====================================  ==========================================================
`ugm.partition.fast_path`             allocate, release, check and explain plain allocations
`ugm.partition.admission`             grant, change and release all other allocations
`ugm.partition.expiry`                list and end the allocations whose promised end has passed
`ugm.partition.lifecycle`             submit and end applications
`ugm.partition.whole_applications`    admit, end and synchronize applications with their allocations
`ugm.partition.administration`        change nodes, quotas and the configuration
`ugm.partition.subject_queries`       answer what a request would get, and why
`ugm.partition.queries`               list applications, allocations, queues, users and groups
`ugm.partition.model_queries`         collect the answers of other quota models
`ugm.partition.reclaim`               choose and evict what groups have to return
`ugm.partition.preemption`            choose and mark the victims of a request
====================================  ==========================================================

A change runs as a transaction (`ugm.partition.transaction`), a query runs under the lock. One lock guards everything.
Foreign code runs under the lock only in quota models and in the clock.

Source: Apache YuniKorn, resource quota management; user based resource usage tracking.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import attrgetter
from time import sleep
from typing import Final, Literal, ParamSpec, TypeVar

from ugm.arguments import (
    require_amounts,
    require_group_limits,
    require_items,
    require_name,
    require_names,
    require_nodes,
    require_number,
    require_resource,
    require_user,
)
from ugm.budgets import AccountState, BudgetChange
from ugm.configuration import PartitionConfig
from ugm.decision import Decision, EffectiveLimit, Violation
from ugm.errors import InvariantError, RequestError
from ugm.identity import UserGroup, canonical_path
from ugm.model import QuotaModel
from ugm.operation_lock import OperationLock
from ugm.partition.administration import Administration, require_budget_change, require_node
from ugm.partition.admission import AdmissionControl
from ugm.partition.allocation import NO_USAGE, Allocation, AllocationRequest, AllocationSpec, request_of, require_specs
from ugm.partition.application import ApplicationInfo
from ugm.partition.audit import (
    AuditReport,
    Differences,
    RunningAllocation,
    RunningApplication,
    require_differences,
    require_running,
)
from ugm.partition.change_marks import ChangeMarks, ChangeRecorder
from ugm.partition.clock import Clock, PartitionClock, seconds
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.config_plan import (
    ConfigPlan,
    ConfigPlanInput,
    ScheduledChange,
    make_config_plan,
    make_scheduled_changes,
    require_change_count,
    require_confirmed,
)
from ugm.partition.event_outbox import EventOutbox
from ugm.partition.events import Subscriber
from ugm.partition.expiry import Expiry, require_instant
from ugm.partition.explanation import require_holder_count
from ugm.partition.fast_path import PartitionBase, ReservingPath, TransactionPath
from ugm.partition.gang import allocate_all, require_requests
from ugm.partition.lifecycle import ApplicationLifecycle
from ugm.partition.line_index import CooperativeIteration
from ugm.partition.model_calls import ledger_calls
from ugm.partition.model_queries import ModelQueries, ModelReport, require_limits
from ugm.partition.model_set import ModelSet
from ugm.partition.order_copy import GroupTree, OrderCopy
from ugm.partition.owner_limits import copy_user_usage
from ugm.partition.pending_usage import PendingHeadroom
from ugm.partition.planned_start import Reservation
from ugm.partition.preemption import PreemptionPlanning
from ugm.partition.preemption_call import require_preemption_call, require_preemption_plan, require_reduction_call
from ugm.partition.queries import CopiedAllocations, Queries
from ugm.partition.reclaim import ReclaimPlanning, require_reclaim_plan
from ugm.partition.reclaim_plan import ReclaimPlan
from ugm.partition.reconcile import reconcile
from ugm.partition.reduction_timers import ReductionTimers, SettingsCache
from ugm.partition.reports import (
    Admission,
    ApplicationReport,
    OwnedAllocation,
    PreemptionStatus,
    SubmissionReport,
    SyncReport,
)
from ugm.partition.reservations import Reservations
from ugm.partition.schedule_follower import ScheduleFollower
from ugm.partition.scheduling_order import (
    ApplicationKey,
    Turn,
    require_keys,
    require_max_turns,
    require_ranks,
    require_requests_by_application,
    turns_of,
)
from ugm.partition.scheduling_pass import PassCalls, SchedulingPass
from ugm.partition.self_check import verify
from ugm.partition.snapshot import PartitionSnapshot
from ugm.partition.sorting import sort_in_parts
from ugm.partition.state import PartitionState
from ugm.partition.subject import Subject
from ugm.partition.subject_queries import QueryRequest, SubjectQueries, require_query_submission, require_subject
from ugm.partition.submission import require_chosen_group, require_gang_style, require_leaf_path, require_submission
from ugm.partition.transaction import TransactionLog, Transactions
from ugm.partition.utilization import LimitUtilization
from ugm.partition.waiting_list import WaitingList
from ugm.partition.wake_search import WakeSearch
from ugm.partition.whole_applications import DeniedWithQuotaError, WholeApplications, require_work
from ugm.preemption import PreemptionPlan, ReductionPlan, ReductionTimer
from ugm.queues import Placement, QueueState
from ugm.resources import Resource, sum_of
from ugm.tracking import GroupUsage, UserUsage
from ugm.tracking.snapshot import copies_of

__all__ = ["Partition"]

P = ParamSpec("P")
T = TypeVar("T")
ResourceT = TypeVar("ResourceT", Resource, Resource | None)

#: The only node of a cluster whose nodes are not registered.
_CLUSTER: Final = "cluster"
#: The pause between two queries of a long call: long enough for another thread to wake up, in seconds.
_PAUSE: Final = 0.00002


class Partition(PartitionBase):
    """A partition in memory.

    Args:
        config: the partition of a configuration, from `ugm.load_config`; None for a root without queues or limits.
        cluster: the resources of the cluster, for a program that registers no nodes. It counts as one node, called
            ``cluster``. Without it, and until a first node is registered, the size of the cluster limits nothing.
        models: other quota models. They are checked and charged in this order, after users, groups, queues and the
            models that the configuration declares. An exception of a model goes to the caller, and changes neither the
            partition nor another model. A model that raises in a call that changes it is reset, or suspended until
            `replace_model` replaces it.
        subscribers: functions that are called with every event, after the lock has been released; see
            `ugm.events.Subscriber`. A partition with subscribers takes longer for each allocation.
        group_limits: as for a `ugm.Manager`.
        clock: a function that returns whole seconds since 1970. Operations that depend on the time read it once in
            each call: promised durations, schedules, reduction timers, plans, and quota models with a clock. If it goes
            back, the time stands still until it has caught up.

    Raises:
        RequestError: an argument is invalid.

    >>> from ugm import UserGroup, parse_config
    >>> config = parse_config("partitions: [{name: default, queues: [{name: prod, resources: {max: {memory: 4Gi}}}]}]")
    >>> partition = Partition(config.partition())
    >>> partition.submit("app-1", UserGroup("sue"), "root.prod").queue_path
    'root.prod'
    >>> partition.allocate("app-1-0", "app-1", Resource.parse(memory="3Gi")).allowed
    True
    >>> print(partition.allocate("app-1-1", "app-1", Resource.parse(memory="2Gi")))
    denied, waiting can help:
      queue root.prod: 2Gi memory requested, 3Gi of 4Gi used, 1Gi too much
    >>> partition.release("app-1-0"), partition.release("app-1-0")
    (True, False)
    """

    __slots__ = (
        "_administration",
        "_expiry",
        "_has_log",
        "_has_models",
        "_is_scheduled",
        "_lifecycle",
        "_model_queries",
        "_plain_path",
        "_preempting",
        "_queries",
        "_reclaiming",
        "_recorder",
        "_reservations",
        "_schedule",
        "_timers",
        "_waiting",
        "_whole",
    )

    #: Whether changes are recorded as events for subscribers or a journal.
    _has_log: bool
    #: Whether other quota models take part.
    _has_models: bool
    #: Sets the marks of scheduling passes; None until the first one.
    _recorder: ChangeRecorder | None
    #: Whether limits change with the time.
    _is_scheduled: bool
    _waiting: WaitingList | None

    def __init__(
        self,
        config: PartitionConfig | None = None,
        *,
        cluster: Resource | None = None,
        models: Iterable[QuotaModel] = (),
        subscribers: Iterable[Subscriber] = (),
        group_limits: Literal["always", "unless-user-limited"] = "always",
        clock: Clock = seconds,
    ) -> None:
        user_limits_win = require_group_limits(group_limits)
        callbacks, lock = require_items("subscribers", subscribers), OperationLock()
        outbox = EventOutbox(callbacks) if callbacks else None
        state = PartitionState(CompiledConfig.of(config), user_limits_win=user_limits_win, lock=lock)
        model_set = ModelSet(models, lock, PartitionClock(clock))
        model_set.restore(state.compiled.models, None, list)
        state.added_models = model_set.added_names
        self._assemble(state, model_set, outbox)
        if outbox is not None:
            self._start_recording()
        if cluster is not None:
            self.add_node(_CLUSTER, cluster)

    @staticmethod
    def load(
        path: str | os.PathLike[str],
        name: str | None = None,
        *,
        cluster: Resource | None = None,
        models: Iterable[QuotaModel] = (),
        subscribers: Iterable[Subscriber] = (),
        group_limits: Literal["always", "unless-user-limited"] = "always",
        clock: Clock = seconds,
    ) -> Partition:
        """Return a partition in memory with the configuration in a file.

        Args:
            path: the file.
            name: the partition of the configuration; None if it has only one.
            cluster: as for the class.
            models: as for the class.
            subscribers: as for the class.
            group_limits: as for the class.
            clock: as for the class.

        Raises:
            ConfigError: the file cannot be read, or the configuration is not valid.
            RequestError: there is no such partition, or an argument is invalid.
        """
        from ugm.config import load_config  # noqa: PLC0415 - it imports pydantic and yaml

        config = load_config(path).partition(name)
        return Partition(
            config, cluster=cluster, models=models, subscribers=subscribers, group_limits=group_limits, clock=clock
        )

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
        self._transactions = Transactions(lock, outbox, log)
        settings = SettingsCache()
        self._timers = ReductionTimers(state, models.clock, settings)
        self._schedule = ScheduleFollower(state, models, self._timers, self._transactions, self._mark_everything)
        state.config_changed = self._schedule.attach
        self._admission = AdmissionControl(state, models, self._timers)
        self._expiry = Expiry(state, models, self._admission)
        self._lifecycle = ApplicationLifecycle(state, models, self._admission)
        self._whole = WholeApplications(state, models, self._admission, self._lifecycle, self._transactions)
        self._administration = Administration(state, models, self._admission, self._timers)
        self._subject_queries = SubjectQueries(state, models, self._admission)
        self._reclaiming = ReclaimPlanning(state, models, self._admission, self._subject_queries)
        self._reservations = Reservations(state, models, self._admission, self._start_marking)
        self._preempting = PreemptionPlanning(
            state,
            models,
            self._admission,
            self._subject_queries,
            self._timers,
            settings,
            self._reservations.reserve_placed,
        )
        self._queries = Queries(state, self._admission)
        self._model_queries = ModelQueries(models)
        self._applications = state.applications
        self._owners = state.ledger.owners
        self._recorder = self._waiting = None
        self._has_log = outbox is not None
        self._choose_paths()
        lock.rebuild = self._rebuild
        lock.mark_consistent()

    def _choose_paths(self) -> None:
        """Choose the paths of decisions by whether changes are recorded, and whether quota models take part.

        A rebuild chooses again, because an interrupted choice is incomplete.
        """
        if self._recorder is not None:
            self._state.record = self._recorder
        has_models, is_recorded = bool(self._models), self._has_log or self._recorder is not None
        self._is_scheduled = self._schedule.is_scheduled
        self._schedule.attach()
        self._state.reserves = self._reservations.are_enabled
        has_transactions = is_recorded or has_models or self._is_scheduled or self._state.reserves
        path = TransactionPath(self._state, self._models, self._admission) if has_transactions else self._admission
        self._plain_path = path
        self._decisions = ReservingPath(path, self._reservations.allocate) if self._state.reserves else path
        self._has_models_only = has_models and not is_recorded
        self._is_recorded_without_models = is_recorded and not has_models
        for application in self._applications.values():
            application.allows_fast_path = not has_transactions and not application.failing
        self._has_models = has_models

    def _start_recording(self) -> None:
        """Start recording events. The initial state is not recorded."""
        self._state.record = self._transactions.record

    def __repr__(self) -> str:
        # Without the lock: a debugger may call this while another thread holds it.
        tree, applications, allocations = self._state.tree, self._applications, self._owners
        counts = f"queues={len(tree.queues)} applications={len(applications)} allocations={len(allocations)}"
        return f"<{type(self).__name__} {counts}>"

    def _rebuild(self) -> None:
        """Recompute every counter from the ledger, and charge models of unknown state with the ledger."""
        self._state.rebuild()
        self._choose_paths()
        self._mark_everything()
        if self._models:
            self._models.rebuild(ledger_calls(self._state))

    def _mark_everything(self) -> None:
        """Let readers of changes read everything again."""
        if self._recorder is not None:
            self._recorder.mark_everything()

    def _require_listed(self, argument: str, amounts: ResourceT) -> ResourceT:
        """Return amounts of a call, after a check of their names."""
        self._state.active_limits.request_names.require(argument, amounts)
        return amounts

    def _read(self, query: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._lock.run(query, *args, **kwargs)

    def _read_in_turn(self, query: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run one of many short queries of a long call, and let threads that wait for the lock have it."""
        result = self._lock.run(query, *args, **kwargs)
        sleep(_PAUSE)
        return result

    def replace_model(self, old: QuotaModel, new: QuotaModel) -> None:
        """Replace a quota model by another one, which is charged with everything that is held and pending.

        This ends the suspension of a model that failed in the middle of a call and cannot be reset. Until then every
        request is denied with its name. Pass the same model twice if the program has repaired it.

        Raises:
            RequestError: *old* is not a model of this partition, or is declared by the configuration, or *new* is not a
                quota model.
        """
        with self._models.replacing(old):
            self._transactions.run(self._replace_model, old, new)

    def _replace_model(self, old: QuotaModel, new: QuotaModel) -> None:
        self._models.replace(old, new, ledger_calls(self._state))
        self._state.set_added_models(self._models.added_names)
        # A plan of reservations depends on the answers of the models.
        self._mark_everything()

    def _record_models(self) -> None:
        """Record which models the program has added to a restored partition, if these are not the same as before."""
        if self._models.added_names != self._state.added_models:
            self._transactions.run(self._state.set_added_models, self._models.added_names)

    def _restore_limits(self, second: int) -> None:
        """Put the limits of the last change in force in a restored partition; see `ScheduleFollower.restore`."""
        self._schedule.restore(second)

    def _start_missing_timers(self) -> None:
        """Start the timers of reductions that an earlier version has not recorded in a restored partition."""
        if self._timers.are_missing:
            self._transactions.run(self._timers.start_missing)

    # Scheduling

    def order(
        self,
        *,
        max_turns: int | None = None,
        ranks: Mapping[str, int] | None = None,
        explained: bool = True,
        tree: str = "",
    ) -> tuple[Turn, ...]:
        limit, keys = require_max_turns(max_turns), require_ranks(ranks)
        copied = self._read(self._copy_order, tree, for_keys=bool(keys))
        return turns_of(copied, limit, keys, explained=explained)

    def _copy_order(self, tree: str, *, for_keys: bool) -> OrderCopy:
        groups = self._groups(tree)
        if groups is None:
            copied = OrderCopy.of_pending(self._state, for_keys=for_keys)
        else:
            copied = OrderCopy.of_groups(self._state, groups, for_keys=for_keys)
        return copied._replace(reservations=self._reservations.current())

    def _groups(self, tree: str) -> GroupTree | None:
        """Return the groups that an order descends through; None for the queues."""
        if tree == "":
            return None
        return GroupTree(self._models, self._models.order_tree(require_name("tree", tree)), tree)

    def reservations(self) -> tuple[Reservation, ...]:
        return self._read(self._reservations.current)

    def scheduling_pass(
        self,
        requests: Mapping[str, Iterable[AllocationRequest]] | None = None,
        *,
        keys: Mapping[str, ApplicationKey] | None = None,
        tree: str = "",
    ) -> SchedulingPass:
        """Return an iterator over the pending requests in scheduling order, each to be granted or skipped.

        From the first pass on, the partition records which applications change, so an allocation takes longer.

        Args:
            requests: the requests by application that take part; None for the pending ones.
            keys: a function by queue path that returns the key of an application of the queue or of one below it. The
                smallest key comes first. It replaces the policy of the configuration; see `ugm.partition.by_share`.
            tree: the groups that are traversed instead of the queues: ``elastic groups``, or the name of a quota tree.
                They are compared by the largest part that they use of their runtime or quota; see
                `ugm.model.TreeOrderModel`. Applications without a group are in one group whose ratio is 0. In a group,
                applications are ordered by the policy of the root queue.

        Raises:
            RequestError: an argument is invalid, or there is no such tree.
        """
        groups = self._groups(tree)
        passed, functions = require_requests_by_application(requests), require_keys(keys)
        marks = self._lock.run(self._start_marking)
        calls = PassCalls(self.allocate, self.reservations)
        return SchedulingPass(calls, self._state, self._lock, marks, passed, functions, groups)

    def allocate_ignoring_reservations(self, request: AllocationRequest) -> Decision:
        if not isinstance(request, AllocationRequest):
            raise RequestError("request", request, "expected an AllocationRequest")
        return self._transactions.run(self._plain_path.allocate, request)

    def allocate_in_pass(self, request: AllocationRequest) -> Decision:
        """Do the same as `allocate`; an older name."""
        return self.allocate(request)

    def waiting_list(self) -> WaitingList:
        """Return the waiting list of the pending requests; all calls return the same one.

        From the first call on, the partition records which applications change, so an allocation takes longer.
        """
        if self._waiting is None:
            self._lock.run(self._start_waiting)
        assert self._waiting is not None  # noqa: S101 - it was made
        return self._waiting

    def wake(self) -> tuple[AllocationRequest, ...]:
        """Return the pending requests that can fit now, in scheduling order: those that a pass would grant.

        For a scheduler that polls; see `ugm.partition.WaitingList.wake`. Threads and tasks that wait use
        `waiting_list`.
        """
        waiting_list = self.waiting_list()
        try:
            return waiting_list.wake()
        except BaseException:
            waiting_list.wake_again()
            raise

    def model_rooms(self, limits: Iterable[tuple[str, str, str]]) -> tuple[int | None, ...]:
        """Return the largest amounts with which pending requests can fit limits that have denied them.

        A scheduler need not repeat requests that are larger. All amounts are those of the same moment.

        Args:
            limits: limits of quota models, each with its kind, the name of its owner and the resource, as in denials.

        Returns:
            The amount for each limit; None if it is unknown, because a model cannot tell it or has not denied anything
            yet.

        Raises:
            RequestError: an item is not a limit.
        """
        return self._lock.run(self._models.rooms, require_limits(limits))

    def _start_waiting(self) -> None:
        if self._waiting is None:
            marks = self._start_marking()
            search = WakeSearch(self._state, self._models, self._admission, self._reservations, marks)
            self._waiting = WaitingList(search, self._reservations, self._lock, self._transactions, marks)

    def _start_marking(self) -> ChangeMarks:
        """Return marks of all changes from now on; the caller holds the lock."""
        marks = ChangeMarks()
        if self._recorder is None:
            self._recorder = ChangeRecorder(self._state.record)
            self._choose_paths()
        self._recorder.add(marks)
        marks.everything = True
        return marks

    # Allocations

    def request(
        self,
        allocation_id: str | AllocationRequest,
        application_id: str = "",
        usage: Resource = NO_USAGE,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
        duration: int | None = None,
        node: str | None = None,
    ) -> Decision:
        traits = placeholder, priority, preemptible, duration, node
        request = request_of(allocation_id, application_id, usage, traits)
        return self._transactions.run(self._admission.request, request)

    def allocate_evicting(
        self,
        allocation_id: str | AllocationRequest,
        application_id: str = "",
        usage: Resource = NO_USAGE,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
        duration: int | None = None,
        node: str | None = None,
    ) -> Decision:
        traits = placeholder, priority, preemptible, duration, node
        request = request_of(allocation_id, application_id, usage, traits)
        return self._transactions.run(self._admission.allocate_evicting, request)

    def allocate_all(self, requests: Iterable[AllocationRequest | tuple[str, str, Resource]]) -> Decision:
        gang = require_requests(requests)
        return self._transactions.run(allocate_all, self._state, self._models, self._admission, gang)

    def replace(self, placeholder_id: str, allocation_id: str, usage: Resource, *, node: str | None = None) -> Decision:
        return self._transactions.run(self._admission.replace, placeholder_id, allocation_id, usage, node)

    def resize(self, allocation_id: str, usage: Resource) -> Decision:
        return self._transactions.run(self._admission.resize, allocation_id, usage)

    def renew(self, allocation_id: str, duration: int | None) -> Decision:
        return self._transactions.run(self._admission.renew, allocation_id, duration)

    def overdue(self, now: int | None = None) -> tuple[Allocation, ...]:
        return self._read(self._expiry.overdue, require_instant(now))

    def expire(self, now: int | None = None) -> tuple[str, ...]:
        return self._transactions.run_release(self._expiry.expire, require_instant(now))

    def release_overdue(self, now: int | None = None) -> tuple[str, ...]:
        return self._transactions.run_release(self._expiry.release_overdue, require_instant(now))

    def preempt(self, allocation_id: str) -> bool:
        return self._transactions.run_release(self._admission.preempt, allocation_id)

    def adopt(
        self,
        allocation_id: str | AllocationRequest,
        application_id: str = "",
        usage: Resource = NO_USAGE,
        *,
        placeholder: bool = False,
        priority: int = 0,
        preemptible: bool = True,
        duration: int | None = None,
        node: str | None = None,
    ) -> tuple[Violation, ...]:
        traits = placeholder, priority, preemptible, duration, node
        request = request_of(allocation_id, application_id, usage, traits)
        return self._transactions.run(self._admission.adopt, request)

    def reclaim(self, plan: ReclaimPlan) -> tuple[str, ...]:
        checked = require_reclaim_plan(plan)
        return self._transactions.run_release(self._reclaiming.carry_out, checked)

    def carry_out(self, plan: PreemptionPlan | ReductionPlan) -> tuple[str, ...]:
        return self._transactions.run_release(self._preempting.carry_out, require_preemption_plan(plan))

    # Applications

    def submit(
        self,
        application_id: str,
        user: UserGroup,
        queue: str = "",
        *,
        tags: Mapping[str, str] | None = None,
        quota: Resource | None = None,
        gang_style: str = "soft",
    ) -> Placement:
        submission = require_submission(application_id, user, queue, tags)
        style, maximum = require_gang_style(gang_style), self._require_listed("quota", require_amounts("quota", quota))
        self._state.compiled.rules.match_patterns(submission.user)
        return self._transactions.run(self._lifecycle.submit, submission, style, maximum)

    def adopt_application(
        self,
        application_id: str,
        user: UserGroup,
        queue_path: str,
        *,
        tags: Mapping[str, str] | None = None,
        quota: Resource | None = None,
        gang_style: str = "soft",
        group: str | None = "",
    ) -> None:
        submission = require_submission(application_id, user, require_leaf_path(queue_path), tags)
        style, maximum = require_gang_style(gang_style), self._require_listed("quota", require_amounts("quota", quota))
        chosen = require_chosen_group(group)
        self._transactions.run(self._lifecycle.adopt, submission, style, maximum, chosen)

    def admit(
        self,
        application_id: str,
        user: UserGroup,
        queue: str = "",
        allocations: Iterable[AllocationSpec | tuple[str, Resource]] = (),
        *,
        tags: Mapping[str, str] | None = None,
        quota: Resource | None = None,
    ) -> Admission:
        submission, specs = require_submission(application_id, user, queue, tags), require_specs(allocations)
        maximum = require_amounts("quota", quota)
        self._state.compiled.rules.match_patterns(submission.user)
        try:
            return self._transactions.run(self._whole.admit, submission, specs, maximum, self._decisions.allocate)
        except DeniedWithQuotaError as denied:
            return denied.admission

    def end(self, application_id: str) -> bool:
        return self._transactions.run_release(self._whole.end, application_id)

    def complete(self, application_id: str) -> ApplicationInfo:
        return self._transactions.run_release(self._lifecycle.complete, application_id)

    def fail(self, application_id: str) -> tuple[str, ...]:
        return self._transactions.run_release(self._lifecycle.fail, application_id)

    def remove(self, application_id: str) -> tuple[str, ...]:
        return self._transactions.run_release(self._lifecycle.remove, application_id)

    def time_out_gang(self, application_id: str) -> tuple[str, ...]:
        return self._transactions.run_release(self._lifecycle.time_out_gang, application_id)

    def terminate(self, *, confirm: bool = False) -> tuple[str, ...]:
        if confirm is not True:
            reason = "terminating a partition ends all its applications for good; pass confirm=True"
            raise RequestError("confirm", confirm, reason, "unconfirmed")
        return self._transactions.run_release(self._lifecycle.terminate)

    # Administration

    def set_queue_quota(self, queue_path: str, quota: Resource) -> None:
        maximum = self._require_listed("quota", require_amounts("quota", quota))
        if maximum is None:
            raise RequestError("quota", quota, "expected a Resource that names at least one resource")
        self._transactions.run(self._administration.set_queue_quota, queue_path, maximum)

    def change_budget(self, change: BudgetChange) -> bool:
        checked = require_budget_change(change)
        return self._transactions.run(self._administration.change_budget, checked)

    def add_node(self, name: str, offers: Resource) -> None:
        require_node(name, offers)
        self._require_listed("offers", offers)
        self._transactions.run(self._administration.add_node, name, offers)

    def update_node(self, name: str, offers: Resource) -> None:
        require_node(name, offers)
        self._require_listed("offers", offers)
        self._transactions.run(self._administration.update_node, name, offers)

    def remove_node(self, name: str) -> bool:
        return self._transactions.run_release(self._administration.remove_node, name)

    def plan(self, config: PartitionConfig | None) -> ConfigPlan:
        compiled = CompiledConfig.of(config)
        return make_config_plan(self._plan_input(config, allocations=compiled.needs_allocations), compiled)

    def plan_input(self, *, allocations: bool = False) -> ConfigPlanInput:
        return self._plan_input(self.config, allocations=allocations)

    def _plan_input(self, config: PartitionConfig | None, *, allocations: bool) -> ConfigPlanInput:
        copy_models = partial(self._model_queries.copy_for_plan, config, timed=allocations)
        now = partial(self._models.clock.now, changes=False)
        return ConfigPlanInput.copy(self._state, self._lock.run, copy_models, now, allocations=allocations)

    def scheduled_changes(self, *, max_changes: int = 10) -> tuple[ScheduledChange, ...]:
        count = require_change_count(max_changes)
        if self._lock.run(lambda: self._state.compiled.schedule) is None:
            # Without the copy that follows, which takes long with thousands of queues.
            return ()
        copied = self._plan_input(self.config, allocations=False)
        return make_scheduled_changes(copied, count)

    def apply(self, plan: ConfigPlan, *, confirm: bool = False) -> None:
        require_confirmed(plan, confirm=confirm)
        self._transactions.run(self._change_config, self._administration.apply, plan)

    def configure(self, config: PartitionConfig | None, author: str = "") -> None:
        change = partial(self._administration.configure, author=author and require_name("author", author))
        self._transactions.run(self._change_config, change, CompiledConfig.of(config))

    def _change_config(self, change: Callable[[T], None], argument: T) -> None:
        """Put another configuration in force. Its models replace those of the old one in the same step."""
        change(argument)
        before = self._has_models, self._is_scheduled, self._state.reserves
        if before != (bool(self._models), self._schedule.is_scheduled, self._reservations.are_enabled):
            self._choose_paths()

    def audit(self, running: Iterable[RunningAllocation | tuple[str, str, Resource]]) -> AuditReport:
        return AuditReport(tuple(self._differences(running)))

    def _differences(self, running: Iterable[RunningAllocation | tuple[str, str, Resource]]) -> Differences:
        by_id, copies = require_running(running), self._read(self._queries.copy_allocations, None)
        return Differences(CopiedAllocations(copies), {application.application_id for application, _ in copies}, by_id)

    def reconcile(self, report: AuditReport) -> AuditReport:
        return self._transactions.run(reconcile, self._state, self._admission, require_differences(report))

    def synchronize(
        self,
        running: Iterable[RunningApplication],
        *,
        starting: Iterable[str] = (),
        among: Iterable[str] | None = None,
    ) -> SyncReport:
        work = require_work(running, starting, among)
        return self._transactions.run(self._whole.synchronize, work, self._exceeded_limits)

    def verify(self) -> None:
        verify(self._state, self._read_in_turn)
        self._read(self._verify_pending)
        if self._models:
            self._read(self._verify_models)

    def _verify_pending(self) -> None:
        findings = self._state.pending_findings()
        if findings:
            raise InvariantError(findings)

    def _verify_models(self) -> None:
        findings = self._model_queries.findings(ledger_calls(self._state))
        if findings:
            raise InvariantError(tuple(findings))

    # Queries about a subject

    def plan_reclaim(
        self,
        subject: Subject,
        usage: Resource,
        *,
        priority: int = 0,
        preemptible: bool = True,
        duration: int | None = None,
        nodes: Mapping[str, Resource] | None = None,
    ) -> ReclaimPlan:
        checked, amounts = require_subject(subject), self._require_listed("usage", require_resource("usage", usage))
        query = QueryRequest(amounts, priority, preemptible, duration)
        return self._read(self._reclaiming.plan, checked, query, require_nodes(nodes))

    def plan_preemption(
        self,
        request: AllocationRequest,
        *,
        since: int,
        now: int | None = None,
        may_preempt: bool = True,
        within_queue: bool = False,
        placed: Iterable[AllocationRequest | tuple[str, str, Resource]] = (),
        nodes: Mapping[str, Resource] | None = None,
    ) -> PreemptionPlan:
        flags = {"may_preempt": may_preempt, "within_queue": within_queue}
        call = require_preemption_call(request, since, now, placed, nodes, **flags)
        self._require_listed("usage", call.request.usage)
        return self._preempting.plan(call, self._lock.run)

    def plan_reductions(self, now: int | None = None, *, overshoot: bool = True) -> ReductionPlan:
        return self._preempting.plan_reductions(*require_reduction_call(now, overshoot=overshoot), self._lock.run)

    def reduction_timers(self) -> tuple[ReductionTimer, ...]:
        return self._read(self._timers.running)

    def preemption_status(self) -> PreemptionStatus:
        return self._read(self._preempting.status)

    def headroom(self, subject: Subject, *, duration: int | None = None) -> Resource | None:
        return self._read(self._subject_queries.headroom, require_subject(subject), duration)

    def pending_headroom(self, subject: Subject) -> PendingHeadroom:
        return self._read(self._subject_queries.pending_headroom, require_subject(subject))

    def limits(self, subject: Subject) -> tuple[EffectiveLimit, ...]:
        return self._read(self._subject_queries.limits, require_subject(subject))

    def place(self, user: UserGroup, queue: str = "", tags: Mapping[str, str] | None = None) -> Placement:
        submission = require_query_submission(user, queue, tags)
        self._state.compiled.rules.match_patterns(submission.user)
        return self._read(self._subject_queries.place, submission)

    def explain_submission(
        self,
        user: UserGroup,
        queue: str,
        usage: Resource,
        tags: Mapping[str, str] | None = None,
        *,
        quota: Resource | None = None,
        max_holders: int = 3,
        duration: int | None = None,
    ) -> SubmissionReport:
        require_holder_count(max_holders)
        submission = require_query_submission(user, queue, tags)
        amounts = self._require_listed("usage", require_resource("usage", usage))
        maximum = self._require_listed("quota", require_amounts("quota", quota))
        explain_submission = self._subject_queries.explain_submission
        self._state.compiled.rules.match_patterns(submission.user)
        return self._read(explain_submission, submission, amounts, maximum, duration).report(max_holders)

    # Applications and allocations

    def application(self, application_id: str) -> ApplicationInfo | None:
        return self._read(self._queries.application, require_name("application_id", application_id))

    def applications(self, queue_path: str | None = None) -> tuple[ApplicationInfo, ...]:
        copies = self._read(self._queries.copy_applications, queue_path)
        return sort_in_parts((one.info() for one in copies), attrgetter("application_id"))

    def applications_by_id(self, application_ids: Iterable[str]) -> tuple[ApplicationInfo, ...]:
        return self._read(self._queries.applications_by_id, require_names("application_ids", application_ids))

    def application_ids(self) -> tuple[str, ...]:
        return self._names(self._applications)

    def application_report(
        self, application_id: str, *, max_pending: int = 10, max_holders: int = 3
    ) -> ApplicationReport | None:
        name = require_name("application_id", application_id)
        require_number("max_pending", max_pending, "allocations")
        require_holder_count(max_holders)
        found = self._read(self._subject_queries.application_report, name, max_pending)
        return None if found is None else found.report(max_holders)

    def allocation(self, allocation_id: str) -> Allocation | None:
        return self._read(self._queries.allocation, require_name("allocation_id", allocation_id))

    def allocations(self, application_id: str | None = None) -> tuple[Allocation, ...]:
        return tuple(self._copied_allocations(application_id).values())

    def _copied_allocations(self, application_id: str | None) -> CopiedAllocations:
        return CopiedAllocations(self._read(self._queries.copy_allocations, application_id))

    def allocations_by_id(self, allocation_ids: Iterable[str]) -> tuple[OwnedAllocation, ...]:
        return self._read(self._queries.allocations_by_id, require_names("allocation_ids", allocation_ids))

    def allocation_ids(self) -> tuple[str, ...]:
        return self._names(self._owners)

    def _names(self, index: Mapping[str, object]) -> tuple[str, ...]:
        return sort_in_parts(self._read(list, index), str)

    # Queues and nodes

    @property
    def config(self) -> PartitionConfig | None:
        return self._state.compiled.config

    def queue(self, queue_path: str = "root") -> QueueState | None:
        return self._read(self._queries.queue, queue_path, alone=False)

    def queue_alone(self, queue_path: str) -> QueueState | None:
        return self._read(self._queries.queue, queue_path, alone=True)

    def queue_paths(self) -> tuple[str, ...]:
        return self._names(self._state.tree.queues)

    def queue_headroom(self, queue_path: str, *, cluster: bool = True) -> Resource | None:
        return self._read(self._queries.queue_headroom, queue_path, cluster=cluster)

    def queue_maximum(self, queue_path: str) -> Resource | None:
        return self._read(self._queries.queue_maximum, queue_path)

    def pending(self, queue_path: str) -> tuple[int, Resource]:
        entries = self._read(self._queries.copy_pending, canonical_path(queue_path))
        return len(entries), sum_of(entry.usage for entry in entries)

    def nodes(self) -> dict[str, Resource]:
        return self._read(self._queries.nodes)

    # Users and groups

    def users(self) -> tuple[UserUsage, ...]:
        return tuple(copy.user_usage() for copy in self._read(copies_of, self._state.holding_index.users))

    def user(self, name: str) -> UserUsage | None:
        users = self._state.holding_index.users
        copy = self._read(self._queries.copy_tracker, users, require_name("name", name))
        return None if copy is None else copy.user_usage()

    def user_usage(self, name: str) -> UserUsage | None:
        copy = self._read(copy_user_usage, self._state, require_name("name", name))
        return None if copy is None else copy.usage()

    def user_names(self) -> tuple[str, ...]:
        return self._names(self._state.holding_index.users)

    def user_utilization(self, name: str) -> LimitUtilization | None:
        users = self._state.holding_index.users
        return self._read(self._queries.utilization, users, require_name("name", name))

    def groups(self) -> tuple[GroupUsage, ...]:
        return tuple(copy.group_usage() for copy in self._read(copies_of, self._state.holding_index.groups))

    def group(self, name: str) -> GroupUsage | None:
        groups = self._state.holding_index.groups
        copy = self._read(self._queries.copy_tracker, groups, require_name("name", name))
        return None if copy is None else copy.group_usage()

    def group_names(self) -> tuple[str, ...]:
        return self._names(self._state.holding_index.groups)

    def group_utilization(self, name: str) -> LimitUtilization | None:
        groups = self._state.holding_index.groups
        return self._read(self._queries.utilization, groups, require_name("name", name))

    def exceeded_limits(self) -> tuple[Violation, ...]:
        return self._read(self._exceeded_limits)

    def _exceeded_limits(self) -> tuple[Violation, ...]:
        return (*self._state.exceeded_limits(), *self._model_queries.exceeded())

    # Other quota models

    def model_utilization(self) -> tuple[LimitUtilization, ...]:
        return self._read(self._model_queries.utilization)

    def budget_accounts(self, user: UserGroup | None = None, queue_path: str | None = None) -> tuple[AccountState, ...]:
        owner = None if user is None else require_user(user)
        path = None if queue_path is None else canonical_path(queue_path)
        return self._read(self._model_queries.budget_accounts, owner, path)

    def model_reports(self) -> tuple[ModelReport, ...]:
        return tuple(report() for report in self._read(self._model_queries.capture_reports))

    # The whole partition

    def snapshot(
        self, iterate: CooperativeIteration | None = None, previous: PartitionSnapshot | None = None
    ) -> PartitionSnapshot:
        if previous is not None and not isinstance(previous, PartitionSnapshot):
            raise RequestError("previous", previous, "expected a snapshot of this partition")
        return self._read(PartitionSnapshot, self._state, iterate).following(previous)
