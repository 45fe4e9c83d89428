"""The usage of one user or group, found by the name in the path."""

from __future__ import annotations

import pytest

from support.partition_fixtures import started
from support.server_fixtures import NASTY, YUNIKORN, client, create_partition
from ugm import UserGroup, parse_config

#: Every test runs with partitions in memory, with those of a store and with clients of a service.
pytestmark = pytest.mark.usefixtures("storage")


@pytest.mark.parametrize("kind", ["user", "group"])
def test_unknown(kind: str) -> None:
    """A user or group without usage is unknown, and the error is JSON."""
    answer = client().get(f"{YUNIKORN}/usage/{kind}/nobody")

    assert (answer.status_code, answer.json()) == (
        404,
        {
            "status_code": 404,
            "message": f"there is no {kind} 'nobody'",
            "description": f"there is no {kind} 'nobody'",
            "code": f"{kind}-unknown",
        },
    )


def test_a_name_with_everything_in_it() -> None:
    """A name with slashes and markup is found by its path, and is returned as JSON text."""
    name = NASTY
    partition = create_partition(parse_config("partitions: [{queues: [{name: a}]}]").partition())
    started(partition, "app", 1, "root.a", UserGroup(name))
    path = "".join(f"%{byte:02X}" for byte in name.encode())

    answer = client(partition).get(f"{YUNIKORN}/usage/user/{path}")

    assert answer.json()["userName"] == name
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
