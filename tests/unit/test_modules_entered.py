"""The modules of ugm that a call enters: a reader must be able to follow a grant through a few of them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from starlette.testclient import TestClient

from support.garbage import collect_garbage
from ugm import Partition, Resource, UserGroup, parse_config
from ugm.journal import open_partition
from ugm.partition import AbstractPartition
from ugm.server import History, create_app

CONFIG = parse_config(
    """
    partitions:
    - queues:
      - {name: prod, resources: {max: {memory: 4Gi}}, limits: [{limit: sue, users: [sue], maxresources: {memory: 3Gi}}]}
    """
).partition()
ONE = Resource(memory=1)


class EnteredModules:
    """The modules of ugm whose functions run while the object records."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.is_recording = False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Record a call; the profile function of this thread and of threads that start later."""
        name = str(frame.f_globals.get("__name__"))
        if self.is_recording and event == "call" and name.startswith("ugm"):
            self.names.add(name)


@contextmanager
def profiled() -> Iterator[EnteredModules]:
    """Observe the calls of all threads that start in the block, and of this one."""
    entered, before = EnteredModules(), (sys.getprofile(), threading.getprofile())
    threading.setprofile(entered)
    sys.setprofile(entered)
    try:
        yield entered
    finally:
        sys.setprofile(before[0])
        threading.setprofile(before[1])


def modules_of_second(call: Callable[[], object]) -> set[str]:
    """Return the modules of ugm that the second of two equal calls enters, in any thread."""
    with profiled() as entered:
        call()
        # A finalizer of another test would enter the modules of that test.
        collect_garbage()
        entered.is_recording = True
        call()
        entered.is_recording = False
    return entered.names


def of_a_second_grant(partition: AbstractPartition) -> set[str]:
    """Return the modules that the second grant of an application enters."""
    assert partition.submit("app", UserGroup("sue"), "root.prod")
    ids = iter(("first", "second"))
    return modules_of_second(lambda: partition.allocate(next(ids), "app", ONE))


def of_a_second_explanation(partition: AbstractPartition, history: History | None = None) -> set[str]:
    """Return the modules that a REST server enters to explain a grant a second time."""
    assert partition.submit("app", UserGroup("sue"), "root.prod")
    assert partition.allocate("first", "app", ONE)
    body = {"application_id": "app", "usage": {"memory": "1Gi"}}
    app = create_app({"default": partition}, history={"default": history} if history else None)

    def explain() -> None:
        response = client.post("/api/v1/partition/default/explain", json=body)
        assert response.json()["allowed"]

    # The threads of the server start in the block of `modules_of_second`.
    client = TestClient(app, base_url="http://localhost")
    return modules_of_second(explain)


def test_grant_in_memory() -> None:
    """A grant in memory enters at most four modules."""
    assert len(of_a_second_grant(Partition(CONFIG))) <= 4


def test_grant_with_a_journal(tmp_path: Path) -> None:
    """A grant that is written to a journal enters at most ten modules."""
    with open_partition(tmp_path / "journal", CONFIG) as partition:
        assert len(of_a_second_grant(partition)) <= 10


def test_explanation_over_rest() -> None:
    """The REST explanation of a grant enters at most twelve modules."""
    entered = of_a_second_explanation(Partition(CONFIG))

    assert len(entered) <= 12
    assert {"ugm.server.dispatch", "ugm.decision"} <= entered


def test_explanation_over_rest_with_a_history() -> None:
    """The same holds if a history follows the partition, as in the server of the command line."""
    history = History()
    assert len(of_a_second_explanation(Partition(CONFIG, subscribers=[history]), history)) <= 12
