"""The demo: one command, and something to see."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from ugm.cli import demo
from ugm.cli.commands import ugm


@pytest.mark.ci
def test_demo_is_alive() -> None:
    """The command prints where it serves; what is seen there is not empty, and changes."""
    command = [sys.executable, "-c", "from ugm.cli import main; main()", "demo", "--port", "0", "--speed", "5000"]
    with subprocess.Popen(  # noqa: S603 - it is ours
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as run:
        assert run.stdout is not None
        address = run.stdout.readline().removeprefix("serving at ").strip()
        first = seen(address)
        while seen(address)["newest"] == first["newest"]:
            time.sleep(0.1)
        run.send_signal(signal.SIGINT)
    assert run.returncode == 0
    assert {"allocated", "denied", "released", "submitted"} <= first["counts"].keys()


def seen(address: str) -> dict[str, dict[str, int]]:
    """Return what the history of a server says."""
    with urlopen(f"{address}/api/v1/partition/default/history") as answer:  # noqa: S310 - it is ours
        found: dict[str, dict[str, int]] = json.load(answer)
        return found


def test_demo_keeps_its_books() -> None:
    """Where it starts, there are jobs that run and jobs that wait, and every counter is right."""
    player, history = demo.create_player()
    player.advance(demo.START // 4)
    assert player.running
    assert history.page().newest > 0
    player.partition.verify()


def test_address_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that cannot be had is told before anything is played."""
    monkeypatch.setattr(demo, "create_player", lambda: pytest.fail("it was played"))
    answer = CliRunner().invoke(ugm, ["demo", "--host", "192.0.2.1"])
    assert answer.exit_code == 1
    assert answer.stderr.startswith("cannot listen on 192.0.2.1 port 8080: ")
