"""Plans while the partition changes: made, stale, carried out partly, repeated, in a store that is reopened.

The timers of reductions are compared with those that follow from the usage and the maximum of every queue.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.examples import examples
from support.random_changes import state_of
from ugm import AllocationRequest, Partition, RequestError, Resource, UserGroup, parse_config
from ugm.configuration import PartitionConfig
from ugm.partition import AllocationState
from ugm.preemption import Outcome, PreemptionPlan, ReductionPlan
from ugm.store import StoredPartition, open_partition

SMALL: Final = settings(max_examples=examples(16), stateful_step_count=20)

QUEUES: Final = ("root.a", "root.b.x", "root.b.y")
ALLOCATIONS: Final = st.sampled_from([f"n{number}" for number in range(12)])
APPLICATIONS: Final = st.sampled_from(["app-0", "app-1", "app-2"])
AMOUNTS: Final = st.integers(1, 5)


def config(guaranteed: int, policy: str, delays: tuple[int, int] = (0, 0), *, enabled: bool = True) -> PartitionConfig:
    """Return a configuration with guarantees, a policy for one queue, and delays of reductions for two."""
    most = 8 if guaranteed > 5 else 4
    return parse_config(f"""
partitions:
  - preemption: {{quotapreemptionenabled: {str(enabled).lower()}}}
    queues:
      - {{name: a, resources: {{guaranteed: {{cpu: {guaranteed}}}}}}}
      - name: b
        resources: {{guaranteed: {{cpu: {10 - guaranteed}}}, max: {{cpu: {most + 3}}}}}
        properties: {{quota.preemption.delay: {delays[0]}s}}
        queues:
          - name: x
            resources: {{max: {{cpu: {most}}}}}
            properties: {{preemption.policy: {policy}, quota.preemption.delay: {delays[1]}s}}
          - {{name: y, resources: {{guaranteed: {{cpu: 3}}}}}}
