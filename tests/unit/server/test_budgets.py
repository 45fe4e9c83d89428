"""The accounts of budgets over REST."""

from __future__ import annotations

import json
import logging
from fractions import Fraction
from math import inf
from typing import Any

import pytest

from support.logs import own_records
from support.partition_fixtures import config
from support.server_fixtures import DECIDE, PREFIX, TOKEN, client, create_partition, json_at
from ugm import Resource, UserGroup
from ugm.budgets import Budget, Budgets, Period
from ugm.partition import AbstractPartition

#: Every test runs with partitions in memory, with those of a store and with clients of a service.
pytestmark = pytest.mark.usefixtures("storage")

HOUR = 3600


def spending() -> AbstractPartition:
    """Return a partition in which two users have promised parts of their budgets."""
    budgets = [
        Budget("each", user="*", amounts=Resource(gpu=24 * HOUR), period=Period.MONTH),
        Budget("bill", queue="root.a", amounts=Resource(units=100), weights={"gpu": Fraction(1, 1000)}),
    ]
    partition = create_partition(config("{name: a}"), models=[Budgets(budgets)])
    for name, hours in (("sue", 6), ("ben", 12)):
        partition.submit(name, UserGroup(name), "root.a")
        assert partition.allocate(name, name, Resource(gpu=1), duration=hours * HOUR)
    return partition


def names(answer: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - JSON
    """Return the budgets and owners of the accounts."""
    return [(one["budget"], one["owner"]) for one in answer["accounts"]]


def test_accounts_are_listed() -> None:
    """Each account has its amounts, its renewal and its share, and the most used one is first."""
    found = json_at(spending(), "budgets")

    assert found["total"] == 3
    assert names(found) == [("bill", "root.a"), ("each", "ben"), ("each", "sue")]
    [ben] = [one for one in found["accounts"] if one["owner"] == "ben"]
    assert (ben["limit"], ben["scope"], ben["period"]) == (24 * HOUR, "user", "month")
    assert ben["settled"] + ben["committed"] == 12 * HOUR
    assert ben["remaining"] == ben["limit"] - 12 * HOUR
    assert (ben["share"], ben["queue_path"]) == (0.5, "root")
    assert ben["renews"] > found["now"]
    assert found["accounts"][0]["remaining"] == "176/5"


def test_accounts_are_selected_and_sorted() -> None:
    """Parameters select accounts and their order."""
    partition = spending()

    assert names(json_at(partition, "budgets", budget="each", sort="name")) == [("each", "ben"), ("each", "sue")]
    assert names(json_at(partition, "budgets", owner="sue")) == [("each", "sue")]
    assert names(json_at(partition, "budgets", search="BIL", sort="remaining")) == [("bill", "root.a")]
    assert names(json_at(partition, "budgets", sort="name", offset=1, limit=1)) == [("each", "ben")]
    times = [one["exhausted"] or inf for one in json_at(partition, "budgets", sort="exhausted")["accounts"]]
    assert times == sorted(times)


def change(partition: AbstractPartition, headers: Any = TOKEN, /, **fields: Any) -> tuple[int, Any]:  # noqa: ANN401 - JSON
    """Let an operator change a budget, and return the status and the body of the response."""
    answer = client(partition).post(f"{PREFIX}/change_budget", json={"reason": "ticket 7", **fields}, headers=headers)
    return answer.status_code, answer.json()


def test_an_operator_changes_budgets(caplog: pytest.LogCaptureFixture) -> None:
    """A change has its effect once for each id, and the audit log has the reason."""
    partition, hour = spending(), {"gpu": HOUR}
    caplog.set_level(logging.INFO, "ugm.audit")
    refill: dict[str, Any] = {"kind": "refill", "budget": "each", "owner": "sue", "amounts": hour, "change_id": "1"}

    assert [change(partition, TOKEN, **refill) for _ in range(2)] == [
        (200, {"changed": True}),
        (200, {"changed": False}),
    ]
    transfer: dict[str, Any] = {
        "kind": "transfer",
        "budget": "each",
        "owner": "ben",
        "recipient": "each",
        "recipient_owner": "sue",
    }
    assert change(partition, TOKEN, **transfer, amounts=hour) == (200, {"changed": True})
    limits = {one["owner"]: one["limit"] // HOUR for one in json_at(partition, "budgets", budget="each")["accounts"]}
    assert limits == {"sue": 26, "ben": 23}
    lines = [json.loads(record.message) for record in own_records(caplog)]
    assert [(one["object"], one["outcome"]) for one in lines] == [
        ("default: refill each: ticket 7", "ok"),
        ("default: refill each: ticket 7", "repeated"),
        ("default: transfer each: ticket 7", "ok"),
    ]


@pytest.mark.parametrize(
    ("headers", "fields", "status"),
    [
        (TOKEN, {"kind": "set", "budget": "none"}, 404),
        (TOKEN, {"kind": "set", "budget": "each", "owner": "sue"}, 400),
        (TOKEN, {"kind": "give", "budget": "each"}, 400),
        (TOKEN, {"kind": "set", "budget": "each", "reason": ""}, 400),
        (DECIDE, {"kind": "refill", "budget": "each"}, 401),
    ],
)
def test_a_refused_change(headers: dict[str, str], fields: dict[str, Any], status: int) -> None:
    """An invalid change, or one that a scheduler requests, has no effect."""
    partition = spending()
    before = json_at(partition, "budgets")["accounts"][0]["limit"]
    assert change(partition, headers, amounts={"gpu": 1}, **fields)[0] == status
    assert json_at(partition, "budgets")["accounts"][0]["limit"] == before
