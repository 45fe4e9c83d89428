"""Bytecode instructions per decision in the leader and in the client of a service.

Usage: python tests/benchmarks/service_steps.py [--decisions N]

A decision is an allocation, or the release of it, of one client in its own queue. The leader runs in this process and
gets frames without a socket, with one or 32 operations in a message, in memory and with a journal file. The client
calls a service in another process. Counts do not depend on the load of the machine. Those of the standard library are
left out, and so are those of the thread that writes the journal. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from msgspec import Raw

from benchmarks.counting import bytecodes
from benchmarks.decision_load import CONFIG, queue_of
from benchmarks.service import USAGE, running, serve
from ugm import UserGroup, parse_config
from ugm.journal.locations import log_at
from ugm.journal.log import Candidate
from ugm.journal.opening import OpenLog, open_log
from ugm.operation_lock import OperationLock
from ugm.service import connect
from ugm.service.engine import EngineSettings, build_engine
from ugm.service.leader import Leader
from ugm.service.operations import OPERATIONS
from ugm.service.server_connection import ClientLimits, ServerConnection
from ugm.service.wire import VERSION, Execute, Hello, OperationRequest, frame

#: Functions in these folders are not counted.
DRIVER: Final = (Path(__file__).parent, Path(asyncio.__file__).parents[1])
WARM_UP: Final = 64


class Transport(asyncio.Transport):
    """A transport without a socket, which notes that something was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.has_sent: Final = asyncio.Event()

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401, ARG002 - as declared
        """Return nothing."""
        return default

    def write(self, data: Any) -> None:  # noqa: ANN401, ARG002 - as declared
        """Note that something was sent."""
        self.has_sent.set()

    def is_closing(self) -> bool:
        """Return False."""
        return False


def request(name: str, *arguments: object) -> OperationRequest:
    """Return an operation with its arguments."""
    return OperationRequest(OPERATIONS[name].number, Raw(OPERATIONS[name].encode_arguments(arguments)))


def frames(size: int) -> Iterator[bytes]:
    """Yield messages with some allocations and messages with their releases, in turns."""
    number = 1
    while True:
        lines = [f"0-{line}" for line in range(number, number + size)]
        for requests in (
            [request("allocate", line, "app-0", USAGE) for line in lines],
            [request("release", line) for line in lines],
        ):
            yield frame(Execute(number, number - 1, requests))
            number += size


async def _connected(leader: Leader, transport: Transport) -> ServerConnection:
    unused: Any = None
    connection = ServerConnection(leader, unused, ClientLimits(), "")
    connection.connection_made(transport)
    connection.data_received(frame(Hello(VERSION, "client", "", "", 0)))
    return connection


async def _exchange(connection: ServerConnection, transport: Transport, data: bytes) -> None:
    transport.has_sent.clear()
    connection.data_received(data)
    await transport.has_sent.wait()


def leader_steps(opened: OpenLog | None, size: int, decisions: int) -> float:
    """Return the instructions per decision of a leader, for messages of some operations."""
    with asyncio.Runner() as runner:

        async def begin() -> tuple[Leader, ServerConnection, Transport]:
            settings = EngineSettings(parse_config(CONFIG).partition(), (), (), "always")
            engine = build_engine(settings, opened, None, lambda: None)
            engine.partition.submit("app-0", UserGroup("user-0"), queue_of(0))
            leader, transport = Leader(engine, 10, lambda: ""), Transport()
            return leader, await _connected(leader, transport), transport

        leader, connection, transport = runner.run(begin())
        messages = frames(size)

        def execute(count: int) -> None:
            for _ in range(0, count, size):
                runner.run(_exchange(connection, transport, next(messages)))

        execute(WARM_UP)
        messages = iter([next(messages) for _ in range(0, decisions, size)])
        found = bytecodes(partial(execute, decisions), driver=DRIVER)
        leader.close()
        runner.run(leader.committer.finish())
    return found / decisions


def client_steps(folder: str, decisions: int) -> float:
    """Return the instructions per decision of a client with one outstanding call."""
    address = f"unix:{folder}/socket"
    with running(partial(serve, None, address)), connect(address, active_wait=0) as partition:
        partition.submit("app-0", UserGroup("user-0"), queue_of(0))

        def call(count: int) -> None:
            for line in range(count // 2):
                partition.allocate(f"0-{line}", "app-0", USAGE)
                partition.release(f"0-{line}")

        call(WARM_UP)
        return bytecodes(partial(call, decisions), driver=DRIVER) / decisions


def measure(decisions: int) -> dict[str, float]:
    """Return the instructions per decision of each part."""
    found: dict[str, float] = {}
    with TemporaryDirectory() as folder:
        for size in (1, 32):
            found[f"leader in memory, {size}"] = leader_steps(None, size, decisions)
            candidate = Candidate("leader", "unix:/unused")
            opened = open_log(log_at(Path(folder) / str(size)), candidate, OperationLock())
            found[f"leader with a file, {size}"] = leader_steps(opened, size, decisions)
            opened.journal.close()
        found["client, 1"] = client_steps(folder, decisions)
    return found


def main(run: Callable[[int], dict[str, float]] = measure) -> None:
    """Count and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--decisions", type=int, default=640)
    given = parser.parse_args()
    print(json.dumps({name: round(count) for name, count in run(given.decisions).items()}, indent=2))  # noqa: T201 - the outcome


if __name__ == "__main__":
    main()
