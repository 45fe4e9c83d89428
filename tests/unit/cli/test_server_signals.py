"""``ugm serve`` and ``ugm demo``: signals while they start."""

from __future__ import annotations

import os
import pkgutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ugm
from support.server_fixtures import CONFIG
from ugm import Resource, UserGroup
from ugm.cli import commands
from ugm.server.http.signals import ServerSignals
from ugm.store import open_partition

#: Stops before the server listens, until it receives a signal.
_PROGRAM = """
import sys
from ugm.cli import main, serve

def listening(*_):
    print("started", flush=True)
    sys.stdin.read()

serve.listening = listening
main()
"""
#: Functions that are called one after the other during the start of a server with a service.
_PHASES = [
    "ugm.cli.serve.read_config",
    "ugm.service.Service.start",
    "ugm.service.Service._serve",
    "ugm.server.create_app",
    "ugm.cli.serve.listening",
    "ugm.cli.serve.run_server",
    "ugm.server.serving.run",
]


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """Handle the signals outside of a command, so that none ends the tests."""
    before = {
        number: signal.signal(number, lambda number, _: pytest.fail(f"there was no handler of signal {number}"))
        for number in (signal.SIGTERM, signal.SIGHUP)
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(name="arguments")
def _arguments(tmp_path: Path) -> list[str]:
    """Return the arguments of a server with a service and a store."""
    file = tmp_path / "queues.yaml"
    file.write_text(CONFIG)
    return ["serve", str(file), "--port", "0", "--listen", f"unix:{tmp_path}/socket", "--store", f"{tmp_path}/j"]


def send_before(monkeypatch: pytest.MonkeyPatch, function: str, number: signal.Signals) -> None:
    """Send a signal to this process before a function is called."""
    called: Callable[..., Any] = pkgutil.resolve_name(function)

    def send(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as the function
        os.kill(os.getpid(), number)
        return called(*arguments, **options)

    monkeypatch.setattr(function, send)


@pytest.mark.parametrize("phase", _PHASES)
def test_end_of_the_start(phase: str, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM ends a server in each phase of its start with the status 0, and ends its service like `Service.stop`."""
    send_before(monkeypatch, phase, signal.SIGTERM)
    result = CliRunner().invoke(commands.ugm, arguments)

    assert (result.exit_code, "Traceback" in result.stderr) == (0, False)
    assert {path.name for path in tmp_path.iterdir()}.isdisjoint({"socket", "j-wal"})


@pytest.mark.parametrize("phase", _PHASES)
def test_hang_up_during_the_start(phase: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGHUP in each phase of the start is noted, because the file may have changed after it was read."""
    noted: list[bool] = []

    def run(*_arguments: object, signals: ServerSignals, **_options: object) -> None:
        noted.append(signals.is_hung_up)

    monkeypatch.setattr("ugm.server.serving.run", run)
    send_before(monkeypatch, phase, signal.SIGHUP)
    result = CliRunner().invoke(commands.ugm, arguments)

    assert (result.exit_code, noted) == (0, [True])


def test_end_after_an_error(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM does not interrupt the end of the service of a server that could not start."""
    monkeypatch.setattr("ugm.cli.serve.listening", lambda *_: 1 // 0)
    send_before(monkeypatch, "ugm.service.Service.stop", signal.SIGTERM)
    result = CliRunner().invoke(commands.ugm, arguments)

    assert isinstance(result.exception, ZeroDivisionError)
    assert {path.name for path in tmp_path.iterdir()}.isdisjoint({"socket", "j-wal"})


def test_end_before_the_server_listens(arguments: list[str], tmp_path: Path) -> None:
    """On SIGTERM after the start of the service, a server keeps the allocations that it has granted."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", _PROGRAM, *arguments], **pipes, text=True, env=environment) as process:  # type: ignore[call-overload]  # noqa: S603 - our own program
        process.stdout.readline()
        with ugm.connect(f"unix:{tmp_path}/socket") as client:
            client.submit("app", UserGroup("sue"), "root.a")
            client.allocate("granted", "app", Resource(memory=1))
        process.send_signal(signal.SIGTERM)
        errors = process.communicate(timeout=60)[1]

    assert (process.returncode, "Traceback" in errors) == (0, False)
    assert {path.name for path in tmp_path.iterdir()}.isdisjoint({"socket", "j-wal"})
    partition = open_partition(tmp_path / "j")
    assert [allocation.allocation_id for allocation in partition.allocations()] == ["granted"]
    partition.close()


@pytest.mark.parametrize("phase", ["ugm.cli.demo.create_player", "ugm.cli.demo.play", "ugm.cli.demo.run_server"])
def test_end_of_the_start_of_a_demo(phase: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM ends the demo while it starts."""
    monkeypatch.setattr("ugm.cli.demo.START", 0)
    send_before(monkeypatch, phase, signal.SIGTERM)

    assert CliRunner().invoke(commands.ugm, ["demo", "--port", "0"]).exit_code == 0
