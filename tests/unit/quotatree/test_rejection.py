"""Rejections and plans, as text and for JSON."""

from __future__ import annotations

import copy
import pickle

from support.quotatree_fixtures import PAIR, Scene
from ugm.quotatree import NodeQuota, Reason, Rejection, VictimPolicy, fewest, first_found


def test_no_room_without_priority() -> None:
    """Every violated quota is listed from the group upward, with the missing amount."""
    scene = Scene(PAIR)
    scene.ask("a", "A", 2)
    scene.ask("b", "B", 2)

    assert str(scene.ask("c", "A", 2)) == (
        "'c' rejected in group 'A' of tree 'T': no room\n"
        "  quota node 'A' of tree 'T': 2 cpu requested, 2 of 2 used, 2 too much\n"
        "  quota node 'R' of tree 'T': 2 cpu requested, 4 of 4 used, 2 too much\n"
        "  a request of priority 0 preempts no consumers"
    )


def test_hard_node_blocks_borrowing() -> None:
    """The hard node that kept a request from borrowing is named, and no node above it."""
    scene = Scene({"R": ("nil", 9), "M!": ("R", 3), "L": ("M", 1)})
    scene.ask("a", "L", 2, priority=3)

    assert str(scene.ask("b", "L", 2, priority=1)) == (
        "'b' rejected in group 'L' of tree 'T': no room\n"
        "  quota node 'L' of tree 'T': 2 cpu requested, 0 of 1 used, 1 too much\n"
        "  quota node 'M' of tree 'T': 2 cpu requested, 2 of 3 used, 1 too much\n"
        "  'M' is hard: nothing is borrowed above it\n"
        "  without all preemptible consumers, 1 cpu would still be missing at 'M'"
    )


def test_victims_that_are_no_help() -> None:
    """The text says if preemption would suffice at the last node but not on the path to it."""
    scene = Scene({"R": ("nil", 3), "H!": ("R", 2), "L": ("H", 1), "X": ("R", 2)})
    scene.ask("a", "L", 1)
    scene.ask("x", "X", 2, priority=5)
    response = scene.ask("b", "L", 2, priority=1)

    assert response.rejection is not None
    assert response.rejection.blocked_by == "H"
    assert response.rejection.preemption_failure


def test_groups_that_are_no_leaf() -> None:
    """A group that is no node, or has children, has a reason of its own."""
    scene = Scene(PAIR)
    answers = [scene.ask(group or "x", group) for group in ("nowhere", "R", "")]

    assert [a.rejection.reason for a in answers if a.rejection] == [
        Reason.UNKNOWN_GROUP,
        Reason.NOT_A_LEAF,
        Reason.NO_GROUP,
    ]
    assert str(answers[0]) == "'nowhere' rejected in group 'nowhere' of tree 'T': unknown group"


def test_rejection_for_json() -> None:
    """A rejection can be written as JSON."""
    scene = Scene({"R": ("nil", 1)})
    response = scene.ask("a", "R", 2)
    assert response.rejection is not None
    fields = response.rejection.to_dict()

    violations = fields.pop("violations")
    assert isinstance(violations, list)
    assert [violation["shortfall"] for violation in violations] == [1]
    assert fields == {
        "tree_name": "T",
        "consumer_id": "a",
        "group": "R",
        "reason": "no room",
        "blocked_by": "",
        "preemption_failure": "a request of priority 0 preempts no consumers",
    }


def test_granted_and_planned_in_words() -> None:
    """Responses and plans list the victims, the moves and the node of the consumer."""
    scene = Scene({"R": ("nil", 5), "P": ("R", 3), "L": ("P", 2)})
    scene.ask("a", "L", 2)
    scene.ask("b", "L", 1)
    scene.ask("c", "L", 2)
    scene.know("d", "L", 2, priority=1)

    assert str(scene.manager.plan_allocate("T", "d")) == (
        "'d' would be allocated, preempting 'c'\n"
        "  tree 'T': at 'L'\n"
        "  tree 'T': 'a' from 'L' to 'R'\n"
        "  tree 'T': 'b' from 'P' to 'R'"
    )
    assert str(scene.manager.allocate("T", "d")) == "'d' allocated, preempting 'c'"


def test_plans_of_what_if() -> None:
    """A plan can leave consumers out, forbid preemption, and be made for an unregistered consumer."""
    scene = Scene({"R": ("nil", 2)})
    scene.ask("a", "R", 2)
    scene.know("b", "R", 2, priority=1)

    assert scene.manager.plan_allocate("T", "b").preempted == ("a",)
    assert not scene.manager.plan_allocate("T", "b", preempting=False)
    assert scene.manager.plan_allocate("T", "b", preempting=False, without=["a"])
    assert scene.held() == {"R": ["a"]}


def test_useless_victims_stay_with_the_fewest() -> None:
    """The policy of MCAD takes victims in their order; the other one takes one that suffices."""
    expected: list[tuple[VictimPolicy, tuple[str, ...]]] = [(first_found, ("a", "b")), (fewest, ("b",))]
    for policy, victims in expected:
        scene = Scene({"R": ("nil", 4), "A": ("R", 4)}, policy=policy)
        scene.ask("a", "A", 1)
        scene.ask("b", "A", 3)

        assert scene.ask("c", "A", 3, priority=1).preempted == victims


def test_rejection_is_a_value() -> None:
    """A rejection has no reference to the tree: it can be copied and pickled, and does not change with the tree."""
    scene = Scene({"R": ("nil", 2), "L!": ("R", 1)})
    rejection = scene.ask("a", "L", 2).rejection
    assert isinstance(rejection, Rejection)
    text = str(rejection)
    cache = scene.manager.get_tree_cache("T")
    cache.rename_node("L", "M")
    scene.manager.update_tree("T")

    assert rejection.visited == (NodeQuota("L", is_hard=True, quota=(1,), free=(1,)),)
    assert pickle.loads(pickle.dumps(rejection)) == copy.deepcopy(rejection) == rejection  # noqa: S301 - our own bytes
    assert str(rejection) == text
