"""Plans of preemption that operators carry out over REST."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from starlette.testclient import TestClient

from support.partition_fixtures import memory
from support.server_fixtures import PREFIX, TOKEN, client
from ugm import Partition, UserGroup, parse_config

pytestmark = pytest.mark.usefixtures("storage")

TEXT = """
partitions:
  - preemption: {quotapreemptionenabled: true}
    queues:
      - {name: prod, resources: {guaranteed: {memory: 8}}, properties: {preemption.delay: 10s}}
      - {name: batch, resources: {max: {memory: 10}}, properties: {quota.preemption.delay: 20s}}
"""


def full() -> Partition:
    """Return a partition whose cluster of 8 is used by three allocations of a queue without a guarantee."""
    partition = Partition(parse_config(TEXT).partition(), cluster=memory(8), clock=lambda: 100)
    for name in ("prod", "batch"):
        partition.submit(name, UserGroup("sue"), f"root.{name}")
    for number, amount in enumerate((3, 3, 2)):
        assert partition.allocate(f"batch-{number}", "batch", memory(amount))
    partition.request("prod-0", "prod", memory(2))
    return partition


REQUEST = {"allocation_id": "prod-0", "application_id": "prod", "usage": {"memory": 2}, "since": 0}


def carry_out(rest: TestClient, body: object) -> tuple[int, Any]:
    """Carry a plan out, and return the status and the body of the response."""
    answer = rest.post(f"{PREFIX}/carry_out", json=body, headers=TOKEN)
    return answer.status_code, answer.json()


def test_a_plan_is_carried_out_once() -> None:
    """The named victims become terminating if they are those of the plan, and a repeated request changes nothing."""
    partition = full()
    rest = client(partition)
    plan = rest.post(f"{PREFIX}/plan_preemption", json=REQUEST).json()
    body = {"request": REQUEST, "victims": [one["allocation_id"] for one in plan["victims"]]}

    status, error = carry_out(rest, {"request": REQUEST, "victims": ["batch-0"]})
    assert (status, error["code"]) == (409, "plan-stale")
    assert "the plan has other victims now: 'batch-2'" in error["detail"]
    assert partition.preemption_status().terminating == ()
    assert carry_out(rest, body) == (200, {"allocation_ids": ["batch-2"]})
    assert carry_out(rest, body) == (200, {"allocation_ids": []})
    found = partition.preemption_status()
    assert [one.allocation.allocation_id for one in (*found.terminating, *found.placed)] == ["batch-2", "prod-0"]


def test_a_request_with_properties_that_the_body_lacks() -> None:
    """A plan for a pending request is made with its promised duration, and with what it says about its eviction."""
    partition = full()
    partition.release("prod-0")
    partition.request("prod-0", "prod", memory(2), preemptible=False, duration=60)

    body = {"request": REQUEST, "victims": ["batch-2"]}
    assert carry_out(client(partition), body) == (200, {"allocation_ids": ["batch-2"]})


def test_reductions_are_carried_out() -> None:
    """The victims of a plan of reductions become terminating."""
    partition = full()
    partition.configure(parse_config(TEXT.replace("10}", "6}")).partition())
    rest = client(partition)
    assert rest.get(f"{PREFIX}/preemption").json()["timers"] == [
        {"queue_path": "root.batch", "since": 100, "delay": 20, "due": 120}
    ]
    body = {"reductions": {"now": 120}, "victims": ["batch-2"]}

    assert rest.post(f"{PREFIX}/plan_reductions", json={"now": 120}).json()["victims"][0]["allocation_id"] == "batch-2"
    assert carry_out(rest, body) == (200, {"allocation_ids": ["batch-2"]})


def test_only_operators_carry_plans_out(caplog: pytest.LogCaptureFixture) -> None:
    """A request without the right is refused, and a plan that is carried out is in the audit log."""
    rest = client(full())
    body = {"request": REQUEST, "victims": ["batch-2"]}
    assert rest.post(f"{PREFIX}/carry_out", json=body).status_code == 401
    with caplog.at_level(logging.INFO, "ugm.audit"):
        carry_out(rest, body)

    assert "carry_out" in caplog.text
    assert "batch-2" in caplog.text
