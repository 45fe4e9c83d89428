"""The types of values, the rules of a configuration, and programs that build configurations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from support.config_cases import EVERYTHING, problems_of
from ugm.config import Extensions, LimitConfig, NodeSortPolicy, QueueConfig, QueueResources, parse_config
from ugm.errors import RequestError
from ugm.resources import Resource


def test_limit_fields() -> None:
    """The fields of a limit come from the YAML names; a word such as yes is a name where a name is expected."""
    queue = parse_config(EVERYTHING).partition().root.queues[0]

    assert (queue.name, queue.guaranteed) == ("prod", Resource(memory=10))
    assert queue.max_resources == Resource({"memory": 2**31, "nvidia.com/gpu": 8})
    assert queue.limits == (
        LimitConfig(
            label="yes",
            users=("yes", "ana"),
            groups=("dev", "*"),
            max_resources=Resource(memory=2**30, vcore=0),
            max_applications=2,
        ),
    )


def test_default_partition() -> None:
    """Without a name the partition called default is meant if there are several."""
    config = parse_config("partitions: [{name: gpu, queues: []}, {queues: []}]")

    assert config.partition().name == "default"
    assert config.partition("GPU").name == "gpu"


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (LimitConfig, {"max_applications": -1}, "max_applications -1: expected a count of applications, 0 for no"),
        (QueueConfig, {"max_applications": True}, "max_applications True: expected a count of applications, 0 for no"),
        (LimitConfig, {"users": "ana"}, "users 'ana': expected a sequence"),
        (LimitConfig, {"groups": (7,)}, "groups 7: expected a text"),
        (LimitConfig, {"max_resources": Resource(memory=-1)}, "Resource(memory=-1): the amount of memory is negative"),
        (LimitConfig, {"max_resources": Resource({"a b": 1})}, "the resource name 'a b' contains white space"),
        (QueueResources, {"max": {"memory": 1}}, "max {'memory': 1}: expected a Resource"),
        (QueueResources, {"guaranteed": Resource(memory=2**63)}, "the amount of memory is above 9223372036854775807"),
        (QueueConfig, {"declared_parent": "perhaps"}, "declared_parent 'perhaps': expected True or False"),
        (QueueConfig, {"submit_acl": None}, "submit_acl None: expected a text"),
        (QueueConfig, {"resources": 7}, "resources 7: expected QueueResources"),
        (QueueConfig, {"queues": (LimitConfig(),)}, "expected QueueConfig"),
        (QueueConfig, {"properties": {"a": 1}}, "properties {'a': 1}: expected a mapping of texts"),
        (NodeSortPolicy, {"resource_weights": {"a": float("nan")}}, "expected a mapping of finite numbers"),
        (Extensions, {"names": "all"}, "names 'all': expected 'yunikorn' or 'any'"),
    ],
)
def test_values_check_their_fields(kind: Callable[..., object], fields: dict[str, object], message: str) -> None:
    """A program that builds a value is held to the types and ranges of the fields."""
    with pytest.raises(RequestError) as caught:
        kind(**fields)

    assert message in str(caught.value)


#: Partitions, each with the last parts of the paths and the codes of its problems.
CASES: Final = (Path(__file__).parent / "rules.txt").read_text("utf-8")


def _parsed(block: str) -> tuple[str, list[str]]:
    text, _, expected = " ".join(block.split()).partition(" -> ")
    whole = text.removeprefix("ALL ") if text.startswith("ALL ") else f"{{partitions: [{text}]}}"
    return whole, expected.split(", ")


@pytest.mark.parametrize(("text", "expected"), [_parsed(block) for block in CASES.strip().split("\n\n")])
def test_violations(text: str, expected: list[str]) -> None:
    """What breaks a rule is reported with the path of the value and a code."""
    found = [problem.splitlines()[:2] for problem in problems_of(text)]

    assert [f"{path.rpartition('.')[2]} {place.split()[1]}".strip() for place, path in found] == expected
