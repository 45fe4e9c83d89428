"""Plans for requests while the partition changes: made, stale, carried out, repeated, in a journal that is reopened."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.examples import examples
from support.random_changes import state_of
from ugm import AllocationRequest, RequestError, Resource, UserGroup, parse_config
from ugm.configuration import PartitionConfig
from ugm.journal import JournaledPartition, open_partition
from ugm.partition import AllocationState
from ugm.preemption import Outcome, PreemptionPlan

SMALL: Final = settings(max_examples=examples(16), stateful_step_count=20)
DEEP: Final = settings(max_examples=300, stateful_step_count=50)

QUEUES: Final = ("root.a", "root.b.x", "root.b.y")
ALLOCATIONS: Final = st.sampled_from([f"n{number}" for number in range(12)])
APPLICATIONS: Final = st.sampled_from(["app-0", "app-1", "app-2"])
AMOUNTS: Final = st.integers(1, 5)


def config(guaranteed: int, policy: str) -> PartitionConfig:
    """Return a configuration with guarantees, and a policy for one queue."""
    return parse_config(f"""
partitions:
  - queues:
      - {{name: a, resources: {{guaranteed: {{cpu: {guaranteed}}}}}}}
      - name: b
        resources: {{guaranteed: {{cpu: {10 - guaranteed}}}}}
        queues:
          - {{name: x, resources: {{max: {{cpu: 8}}}}, properties: {{preemption.policy: {policy}}}}}
          - {{name: y, resources: {{guaranteed: {{cpu: 3}}}}}}
""").partition()


CONFIGS: Final = [config(guaranteed, policy) for guaranteed in (7, 4) for policy in ("default", "fence", "disabled")]


class PreemptionMachine(RuleBasedStateMachine):
    """A partition with a cluster of 10, whose plans become stale."""

    partition: JournaledPartition
    folder: TemporaryDirectory[str]

    @initialize(number=st.sampled_from(range(len(CONFIGS))))
    def begin(self, number: int) -> None:
        """Start with an empty cluster."""
        self.folder = TemporaryDirectory()
        self.partition = self.opened(CONFIGS[number])
        self.partition.add_node("node", Resource(cpu=10))
        for application, queue in enumerate(QUEUES):
            self.partition.submit(f"app-{application}", UserGroup("sue"), queue)
        self.plans: list[PreemptionPlan] = []

    def opened(self, first: PartitionConfig | None) -> JournaledPartition:
        """Open the journal."""
        return open_partition(Path(self.folder.name) / "journal", first)

    @rule(name=ALLOCATIONS, application=APPLICATIONS, amount=AMOUNTS, priority=st.integers(0, 2), stays=st.booleans())
    def allocate(self, name: str, application: str, amount: int, priority: int, *, stays: bool) -> None:
        """Allocate something, if the name is free."""
        if self.partition.allocation(name) is None:
            options = {"priority": priority, "preemptible": not stays or amount > 1}
            self.partition.allocate(name, application, Resource(cpu=amount), **options)  # type: ignore[arg-type] # a mapping

    @rule(name=ALLOCATIONS)
    def release(self, name: str) -> None:
        """Release an allocation."""
        self.partition.release(name)

    @rule(name=ALLOCATIONS)
    def preempt(self, name: str) -> None:
        """Mark an allocation, perhaps one of the victims of a plan."""
        self.partition.preempt(name)

    @rule(number=st.sampled_from(range(len(CONFIGS))))
    def configure(self, number: int) -> None:
        """Change guarantees and policies."""
        self.partition.configure(CONFIGS[number])

    @rule(amount=st.integers(6, 12))
    def update_node(self, amount: int) -> None:
        """Change the size of the cluster."""
        self.partition.update_node("node", Resource(cpu=amount))

    @rule(application=APPLICATIONS, amount=AMOUNTS, priority=st.integers(0, 2), within=st.booleans())
    def make_plan(self, application: str, amount: int, priority: int, *, within: bool) -> None:
        """Make a plan, which changes nothing."""
        before = state_of(self.partition)
        request = AllocationRequest("new", application, Resource(cpu=amount), priority=priority)
        plan = self.partition.plan_preemption(request, since=0, now=60, within_queue=within)
        assert state_of(self.partition) == before
        assert bool(plan) == (plan.outcome is Outcome.PLAN) == bool(plan.victims)
        if plan.outcome is Outcome.FITS:
            assert self.partition.check(application, request.usage)
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
        if not marked:
            assert state_of(self.partition) == before
        found = [self.partition.allocation(victim.allocation_id) for victim in plan.victims]
        assert all(one is None or one.state is AllocationState.TERMINATING for one in found)
        assert self.partition.carry_out(plan) == ()

    @precondition(lambda self: self.plans)
    @rule()
    def carry_out_and_grant(self) -> None:
        """A plan that is carried out at once makes room for its request, with the other terminating ones released."""
        wanted = self.plans[-1].request
        request = AllocationRequest("new", wanted.application_id, wanted.usage, priority=wanted.priority)
        plan = self.partition.plan_preemption(request, since=0, now=60, within_queue=True)
        if plan:
            assert self.partition.carry_out(plan) == tuple(victim.allocation_id for victim in plan.victims)
            for one in self.partition.allocations():
                if one.state is AllocationState.TERMINATING:
                    self.partition.release(one.allocation_id)
            assert self.partition.check(wanted.application_id, wanted.usage)

    @rule()
    def reopen(self) -> None:
        """The journal has the victims of all plans."""
        before = state_of(self.partition)
        self.partition.journal.close()
        self.partition = self.opened(None)
        assert state_of(self.partition) == before

    @invariant()
    def is_consistent(self) -> None:
        """Every counter follows from the ledger."""
        if hasattr(self, "partition"):
            self.partition.verify()

    def teardown(self) -> None:
        """Close the journal and remove it."""
        if hasattr(self, "partition"):
            self.partition.journal.close()
            self.folder.cleanup()


TestPreemption: Final = PreemptionMachine.TestCase
TestPreemption.settings = SMALL


class DeepPreemptionMachine(PreemptionMachine):
    """The same, longer."""


TestPreemptionOften: Final = pytest.mark.deep(DeepPreemptionMachine.TestCase)
TestPreemptionOften.settings = DEEP
