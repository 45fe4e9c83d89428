"""Documents of trees and consumers, in JSON, in YAML or parsed, and the next version of a tree that they fill.

As in MCAD, keys are case-insensitive, null stands for a missing value, the last duplicate of a key
wins, and unknown keys are ignored. Unlike there, an unknown key that resembles a known one is refused, and so is a
quota that is not an integer. All problems of a document are reported together, each with its place.

A `TreeCache` is the next version of a tree, which takes effect when the tree is updated. MCAD calls it the *cache* of
the tree. It records the renames of nodes since the last update, including chains (a to b to c) and swaps, so that
consumers follow their node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple, TypeAlias, final

from ugm._documents import described
from ugm._documents.described import Description, Reader
from ugm._documents.located import Located
from ugm._json_values import JsonMapping
from ugm.arguments import require_instance, require_items
from ugm.configuration import QuotaNodeConfig, QuotaTreeDocument
from ugm.engine_lock import OwnedLock, all_locked
from ugm.errors import RequestError
from ugm.identity import MAX_NAME, require_name
from ugm.quotatree._node import ConsumerInfo, Packing, TreeNode, TreeRequest
from ugm.quotatree._tree import QuotaTree, TreeOptions
from ugm.quotatree.answers import TreeCreateResponse, TreeView
from ugm.resources import Resource

#: Reads the quota of a resource.
_ReadQuota: TypeAlias = Callable[[Reader, str, Located, str], int]


class NodeSpec(NamedTuple):
    """The specification of a node in a document."""

    #: None for a root.
    parent: str | None
    hard: bool
    #: By name; resources that the tree does not count are kept as well.
    quota: Mapping[str, int]

    def to_dict(self) -> dict[str, object]:
        """Return the entry of a tree document."""
        quota = {name: str(amount) for name, amount in self.quota.items()}
        return {"parent": self.parent or "nil", "hard": "true" if self.hard else "false", "quota": quota}


# The description of documents


def _parent(reader: Reader, item: Located, path: str) -> str | None:
    """Read the parent of a node; empty or ``nil`` for none."""
    found = described.text(reader, item, path)
    return None if found in ("", "nil") else found


def _is_hard(reader: Reader, item: Located, path: str) -> bool:
    """Read whether a node is hard. As in MCAD, every other text means false."""
    return described.text(reader, item, path) in ("1", "t", "T", "true", "TRUE", "True")


def _quotas(read_quota: _ReadQuota, reader: Reader, item: Located, path: str) -> dict[str, int]:
    if item.value is None:
        reader.refuse(item, path, "node-quota-missing", "expected a quota, at least an empty one")
    return {name: read_quota(reader, name, amount, where) for name, amount, where in reader.named(item, path)}


def _amounts(reader: Reader, item: Located, path: str) -> Resource:
    return Resource({name: described.whole(reader, amount, where) for name, amount, where in reader.named(item, path)})


def _nodes(read_quota: _ReadQuota) -> Description:
    node = described.fields({"parent": _parent, "hard": _is_hard, "quota": partial(_quotas, read_quota)})

    def read_nodes(reader: Reader, item: Located, path: str) -> dict[str, JsonMapping]:
        for entry in item.value if isinstance(item.value, tuple) else ():
            if not isinstance(entry.key.value, str) or not entry.key.value:
                reader.refuse(entry.key, path, "node-name-missing", "expected the name of the node")
        return {name: node(reader, spec, where) for name, spec, where in reader.named(item, path)}

    return read_nodes


def _consumer_id(reader: Reader, item: Located, path: str) -> str:
    if item.value in (None, ""):
        reader.refuse(item, path, "consumer-id-missing", "expected the id of the consumer")
    return described.text(reader, item, path)


def _tree(read_quota: _ReadQuota) -> Description:
    spec = {"resourceNames": described.list_of(described.text), "nodes": _nodes(read_quota)}
    return described.document("QuotaTree", spec)


_TREE: Final = _tree(described.digits)
#: A tree in a configuration.
CONFIGURED_TREE: Final = _tree(described.quantity)
#: In the order of the fields of a `TreeRequest`.
_REQUEST: Final[Mapping[str, Description]] = {
    "treeName": described.text,
    "groupID": described.text,
    "request": _amounts,
    "priority": described.whole,
    "type": described.whole,
    "unPreemptable": described.truth,
}
_REQUESTS: Final = described.list_of(described.fields({**_REQUEST, "id": described.ignored}))
_CONSUMER: Final = described.document("Consumer", {"id": _consumer_id, "trees": _REQUESTS})


def tree_of(data: JsonMapping) -> QuotaTreeDocument:
    """Return the tree that a document describes.

    Args:
        data: what the description of a document has read without a problem.
    """
    spec = data["spec"]
    nodes = tuple(
        QuotaNodeConfig(name, parent=node["parent"] or "", hard=node["hard"], quota=node["quota"])
        for name, node in spec["nodes"].items()
    )
    names = tuple(sorted({name for name in spec["resourceNames"] if name}))
    return QuotaTreeDocument(data["metadata"]["name"], resources=names, nodes=nodes)


def read_tree(source: str | Mapping[str, object]) -> QuotaTreeDocument:
    """Read a tree document, from a text or parsed.

    Raises:
        ConfigError: lists every problem.
    """
    return tree_of(described.read(source, _TREE))


def parse_consumer(text: str) -> ConsumerInfo:
    """Read a consumer document in JSON or YAML.

    Raises:
        ConfigError: lists every problem.

    >>> parse_consumer('{"kind": "Consumer", "spec": {"id": "job-1", "trees:": []}}')
    Traceback (most recent call last):
    ugm.errors.ConfigError: <text>:1:46: spec: unknown key 'trees:', did you mean 'trees'? [key-unknown]
    """
    return _consumer(text)


def consumer_from_struct(document: Mapping[str, object]) -> ConsumerInfo:
    """Read a parsed consumer document.

    Raises:
        ConfigError: lists every problem.
    """
    return _consumer(document)


def _consumer(source: str | Mapping[str, object]) -> ConsumerInfo:
    spec = described.read(source, _CONSUMER)["spec"]
    requests = [TreeRequest(*map(entry.get, _REQUEST)) for entry in spec["trees"] if entry["treeName"]]
    return ConsumerInfo(spec["id"], requests)


#: The default resources of a tree.
DEFAULT_RESOURCES: Final = ("cpu", "memory", "nvidia.com/gpu")

#: The default name of a tree.
DEFAULT_TREE_NAME: Final = "default"


@all_locked
@final
class TreeCache:
    """The next version of a tree.

    Args:
        tree_name: the name of the next tree.
        lock: held while the cache is read or changed: the lock of the manager, if the cache belongs to one.
    """

    def __init__(self, tree_name: str = DEFAULT_TREE_NAME, *, lock: OwnedLock | None = None) -> None:
        _require_text("tree_name", tree_name)
        self._lock: OwnedLock = OwnedLock() if lock is None else require_instance("lock", lock, OwnedLock)
        self._name = tree_name
        self._resources: set[str] = set()
        self._nodes: dict[str, NodeSpec] = {}
        #: The last rename of each name, one step.
        self._renamed: dict[str, str] = {}
        #: For each renamed node of the tree in force its present name.
        self._new_names: dict[str, str] = {}

    # Name and resources

    def get_tree_name(self) -> str:
        """Return the name of the next tree."""
        return self._name

    def set_tree_name(self, tree_name: str) -> None:
        """Set the name of the next tree. An empty name stands for `ugm.quotatree.DEFAULT_TREE_NAME`."""
        _require_text("tree_name", tree_name)
        self._name = tree_name

    def get_resource_names(self) -> tuple[str, ...]:
        """Return the resources of the next tree, sorted."""
        return tuple(sorted(self._resources))

    def add_resource_names(self, names: Iterable[str]) -> None:
        """Add several resources. Empty names are ignored."""
        added = require_items("names", names)
        for name in added:
            _require_text("names", name)
        self._resources.update(filter(None, added))

    def delete_resource_name(self, name: str) -> None:
        """Remove a resource."""
        _require_text("name", name)
        self._resources.discard(name)

    # Nodes

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
        found = described.read(specs, _nodes(described.digits))
        self._add_nodes({name: NodeSpec(**node) for name, node in found.items()})

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

    def get_renamed_node(self, name: str) -> str:
        """Return the name of a node after its last rename; empty if it was not renamed."""
        _require_text("name", name)
        return self._renamed.get(name, "")

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
        self.merge(read_tree(text))

    def from_struct(self, document: Mapping[str, object]) -> None:
        """Read a parsed tree document, like `from_string`.

        Raises:
            ConfigError: the document is malformed; the cache has not changed.
        """
        self.merge(read_tree(document))

    def merge(self, document: QuotaTreeDocument) -> None:
        """Take the name of a tree, and add its resources and nodes."""
        self._name = document.name
        self._resources.update(filter(None, document.resources))
        self._add_nodes({node.name: NodeSpec(node.parent or None, node.hard, node.quota) for node in document.nodes})

    def _add_nodes(self, nodes: Mapping[str, NodeSpec]) -> None:
        self._nodes.update(nodes)
        for name in nodes:
            self._renamed.pop(name, None)
            self._new_names.pop(name, None)

    def clear(self) -> None:
        """Remove the name, all resources and all nodes."""
        self._name = ""
        for part in (self._resources, self._nodes, self._renamed, self._new_names):
            part.clear()

    def create_tree(self) -> tuple[TreeView, TreeCreateResponse]:
        """Build the tree, without changing the manager.

        If several nodes have no parent, the first by name is the root. A missing name and missing resources are set to
        the defaults in the cache. The response has the name from before.
        """
        tree, response = self._build(TreeOptions())
        return tree.view(), response

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
