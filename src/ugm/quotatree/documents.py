"""Documents of trees and consumers, in JSON, in YAML or parsed, and the next version of a tree that they fill.

As in MCAD, keys are case-insensitive, null stands for a missing value, the last duplicate of a key
wins, and unknown keys are ignored. Unlike there, an unknown key that resembles a known one is refused, and so is a
quota that is not an integer. All problems of a document are reported together, each with its place.

A `TreeCache` is the next version of a tree, which takes effect when the tree is updated. MCAD calls it the *cache* of
the tree. It records the renames of nodes since the last update, including chains (a to b to c) and swaps, so that
consumers follow their node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar, final

from ugm._documents.located import KeyValue, Located, from_struct, from_text
from ugm.arguments import require_items, require_name
from ugm.engine_lock import OwnedLock, locked
from ugm.errors import ConfigError, Problem, QuantityError, RequestError, cut
from ugm.identity import MAX_NAME
from ugm.quotatree._node import REQUEST_KEYS, ConsumerInfo, Packing, TreeNode, TreeRequest
from ugm.quotatree._tree import QuotaTree, TreeOptions
from ugm.quotatree.answers import TreeCreateResponse, TreeView
from ugm.resources import VCORE, Resource, parse_quantity

__all__ = [
    "DEFAULT_RESOURCES",
    "DEFAULT_TREE_NAME",
    "NodeSpec",
    "TreeCache",
    "TreeDocument",
    "consumer_from_struct",
    "nodes_from",
    "parse_consumer",
    "tree_from",
    "tree_from_located",
]

T = TypeVar("T")

#: Amounts fit a signed 64-bit integer.
_MAX_AMOUNT: Final = 2**63 - 1
_MIN_AMOUNT: Final = -(2**63)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
#: The values of `hard` that mean true. As in MCAD, every other text means false.
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
#: The values of `parent` that mean none.
_NO_PARENT: Final = ("", "nil")
#: The similarity from which on an unknown key counts as a misspelt one, and the largest difference in length that it
#: allows.
_SIMILARITY: Final = 0.8
_MAX_LENGTH_DIFFERENCE: Final = 6
#: The longest path in a problem.
_LONG_PATH: Final = 1000


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


class TreeDocument(NamedTuple):
    """The content of a tree document."""

    name: str
    resource_names: tuple[str, ...]
    nodes: Mapping[str, NodeSpec]


def tree_from(source: str | Mapping[str, object]) -> TreeDocument:
    """Read a tree document, from a text or parsed.

    Raises:
        ConfigError: lists every problem.
    """
    return _read(source, _Schema.tree)


def tree_from_located(item: Located, file: str, path: str) -> tuple[TreeDocument, list[Problem]]:
    """Read a tree document that is a part of another document, and return it with its problems.

    Its quotas are quantities as in a queue configuration: a suffix is allowed, and ``vcore`` counts cores.

    Args:
        item: the document.
        file: the name of the text in problems.
        path: the path of the document in the other one.
    """
    schema = _QuantitySchema(file, path)
    document = schema.tree(item, "")
    return document, schema.problems


def parse_consumer(text: str) -> ConsumerInfo:
    """Read a consumer document in JSON or YAML.

    Raises:
        ConfigError: lists every problem.

    >>> parse_consumer('{"kind": "Consumer", "spec": {"id": "job-1", "trees:": []}}')
    Traceback (most recent call last):
    ugm.errors.ConfigError: <text>:1:46: spec: unknown key 'trees:', did you mean 'trees'? [key-unknown]
    """
    return _read(text, _Schema.consumer)


def consumer_from_struct(document: Mapping[str, object]) -> ConsumerInfo:
    """Read a parsed consumer document.

    Raises:
        ConfigError: lists every problem.
    """
    return _read(document, _Schema.consumer)


def nodes_from(specs: str | Mapping[str, object]) -> Mapping[str, NodeSpec]:
    """Read the specifications of nodes by name, from a text or parsed.

    Raises:
        ConfigError: lists every problem.
    """
    return _read(specs, _Schema.nodes)


def _read(source: str | Mapping[str, object], read_as: Callable[[_Schema, Located, str], T]) -> T:
    if isinstance(source, Mapping):
        schema, item = _Schema("<struct>"), from_struct(source)
    else:
        schema, item = _Schema("<text>"), from_text(source, "<text>")
    content = read_as(schema, item, "")
    if schema.problems:
        raise ConfigError(tuple(sorted(schema.problems)))
    return content


class _Schema:
    """The schema of the documents, with the problems found in one of them."""

    def __init__(self, file: str, above: str = "") -> None:
        self.file: Final = file
        #: The path of the document in another one.
        self.above: Final = above
        self.problems: Final[list[Problem]] = []

    def default(self, item: Located, path: str, code: str, expected: str, default: T) -> T:
        """Return the default of a value; unless the value is missing, add a problem."""
        if item.value is not None:
            self.refuse(item, path, code, f"expected {expected}, found {_shown(item)}")
        return default

    def refuse(self, item: Located, path: str, code: str, message: str) -> None:
        """Add a problem."""
        whole = cut(_join(self.above, path) if path else self.above, _LONG_PATH)
        self.problems.append(Problem(self.file, item.line, item.column, whole, code, message))

    # Documents

    def tree(self, item: Located, _path: str) -> TreeDocument:
        spec = self.enveloped(item, "QuotaTree", ("resourceNames", "nodes"))
        name = self.text(*spec["name"])
        return TreeDocument(name, self.names(*spec["resourceNames"]), self.nodes(*spec["nodes"]))

    def consumer(self, item: Located, _path: str) -> ConsumerInfo:
        spec = self.enveloped(item, "Consumer", ("id", "trees"))
        consumer_id = self.text(*spec["id"])
        if spec["id"][0].value in (None, ""):
            self.refuse(item, "spec.id", "consumer-id-missing", "expected the id of the consumer")
        entries = [self.request(*entry) for entry in self.list(*spec["trees"])]
        known = tuple(entry for entry in entries if entry.tree_name)
        return ConsumerInfo(consumer_id or "?", known)

    def enveloped(self, item: Located, kind: str, keys: tuple[str, ...]) -> dict[str, tuple[Located, str]]:
        """Return the fields of the specification and the name, after a check of the kind."""
        document = self.fields(item, "", ("kind", "metadata", "spec"))
        found = self.text(*document["kind"])
        if found != kind and item.is_mapping | (item.value is None):
            where = document["kind"][0]
            self.refuse(where if where.line else item, "kind", "kind-unknown", f"expected {kind!r}, found {found!r}")
        metadata = self.fields(*document["metadata"], ("name",))
        return {**self.fields(*document["spec"], keys), "name": metadata["name"]}

    def nodes(self, item: Located, path: str) -> dict[str, NodeSpec]:
        return {
            str(entry.key.value): self.node(entry.item, _join(path, str(entry.key.value)))
            for entry in self.entries(item, path)
            if self.is_named(entry.key, path)
        }

    def is_named(self, key: Located, path: str) -> bool:
        if not isinstance(key.value, str) or not key.value:
            self.refuse(key, path, "node-name-missing", "expected the name of the node")
            return False
        return self.is_short(key, path, key.value)

    def is_short(self, item: Located, path: str, name: str) -> bool:
        if len(name) > MAX_NAME:
            self.refuse(item, path, "name-too-long", f"found {len(name)} characters (allowed: up to {MAX_NAME})")
        return len(name) <= MAX_NAME

    def node(self, item: Located, path: str) -> NodeSpec:
        spec = self.fields(item, path, ("parent", "hard", "quota"))
        parent, hard = self.text(*spec["parent"]), self.text(*spec["hard"])
        quota, where = spec["quota"]
        if quota.value is None and (item.is_mapping or item.value is None):
            self.refuse(item, where, "node-quota-missing", "expected a quota, at least an empty one")
        amounts = {name: self.quota(name, *amount) for name, amount in self.named(quota, where).items()}
        return NodeSpec(None if parent in _NO_PARENT else parent, hard in _TRUE, amounts)

    def request(self, item: Located, path: str) -> TreeRequest:
        entry = self.fields(item, path, (*REQUEST_KEYS, "id"))
        request = {name: self.whole(*amount) for name, amount in self.named(*entry["request"]).items()}
        return TreeRequest(
            self.text(*entry["treeName"]),
            self.text(*entry["groupID"]),
            Resource(request),
            self.whole(*entry["priority"]),
            self.whole(*entry["type"]),
            self.truth(*entry["unPreemptable"]),
        )

    # Values

    def entries(self, item: Located, path: str) -> tuple[KeyValue, ...]:
        if isinstance(item.value, tuple):
            return item.value
        return self.default(item, path, "type-mapping", "a mapping", ())

    def named(self, item: Located, path: str) -> dict[str, tuple[Located, str]]:
        return {
            str(entry.key.value): (entry.item, _join(path, str(entry.key.value)))
            for entry in self.entries(item, path)
            if entry.key.value and self.is_short(entry.key, path, str(entry.key.value))
        }

    def fields(self, item: Located, path: str, known: tuple[str, ...]) -> dict[str, tuple[Located, str]]:
        """Return the values of the known keys, which are case-insensitive."""
        spelt = {key.lower(): key for key in known}
        found = {key: (Located(None), _join(path, key)) for key in known}
        for entry in self.entries(item, path):
            name = str(entry.key.value)
            key = spelt.get(name.lower())
            if key is not None:
                found[key] = (entry.item, _join(path, key))
            elif similar := _similar(name.lower(), known):
                self.refuse(entry.key, path, "key-unknown", f"unknown key {cut(name)!r}, did you mean {similar!r}?")
        return found

    def list(self, item: Located, path: str) -> list[tuple[Located, str]]:
        if isinstance(item.value, list):
            return [(entry, f"{path}[{index}]") for index, entry in enumerate(item.value)]
        return self.default(item, path, "type-list", "a list", [])

    def names(self, item: Located, path: str) -> tuple[str, ...]:
        return tuple(sorted({name for name in (self.text(*entry) for entry in self.list(item, path)) if name}))

    def text(self, item: Located, path: str) -> str:
        if isinstance(item.value, str):
            return item.value if self.is_short(item, path, item.value) else ""
        return self.default(item, path, "type-text", "a text", "")

    def quota(self, _name: str, item: Located, path: str) -> int:
        if not isinstance(item.value, str):
            return self.default(item, path, "type-text", "a whole number in quotation marks", 0)
        if not _INTEGER.fullmatch(item.value):
            return self.default(item, path, "quantity-invalid", "a whole number", 0)
        return self.bounded(item, path, int(item.value))

    def whole(self, item: Located, path: str) -> int:
        value = item.value
        if item.is_plain and isinstance(value, str) and _INTEGER.fullmatch(value):
            value = int(value)
        if type(value) is not int:
            return self.default(item, path, "type-whole", "a whole number", 0)
        return self.bounded(item, path, value)

    def bounded(self, item: Located, path: str, amount: int) -> int:
        if not _MIN_AMOUNT <= amount <= _MAX_AMOUNT:
            self.refuse(item, path, "quantity-invalid", "expected a number that fits a signed 64-bit integer")
            return 0
        return amount

    def truth(self, item: Located, path: str) -> bool:
        value = item.value
        if item.is_plain and value in ("true", "false"):
            return value == "true"
        if type(value) is bool:
            return value
        return self.default(item, path, "type-boolean", "true or false", default=False)


class _QuantitySchema(_Schema):
    """The schema of a tree in a configuration, in which amounts are quantities."""

    def quota(self, name: str, item: Located, path: str) -> int:
        text = item.value
        if not isinstance(text, str) or (_INTEGER.fullmatch(text) and name != VCORE):
            return super().quota(name, item, path)
        sign = -1 if text.startswith("-") else 1
        try:
            amount = parse_quantity(text.lstrip("+-") if text[:1] in ("+", "-") else text, vcore=name == VCORE)
        except QuantityError as error:
            self.refuse(item, path, "quantity-invalid", f"{cut(text)!r} is not a quantity: {error.reason}")
            return 0
        return self.bounded(item, path, sign * amount)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _shown(item: Located) -> str:
    if item.is_mapping:
        return "a mapping"
    if isinstance(item.value, list):
        return "a list"
    return repr(cut(item.value)) if isinstance(item.value, str) else repr(item.value)


@lru_cache(maxsize=256)
def _similar(name: str, known: tuple[str, ...]) -> str | None:
    """Return the known key that an unknown one resembles, if there is one."""
    spelt = {key.lower(): key for key in known if abs(len(key) - len(name)) <= _MAX_LENGTH_DIFFERENCE}
    near = get_close_matches(name, spelt, 1, _SIMILARITY) if spelt else ()
    return spelt[near[0]] if near else None


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
