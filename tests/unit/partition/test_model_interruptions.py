"""Elastic quotas and quota trees as quota models, interrupted by an exception at any point of any of their calls.

From any state `reset` leads to one from which the claims of a partition are charged as in a new model, and no lock is
held.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import pytest

from support.interruption_points import Interruption, points_in
from support.quotatree_fixtures import document
from ugm import Claim, Resource, UserGroup
from ugm.elastic import ElasticGroup, ElasticModel, ElasticQuota, ElasticTree, Pod, verify
from ugm.elastic.model import GROUP_TAG
from ugm.quotatree import ConsumerInfo, ForestModel, Mode, QuotaManager, TreeModel, TreeRequest

SUE: Final = UserGroup("sue")


class Held(NamedTuple):
    """A claim that a partition has: it is held, or pending."""

    claim: Claim
    is_held: bool = True


class Scene:
    """A model, and what a partition has told it."""

    model: Any

    def __init__(self) -> None:
        self.calls: list[Held] = []

    def tell(self, claim: Claim, *, is_held: bool = True) -> None:
        """Charge or expect a claim."""
        (self.model.charge if is_held else self.model.add_pending)(claim)
        self.calls.append(Held(claim, is_held))

    def recharge(self) -> None:
        """Do what a partition does after an interruption."""
        self.model.reset()
        for claim, is_held in self.calls:
            (self.model.charge if is_held else self.model.add_pending)(claim)

    def seen(self) -> object:
        """Return everything that can be read."""
        raise NotImplementedError

    def verify(self) -> None:
        """Compare all counters with what is held, and make sure that no lock is."""
        raise NotImplementedError


class ElasticScene(Scene):
    """Groups that lend to one another, and one without weight."""

    def __init__(self) -> None:
        super().__init__()
        both = Resource(cpu=20, gpu=8)
        groups = [
            ElasticGroup("all", "", Resource(cpu=12), both, is_parent=True),
            ElasticGroup("a", "all", Resource(cpu=6), both),
            ElasticGroup("b", "all", Resource(cpu=6), both, allow_lent=False),
            ElasticGroup("c", "", Resource(cpu=10), both, shared_weight=Resource(cpu=0, gpu=1)),
        ]
        tree = ElasticTree(Resource(cpu=16, gpu=8), groups)
        self.quota = ElasticQuota(tree)
        self.quota.adopt(Pod("daemon", Resource(cpu=1), "a", priority=-1))
        self.quota.expect(Pod("waiting", Resource(cpu=1), "b"))
        self.model = ElasticModel(self.quota)
        for name, group, cpu in (("1", "a", 4), ("2", "a", 3), ("3", "b", 5), ("4", "c", 2)):
            self.tell(claim(name, group, cpu))
        self.tell(claim("5", "c", 6), is_held=False)

    def seen(self) -> object:
        """Return everything that can be read."""
        quota, tree = self.quota, self.quota.tree
        reads = (
            tree.runtime,
            tree.request,
            tree.limited_request,
            tree.used,
            tree.non_preemptible_used,
            tree.scaled_min,
        )
        numbers = {name: [nonzero(read(name)) for read in reads] for name in tree.nodes}
        pods = {
            name: sorted((pod.name, pod.usage, pod.started, quota.is_running(pod.name)) for pod in quota.pods_in(name))
            for name in tree.nodes
        }
        urgent = [
            (list(self.model.check(one)), list(self.model.evictions(one)))
            for one in (claim("", group, 4, priority=9) for group in "abc")
        ]
        return numbers, pods, urgent

    def verify(self) -> None:
        """Compare all counters with what is held."""
        verify(self.quota.tree)


class TreeScene(Scene):
    """A tree in which consumers borrow, and one that is no claim."""

    nodes: Final = {"R": ("nil", 12), "P": ("R", 8), "a": ("P", 3), "b": ("P", 3), "c!": ("R", 4)}

    def __init__(self) -> None:
        super().__init__()
        self.manager = QuotaManager()
        self.manager.set_mode(Mode.NORMAL)
        self.manager.add_forest("F")
        for name in ("T", "U"):
            self.manager.add_tree_to_forest("F", self.manager.add_tree_from_struct(document(self.nodes, name)))
        self.manager.add_consumer(ConsumerInfo("daemon", [TreeRequest("T", "b", Resource(cpu=1))]))
        self.manager.allocate("T", "daemon")
        self.model = self.make()
        for name, group, cpu in (
            ("1", "a", 2),
            ("2", "a", 2),
            ("3", "b", 1),
            ("4", "b", 2),
            ("5", "c", 2),
            ("6", "a", 1),
        ):
            self.tell(claim(name, group, cpu))

    def make(self) -> TreeModel | ForestModel:
        """Return the model."""
        return TreeModel(self.manager, "T", group_of)

    def seen(self) -> object:
        """Return everything that can be read."""
        urgent = [
            (list(self.model.check(one)), list(self.model.evictions(one)))
            for one in (claim("", group, 4, priority=9) for group in "abc")
        ]
        forest = {
            one.claim.allocation_id: self.manager.is_allocated_forest("F", one.claim.allocation_id)
            for one in self.calls
        }
        return [self.manager.view(name) for name in self.manager.get_tree_names()], urgent, forest

    def verify(self) -> None:
        """Compare all counters with what is held, and take the lock in another thread."""
        free = []
        other = threading.Thread(target=lambda: free.append(self.manager.get_tree_names()), daemon=True)
        other.start()
        other.join(60)
        assert free, "the lock is still held"
        self.manager.verify()


class ForestScene(TreeScene):
    """The same in two trees at once."""

    def make(self) -> TreeModel | ForestModel:
        """Return the model."""
        return ForestModel(self.manager, "F", lambda claim: dict.fromkeys("TU", group_of(claim)))


def group_of(claim: Claim) -> str:
    """Return the group in the tags of a claim."""
    return claim.tags[GROUP_TAG]


def nonzero(amounts: Resource) -> Resource:
    """Return amounts without zeros."""
    return amounts.without_zeros()


def claim(name: str, group: str, cpu: int, priority: int = 0) -> Claim:
    """Return a claim of an application in a group."""
    usage = Resource(cpu=cpu, gpu=1) if cpu > 2 else Resource(cpu=cpu)
    return Claim(name, "app", usage, "root.q", SUE, {GROUP_TAG: group}, priority)


#: A call, and what comes before it.
CALLS: Final[dict[str, tuple[Callable[[Scene], object], Callable[[Scene], object]]]] = {
    "check": (lambda _: None, lambda s: s.model.check(claim("n", "a", 9))),
    "evictions": (lambda _: None, lambda s: s.model.evictions(claim("n", "a", 3, priority=5))),
    "charge": (lambda _: None, lambda s: s.model.charge(claim("n", "b", 1))),
    "charge too much": (lambda _: None, lambda s: s.model.charge(claim("n", "a", 30))),
    "refund": (lambda _: None, lambda s: s.model.refund(claim("1", "a", 2 if is_tree(s) else 4))),
    "undo a charge": (
        lambda s: s.model.charge(claim("n", "c", 1)),
        lambda s: s.model.refund(claim("n", "c", 1)),
    ),
    "undo a refund": (
        lambda s: s.model.refund(claim("3", "b", 1 if is_tree(s) else 5)),
        lambda s: s.model.charge(claim("3", "b", 1 if is_tree(s) else 5)),
    ),
    "reset": (lambda _: None, lambda s: s.model.reset()),
}

#: Queries, which may store what they have computed.
QUERIES: Final[dict[str, Callable[[Scene], object]]] = {
    "all_limits": lambda s: list(s.model.all_limits()),
    "exceeded": lambda s: list(s.model.exceeded()),
    "state": lambda s: s.model.state(),
    "limits": lambda s: list(s.model.limits(claim("n", "a", 1))),
    "shortage": lambda s: list(s.model.shortage(claim("n", "a", 9), {"1"})),
    "borrowers": lambda s: list(s.model.borrowers(claim("n", "a", 9), {"1"})),
    "order_nodes": lambda s: [list(s.model.order_nodes(tree)) for tree in s.model.order_trees()],
}
CALLS.update({name: (lambda _: None, query) for name, query in QUERIES.items()})

#: Only a model that knows what is pending has these.
DEMAND_CALLS: Final[dict[str, tuple[Callable[[Scene], object], Callable[[Scene], object]]]] = {
    "add_pending": (lambda _: None, lambda s: s.model.add_pending(claim("n", "a", 9))),
    "remove_pending": (lambda _: None, lambda s: s.model.remove_pending(claim("5", "c", 6))),
    "charge what is expected": (lambda _: None, lambda s: s.model.charge(claim("5", "c", 6))),
    "charge_pending": (lambda _: None, lambda s: s.model.charge_pending(claim("5", "c", 6))),
}


def is_tree(scene: Scene) -> bool:
    """Return whether a scene is one of quota trees."""
    return isinstance(scene, TreeScene)


def cases() -> Iterator[Any]:
    """Return every call of every model."""
    for make in (ElasticScene, TreeScene, ForestScene):
        calls = CALLS | DEMAND_CALLS if make is ElasticScene else CALLS
        for name, (prepare, call) in calls.items():
            yield pytest.param(make, prepare, call, id=f"{make.__name__}-{name}")


@contextmanager
def prepared(
    make: Callable[[], Scene], prepare: Callable[[Scene], object], call: Callable[[Scene], object]
) -> Iterator[Callable[[], object]]:
    """Yield a call of a scene that has just been made."""
    scene = made(make, prepare)
    yield lambda: call(scene)


def made(make: Callable[[], Scene], prepare: Callable[[Scene], object]) -> Scene:
    """Return a scene just before a call."""
    scene = make()
    prepare(scene)
    return scene


def check_interruptions(
    make: Callable[[], Scene], prepare: Callable[[Scene], object], call: Callable[[Scene], object], chosen: slice
) -> int:
    """Interrupt a call at some of its points, and compare what can be read after a recovery with a new model.

    Returns:
        How many interruptions there were.
    """
    due = make().seen()
    done = 0
    for point in points_in(lambda: prepared(make, prepare, call))[chosen]:
        scene = made(make, prepare)
        interruption = Interruption(point)
        interruption.run(lambda scene=scene: call(scene))  # type: ignore[misc]
        assert interruption.has_raised, point
        # What is raised while a generator is closed, CPython reports, and goes on.
        assert interruption.has_arrived != interruption.was_swallowed, point
        scene.recharge()
        scene.verify()
        assert scene.seen() == due, point
        done += 1
    return done


@pytest.mark.parametrize("distance", [787, pytest.param(193, marks=pytest.mark.ci)])
@pytest.mark.parametrize(("make", "prepare", "call"), list(cases()))
def test_interrupted_at_some_points(
    request: pytest.FixtureRequest,
    make: Callable[[], Scene],
    prepare: Callable[[Scene], object],
    call: Callable[[Scene], object],
    distance: int,
) -> None:
    """After a call that is interrupted, a reset and new charges lead to the state of a new model."""
    # The shortest call has more points than this.
    assert check_interruptions(make, prepare, call, slice(sum(map(ord, request.node.name)) % 40, None, distance)) > 0


@pytest.mark.deep
@pytest.mark.parametrize(("make", "prepare", "call"), list(cases()))
def test_interrupted_at_every_point(
    make: Callable[[], Scene], prepare: Callable[[Scene], object], call: Callable[[Scene], object]
) -> None:
    """So has one that is interrupted at any line, or at any instruction."""
    assert check_interruptions(make, prepare, call, slice(None)) > 40
