"""A tree and a forest as quota models, through the protocol alone."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.partition_fixtures import config
from support.quotatree_fixtures import PAIR, document
from support.quotatree_strategies import documents
from ugm import Claim, Partition, RequestError, Resource, UserGroup
from ugm.model import EvictingModel, SetupViolation
from ugm.quotatree import ConsumerInfo, ForestModel, Mode, QuotaManager, TreeModel, TreeRequest

SUE = UserGroup("sue")

amounts = st.integers(0, 4)
ranks = st.integers(0, 3)


def claim(number: int, group: str, cpu: int = 1, memory: int = 0, priority: int = 0) -> Claim:
    """Return the claim of one allocation in one group."""
    usage = Resource(cpu=cpu, memory=memory)
    return Claim(f"a{number}", "app", usage, f"root.{group}", SUE, priority=priority)


def group_of(claim: Claim) -> str | None:
    """Return the last part of a queue path; nothing for those that the tree does not limit."""
    group = claim.queue_path.removeprefix("root.")
    return None if group == "free" else group


def manager_of(*trees: str) -> QuotaManager:
    """Return a manager in normal mode with some trees, in one forest."""
    manager = QuotaManager()
    manager.set_mode(Mode.NORMAL)
    manager.add_forest("F")
    for name in trees:
        manager.add_tree_from_struct(document(PAIR, name))
        manager.add_tree_to_forest("F", name)
    return manager


@pytest.fixture(name="model", params=["tree", "forest"])
def _model(request: pytest.FixtureRequest) -> EvictingModel:
    manager = manager_of("T", "U")
    if request.param == "tree":
        return TreeModel(manager, "T", group_of)
    return ForestModel(manager, "F", lambda claim: {name: group_of(claim) or "" for name in ("T", "U")})


def test_protocol(model: EvictingModel) -> None:
    """Both are quota models that may evict."""
    assert isinstance(model, EvictingModel)


def test_check_charge_refund(model: EvictingModel) -> None:
    """A claim that fits is charged, another one is denied with every violated quota, and a refund frees the amounts."""
    first, second = claim(1, "A", 4), claim(2, "B", 1)
    assert not list(model.check(first))
    model.charge(first)

    at_root = {str(violation) for violation in model.check(second) if violation.name == "R"}
    trees = ["T"] if isinstance(model, TreeModel) else ["T", "U"]
    assert at_root == {f"quota node 'R' of tree '{name}': 1 cpu requested, 4 of 4 used, 1 too much" for name in trees}
    model.refund(first)
    assert not list(model.check(second))


def test_evictions_are_of_lower_priority(model: EvictingModel) -> None:
    """Only allocations of lower priority whose refund lets the claim pass are proposed."""
    model.charge(claim(1, "A", 4))

    assert list(model.evictions(claim(2, "B", 1))) == []
    assert list(model.evictions(claim(3, "B", 1, priority=1))) == ["a1"]
    assert list(model.evictions(claim(4, "B", 5, priority=1))) == []


def test_charge_without_a_check(model: EvictingModel) -> None:
    """A running allocation is charged regardless of the quotas; one without a group in the tree is misuse."""
    model.charge(claim(1, "A", 9))

    assert list(model.check(claim(2, "A", 1)))
    with pytest.raises(RequestError):
        model.charge(claim(3, "nowhere"))
    with pytest.raises(RequestError):
        model.charge(claim(1, "A"))
    assert list(model.check(claim(3, "nowhere")))
    model.refund(claim(1, "A", 9))
    assert not list(model.check(claim(2, "A", 1)))


@pytest.mark.parametrize(
    ("group", "usage"), [("nowhere", Resource(cpu=2)), ("nowhere", Resource()), ("R", Resource(cpu=1))]
)
def test_unknown_group(model: EvictingModel, group: str, usage: Resource) -> None:
    """A group that is no leaf of the tree allows nothing, not even an empty request."""
    found = {(str(violation), violation.can_wait) for violation in model.check(claim(1, group)._replace(usage=usage))}

    assert found == {(f"quota node '{group}': the tree has no such leaf", False)}
    assert not list(model.evictions(claim(1, group, priority=9)))


HUGE = 2**64


def test_more_than_a_tree_can_count(model: EvictingModel) -> None:
    """A claim of 64 bits or more is denied with its amounts; another resource of that size does not matter."""
    other = Claim("other", "app", Resource(cpu=1, disk=HUGE), "root.A", SUE)
    large = Claim("large", "app", Resource(cpu=HUGE), "root.B", SUE, priority=9)
    assert not list(model.check(other))
    model.charge(other)

    trees = 1 if isinstance(model, TreeModel) else 2
    found = [(one.name, one.resource, one.limit, one.used, one.requested, one.can_wait) for one in model.check(large)]
    assert found == [("B", "cpu", 2, 0, HUGE, True), ("R", "cpu", 4, 1, HUGE, False)] * trees
    assert (list(model.evictions(large)), list(model.check(claim(3, "B", 3)))) == ([], [])
    # A partition may adopt such an allocation.
    model.charge(large)
    assert list(model.check(claim(3, "B", 1)))
    model.refund(large)
    assert not list(model.check(claim(3, "B", 3)))


def test_the_quotas_that_a_large_request_exceeds() -> None:
    """A denial names the same quotas as one of an amount that a tree can count. A negative quota does not matter."""
    manager = QuotaManager()
    manager.set_mode(Mode.NORMAL)
    nodes: dict[str, Any] = {
        "R": {"parent": "nil", "hard": "true", "quota": {"cpu": str(2**63 - 1), "gpu": "-1"}},
        "A": {"parent": "R", "hard": "true", "quota": {"cpu": "2", "gpu": "0"}},
        "B": {"parent": "R", "hard": "false", "quota": {"cpu": "2", "gpu": "0"}},
    }
    spec = {"resourceNames": ["cpu", "gpu"], "nodes": nodes}
    manager.add_tree_from_struct({"kind": "QuotaTree", "metadata": {"name": "T"}, "spec": spec})
    model = TreeModel(manager, "T", group_of)

    def named(group: str, usage: Resource) -> list[str]:
        return [one.name for one in model.check(claim(1, group)._replace(usage=usage))]

    assert named("A", Resource(cpu=9)) == named("A", Resource(cpu=HUGE)) == ["A"]
    assert (named("B", Resource(cpu=2**63 - 1)), named("B", Resource(cpu=2**63))) == ([], ["R"])
    assert named("B", Resource(cpu=1, disk=HUGE)) == []
    assert named("nowhere", Resource(cpu=HUGE)) == ["nowhere"]
    large = claim(1, "B")._replace(usage=Resource(cpu=HUGE), priority=5)
    assert ([one.requested for one in model.shortage(large, ())], list(model.evictions(large))) == ([HUGE], [])


def forest_of(*trees: tuple[str, list[str], dict[str, tuple[str, bool, list[int]]]]) -> ForestModel:
    """Return a model of a forest of trees: of each, its name, its resources, and the parent and quota of each node."""
    manager = QuotaManager()
    manager.set_mode(Mode.NORMAL)
    manager.add_forest("F")
    for name, resources, nodes in trees:
        described = {
            node: {
                "parent": parent,
                "hard": str(hard).lower(),
                "quota": dict(zip(resources, map(str, quota), strict=True)),
            }
            for node, (parent, hard, quota) in nodes.items()
        }
        spec = {"resourceNames": resources, "nodes": described}
        manager.add_tree_from_struct({"kind": "QuotaTree", "metadata": {"name": name}, "spec": spec})
        manager.add_tree_to_forest("F", name)
    return ForestModel(manager, "F", lambda claim: {name: group_of(claim) or "" for name, *_ in trees})


#: The largest quota.
MOST = 2**63 - 1


@pytest.mark.parametrize(
    ("hard", "quota", "expected"),
    [
        (True, MOST, [("A", "cpu", True), ("R", "memory", False)]),
        (False, MOST, [("A", "cpu", True), ("R", "cpu", True), ("R", "memory", False)]),
        (True, 7, [("A", "cpu", True), ("A", "memory", False)]),
        (False, 7, [("A", "cpu", True), ("A", "memory", True), ("R", "cpu", True), ("R", "memory", False)]),
    ],
)
def test_large_request_of_which_another_resource_is_missing(
    hard: bool,  # noqa: FBT001 - a parameter
    quota: int,
    expected: list[tuple[str, str, bool]],
) -> None:
    """A denial lists the resource that never fits, also if another resource is missing for now."""
    model = forest_of(("T", ["cpu", "memory"], {"R": ("nil", False, [9, MOST]), "A": ("R", hard, [9, quota])}))
    model.charge(claim(1, "A", cpu=9))
    large = claim(2, "A", cpu=5, memory=2**63)

    for found in (model.check(large), model.shortage(large, ())):
        assert [(one.name, one.resource or "", one.can_wait) for one in found] == expected
    assert next(one for one in model.check(large) if not one.can_wait).requested == 2**63


def test_large_request_that_trees_of_a_forest_deny() -> None:
    """The trees of a forest are listed in their order, also if only some of them lack something for now."""
    never = {"R": ("nil", False, [9, MOST]), "A": ("R", True, [9, MOST])}
    full = {"R": ("nil", False, [2, 9]), "A": ("R", True, [2, 9])}
    model = forest_of(("T", ["cpu", "memory"], never), ("U", ["cpu", "disk"], full), ("V", ["disk", "memory"], never))
    model.charge(claim(1, "A", cpu=2))
    large = claim(2, "A", cpu=2, memory=2**64)

    for found in (model.check(large), model.shortage(large, ())):
        listed = [(one.limit_name, one.name, one.resource, one.can_wait) for one in found]
        assert listed == [("T", "R", "memory", False), ("U", "A", "cpu", True), ("V", "R", "memory", False)]


@pytest.mark.parametrize("missing", ["T", "U"])
def test_large_request_in_an_unknown_group(missing: str) -> None:
    """A tree without the group of a large request lists only that; the other trees of a forest list their quotas."""
    nodes = {"R": ("nil", False, [MOST]), "A": ("R", False, [MOST])}
    model = forest_of(("T", ["cpu"], nodes), ("U", ["cpu"], nodes))
    model._groups_of = lambda _: {"T": "A", "U": "A", missing: "nowhere"}  # type: ignore[misc]  # of this test

    found = [(one.limit_name, one.name) for one in model.check(claim(1, "A", cpu=2**63))]
    assert found == [("", "nowhere"), ("U" if missing == "T" else "T", "R")]


def test_large_request_that_can_never_be_granted() -> None:
    """A partition neither advises to wait nor looks for allocations to release."""
    model = forest_of(("T", ["cpu", "memory"], {"R": ("nil", False, [9, MOST]), "a": ("R", True, [9, MOST])}))
    partition = Partition(models=[model])
    partition.adopt_application("app", SUE, "root.a")
    assert partition.allocate("a1", "app", Resource(cpu=9))

    assert not partition.allocate("a2", "app", Resource(cpu=5, memory=2**63)).can_wait
    assert partition.plan_reclaim("app", Resource(cpu=5, memory=2**63), priority=1).outcome == "never"


def test_large_requests_do_not_stop_others() -> None:
    """A partition goes on with a pending, and with an adopted allocation that is larger than a tree can count."""
    model = TreeModel(manager_of("T"), "T", lambda claim: claim.queue_path[-1].upper())
    partition = Partition(config("{name: a}, {name: b}"), models=[model])
    for name, resource in (("a", "cpu"), ("b", "disk")):
        partition.submit(name, SUE, f"root.{name}")
        partition.request(f"{name}-0", name, Resource({resource: HUGE, "memory": 1}))
    partition.request("b-1", "b", Resource(cpu=1))

    assert [request.allocation_id for request in partition.wake()] == ["b-0", "b-1"]
    assert "never more than 4 allowed" in str(partition.explain("a", Resource(cpu=HUGE)))
    partition.adopt("a-0", "a", Resource(cpu=HUGE, memory=1))
    partition.verify()
    denied = partition.allocate("b-1", "b", Resource(cpu=1))
    assert f"{2**63 - 1} of 4 used" in str(denied)
    partition.release("a-0")
    assert partition.allocate("b-1", "b", Resource(cpu=1))


def test_maintenance_is_denied() -> None:
    """A manager in maintenance mode grants nothing through a model, but running allocations are charged."""
    manager = manager_of("T")
    manager.set_mode(Mode.MAINTENANCE)
    for model, kind, name in (
        (TreeModel(manager, "T", group_of), "tree", "T"),
        (ForestModel(manager, "F", lambda claim_found: {"T": group_of(claim_found)}), "forest", "F"),
    ):
        (violation,) = model.check(claim(1, "A", 1))
        result = f"quota {kind} '{name}': its manager is in maintenance mode, in which no quota is enforced"
        assert (str(violation), violation.can_wait, isinstance(violation, SetupViolation)) == (result, False, True)
        assert pickle.loads(pickle.dumps(violation)) == violation  # noqa: S301 - made here
        assert not list(model.evictions(claim(1, "A", 1, priority=9)))
        model.charge(claim(1, "A", 9))
        model.refund(claim(1, "A", 9))

    manager.set_mode("normal")
    assert not list(model.check(claim(1, "A", 1)))


def test_unknown_trees_and_forests() -> None:
    """A tree or forest that does not exist is refused at setup; one that is gone later denies."""
    manager = manager_of("T")
    with pytest.raises(RequestError, match="tree_name 'Nope': there is no such quota tree"):
        TreeModel(manager, "Nope", group_of)
    with pytest.raises(RequestError, match="forest_name 'Nope': there is no such quota forest"):
        ForestModel(manager, "Nope", lambda _: {})
    tree, forest = TreeModel(manager, "T", group_of), ForestModel(manager, "F", lambda _: {"T": "A"})
    manager.delete_tree("T")
    assert [str(each) for each in tree.check(claim(1, "A"))] == ["quota tree 'T': there is no such tree"]
    assert [str(each) for each in forest.check(claim(1, "A"))] == ["quota tree 'T': there is no such tree"]
    manager.delete_forest("F")
    assert [str(each) for each in forest.check(claim(1, "A"))] == ["quota forest 'F': there is no such forest"]


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((None, "T", group_of), {}),
        ((manager_of("T"), None, group_of), {}),
        ((manager_of("T"), "T", group_of), {"unrestricted": 1}),
        ((manager_of("T"), "T", group_of), {"default_group": ""}),
    ],
)
def test_misuse_at_setup(arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Invalid arguments of a model are refused."""
    with pytest.raises(RequestError):
        TreeModel(*arguments, **options)


