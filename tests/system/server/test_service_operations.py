"""Operations over REST on a partition that another process leads: the server is a client of the service."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from starlette.testclient import TestClient

from support.server_fixtures import DECIDE, PREFIX, served
from support.service_fixtures import running, started

OWNER = {"application_id": "app"}
ONE = {"memory": 1}
#: Operations with the beginning of their answers, in the order of their execution.
STEPS: tuple[tuple[str, Mapping[str, object], int, Mapping[str, object]], ...] = (
    ("submit", {"application_id": "more", "user": "sue", "queue": "root.a", "tags": {"a": "b"}}, 200, {"placed": True}),
    ("complete", {"application_id": "more"}, 200, {"application_id": "more"}),
    ("request", {**OWNER, "allocation_id": "a", "usage": ONE, "priority": 2}, 200, {}),
    ("allocate", {**OWNER, "allocation_id": "a", "usage": ONE, "priority": 2}, 200, {"allowed": True}),
    ("allocate", {**OWNER, "allocation_id": "b", "usage": {"memory": "1Ti"}}, 200, {"allowed": False}),
    (
        "allocate_all",
        {"requests": [{**OWNER, "allocation_id": "p", "usage": ONE, "placeholder": True}]},
        200,
        {"allowed": True},
    ),
    ("replace", {"placeholder_id": "p", "allocation_id": "q", "usage": ONE}, 200, {"allowed": True}),
    ("resize", {"allocation_id": "q", "usage": {"memory": 0}}, 200, {"allowed": True}),
    ("time_out_gang", OWNER, 200, {"allocation_ids": []}),
    ("allocate_evicting", {**OWNER, "allocation_id": "e", "usage": ONE}, 200, {"allowed": True, "evictions": []}),
    ("renew", {"allocation_id": "e", "duration": 60}, 200, {"allowed": True}),
    ("expire", {"now": 2**40}, 200, {"allocation_ids": ["e"]}),
    ("release_overdue", {"now": 0}, 200, {"allocation_ids": []}),
    ("preempt", {"allocation_id": "e"}, 200, {"existed": True}),
    ("release", {"allocation_id": "e"}, 200, {"existed": True}),
    ("release", {"allocation_id": "q"}, 200, {"existed": True}),
    ("resize", {"allocation_id": "q", "usage": ONE}, 404, {"code": "allocation-unknown"}),
    ("complete", OWNER, 409, {"code": "not-empty"}),
    ("fail", OWNER, 200, {"allocation_ids": ["a"]}),
    ("remove", OWNER, 200, {"allocation_ids": ["a"]}),
)


def test_every_operation(tmp_path: Path) -> None:
    """Every operation has its effect on the partition of the leader, and errors keep their codes."""
    with running(tmp_path) as service, started(service) as partition:
        client = TestClient(served(partition, metrics=None))
        for name, fields, status, beginning in STEPS:
            answer = client.post(f"{PREFIX}/{name}", json=fields, headers=DECIDE)
            assert answer.status_code == status, answer.text
            assert answer.json().items() >= beginning.items(), name

        assert partition.allocation_ids() == ()
        partition.verify()
