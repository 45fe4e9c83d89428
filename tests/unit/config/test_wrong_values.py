"""Wrong values in every declared part: each is accepted or reported with a place, and never raises another error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from itertools import product
from typing import Any, Final, TypeAlias

import pytest

from ugm import ConfigError, Partition, parse_config
from ugm.config import review_config

#: A value of JSON.
Data: TypeAlias = Any
#: The keys and positions that lead to a value.
Path: TypeAlias = tuple[Any, ...]

GROUP: Final = {
    "name": "ml",
    "parent": "",
    "min": {"vcore": "2"},
    "max": {"vcore": "4"},
    "sharedweight": {"vcore": "2"},
    "allowlent": True,
    "namespaces": ["prod"],
    "namespace": "quotas",
    "treeid": "main",
    "strictmax": ["vcore"],
}
PREFIX: Final = "quota.scheduling.koordinator.sh/"
MANIFEST: Final = {
    "kind": "ElasticQuota",
    "metadata": {
        "name": "ml",
        "namespace": "quotas",
        "labels": {f"{PREFIX}parent": "", f"{PREFIX}tree-id": "main"},
        "annotations": {f"{PREFIX}namespaces": '["prod"]', f"{PREFIX}shared-weight": '{"cpu": "2"}'},
    },
    "spec": {"min": {"cpu": "2"}, "max": {"cpu": "4"}},
}
NODES: Final = {"A": {"parent": "nil", "hard": "true", "quota": {"vcore": "10"}}}
TREE: Final = {
    "kind": "QuotaTree",
    "metadata": {"name": "company"},
    "spec": {"resourceNames": ["vcore"], "nodes": NODES},
}
ENTRY: Final = {"days": "mon-fri", "hours": "08:00-18:00", "from": "2026-01-01", "zone": "UTC", "maxapplications": 3}
SECTIONS: Final[dict[str, Data]] = {
    "elastic": {"groups": [GROUP], "total": {"vcore": "9"}, "groupby": [{"source": "tag", "tag": "t", "names": {}}]},
    "manifest": {"groups": [MANIFEST]},
    "quotatrees": [{"tree": TREE, "groupby": [{"source": "queue"}], "defaultgroup": "A", "forest": "f"}],
    "budgets": [{"name": "b", "user": "*", "queue": "root", "amounts": {"gpu": "9"}, "period": "day", "zone": "UTC"}],
    "fairshare": {"accounts": {"a": "1"}, "users": {"a/x": "1"}, "bin": 9, "bins": 3, "weights": {"gpu": "1/2"}},
    "thresholds": {"shares": [80, 95], "hysteresis": 5},
    "schedule": [ENTRY],
    "placementrules": [{"name": "fixed", "value": "a", "filter": {"type": "allow", "users": ["a"]}}],
    "preemption": {"enabled": True},
}
LONG: Final = "x" * 300
WRONG: Final[tuple[Data, ...]] = ("", LONG, "\0", 10**30, [], {}, [""], [LONG], {"": ""}, {LONG: "1"}, {"a": LONG})


def text_of(section: str, content: Data) -> str:
    """Return a configuration with one section."""
    partition: dict[str, Data] = {"queues": [{"name": "a"}]}
    if section == "schedule":
        partition["limits"] = [{"users": ["ana"], "maxapplications": 9, "ugm": {"schedule": content}}]
    elif section in ("placementrules", "preemption"):
        partition[section] = content
    else:
        partition["ugm"] = {"elastic" if section == "manifest" else section: content}
    # A key of YAML that is longer than 128 characters needs this mark.
    return json.dumps({"partitions": [partition]}).replace(f'"{LONG}":', f'? "{LONG}" :')


def paths(data: Data, path: Path = ()) -> Iterator[Path]:
    """Yield the path of every value."""
    yield path
    for key in data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ():
        yield from paths(data[key], (*path, key))


def replaced(data: Data, path: Path, value: Data) -> Data:
    """Return data with another value at a path."""
    if not path:
        return value
    changed = deepcopy(data)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


@pytest.mark.parametrize(
    ("section", "step"), [*product(SECTIONS, [3]), *(pytest.param(one, 1, marks=pytest.mark.ci) for one in SECTIONS)]
)
def test_wrong_values(section: str, step: int) -> None:
    """A text with a wrong value is a configuration that a partition can use, or has problems with places."""
    given = SECTIONS[section]
    texts = [text_of(section, replaced(given, path, wrong)) for path in paths(given) for wrong in WRONG]
    parse_config(text_of(section, given))

    for text in texts[::step]:
        try:
            Partition(parse_config(text).partition())
        except ConfigError as error:
            found = error.problems
        else:
            found = ()
        assert all(one.line and one.path and one.code != "partition-unusable" for one in found), found
        assert review_config(text).problems == found
