"""Documents of trees and consumers: JSON as the original takes it, the same in YAML, and parsed structures.

A text that begins like a JSON document is JSON, any other YAML. As in the original, keys match in any case, null is the
same as nothing, the last of equal keys counts, and keys that mean nothing here are left alone. Unlike it, a key that
nearly is one of those that mean something is refused, and so is a quota that is no whole number.

Everything that is wrong is reported together, with its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from ugm.errors import ConfigError, Problem
from ugm.identity import MAX_NAME
from ugm.quotatree.consumer import ConsumerInfo, TreeRequest
from ugm.quotatree.json_text import MAX_DEPTH, Item, Mapped, read_json, shortened
from ugm.resources import Resource

__all__ = [
    "NodeSpec",
    "TreeDocument",
    "consumer_from_struct",
    "node_from_struct",
    "nodes_from_text",
    "parse_consumer",
    "tree_from_struct",
    "tree_from_text",
    "tree_info_from_text",
]

T = TypeVar("T")

#: Amounts in documents fit a signed 64-bit integer.
_MOST: Final = 2**63 - 1
_LEAST: Final = -(2**63)
_QUOTA: Final = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
#: What stands for true where a document says whether a node is hard. All else stands for false, as in the original.
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
#: What stands for no parent.
_NO_PARENT: Final = ("", "nil")
#: How alike an unknown key must be to one that is known to be taken for a slip.
_NEARLY: Final = 0.8
#: How far the lengths of two keys that are so alike can be apart.
_MOST_DIFFERENT: Final = 6
#: After so many problems no more are looked for.
_MOST_PROBLEMS: Final = 1000
#: How much of a path and of a text a problem shows.
_LONG_PATH: Final = 1000
_LONG: Final = 64

_TEXT: Final = "<text>"
_STRUCT: Final = "<struct>"


class NodeSpec(NamedTuple):
    """A node as a document describes it."""

    #: None for a root.
    parent: str | None
    hard: bool
    #: By name; also of resources that the tree does not count (yet).
    quota: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of a tree document."""
        quota = {name: str(amount) for name, amount in self.quota.items()}
        return {"parent": self.parent or "nil", "hard": "true" if self.hard else "false", "quota": quota}


class TreeDocument(NamedTuple):
    """A tree as a document describes it."""

    name: str
    resource_names: tuple[str, ...]
    nodes: Mapping[str, NodeSpec]


def tree_from_text(text: str, *, file: str = _TEXT) -> TreeDocument:
    """Read a tree document.

    Raises:
        ConfigError: with everything that is wrong.
    """
    return _Schema(file).result(read(text, file), _Schema.tree)


def tree_from_struct(document: Mapping[str, Any]) -> TreeDocument:
    """Read a tree document that has been parsed.

    Raises:
        ConfigError: with everything that is wrong.
    """
    return _Schema(_STRUCT).result(_items(document), _Schema.tree)


def parse_consumer(text: str, *, file: str = _TEXT) -> ConsumerInfo:
    """Read a consumer document.

    Args:
        text: JSON or YAML.
        file: what problems call the text.

    Raises:
        ConfigError: with everything that is wrong.

    >>> parse_consumer('{"kind": "Consumer", "spec": {"id": "job-1", "trees:": []}}')
    Traceback (most recent call last):
    ugm.errors.ConfigError: <text>:1:46: spec: unknown key 'trees:', meant is perhaps 'trees' [key-unknown]
    """
    return _Schema(file).result(read(text, file), _Schema.consumer)


def consumer_from_struct(document: Mapping[str, Any]) -> ConsumerInfo:
    """Read a consumer document that has been parsed.

    Raises:
        ConfigError: with everything that is wrong.
    """
    return _Schema(_STRUCT).result(_items(document), _Schema.consumer)


def node_from_struct(name: str, spec: Mapping[str, Any]) -> NodeSpec:
    """Read one node that has been parsed.

    Raises:
        ConfigError: with everything that is wrong.
    """
    return _Schema(_STRUCT).result(_items({name: spec}), _Schema.nodes)[name]


def nodes_from_text(specs: str | Mapping[str, Any]) -> Mapping[str, NodeSpec]:
    """Read nodes by name, from a text or parsed.

    Raises:
        ConfigError: with everything that is wrong.
    """
    if isinstance(specs, str):
        return _Schema(_TEXT).result(read(specs, _TEXT), _Schema.nodes)
    return _Schema(_STRUCT).result(_items(specs), _Schema.nodes)


def tree_info_from_text(text: str) -> tuple[str, tuple[str, ...]]:
    """Read the name of a tree and its resources.

    Raises:
        ConfigError: with everything that is wrong.
    """
    return _Schema(_TEXT).result(read(text, _TEXT), _Schema.tree_info)


