"""The tree of queues by itself: what configurations, placement and nodes make of it, and what it answers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from support.partition_fixtures import BOB, SUE, config, memory
from ugm import RequestError, Resource, UserGroup
from ugm.configuration import QueueConfig, QueueResources
from ugm.counters import Layout
from ugm.queues import QueueSpec, Quota
from ugm.queues.specs import QueueSpecs
from ugm.queues.tree import QueueTree

TREE = (
    "{name: A, resources: {max: {memory: 5}}, queues: [{name: x, resources: {max: {memory: 3, gpu: 2}}}]},"
    " {name: p, parent: true, maxapplications: 2, childtemplate: {resources: {max: {gpu: 1}}, maxapplications: 1}},"
    " {name: g, resources: {guaranteed: {memory: 4}}}, {name: free}"
)


def specs(queues: str) -> QueueSpecs:
    """Compile some queues below the root."""
    return QueueSpecs.compile(config(queues).root)


@pytest.fixture(name="tree")
def _tree() -> QueueTree:
    compiled = specs(TREE)
    return QueueTree(compiled, Layout(compiled.names))


def paths(tree: QueueTree) -> list[str]:
    """Return all paths, in the order of the tree."""
    return [queue.queue_path for queue in tree.root.below()]


# What is compiled


def test_compiled() -> None:
    """Every queue is compiled by its canonical path, parents before children."""
    compiled = specs(TREE)
    assert list(compiled.by_path) == ["root", "root.a", "root.a.x", "root.p", "root.g", "root.free"]
    assert compiled.by_path["root.p"] == QueueSpec(
        "root.p", is_parent=True, quota=Quota(None, 2), template=Quota(Resource(gpu=1), 1)
    )
    assert compiled.by_path["root.a"].is_parent is True
    assert compiled.by_path["root.a.x"].is_parent is False
    assert compiled.names == {"memory", "gpu"}


def test_compiled_nothing() -> None:
    """No configuration is a root that takes no applications and limits nothing."""
    assert QueueSpecs.compile(None).by_path == {"root": QueueSpec("root", is_parent=True)}


def test_compiled_by_hand() -> None:
    """The root has no quota of its own, and a queue with queues below it is a parent."""
    below = QueueConfig("a", queues=(QueueConfig("b"),))
    root = QueueConfig("root", queues=(below,), resources=QueueResources(max=memory(5)), max_applications=3)
    compiled = QueueSpecs.compile(root)
    assert compiled.by_path["root"] == QueueSpec("root", is_parent=True, quota=Quota(None, 3))
    assert [spec.is_parent for spec in compiled.by_path.values()] == [True, True, False]


@pytest.mark.parametrize(
    ("queue", "text"),
    [
        (
            QueueConfig("a b"),
            "queue_path 'root.a b': expected 'root', or names below it separated by single dots",
        ),
        (
            QueueConfig("a", admin_acl="a b c"),
            "acl 'a b c': expected users, one space, and groups; names are separated by commas without spaces",
        ),
    ],
)
def test_refused_queues(queue: QueueConfig, text: str) -> None:
    """A queue that cannot exist is refused when it is compiled."""
    with pytest.raises(RequestError) as caught:
        QueueSpecs.compile(QueueConfig("root", queues=(queue,)))
    assert str(caught.value) == text


def test_named_twice() -> None:
    """Two queues whose names differ only in case have the same path, which is refused."""
    with pytest.raises(RequestError) as caught:
        QueueSpecs.compile(QueueConfig("root", queues=(QueueConfig("a"), QueueConfig("A"))))
    assert str(caught.value) == "queues 'root.a': two queues have this path"


# What is there


def test_questions_of_placement(tree: QueueTree) -> None:
    """Placement asks what exists, what takes applications, and what is about to go."""
    assert [path for path in [*paths(tree), "root.no"] if tree.exists(path)] == paths(tree)
    assert [path for path in paths(tree) if tree.is_leaf(path)] == ["root.a.x", "root.free", "root.g"]
    assert not any(tree.is_draining(path) for path in paths(tree))
    assert tree.nearest("root.a.no.deeper").queue_path == "root.a"


def test_order(tree: QueueTree) -> None:
    """Queues are in the order of their names, parents before children."""
    assert paths(tree) == ["root", "root.a", "root.a.x", "root.free", "root.g", "root.p"]
    assert [queue.queue_path for queue in tree.queues["root.a.x"].lineage()] == ["root.a.x", "root.a", "root"]


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        (("", ""), {"sue", "bob"}),
        (("submitacl: sue", ""), {"sue"}),
        (("", "adminacl: sue"), {"sue"}),
        (("submitacl: sue", "submitacl: bob"), {"sue", "bob"}),
        (("submitacl: ' '", "adminacl: ' dev'"), {"bob"}),
        (("submitacl: ' '", ""), set()),
    ],
)
def test_who_may_submit(acls: tuple[str, str], allowed: set[str]) -> None:
    """One grant of a queue or of those above it is enough; where nobody says anything, everybody may."""
    above, below = (f", {acl}" if acl else "" for acl in acls)
    tree = QueueTree(specs(f"{{name: p{above}, queues: [{{name: x{below}}}]}}"), Layout())
    for path in ["root.p.x", "root.p.x.new"]:
        asking = [UserGroup("sue"), BOB]
        assert {user.name for user in asking if tree.may_submit(path, user)} == allowed


# Created queues


def test_create(tree: QueueTree) -> None:
    """A created leaf has what the template of the nearest queue above says; queues between have nothing."""
    queue = tree.create("root.p.q.x")
    assert (queue.queue_path, queue.quota, queue.managed) == ("root.p.q.x", Quota(Resource(gpu=1), 1), False)
    between = tree.queues["root.p.q"]
    assert (between.quota, between.is_leaf, queue.is_leaf) == (Quota(), False, True)
    assert tree.create("root.p.q.x") is queue


def test_create_without_a_template(tree: QueueTree) -> None:
    """Without a template a created queue limits nothing, and needs no counter."""
    queue = tree.create("root.new")
    assert (queue.quota, queue.counter, [counter.queue_path for counter in queue.chain]) == (Quota(), None, ["root"])


def test_prune(tree: QueueTree) -> None:
    """Empty queues go that the configuration does not name, and those above them that are empty then."""
    before = paths(tree)
    queue, sibling = tree.create("root.p.q.x"), tree.create("root.p.q.y")
    tree.prune(sibling)
    assert tree.exists("root.p.q.x")
    tree.prune(queue)
    tree.prune(tree.queues["root.g"])
    tree.prune(tree.root)
    assert paths(tree) == before


def test_prune_keeps_what_is_used(tree: QueueTree) -> None:
    """A queue with applications, running or not, is not empty."""
    queue = tree.create("root.new")
    queue.applications["app"] = SimpleNamespace(held=lambda: None)
    tree.prune(queue)
    assert tree.exists("root.new")
    assert list(queue.running()) == []


def test_annotate(tree: QueueTree) -> None:
    """A quota of its own replaces the maximum alone."""
    queue = tree.create("root.p.x")
    tree.override_quota(queue, memory(7))
    assert queue.quota == Quota(memory(7), 1)
    assert tree.maximum("root.p.x") == memory(7)


# Counters


def test_counters(tree: QueueTree) -> None:
    """A queue has a counter where something is limited or guaranteed, and the root always."""
    assert [queue.queue_path for queue in tree.root.below() if queue.counter] == [
        "root",
        "root.a",
        "root.a.x",
        "root.g",
        "root.p",
    ]
    assert [counter.queue_path for counter in tree.queues["root.a.x"].chain] == ["root.a.x", "root.a", "root"]


def test_counters_follow_the_configuration(tree: QueueTree) -> None:
    """A counter comes with the first limit and goes with the last; what was counted stays counted."""
    kept = tree.queues["root.a"].counter
    compiled = specs("{name: a, resources: {max: {memory: 9, gpu: 2}}}, {name: free, maxapplications: 3}, {name: g}")
    tree.reshape(compiled, tree.root.counter.layout)  # type: ignore[union-attr]  # the root has one

    assert paths(tree) == ["root", "root.a", "root.free", "root.g"]
    assert tree.queues["root.a"].counter is kept
    assert [queue.queue_path for queue in tree.root.below() if queue.counter] == ["root", "root.a", "root.free"]
    tree.reshape(compiled, Layout(["gpu", "disk"]))
    assert tree.queues["root.a"].counter is not kept


def test_headroom_and_most(tree: QueueTree) -> None:
    """Headroom and maximum are the least on the way to the root, with the cluster where that is asked for."""
    tree.connect(Layout(["gpu"], closed=True))
    tree.resize(memory(4))
    assert tree.maximum("root.a.x") == Resource(gpu=2, memory=3)
    assert tree.maximum("root.a") == tree.maximum("root.free") == memory(4)
    assert tree.headroom("root.a", cluster=True) == memory(4)
    assert tree.headroom("root.a", cluster=False) == memory(5)
    assert tree.headroom("root.free", cluster=False) is None


def test_names_outside(tree: QueueTree) -> None:
    """The resources of queues that a configuration does not name have to be counted all the same."""
    tree.override_quota(tree.create("root.p.x"), Resource(disk=1))
    assert set(tree.names_outside(tree.specs)) >= {"disk"}
    assert set(tree.names_outside(specs("{name: g}"))) == {"disk", "memory", "gpu"}


def test_submitting_below_a_leaf() -> None:
    """Who may submit to a queue that does not exist is said by the nearest that does."""
    tree = QueueTree(specs("{name: a, submitacl: bob}"), Layout())
    assert tree.may_submit("root.a.b.c", BOB)
    assert not tree.may_submit("root.a.b.c", SUE)
    assert tree.may_submit("root.b", SUE)
