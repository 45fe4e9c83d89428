"""Services in this process, and clients that speak the protocol themselves."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any, Final, Literal, Self

import msgspec
import pytest

from support.partition_fixtures import SUE, config
from ugm import Partition
from ugm.config import PartitionConfig
from ugm.events import Subscriber
from ugm.model import QuotaModel
from ugm.partition import AbstractPartition
from ugm.service import ConnectedPartition, Security, Service, ServiceSettings, connect
from ugm.service.operations import OPERATIONS
from ugm.service.wire import (
    MAX_ANSWERS,
    VERSION,
    Execute,
    FrameReader,
    Hello,
    OperationRequest,
    Ping,
    Pong,
    Replies,
    Reply,
    Welcome,
    decode_leader_message,
    frame,
)

__all__ = ["CONFIG", "RawClient", "client_of_service", "eventually", "new_partition", "request", "running", "started"]

#: The configuration of the services.
CONFIG: Final = config("{name: a, resources: {max: {memory: 1000}}}")


@contextmanager
def running(
    folder: Path,
    name: str = "s",
    *,
    journal: str | None = None,
    given: PartitionConfig | None = CONFIG,
    settings: ServiceSettings | None = None,
    token: str = "",
) -> Iterator[Service]:
    """Run a service that listens on a socket in a folder."""
    place = None if journal is None else folder / journal
    service = Service(place, f"unix:{folder / name}", config=given, settings=settings, security=Security(token))
    service.start()
    try:
        yield service
    finally:
        service.stop()


@contextmanager
def client_of_service(
    config: PartitionConfig | None = None,
    *,
    models: Iterable[QuotaModel] = (),
    subscribers: Iterable[Subscriber] = (),
    group_limits: Literal["always", "unless-user-limited"] = "always",
) -> Iterator[ConnectedPartition]:
    """Lead a partition with the arguments of `ugm.Partition` in a thread, and return a client that uses a socket.

    A new service costs 3 ms of a processor, so each test has its own.
    """
    settings = ServiceSettings(group_limits=group_limits)
    with TemporaryDirectory() as folder:
        service = Service(
            None, f"unix:{folder}/s", config=config, models=models, subscribers=subscribers, settings=settings
        )
        service.start()
        try:
            with connect(str(service.addresses[0])) as partition:
                yield partition
        finally:
            service.stop()


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


def request(name: str, *arguments: Any) -> OperationRequest:  # noqa: ANN401 - as the operation
    """Return the encoded form of an operation."""
    operation = OPERATIONS[name]
    return OperationRequest(operation.number, msgspec.Raw(operation.encode_arguments(arguments)))


class RawClient:
    """A client that sends whatever a test wants."""

    def __init__(self, service: Service) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(5)
        self.socket.connect(service.addresses[0].path)
        self._frames = FrameReader(MAX_ANSWERS)
        self._messages: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *messages: Any) -> None:  # noqa: ANN401 - any message
        """Send messages at once."""
        self.socket.sendall(b"".join(map(frame, messages)))

    def send_until_blocked(self) -> None:
        """Send requests and read no answers until the leader reads no more."""
        self.socket.settimeout(0.2)
        with suppress(TimeoutError):
            while True:
                self.socket.send(frame(Ping()) * 1000)
        self.socket.settimeout(5)

    def receive(self) -> Any:  # noqa: ANN401 - any message
        """Return the next message; None if the leader has closed the connection."""
        while not self._messages:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._messages += map(decode_leader_message, self._frames.feed(data))
        return self._messages.pop(0)

    def greet(self, session: str = "", after: int = 0, *, version: int = VERSION, token: str = "") -> Any:  # noqa: ANN401
        """Send a greeting and return the answer. Answers that the session has waited for may come before it."""
        self.send(Hello(version, "raw", token, session, after))
        while type(message := self.receive()) is Replies:
            pass
        return message

    def open(self) -> str:
        """Open a session and return its id."""
        welcome = self.greet()
        assert type(welcome) is Welcome
        return welcome.session

    def do(self, first: int, *requests: OperationRequest, acknowledged: int = 0) -> None:
        """Send operations."""
        self.send(Execute(first, acknowledged, list(requests)))

    def answers(self, count: int) -> dict[int, Reply]:
        """Return the next answers, by number."""
        found: dict[int, Reply] = {}
        while len(found) < count:
            message = self.receive()
            if type(message) is Pong:
                continue
            assert type(message) is Replies, message
            for answer in message.answers:
                assert answer.number not in found
                found[answer.number] = answer
        return found
