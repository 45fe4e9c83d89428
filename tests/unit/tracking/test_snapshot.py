"""Snapshots: frozen trees of usage and limits, and the JSON of the documents."""

from __future__ import annotations

from typing import Any

from support.tracking_fixtures import group, partition, user
from ugm import Manager, Resource, UserGroup

SIX = Resource(memory=6 * 10**9, vcore=6000)

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
