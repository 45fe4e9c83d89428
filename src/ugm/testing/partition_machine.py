"""A state machine that compares a partition with the naive model after every step.

To test quota models of your own, override `PartitionMachine.make_models`, and let pytest collect the test case::

    class LicenceMachine(PartitionMachine):
        def make_models(self):
            return [Licences(4)]

    TestLicences = LicenceMachine.TestCase

The state of a model must not depend on the order of its charges: after every step, it is compared with a new model
that is charged with all allocations. To test another kind of partition, override `PartitionMachine.make_partition`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Literal

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ugm import AllocationRequest, Decision, Partition, RequestError, Resource, UserGroup, Violation
from ugm.configuration import PartitionConfig
from ugm.identity import ROOT, TrackingType
from ugm.model import QuotaModel
from ugm.partition import AbstractPartition, ApplicationInfo, AuditReport, Plan, RunningAllocation
from ugm.testing._machine_strategies import (
    ALLOCATIONS_THERE,
    APPLICATIONS_THERE,
    ASKS,
    ENDINGS,
    GANGS,
    HOMES,
    NEW_APPLICATIONS,
    NODES,
    OFFERS,
    QUEUES_ADOPTED,
    QUEUES_REQUESTED,
    QUOTAS,
    TAGS,
    USAGES,
    fresh_asks,
    placeholders,
)
from ugm.testing.invariants import exposed_partition
from ugm.testing.partition_model import PartitionModel
from ugm.testing.partition_strategies import ALLOCATIONS, SUBMITTED, allocation_requests, full_partitions
from ugm.testing.queue_model import QueueModel, upward
from ugm.testing.strategies import GROUPS, users
from ugm.testing.tracker_machine import by_place
from ugm.testing.tracker_model import Place

__all__ = ["PartitionMachine"]


def _agree(found: object, expected: object, what: object) -> None:
    if found != expected:
        raise AssertionError(f"{what}: the partition says {found!r}, the model {expected!r}")


def _compared(answer: Any) -> Any:  # noqa: ANN401 - the result of any operation
    """Return a result without undefined parts: the order of the limits of one place, and that of ids."""
    if isinstance(answer, Decision):
        return by_place(answer.violations)
    if isinstance(answer, ApplicationInfo):
        return answer.state
    if isinstance(answer, AuditReport):
        return _compared(answer.differences)
    if isinstance(answer, tuple) and all(isinstance(one, Violation) for one in answer):
        return by_place(answer)
    return (
        sorted(answer) if isinstance(answer, (tuple, list)) and all(isinstance(one, str) for one in answer) else answer
    )


class PartitionMachine(RuleBasedStateMachine):
    """Compares a partition with the naive model."""

    #: The treatment of users with limits of their own; see `ugm.Partition`.
    group_limits: ClassVar[Literal["always", "unless-user-limited"]] = "always"
    #: The tested partition.
    partition: AbstractPartition
    #: Further quota models.
    models: Sequence[QuotaModel]
    #: The naive model.
    model: PartitionModel
    #: The earlier requests.
    made: list[AllocationRequest]
    #: Created plans, applied or not.
    plans: list[tuple[Plan, PartitionConfig | None]]
    #: The results of audits.
    reports: list[AuditReport]

    def make_models(self) -> Sequence[QuotaModel]:
        """Return new quota models for the partition."""
        return ()

    def make_partition(self, config: PartitionConfig, models: Sequence[QuotaModel]) -> AbstractPartition:
        """Return the partition to be tested."""
        return Partition(config, models=models, group_limits=self.group_limits)

    @initialize(config=full_partitions(), homes=st.lists(st.tuples(users(), HOMES), max_size=3))
    def start(self, config: PartitionConfig, homes: list[tuple[UserGroup, str]]) -> None:
        """Start with a configuration and some applications."""
        self.made, self.plans, self.reports = [], [], []
        self.models = self.make_models()
        self.model = PartitionModel(QueueModel(config), self.group_limits, self.make_models)
        self.partition = self.make_partition(config, self.models)
        for application_id, (user, path) in zip(SUBMITTED, homes, strict=False):
            self.adopt_application(application_id, user, path, gang_style="hard")

    @contextmanager
    def nothing_changes(self) -> Iterator[None]:
        """Expect that the block does not change the visible state of the partition."""
        before = exposed_partition(self.partition)
        yield
        _agree(exposed_partition(self.partition), before, "after a call that must not change the state")

    def both(self, operation: str, *arguments: object, **options: object) -> Any:  # noqa: ANN401 - the result of any operation
        """Call an operation of the partition and of the model, compare the results, and return that of the partition.

        If the model raises an error, the partition must raise one, too, and must not change.
        """
        what = (operation, arguments, options)
        try:
            expected = getattr(self.model, operation)(*arguments, **options)
        except RequestError:
            self.refused(operation, *arguments, **options)
            return None
        found = getattr(self.partition, operation)(*arguments, **options)
        _agree(_compared(found), _compared(expected), what)
        return found

    def refused(self, operation: str, *arguments: object, **options: object) -> None:
        """Expect that a call raises an error and does not change the state."""
        with self.nothing_changes():
            try:
                getattr(self.partition, operation)(*arguments, **options)
            except RequestError:
                return
        raise AssertionError(f"{operation}{arguments}{options} should have raised RequestError")

    # Applications

    @rule(
        application_id=NEW_APPLICATIONS,
        user=users(),
        queue=QUEUES_REQUESTED,
        tags=st.sampled_from(TAGS),
        quota=QUOTAS,
        gang_style=st.sampled_from(["soft", "hard"]),
    )
    def submit(self, application_id: str, user: UserGroup, queue: str, **options: Any) -> None:  # noqa: ANN401 - of each option's kind
        """An application is placed by the rules, or rejected; a repeated submission must have the same arguments."""
        try:
            expected = self.model.submit(application_id, user, queue, **options)
        except RequestError:
            self.refused("submit", application_id, user, queue, **options)
            return
        placement = self.partition.submit(application_id, user, queue, **options)
        _agree((placement.queue_path, placement.creates), expected, ("submit", application_id, user, queue, options))

    @rule(application_id=APPLICATIONS_THERE, gang_style=st.sampled_from(["soft", "hard"]), quota=QUOTAS)
    def submit_again(self, application_id: str, gang_style: str, quota: Resource | None) -> None:
        """A repeated submission has the same result; one with other arguments is refused."""
        known = self.model.applications.get(application_id)
        if known is not None:
            _, user, queue, tags, *_ = known
            self.submit(application_id, user, queue, tags=dict(tags), quota=quota, gang_style=gang_style)

    @rule(
        application_id=NEW_APPLICATIONS,
        user=users(),
        path=QUEUES_ADOPTED,
        quota=QUOTAS,
        group=st.sampled_from(["", "", "", None, *GROUPS]),
    )
    def adopt_application(self, application_id: str, user: UserGroup, path: str, **options: Any) -> None:  # noqa: ANN401 - of each option's kind
        """An application is adopted in its queue, even if the queue does not exist."""
        self.both("adopt_application", application_id, user, path, **options)

    @rule(path=QUEUES_ADOPTED, quota=QUOTAS)
    def set_queue_quota(self, path: str, quota: Resource | None) -> None:
        """The quota of a dynamic queue may change at any time."""
        if quota is not None:
            self.both("set_queue_quota", path, quota)

    @rule(application_id=APPLICATIONS_THERE, operation=st.sampled_from(ENDINGS))
    def end(self, application_id: str, operation: str) -> None:
        """The gang of an application times out, or the application completes, fails or is removed."""
        self.both(operation, application_id)

    @precondition(lambda self: len(self.made) > 15)  # noqa: PLR2004 - late, because no application can be submitted afterwards
    @rule(really=st.sampled_from([False, False, False, True]))
    def close(self, *, really: bool) -> None:
        """If the partition is closed, all applications fail."""
        if really:
            self.both("close")

    # Allocations

    @rule(request=ASKS)
    def allocate(self, request: AllocationRequest) -> None:
        """An allocation is granted if and only if it fits all limits; a denial names all exceeded limits."""
        self.made.append(request)
        self._with_traits("allocate", request)

    @rule(request=ASKS)
    def request(self, request: AllocationRequest) -> None:
        """A requested allocation is pending, and is not charged."""
        self.made.append(request)
        self._with_traits("request", request)

    @rule(request=ASKS)
    def adopt(self, request: AllocationRequest) -> None:
        """An adopted allocation is charged, and the exceeded limits are returned."""
        self.made.append(request)
        self._with_traits("adopt", request)

    def _with_traits(self, operation: str, request: AllocationRequest) -> None:
        traits: dict[str, Any] = dict(zip(AllocationRequest._fields[3:], request[3:], strict=True))
        try:
            expected = getattr(self.model, operation)(*request)
        except RequestError:
            self.refused(operation, *request[:3], **traits)
            return
        found = getattr(self.partition, operation)(*request[:3], **traits)
        _agree(_compared(found), _compared(expected), (operation, request))

    @rule(gang=GANGS)
    def allocate_all(self, gang: list[AllocationRequest]) -> None:
        """Several allocations are granted together or not at all; a denial contains the sum of the requests."""
        self.made += gang
        try:
            expected = self.model.allocate_all(gang)
        except RequestError:
            self.refused("allocate_all", gang)
            return
        found = self.partition.allocate_all(gang).violations
        _agree(sorted(found, key=repr), sorted(expected, key=repr), ("allocate_all", gang))

    @rule(request=st.runner().flatmap(fresh_asks), real=st.runner().flatmap(fresh_asks), ends=st.booleans())
    def gang(self, request: AllocationRequest, real: AllocationRequest, *, ends: bool) -> None:
        """A placeholder is replaced by a pending allocation; then the gang times out."""
        self.allocate(request._replace(placeholder=True))
        self.request(real._replace(application_id=request.application_id, placeholder=False))
        self.both("replace", request.allocation_id, real.allocation_id, real.usage)
        if ends:
            self.both("release", real.allocation_id)
            self.allocate(request._replace(placeholder=True))
            self.both("time_out_gang", request.application_id)

    @precondition(lambda self: bool(placeholders(self)))
    @rule(data=st.data(), request=st.runner().flatmap(fresh_asks), same=st.booleans())
    def replace_one(self, data: st.DataObject, request: AllocationRequest, *, same: bool) -> None:
        """A placeholder is replaced by a new or a pending allocation; only the growth is checked."""
        name = data.draw(st.sampled_from(placeholders(self)), label="placeholder")
        pending = [one.allocation_id for one in self.model.entries(pending=True)]
        allocation_id = data.draw(st.sampled_from([request.allocation_id, request.allocation_id, *pending]), label="id")
        known = self.model.held[allocation_id if allocation_id in pending else name]
        self.both("replace", name, allocation_id, known.usage if same else request.usage)
        self.both("replace", name, allocation_id, known.usage if same else request.usage)

    @rule(placeholder_id=ALLOCATIONS_THERE, allocation_id=ALLOCATIONS_THERE, usage=USAGES, same=st.booleans())
    def replace(self, placeholder_id: str, allocation_id: str, usage: Resource, *, same: bool) -> None:
        """Only placeholders can be replaced, and only by allocations that are not held."""
        known = self.model.held.get(placeholder_id if same else allocation_id)
        self.both("replace", placeholder_id, allocation_id, known.usage if known and same else usage)

    @rule(allocation_id=ALLOCATIONS_THERE, usage=USAGES)
    def resize(self, allocation_id: str, usage: Resource) -> None:
        """A resize only checks the growth."""
        self.both("resize", allocation_id, usage)

    @rule(allocation_id=ALLOCATIONS_THERE, operation=st.sampled_from(["preempt", "release", "release"]))
    def give_back(self, allocation_id: str, operation: str) -> None:
        """A terminating allocation is charged until it is released; a second release has no effect."""
        if self.both(operation, allocation_id) and operation == "release":
            _agree(self.partition.release(allocation_id), False, "released twice")  # noqa: FBT003 - the answer

    # The cluster

    @rule(name=st.sampled_from(NODES), offers=OFFERS, operation=st.sampled_from(["add_node", "update_node"]))
    def node(self, name: str, offers: Resource, operation: str) -> None:
        """The quota of the root is the sum of the nodes."""
        self._node(operation, name, offers)

    @rule(name=st.sampled_from(NODES))
    def remove_node(self, name: str) -> None:
        """The removal of a node lowers the quota of the root, but does not evict allocations."""
        self._node("remove_node", name)

    def _node(self, operation: str, *arguments: object) -> None:
        try:
            expected = getattr(self.model.queues, operation)(*arguments)
        except RequestError:
            self.refused(operation, *arguments)
            return
        _agree(getattr(self.partition, operation)(*arguments), expected, (operation, arguments))

    # The configuration

    @rule(config=full_partitions())
    def configure(self, config: PartitionConfig) -> None:
        """A new configuration changes limits and queues, but not usage."""
        self.both("configure", config)

    @rule(config=full_partitions() | st.none())
    def plan(self, config: PartitionConfig | None) -> None:
        """A plan contains the limits that will be exceeded and the draining queues, and does not change the state."""
        with self.nothing_changes():
            self.plans.append((self.partition.plan(config), config))

    @precondition(lambda self: self.plans)
    @rule(data=st.data())
    def apply(self, data: st.DataObject) -> None:
        """An applied plan has the planned effects; a plan for another configuration is refused."""
        plan, config = data.draw(st.sampled_from(self.plans), label="plan")
        if plan.compiled is self.current_base():
            with self.nothing_changes():
                self.partition.apply(plan)
            return
        if plan.base is not self.current_base():
            self.refused("apply", plan)
            return
        latest = self.partition.plan(config)
        self.partition.apply(plan)
        self.model.configure(config)
        _agree(sorted(latest.over, key=repr), sorted(self.model.over_limit(), key=repr), "planned exceeded limits")
        _agree([tuple(one) for one in latest.leaving], self.model.leaving(), "planned draining queues")

    def current_base(self) -> object:
        """Return the base of a plan that can be applied now."""
        return self.partition.plan(None).base

    # Audits

    @rule(data=st.data(), later=st.booleans())
    def audit(self, data: st.DataObject, *, later: bool) -> None:
        """An audit finds all differences, and a reconciliation repairs those that still exist."""
        running = {one.allocation_id: RunningAllocation(*one[:3]) for one in self.model.entries()}
        for name in data.draw(st.lists(st.sampled_from(ALLOCATIONS), max_size=3, unique=True), label="differ"):
            running.pop(name, None)
            if data.draw(st.booleans(), label="runs"):
                application_id = data.draw(APPLICATIONS_THERE | st.just("stranger"), label="application")
                running[name] = RunningAllocation(name, application_id, data.draw(USAGES, label="usage"))
        with self.nothing_changes():
            report = self.both("audit", list(running.values()))
        self.reports.append(report)
        if not later:
            self.repair(report)
            left = self.partition.audit(running.values())
            _agree([one for one in left.differences if one.is_known], [], "left after a repair")

    @precondition(lambda self: self.reports)
    @rule(data=st.data())
    def reconcile(self, data: st.DataObject) -> None:
        """An older report can be used for a repair."""
        self.repair(data.draw(st.sampled_from(self.reports), label="report"))

    def repair(self, report: AuditReport) -> None:
        """Reconcile a report, and compare the repairs."""
        expected = self.model.reconcile(report.differences)
        _agree(self.partition.reconcile(report).differences, expected, "reconcile")

    # Queries

    @rule(application_id=APPLICATIONS_THERE, usage=USAGES)
    def check(self, application_id: str, usage: Resource) -> None:
        """A check returns the decision on an allocation, and does not change the state."""
        with self.nothing_changes():
            decision = self.both("check", application_id, usage)
            if decision is not None:
                _agree(self.partition.explain(application_id, usage).decision, decision, "explain")

    @rule(application_id=APPLICATIONS_THERE)
    def headroom(self, application_id: str) -> None:
        """The headroom is the smallest free amount of all limits."""
        if application_id in self.model.applications:
            with self.nothing_changes():
                self.both("headroom", application_id)
        else:
            self.refused("headroom", application_id)

    @rule(data=st.data())
    def queue_headroom(self, data: st.DataObject) -> None:
        """The headroom of a queue is defined with and without the cluster."""
        path = data.draw(st.sampled_from(self.model.queues.paths()), label="queue")
        places = [Place(TrackingType.QUEUE, above, above) for above in upward(path)]
        inner = [place for place in places if place.queue_path != ROOT]
        _agree(self.partition.queue_headroom(path), self.model.headroom_at(places), "queue_headroom")
        _agree(self.partition.queue_headroom(path, cluster=False), self.model.headroom_at(inner), "queue_headroom")

    @rule(request=allocation_requests(), wrong=st.sampled_from([None, "", 7, []]))
    def misuse(self, request: AllocationRequest, wrong: object) -> None:
        """Invalid arguments are refused, and do not change the state."""
        for operation, arguments in (
            ("request", (wrong, *request[1:3])),
            ("allocate", (request[0], wrong, request[2])),
            ("allocate", (*request[:2], wrong)),
            ("allocate", (*request[:2], Resource(memory=-1))),
            ("allocate_all", ([request, request._replace(application_id="stranger")],)),
            ("adopt", (request[0], "stranger", request[2])),
            ("replace", (wrong, *request[1:3])),
            ("resize", (request[0], wrong)),
            ("release", (wrong,)),
            ("preempt", (wrong,)),
            ("submit", (wrong, UserGroup("ana"), "root.a")),
            ("submit", ("new", wrong, "root.a")),
            ("adopt_application", ("new", UserGroup("ana"), wrong)),
            ("add_node", ("new", wrong)),
            ("audit", ([(*request[:2], wrong)],)),
        ):
            self.refused(operation, *arguments)

    # Invariants

    @invariant()
    def agrees_with_the_model(self) -> None:
        """The visible state equals that of the model."""
        found, expected = exposed_partition(self.partition), self.model.exposed()
        for part, shown in expected.items():
            _agree(found[part], shown, part)

    @invariant()
    def adds_up(self) -> None:
        """Every counter is consistent with the ledger."""
        self.partition.verify()

    @invariant()
    def models_agree(self) -> None:
        """Every further quota model equals a new one that is charged with all allocations."""
        for model, fresh in zip(self.models, self.model.charged_models(), strict=True):
            _agree(vars(model), vars(fresh), model)