def test_no_group_is_denied() -> None:
    """A claim without a group is denied with the reason, unless the setup names a default or lifts the restriction."""
    manager = manager_of("T", "U")
    free = claim(1, "free", 3)

    assert [str(each) for each in TreeModel(manager, "T", group_of).check(free)] == [
        "quota tree 'T': the request has no group in it"
    ]
    default = TreeModel(manager, "T", group_of, default_group="A")
    assert not list(default.check(free))
    default.charge(free)
    assert manager.view("T").consumers["a1"].group == "A"
    assert [each.name for each in default.check(claim(2, "free", 9))] == ["A", "R"]
    for answer, name in ((None, "U"), ({}, "F")):
        groups = {"T": "A", "U": answer} if answer is None else answer
        (violation,) = ForestModel(manager, "F", lambda _, groups=groups: groups).check(free)  # type: ignore[misc]
        assert str(violation).endswith(f"'{name}': the request has no group in it")
    (violation,) = ForestModel(manager, "F", lambda _: {"Typo": "A"}).check(free)
    assert str(violation) == "quota tree 'Typo': there is no such tree"


def test_trees_outside_the_forest_do_not_stand_for_it() -> None:
    """A claim that names only trees outside the forest has no group in the forest."""
    manager = manager_of("T", "U")
    manager.delete_tree_from_forest("F", "U")
    outside = ForestModel(manager, "F", lambda _: {"U": "A"})

    assert [str(each) for each in outside.check(claim(1, "A"))] == ["quota forest 'F': the request has no group in it"]
    assert not list(ForestModel(manager, "F", lambda _: {"U": "A"}, unrestricted=True).check(claim(1, "A")))
    assert not list(ForestModel(manager, "F", lambda _: {"T": "A", "U": "A"}).check(claim(1, "A")))


