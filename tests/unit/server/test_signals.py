"""The signals of a server: SIGTERM ends it, and SIGHUP causes a reload."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette

from support.server_fixtures import CONFIG, busy, served
from support.service_fixtures import eventually
from ugm.server import serving


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


def test_sigterm_ends_a_command() -> None:
    """SIGTERM ends a command with the status 0, and its contexts end."""
    program = (
        "import os, signal; from ugm.server.serving import exit_on_sigterm\n"
        "exit_on_sigterm()\n"
        "try: os.kill(os.getpid(), signal.SIGTERM)\n"
        "finally: print('ended')"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", program], env=environment, check=False, capture_output=True)  # noqa: S603 - our own program
    assert (result.returncode, result.stdout) == (0, b"ended\n")


def serve(app: Starlette, operate: Callable[[], object]) -> None:
    """Serve an application until SIGTERM, and call a function in a thread meanwhile."""
    thread = threading.Thread(target=operate)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving.run(app, listener, ready=thread.start)
    thread.join()


def send(number: signal.Signals) -> None:
    """Send a signal to this process, from any thread."""
    os.kill(os.getpid(), number)


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
