"""The demo: one command, and something to see."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from itertools import islice
from typing import Any
from urllib.request import urlopen

import pytest

from support.commands import run
from support.service_fixtures import eventually
from ugm import Resource, UserGroup
from ugm.cli import demo
from ugm.simulation import Job


@pytest.mark.ci
def test_demo_is_alive() -> None:
    """The command prints where it serves; what is seen there is not empty, and changes."""
    # The part of the workload before the start is short.
    program = "from ugm.cli import demo, main; demo.START //= 4; main()"
    command = [sys.executable, "-c", program, "demo", "--port", "0", "--speed", "5000"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:  # noqa: S603 - it is ours
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("serving at ").strip()

        def seen() -> Any:  # noqa: ANN401 - JSON
            with urlopen(f"{address}/api/v1/partition/default/history") as answer:  # noqa: S310 - it is ours
                return json.load(answer)

        first = seen()
        eventually(lambda: seen()["newest"] != first["newest"], 60)
        process.send_signal(signal.SIGINT)
    assert process.returncode == 0
    assert {"allocated", "denied", "released", "submitted"} <= first["counts"].keys()


def test_demo_keeps_its_books() -> None:
    """Where it starts, there are jobs that run and jobs that wait, and every counter is right."""
    replay, history = demo.create_demo()
    replay.run(demo.START // 12)
    assert replay.running
    assert history.page().newest > 0
    replay.partition.verify()


def test_address_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that cannot be had is told before anything is played."""
    monkeypatch.setattr(demo, "create_demo", lambda: pytest.fail("it was played"))
    answer = run("demo", "--host", "192.0.2.1")
    assert answer.exit_code == 1
    assert answer.stderr.startswith("cannot listen on 192.0.2.1 port 8080: ")


def test_endless_workload_goes_on_in_whole_days() -> None:
    """After the last job the first comes again, with a new number, at the same time of a later day."""
    jobs = [Job(number, second, 10, "root.a", UserGroup("sue"), Resource()) for number, second in ((1, 5), (2, 90_000))]
    again = list(islice(demo.endless(jobs), 4))
    assert [(one.number, one.submit_time) for one in again] == [(1, 5), (2, 90_000), (3, 172_805), (4, 262_800)]
    assert list(demo.endless([])) == []
