"""The behaviour where MCAD has a defect or leaves the result to chance.

Each of its defects has a test, in the order of the table in `docs/explanation/quotatree.md`.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from support.quotatree_fixtures import PAIR, Scene, document
from ugm import ConfigError, RequestError, Resource
from ugm.quotatree import ConsumerInfo, Mode, QuotaManager, TreeRequest

#: Two places in a row fit a request of 3 and the nodes above them do not.
CHAIN = {"R": ("nil", 3), "P3": ("R", 2), "P2": ("P3", 5), "P1": ("P2", 1), "L": ("P1", 5)}


def test_two_failed_places_are_given_back_once() -> None:
    """A request that fails above two homes in turn has charged neither of them when a node above holds it."""
    scene = Scene(CHAIN)

    assert scene.ask("a", "L", 3)
    assert scene.used() == {"R": 3, "P3": 0, "P2": 0, "P1": 0, "L": 0}


def test_two_failed_places_of_a_rejected_request() -> None:
    """The same when the request is rejected."""
    scene = Scene(CHAIN)

    assert not scene.ask("a", "L", 5)
    assert set(scene.used().values()) == {0}


def test_victims_come_back_when_the_request_fails_after_all() -> None:
    """Victims that do not suffice keep their place and remain allocated."""
    scene = Scene({"R": ("nil", 3), "H!": ("R", 2), "L": ("H", 1), "X": ("R", 2)})
    scene.ask("a", "L", 1)
    scene.ask("x", "X", 2, priority=5)
    before = scene.manager.view("T")

    assert not scene.ask("b", "L", 2, priority=1)
    assert scene.manager.view("T") == before
    assert scene.manager.is_allocated("T", "a")


def test_all_victims_are_reported() -> None:
    """Every consumer that is no longer allocated is in the response, even after several walks."""
    draw = random.Random(4)
    scene = Scene({"R": ("nil", 9), "P": ("R", 7), "Q!": ("R", 5), "L": ("P", 3), "K": ("P", 4), "M": ("Q", 4)})
    for number in range(400):
        before = set(scene.manager.view("T").consumers)
        response = scene.ask(f"c{number}", draw.choice("LKM"), draw.randint(1, 5), priority=draw.randint(0, 4))
        gone = before - set(scene.manager.view("T").consumers)

        assert gone == set(response.preempted)
        if before and draw.random() < 0.3:
            scene.manager.deallocate("T", draw.choice(sorted(before)))


def test_rejection_keeps_the_order() -> None:
    """A rejected request does not change the order of the consumers that its search moved."""
    scene = Scene({"R": ("nil", 4), "M!": ("R", 4), "L": ("M", 3), "K": ("M", 3)})
    scene.ask("a", "L", 1)
    scene.ask("b", "L", 2, priority=3)
    scene.ask("u", "K", 1, priority=3)

    assert not scene.ask("x", "L", 2, priority=1)
    assert scene.held()["L"] == ["a", "b"]


def test_a_resource_not_asked_for_never_denies() -> None:
    """An exceeded quota does not deny a request without that resource."""
    manager = QuotaManager()
    nodes = {"R": {"quota": {"cpu": "1", "gpu": "1"}}}
    manager.add_tree_from_struct(document({}) | {"spec": {"resourceNames": ["cpu", "gpu"], "nodes": nodes}})
    manager.add_consumer(ConsumerInfo("over", [TreeRequest("T", "R", Resource(gpu=2))]))
    manager.add_consumer(ConsumerInfo("other", [TreeRequest("T", "R", Resource(cpu=1))]))
    manager.allocate("T", "over")
    manager.set_mode(Mode.NORMAL)

    assert manager.allocate("T", "other")


def test_second_undo_is_refused() -> None:
    """A try is undone once."""
    scene = Scene(PAIR)
    scene.ask("a", "A")
    scene.know("b", "A")
    scene.manager.try_allocate("T", "b")
    scene.manager.undo_allocate("T", "b")
    with pytest.raises(RequestError) as caught:
        scene.manager.undo_allocate("T", "b")

    assert str(caught.value) == "consumer_id 'b': the last change of tree 'T' was not a try of this consumer"
    assert scene.held() == {"A": ["a"]}


@pytest.mark.parametrize("group", ["nowhere", "R"])
def test_undo_of_a_try_in_an_unknown_group(group: str) -> None:
    """A try that was rejected because of its group cannot be undone, and changes nothing."""
    scene = Scene(PAIR)
    scene.ask("a", "A")
    scene.know("b", group)

    assert not scene.manager.try_allocate("T", "b")
    with pytest.raises(RequestError, match="the last change of tree 'T' was not a try of this consumer"):
        scene.manager.undo_allocate("T", "b")
    assert scene.held() == {"A": ["a"]}


@pytest.mark.parametrize("groups", [("nowhere", "nowhere"), ("A", "nowhere"), ("nowhere", "A"), ("R", "A")])
def test_undo_of_a_forest_try_in_an_unknown_group(groups: tuple[str, str]) -> None:
    """On a forest such a try cannot be undone either, whichever tree lacks the group.

    MCAD answers the same, unless that tree is by chance the last one that it looks at.
    """
    scene = Scene(PAIR, PAIR, forest="F")
    scene.ask("a", "A")
    entries = [TreeRequest(name, group, Resource(cpu=1)) for name, group in zip(scene.trees, groups, strict=True)]
    scene.manager.add_consumer(ConsumerInfo("b", entries))

    assert not scene.manager.try_allocate_forest("F", "b")
    for _ in range(2):
        with pytest.raises(RequestError, match="the last change of forest 'F' was not a try of this consumer"):
            scene.manager.undo_allocate_forest("F", "b")
    assert scene.held() == {"A": ["a"]}


def test_undo_of_a_try_without_room() -> None:
    """A try that was rejected because of a quota can be undone once."""
    scene = Scene(PAIR, PAIR, forest="F")
    scene.know("b", "A", 9)

    assert not scene.manager.try_allocate("T", "b")
    scene.manager.undo_allocate("T", "b")
    assert not scene.manager.try_allocate_forest("F", "b")
    scene.manager.undo_allocate_forest("F", "b")
    with pytest.raises(RequestError):
        scene.manager.undo_allocate_forest("F", "b")


@pytest.mark.parametrize("change", ["allocate", "deallocate", "update"])
def test_undo_is_refused_after_a_change(change: str) -> None:
    """A try is undone right away or not at all."""
    scene = Scene(PAIR)
    scene.ask("a", "A")
    scene.know("b", "A")
    scene.know("c", "B")
    scene.manager.try_allocate("T", "b")
    calls: dict[str, Callable[[], object]] = {
        "allocate": lambda: scene.manager.allocate("T", "c"),
        "deallocate": lambda: scene.manager.deallocate("T", "a"),
        "update": lambda: scene.manager.update_tree("T"),
    }
    calls[change]()
    with pytest.raises(RequestError):
        scene.manager.undo_allocate("T", "b")

    assert scene.manager.is_allocated("T", "b")


def test_deleted_tree_leaves_its_forest() -> None:
    """A deleted tree leaves its forest, and the forest can be updated."""
    scene = Scene(PAIR, PAIR, forest="F")
    scene.manager.delete_tree("T1")

    assert scene.manager.get_forest_tree_names() == {"F": ("T",)}
    assert set(scene.manager.update_forest("F").trees) == {"T"}


def test_a_part_of_a_forest_is_enough() -> None:
    """A consumer that names some trees of a forest is allocated on the forest if these hold it, and only once."""
    scene = Scene(PAIR, PAIR, forest="F")
    scene.manager.add_consumer(ConsumerInfo("a", [TreeRequest("T", "A", Resource(cpu=1))]))

    assert scene.manager.allocate_forest("F", "a")
    assert scene.manager.is_allocated_forest("F", "a")
    with pytest.raises(RequestError):
        scene.manager.allocate_forest("F", "a")
    assert scene.used()["R"] == 1
    assert scene.manager.deallocate_forest("F", "a")
    assert scene.used()["R"] == 0


@pytest.mark.parametrize("mode", Mode)
def test_a_tree_outside_the_forest_is_ignored(mode: Mode) -> None:
    """Trees that a consumer names outside the forest are ignored, in either mode."""
    scene = Scene(PAIR, PAIR, forest="F")
    scene.manager.delete_tree_from_forest("F", "T1")
    scene.know("a", "A")
    scene.manager.set_mode(mode)

    assert scene.manager.allocate_forest("F", "a")
    assert (scene.held("T"), scene.held("T1")) == ({"A": ["a"]}, {})


def test_victims_leave_all_trees_of_the_forest() -> None:
    """A victim in one tree leaves all trees of the forest, even those that the newcomer does not name."""
    scene = Scene(PAIR, PAIR, forest="F")
    scene.know("a", "A", 4)
    scene.manager.allocate_forest("F", "a")
    scene.manager.add_consumer(ConsumerInfo("b", [TreeRequest("T", "B", Resource(cpu=2))]))

    assert scene.manager.allocate_forest("F", "b").preempted == ("a",)
    assert (scene.held("T"), scene.held("T1")) == ({"B": ["b"]}, {})


def test_forest_rolls_back_exactly() -> None:
    """If the last tree rejects, all consumers of the others keep their place, even those over the quota."""
    scene = Scene(PAIR, {"R": ("nil", 4), "A": ("R", 2), "B!": ("R", 1)}, forest="F")
    scene.know("over", "A", 5)
    scene.manager.set_mode(Mode.MAINTENANCE)
    scene.manager.allocate("T", "over")
    scene.manager.set_mode(Mode.NORMAL)
    before = scene.manager.view("T")
    scene.know("b", "B", 2)

    assert not scene.manager.allocate_forest("F", "b")
    assert scene.manager.view("T") == before


def test_forcing_onto_a_forest_is_all_or_nothing() -> None:
    """In maintenance mode, a group that is no node on one tree leaves the other trees unchanged as well."""
    scene = Scene(PAIR, {"R": ("nil", 4)}, forest="F")
    scene.manager.set_mode(Mode.MAINTENANCE)
    scene.know("a", "A")

    assert not scene.manager.allocate_forest("F", "a")
    assert scene.held("T") == {}


def test_second_forest_is_refused() -> None:
    """A tree belongs to one forest."""
    scene = Scene(PAIR, forest="F")
    scene.manager.add_forest("G")
    with pytest.raises(RequestError) as caught:
        scene.manager.add_tree_to_forest("G", "T")

    assert str(caught.value) == "tree_name 'T': the tree belongs to forest 'F'"


def test_empty_forest_holds_no_consumers() -> None:
    """On a forest without trees no consumer is allocated, although a request is granted."""
    scene = Scene(PAIR)
    scene.manager.add_forest("F")
    scene.know("a", "A")

    assert not scene.manager.is_allocated_forest("F", "a")
    assert scene.manager.allocate_forest("F", "a")
    assert scene.held() == {}
    assert not scene.manager.is_allocated_forest("F", "a")


def test_requests_are_read_by_the_tree_in_force() -> None:
    """A resource that was added to the cache counts from the update on, and not for earlier requests."""
    scene = Scene(PAIR)
    scene.manager.get_tree_cache("T").add_resource_name("gpu")

    assert scene.ask("a", "A")
    assert scene.manager.view("T").nodes[0].allocated == Resource(cpu=1)


def test_chain_of_renames() -> None:
    """Consumers follow their node through several renames before one update."""
    scene = Scene(PAIR)
    scene.ask("a", "A")
    cache = scene.manager.get_tree_cache("T")
    cache.rename_node("A", "A2")
    cache.rename_node("A2", "A3")
    scene.manager.update_tree("T")

    assert scene.manager.view("T").consumers["a"].group == "A3"
    assert scene.held() == {"A3": ["a"]}


def test_swapped_names() -> None:
    """Two nodes that swap their names through a third keep their own consumers."""
    scene = Scene(PAIR)
    scene.ask("a", "A")
    scene.ask("b", "B")
    cache = scene.manager.get_tree_cache("T")
    for name, new_name in (("A", "X"), ("B", "A"), ("X", "B")):
        cache.rename_node(name, new_name)
    scene.manager.update_tree("T")

    assert scene.held() == {"B": ["a"], "A": ["b"]}


def test_held_amounts_follow_their_resource() -> None:
    """After resources were added and removed, all consumers hold the requested amounts by name."""
    scene = Scene(PAIR)
    scene.ask("a", "A", 2)
    cache = scene.manager.get_tree_cache("T")
    cache.add_resource_name("accelerator")
    scene.manager.update_tree("T")

    assert scene.manager.view("T").nodes[0].allocated == Resource(accelerator=0, cpu=2)


def test_renamed_tree_stays_in_its_forest() -> None:
    """A tree with another name in its cache keeps its name in manager and forest, and all consumers."""
    scene = Scene(PAIR, PAIR, forest="F")
    scene.know("a", "A")
    scene.manager.allocate_forest("F", "a")
    scene.manager.get_tree_cache("T").set_tree_name("New")
    done = scene.manager.update_forest("F")

    assert [done.trees[name].tree_name for name in ("T", "T1")] == ["New", "T1"]
    assert scene.manager.get_forest_tree_names() == {"F": ("T", "T1")}
    assert scene.manager.view("T").name == "New"
    assert scene.manager.is_allocated_forest("F", "a")


def test_update_all_ends() -> None:
    """All trees are updated, those in forests with their forest, without a deadlock."""
    scene = Scene(PAIR, PAIR, forest="F")
    scene.manager.delete_tree_from_forest("F", "T")
    scene.know("a", "A")
    scene.manager.allocate("T", "a")
    for name in scene.trees:
        scene.manager.get_tree_cache(name).delete_node("R")
    done = scene.manager.update_all()

    assert done.unallocated == ("a",)
    assert [done.trees[name].dangling for name in scene.trees] == [("A", "B"), ("A", "B")]


def test_node_without_a_name() -> None:
    """A node without a name is refused with its place."""
    with pytest.raises(ConfigError) as caught:
        QuotaManager().add_tree_from_struct(document({"": ("R", 1), "R": ("nil", 1)}))

    assert str(caught.value) == "<struct>: spec.nodes: expected the name of the node [node-name-missing]"


def test_quantity_that_does_not_parse() -> None:
    """A quota that is no whole number is refused, and not read as 0."""
    text = '{"kind": "QuotaTree", "metadata": {"name": "T"}, "spec": {"nodes": {"R": {"quota": {"cpu": "5Gi"}}}}}'
    with pytest.raises(ConfigError) as caught:
        QuotaManager().add_tree_from_string(text)

    message = "<text>:1:92: spec.nodes.R.quota.cpu: expected a whole number, found '5Gi' [quantity-invalid]"
    assert str(caught.value) == message


def test_a_name_with_a_percent_sign() -> None:
    """Names appear unchanged in messages."""
    scene = Scene()
    scene.manager.add_tree_from_struct(document({"R": ("nil", 1)}, "50%d"))
    scene.manager.add_consumer(ConsumerInfo("a", [TreeRequest("50%d", "R", Resource(cpu=2))]))

    assert "tree '50%d'" in str(scene.manager.allocate("50%d", "a"))
