"""The signals of a server: which are noted, which end the start, and which cause a reload."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from support.server_fixtures import CONFIG, busy, served
from support.service_fixtures import eventually
from ugm.server import serving
from ugm.server.configurations import Actor, Configurations
from ugm.server.serving import ServerSignals


@pytest.fixture(name="received", autouse=True)
def _received() -> Iterator[list[int]]:
    """Handle the signals outside of a server, so that none ends the tests."""
    received: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: received.append(number))
        for number in (signal.SIGTERM, signal.SIGHUP)
    }
    yield received
    for number, handler in before.items():
        signal.signal(number, handler)


def test_signals_are_noted(received: list[int]) -> None:
    """Signals are noted without further effect, and belong to the program again after the block."""
    with ServerSignals() as signals:
        assert (signals.is_terminated, signals.is_hung_up) == (False, False)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)

    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGHUP)
    assert (signals.is_terminated, signals.is_hung_up) == (True, True)
    assert received == [signal.SIGTERM, signal.SIGHUP]


def test_start_ends_once() -> None:
    """SIGTERM ends the start of a command with the status 0, and another one does not interrupt this end."""
    with ServerSignals(is_command=True) as signals:
        with pytest.raises(SystemExit) as raised:
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)

    assert (raised.value.code, signals.is_terminated) == (0, True)
    # A command that has started its server ends only with the server.
    with ServerSignals(is_command=True) as signals:
        signals.end_start()
        signal.raise_signal(signal.SIGTERM)
    assert signals.is_terminated


def test_signals_while_the_interpreter_ends() -> None:
    """Signals do not change the status of a command while the interpreter ends."""
    program = (
        "import atexit, os, signal; from ugm.server.serving import ServerSignals\n"
        "for number in (signal.SIGTERM, signal.SIGHUP): atexit.register(os.kill, os.getpid(), number)\n"
        "with ServerSignals(is_command=True): raise SystemExit(3)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", program], env=environment, check=False).returncode == 3  # noqa: S603 - our own program


def serve(app: Starlette, operate: Callable[[], object], **options: Any) -> None:  # noqa: ANN401 - as `serving.run`
    """Serve an application until SIGTERM, and call a function in a thread meanwhile."""
    thread = threading.Thread(target=operate)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving.run(app, listener, ready=thread.start, **options)
    thread.join()


def send(number: signal.Signals) -> None:
    """Send a signal to this process, from any thread."""
    os.kill(os.getpid(), number)


def test_earlier_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A SIGHUP from before the server runs causes a reload."""
    actors: list[Actor] = []

    def reload(_self: Configurations, actor: Actor) -> None:
        actors.append(actor)
        send(signal.SIGTERM)

    monkeypatch.setattr(Configurations, "reload", reload)
    with ServerSignals(is_command=True) as signals:
        signal.raise_signal(signal.SIGHUP)
        serve(served(), lambda: None, signals=signals)

    assert actors == [("local", "signal")]


def test_reloads(tmp_path: Path) -> None:
    """On SIGHUP the file is reloaded, and an invalid one is a problem; on SIGTERM the server stops."""
    file = tmp_path / "queues.yaml"
    file.write_text(CONFIG)
    partition = busy()
    app = served(partition, config_path=file)

    def maximum() -> int | None:
        state = partition.queue("root.a")
        return None if state is None or state.max_resources is None else state.max_resources["memory"]

    def operate() -> None:
        file.write_text(CONFIG.replace("max: {memory: 9}", "max: {memory: 7}"))
        send(signal.SIGHUP)
        eventually(lambda: maximum() == 7)
        file.write_text("partitions: [")
        send(signal.SIGHUP)
        eventually(lambda: app.state.configurations.outcome.problems)
        send(signal.SIGTERM)

    serve(app, operate)
    assert maximum() == 7


def test_signal_during_a_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    """A SIGHUP after a reload has read the file causes another reload, also while an earlier reload has not ended."""
    contents, read, has_second_read = ["old"], list[str](), threading.Event()

    def reload(_self: Configurations, _actor: Actor) -> None:
        read.append(contents[-1])
        if len(read) == 1:
            send(signal.SIGHUP)
            # A reload that does not wait for this one reads now.
            has_second_read.wait(0.5)
        elif len(read) == 2:
            contents.append("new")
            send(signal.SIGHUP)
            has_second_read.set()

    def operate() -> None:
        send(signal.SIGHUP)
        with suppress(AssertionError):
            eventually(lambda: "new" in read, 5)
        send(signal.SIGTERM)

    monkeypatch.setattr(Configurations, "reload", reload)
    serve(served(), operate)
    assert read == ["old", "old", "new"]
