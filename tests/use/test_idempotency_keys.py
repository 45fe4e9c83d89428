"""A change over REST with a known idempotency key gets the stored answer, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from support.partition_fixtures import changing_nothing
from support.server_fixtures import DECIDE, PREFIX, client
from ugm import Partition, UserGroup, parse_config

CONFIG = "partitions: [{queues: [{name: q, resources: {max: {vcore: 2}}}]}]"


@pytest.fixture(name="partition")
def _partition() -> Partition:
    """Return a partition with an application."""
    partition = Partition(parse_config(CONFIG).partition())
    partition.submit("a", UserGroup("ana"), "root.q")
    return partition


class Client:
    """A client of a server for a partition."""

    def __init__(self, partition: Partition) -> None:
        self.rest = client(partition)

    def post(self, name: str, key: str | None, **body: object) -> tuple[int, Any]:
        """Execute an operation, and return the status and the answer."""
        headers = DECIDE | ({} if key is None else {"idempotency-key": key})
        answer = self.rest.post(f"{PREFIX}/{name}", json=body, headers=headers)
        return answer.status_code, answer.json()

    def allocate(self, key: str | None, vcore: str = "1") -> tuple[int, Any]:
        """Allocate with a key."""
        return self.post("allocate", key, allocation_id="a.0", application_id="a", usage={"vcore": vcore})


def test_a_late_repetition_charges_nothing(partition: Partition) -> None:
    """A grant that is repeated after the release is answered as before, and charges nothing."""
    client = Client(partition)
    first = client.allocate("one")
    partition.release("a.0")
    with changing_nothing(partition):
        assert client.allocate("one") == first

    assert client.allocate("two")[1]["allowed"]
    assert partition.allocation_ids() == ("a.0",)


def test_denials_and_errors_are_stored(partition: Partition) -> None:
    """A denied or refused change stays denied or refused for its key, although it would succeed now."""
    client = Client(partition)
    denied, refused = client.allocate("denied", "3"), client.post("complete", "refused", application_id="b")
    partition.configure(None)
    partition.adopt_application("b", UserGroup("ana"), "root.q")
    with changing_nothing(partition):
        assert client.allocate("denied", "3") == denied
        assert client.post("complete", "refused", application_id="b") == refused

    assert (denied[1]["allowed"], refused[0]) == (False, 404)


def test_another_request_with_the_key_is_an_error(partition: Partition) -> None:
    """A key belongs to one request: another body or operation with it changes nothing."""
    client = Client(partition)
    client.allocate("one")
    with changing_nothing(partition):
        others = [client.allocate("one", "2"), client.post("release", "one", allocation_id="a.0")]

    assert [(status, body["code"]) for status, body in others] == [(422, "idempotency-key-reused")] * 2
    assert client.allocate("x" * 257)[1]["code"] == "idempotency-key-invalid"


def test_batches_have_keys(partition: Partition) -> None:
    """A repeated batch changes nothing."""
    client = Client(partition)
    one = {"operation": "allocate", "allocation_id": "a.0", "application_id": "a", "usage": {"vcore": "1"}}
    first = client.post("batch", "batch", operations=[one])
    partition.release("a.0")

    assert client.post("batch", "batch", operations=[one]) == first
    assert partition.allocation_ids() == ()
