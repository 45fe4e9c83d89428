"""The pages on REST and metrics describe everything that the server has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import ugm.server
from support.places import DOCS
from support.server_fixtures import STATUS
from ugm import Partition, Resource, UserGroup
from ugm.server import DecisionTimes, History, PartitionCollector
from ugm.server.metrics import exposition
from ugm.server.routes import ROUTES

REST: Final = (DOCS / "reference" / "rest.md").read_text(encoding="utf-8")
METRICS: Final = (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")


def anonymous(path: str) -> str:
    """Return a path without the names of its parameters."""
    return re.sub(r"\{\w+\}", "{}", path)


def test_endpoints_are_described() -> None:
    """The page has one line for each endpoint, and no others."""
    described = re.findall(r"^\| `(GET|POST|PUT|DELETE) (\S+)`", REST, re.MULTILINE)

    assert sorted((method, anonymous(path)) for method, path in described) == sorted(
        (route.method, anonymous(route.path)) for route in ROUTES
    )


def test_error_codes_are_described() -> None:
    """The page has one line for each code of an error, with its status."""
    described = set(re.findall(r"^\| (\d+) \| `([a-z-]+)`", REST, re.MULTILINE))
    source = "\n".join(path.read_text(encoding="utf-8") for path in Path(ugm.server.__file__).parent.glob("*.py"))
    raised = set(re.findall(r'ApiError\(\s*(\d+),\s*"([a-z-]+)"', source))

    assert raised - described == set()
    literal = {code for _, code in described if not code.endswith("-unknown")}
    assert literal <= set(re.findall(r'"([a-z-]+)"', source))


def test_metrics_are_described() -> None:
    """Every metric is on the page, where an ellipsis stands for the units."""
    history, times = History(), DecisionTimes()
    partition = Partition(cluster=Resource(vcore=4000, memory=1, gpu=1), subscribers=[history])
    partition.adopt_application("app-1", UserGroup("ana"), "root.batch")
    times.timed(partition.allocate)("app-1-0", "app-1", Resource(vcore=9000))
    text = exposition(
        PartitionCollector(
            {"default": partition},
            history={"default": history},
            services={"default": lambda: STATUS},
            times={"default": times},
        )
    )()[0].decode()
    described = set(re.findall(r"`(ugm_\w+)`", METRICS)) | {
        name + unit for name in re.findall(r"`(ugm_\w+)…`", METRICS) for unit in ("_cores", "_bytes", "_units")
    }

    assert set(re.findall(r"^# TYPE (ugm_\w+)", text, re.MULTILINE)) - described == set()
