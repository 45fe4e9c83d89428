"""Names that come and go leave nothing behind: memory stays flat, and operations stay as quick as at the beginning.

Users, applications, queues, allocations, nodes and resources come with names of their own and go again. After the first
names of a run the interpreter may not hold more blocks of memory, and the last operations run as many lines of ugm as
the first that are counted. A run has some thousand names; the deep one has a million.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Final

import pytest

from support.line_counts import lines_run_by
from support.quotatree_fixtures import document, tree_model
from ugm import Manager, Partition, QuotaModel, Resource, UserGroup, UserInQueue, parse_config
from ugm.elastic import ElasticGroup, ElasticModel, ElasticQuota, ElasticTree, Pod
from ugm.server import History
from ugm.tracking import limits

pytestmark = pytest.mark.ci

ONE: Final = Resource(vcore=1, memory=1)
CLUSTER: Final = Resource(vcore=10**9, memory=10**9)
#: More blocks than this are a leak: a name is one block, and a run has more than a thousand after the first ones.
NOISE: Final = 400
#: So many operations are counted together, because some work is done once for several of them.
WINDOW: Final = 64

CONFIG: Final = parse_config(
    """
    partitions:
    - placementrules: [{name: provided, create: true}]
      limits:
      - {users: ["*"], maxresources: {vcore: 1000}, maxapplications: 10}
      - {groups: [dev, "*"], maxresources: {memory: 1000}}
      queues:
      - {name: a, parent: true, childtemplate: {resources: {max: {vcore: 9}}}}
      - {name: b}
    """
).partition()

Operation = Callable[[int], object]


def through_a_manager() -> Operation:
    """Users, groups, applications and queues of a manager."""
    manager = Manager(CONFIG)

    def operate(number: int) -> None:
        user = UserGroup(f"user-{number}", (f"group-{number}",))
        assert manager.increase(f"root.a.queue-{number}", f"app-{number}", ONE, user)
        assert not manager.increase("root.b", f"app-{number}", Resource(vcore=10**6), user)
        manager.check(f"root.b.other-{number}", "other", ONE, user)
        manager.decrease_tracked_resource(f"root.a.queue-{number}", f"app-{number}", ONE, remove_app=True, user=user)

    return operate


def through_a_partition(partition: Partition | None = None) -> Operation:
    """Users, applications, queues that placement creates, and allocations of a partition."""
    made = partition or Partition(CONFIG, cluster=CLUSTER)

    def operate(number: int) -> None:
        user = UserGroup(f"user-{number}", ("dev", f"group-{number}"))
        name = f"app-{number}"
        assert made.submit(name, user, f"root.a.queue-{number}", tags={"team": "dev"})
        made.request(f"{name}-1", name, ONE, priority=number % 3)
        assert made.allocate(f"{name}-0", name, ONE)
        assert made.allocate(f"{name}-1", name, ONE, priority=number % 3)
        assert not made.allocate(f"{name}-2", name, Resource(vcore=10_000))
        assert not made.check(UserInQueue(user, f"root.a.other-{number}"), Resource(vcore=10_000))
        made.release(f"{name}-0")
        made.remove(name)

    return operate


def with_a_history() -> Operation:
    """The same where a history follows the partition."""
    return through_a_partition(Partition(CONFIG, cluster=CLUSTER, subscribers=[History(20)]))


def with_other_models() -> Operation:
    """The same with a quota tree and elastic groups."""
    quota = ElasticQuota(ElasticTree(CLUSTER))
    quota.create(ElasticGroup("dev", min=Resource(vcore=100), max=CLUSTER))
    models: list[QuotaModel] = [
        tree_model(document({"company": ("nil", 100)}, resource="vcore"), lambda _: "company"),
        ElasticModel(quota, group_tag="team"),
    ]
    return through_a_partition(Partition(CONFIG, cluster=CLUSTER, models=models))


def elastic_groups() -> Operation:
    """Groups of an elastic quota, their pods, and resources that only one group or pod ever names."""
    quota = ElasticQuota(ElasticTree(CLUSTER))
    quota.create(ElasticGroup("stays", min=Resource(vcore=1), max=CLUSTER))

    def operate(number: int) -> None:
        name, device, claim = f"group-{number}", f"device-{number}", f"claim-{number}"
        most = Resource({"vcore": 9, device: 1})
        quota.create(ElasticGroup(name, min=Resource({device: 1}), max=most))
        quota.adopt(Pod(f"pod-{number}", Resource({"vcore": 1, claim: 1}), group=name))
        quota.update(ElasticGroup(name, max=Resource(vcore=9)))
        quota.tree.set_total(CLUSTER + Resource({device: 1}))
        quota.forget(f"pod-{number}")
        quota.delete(name)

    return operate


def resources_of_allocations() -> Operation:
    """Resources that only one allocation ever names: a device claim, a licence token."""
    partition = Partition(CONFIG, cluster=CLUSTER)
    partition.submit("app", UserGroup("ana"), "root.b")
    partition.adopt("stays", "app", Resource(kept=1))

    def operate(number: int) -> None:
        partition.adopt("x", "app", Resource({f"example.com/claim-{number}": 1}))
        partition.release("x")

    return operate


#: By what comes and goes: how a run begins, and how many names there are until nothing may grow any more.
RUNS: Final = {
    "manager": (through_a_manager, 800),
    "partition": (through_a_partition, 500),
    # A history keeps what was denied of up to 1,000 limits.
    "history": (with_a_history, 1_200),
    "models": (with_other_models, 500),
    "elastic-groups": (elastic_groups, 500),
    "resources-of-allocations": (resources_of_allocations, 500),
}


def allocated() -> int:
    """Return how many blocks of memory are held."""
    gc.collect()
    return sys.getallocatedblocks()


def lines_of(operate: Operation, numbers: range) -> int:
    """Return how many lines of ugm some operations run."""

    def run() -> None:
        for number in numbers:
            operate(number)

    return lines_run_by(run)


def leave_nothing(what: str, more: int) -> None:
    """Let names come and go, and compare the time after the first ones with that after *more* of them."""
    begin, begun = RUNS[what]
    names = begun + more
    # Small caches are full before the first count.
    limits._MAX_CACHED = 64  # type: ignore[misc]
    operate = begin()
    for number in range(begun):
        operate(number)
    first = lines_of(operate, range(begun, begun + WINDOW))
    before = allocated()
    for number in range(begun + WINDOW, names):
        operate(number)
    grown = allocated() - before
    last = lines_of(operate, range(names, names + WINDOW))

    assert grown <= NOISE, f"{grown / more:.2f} blocks are kept of each name"
    assert last <= 1.05 * first


@pytest.mark.parametrize("more", [1_500, pytest.param(1_000_000, marks=pytest.mark.deep)])
@pytest.mark.parametrize("what", RUNS)
def test_names_are_forgotten(what: str, more: int) -> None:
    """Nothing is kept of names that are gone, and they make nothing slower.

    Each run is a process of its own: threads and errors of earlier tests hold memory, too.
    """
    command = [sys.executable, __file__, what, str(more)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    assert ended.returncode == 0, ended.stderr


if __name__ == "__main__":
    leave_nothing(sys.argv[1], int(sys.argv[2]))
