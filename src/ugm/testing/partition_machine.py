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
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

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
from ugm.testing.partition_model_state import Place
from ugm.testing.queue_model import QueueModel, upward
from ugm.testing.strategies import (
    ALLOCATIONS,
    GROUPS,
    RESOURCES,
    SUBMITTED,
    allocation_requests,
    full_partitions,
    queue_paths,
    resources,
    users,
)

__all__ = ["ASKS", "PartitionMachine", "agree", "comparable", "exceeded_by", "unordered"]

_T = TypeVar("_T")
#: A rule of the machine.
_Rule: TypeAlias = Callable[..., None]


def _mostly(frequent: st.SearchStrategy[_T], rare: st.SearchStrategy[_T]) -> st.SearchStrategy[_T]:
    return st.integers(0, 7).flatmap(lambda drawn: rare if drawn == 7 else frequent)  # noqa: PLR2004 - one in eight


def _known(find: Callable[[PartitionModel], Iterable[str]], others: Sequence[str]) -> st.SearchStrategy[str]:
    """Draw an id, mostly one that is found in the model."""
    return st.runner().flatmap(
        lambda machine: _mostly(st.sampled_from(sorted(find(machine.model)) or others), st.sampled_from(others))
    )


def _unknown(find: Callable[[PartitionModel], Iterable[str]], ids: Sequence[str]) -> st.SearchStrategy[str]:
    """Draw an id that is not found in the model, if there is one."""
    return st.runner().flatmap(lambda machine: st.sampled_from(sorted(set(ids).difference(find(machine.model))) or ids))


