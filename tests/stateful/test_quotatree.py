"""A quota tree against the naive model, step by step, with edits and updates."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.examples import examples
from support.quotatree_fixtures import manager_of
from support.quotatree_reference import PlainConsumer, ReferenceTree
from support.quotatree_strategies import RESOURCES, TREE, documents, info_of, newcomers, quotas
from ugm import RequestError
from ugm.quotatree import QuotaManager

SMALL = settings(max_examples=examples(60), stateful_step_count=30)


class TreeMachine(RuleBasedStateMachine):
    """The tree and the model give the same answers and hold the same consumers, in the same order."""

    document: dict[str, Any]
    model: ReferenceTree
    manager: QuotaManager
    known: dict[str, PlainConsumer]

    @initialize(document=documents())
    def start(self, document: dict[str, Any]) -> None:
        """Begin with an empty tree."""
        self.document = document
        self.model = ReferenceTree(document)
        self.known = {}
        self.manager = manager_of(document)

    def draw_known(self, data: st.DataObject) -> PlainConsumer:
        """Draw a consumer that is registered."""
        return self.known[data.draw(st.sampled_from(sorted(self.known)))]

    def ask(self, newcomer: PlainConsumer) -> None:
        """Compare the answers of both to a request."""
        if self.model.home(newcomer.id) is None:
            due = self.model.allocate(newcomer)
            response = self.manager.allocate(TREE, newcomer.id)

            assert (list(response.preempted) if response else None) == due

    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        """A new consumer requests resources."""
        groups = (*self.model.parents, "nowhere")
        newcomer = data.draw(newcomers(f"c{len(self.known)}", groups))
        self.known[newcomer.id] = newcomer
        self.manager.add_consumer(info_of(newcomer))
        self.ask(newcomer)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def ask_again(self, data: st.DataObject) -> None:
        """A consumer that was rejected, preempted or deallocated requests again."""
        self.ask(self.draw_known(data))

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """A consumer is deallocated."""
        newcomer = self.draw_known(data)

        assert self.manager.deallocate(TREE, newcomer.id) == self.model.deallocate(newcomer.id)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def try_and_undo(self, data: st.DataObject) -> None:
        """A try that is undone has no effect."""
        newcomer = self.draw_known(data)
        if self.model.home(newcomer.id) is None:
            self.manager.try_allocate(TREE, newcomer.id)
            if self.model.is_leaf(newcomer.group):
                self.manager.undo_allocate(TREE, newcomer.id)
            else:
                with pytest.raises(RequestError, match="was not a try of this consumer"):
                    self.manager.undo_allocate(TREE, newcomer.id)

    @rule(data=st.data())
    def update(self, data: st.DataObject) -> None:
        """A node gets another quota, is added, renamed or, as a leaf, deleted, and the tree is updated."""
        nodes = self.document["spec"]["nodes"] = copy.deepcopy(self.document["spec"]["nodes"])
        cache = self.manager.get_tree_cache(TREE)
        name = data.draw(st.sampled_from(sorted(nodes)))
        edit = data.draw(st.sampled_from(["quota", "add", "rename", "delete"]))
        renamed = {}
        if edit == "quota":
            nodes[name] = nodes[name] | {"quota": data.draw(quotas)}
            cache.add_node_spec(name, nodes[name])
        elif edit == "add":
            nodes[f"{name}+"] = {"parent": name, "hard": "false", "quota": data.draw(quotas)}
            cache.add_node_spec(f"{name}+", nodes[f"{name}+"])
        elif edit == "rename":
            renamed = {name: f"{name}'"}
            cache.rename_node(name, f"{name}'")
            nodes[f"{name}'"] = nodes.pop(name)
            for node in nodes.values():
                node["parent"] = renamed.get(node["parent"], node["parent"])
        elif self.model.is_leaf(name) and len(nodes) > 1:
            cache.delete_node(name)
            del nodes[name]
        self.manager.update_tree(TREE)
        self.model.update(self.document, renamed)

    @invariant()
    def holds_the_same(self) -> None:
        """Every node holds the same consumers in the same order, and counts what they hold."""
        view = self.manager.view(TREE)
        for node in view.nodes:
            assert [consumer.consumer_id for consumer in node.consumers] == [c.id for c in self.model.held[node.name]]
            for name in RESOURCES:
                assert node.allocated[name] == self.model.allocated(node.name, name)
        self.manager.verify()


TestTree = TreeMachine.TestCase
TestTree.settings = SMALL
