"""A tree and a forest as quota models, through the protocol alone."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from support.quotatree_fixtures import PAIR, document, manager_of
from ugm import Claim, RequestError, Resource, UserGroup
from ugm.model import EvictingModel, SetupViolation
from ugm.quotatree import ForestModel, Mode, QuotaManager, TreeModel

SUE = UserGroup("sue")


def claim(number: int, group: str, cpu: int = 1, memory: int = 0, priority: int = 0) -> Claim:
    """Return the claim of one allocation in one group."""
    usage = Resource(cpu=cpu, memory=memory)
    return Claim(f"a{number}", "app", usage, f"root.{group}", SUE, priority=priority)


def group_of(claim: Claim) -> str | None:
    """Return the last part of a queue path; nothing for those that the tree does not limit."""
    group = claim.queue_path.removeprefix("root.")
    return None if group == "free" else group


def forest_of(*trees: str) -> QuotaManager:
    """Return a manager in normal mode with some trees, in one forest."""
    return manager_of(*(document(PAIR, name) for name in trees), forest="F")


@pytest.fixture(name="model", params=["tree", "forest"])
def _model(request: pytest.FixtureRequest) -> EvictingModel:
    manager = forest_of("T", "U")
    if request.param == "tree":
        return TreeModel(manager, "T", group_of)
    return ForestModel(manager, "F", lambda claim: {name: group_of(claim) or "" for name in ("T", "U")})


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


def test_maintenance_is_denied() -> None:
    """A manager in maintenance mode grants nothing through a model, but running allocations are charged."""
    manager = forest_of("T")
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


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((None, "T", group_of), {}),
        ((forest_of("T"), None, group_of), {}),
        ((forest_of("T"), "T", group_of), {"unrestricted": 1}),
        ((forest_of("T"), "T", group_of), {"default_group": ""}),
    ],
)
def test_misuse_at_setup(arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Invalid arguments of a model are refused."""
    with pytest.raises(RequestError):
        TreeModel(*arguments, **options)


def test_no_group_is_denied() -> None:
    """A claim without a group is denied with the reason, unless the setup names a default or lifts the restriction."""
    manager = forest_of("T", "U")
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
    model = TreeModel(manager, "U", group_of)
    manager.delete_tree("U")
    assert [str(each) for each in model.check(claim(2, "A"))] == ["quota tree 'U': there is no such tree"]


def test_reset_keeps_everything_else() -> None:
    """After a reset no claim is held, other consumers remain, and claims may be charged again."""
    manager = forest_of("T", "U")
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


def test_differences_from_the_ledger() -> None:
    """The self-check names claims with another amount, and consumers without a claim; a refused charge leaves none."""
    model = TreeModel(forest_of("T"), "T", group_of)
    model.charge(claim(1, "A"))
    with pytest.raises(RequestError):
        model.charge(claim(1, "A", 2))
    assert not model.verify({"a1": claim(1, "A")}, {})

    (found,) = model.verify({"a1": claim(1, "A", 2)}, {})
    assert found.startswith("allocation 'a1' is charged with [Resource(cpu=1")
    assert model.verify({}, {}) == ["allocation 'a1' is charged, but not in the ledger"]


def test_loaded_claims() -> None:
    """Claims that are charged after `load` are held where they were; one without a group or a node is refused."""
    manager = forest_of("T")
    model = TreeModel(manager, "T", group_of)
    for node, loaded, problem in (
        ("A", "free", "claim 'a1': the claim has no group"),
        ("gone", "A", "node 'gone': tree 'T' has no such node"),
    ):
        model.load({"homes": {"T": [("a1", node)]}})
        with pytest.raises(RequestError) as caught:
            model.charge(claim(1, loaded))
        assert str(caught.value) == problem
    model.load({"homes": {"T": [("a1", "R")]}})
    model.charge(claim(1, "A"))

    assert manager.view("T").consumers["a1"].node == "R"