def test_asked_without_an_id(model: EvictingModel) -> None:
    """A check has no allocation id: the claim is checked like any other, even next to one with the id `?`."""
    model.charge(claim(1, "A", 4)._replace(allocation_id="?"))
    claim_found = claim(2, "B", 1, priority=1)._replace(allocation_id="")

    assert {violation.name for violation in model.check(claim_found)} == {"R"}
    assert list(model.evictions(claim_found)) == ["?"]


def test_forest_lists_every_tree() -> None:
    """A denial by a forest names the nodes of every tree that has no room, in the order of the trees."""
    manager = manager_of("T")
    manager.add_tree_from_struct(document({**PAIR, "R": ("nil", 1)}, "U"))
    manager.add_tree_to_forest("F", "U")
    model = ForestModel(manager, "F", lambda claim_found: {name: group_of(claim_found) or "" for name in ("T", "U")})

    at_roots = [violation.limit for violation in model.check(claim(1, "A", 9)) if violation.name == "R"]

    assert at_roots == [4, 1]


def test_in_a_partition() -> None:
    """Every query and every change of a partition reaches the tree."""
    partition = Partition(models=[TreeModel(manager_of("T"), "T", lambda claim: claim.tags["team"])])
    partition.adopt_application("app", SUE, "root.a", tags={"team": "A"})
    assert partition.check("app", Resource(cpu=4))
    assert partition.allocate("a1", "app", Resource(cpu=3), placeholder=True)
    assert partition.replace("a1", "a2", Resource(cpu=2))
    assert partition.resize("a2", Resource(cpu=4))
    assert [violation.name for violation in partition.explain("app", Resource(cpu=1)).decision.violations] == ["R"]
    assert partition.release("a2")
    assert partition.check("app", Resource(cpu=4))


