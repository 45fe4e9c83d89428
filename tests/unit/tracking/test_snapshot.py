"""Snapshots: frozen trees of usage and limits, and the JSON of the documents."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from support.tracking_fixtures import group, partition, user
from ugm import Manager, Resource, UserGroup

SIX = Resource(memory=6 * 10**9, vcore=6000)
#: What `json` reads and writes.
Json: TypeAlias = Any

USER1 = UserGroup("user1", ("tester",))


def queue(
    name: str, amount: int, applications: list[str], *children: dict[str, Any], **limits: object
) -> dict[str, Any]:
    """Return a queue as the documents show it: *amount* thousand million bytes and as many cores."""
    return {
        "queuename": name,
        "queuePath": name,
        "resourceUsage": {"memory": amount * 10**9, "vcore": amount * 1000},
        "runningApplications": applications,
        "children": list(children),
        **limits,
    }


def shown(document: Json, answer: Json) -> Json:
    """Return the fields of *answer* that the example of the document shows."""
    if isinstance(document, dict):
        return {name: shown(value, answer[name]) for name, value in document.items()}
    if isinstance(document, list):
        assert len(document) == len(answer)
        return [shown(one, other) for one, other in zip(document, answer, strict=True)]
    return answer


def run(manager: Manager) -> Manager:
    """Start the two applications of the documents' examples."""
    manager.increase("root.default", "app1", SIX, UserGroup("user1"))
    manager.increase("root.test", "app2", SIX, USER1)
    return manager


def test_users_of_the_tracking_document() -> None:
    """The users' example of the tracking document.

    Source: Apache YuniKorn, user based resource usage tracking, "Exposure of usage tracking".
    """
    manager = run(Manager(partition({"root.test": [group("tester", vcore=10_000)]})))
    children = queue("root.default", 6, ["app1"]), queue("root.test", 6, ["app2"])
    document = [
        {"userName": "user1", "groups": {"app2": "tester"}, "queues": queue("root", 12, ["app1", "app2"], *children)}
    ]

    assert shown(document, [usage.to_dict() for usage in manager.get_users_resources()]) == document


def test_users_of_the_enforcement_document() -> None:
    """The users' example of the enforcement document, in which app1 is charged to the group.

    Source: Apache YuniKorn, user based quota enforcement, "Exposure of quota details".
    """
    limits = {
        "root": [user("user1", applications=10)],
        "root.default": [
            user("user1", applications=10, memory=50 * 10**9, vcore=100_000),
            group("tester", memory=50 * 10**9),
        ],
    }
    manager = Manager(partition(limits))
    manager.increase("root.default", "app1", SIX, USER1)
    manager.increase("root.test", "app2", SIX, UserGroup("user1"))
    most = {"memory": 50 * 10**9, "vcore": 100_000}
    children = (
        queue("root.default", 6, ["app1"], maxApplications=10, maxResources=most),
        queue("root.test", 6, ["app2"], maxApplications=0, maxResources={}),
    )
    queues = queue("root", 12, ["app1", "app2"], *children, maxApplications=10, maxResources={})

    assert [usage.to_dict() for usage in manager.get_users_resources()] == [
        {"userName": "user1", "groups": {"app1": "tester"}, "queues": queues}
    ]


def test_snapshot_stays() -> None:
    """A snapshot is immutable, and later operations do not change it."""
    manager = run(Manager())
    (usage,) = manager.get_users_resources()
    before = usage.to_dict()
    manager.increase("root.test", "app2", SIX, USER1)

    assert usage.to_dict() == before
    with pytest.raises(AttributeError):
        usage.user_name = "other"  # type: ignore[misc] # what is tested