""").partition()


CONFIGS: Final = [
    *(config(guaranteed, policy) for guaranteed in (7, 4) for policy in ("default", "fence", "disabled")),
    *(config(guaranteed, "default", delays) for guaranteed in (7, 4) for delays in ((5, 0), (5, 9), (0, 20))),
    config(4, "default", (5, 9), enabled=False),
]


def drawn(start: int, stop: int) -> st.SearchStrategy[int]:
    """Return a strategy for the number of a configuration."""
    return st.sampled_from(range(start, stop))


def exceeded(partition: Partition) -> list[str]:
    """Return the queues above their maximum that take part in reductions."""
    config = partition.config
    assert config is not None
    if not config.preemption.quota_preemption_enabled:
        return []
    paths = [path for path, queue in config.root.walk() if queue.properties.get("quota.preemption.delay", "0s") != "0s"]
    states = [state for path in paths if (state := partition.queue(path)) is not None]
    return [
        state.queue_path
        for state in states
        if any(state.usage.get(name, 0) > most for name, most in (state.max_resources or {}).items())
    ]


class PreemptionMachine(RuleBasedStateMachine):
    """A partition with a cluster of 10, whose plans become stale."""

    partition: StoredPartition
    folder: TemporaryDirectory[str]

    @initialize(number=drawn(0, len(CONFIGS)))
    def begin(self, number: int) -> None:
        """Start with an empty cluster."""
        self.folder = TemporaryDirectory()
        self.time = 100
        #: The timers that follow from the usage of queues.
        self.timers: dict[str, int] = {}
        self.partition = self.opened(CONFIGS[number])
        self.partition.add_node("node", Resource(cpu=10))
        for application, queue in enumerate(QUEUES):
            self.partition.submit(f"app-{application}", UserGroup("sue"), queue)
        self.plans: list[PreemptionPlan | ReductionPlan] = []

    def opened(self, first: PartitionConfig | None) -> StoredPartition:
        """Open the store."""
        return open_partition(Path(self.folder.name) / "store", first, clock=lambda: self.time)

    @rule(name=ALLOCATIONS, application=APPLICATIONS, amount=AMOUNTS, priority=st.integers(0, 2), stays=st.booleans())
    def allocate(self, name: str, application: str, amount: int, priority: int, *, stays: bool) -> None:
        """Allocate something, if the name is free."""
        if self.partition.allocation(name) is None:
            options = {"priority": priority, "preemptible": not stays or amount > 1}
            self.partition.allocate(name, application, Resource(cpu=amount), **options)  # type: ignore[arg-type] # a mapping

    @rule(name=ALLOCATIONS, application=APPLICATIONS, amount=AMOUNTS)
    def adopt(self, name: str, application: str, amount: int) -> None:
        """Adopt an allocation, perhaps beyond a maximum."""
        if self.partition.allocation(name) is None:
            self.partition.adopt(name, application, Resource(cpu=amount))

    @rule(application=APPLICATIONS, amount=AMOUNTS)
    def request(self, application: str, amount: int) -> None:
        """Request something, unless it is pending or granted."""
        if self.partition.allocation("new") is None:
            self.partition.request("new", application, Resource(cpu=amount))

    @rule(grants=st.booleans())
    def end_request(self, *, grants: bool) -> None:
        """Grant or withdraw the request, which has no right to room then."""
        found = self.partition.allocation("new")
        if found is None or not grants or self.partition.allocate("new", found.application_id, found.usage):
            if not grants:
                self.partition.release("new")
            assert self.partition.preemption_status().placed == ()

    @rule(seconds=st.integers(1, 15))
    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.time += seconds

    @rule(name=ALLOCATIONS)
    def release(self, name: str) -> None:
        """Release an allocation."""
        self.partition.release(name)

    @rule(name=ALLOCATIONS)
    def preempt(self, name: str) -> None:
        """Mark an allocation, perhaps one of the victims of a plan."""
        self.partition.preempt(name)

    @rule(number=drawn(0, len(CONFIGS)))
    def configure(self, number: int) -> None:
        """Change guarantees and policies."""
        plan = self.partition.plan(CONFIGS[number])
        before = {timer.queue_path for timer in self.partition.reduction_timers()}
        self.partition.apply(plan, confirm=True)
        started = {timer.queue_path for timer in self.partition.reduction_timers()} - before
        assert {one.queue_path for one in plan.reductions} == started

    @rule(amount=st.integers(6, 12))
    def update_node(self, amount: int) -> None:
        """Change the size of the cluster."""
        self.partition.update_node("node", Resource(cpu=amount))

    @rule(application=APPLICATIONS, amount=AMOUNTS, priority=st.integers(0, 2), within=st.booleans())
    def make_plan(self, application: str, amount: int, priority: int, *, within: bool) -> None:
        """Make a plan, which changes nothing."""
        before = state_of(self.partition)
        pending = self.partition.allocation("new")
        if pending is not None:
            application, amount, priority = pending.application_id, pending.usage["cpu"], 0
        request = AllocationRequest("new", application, Resource(cpu=amount), priority=priority)
        plan = self.partition.plan_preemption(request, since=0, now=60, within_queue=within)
        assert state_of(self.partition) == before
        assert bool(plan) == (plan.outcome is Outcome.PLAN) == bool(plan.victims)
        if plan.outcome is Outcome.FITS and pending is None:
            assert self.partition.check(application, request.usage)
        if plan:
            self.plans.append(plan)

    @rule(overshoot=st.booleans())
    def make_reductions(self, *, overshoot: bool) -> None:
        """Make a plan for due queues, which changes nothing and leaves guarantees."""
        before = state_of(self.partition)
        plan = self.partition.plan_reductions(overshoot=overshoot)
        assert state_of(self.partition) == before
        assert {one.queue_path: one.since for one in plan.queues}.items() <= self.timers.items()
        assert all(one.due <= self.time for one in plan.queues)
        if plan:
            self.plans.append(plan)

    @precondition(lambda self: self.plans)
    @rule(data=st.data())
    def carry_out(self, data: st.DataObject) -> None:
        """Carry a plan out: all victims become terminating, or nothing changes."""
        plan = data.draw(st.sampled_from(self.plans))
        before = state_of(self.partition)
        try:
            marked = self.partition.carry_out(plan)
        except RequestError:
            assert state_of(self.partition) == before
            return
        if marked and isinstance(plan, PreemptionPlan) and plan.is_pending:
            assert self.partition.allocation("new") is not None, "the request was withdrawn"
        if not marked:
            assert state_of(self.partition) == before
        found = [self.partition.allocation(victim.allocation_id) for victim in plan.victims]
        assert all(one is None or one.state is AllocationState.TERMINATING for one in found)
        if isinstance(plan, PreemptionPlan):
            self.check_right(plan)
        assert self.partition.carry_out(plan) == ()

    def check_right(self, plan: PreemptionPlan) -> None:
        """A pending request has the right to the room of its plan."""
        placed = [one.allocation for one in self.partition.preemption_status().placed]
        pending = self.partition.allocation("new")
        assert placed == ([pending] if pending is not None and pending.state is AllocationState.PENDING else [])
        assert all(one.usage == plan.request.usage for one in placed)

    @rule(application=APPLICATIONS, amount=AMOUNTS)
    def carry_out_and_grant(self, application: str, amount: int) -> None:
        """A plan that is carried out at once makes room for its request, with the other terminating ones released."""
        if self.partition.allocation("new") is not None:
            return
        request = AllocationRequest("new", application, Resource(cpu=amount), priority=1)
        plan = self.partition.plan_preemption(request, since=0, now=60, within_queue=True)
        if plan:
            assert self.partition.carry_out(plan) == tuple(victim.allocation_id for victim in plan.victims)
            for one in self.partition.allocations():
                if one.state is AllocationState.TERMINATING:
                    self.partition.release(one.allocation_id)
            assert self.partition.check(application, request.usage)

    @rule()
    def reopen(self) -> None:
        """The store has the victims of all plans, the rights to room, and the timers."""
        before, status = state_of(self.partition), self.partition.preemption_status()
        self.partition.close()
        self.partition = self.opened(None)
        assert state_of(self.partition) == before
        assert self.partition.preemption_status() == replace(status, plans={})

    @invariant()
    def timers_follow_from_usage(self) -> None:
        """A timer runs exactly while a queue that takes part is above its maximum."""
        if hasattr(self, "partition"):
            self.timers = {path: self.timers.get(path, self.time) for path in exceeded(self.partition)}
            found = self.partition.reduction_timers()
            assert {timer.queue_path: timer.since for timer in found} == self.timers

    @invariant()
    def is_consistent(self) -> None:
        """Every counter follows from the ledger."""
        if hasattr(self, "partition"):
            self.partition.verify()

    def teardown(self) -> None:
        """Close the store and remove it."""
        if hasattr(self, "partition"):
            self.partition.close()
            self.folder.cleanup()


TestPreemption: Final = PreemptionMachine.TestCase
TestPreemption.settings = SMALL
