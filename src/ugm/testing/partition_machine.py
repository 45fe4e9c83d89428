"""A state machine that compares a partition with the naive model after every step.

To test quota models of your own, override `PartitionMachine.make_models`, and let pytest collect the test case::

    class LicenceMachine(PartitionMachine):
        def make_models(self):
            return [Licences(4)]

    TestLicences = LicenceMachine.TestCase

The state of a model must not depend on the order of its charges: after every step, it is compared with a new model
that is charged with all allocations. To test another kind of partition, override `PartitionMachine.make_partition`.

The machine mostly draws existing objects, and sometimes arbitrary values. `hypothesis.strategies.runner` draws the
machine itself, so that the strategies can use the ids in the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any, ClassVar, Literal, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ugm import AllocationRequest, Decision, Partition, RequestError, Resource, UserGroup, Violation
from ugm.configuration import PartitionConfig
from ugm.identity import ROOT, TrackingType
from ugm.model import QuotaModel
from ugm.partition import AbstractPartition, ApplicationInfo, AuditReport, ConfigPlan, RunningAllocation
from ugm.queues import Placement
from ugm.testing.invariants import exposed_partition
from ugm.testing.partition_model import PartitionModel
from ugm.testing.strategies import (
    ALLOCATIONS,
    GROUPS,
    RESOURCES,
    SUBMITTED,
    allocation_requests,
    full_partitions,
    resources,
    users,
)
from ugm.testing.usage_model import Place, QueueModel, upward

__all__ = ["PartitionMachine", "agree", "by_place", "unordered"]


_T = TypeVar("_T")

_QUEUES_REQUESTED: tuple[str, ...] = (
    "",
    "root.a",
    "root.b",
    "root.ab",
    "root.a.b",
    "Root.A.AB",
    "b",
    "x.y",
    "root",
    "no queue",
    "root.b.a.ab",
)
_QUEUES_ADOPTED: tuple[str, ...] = ("root.a", "root.b", "root.b.ab", "Root.AB", "root.a.b.ab")
_TAGS: tuple[dict[str, str], ...] = ({}, {"namespace": "ab"}, {"namespace": "b"}, {"namespace": "root.a.b"})
TAGS = st.sampled_from(_TAGS)
ENDINGS = st.sampled_from(("time_out_gang", "time_out_gang", "time_out_gang", "complete", "fail", "remove"))
NODES = st.sampled_from(("n-1", "n-2", "n-3"))

QUOTAS = st.sampled_from(
    [None, None, None, *(Resource(memory=most) for most in (5, 12)), Resource({"nvidia.com/gpu": 4})]
)
OFFERS = resources(largest=60) | resources(("memory", "vcore", "fpga"), smallest=5, largest=60)
#: Sometimes a resource without limits, and possibly without nodes.
USAGES = resources() | resources(largest=3) | resources(largest=3) | resources((*RESOURCES, "fpga"))


def _of(pool: str, otherwise: Sequence[str]) -> st.SearchStrategy[str]:
    """Draw an id, mostly of an existing object."""

    def draw(machine: PartitionMachine) -> st.SearchStrategy[str]:
        known = sorted(getattr(machine.model, pool))
        return _mostly(st.sampled_from(known or otherwise), st.sampled_from(otherwise))

    return st.runner().flatmap(draw)


def _mostly(frequent: st.SearchStrategy[_T], rare: st.SearchStrategy[_T]) -> st.SearchStrategy[_T]:
    return st.integers(0, 7).flatmap(lambda drawn: rare if drawn == 7 else frequent)  # noqa: PLR2004 - one in eight


def _fresh_ask(machine: PartitionMachine) -> st.SearchStrategy[AllocationRequest]:
    """Draw an allocation with an unused id, of an existing application."""
    ids = [name for name in ALLOCATIONS if name not in machine.model.held] or ALLOCATIONS
    return st.builds(
        lambda request, allocation_id, application_id: request._replace(
            allocation_id=allocation_id, application_id=application_id
        ),
        allocation_requests(USAGES),
        st.sampled_from(ids),
        APPLICATIONS_THERE,
    )


def _request(machine: PartitionMachine) -> st.SearchStrategy[AllocationRequest]:
    """Draw an allocation; sometimes an earlier request, as schedulers repeat requests, or an arbitrary one."""
    pending = [
        AllocationRequest(*one[:3], *one[4:7], one.duration, one.node) for one in machine.model.entries(pending=True)
    ]
    again = st.sampled_from([*pending, *machine.made]) if pending or machine.made else _fresh_ask(machine)
    return _mostly(_fresh_ask(machine) | _fresh_ask(machine) | again, allocation_requests(USAGES))


def _placeholders(machine: PartitionMachine) -> list[str]:
    """Return the ids of the held placeholders."""
    return sorted(one.allocation_id for one in machine.model.entries() if one.placeholder)


def _made_or(otherwise: Sequence[str]) -> st.SearchStrategy[str]:
    """Draw a queue, half of the time a dynamic one."""
    anything = st.sampled_from(otherwise)
    return st.runner().flatmap(
        lambda machine: anything | st.sampled_from(sorted(machine.model.queues.made) or otherwise)
    )


#: Queues for submissions and for adoptions.
QUEUES_REQUESTED = _made_or(_QUEUES_REQUESTED)
QUEUES_ADOPTED = _made_or(_QUEUES_ADOPTED)
HOMES = st.sampled_from(_QUEUES_ADOPTED)
APPLICATIONS_THERE = _of("applications", SUBMITTED)
NEW_APPLICATIONS = st.runner().flatmap(
    lambda machine: st.sampled_from([name for name in SUBMITTED if name not in machine.model.applications] or SUBMITTED)
)
ALLOCATIONS_THERE = _of("held", ALLOCATIONS)
ASKS = st.runner().flatmap(_request)
FRESH_ASKS = st.runner().flatmap(_fresh_ask)
GANGS = st.lists(FRESH_ASKS, max_size=3) | st.lists(ASKS, max_size=3)


def by_place(answer: Decision | Iterable[Violation]) -> list[tuple[Place, list[Violation]]]:
    """Return violations grouped by place; those of one place are sorted, because their order is undefined."""
    places = groupby(_violations(answer), key=lambda violation: Place(*violation[:3]))
    return [(place, sorted(group, key=repr)) for place, group in places]


def unordered(answer: Decision | Iterable[Violation]) -> list[Violation]:
    """Return violations sorted."""
    return sorted(_violations(answer), key=repr)


def _violations(answer: Decision | Iterable[Violation]) -> Iterable[Violation]:
    return answer.violations if isinstance(answer, Decision) else answer


def agree(found: object, expected: object, what: object) -> None:
    """Expect an answer of the model.

    Raises:
        AssertionError: the answer is another one.
    """
    if found != expected:
        raise AssertionError(f"{what}: found {found!r}, but the model says {expected!r}")


def _compared(answer: Any) -> Any:  # noqa: ANN401 - the result of any operation
    """Return a result without undefined parts: the order of the limits of one place, and that of ids."""
    match answer:
        case AuditReport():
            return _compared(answer.differences)
        case Placement():
            return answer.queue_path, answer.creates
        case ApplicationInfo():
            return answer.state
        case tuple() if isinstance(answer, Decision) or all(isinstance(one, Violation) for one in answer):
            return by_place(answer)
    is_ids = isinstance(answer, (tuple, list)) and all(isinstance(one, str) for one in answer)
    return sorted(answer) if is_ids else answer


class PartitionMachine(RuleBasedStateMachine):
    """Compares a partition with the naive model."""

    #: The treatment of users with limits of their own; see `ugm.Partition`.
    group_limits: ClassVar[Literal["always", "unless-user-limited"]] = "always"
    #: Whether the partition reads `clock`. If not, nothing promises a duration.
    reads_clock: ClassVar[bool] = True
    #: The time, in seconds.
    time: int = 1_000_000
    #: The tested partition.
    partition: AbstractPartition
    #: Further quota models.
    models: Sequence[QuotaModel]
    #: The naive model.
    model: PartitionModel
    #: The earlier requests.
    made: list[AllocationRequest]
    #: Created plans, applied or not.
    plans: list[tuple[ConfigPlan, PartitionConfig | None]]
    #: The results of audits.
    reports: list[AuditReport]

    def make_models(self) -> Sequence[QuotaModel]:
        """Return new quota models for the partition."""
        return ()

    def make_partition(self, config: PartitionConfig, models: Sequence[QuotaModel]) -> AbstractPartition:
        """Return the partition to be tested."""
        return Partition(config, models=models, group_limits=self.group_limits, clock=self.clock)

    def clock(self) -> int:
        """Return the time in seconds."""
        return self.time

    @initialize(config=full_partitions(), homes=st.lists(st.tuples(users(), HOMES), max_size=3))
    def start(self, config: PartitionConfig, homes: list[tuple[UserGroup, str]]) -> None:
        """Start with a configuration and some applications."""
        self.made, self.plans, self.reports = [], [], []
        self.models = self.make_models()
        self.model = PartitionModel(QueueModel(config), self.group_limits, self.make_models)
        self.model.now = self.time
        self.partition = self.make_partition(config, self.models)
        for application_id, (user, path) in zip(SUBMITTED, homes, strict=False):
            self.adopt_application(application_id, user, path, gang_style="hard")

    @contextmanager
    def nothing_changes(self) -> Iterator[None]:
        """Expect that the block does not change the visible state of the partition."""
        before = exposed_partition(self.partition)
        yield
        agree(exposed_partition(self.partition), before, "after a call that must not change the state")

    def both(
        self,
        operation: str,
        *arguments: object,
        compared: Callable[[Any], object] = _compared,
        **options: object,
    ) -> Any:  # noqa: ANN401 - the result of any operation
        """Call an operation of the partition and of the model, compare the results, and return that of the partition.

        If the model raises an error, the partition must raise one, too, and must not change.
        """
        model = self.model if hasattr(self.model, operation) else self.model.queues
        try:
            expected = getattr(model, operation)(*arguments, **options)
        except RequestError:
            self.refused(operation, *arguments, **options)
            return None
        found = getattr(self.partition, operation)(*arguments, **options)
        agree(compared(found), compared(expected), (operation, arguments, options))
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
        tags=TAGS,
        quota=QUOTAS,
        gang_style=st.sampled_from(["soft", "hard"]),
    )
    def submit(self, application_id: str, user: UserGroup, queue: str, **options: Any) -> None:  # noqa: ANN401 - of each option's kind
        """An application is placed by the rules, or rejected; a repeated submission must have the same arguments."""
        self.both("submit", application_id, user, queue, **options)

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

    @rule(application_id=APPLICATIONS_THERE, operation=ENDINGS)
    def end(self, application_id: str, operation: str) -> None:
        """The gang of an application times out, or the application completes, fails or is removed."""
        self.both(operation, application_id)

    @precondition(lambda self: len(self.made) > 15)  # noqa: PLR2004 - late, because no application can be submitted afterwards
    @rule(really=st.sampled_from([False, False, False, True]))
    def terminate(self, *, really: bool) -> None:
        """If the partition is terminated, all applications fail."""
        if really:
            self.both("terminate", confirm=True)

    # Allocations

    @rule(request=ASKS)
    def allocate(self, request: AllocationRequest) -> None:
        """An allocation is granted if and only if it fits all limits; a denial names all exceeded limits."""
        self._ask("allocate", request)

    @rule(request=ASKS)
    def request(self, request: AllocationRequest) -> None:
        """A requested allocation is pending, and is not charged."""
        self._ask("request", request)

    @rule(request=ASKS)
    def adopt(self, request: AllocationRequest) -> None:
        """An adopted allocation is charged, and the exceeded limits are returned."""
        self._ask("adopt", request)

    def _ask(self, operation: str, request: AllocationRequest) -> None:
        request = self._timed(request)
        self.made.append(request)
        self.both(operation, **request._asdict())

    def _timed(self, request: AllocationRequest) -> AllocationRequest:
        return request if self.reads_clock else request._replace(duration=None)

    @rule(seconds=st.sampled_from([1, 30, 3600]))
    def wait(self, seconds: int) -> None:
        """Time passes, which changes nothing."""
        self.time += seconds
        self.model.now = self.time

    @rule(gang=GANGS)
    def allocate_all(self, gang: list[AllocationRequest]) -> None:
        """Several allocations are granted together or not at all; a denial contains the sum of the requests."""
        gang = list(map(self._timed, gang))
        self.made += gang
        self.both("allocate_all", gang, compared=unordered)

    @rule(request=FRESH_ASKS, real=FRESH_ASKS, ends=st.booleans())
    def gang(self, request: AllocationRequest, real: AllocationRequest, *, ends: bool) -> None:
        """A placeholder is replaced by a pending allocation; then the gang times out."""
        self.allocate(request._replace(placeholder=True))
        self.request(real._replace(application_id=request.application_id, placeholder=False))
        self.both("replace", request.allocation_id, real.allocation_id, real.usage)
        if ends:
            self.both("release", real.allocation_id)
            self.allocate(request._replace(placeholder=True))
            self.both("time_out_gang", request.application_id)

    @precondition(lambda self: bool(_placeholders(self)))
    @rule(data=st.data(), request=FRESH_ASKS, same=st.booleans())
    def replace_one(self, data: st.DataObject, request: AllocationRequest, *, same: bool) -> None:
        """A placeholder is replaced by a new or a pending allocation; only the growth is checked."""
        name = data.draw(st.sampled_from(_placeholders(self)), label="placeholder")
        pending = [one.allocation_id for one in self.model.entries(pending=True)]
        allocation_id = data.draw(st.sampled_from([request.allocation_id, request.allocation_id, *pending]), label="id")
        known = self.model.held[allocation_id if allocation_id in pending else name]
        self.both("replace", name, allocation_id, known.usage if same else request.usage)
        self.both("replace", name, allocation_id, known.usage if same else request.usage)

    @rule(
        placeholder_id=ALLOCATIONS_THERE,
        allocation_id=ALLOCATIONS_THERE,
        usage=USAGES,
        same=st.booleans(),
    )
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
            agree(self.partition.release(allocation_id), False, "released twice")  # noqa: FBT003 - the answer

    @precondition(lambda self: self.reads_clock)
    @rule(allocation_id=ALLOCATIONS_THERE, duration=st.sampled_from([1, 60, 3600, 90_000, None]))
    def renew(self, allocation_id: str, duration: int | None) -> None:
        """A promised end moves; further quota models check a later one."""
        self.both("renew", allocation_id, duration)

    @precondition(lambda self: self.reads_clock)
    @rule(operation=st.sampled_from(["expire", "release_overdue"]))
    def expire(self, operation: str) -> None:
        """The allocations whose promised end has come terminate, or are released."""
        agree(list(self.partition.overdue()), self.model.overdue(), "overdue")
        if self.both(operation):
            agree(getattr(self.partition, operation)(), (), "expired twice")

    # The cluster

    @rule(name=NODES, offers=OFFERS, operation=st.sampled_from(["add_node", "update_node"]))
    def node(self, name: str, offers: Resource, operation: str) -> None:
        """The quota of the root is the sum of the nodes."""
        self.both(operation, name, offers)

    @rule(name=NODES)
    def remove_node(self, name: str) -> None:
        """The removal of a node lowers the quota of the root, but does not evict allocations."""
        self.both("remove_node", name)

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
        version = self.current_version()
        if plan.compiled.version == version:
            with self.nothing_changes():
                self.partition.apply(plan, confirm=True)
            return
        if plan.base.version != version:
            self.refused("apply", plan)
            return
        latest = self.partition.plan(config)
        if plan.risks:
            self.refused("apply", plan)
        self.partition.apply(plan, confirm=True)
        self.model.configure(config)
        agree(
            sorted(latest.exceeded, key=tuple.__repr__),
            sorted(self.model.exceeded_limits(), key=tuple.__repr__),
            "planned exceeded limits",
        )
        agree([tuple(one) for one in latest.draining], self.model.leaving(), "planned draining queues")

    def current_version(self) -> str:
        """Return the version of the configuration in force, which plans that can be applied now are based on."""
        return self.partition.plan(None).base.version

    # Audits

    @rule(data=st.data(), later=st.booleans())
    def audit(self, data: st.DataObject, *, later: bool) -> None:
        """An audit finds all differences, and a reconciliation repairs those that still exist."""
        named = data.draw(st.booleans(), label="has nodes")
        running = {
            one.allocation_id: RunningAllocation(*one[:3], one.node if named else None) for one in self.model.entries()
        }
        for name in data.draw(st.lists(st.sampled_from(ALLOCATIONS), max_size=3, unique=True), label="differ"):
            running.pop(name, None)
            if data.draw(st.booleans(), label="runs"):
                application_id = data.draw(APPLICATIONS_THERE | st.just("stranger"), label="application")
                usage = data.draw(USAGES, label="usage")
                node = data.draw(st.none() | NODES, label="node")
                running[name] = RunningAllocation(name, application_id, usage, node)
        with self.nothing_changes():
            report = self.both("audit", list(running.values()))
        self.reports.append(report)
        if not later:
            self.both("reconcile", report)
            left = self.partition.audit(running.values())
            agree([one for one in left.differences if one.is_application_known], [], "left after a repair")

    @precondition(lambda self: self.reports)
    @rule(data=st.data())
    def reconcile(self, data: st.DataObject) -> None:
        """An older report can be used for a repair."""
        self.both("reconcile", data.draw(st.sampled_from(self.reports), label="report"))

    # Queries

    @rule(application_id=APPLICATIONS_THERE, usage=USAGES)
    def check(self, application_id: str, usage: Resource) -> None:
        """A check returns the decision on an allocation, and does not change the state."""
        with self.nothing_changes():
            decision = self.both("check", application_id, usage)
            if decision is not None:
                agree(self.partition.explain(application_id, usage).decision, decision, "explain")

    @rule(application_id=APPLICATIONS_THERE)
    def headroom(self, application_id: str) -> None:
        """The headroom is the smallest free amount of all limits; other quota models can only reduce it."""
        with self.nothing_changes():
            if not self.models:
                self.both("headroom", application_id)
                return
            answers: list[Resource | None] = []
            self.both("headroom", application_id, compared=answers.append)
        if answers:
            found, expected = (answer or Resource() for answer in answers)
            agree([name for name in expected if name not in found or found[name] > expected[name]], [], "headroom")

    @rule(data=st.data())
    def queue_headroom(self, data: st.DataObject) -> None:
        """The headroom of a queue is defined with and without the cluster."""
        path = data.draw(st.sampled_from(self.model.queues.paths()), label="queue")
        places = [Place(TrackingType.QUEUE, above, above) for above in upward(path)]
        inner = [place for place in places if place.queue_path != ROOT]
        for cluster, counted in ((True, places), (False, inner)):
            found = self.partition.queue_headroom(path, cluster=cluster)
            agree(found, self.model.tracked.headroom_at(counted), "queue_headroom")

    # Invariants

    @invariant()
    def agrees_with_the_model(self) -> None:
        """The visible state equals that of the model."""
        found, expected = exposed_partition(self.partition), self.model.exposed()
        for part, shown in expected.items():
            agree(found[part], shown, part)

    @invariant()
    def adds_up(self) -> None:
        """Every counter is consistent with the ledger."""
        self.partition.verify()

    @invariant()
    def models_agree(self) -> None:
        """Every further quota model equals a new one that is charged with all allocations."""
        for model, fresh in zip(self.models, self.model.charged_models(), strict=True):
            agree(vars(model), vars(fresh), model)
