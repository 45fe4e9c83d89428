"""The pages on REST and metrics describe everything that the server has."""

from __future__ import annotations

import json
import re
import runpy
from inspect import signature
from pathlib import Path
from typing import Final

import pytest

import ugm.server
from support.places import DOCS
from ugm.errors import ERROR_CODES
from ugm.server.metric_table import descriptions
from ugm.server.monitoring import dashboard
from ugm.server.route import PREFIX
from ugm.server.route_table import ROUTES

REST: Final = (DOCS / "reference" / "rest.md").read_text(encoding="utf-8")


def anonymous(path: str) -> str:
    """Return a path without the names of its parameters."""
    return re.sub(r"\{\w+\}", "{}", path)


def test_endpoints_are_described() -> None:
    """The page has one line for each endpoint, and no others; paths without a prefix are below that of ugm."""
    listed = re.findall(r"^\| `(GET|POST|PUT|DELETE) (\S+)`", REST, re.MULTILINE)
    described = [(method, path if path.startswith("/ws/") else PREFIX + path) for method, path in listed]

    assert sorted((method, anonymous(path)) for method, path in described) == sorted(
        (route.method, anonymous(route.full_path)) for route in ROUTES
    )


def test_error_codes_are_described() -> None:
    """The page has one line for each code of an HTTP error, with its status."""
    described = set(re.findall(r"^\| (\d+) \| `([a-z-]+)`", REST, re.MULTILINE))
    source = "\n".join(path.read_text(encoding="utf-8") for path in Path(ugm.server.__file__).parent.rglob("*.py"))
    raised = set(re.findall(r'ApiError\(\s*(\d+),\s*"([a-z-]+)"', source))

    assert {code for _, code in raised} - {code for _, code in described} <= ERROR_CODES.keys()
    assert {code for _, code in described}.isdisjoint(ERROR_CODES)
    literal = {code for _, code in described if not code.endswith("-unknown")}
    assert literal <= set(re.findall(r'"([a-z-]+)"', source))


@pytest.mark.parametrize("name", ["create_app", "PartitionCollector"])
def test_arguments_are_described(name: str) -> None:
    """The page on the server lists the arguments of a function with their defaults, and describes each of them."""
    text = (DOCS / "reference" / "server.md").read_text(encoding="utf-8")
    found = re.search(rf"^.. py:(?:function|class):: {name}\((.*)\)\n\n((?: .*\n|\n)+)", text, re.MULTILINE)
    assert found is not None
    arguments = signature(getattr(ugm.server, name)).parameters

    assert [each.partition("=")[0] for each in found[1].replace("*, ", "").split(", ")] == list(arguments)
    assert re.findall(r":param (\w+):", found[2]) == list(arguments)


def test_generated_files_are_up_to_date() -> None:
    """The dashboard, the alert rules and the table of metrics are those that the description generates."""
    found = runpy.run_path(str(DOCS / "make_monitoring.py"))["files"]()

    assert {path.name: path.read_text(encoding="utf-8") for path in found} == {
        path.name: text for path, text in found.items()
    }


def test_every_metric_is_on_the_dashboard() -> None:
    """The dashboard has a query for every metric, in every unit."""
    queries = json.dumps(dashboard())

    assert [name for name in descriptions() if name not in queries] == []