def test_no_say() -> None:
    """A claim that a tree does not limit, as its setup says, is neither checked nor counted there."""
    manager = manager_of("T")
    model = TreeModel(manager, "T", group_of, unrestricted=True)
    free = claim(1, "free", 100)
    model.charge(free)
    model.refund(free)

    assert (list(model.check(free)), list(model.evictions(free))) == ([], [])
    assert manager.get_all_consumer_ids() == ()


@given(documents(), st.data())
def test_evictions_make_room(tree: dict[str, object], data: st.DataObject) -> None:
    """After the refund of exactly the proposed allocations the claim passes; the query itself changes nothing."""
    manager = QuotaManager()
    manager.set_mode(Mode.NORMAL)
    name = manager.add_tree_from_struct(tree)
    model = TreeModel(manager, name, group_of)
    nodes = manager.view(name).nodes
    groups = [node.name for node in nodes if not any(other.parent == node.name for other in nodes)]
    charged: dict[str, Claim] = {}
    for number in range(data.draw(st.integers(1, 9))):
        group, (cpu, memory, priority) = (
            data.draw(st.sampled_from(groups)),
            data.draw(st.tuples(amounts, amounts, ranks)),
        )
        claim_found = claim(number, group, cpu, memory, priority)
        before = manager.view(name)
        if list(model.check(claim_found)):
            evictions = list(model.evictions(claim_found))
            assert manager.view(name) == before
            for allocation_id in evictions:
                model.refund(charged.pop(allocation_id))
            assert bool(evictions) == (not list(model.check(claim_found)))
        if not list(model.check(claim_found)):
            model.charge(claim_found)
            charged[claim_found.allocation_id] = claim_found
    manager.verify()


