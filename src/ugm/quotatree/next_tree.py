"""The next version of a tree, which takes effect when the tree is updated.

MCAD calls it the *cache* of the tree. It records the renames of nodes since the last update, including chains (a to b
to c) and swaps, so that consumers follow their node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, final

from ugm.arguments import require_items, require_name
from ugm.engine_lock import OwnedLock, locked
from ugm.errors import RequestError
from ugm.identity import MAX_NAME
from ugm.quotatree._node import Packing, TreeNode
from ugm.quotatree._tree import QuotaTree, TreeOptions
from ugm.quotatree.answers import TreeCreateResponse, TreeView
from ugm.quotatree.documents import NodeSpec, nodes_from, tree_from

__all__ = ["DEFAULT_RESOURCES", "DEFAULT_TREE_NAME", "TreeCache"]

#: The default resources of a tree.
DEFAULT_RESOURCES: Final = ("cpu", "memory", "nvidia.com/gpu")

#: The default name of a tree.
DEFAULT_TREE_NAME: Final = "default"

_NO_NODES: Final[Mapping[str, NodeSpec]] = MappingProxyType({})


@final
class TreeCache:
    """The next version of a tree.

    Args:
        tree_name: the name of the next tree.
        lock: held while the cache is read or changed: the lock of the manager, if the cache belongs to one.
    """

    def __init__(self, tree_name: str = DEFAULT_TREE_NAME, *, lock: OwnedLock | None = None) -> None:
        _require_text("tree_name", tree_name)
        if lock is not None and not isinstance(lock, OwnedLock):
            raise RequestError("lock", lock, "expected a lock of a manager, or None")
        self._lock: OwnedLock = OwnedLock() if lock is None else lock
        self._name = tree_name
        self._resources: set[str] = set()
        self._nodes: dict[str, NodeSpec] = {}
        #: The last rename of each name, one step.
        self._renamed: dict[str, str] = {}
        #: For each renamed node of the tree in force its present name.
        self._new_names: dict[str, str] = {}

    # Name and resources

    @locked
    def get_tree_name(self) -> str:
        """Return the name of the next tree."""
        return self._name

    @locked
    def set_tree_name(self, tree_name: str) -> None:
        """Set the name of the next tree. An empty name stands for `ugm.quotatree.DEFAULT_TREE_NAME`."""
        _require_text("tree_name", tree_name)
        self._name = tree_name

    @locked
    def get_resource_names(self) -> tuple[str, ...]:
        """Return the resources of the next tree, sorted."""
        return tuple(sorted(self._resources))

    def add_resource_names(self, names: Iterable[str]) -> None:
        """Add several resources. Empty names are ignored."""
        added = require_items("names", names)
        for name in added:
            _require_text("names", name)
        self._merge(resources=added)

    @locked
    def delete_resource_name(self, name: str) -> None:
        """Remove a resource."""
        _require_text("name", name)
        self._resources.discard(name)

    # Nodes

    @locked
    def get_node_names(self) -> tuple[str, ...]:
        """Return the names of the nodes, sorted."""
        return tuple(sorted(self._nodes))

    def add_node_spec(self, name: str, spec: NodeSpec | Mapping[str, object]) -> None:
        """Add or replace a node. A recorded rename of this name is dropped.

        Raises:
            RequestError: the name is empty.
            ConfigError: the specification is malformed or has no quota.
        """
        require_name("name", name)
        self.add_node_specs({name: spec.to_dict() if isinstance(spec, NodeSpec) else spec})

    def add_node_specs(self, specs: str | Mapping[str, object]) -> None:
        """Add or replace several nodes: a mapping from names to specifications, or a text that contains one.

        Raises:
            ConfigError: a specification is malformed; no node has been added.
        """
        self._merge(nodes=nodes_from(specs))

    @locked
    def rename_node(self, name: str, new_name: str) -> None:
        """Rename a node. Its children follow, and with the next update its consumers.

        A node that has the new name already is replaced.

        Raises:
            RequestError: a name is empty, both are the same, or there is no such node.
        """
        require_name("name", name)
        require_name("new_name", new_name)
        if name == new_name:
            raise RequestError("new_name", new_name, "the node has that name", "id-in-use")
        if name not in self._nodes:
            raise RequestError("name", name, "there is no such node", "node-unknown")
        self._nodes[new_name] = self._nodes.pop(name)
        for child, node in self._nodes.items():
            if node.parent == name:
                self._nodes[child] = node._replace(parent=new_name)
        self._renamed.pop(new_name, None)
        self._renamed[name] = new_name
        followed = [old for old, present in self._new_names.items() if present == name]
        if not followed and name not in self._new_names:
            followed = [name]
        for old in followed:
            self._new_names[old] = new_name

    @locked
    def get_renamed_node(self, name: str) -> str:
        """Return the name of a node after its last rename; empty if it was not renamed."""
        _require_text("name", name)
        return self._renamed.get(name, "")

    @locked
    def delete_node(self, name: str) -> None:
        """Remove a node. Its children remain in the cache, and are not in the tree until they have a parent again."""
        _require_text("name", name)
        self._nodes.pop(name, None)

    # The whole

    def from_string(self, text: str) -> None:
        """Read a tree document: take its name, and add its resources and nodes.

        Raises:
            ConfigError: the document is malformed; the cache has not changed.
        """
        self._merge(*tree_from(text))

    def from_struct(self, document: Mapping[str, object]) -> None:
        """Read a parsed tree document, like `from_string`.

        Raises:
            ConfigError: the document is malformed; the cache has not changed.
        """
        self._merge(*tree_from(document))

    @locked
    def _merge(
        self, name: str | None = None, resources: Iterable[str] = (), nodes: Mapping[str, NodeSpec] = _NO_NODES
    ) -> None:
        """Set the name, unless it is None, and add resources and nodes."""
        if name is not None:
            self._name = name
        self._resources.update(filter(None, resources))
        self._nodes.update(nodes)
        for each in nodes:
            self._renamed.pop(each, None)
            self._new_names.pop(each, None)

    @locked
    def clear(self) -> None:
        """Remove the name, all resources and all nodes."""
        self._name = ""
        for part in (self._resources, self._nodes, self._renamed, self._new_names):
            part.clear()

    @locked
    def create_tree(self) -> tuple[TreeView, TreeCreateResponse]:
        """Build the tree, without changing the manager.

        If several nodes have no parent, the first by name is the root. A missing name and missing resources are set to
        the defaults in the cache. The response has the name from before.
        """
        tree, response = self._build(TreeOptions())
        return tree.view(), response

    @locked
    def next_tree(self, options: TreeOptions) -> tuple[QuotaTree, TreeCreateResponse, Mapping[str, str]]:
        """Build the tree without consumers, to put it in force.

        Returns:
            The tree, the response, and the present names of the renamed nodes of the tree that was in force.
        """
        renamed, self._new_names = self._new_names, {}
        return *self._build(options), renamed

    def _build(self, options: TreeOptions) -> tuple[QuotaTree, TreeCreateResponse]:
        name = self._name
        self._name = name or DEFAULT_TREE_NAME
        self._resources = self._resources or set(DEFAULT_RESOURCES)
        resources = tuple(sorted(self._resources)) if self._nodes else ()
        root = self._build_nodes(resources)
        tree = QuotaTree(self._name, resources, root, options)
        dangling = self._nodes.keys() - tree.nodes.keys()
        return tree, TreeCreateResponse(name, root.name if root else "", tuple(sorted(dangling)))

    def _build_nodes(self, resources: tuple[str, ...]) -> TreeNode | None:
        """Build all nodes below the first root, and return it; None if there is no root."""
        children: dict[str | None, list[str]] = {}
        for name in sorted(self._nodes):
            children.setdefault(self._nodes[name].parent, []).append(name)
        packing = Packing(resources)
        pending: list[tuple[str, TreeNode | None]] = [(name, None) for name in children.get(None, ())[:1]]
        root = None
        while pending:
            name, parent = pending.pop()
            spec = self._nodes[name]
            quota = tuple(spec.quota.get(resource, 0) for resource in resources)
            node = TreeNode(name, parent, quota, packing, hard=spec.hard)
            pending += [(child, node) for child in reversed(children.get(name, ()))]
            root = root or node
        return root


def _require_text(argument: str, name: object) -> None:
    """Make sure that a name is a text; it may be empty where that means none."""
    if not isinstance(name, str) or len(name) > MAX_NAME:
        raise RequestError(argument, name, f"a name is a text of up to {MAX_NAME} characters")
