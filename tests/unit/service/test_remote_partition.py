"""A remote partition: every operation has the same results and errors as the partition itself."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import pytest

from support.loopback import async_remote, remote
from support.partition_fixtures import config, memory
from ugm import AllocationRequest, Partition, RequestError, Resource, UserGroup, UserInQueue
from ugm.budgets import BudgetChange
from ugm.configuration import BudgetConfig
from ugm.partition import (
    AbstractPartition,
    AllocationSpec,
    AuditReport,
    ConfigPlan,
    Difference,
    ReclaimPlan,
    ReclaimVictim,
    RunningAllocation,
    RunningApplication,
)
from ugm.partition.answers.snapshot import PartitionSnapshot
from ugm.preemption import PreemptionPlan, ReductionPlan
from ugm.preemption import Victim as PreemptionVictim
from ugm.service.protocol.operations import OPERATIONS
from ugm.service.remote import AsyncRemotePartition, RemotePartition
from ugm.testing.invariants import exposed_partition

QUEUES: Final = (
    "{name: p, parent: true, childtemplate: {resources: {guaranteed: {memory: 2}}}}, "
    "{name: a, resources: {max: {memory: 20}}, submitacl: 'sue,bob ops', limits: ["
    "{limit: s, users: [sue], maxresources: {memory: 9}}, {limit: d, groups: [dev], maxapplications: 3}]}"
)
RULES: Final = "{name: tag, value: namespace, create: true, parent: {name: fixed, value: p}}, {name: provided}"
FIRST: Final = config(QUEUES, rules=RULES)
SECOND: Final = config("{name: a, resources: {max: {memory: 3}}}", rules=RULES)
SUE: Final = UserGroup("sue", ("dev", "ops"))
BOB: Final = UserGroup("bob")
MANY: Final = Resource({"memory": 2**70, "nvidia.com/gpu": 3})


def busy() -> Partition:
    """Return a partition with allocations of every kind, at the same time in each call."""
    partition = Partition(FIRST, clock=lambda: 1000)
    partition.add_node("n1", memory(100))
    partition.add_node("n2", Resource(memory=10, gpu=2))
    assert partition.submit("one", SUE, "root.a", tags={"team": "red"})
    assert partition.submit("two", BOB, "root.a", gang_style="hard")
    assert partition.submit("dynamic", SUE, tags={"namespace": "x"}, quota=memory(7))
    assert partition.allocate("one-0", "one", memory(4))
    assert partition.allocate("two-0", "two", memory(3), placeholder=True)
    assert partition.allocate("dynamic-0", "dynamic", memory(2), priority=3, preemptible=False)
    partition.request("one-1", "one", memory(6))
    partition.submit("idle", BOB, "root.a")
    partition.adopt_application("failed", BOB, "root.a")
    partition.adopt("failed-0", "failed", memory(1))
    partition.fail("failed")
    partition.adopt("one-2", "one", memory(8))
    return partition


#: Calls of every operation. Errors are encoded in the same way for all operations.
CALLS: Final[Mapping[str, Sequence[Callable[[AbstractPartition], object]]]] = {
    "request": [lambda p: p.request("n", "two", memory(1), placeholder=True, priority=-5, preemptible=False)],
    "allocate": [
        lambda p: p.allocate("n", "one", memory(1)),
        lambda p: p.allocate("n", "two", MANY),
        lambda p: p.allocate("n", "two", Resource()),
        lambda p: p.allocate("n", "two", memory(1), preemptible=False, placeholder=True, priority=7),
        lambda p: p.allocate("n", "two", memory(1), priority=2**80),
        lambda p: p.allocate("n" * 257, "two", memory(1)),
        lambda p: p.allocate("", "two", memory(1)),
        lambda p: p.allocate("one-0", "two", memory(1)),
        lambda p: p.allocate("n", "failed", memory(-1)),
    ],
    "allocate_ignoring_reservations": [
        lambda p: p.allocate_ignoring_reservations(AllocationRequest("n", "two", memory(1), priority=2))
    ],
    "allocate_evicting": [lambda p: p.allocate_evicting("n", "one", memory(1), priority=1)],
    "allocate_all": [
        lambda p: p.allocate_all([("n", "two", memory(1)), AllocationRequest("m", "two", memory(2), priority=1)]),
        lambda p: p.allocate_all(("n", name, memory(9)) for name in ("one", "two")),
    ],
    "replace": [lambda p: p.replace("two-0", "n", memory(2)), lambda p: p.replace("two-0", "n", memory(200))],
    "resize": [lambda p: p.resize("one-0", memory(1)), lambda p: p.resize("one-0", memory(1000))],
    "renew": [lambda p: p.renew("one-0", 60), lambda p: p.renew("one-0", 0)],
    "scheduled_changes": [lambda p: p.scheduled_changes(), lambda p: p.scheduled_changes(max_changes=-1)],
    "overdue": [lambda p: p.overdue(now=2**40)],
    "expire": [lambda p: p.expire(now=2**40), lambda p: p.expire(now=0)],
    "release_overdue": [lambda p: p.release_overdue(now=2**40), lambda p: p.release_overdue()],
    "preempt": [lambda p: p.preempt("one-0"), lambda p: p.preempt("none")],
    "release": [lambda p: p.release("one-0"), lambda p: p.release("none")],
    "reclaim": [lambda p: p.reclaim(p.plan_reclaim("two", memory(1))), lambda p: p.reclaim(lending_plan(p))],
    "carry_out": [
        lambda p: p.carry_out(preemption_plan(p)),
        lambda p: p.carry_out(ReductionPlan(0, victims=preemption_plan(p).victims)),
        lambda p: p.carry_out(p.plan_reductions()),
    ],
    "adopt": [lambda p: p.adopt("n", "one", memory(50), priority=9)],
    "submit": [
        lambda p: p.submit("n", BOB, tags={"namespace": "y"}, quota=memory(3), gang_style="hard"),
        lambda p: p.submit("n", UserGroup("eve"), "root.a"),
        lambda p: p.submit("n", BOB, "root.a", gang_style="lazy"),
    ],
    "adopt_application": [
        lambda p: p.adopt_application("n", SUE, "root.p.new", tags={"a": "b"}, quota=memory(1), group="ops"),
        lambda p: p.adopt_application("n", SUE, "root.p.new", group=None),
    ],
    "complete": [lambda p: p.complete("idle"), lambda p: p.complete("one")],
    "fail": [lambda p: p.fail("one")],
    "remove": [lambda p: p.remove("one")],
    "time_out_gang": [lambda p: p.time_out_gang("two")],
    "terminate": [lambda p: p.terminate(confirm=True)],
    "set_queue_quota": [lambda p: p.set_queue_quota("root.p.x", memory(3))],
    "change_budget": [
        lambda p: p.change_budget(BudgetChange.set("all", memory(5))._replace(owner="sue")),
        lambda p: budgeted(p).change_budget(BudgetChange.refill("all", memory(5), reason="more", change_id="1")),
    ],
    "budget_accounts": [
        lambda p: p.budget_accounts(SUE, "root.a"),
        lambda p: budgeted(p).budget_accounts(),
        lambda p: p.budget_accounts(queue_path="."),
    ],
    "add_node": [lambda p: p.add_node("n3", Resource(fpga=1)), lambda p: p.add_node("n1", memory(3))],
    "update_node": [lambda p: p.update_node("n1", memory(1))],
    "remove_node": [lambda p: p.remove_node("n1"), lambda p: p.remove_node("n3")],
    "plan": [lambda p: p.plan(SECOND), lambda p: p.plan(None)],
    "apply": [
        lambda p: p.apply(p.plan(SECOND)),
        lambda p: p.apply(p.plan(SECOND), confirm=True),
        lambda p: p.apply(p.plan(None)._replace(base=p.plan(None).compiled)),
    ],
    "configure": [lambda p: p.configure(SECOND), lambda p: p.configure(None)],
    "audit": [lambda p: p.audit([("one-0", "one", memory(4)), RunningAllocation("x", "nobody", memory(1))])],
    "reconcile": [
        lambda p: p.reconcile(p.audit([("one-0", "one", memory(5)), ("n", "one", memory(1))])),
        lambda p: p.reconcile(AuditReport((Difference(None, None),))),
    ],
    "admit": [
        lambda p: p.admit("new", SUE, "root.a", [("new-0", memory(1)), AllocationSpec("new-1", memory(1), priority=2)]),
        lambda p: p.admit("new", SUE, "root.a", [("new-0", memory(50))]),
        lambda p: p.admit("one", SUE, "root.a", [("one-0", memory(5))], tags={"team": "red"}),
    ],
    "end": [lambda p: p.end("one"), lambda p: p.end("nobody")],
    "synchronize": [
        lambda p: p.synchronize([RunningApplication("one", SUE, "root.a", [("one-0", memory(9))])], starting=["two"])
    ],
    "verify": [lambda p: p.verify()],
    "check": [
        lambda p: p.check("one", memory(1)),
        lambda p: p.check(UserInQueue(SUE, "root.a", {"a": "b"}, memory(1)), memory(2)),
        lambda p: p.check("two", MANY, priority=2, preemptible=False),
    ],
    "plan_reclaim": [
        lambda p: p.plan_reclaim("one", memory(1), priority=3, preemptible=False, duration=60),
        lambda p: p.plan_reclaim(UserInQueue(SUE, "root.a", {"a": "b"}), memory(200)),
    ],
    "plan_reductions": [lambda p: p.plan_reductions(10, overshoot=False), lambda p: p.plan_reductions(1 << 70)],
    "reduction_timers": [lambda p: p.reduction_timers()],
    "preemption_status": [lambda p: p.preemption_status()],
    "plan_preemption": [
        lambda p: p.plan_preemption(AllocationRequest("n", "two", memory(99)), since=0, now=1000, within_queue=True),
        lambda p: p.plan_preemption(
            AllocationRequest("n", "one", memory(9), priority=3), since=0, now=1000, placed=[("x", "two", memory(1))]
        ),
    ],
    "explain": [lambda p: p.explain("one", memory(3)), lambda p: p.explain("one", memory(3), max_holders=-1)],
    "pending_headroom": [lambda p: p.pending_headroom(UserInQueue(BOB, "root.p.x"))],
    "headroom": [lambda p: p.headroom("one")],
    "limits": [lambda p: p.limits("one"), lambda p: p.limits(UserInQueue(BOB, "root.p.x"))],
    "place": [
        lambda p: p.place(SUE, "root.a"),
        lambda p: p.place(SUE, "root.z"),
        lambda p: p.place(SUE, tags={"": ""}),
    ],
    "explain_submission": [
        lambda p: p.explain_submission(SUE, "root.a", memory(10)),
        lambda p: p.explain_submission(SUE, "", memory(10), {"namespace": "z"}, quota=memory(1), max_holders=2),
        lambda p: p.explain_submission(SUE, "root.nowhere", memory(10)),
    ],
    "application": [lambda p: p.application("one"), lambda p: p.application("nobody")],
    "applications": [lambda p: p.applications(), lambda p: p.applications("root.p")],
    "applications_by_id": [lambda p: p.applications_by_id(["two", "nobody", "one"])],
    "application_ids": [lambda p: p.application_ids()],
    "application_report": [
        lambda p: p.application_report("one"),
        lambda p: p.application_report("one", max_pending=0, max_holders=0),
    ],
    "allocation": [lambda p: p.allocation("one-0"), lambda p: p.allocation("one-1"), lambda p: p.allocation("none")],
    "allocations": [lambda p: p.allocations(), lambda p: p.allocations("two")],
    "allocations_by_id": [lambda p: p.allocations_by_id(name for name in ("two-0", "none", "one-1"))],
    "allocation_ids": [lambda p: p.allocation_ids()],
    "config": [lambda p: p.config],
    "queue": [lambda p: p.queue(), lambda p: p.queue("root.p"), lambda p: p.queue("root.z"), lambda p: p.queue(".")],
    "queue_paths": [lambda p: p.queue_paths()],
    "queue_headroom": [lambda p: p.queue_headroom("root.a"), lambda p: p.queue_headroom("root.p", cluster=False)],
    "queue_maximum": [lambda p: p.queue_maximum("root.a")],
    "pending": [lambda p: p.pending("root.a")],
    "nodes": [lambda p: p.nodes()],
    "users": [lambda p: p.users()],
    "user": [lambda p: p.user("sue"), lambda p: p.user("nobody")],
    "user_names": [lambda p: p.user_names()],
    "groups": [lambda p: p.groups()],
    "group": [lambda p: p.group("dev"), lambda p: p.group("nobody")],
    "group_names": [lambda p: p.group_names()],
    "exceeded_limits": [lambda p: p.exceeded_limits()],
    "model_utilization": [lambda p: p.model_utilization()],
    "model_reports": [lambda p: p.model_reports()],
    "order": [lambda p: p.order(max_turns=1, ranks={"sue": 1}), lambda p: p.order(explained=False)],
    "reservations": [lambda p: p.reservations()],
    "snapshot": [lambda p: p.snapshot()],
}
#: One call of each operation by itself, for parametrization.
EACH: Final = [(name, position) for name, calls in CALLS.items() for position in range(len(calls))]


def budgeted(partition: AbstractPartition) -> AbstractPartition:
    """Declare a budget of a queue that nothing uses."""
    budget = BudgetConfig("all", queue="root.p.empty", amounts=memory(10), weights={"memory": Fraction(1, 2)})
    partition.configure(replace(FIRST, ugm=replace(FIRST.ugm, budgets=(budget,))))
    return partition


def lending_plan(partition: AbstractPartition) -> ReclaimPlan:
    """Return a plan with a victim that no model lends to."""
    victim = ReclaimVictim("one-0", "one", "sue", "root.a", memory(4), 0, ())
    return replace(partition.plan_reclaim("one", memory(1)), victims=(victim,))


def preemption_plan(partition: AbstractPartition) -> PreemptionPlan:
    """Return a plan with a victim."""
    victim = PreemptionVictim("one-0", "one", "root.a", memory(4), 0)
    plan = partition.plan_preemption(AllocationRequest("n", "two", memory(99)), since=0, now=1000)
    return replace(plan, victims=(victim,))


def outcome(call: Callable[[AbstractPartition], object], partition: AbstractPartition) -> object:
    """Return the result of a call in a form that can be compared, or the class and the data of its error."""
    try:
        return comparable(call(partition))
    except Exception as error:  # noqa: BLE001 - compared
        return type(error), str(error), getattr(error, "code", "")


def comparable(result: object) -> object:
    """Return a result, or values of an object without comparison."""
    if isinstance(result, ConfigPlan):
        return result[:4], result.base.config, result.compiled.config
    if isinstance(result, PartitionSnapshot):
        snapshot = result
        users = [(snapshot.user(name), snapshot.limits_of_user(name).utilization) for name in snapshot.user_names]
        return snapshot.config, snapshot.parts, snapshot.queue(), users, dict(snapshot.pending.queues)
    return result


def test_every_operation_is_called() -> None:
    """The calls of this module cover the interface."""
    assert set(CALLS) == {name for name in dir(AbstractPartition) if not name.startswith("_")} - {"close"}


@pytest.mark.filterwarnings("ignore::ugm.ResourceNameWarning")
@pytest.mark.parametrize(("name", "position"), EACH)
def test_same_outcome(name: str, position: int) -> None:
    """A call has the same result or error and the same effect as with the partition itself."""
    call = CALLS[name][position]
    direct, behind = busy(), busy()
    expected, found = outcome(call, direct), outcome(call, remote(behind))
    assert found == expected
    # Equal objects of different classes, such as a text and an enumeration, have other representations.
    assert repr(found) == repr(expected)
    assert exposed_partition(remote(behind)) == exposed_partition(direct)


@pytest.mark.parametrize("name", CALLS)
def test_same_outcome_with_asyncio(name: str) -> None:
    """The methods for asyncio return awaitables with the same results and errors."""

    async def awaited(call: Callable[[Any], Any]) -> object:
        try:
            result = call(async_remote(busy()))
            return comparable(await (result() if name == "config" else result))
        except Exception as error:  # noqa: BLE001 - compared
            return type(error), str(error), getattr(error, "code", "")

    call = CALLS[name][0]
    if name in ("apply", "reconcile", "reclaim", "carry_out"):
        return  # they need the awaited result of another call

    assert asyncio.run(awaited(call)) == outcome(call, busy())


def test_asyncio_has_every_operation() -> None:
    """`AsyncRemotePartition` has the operations of the interface, with the same parameters."""
    names = {name for name in dir(AbstractPartition) if not name.startswith("_")} - {"close", "config"}
    for name in names:
        assert inspect.signature(getattr(AsyncRemotePartition, name)) == inspect.signature(
            getattr(RemotePartition, name)
        )


def test_awaited_plan_can_be_applied() -> None:
    """A plan that was made with asyncio is applied like any other."""
    partition = busy()

    async def change() -> None:
        client = async_remote(partition)
        await client.apply(await client.plan(SECOND), confirm=True)
        await client.reconcile(await client.audit([("one-0", "one", memory(4))]))

    asyncio.run(change())
    assert partition.config == SECOND
    assert partition.allocation_ids() == ("one-0", "one-1")


def test_plan_of_one_client_is_valid_for_another() -> None:
    """Plans are valid as long as the configuration is the same, and become outdated with it."""
    partition = busy()
    first, second = remote(partition), remote(partition)
    plan, other = first.plan(SECOND), first.plan(None)
    second.apply(plan, confirm=True)
    first.apply(plan, confirm=True)
    assert partition.config == SECOND
    with pytest.raises(RequestError, match="it was made for a different configuration"):
        first.apply(other, confirm=True)


def test_operations_of_the_interface() -> None:
    """The table has every operation except those that the client computes from a copy."""
    sessions = {name for name, operation in OPERATIONS.items() if operation.is_about_sessions}
    assert set(OPERATIONS) == set(CALLS) | sessions
    assert sessions == {"sessions", "owned_by", "fence", "take_over", "release_of", "forget"}


@pytest.mark.parametrize("name", ["scheduling_pass", "waiting_list", "wake"])
@pytest.mark.parametrize("wrap", [remote, async_remote])
def test_operations_of_the_own_process(wrap: Callable[[AbstractPartition], Any], name: str) -> None:
    """A client refuses the operations that follow every change of the partition, with the operation to use instead."""
    with pytest.raises(
        RequestError, match=f"{name}.*a client of a service does not have it.*(order|waiting_list)\\(\\)"
    ):
        getattr(wrap(Partition(FIRST)), name)()
