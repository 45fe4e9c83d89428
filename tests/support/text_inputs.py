"""Inputs for the readers of texts: mutated documents, and families that cost the most; and what they may take.

A reader may take 1 s of processor time for up to 64 KiB, and 5 s for up to 8 MiB, where a step of the bare loop takes
3 microseconds; `allowed` scales that to this machine.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any, Final, NamedTuple

import yaml

from support.config_cases import EVERYTHING
from support.vectors import vectors
from ugm import Partition, Resource, UgmError, UserGroup, parse_config
from ugm._documents.loader import load
from ugm.config import SchedulerConfig, dump_config, export_config, review_config
from ugm.configuration import FilterConfig
from ugm.kubernetes import pod_usage, read_elastic_quota, read_namespace, read_pod
from ugm.queues import Filter
from ugm.quotatree import parse_consumer
from ugm.quotatree.documents import nodes_from, tree_from
from ugm.simulation import parse_swf

__all__ = ["FAMILIES", "LARGE", "READERS", "SMALL", "Reader", "allowed", "families", "mutated", "read"]

#: The sizes of texts that the two bounds are for.
SMALL: Final = 64 * 2**10
LARGE: Final = 8 * 2**20
#: How many digits Python reads.
MAX_DIGITS: Final = 4300
#: How long the loop of `_step` takes where a step of the bare loop takes 3 microseconds.
_STEP: Final = 1e-6


class Reader(NamedTuple):
    """A reader of texts, and documents that it accepts."""

    read: Callable[[str], object]
    seeds: tuple[str, ...]


def _config(text: str) -> object:
    config = parse_config(text)
    for partition in config.partitions:
        Partition(partition)
    return config


def _swf(text: str) -> object:
    return [*parse_swf(io.BufferedReader(io.BytesIO(text.encode(errors="replace"))), "<text>")]


def _document(reader: Callable[[Any], object]) -> Callable[[str], object]:
    """Return a reader of a parsed document that takes its text."""
    return lambda text: reader(_parsed(text))


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        # The loader of PyYAML crashes where much is nested.
        return _without_quotes(load(text, "<text>").data)


def _without_quotes(value: object) -> object:
    """Return a value as other loaders have it: numbers without quotes are numbers."""
    if isinstance(value, dict):
        return {_without_quotes(key): _without_quotes(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_quotes(item) for item in value]
    if isinstance(value, str):
        return int(value) if type(value) is str and value.isdecimal() and len(value) < MAX_DIGITS else str(value)
    return value


def _filter(text: str) -> object:
    found = Filter.compile(FilterConfig("allow", (text,), ("[a-z]+x$",)))
    return found and found.allows(UserGroup("ana-7" * 51, ("dev-x_" * 42,)))


_TREE: Final = json.dumps(
    {
        "kind": "QuotaTree",
        "metadata": {"name": "tree-1"},
        "spec": {
            "resourceNames": ["cpu", "memory"],
            "nodes": {
                "a": {"parent": "nil", "hard": "true", "quota": {"cpu": "10", "memory": "256"}},
                "b": {"parent": "a", "quota": {"cpu": "2"}},
            },
        },
    }
)
_CONSUMER: Final = json.dumps(
    {
        "kind": "Consumer",
        "metadata": {"name": "c"},
        "spec": {"id": "c", "trees": [{"treeName": "t", "groupID": "b", "request": {"cpu": 1}, "priority": 0}]},
    }
)
_POD: Final = json.dumps(
    {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "dev", "uid": "1", "labels": {"queue": "root.a", "applicationId": "x"}},
        "spec": {
            "containers": [{"resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}}],
            "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": 1}}}],
            "overhead": {"cpu": "0.1"},
        },
    }
)
_NAMESPACE: Final = json.dumps(
    {
        "kind": "Namespace",
        "metadata": {
            "name": "dev",
            "annotations": {
                "yunikorn.apache.org/namespace.quota": '{"cpu": "64", "memory": "100G"}',
                "yunikorn.apache.org/parentqueue": "root.production",
            },
        },
    }
)
_ELASTIC: Final = json.dumps(
    {
        "kind": "ElasticQuota",
        "metadata": {
            "name": "team",
            "labels": {"quota.scheduling.koordinator.sh/parent": "up"},
            "annotations": {
                "quota.scheduling.koordinator.sh/shared-weight": '{"cpu": 4, "memory": "8Gi"}',
                "quota.scheduling.koordinator.sh/namespaces": '["a", "b"]',
            },
        },
        "spec": {"min": {"cpu": 10}, "max": {"cpu": "40"}},
    }
)
_JOBS: Final = "; a comment\n" + "".join(f"{at} {at} 5 60 4 -1 -1 4 60 -1 1 3 1 -1 1 1 -1 -1\n" for at in range(1, 30))

READERS: Final = {
    "configuration": Reader(
        _config, (EVERYTHING, *(case["yaml"] for case in vectors("yunikorn/config_validation")[:60]))
    ),
    "review": Reader(review_config, (EVERYTHING,)),
    "tree": Reader(tree_from, (_TREE, yaml.safe_dump(json.loads(_TREE)))),
    "nodes": Reader(nodes_from, (json.dumps(json.loads(_TREE)["spec"]["nodes"]),)),
    "consumer": Reader(parse_consumer, (_CONSUMER, yaml.safe_dump(json.loads(_CONSUMER)))),
    "pod": Reader(_document(read_pod), (_POD,)),
    "pod usage": Reader(_document(pod_usage), (_POD,)),
    "namespace": Reader(_document(read_namespace), (_NAMESPACE,)),
    "elastic quota": Reader(_document(read_elastic_quota), (_ELASTIC,)),
    "jobs": Reader(_swf, (_JOBS,)),
    "quantities": Reader(lambda text: Resource.parse(vcore=text, memory=text), ("250m", "4Gi", "10 k")),
    "pattern": Reader(_filter, (r"^team-[0-9]{1,3}(x|y)*$", r"(?i)[[:alpha:]]+\b.{2}", "(a|b)*c?d+")),
}

_PIECES: Final = (
    *("\n", "\n  ", "\t", "\0", "\ufeff", "\r\n", "\x85", "é", "\U0001f600", "\ud800", "---\n", "...\n", "%YAML 1.1\n"),
    *(": ", "- ", ", ", "[", "]", "{", "}", "'", '"', "#", "&a ", "*a", "<<: ", "!!str ", "!x ", "? ", "|", ">", "@"),
    *("~", "null", "'*'", "0", "-1", "1_0", "1e3", "0x1", "NaN", "9" * 5000, "9223372036854775808", "a" * 300, "root"),
    *("users: ", "queues: ", "ugm: {names: any}", "memory", "cpu", "(a+)+$", "{1000}", "(?=", "\\1", "\\", "^"),
)


def mutated(random: Random, seeds: tuple[str, ...]) -> str:
    """Draw a document with some edits: pieces taken out, put in, repeated, or moved; of up to 64 KiB."""
    text = random.choice(seeds)
    for _ in range(random.randint(1, 8)):
        start = random.randint(0, len(text))
        end = min(len(text), start + random.choice((0, 1, 10, 100, 1000)))
        piece = random.choice((random.choice(_PIECES), text[start:end] * random.choice((1, 2, 30, 1000)), ""))
        text = (text[:start] + piece + text[end:])[:SMALL]
    return text


def read(reader: Reader, text: str, *, check: bool = True) -> float:
    """Read a text, which must end in a value or in a documented error; return the processor time that it took."""
    began = time.thread_time()
    found: object = None
    with suppress(UgmError):
        found = reader.read(text)
    took = time.thread_time() - began
    if check and isinstance(found, SchedulerConfig):
        _check_config(found)
    return took


def _check_config(config: SchedulerConfig) -> None:
    """Make sure that an accepted configuration can be written, exported and planned."""
    assert parse_config(dump_config(config)) == config
    exported = export_config(config).config
    assert all(partition.ugm.names == "yunikorn" for partition in exported.partitions)
    assert parse_config(dump_config(exported)) == exported
    for partition in config.partitions:
        live = Partition()
        assert str(live.plan(partition)) is not None
        live.configure(partition)
        assert repr(live.plan(exported.partition(partition.name)))


@cache
def _step() -> float:
    """Return how long a small loop takes here."""
    best = 1.0
    used = {f"q{level}": {"vcore": 0, "memory": 0} for level in range(8)}
    for _ in range(5):
        began = time.thread_time()
        for _ in range(1000):
            for counter in used.values():
                for name, amount in (("vcore", 1), ("memory", 2)):
                    if counter[name] + amount <= 1 << 60:
                        counter[name] += amount
        best = min(best, (time.thread_time() - began) / 1000)
    return best


def allowed(seconds: float) -> float:
    """Return how many seconds on this machine are some seconds where a step of the bare loop takes 3 microseconds."""
    return seconds * max(1.0, _step() / _STEP)


def _queues(text: str) -> str:
    return f"partitions: [{{queues: [{text}]}}]"


def _nested(depth: int, inside: str) -> str:
    return _queues("{name: q, queues: [" * depth + "{name: l}" + f"], {inside}}}" * depth)


def _limits(number: int, limit: str) -> str:
    return "limits: [" + ",".join(limit % at for at in range(number)) + "]"


def _many(text: str, number: int) -> str:
    """Return a text many times, with numbers in the place of ``#``."""
    return ",".join(text.replace("#", str(at)) for at in range(number))


