"""The examples run and have the effects that they describe."""

from __future__ import annotations

import contextlib
import gzip
import io
import runpy
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from support.places import EXAMPLES, environment
from ugm import load_config


@pytest.fixture(name="said", scope="module")
def _said() -> list[str]:
    """Return the output of the scheduler."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        runpy.run_path(str(EXAMPLES / "scheduler.py"), run_name="__main__")
    return out.getvalue().splitlines()


def test_scheduler_places(said: list[str]) -> None:
    """Placement rules select the queue of an application, and create one for an application without a queue."""
    assert said[0] == "train: placed in root.batch by placementrules[0] provided"
    assert "notebook: placed in new queue root.home.ann by placementrules[1] user, parent fixed home" in [
        line.partition(";")[0] for line in said
    ]


def test_scheduler_starts_gangs(said: list[str]) -> None:
    """A gang starts completely, and real allocations replace its placeholders."""
    started = said.index("build-place-1, build-place-2, build-place-3: started")

    assert said[started + 1] == "build-1: replaces build-place-1"
    assert "build: ends and releases build-place-2, build-place-3, build-1" in said


def test_scheduler_explains(said: list[str]) -> None:
    """A denial names the violated limit and the holders; a request that can never fit is rejected."""
    denied = said.index("report-1: denied, waiting can help:")

    assert said[denied + 1 : denied + 4] == [
        "  queue root.batch: 4 vcore requested, 24 of 24 used, 4 too much",
        "    held by 'build' of 'bob' in root.batch: 12",
        "    held by 'train' of 'sue' in root.batch: 12",
    ]
    assert "notebook-1: rejected permanently; denied, waiting cannot help:" in said


def test_scheduler_reloads(said: list[str]) -> None:
    """An invalid configuration changes nothing; a valid one is planned and applied, and starts requests that fit."""
    planned = said.index("~ queue root.batch: maximum vcore 24 -> 28")

    assert said.index("the new quotas are invalid, so the old ones stay in force:") < planned
    assert said[planned - 1 : planned + 2 : 2] == ["the new quotas are in force:", "report-1: started"]


@pytest.mark.parametrize("way", ["threads", pytest.param("asyncio", marks=pytest.mark.ci)])
def test_scheduler_with_nodes(way: str) -> None:
    """Small jobs pass a wide one only if they do not delay it, and a job within a guarantee preempts another one."""
    command = [sys.executable, str(EXAMPLES / "node_scheduler.py"), way]
    lines = subprocess.run(  # noqa: S603 - ours
        command, env=environment(), check=True, capture_output=True, text=True
    ).stdout.splitlines()

    assert sorted(line.split()[0] for line in lines if line.endswith(" ends")) == [
        "first",
        "late",
        "long",
        "short",
        "wide",
    ]
    starts = [line for line in lines if " starts on " in line]
    assert starts[0] == "first starts on one"
    assert starts[1].startswith("short starts on ")
    assert starts[2:] == ["wide starts on one", "long starts on one", "late starts on one", "long starts on one"]
    stops = ["long has to stop for late", "long has stopped"]
    assert [line for line in lines if "stop" in line] == stops


@pytest.mark.ci
def test_schedulers_elect_a_leader() -> None:
    """One of three schedulers leads. After its death another one does, and its allocations can be released."""
    command = [sys.executable, str(EXAMPLES / "schedulers.py")]
    lines = subprocess.run(  # noqa: S603 - ours
        command, env=environment(), check=True, capture_output=True, text=True
    ).stdout.splitlines()

    killed = lines.index("one was killed")
    assert lines[3:5] == ["one leads: job-1 started", "two is a client: job-2 started"]
    assert lines[5] == "three is a client: job-3 denied, waiting can help:"
    assert lines[killed + 1].endswith(": job-4 denied, waiting can help:")
    assert "one has vanished: released job-1" in lines[killed:]
    assert lines[-1].startswith("three ")
    assert lines[-1].endswith(": job-5 started")


def test_every_kind_of_limit() -> None:
    """The commented configuration has named and wildcard limits of users and groups, at the root and below."""
    root = load_config(str(EXAMPLES / "limits.yaml")).partition().root
    limits = [limit for queue in (root, *root.queues) for limit in queue.limits]

    names = [set(limit.users) | {f"group {group}" for group in limit.groups} for limit in limits]
    assert {"sue", "bob"} in names
    assert {"*"} in names
    assert {"group development", "group test"} in names
    assert {"group *"} in names
    assert any(limit.max_applications for limit in limits)
    assert any(not limit.max_applications for limit in limits)


def test_workload_is_reproducible(tmp_path: Path) -> None:
    """The generator makes the bundled workload, byte for byte, in another process."""
    made = tmp_path / "grid.swf.gz"
    subprocess.run([sys.executable, EXAMPLES / "make_workload.py", made], check=True)  # noqa: S603 - ours

    bundled = (EXAMPLES / "grid.swf.gz").read_bytes()
    # How well zlib packs differs between its makes; what is packed does not, nor the header without a time.
    assert gzip.decompress(made.read_bytes()) == gzip.decompress(bundled)
    assert made.read_bytes()[:10] == bundled[:10]


LOOP: dict[str, Any] = runpy.run_path(str(EXAMPLES / "node_loop.py"))


def check_world(seed: int) -> int:
    """Run a random world, and return the number of evictions."""
    loop, lines = LOOP["run"](seed)
    assert not loop.requests
    loop.partition.verify()
    nodes: dict[str, set[str]] = defaultdict(set)
    starts = {line.split()[2]: line.split()[5] for line in lines if "prod-" in line.split()[2]}
    for words in (line.split() for line in lines if "has to stop" in line):
        nodes[words[-1]].add(words[-3])
    assert all(found == {starts[name]} for name, found in nodes.items())
    return sum(loop.evictions.values())


def test_a_guaranteed_request_starts_after_one_plan() -> None:
    """Each guaranteed request starts on the node of its plan, after the evictions of one plan."""
    assert sum(map(check_world, range(30))) > 0


@pytest.mark.deep
def test_a_guaranteed_request_starts_in_a_thousand_worlds() -> None:
    """The same in 1,000 worlds of two to eight nodes."""
    assert sum(map(check_world, range(1000))) > 1000


def said(name: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines that an example prints."""
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out.splitlines()


def test_document(capsys: pytest.CaptureFixture[str]) -> None:
    """The worked example gives 5, 20, 35 and 40, and shows the rounds."""
    lines = said("elastic_sharing.py", capsys)

    assert lines[-2:] == [
        "round 2 divides 9 by a total weight of 130: {'C': 3, 'D': 6}",
        "runtimes: {'A': 5, 'B': 20, 'C': 35, 'D': 40}",
    ]


def test_departments(capsys: pytest.CaptureFixture[str]) -> None:
    """GPUs are borrowed at night and returned in the morning; a minimum that is not lent stays."""
    lines = said("elastic_departments.py", capsys)
    shown = [line.replace(",", "").split() for line in lines]

    assert [row[4] for row in shown if row[:1] == ["language"] and len(row) > 4] == ["26", "16", "16", "8"]
    assert [row[4] for row in shown if row[:1] == ["serving"]] == ["6", "6", "6", "3"]
    assert "training-1 waits; it fits its quota, but only 3 GPUs are free" in lines
    assert "language returns language-4, language-5." in lines