def test_reset_keeps_everything_else() -> None:
    """After a reset no claim is held, other consumers remain and move down, and claims may be charged again."""
    manager = manager_of("T", "U")
    model, other = TreeModel(manager, "T", group_of), TreeModel(manager, "T", group_of)
    model.charge(claim(1, "A", 2))
    other.charge(claim(2, "A", 1))
    assert manager.view("T").consumers["a2"].node == "R"
    model.reset()

    assert {name: one.node for name, one in manager.view("T").consumers.items()} == {"a2": "A"}
    assert not list(model.evictions(claim(3, "B", 4, priority=9)))
    model.charge(claim(1, "A", 2))
    model.refund(claim(1, "A", 2))
    model.reset()
    manager.verify()
    assert set(manager.view("T").consumers) == {"a2"}


@pytest.mark.parametrize("kind", ["tree", "forest"])
def test_recharged_without_a_group(kind: str) -> None:
    """A claim that was charged before a reset is charged again even if its group has left the tree meanwhile."""
    manager = manager_of("T", "U")
    model: TreeModel | ForestModel = TreeModel(manager, "T", group_of)
    if kind == "forest":
        model = ForestModel(manager, "F", lambda claim_found: dict.fromkeys("TU", group_of(claim_found)))
    for number, group in ((1, "A"), (2, "B")):
        model.charge(claim(number, group, 1))
    manager.get_tree_cache("T").delete_node("A")
    manager.update_all()
    before = manager.view("T").consumers
    model.reset()
    for number, group in ((1, "A"), (2, "B")):
        model.charge(claim(number, group, 1))

    assert manager.view("T").consumers == before
    with pytest.raises(RequestError):
        model.charge(claim(3, "A", 1))
    model.refund(claim(1, "A", 1))
    with pytest.raises(RequestError):
        model.charge(claim(1, "A", 1)._replace(priority=1))
    manager.verify()