def read(text: str, file: str) -> Item:
    """Read a text as JSON or, if it does not begin like that, as YAML."""
    if not isinstance(text, str):
        raise ConfigError((Problem(file, 0, 0, "", "text-invalid", "expected a text"),))
    if text.lstrip(" \t\n\r\ufeff")[:1] in ("{", "[", '"', ""):
        return read_json(text.removeprefix("\ufeff"), file)
    from ugm.quotatree.yaml_text import read_yaml  # noqa: PLC0415 - loads yaml, which JSON does not need

    return read_yaml(text, file)


def _items(value: object, depth: int = 0) -> Item:
    """Return a parsed value as an item without a place.

    Raises:
        ConfigError: it is nested too deep.
    """
    if depth > MAX_DEPTH:
        raise ConfigError((Problem(_STRUCT, 0, 0, "", "nested-too-deep", f"nested more than {MAX_DEPTH} deep"),))
    if isinstance(value, Mapping):
        return Item(tuple(Mapped(_items(key, depth + 1), _items(item, depth + 1)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return Item([_items(item, depth + 1) for item in value])
    return Item(shortened(value) if type(value) is int else value)


class _Schema:
    """What documents hold, and the problems of one of them."""

    def __init__(self, file: str) -> None:
        self.file: Final = file
        self.problems: Final[list[Problem]] = []

    def result(self, item: Item, read_as: Callable[[_Schema, Item, str], T]) -> T:
        """Return what a document describes.

        Raises:
            ConfigError: something is wrong with it.
        """
        told = read_as(self, item, "")
        if self.problems:
            raise ConfigError(tuple(sorted(self.problems)))
        return told

    def refuse(self, item: Item, path: str, code: str, message: str) -> None:
        """Note a problem.

        Raises:
            ConfigError: there are `_MOST_PROBLEMS` already.
        """
        if len(self.problems) == _MOST_PROBLEMS:
            message = "there may be more problems; no more are looked for after these"
            last = max(self.problems)._replace(path="", code="too-many-problems", message=message)
            raise ConfigError((*sorted(self.problems), last))
        self.problems.append(Problem(self.file, item.line, item.column, cut(path, _LONG_PATH), code, message))

    # Documents

    def tree(self, item: Item, _path: str) -> TreeDocument:
        spec = self.enveloped(item, "QuotaTree", ("resourceNames", "nodes"))
        name = self.text(*spec["name"])
        return TreeDocument(name, self.names(*spec["resourceNames"]), self.nodes(*spec["nodes"]))

    def consumer(self, item: Item, _path: str) -> ConsumerInfo:
        spec = self.enveloped(item, "Consumer", ("id", "trees"))
        consumer_id = self.text(*spec["id"])
        if spec["id"][0].value in (None, ""):
            self.refuse(item, "spec.id", "consumer-id-missing", "a consumer has an id")
        entries = [self.request(*entry) for entry in self.list(*spec["trees"])]
        known = tuple(entry for entry in entries if entry.tree_name)
        return ConsumerInfo(consumer_id or "?", known)

    def enveloped(self, item: Item, kind: str, keys: tuple[str, ...]) -> dict[str, tuple[Item, str]]:
        """Return the fields of a specification, and the name, after a look at the kind."""
        document = self.fields(item, "", ("kind", "metadata", "spec"))
        told = self.text(*document["kind"])
        if told != kind and item.is_mapping | (item.value is None):
            where = document["kind"][0]
            self.refuse(where if where.line else item, "kind", "kind-unknown", f"expected {kind!r}, found {told!r}")
        metadata = self.fields(*document["metadata"], ("name",))
        return {**self.fields(*document["spec"], keys), "name": metadata["name"]}

    def tree_info(self, item: Item, path: str) -> tuple[str, tuple[str, ...]]:
        info = self.fields(item, path, ("name", "resourceNames"))
        return self.text(*info["name"]), self.names(*info["resourceNames"])

    def nodes(self, item: Item, path: str) -> dict[str, NodeSpec]:
        return {
            str(entry.key.value): self.node(entry.item, _join(path, str(entry.key.value)))
            for entry in self.entries(item, path)
            if self.is_named(entry.key, path)
        }

    def is_named(self, key: Item, path: str) -> bool:
        if not isinstance(key.value, str) or not key.value:
            self.refuse(key, path, "node-name-missing", "a node has a name")
            return False
        return self.is_short(key, path, key.value)

    def is_short(self, item: Item, path: str, name: str) -> bool:
        if len(name) > MAX_NAME:
            self.refuse(item, path, "name-too-long", f"found {len(name)} characters (allowed: up to {MAX_NAME})")
        return len(name) <= MAX_NAME

    def node(self, item: Item, path: str) -> NodeSpec:
        spec = self.fields(item, path, ("parent", "hard", "quota"))
        parent, hard = self.text(*spec["parent"]), self.text(*spec["hard"])
        quota, where = spec["quota"]
        if quota.value is None and (item.is_mapping or item.value is None):
            self.refuse(item, where, "node-quota-missing", "a node has a quota, be it an empty one")
        amounts = {name: self.quota(*amount) for name, amount in self.named(quota, where).items()}
        return NodeSpec(None if parent in _NO_PARENT else parent, hard in _TRUE, amounts)

    def request(self, item: Item, path: str) -> TreeRequest:
        keys = ("treeName", "groupID", "request", "priority", "type", "unPreemptable", "id")
        entry = self.fields(item, path, keys)
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

    def entries(self, item: Item, path: str) -> tuple[Mapped, ...]:
        if item.value is None:
            return ()
        if not item.is_mapping:
            self.refuse(item, path, "type-mapping", f"expected a mapping, found {_shown(item)}")
            return ()
        return tuple(item.value)

    def named(self, item: Item, path: str) -> dict[str, tuple[Item, str]]:
        return {
            str(entry.key.value): (entry.item, _join(path, str(entry.key.value)))
            for entry in self.entries(item, path)
            if entry.key.value and self.is_short(entry.key, path, str(entry.key.value))
        }

    def fields(self, item: Item, path: str, known: tuple[str, ...]) -> dict[str, tuple[Item, str]]:
        """Return the values of the known keys, in any case."""
        spelt = {key.lower(): key for key in known}
        found = {key: (Item(None), _join(path, key)) for key in known}
        for entry in self.entries(item, path):
            told = str(entry.key.value)
            key = spelt.get(told.lower())
            if key is not None:
                found[key] = (entry.item, _join(path, key))
            elif meant := _meant(told.lower(), known):
                self.refuse(entry.key, path, "key-unknown", f"unknown key {cut(told)!r}, meant is perhaps {meant!r}")
        return found

    def list(self, item: Item, path: str) -> list[tuple[Item, str]]:
        if item.value is None:
            return []
        if not isinstance(item.value, list):
            self.refuse(item, path, "type-list", f"expected a list, found {_shown(item)}")
            return []
        return [(entry, f"{path}[{index}]") for index, entry in enumerate(item.value)]

    def names(self, item: Item, path: str) -> tuple[str, ...]:
        return tuple(sorted({name for name in (self.text(*entry) for entry in self.list(item, path)) if name}))

    def text(self, item: Item, path: str) -> str:
        if item.value is None:
            return ""
        if isinstance(item.value, str):
            return item.value if self.is_short(item, path, item.value) else ""
        self.refuse(item, path, "type-text", f"expected a text, found {_shown(item)}")
        return ""

    def quota(self, item: Item, path: str) -> int:
        told = item.value
        if told is None:
            return 0
        if not isinstance(told, str):
            self.refuse(item, path, "type-text", f"expected a whole number in quotation marks, found {_shown(item)}")
            return 0
        if not _QUOTA.fullmatch(told):
            self.refuse(item, path, "quantity-invalid", f"{_shown(item)} is no whole number")
            return 0
        return self.bounded(item, path, int(told))

    def whole(self, item: Item, path: str) -> int:
        told = item.value
        if told is None:
            return 0
        if item.is_plain and isinstance(told, str) and _QUOTA.fullmatch(told):
            told = int(told)
        if type(told) is not int:
            self.refuse(item, path, "type-whole", f"expected a whole number, found {_shown(item)}")
            return 0
        return self.bounded(item, path, told)

    def bounded(self, item: Item, path: str, amount: int) -> int:
        if not _LEAST <= amount <= _MOST:
            self.refuse(item, path, "quantity-invalid", "more than a signed 64-bit integer holds")
            return 0
        return amount

    def truth(self, item: Item, path: str) -> bool:
        told = item.value
        if item.is_plain and told in ("true", "false"):
            return bool(told == "true")
        if told is None or type(told) is bool:
            return bool(told)
        self.refuse(item, path, "type-boolean", f"expected true or false, found {_shown(item)}")
        return False


def cut(text: str, length: int = _LONG) -> str:
    """Return a text, or the beginning of a long one."""
    return text if len(text) <= length else f"{text[:length]}..."


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _shown(item: Item) -> str:
    if item.is_mapping:
        return "a mapping"
    if isinstance(item.value, list):
        return "a list"
    return repr(cut(item.value)) if isinstance(item.value, str) else repr(item.value)


@lru_cache(maxsize=256)
def _meant(told: str, known: tuple[str, ...]) -> str | None:
    """Return the known key that an unknown one is nearly equal to."""
    spelt = {key.lower(): key for key in known if abs(len(key) - len(told)) <= _MOST_DIFFERENT}
    near = get_close_matches(told, spelt, 1, _NEARLY) if spelt else ()
    return spelt[near[0]] if near else None
