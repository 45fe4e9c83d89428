"""Queue trees that clients read while a scheduler never pauses."""

from __future__ import annotations

import json
import threading
from http.client import HTTPConnection

import pytest

from support.server_fixtures import running
from support.server_load import SIZE, decide, is_consistent
from ugm import Partition, UserGroup, parse_config
from ugm.server import create_app

APPLICATIONS = 40


def contested(queues: int) -> Partition:
    """Return a partition whose applications hold an allocation, with room for one more among all queues."""
    leaves = ", ".join(f"{{name: q{number}}}" for number in range(queues))
    most = f"{{vcore: {(APPLICATIONS + 1) * 100}m}}"
    top = f"{{name: top, resources: {{max: {most}}}, queues: [{leaves}]}}"
    partition = Partition(parse_config(f"partitions: [{{queues: [{top}]}}]").partition())
    for number in range(APPLICATIONS):
        partition.submit(f"app-{number}", UserGroup(f"user-{number}"), f"root.top.q{number % queues}")
        partition.allocate(f"first-{number}", f"app-{number}", SIZE)
    return partition


@pytest.mark.parametrize(
    "responses", [pytest.param(200, marks=pytest.mark.ci), pytest.param(10_000, marks=pytest.mark.deep)]
)
def test_no_response_is_inconsistent(responses: int) -> None:
    """No response shows a queue without the sum of its children, or above its maximum."""
    partition, stopped, seen = contested(30), threading.Event(), set[bytes]()

    def schedule() -> None:
        while not stopped.is_set():
            decide(partition, 0.05, APPLICATIONS)

    scheduler = threading.Thread(target=schedule)
    with running(create_app({"default": partition})) as port:
        client = HTTPConnection("127.0.0.1", port)
        scheduler.start()
        try:
            for number in range(responses):
                # Different requests are not coalesced.
                path = "/api/v1/partition/default/queues" if number % 2 else "/api/v1/partition/default/queue/root.top"
                client.request("GET", path)
                content = client.getresponse().read()
                seen.add(content)
                assert is_consistent(json.loads(content))
        finally:
            stopped.set()
            scheduler.join()
            client.close()
    assert len(seen) > 3
    partition.verify()