def test_recharged_without_a_tree() -> None:
    """The same holds if its tree is gone: no node holds it, as before the reset."""
    manager = manager_of("T", "U")
    models = [
        TreeModel(manager, "T", group_of),
        ForestModel(manager, "F", lambda claim_found: {"U": group_of(claim_found)}),
    ]
    for model in models:
        model.charge(claim(1, "A", 1))
    for name in ("T", "U"):
        manager.deallocate(name, "a1")
        manager.delete_tree(name)
    manager.delete_forest("F")
    for model in models:
        model.reset()
        model.charge(claim(1, "A", 1))
        model.refund(claim(1, "A", 1))


def test_a_policy_that_raises_changes_nothing() -> None:
    """If a policy raises, all consumers keep their place, also those that a plan left out."""

    def broken(candidates: object, amounts: object, free: object) -> None:  # noqa: ARG001 - as of a policy
        raise ZeroDivisionError

    manager = QuotaManager(policy=broken)
    manager.set_mode(Mode.NORMAL)
    manager.add_forest("F")
    manager.add_tree_to_forest("F", manager.add_tree_from_struct(document(PAIR, "T")))
    models = [
        TreeModel(manager, "T", group_of),
        ForestModel(manager, "F", lambda claim_found: {"T": group_of(claim_found)}),
    ]
    models[0].charge(claim(1, "A", 4))
    before = manager.view("T")
    for model in models:
        with pytest.raises(ZeroDivisionError):
            model.evictions(claim(2, "B", 1, priority=9))
    manager.add_consumer(ConsumerInfo("x", [TreeRequest("T", "B", Resource(cpu=1), priority=9)]))
    calls: list[tuple[Callable[[str, str], object], str]] = [
        (manager.try_allocate, "T"),
        (manager.plan_allocate, "T"),
        (manager.allocate, "T"),
        (manager.try_allocate_forest, "F"),
        (manager.plan_allocate_forest, "F"),
        (manager.allocate_forest, "F"),
    ]
    for call, name in calls:
        with pytest.raises(ZeroDivisionError):
            call(name, "x")

    assert manager.view("T") == before
    manager.verify()
