"""The history: a bounded number of the newest events, with equal denials counted."""

from __future__ import annotations

import json
from typing import get_args

import msgspec

from ugm import Partition, Resource, UserGroup, parse_config
from ugm.events import Denied, Event, event_name
from ugm.server import History
from ugm.server.app import ROUTES

CONFIG = parse_config("""
partitions:
- name: default
  placementrules: [{name: provided, create: true}]
  queues: [{name: a, resources: {max: {memory: 2}}, maxapplications: 1}]
""").partition()
SUE = UserGroup("sue", ("dev",))


def ticking() -> History:
    """Return a history of three records of each kind, whose clock advances by one with each call."""
    ticks = iter(range(10_000))
    return History(3, clock=lambda: next(ticks))


def followed(history: History) -> Partition:
    """Return a partition with one application, followed by the history."""
    partition = Partition(CONFIG, subscribers=[history])
    partition.submit("app", SUE, "root.a")
    return partition


def test_bounded_by_kind() -> None:
    """The newest records of each kind are kept; many of one kind do not displace those of another."""
    history = ticking()
    partition = followed(history)
    for number in range(10):
        partition.allocate(f"a-{number}", "app", Resource(memory=1))
        partition.release(f"a-{number}")

    assert [record.kind for record in history.page().records].count("allocated") == 3
    assert [record.kind for record in history.page().records].count("submitted") == 1
    assert history.page().counts == {"allocated": 10, "group_assigned": 1, "released": 10, "submitted": 1}


def test_equal_denials_are_counted() -> None:
    """Equal denials of an application are one record, with the times of the first and the last."""
    history = ticking()
    partition = followed(history)
    for number in range(5):
        partition.allocate(f"a-{number}", "app", Resource(memory=3))

    (record,) = history.page(kind="denied").records

    assert (record.times, record.number, record.last, record.first_at, record.last_at) == (5, 2, 6, 1, 5)
    assert isinstance(record.event, Denied)
    assert record.event.requests[0].allocation_id == "a-4"


def test_a_denial_that_was_pushed_out_is_listed_again() -> None:
    """Equal denials are counted only within the newest records; those of other applications or requests differ."""
    history = ticking()
    partition = followed(history)
    partition.submit("other", SUE, "root.a")
    partition.allocate("a", "other", Resource(memory=3))
    for amount in (3, 4, 5, 6, 3):
        partition.allocate("a", "app", Resource(memory=amount))
    records = history.page(kind="denied").records
    assert history.page(kind="denied", most=1).records == records[-1:]

    assert [record.number for record in records] == [6, 7, 8]
    assert [record.times for record in records] == [1, 1, 1]


def test_names_of_events() -> None:
    """An event has the same name in queries, responses, the description, and metrics."""
    history = ticking()
    followed(history).add_node("node-1", Resource(memory=9))

    (record,) = history.page(kind="node_changed").records
    shown = record.to_dict()
    assert record.kind == shown["event"] == "node_changed"
    assert json.loads(json.dumps(shown)) == shown
    assert {"number": 2, "last": 2, "times": 1}.items() <= shown.items()
    assert history.page().counts["node_changed"] == 1
    (route,) = (route for route in ROUTES if route.name == "history")
    kind = next(one.type for one in msgspec.structs.fields(route.parameters) if one.name == "kind")
    names = list(get_args(get_args(kind)[0]))
    assert names == sorted(event_name(kind) for kind in get_args(Event))
    assert {"node_changed", "quota_given"} <= set(names)


def test_names_of_resources_are_bounded() -> None:
    """Beyond a number of resource names, which clients choose, denials are counted together."""
    history = ticking()
    partition = followed(history)
    partition.add_node("n", Resource(memory=9))
    for number in range(1300):
        partition.allocate("a", "app", Resource({f"r{number}": 1}))

    assert len(history.denials()) == 1001
    assert history.denials()["other", "other", "other"] == 300
