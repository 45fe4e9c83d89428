"""A tree and a forest as quota models, through the protocol alone."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.partition_fixtures import config
from support.quotatree_fixtures import PAIR, document
from support.quotatree_strategies import documents
from ugm import Claim, Partition, RequestError, Resource, UserGroup
from ugm.model import EvictingModel, SetupViolation
from ugm.quotatree import ForestModel, Mode, QuotaManager, TreeModel

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
    """A running allocation is charged regardless of the quotas; the root holds one without a group in the tree."""
    model.charge(claim(1, "A", 9))

    assert list(model.check(claim(2, "A", 1)))
    model.charge(claim(3, "nowhere"))
    assert [one.used for one in model.check(claim(2, "A", 1)) if one.name == "R"][:1] == [10]
    model.refund(claim(3, "nowhere"))
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


#: The largest quota.
MOST = 2**63 - 1


def test_large_requests_do_not_stop_others() -> None:
    """Amounts of more than 64 bits are counted exactly, pending and adopted."""
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
    assert f"{HUGE} of 4 used" in str(denied)
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
    """After a reset no claim is held, other consumers remain, and claims may be charged again."""
    manager = manager_of("T", "U")
    model, other = TreeModel(manager, "T", group_of), TreeModel(manager, "T", group_of)
    model.charge(claim(1, "A", 2))
    other.charge(claim(2, "A", 1))
    assert manager.view("T").consumers["a2"].node == "R"
    model.reset()

    assert {name: one.node for name, one in manager.view("T").consumers.items()} == {"a2": "R"}
    assert not list(model.evictions(claim(3, "B", 4, priority=9)))
    model.charge(claim(1, "A", 2))
    model.refund(claim(1, "A", 2))
    model.reset()
    manager.verify()
    assert set(manager.view("T").consumers) == {"a2"}
