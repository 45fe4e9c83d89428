"""Partitions behind a server, and clients, for tests of the REST interface.

The fixture `storage` runs a test with partitions in memory, with those of a store, and with clients of a service. The
fixture `service` runs it with partitions in memory and with clients of a service.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
import uvicorn
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.testclient import TestClient

from support.lending import TAGS
from support.service_fixtures import client_of_service
from ugm import Partition, Resource, UserGroup, parse_config
from ugm.model import QuotaModel
from ugm.partition import AbstractPartition
from ugm.server import History, PartitionCollector, create_app
from ugm.server.metrics.collector import exposition
from ugm.server.serving import listen, uvicorn_config
from ugm.service import Durations, ServiceStatus
from ugm.store import open_partition

SUE: Final = UserGroup("sue", ("dev",))
PREFIX: Final = "/api/v1/partition/default"
#: The same for the paths in the format of YuniKorn.
YUNIKORN: Final = "/ws/v1/partition/default"
#: The status of a leader.
STATUS: Final = ServiceStatus(
    "a:1",
    is_leading=True,
    leader="a:1",
    address="unix:/a",
    term=3,
    change=70,
    sessions=5,
    connected=4,
    waiting=6,
    commits=Durations(9, 0.5, 0.004, 0.125, tuple(8 * (at == 11) + (at == 16) for at in range(23))),
    operations=Durations(40, 0.001, buckets=tuple(40 * (at == 4) for at in range(23))),
)
SECRET: Final = "a secret of 24 characters"  # noqa: S105 - of the tests
TOKEN: Final = {"Authorization": f"Bearer {SECRET}"}
DECIDE_SECRET: Final = "another secret for schedulers"  # noqa: S105 - of the tests
DECIDE: Final = {"Authorization": f"Bearer {DECIDE_SECRET}"}
YAML: Final = {"content-type": "application/yaml"}
UPLOAD: Final = {**TOKEN, **YAML}
#: A name that does harm in any place that does not escape it.
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


#: The values of metrics by name and labels.
Samples: TypeAlias = dict[tuple[str, tuple[tuple[str, str], ...]], float]
#: Creates the partitions of a test; see the fixture `storage`.
_factory: Callable[..., AbstractPartition] = Partition
_SERVICE: Final = pytest.param("service", marks=pytest.mark.ci)


def create_partition(*arguments: Any, **options: Any) -> AbstractPartition:  # noqa: ANN401 - passed on
    """Create a partition with the arguments of `ugm.Partition`, in the storage of the test."""
    return _factory(*arguments, **options)


@contextmanager
def _creating(kind: str, folder: Path) -> Iterator[str]:
    """Create all partitions in one kind of storage while the block runs."""
    numbers = count()
    with ExitStack() as opened, pytest.MonkeyPatch.context() as patch:

        def create_stored(*arguments: Any, **options: Any) -> AbstractPartition:  # noqa: ANN401 - passed on
            path = folder / f"partition-{next(numbers)}.db"
            return opened.enter_context(open_partition(path, *arguments, **options))

        def create_remote(*arguments: Any, **options: Any) -> AbstractPartition:  # noqa: ANN401 - passed on
            return opened.enter_context(client_of_service(*arguments, **options))

        factories = {"memory": Partition, "store": create_stored, "service": create_remote}
        patch.setattr("support.server_fixtures._factory", factories[kind])
        yield kind


@pytest.fixture(params=["memory", pytest.param("store", marks=pytest.mark.ci), _SERVICE])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Create the partitions of a test in memory, then with a store, then as clients of a service."""
    with _creating(request.param, tmp_path) as kind:
        yield kind


@pytest.fixture(params=["memory", _SERVICE])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Create the partitions of a test in memory, then as clients of a service."""
    with _creating(request.param, tmp_path) as kind:
        yield kind


def busy(history: History | None = None, models: Iterable[QuotaModel] = ()) -> AbstractPartition:
    """Return a partition in which sue holds 6 of 8, 4 are pending, and a request for 4 was denied."""
    subscribers = [] if history is None else [history]
    partition = create_partition(parse_config(CONFIG).partition(), subscribers=subscribers, models=models)
    tags = TAGS if models else {}
    partition.submit("app", SUE, "root.a", tags={"tier": "gold", **tags})
    assert partition.allocate("held", "app", Resource(memory=6))
    partition.request("pending", "app", Resource(memory=4))
    assert not partition.allocate("pending", "app", Resource(memory=4))
    partition.submit("idle", UserGroup("bob"), "root.b", tags=tags)
    return partition


def served(partition: AbstractPartition | None = None, **options: Any) -> Starlette:  # noqa: ANN401 - handed on
    """Return a server of one partition with all options."""
    history = History(clock=lambda: 7)
    partitions = {"default": partition or busy(history)}
    given = {
        "history": {} if partition else {"default": history},
        "token": SECRET,
        "decide_token": DECIDE_SECRET,
        "read_only": False,
        "metrics": exposition(PartitionCollector(partitions)),
        "clock": lambda: 7,
    }
    return create_app(partitions, **{**given, **options})


def client(partition: AbstractPartition | None = None, **options: Any) -> TestClient:  # noqa: ANN401 - handed on
    """Return a client of a server."""
    return TestClient(served(partition, **options))


def json_at(partition: AbstractPartition, path: str, **query: Any) -> Any:  # noqa: ANN401 - JSON
    """Return the answer of a server to a request for a part of a partition."""
    answer = client(partition).get(f"{PREFIX}/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def samples_of(collector: PartitionCollector) -> Samples:
    """Return the samples that the standard parser reads, by name and labels without the partition."""
    text, kind = exposition(collector)()
    assert kind.startswith("text/plain")
    return {
        (sample.name, tuple(sorted(item for item in sample.labels.items() if item[0] != "partition"))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


@contextmanager
def running(app: Starlette) -> Iterator[int]:
    """Run a server in a thread, and yield its port."""
    listener = listen("127.0.0.1", 0)
    config = uvicorn_config(app)
    config.lifespan, config.log_level = "off", "critical"
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield int(listener.getsockname()[1])
    finally:
        for feed in getattr(app.state, "feeds", ()):
            feed.close()
        server.should_exit = True
        thread.join()
        listener.close()
