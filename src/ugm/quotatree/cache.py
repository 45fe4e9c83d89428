"""What a tree is to become: names, resources and nodes as edited, without effect until the tree is updated.

Renames are followed from the tree that is in force to the present names, through chains and swaps, so that consumers
go with their node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import RLock
from typing import Any, Final, NamedTuple, final

from ugm.errors import RequestError
from ugm.identity import MAX_NAME, is_name
from ugm.quotatree.answers import TreeCreateResponse
from ugm.quotatree.documents import (
    NodeSpec,
    TreeDocument,
    node_from_struct,
    nodes_from_text,
    tree_from_struct,
    tree_from_text,
    tree_info_from_text,
)
from ugm.quotatree.lanes import Layouts
from ugm.quotatree.locking import OwnedLock, unlocking
from ugm.quotatree.node import TreeNode
from ugm.quotatree.packing import Packing
from ugm.quotatree.tree import QuotaTree
from ugm.quotatree.view import TreeView, view_of

__all__ = ["DEFAULT_RESOURCES", "DEFAULT_TREE_NAME", "Blueprint", "TreeCache"]

#: What a tree counts for which no resource is named.
DEFAULT_RESOURCES: Final = ("cpu", "memory", "nvidia.com/gpu")

#: The name of a tree that has none.
DEFAULT_TREE_NAME: Final = "default"


class Blueprint(NamedTuple):
    """A tree as built from a cache, without consumers."""

    name: str
    resources: tuple[str, ...]
    root: TreeNode | None
    response: TreeCreateResponse


@final
class TreeCache:
    """A tree as it is to become.

    Args:
        tree_name: the name that the next tree gets.
        lock: held while the cache is read or changed; that of the manager, where the cache belongs to one.
    """

    __slots__ = ("_live", "_lock", "_name", "_nodes", "_renamed", "_resources")

    _lock: OwnedLock
    _name: str
    _resources: set[str]
    _nodes: dict[str, NodeSpec]
    #: The last rename of each name, one step.
    _renamed: dict[str, str]
    #: For each node of the tree in force that has another name now, that name.
    _live: dict[str, str]

    def __init__(self, tree_name: str = DEFAULT_TREE_NAME, *, lock: OwnedLock | None = None) -> None:
        self._lock = lock or RLock()
        self._name = tree_name
        self._resources = set()
        self._nodes = {}
        self._renamed = {}
        self._live = {}

    # Name and resources

    @unlocking
    def get_tree_name(self) -> str:
        """Return the name that the next tree gets."""
        with self._lock:
            return self._name

    @unlocking
    def set_tree_name(self, tree_name: str) -> None:
        """Set the name that the next tree gets. Without one it is named `ugm.quotatree.DEFAULT_TREE_NAME`."""
        _check_text("tree_name", tree_name)
        with self._lock:
            self._name = tree_name

    def set_default_tree_name(self) -> None:
        """Set the name to `ugm.quotatree.DEFAULT_TREE_NAME`."""
        self.set_tree_name(DEFAULT_TREE_NAME)

    @unlocking
    def get_resource_names(self) -> tuple[str, ...]:
        """Return what the next tree counts, sorted."""
        with self._lock:
            return tuple(sorted(self._resources))

    def add_resource_name(self, name: str) -> None:
        """Have a resource counted. An empty name is ignored."""
        self.add_resource_names((name,))

    @unlocking
    def add_resource_names(self, names: Iterable[str]) -> None:
        """Have several resources counted. Empty names are ignored."""
        if isinstance(names, str):
            raise RequestError("names", names, "expected several names")
        given = list(names)
        for name in given:
            _check_text("names", name)
        with self._lock:
            self._resources.update(filter(None, given))

    @unlocking
    def delete_resource_name(self, name: str) -> None:
        """Have a resource counted no longer."""
        with self._lock:
            self._resources.discard(name)

    def set_default_resource_names(self) -> None:
        """Have `ugm.quotatree.DEFAULT_RESOURCES` counted, too."""
        self.add_resource_names(DEFAULT_RESOURCES)

    @unlocking
    def add_tree_info(self, text: str) -> None:
        """Read a name and resources, ``{"name": ..., "resourceNames": [...]}``.

        Raises:
            ConfigError: the document is malformed.
        """
        name, resources = tree_info_from_text(text)
        with self._lock:
            self._name = name
            self._resources.update(resources)

    # Nodes

    @unlocking
    def get_node_names(self) -> tuple[str, ...]:
        """Return the names of the nodes, sorted."""
        with self._lock:
            return tuple(sorted(self._nodes))

    @unlocking
    def add_node_spec(self, name: str, spec: NodeSpec | Mapping[str, Any]) -> None:
        """Add or replace a node; a rename from its name is forgotten.

        Raises:
            RequestError: the name is empty.
            ConfigError: the specification is malformed or has no quota.
        """
        if not is_name(name):
            raise RequestError("name", name, "a name is a text of 1 to 256 characters")
        node = node_from_struct(name, spec.to_dict() if isinstance(spec, NodeSpec) else spec)
        with self._lock:
            self._add({name: node})

    @unlocking
    def add_node_specs(self, specs: str | Mapping[str, Any]) -> None:
        """Add or replace several nodes: a mapping of names to specifications, or a text with one.

        Raises:
            ConfigError: something is malformed; no node has been added.
        """
        nodes = nodes_from_text(specs)
        with self._lock:
            self._add(nodes)

    def _add(self, nodes: Mapping[str, NodeSpec]) -> None:
        for name, node in nodes.items():
            self._nodes[name] = node
            self._renamed.pop(name, None)
            self._live.pop(name, None)

    @unlocking
    def rename_node(self, name: str, new_name: str) -> None:
        """Rename a node. Its children and, at the next update, its consumers go with it.

        A node that has the new name already is replaced.

        Raises:
            RequestError: a name is empty, both are the same, or there is no such node.
        """
        for argument, value in (("name", name), ("new_name", new_name)):
            if not is_name(value):
                raise RequestError(argument, value, "a name is a text of 1 to 256 characters")
        if name == new_name:
            raise RequestError("new_name", new_name, "the node has that name")
        with self._lock:
            if name not in self._nodes:
                raise RequestError("name", name, "there is no such node")
            self._rename(name, new_name)

    def _rename(self, name: str, new_name: str) -> None:
        self._nodes[new_name] = self._nodes.pop(name)
        for child, node in self._nodes.items():
            if node.parent == name:
                self._nodes[child] = node._replace(parent=new_name)
        self._renamed.pop(new_name, None)
        self._renamed[name] = new_name
        followed = [live for live, present in self._live.items() if present == name]
        if not followed and name not in self._live:
            followed = [name]
        for live in followed:
            self._live[live] = new_name

    @unlocking
    def get_renamed_node(self, name: str) -> str:
        """Return what a node was last renamed to; empty if it was not."""
        with self._lock:
            return self._renamed.get(name, "")

    @unlocking
    def delete_node(self, name: str) -> None:
        """Remove a node. Its children stay, and are not in the tree until they have a parent again."""
        with self._lock:
            self._nodes.pop(name, None)

    # The whole

    def from_string(self, text: str) -> None:
        """Read a tree document: take its name, and add its resources and nodes to what is there.

        Raises:
            ConfigError: the document is malformed; nothing has been taken from it.
        """
        self.merge(tree_from_text(text))

    def from_struct(self, document: Mapping[str, Any]) -> None:
        """Do what `from_string` does with a document that has been parsed.

        Raises:
            ConfigError: as for `from_string`.
        """
        self.merge(tree_from_struct(document))

    @unlocking
    def merge(self, document: TreeDocument) -> None:
        """Take the name of a document, and add its resources and nodes to what is there."""
        with self._lock:
            self._name = document.name
            self._resources.update(document.resource_names)
            self._add(document.nodes)

    @unlocking
    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._name = ""
            for part in (self._resources, self._nodes, self._renamed, self._live):
                part.clear()

    @unlocking
    def to_struct(self) -> dict[str, Any]:
        """Return the tree document, which `from_struct` reads."""
        with self._lock:
            nodes = {name: node.to_dict() for name, node in self._nodes.items()}
            spec = {"resourceNames": sorted(self._resources), "nodes": nodes}
            return {"kind": "QuotaTree", "metadata": {"name": self._name}, "spec": spec}

    @unlocking
    def create_tree(self) -> tuple[TreeView, TreeCreateResponse]:
        """Build the tree, without putting it in force.

        Where several nodes have no parent the first by name is the root.
        """
        with self._lock:
            name, resources, root, response = self.build()
        return view_of(QuotaTree(name, resources, root)), response

    def build(self) -> Blueprint:
        """Do what `create_tree` does under a lock that is held."""
        told = self._name
        self._name = self._name or DEFAULT_TREE_NAME
        self._resources = self._resources or set(DEFAULT_RESOURCES)
        top = min((name for name, node in self._nodes.items() if node.parent is None), default=None)
        resources = tuple(sorted(self._resources)) if self._nodes else ()
        root = None if top is None else self._grow(top, resources)
        built = set() if root is None else {node.name for node in root.walk()}
        response = TreeCreateResponse(told, top or "", tuple(sorted(self._nodes.keys() - built)))
        return Blueprint(self._name, resources, root, response)

    def _grow(self, top: str, resources: tuple[str, ...]) -> TreeNode:
        children: dict[str, list[str]] = {}
        for name, node in self._nodes.items():
            children.setdefault(node.parent or "", []).append(name)
        layouts = Layouts(Packing(resources))
        root = self._node(top, None, layouts)
        growing = [root]
        while growing:
            parent = growing.pop()
            growing += [self._node(name, parent, layouts) for name in sorted(children.get(parent.name, ()))]
        return root

    def _node(self, name: str, parent: TreeNode | None, layouts: Layouts) -> TreeNode:
        spec = self._nodes[name]
        quota = tuple(spec.quota.get(resource, 0) for resource in layouts.packing.resources)
        return TreeNode(name, parent, quota, layouts, hard=spec.hard)

    def settle_names(self) -> Mapping[str, str]:
        """Return the nodes of the tree in force that have another name now, and begin anew. The lock is held."""
        renamed, self._live = self._live, {}
        return renamed


def _check_text(argument: str, name: object) -> None:
    """Make sure that a name is a text; it may be empty where that means none."""
    if not isinstance(name, str) or len(name) > MAX_NAME:
        raise RequestError(argument, name, f"a name is a text of up to {MAX_NAME} characters")
