"""Services in this process, and clients that speak the protocol themselves."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any, Final, Literal, Self

import pytest

from support.partition_fixtures import SUE, config
from ugm import Partition
from ugm.config import PartitionConfig
from ugm.partition import AbstractPartition
from ugm.service import ConnectedPartition, Service, ServiceSettings, connect
from ugm.store import PostgresLocation

#: The configuration of the services.
CONFIG: Final = config("{name: a, resources: {max: {memory: 1000}}}")


@contextmanager
def running(
    folder: Path,
    name: str = "s",
    *,
    store: str | PostgresLocation | None = None,
    given: PartitionConfig | None = CONFIG,
    **options: Any,  # noqa: ANN401 - those of `Service`
) -> Iterator[Service]:
    """Run a service that listens on a socket in a folder."""
    service = Service(
        folder / store if isinstance(store, str) else store, f"unix:{folder / name}", config=given, **options
    )
    service.start()
    try:
        yield service
    finally:
        service.stop()


@contextmanager
def client_of_service(
    config: PartitionConfig | None = None,
    *,
    group_limits: Literal["always", "unless-user-limited"] = "always",
    **options: Any,  # noqa: ANN401 - those of `Service`
) -> Iterator[ConnectedPartition]:
    """Lead a partition with the arguments of `ugm.Partition` in a thread, and return a client that uses a socket.

    A new service costs 3 ms of a processor, so each test has its own.
    """
    settings = ServiceSettings(group_limits=group_limits)
    with (
        TemporaryDirectory() as folder,
        running(Path(folder), given=config, settings=settings, **options) as service,
        connect(str(service.addresses[0])) as partition,
    ):
        yield partition


@pytest.fixture(params=["memory", pytest.param("service", marks=pytest.mark.ci)])
def new_partition(request: pytest.FixtureRequest) -> Iterator[Callable[..., AbstractPartition]]:
    """Return a function with the arguments of `ugm.Partition` that creates a partition, or a client of a service."""
    if request.param == "memory":
        yield Partition
        return
    with ExitStack() as opened:
        yield lambda *arguments, **options: opened.enter_context(client_of_service(*arguments, **options))


def started(service: Service, **options: Any) -> ConnectedPartition:  # noqa: ANN401 - as `connect`
    """Return a client of a service with one application, ``app``."""
    partition = connect(str(service.addresses[0]), **options)
    assert partition.submit("app", SUE, "root.a")
    return partition


def eventually(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until a condition holds."""
    end = monotonic() + seconds
    while not condition():
        assert monotonic() < end, "the condition does not become true"
        sleep(0.005)


class RawClient:
    """A client that sends whatever a test wants, as lines of JSON."""

    def __init__(self, service: Service) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(5)
        self.socket.connect(service.addresses[0].path)
        self._file = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        self._file.close()

    def send(self, *messages: Any) -> None:  # noqa: ANN401 - any JSON
        """Send messages at once."""
        self.socket.sendall(b"".join(json.dumps(one).encode() + b"\n" for one in messages))

    def receive(self) -> Any:  # noqa: ANN401 - any JSON
        """Return the next message; None if the service has closed the connection."""
        try:
            line = self._file.readline()
        except ConnectionResetError:
            return None
        return json.loads(line) if line else None

    def greet(self, session: str = "", *, versions: tuple[int, int] = (1, 1), key: str = "", **more: Any) -> Any:  # noqa: ANN401
        """Send a greeting and return the answer."""
        self.send(["hello", *versions, "raw", key, session, *more.values()])
        return self.receive()

    def call(self, number: int, operation: str, *, acknowledged: int = 0, **arguments: Any) -> None:  # noqa: ANN401
        """Send a call."""
        self.send(["call", number, acknowledged, operation, arguments])

    def answers(self, count: int) -> dict[int, Any]:
        """Return the next answers by number, each with the name of its message."""
        found: dict[int, Any] = {}
        while len(found) < count:
            name, number, *rest = self.receive()
            assert name in {"result", "error"}, name
            assert number not in found
            found[number] = (name, *rest)
        return found