def families(size: int) -> Iterator[tuple[str, str, str]]:
    """Yield reader, name and text of inputs that cost the most for their size."""
    yield from (("configuration", *family) for family in _plain(size))
    yield from (("configuration", *family) for family in _deep(size))
    yield from (("configuration", *family) for family in _signs(size))
    yield from (("configuration", *family) for family in _rules(size))
    yield from (("review", *family) for family in _resources(size))
    yield from ((reader, *family) for reader in ("tree", "consumer", "nodes") for family in _json(size))
    yield from _others(size)


def _plain(size: int) -> Iterator[tuple[str, str]]:
    for name, piece in (
        ("scalars", "a,"),
        ("empty lists", "[],"),
        ("quoted", "'a',"),
        ("keys", "{a: b},"),
        ("anchors", "&a b,"),
        ("tags", "!!str b,"),
        ("deep", "{a: " * 90 + "b" + "}" * 90 + ","),
        ("unknown fields", "{nam: b, queus: c},"),
        ("queues", "{name: q},"),
    ):
        yield name, _queues(piece * (size // len(piece)))[: size - 3] + "]}]"
    count = size // 60
    names = ",".join(f"user{at}" for at in range(size // 12))
    yield "users", _queues("{name: a, limits: [{maxapplications: 1, users: [" + names + "]}]}")
    yield (
        "same user",
        _queues("{name: a, limits: [{maxapplications: 1, users: [" + "u," * (size // 2) + "]}]}"),
    )
    limit = "{users: [u%d], maxresources: {vcore: 1, memory: 5}}"
    yield "limits", _queues("{name: a, " + _limits(count, limit) + "}")


def _deep(size: int) -> Iterator[tuple[str, str]]:
    count = size // 60
    names = ",".join(f"user{at}" for at in range(size // 12))
    amounts = "{" + ",".join(f"r{at}: 1" for at in range(250)) + "}"
    limit = "{users: [u%d], maxresources: {vcore: 1, memory: 5}}"
    yield "limits at every depth", _nested(40, _limits(count // 40, limit))
    held = "{users: [u%d], maxresources: {vcore: 1}, maxapplications: 1}"
    yield "limits held above", _nested(40, _limits(max(1, count // 50), held))
    above = "limits: [{users: [" + names[: size // 130].rpartition(",")[0] + "], maxapplications: 2}]"
    yield "names at every depth", _nested(40, above)
    groups = "limits: [{groups: [" + names[: size // 130].rpartition(",")[0] + ", '*'], maxresources: {vcore: 1}}]"
    yield "wildcards at every depth", _nested(40, groups)
    wide = f"resources: {{guaranteed: {amounts}, max: {amounts}}}"
    depth = max(1, min(40, size // len(wide) - 1))
    yield "resources at every depth", _nested(depth, wide)


def _signs(size: int) -> Iterator[tuple[str, str]]:
    yield "names of queues", _queues(",".join(f"{{name: q{at}}}" for at in range(size // 14)))
    long = "a" * 200
    yield "long names", _queues(",".join(f"{{name: {long}{at}}}" for at in range(size // 220)))
    yield "one long name", _queues("{name: " + "a" * size + "}")
    yield "digits", _queues("{name: a, maxapplications: " + "9" * size + "}")
    yield "amount", _queues("{name: a, resources: {max: {vcore: " + "9" * size + "}}}")
    yield "aliases", "partitions: [&a {queues: [{name: a}]}," + "*a," * (size // 3) + "]"
    merged = "- &a {" + ",".join(f"k{at}: 1" for at in range(200)) + "}\n"
    yield "merged", merged + "- {<<: *a}\n" * (size // 11)
    yield "directives", "%a\n" * (size // 3)
    yield "comments", "#\n" * (size // 2)
    yield "folded", "a: >\n" + "  b\n\n" * (size // 5)
    yield "escapes", '["' + "\\u0041" * (size // 6) + '"]'
    yield "indented", "".join(" " * at + "a:\n" for at in range(90)) * (size // 5000)
    yield "complex keys", "? [a]\n: b\n" * (size // 10)


def _rules(size: int) -> Iterator[tuple[str, str]]:
    rule = "{name: fixed, value: root.x.y.z, create: true, filter: {users: [a], groups: ['^b+$']}}"
    rules = "partitions: [{queues: [], placementrules: [%s]}]"
    yield "rules", rules % ",".join([rule] * (size // 130))
    yield (
        "patterns",
        rules
        % ",".join(f"{{name: user, filter: {{users: ['({'ab*' * 300}){{1}}{at}$']}}}}" for at in range(size // 960)),
    )
    yield (
        "repeated patterns",
        rules % ",".join(f"{{name: user, filter: {{users: ['(a{{99}}){{9}}{at}$']}}}}" for at in range(size // 60)),
    )
    yield (
        "wrong patterns",
        rules % ",".join(f"{{name: user, filter: {{users: ['{'(a' * 30}{at}(']}}}}" for at in range(size // 110)),
    )
    parents = "{name: user, parent: " * 30 + "{name: user}" + "}" * 30
    yield "parent rules", rules % ",".join([parents] * (size // len(parents)))
    yield (
        "paths",
        rules
        % ",".join("{name: fixed, create: true, value: " + ".".join(["q"] * 300) + "}" for _ in range(size // 650)),
    )
    yield (
        "access",
        _queues(_many("{name: q#, submitacl: 'a,b,c d,e'}", size // 45)),
    )
    yield (
        "partitions",
        "partitions: [" + ",".join(f"{{name: p{at}, queues: []}}" for at in range(size // 24)) + "]",
    )


def _resources(size: int) -> Iterator[tuple[str, str]]:
    different = _queues(
        ",".join(f"{{name: q{at}, resources: {{max: {{res{at}ource: 1}}}}}}" for at in range(size // 46))
    )
    yield "resources", different
    alike = _queues(
        ",".join(f"{{name: q{at}, resources: {{max: {{{'ab' * 28}{at}: 1}}}}}}" for at in range(size // 100))
    )
    yield "long resources", alike


def _json(size: int) -> Iterator[tuple[str, str]]:
    yield "values", "[" + "1," * (size // 2 - 1) + "1]"
    yield "unknown keys", "{" + ",".join(f'"specs{at}": 1' for at in range(size // 14)) + "}"
    yield "lines", "{\n" + ",\n".join(f'"a{at}":\n1' for at in range(size // 12)) + "}"
    yield (
        "nodes",
        '{"kind": "QuotaTree", "spec": {"nodes": {'
        + ",".join(f'"n{at}": {{"parents": "a", "quota": 1}}' for at in range(size // 40))
        + "}}}",
    )
    yield "deep", "[" * (size // 2)
    yield "texts", '["' + "\\u0041" * (size // 6) + '"]'
    yield "digits", "[" + "9" * size + "]"
    yield "fraction", "[0." + "9" * size + "]"


def _others(size: int) -> Iterator[tuple[str, str, str]]:
    many = _many('{"resources": {"requests": {"r#": 1}}, "restartPolicy": "Always"}', size // 72)
    yield "pod", "containers", '{"spec": {"containers": [' + many + '], "initContainers": []}}'
    yield "pod", "init containers", '{"spec": {"containers": [{}], "initContainers": [' + many + "]}}"
    yield "jobs", "blank lines", "\n" * size
    yield "jobs", "comment", ";" * size
    yield "jobs", "long line", "1 " * (size // 2)
    yield "jobs", "jobs", "1 1 5 60 4 -1 -1 4 60 -1 1 3 1 -1 1 1 -1 -1\n" * (size // 45)
    yield "quantities", "digits", "9" * size
    yield "pattern", "digits", "a{" + "9" * size + "}"
    for name, pattern in (
        ("plus of plus", "^(a+)+$"),
        ("optional", "(a?){400}a{400}$"),
        ("classes", "[a-z0-9-]" * 110 + "!"),
    ):
        yield "pattern", name, pattern


#: Inputs of 64 KiB.
FAMILIES: Final = tuple(families(SMALL))
