"""Partitions behind a server, and clients, for tests of the REST interface.

The fixture `storage` runs a test with partitions in memory and with journaled ones.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.testclient import TestClient

from ugm import Partition, Resource, UserGroup, parse_config
from ugm.journal import open_partition
from ugm.server import History, PartitionCollector, create_app
from ugm.server.connections import ConnectionTimeouts
from ugm.server.metrics import exposition
from ugm.server.serving import listen, uvicorn_config

__all__ = [
    "CONFIG",
    "NASTY",
    "PREFIX",
    "SECRET",
    "SUE",
    "TOKEN",
    "UPLOAD",
    "YAML",
    "busy",
    "client",
    "create_partition",
    "running",
    "served",
    "storage",
]

SUE: Final = UserGroup("sue", ("dev",))
PREFIX: Final = "/ws/v1/partition/default"
SECRET: Final = "a secret of 24 characters"  # noqa: S105 - of the tests
TOKEN: Final = {"Authorization": f"Bearer {SECRET}"}
YAML: Final = {"content-type": "application/yaml"}
UPLOAD: Final = {**TOKEN, **YAML}
#: A name that does harm wherever somebody forgets what it is.
NASTY: Final = "<script>alert('1')</script>/../\"&\u2028"
CONFIG: Final = """
partitions:
- name: default
  placementrules: [{name: provided, create: true}]
  queues:
  - name: root
    childtemplate: {resources: {max: {memory: 50}}}
    limits:
    - {limit: team, groups: [dev], maxresources: {memory: 8}}
    - {limit: all, users: ["*"], maxresources: {memory: 10}, maxapplications: 3}
    queues:
    - {name: a, resources: {guaranteed: {memory: 4}, max: {memory: 9}}}
    - {name: b}
"""


#: Creates the partitions of a test; see the fixture `storage`.
_factory: Callable[..., Partition] = Partition


def create_partition(*arguments: Any, **options: Any) -> Partition:  # noqa: ANN401 - passed on
    """Create a partition with the arguments of `ugm.Partition`, in the storage of the test."""
    return _factory(*arguments, **options)


@pytest.fixture(params=["memory", "journal"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Create the partitions of a test in memory, and in a second run with a journal."""
    numbers = count()
    with ExitStack() as opened:

        def create_journaled(*arguments: Any, **options: Any) -> Partition:  # noqa: ANN401 - passed on
            path = tmp_path / f"partition-{next(numbers)}.journal"
            return opened.enter_context(open_partition(path, *arguments, durability="group", **options))

        if request.param == "journal":
            monkeypatch.setattr("support.server_fixtures._factory", create_journaled)
        yield request.param


def busy(history: History | None = None) -> Partition:
    """Return a partition in which sue holds 6 of 8, 4 are pending, and 4 were denied."""
    subscribers = [] if history is None else [history]
    partition = create_partition(parse_config(CONFIG).partition(), subscribers=subscribers)
    partition.submit("app", SUE, "root.a", tags={"tier": "gold"})
    assert partition.allocate("held", "app", Resource(memory=6))
    partition.request("pending", "app", Resource(memory=4))
    assert not partition.allocate("pending", "app", Resource(memory=4))
    partition.submit("idle", UserGroup("bob"), "root.b")
    return partition


def served(partition: Partition | None = None, **options: Any) -> Starlette:  # noqa: ANN401 - handed on
    """Return a server of one partition with everything that there is."""
    history = History(clock=lambda: 7)
    partitions = {"default": partition or busy(history)}
    given = {
        "history": {} if partition else {"default": history},
        "token": SECRET,
        "read_only": False,
        "extra_states": {"forest": lambda: {"trees": 2}},
        "metrics": exposition(PartitionCollector(partitions)),
        "clock": lambda: 7,
    }
    return create_app(partitions, **{**given, **options})


def client(partition: Partition | None = None, **options: Any) -> TestClient:  # noqa: ANN401 - handed on
    """Return a client of such a server."""
    return TestClient(served(partition, **options))


@contextmanager
def running(app: Starlette, patience: ConnectionTimeouts | None = None) -> Iterator[int]:
    """Run a server in a thread, and give its port."""
    listener = listen("127.0.0.1", 0)
    config = uvicorn_config(app, patience)
    config.lifespan, config.log_level = "off", "critical"
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield int(listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