def _or_dynamic(queues: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Draw a queue, half of the time a dynamic one."""
    return st.runner().flatmap(lambda machine: st.sampled_from(sorted(machine.model.queues.made) or HOMES) | queues)


HOMES: Sequence[str] = ("root.a", "root.b", "root.b.ab", "Root.AB", "root.a.b.ab")
TAGS: Sequence[dict[str, str]] = ({}, {"namespace": "ab"}, {"namespace": "b"}, {"namespace": "root.a.b"})
QUEUES = _or_dynamic(st.sampled_from(HOMES))
QUEUES_REQUESTED = _or_dynamic(queue_paths() | st.sampled_from(("", "b", "x.y", "no queue")))
GANG_STYLES = st.sampled_from(["soft", "hard"])
NODES = st.sampled_from(("n-1", "n-2", "n-3"))
QUOTAS = st.sampled_from([Resource(memory=5), Resource(memory=12), Resource({"nvidia.com/gpu": 4})])
NO_QUOTA = st.none()
OFFERS = resources(largest=60) | resources(("memory", "vcore", "fpga"), smallest=5, largest=60)
#: Sometimes a resource without limits, and possibly without nodes.
USAGES = resources() | resources(largest=3) | resources(largest=3) | resources((*RESOURCES, "fpga"))

APPLICATIONS = _known(lambda model: model.applications, SUBMITTED)
NEW_APPLICATIONS = _unknown(lambda model: model.applications, SUBMITTED)
HELD = _known(lambda model: model.held, ALLOCATIONS)
PLACEHOLDERS = _known(lambda model: [one.allocation_id for one in model.entries() if one.placeholder], ALLOCATIONS)
#: What differs between the running allocation and that of the ledger; None if it does not run.
DIFFERENCES = st.none() | st.fixed_dictionaries(
    {}, optional={"application_id": APPLICATIONS, "usage": USAGES, "node": NODES | st.none()}
)


@st.composite
def _asks(draw: st.DrawFn, *, fresh: bool) -> AllocationRequest:
    """Draw a request of an existing application with an unused id; or also a repeated or an arbitrary request."""
    machine: PartitionMachine = draw(st.runner())
    request = draw(allocation_requests(USAGES))
    kind = "fresh" if fresh else draw(st.sampled_from(("fresh", "fresh", "fresh", "repeated", "any")))
    if kind == "repeated" and machine.model.held:
        # Schedulers repeat their requests.
        one = machine.model.held[draw(HELD.filter(machine.model.held.__contains__))]
        return AllocationRequest(*one[:3], *one[4:7], one.duration, one.node)
    if kind != "any":
        new, application_id = draw(_unknown(lambda model: model.held, ALLOCATIONS)), draw(APPLICATIONS)
        request = request._replace(allocation_id=new, application_id=application_id)
    return request if machine.reads_clock else request._replace(duration=None)


FRESH_ASKS = _asks(fresh=True)
ASKS = _asks(fresh=False)


def unordered(violations: Iterable[Violation]) -> list[Violation]:
    """Return violations sorted, because the order of the limits of one place is undefined."""
    return sorted(violations, key=repr)


def exceeded_by(answer: Decision | Iterable[Violation]) -> set[tuple[object, ...]]:
    """Return the limits that a gang would exceed, without amounts."""
    return {violation[:5] for violation in (answer.violations if isinstance(answer, Decision) else answer)}


def agree(found: object, expected: object, what: object) -> None:
    """Expect an answer of the model.

    Raises:
        AssertionError: the answer is another one.
    """
    if found != expected:
        raise AssertionError(f"{what}: found {found!r}, but the model says {expected!r}")


def comparable(answer: Any) -> Any:  # noqa: ANN401 - the result of any operation
    """Return a result without undefined parts: the order of violations and of ids."""
    match answer:
        case AuditReport():
            return comparable(answer.differences)
        case Placement():
            return answer.queue_path, answer.creates
        case ApplicationInfo():
            return answer.state
        case Decision():
            return unordered(answer.violations)
        case tuple() | list() if all(isinstance(one, (str, Violation)) for one in answer):
            return sorted(answer, key=repr)
    return answer


def _comparing(
    *operations: str, compared: Callable[[Any], object] = comparable, **arguments: st.SearchStrategy[Any]
) -> _Rule:
    """Return a rule that calls one of several operations with drawn arguments; see `PartitionMachine.both`."""

    def call(machine: PartitionMachine, operation: str, **drawn: object) -> None:
        machine.both(operation, compared=compared, **drawn)

    call.__name__ = operations[0]
    draws: Any = {"operation": st.sampled_from(operations), **arguments}
    return rule(**draws)(call)  # type: ignore[no-any-return,no-untyped-call]  # the names of the arguments vary


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

    @initialize(config=full_partitions(), homes=st.lists(st.tuples(users(), st.sampled_from(HOMES)), max_size=3))
    def start(self, config: PartitionConfig, homes: list[tuple[UserGroup, str]]) -> None:
        """Start with a configuration and some applications."""
        self.plans, self.reports = [], []
        self.models = self.make_models()
        self.model = PartitionModel(QueueModel(config), self.group_limits, self.make_models, now=self.time)
        self.partition = self.make_partition(config, self.models)
        for application_id, (user, path) in zip(SUBMITTED, homes, strict=False):
            self.both("adopt_application", application_id, user, path, gang_style="hard")

    @contextmanager
    def nothing_changes(self) -> Iterator[None]:
        """Expect that the block does not change the visible state of the partition."""
        before = exposed_partition(self.partition)
        yield
        agree(exposed_partition(self.partition), before, "after a call that must not change the state")

    def both(
        self, operation: str, *arguments: object, compared: Callable[[Any], object] = comparable, **options: object
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

    # An application is placed by the rules, or rejected.
    submit: _Rule = _comparing(
        "submit",
        application_id=NEW_APPLICATIONS,
        user=users(),
        queue=QUEUES_REQUESTED,
        tags=st.sampled_from(TAGS),
        quota=NO_QUOTA | QUOTAS,
        gang_style=GANG_STYLES,
    )

    @rule(application_id=APPLICATIONS, gang_style=GANG_STYLES, quota=NO_QUOTA | QUOTAS)
    def submit_again(self, application_id: str, gang_style: str, quota: Resource | None) -> None:
        """A repeated submission has the same result; one with other arguments is refused."""
        known = self.model.applications.get(application_id)
        if known is not None:
            options: dict[str, Any] = {"tags": dict(known.tags), "quota": quota, "gang_style": gang_style}
            self.both("submit", application_id, known.user, known.queue, **options)

    # An application is adopted in its queue, even if the queue does not exist.
    adopt_application: _Rule = _comparing(
        "adopt_application",
        application_id=NEW_APPLICATIONS,
        user=users(),
        queue_path=QUEUES,
        quota=NO_QUOTA | QUOTAS,
        group=st.sampled_from(["", "", "", None, *GROUPS]),
    )

    # The quota of a dynamic queue may change at any time.
    set_queue_quota: _Rule = _comparing("set_queue_quota", queue_path=QUEUES, quota=QUOTAS)

    # The gang of an application times out, or the application completes, fails or is removed.
    end: _Rule = _comparing("time_out_gang", "time_out_gang", "complete", "fail", "remove", application_id=APPLICATIONS)

    @precondition(lambda self: len(self.model.held) > 4)  # noqa: PLR2004 - late, because no application can be submitted afterwards
    @rule(really=st.sampled_from([False, False, False, True]))
    def terminate(self, *, really: bool) -> None:
        """If the partition is terminated, all applications fail."""
        if really:
            self.both("terminate", confirm=True)

    # Allocations

    # An allocation is granted if and only if it fits all limits; a denial names all exceeded limits.
    allocate: _Rule = _comparing("allocate", allocation_id=ASKS)
    # A requested allocation is pending, and is not charged.
    request: _Rule = _comparing("request", allocation_id=ASKS)
    # An adopted allocation is charged, and the exceeded limits are returned.
    adopt: _Rule = _comparing("adopt", allocation_id=ASKS)

    @rule(seconds=st.sampled_from([1, 30, 3600]))
    def wait(self, seconds: int) -> None:
        """Time passes, which changes nothing."""
        self.time += seconds
        self.model.now = self.time

    # Several allocations are granted together or not at all; a denial names the exceeded limits.
    allocate_all: _Rule = _comparing(
        "allocate_all", requests=st.lists(FRESH_ASKS, max_size=3) | st.lists(ASKS, max_size=3), compared=exceeded_by
    )

    @rule(request=FRESH_ASKS, real=FRESH_ASKS, ends=st.booleans())
    def gang(self, request: AllocationRequest, real: AllocationRequest, *, ends: bool) -> None:
        """A placeholder is replaced by a pending allocation; then the gang times out."""
        placeholder = request._replace(placeholder=True)
        self.both("allocate", placeholder)
        self.both("request", real._replace(application_id=request.application_id, placeholder=False))
        self.both("replace", request.allocation_id, real.allocation_id, real.usage)
        if ends:
            self.both("release", real.allocation_id)
            self.both("allocate", placeholder)
            self.both("time_out_gang", request.application_id)

    @rule(placeholder_id=PLACEHOLDERS, allocation_id=st.sampled_from(ALLOCATIONS), usage=USAGES, same=st.booleans())
    def replace(self, placeholder_id: str, allocation_id: str, usage: Resource, *, same: bool) -> None:
        """A placeholder is replaced by a new or a pending allocation; only the growth is checked."""
        known = self.model.held.get(allocation_id) or self.model.held.get(placeholder_id)
        for _ in range(2):
            self.both("replace", placeholder_id, allocation_id, known.usage if known and same else usage)

    # A resize only checks the growth.
    resize: _Rule = _comparing("resize", allocation_id=HELD, usage=USAGES)

    # A terminating allocation is charged until it is released.
    preempt: _Rule = _comparing("preempt", allocation_id=HELD)

    @rule(allocation_id=HELD)
    def release(self, allocation_id: str) -> None:
        """A second release has no effect."""
        for _ in range(2):
            self.both("release", allocation_id)

    # A promised end moves; further quota models check a later one.
    renew: _Rule = precondition(lambda self: self.reads_clock)(
        _comparing("renew", allocation_id=HELD, duration=st.sampled_from([1, 60, 3600, 90_000, None]))
    )

    @precondition(lambda self: self.reads_clock)
    @rule(operation=st.sampled_from(["expire", "release_overdue"]))
    def expire(self, operation: str) -> None:
        """The allocations whose promised end has come terminate, or are released."""
        self.both("overdue", compared=list)
        for _ in range(2):
            self.both(operation)

    # The cluster

    # The quota of the root is the sum of the nodes.
    node: _Rule = _comparing("add_node", "update_node", name=NODES, offers=OFFERS)
    # The removal of a node lowers the quota of the root, but does not evict allocations.
    remove_node: _Rule = _comparing("remove_node", name=NODES)

    # The configuration

    # A new configuration changes limits and queues, but not usage.
    configure: _Rule = _comparing("configure", config=full_partitions())

    @rule(config=full_partitions() | st.none())
    def plan(self, config: PartitionConfig | None) -> None:
        """A plan does not change the state."""
        with self.nothing_changes():
            self.plans.append((self.partition.plan(config), config))

    @precondition(lambda self: self.plans)
    @rule(planned=st.runner().flatmap(lambda machine: st.sampled_from(machine.plans)))
    def apply(self, planned: tuple[ConfigPlan, PartitionConfig | None]) -> None:
        """An applied plan has the planned effects; a plan for another configuration is refused."""
        plan, config = planned
        # What a plan that can be applied now is based on.
        version = self.partition.plan(None).base.version
        if plan.compiled.version == version:
            with self.nothing_changes():
                self.partition.apply(plan, confirm=True)
            return
        if plan.base.version != version or plan.risks:
            self.refused("apply", plan)
        if plan.base.version == version:
            latest = self.partition.plan(config)
            self.partition.apply(plan, confirm=True)
            self.model.configure(config)
            agree(unordered(latest.exceeded), unordered(self.model.exceeded_limits()), "planned exceeded limits")
            agree([tuple(one) for one in latest.draining], self.model.leaving(), "planned draining queues")

    # Audits

    @rule(
        differences=st.dictionaries(st.sampled_from(ALLOCATIONS), DIFFERENCES, max_size=3),
        has_nodes=st.booleans(),
        later=st.booleans(),
    )
    def audit(self, differences: dict[str, dict[str, Any] | None], *, has_nodes: bool, later: bool) -> None:
        """An audit finds all differences, and a reconciliation repairs those that still exist."""
        running = {
            one.allocation_id: RunningAllocation(*one[:3], one.node if has_nodes else None)
            for one in self.model.entries()
        }
        for name, changes in differences.items():
            one = running.pop(name, RunningAllocation(name, "stranger", Resource()))
            if changes is not None:
                running[name] = one._replace(**changes)
        with self.nothing_changes():
            report = self.both("audit", list(running.values()))
        self.reports.append(report)
        if not later:
            self.both("reconcile", report)
            left = self.partition.audit(running.values())
            agree([one for one in left.differences if one.is_application_known], [], "left after a repair")

    # An older report can be used for a repair.
    reconcile: _Rule = precondition(lambda self: self.reports)(
        _comparing("reconcile", report=st.runner().flatmap(lambda machine: st.sampled_from(machine.reports)))
    )

    # Queries

    @rule(application_id=APPLICATIONS, usage=USAGES)
    def check(self, application_id: str, usage: Resource) -> None:
        """A check returns the decision on an allocation, and does not change the state."""
        with self.nothing_changes():
            decision = self.both("check", application_id, usage)
            if decision is not None:
                agree(self.partition.explain(application_id, usage).decision, decision, "explain")

    @rule(application_id=APPLICATIONS)
    def headroom(self, application_id: str) -> None:
        """The headroom is the smallest free amount of all limits; other quota models can only reduce it."""
        answers: list[Resource | None] = []
        with self.nothing_changes():
            self.both("headroom", application_id, compared=answers.append if self.models else comparable)
        if answers:
            found, expected = (answer or Resource() for answer in answers)
            agree([name for name in expected if name not in found or found[name] > expected[name]], [], "headroom")

    @rule(data=st.data())
    def queue_headroom(self, data: st.DataObject) -> None:
        """The headroom of a queue is defined with and without the cluster."""
        path = data.draw(st.sampled_from(self.model.queues.paths()), label="queue")
        places = [Place(TrackingType.QUEUE, above, above) for above in upward(path)]
        for cluster in (True, False):
            counted = [place for place in places if cluster or place.queue_path != ROOT]
            found = self.partition.queue_headroom(path, cluster=cluster)
            agree(found, self.model.headroom_at(counted), "queue_headroom")

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
