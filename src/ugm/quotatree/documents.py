"""Documents of trees and consumers, in JSON, in YAML or parsed.

As in MCAD, keys are case-insensitive, null stands for a missing value, the last duplicate of a key
wins, and unknown keys are ignored. Unlike there, an unknown key that resembles a known one is refused, and so is a
quota that is not an integer.

All problems of a document are reported together, each with its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from ugm._documents.located import KeyValue, Located, from_struct, from_text
from ugm.errors import ConfigError, Problem, QuantityError, cut
from ugm.identity import MAX_NAME
from ugm.quotatree._node import REQUEST_KEYS, ConsumerInfo, TreeRequest
from ugm.resources import VCORE, Resource, parse_quantity

__all__ = [
    "NodeSpec",
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
