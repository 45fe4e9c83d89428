"""Snapshots: frozen trees of usage and limits, and the JSON of the documents."""

from __future__ import annotations

import json
import pickle
from typing import Any, TypeAlias

import pytest

from support.tracking_fixtures import BOB, NOTHING, ONE, SUE, group, partition, user
from ugm import Manager, Resource, UserGroup
from ugm.tracking import QueueUsage

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


def test_groups_of_the_tracking_document() -> None:
    """The groups' example of the tracking document.

    Source: Apache YuniKorn, user based resource usage tracking, "Exposure of usage tracking".
    """
    manager = run(Manager(partition({"root.test": [group("tester", vcore=10_000)]})))
    queues = queue("root", 6, ["app2"], queue("root.test", 6, ["app2"]))
    document = [{"groupName": "tester", "applications": ["app2"], "queues": queues}]

    assert shown(document, [usage.to_dict() for usage in manager.get_groups_resources()]) == document


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


def test_groups_of_the_enforcement_document() -> None:
    """The groups' example of the enforcement document.

    Source: Apache YuniKorn, user based quota enforcement, "Exposure of quota details".
    """
    manager = run(Manager(partition({"root.test": [group("tester", vcore=10_000, applications=2)]})))
    child = queue("root.test", 6, ["app2"], maxApplications=2, maxResources={"vcore": 10_000})
    queues = queue("root", 6, ["app2"], child, maxApplications=0, maxResources={})
    document = [{"groupName": "tester", "users": ["user1"], "queues": queues}]

    assert shown(document, [usage.to_dict() for usage in manager.get_groups_resources()]) == document


def test_fields() -> None:
    """Both documents' fields are always there, limits too."""
    manager = run(Manager(partition({"root": [group("tester", vcore=10_000)]})))
    (shown,), (team,) = manager.get_users_resources(), manager.get_groups_resources()

    assert set(shown.to_dict()) == {"userName", "groups", "queues"}
    assert set(team.to_dict()) == {"groupName", "users", "applications", "queues"}
    assert set(shown.to_dict()["queues"]) == {
        "queuename",
        "queuePath",
        "resourceUsage",
        "runningApplications",
        "children",
        "maxApplications",
        "maxResources",
    }


def test_json() -> None:
    """The dictionaries of a snapshot can be written as JSON."""
    manager = run(Manager(partition({"root": [group("tester", vcore=10_000)]})))

    shown = [usage.to_dict() for usage in manager.get_users_resources()]
    shown += [usage.to_dict() for usage in manager.get_groups_resources()]

    assert json.loads(json.dumps(shown)) == shown


def test_sorted() -> None:
    """Users, groups, queues and applications are sorted by name."""
    manager = Manager(partition({"root": [group("ops", memory=9), group("dev", memory=9)]}))
    manager.increase("root.b", "app-3", ONE, SUE)
    manager.increase("root.a", "app-2", ONE, SUE)
    manager.increase("root.b", "app-1", ONE, BOB)
    manager.increase("root.b", "app-0", ONE, UserGroup("cleo", ("ops",)))
    users, groups = manager.get_users_resources(), manager.get_groups_resources()

    assert [usage.user_name for usage in users] == ["bob", "cleo", "sue"]
    assert [usage.group_name for usage in groups] == ["dev", "ops"]
    assert groups[0].users == ("bob", "sue")
    assert groups[0].applications == ("app-1", "app-2", "app-3")
    assert [child.queue_path for child in users[2].queues.children] == ["root.a", "root.b"]
    assert list(users[2].groups) == ["app-2", "app-3"]


def test_only_queues_in_use() -> None:
    """A queue is shown if something runs in it or below, also without usage."""
    manager = Manager(partition({"root.a.b": [user("sue", memory=9)], "root.c": [user("sue", memory=9)]}))
    manager.increase("root.a.b", "app-1", NOTHING, SUE)
    (usage,) = manager.get_users_resources()

    assert usage.queues == QueueUsage(
        "root",
        NOTHING,
        ("app-1",),
        None,
        0,
        (
            QueueUsage(
                "root.a",
                NOTHING,
                ("app-1",),
                None,
                0,
                (QueueUsage("root.a.b", NOTHING, ("app-1",), Resource(memory=9), 0, ()),),
            ),
        ),
    )


def test_zeros_are_not_shown() -> None:
    """A resource without usage is not shown."""
    manager = Manager()
    manager.increase("root", "app-1", Resource(memory=1, pods=1), SUE)
    manager.decrease_tracked_resource("root", "app-1", Resource(pods=1), remove_app=False, user=SUE)

    assert manager.get_users_resources()[0].to_dict()["queues"]["resourceUsage"] == {"memory": 1}


def test_limits_follow_the_configuration() -> None:
    """The limits of a snapshot are those in force, also of a user that has been idle since they changed."""
    manager = Manager(partition({"root": [user("*", memory=9)]}))
    manager.increase("root", "app-1", ONE, SUE)
    manager.update_config(partition({"root": [user("sue", applications=4)]}))
    (usage,) = manager.get_users_resources()

    assert (usage.queues.max_resources, usage.queues.max_applications) == (None, 4)


def test_snapshot_stays() -> None:
    """A snapshot is immutable, and later operations do not change it."""
    manager = run(Manager())
    (usage,) = manager.get_users_resources()
    before = usage.to_dict()
    manager.increase("root.test", "app2", SIX, USER1)

    assert usage.to_dict() == before
    with pytest.raises(AttributeError):
        usage.user_name = "other"  # type: ignore[misc] # what is tested


def test_snapshot_is_a_copy() -> None:
    """Changing the JSON of a snapshot does not affect the manager."""
    manager = run(Manager(partition({"root": [group("tester", vcore=10_000)]})))
    (usage,) = manager.get_users_resources()
    before = usage.to_dict()
    changed = usage.to_dict()
    changed["groups"].clear()
    changed["queues"]["resourceUsage"].clear()
    changed["queues"]["children"].clear()

    assert usage.to_dict() == before
    assert [again.to_dict() for again in manager.get_users_resources()] == [before]


def test_snapshots_are_values() -> None:
    """Snapshots compare by content and survive pickling."""
    manager = run(Manager(partition({"root": [group("tester", vcore=10_000)]})))
    users, groups = manager.get_users_resources(), manager.get_groups_resources()

    assert users == manager.get_users_resources()
    assert pickle.loads(pickle.dumps((users, groups))) == (users, groups)  # noqa: S301 - made here
