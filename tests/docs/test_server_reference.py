"""The pages on REST and metrics describe everything that the server has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

import ugm.server
from support.places import DOCS
from ugm.errors import ERROR_CODES
from ugm.server.metrics.table import descriptions

MONITORING: Final = DOCS.parent / "examples" / "monitoring"
REST: Final = (DOCS / "reference" / "rest.md").read_text(encoding="utf-8")


def test_error_codes_are_described() -> None:
    """The page has one line for each code of an HTTP error, with its status."""
    described = set(re.findall(r"^\| (\d+) \| `([a-z-]+)`", REST, re.MULTILINE))
    source = "\n".join(path.read_text(encoding="utf-8") for path in Path(ugm.server.__file__).parent.rglob("*.py"))
    raised = set(re.findall(r'ApiError\(\s*(\d+),\s*"([a-z-]+)"', source))

    assert {code for _, code in raised} - {code for _, code in described} <= ERROR_CODES.keys()
    assert {code for _, code in described}.isdisjoint(ERROR_CODES)
    literal = {code for _, code in described if not code.endswith("-unknown")}
    assert literal <= set(re.findall(r'"([a-z-]+)"', source))


def test_every_metric_is_on_the_dashboard() -> None:
    """The dashboard has a query for every metric, in every unit, and no others."""
    queries = (MONITORING / "grafana-dashboard.json").read_text(encoding="utf-8")

    assert [name for name in descriptions() if name not in queries] == []


@pytest.mark.parametrize("file", ["grafana-dashboard.json", "prometheus-alerts.yaml"])
def test_queries_name_metrics(file: str) -> None:
    """The dashboard and the alert rules name only metrics that exist."""
    text = (MONITORING / file).read_text(encoding="utf-8")
    named = {re.sub("_(total|bucket)$", "", name) for name in re.findall(r"\bugm_\w+", text)}

    assert named <= descriptions().keys()
