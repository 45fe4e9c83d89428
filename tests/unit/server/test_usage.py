"""The four endpoints of the design documents, with their own examples over HTTP."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from support.server_fixtures import NASTY, YUNIKORN, client, create_partition
from ugm import Resource, UserGroup, parse_config
from ugm.partition import AbstractPartition

#: Every test runs with partitions in memory, with those of a store and with clients of a service.
pytestmark = pytest.mark.usefixtures("storage")

SIX: Final = Resource(memory=6 * 10**9, vcore=6000)
USER1: Final = UserGroup("user1", ("tester",))
ALONE: Final = UserGroup("user1")

#: The enforcement document's example of a user, as it stands there.
USERS: Final = """
[{"userName": "user1", "groups": {"app1": "tester"}, "queues": {"queuename": "root", "resourceUsage":
{"memory": 12000000000, "vcore": 12000}, "runningApplications": ["app1", "app2"], "children": [
{"queuename": "root.default", "resourceUsage": {"memory": 6000000000, "vcore": 6000}, "runningApplications": ["app1"],
"children": [], "maxApplications": 10, "maxResources": {"memory": 50000000000, "vcore": 100000}},
{"queuename": "root.test", "resourceUsage": {"memory": 6000000000, "vcore": 6000}, "runningApplications": ["app2"],
"children": [], "maxApplications": 0, "maxResources": {}}], "maxApplications": 10, "maxResources": {}}}]
"""
#: The enforcement document's example of a group, with the field that only the tracking document has.
GROUPS: Final = """
[{"groupName": "tester", "users": ["user1"], "applications": ["app2"], "queues": {"queuename": "root", "resourceUsage":
{"memory": 6000000000, "vcore": 6000}, "runningApplications": ["app2"], "children": [{"queuename": "root.test",
"resourceUsage": {"memory": 6000000000, "vcore": 6000}, "runningApplications": ["app2"], "children": [],
"maxApplications": 2, "maxResources": {"vcore": 10000}}], "maxApplications": 0, "maxResources": {}}}]
"""


def state(limits: str, *applications: tuple[str, UserGroup, str]) -> AbstractPartition:
    """Return a partition whose applications have the usage of the documents."""
    partition = create_partition(parse_config(limits).partition())
    for application_id, user, queue in applications:
        assert partition.submit(application_id, user, queue)
        assert partition.allocate(application_id, application_id, SIX)
    return partition


def enforced_user() -> AbstractPartition:
    """Return the state of the enforcement document's user."""
    limits = """
    partitions:
    - name: default
      queues:
      - name: root
        limits: [{users: [user1], maxapplications: 10}]
        queues:
        - name: default
          limits:
          - {users: [user1], maxapplications: 10, maxresources: {memory: 50G, vcore: 100}}
          - {groups: [tester], maxresources: {memory: 50G}}
        - name: test
    """
    return state(limits, ("app1", USER1, "root.default"), ("app2", ALONE, "root.test"))


def enforced_group() -> AbstractPartition:
    """Return the state of the enforcement document's group, which is that of the tracking document, too."""
    limits = """
    partitions:
    - queues:
      - name: default
      - name: test
        limits: [{groups: [tester], maxapplications: 2, maxresources: {vcore: 10}}]
    """
    return state(limits, ("app1", ALONE, "root.default"), ("app2", USER1, "root.test"))


def sorted_bytes(fields: Any) -> bytes:  # noqa: ANN401 - JSON
    """Return JSON with its keys sorted."""
    return json.dumps(fields, sort_keys=True, indent=1).encode()


def without(value: Any, *names: str) -> Any:  # noqa: ANN401 - JSON
    """Return JSON without some fields."""
    if isinstance(value, dict):
        return {name: without(item, *names) for name, item in value.items() if name not in names}
    return [without(item, *names) for item in value] if isinstance(value, list) else value


def as_documented(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return JSON without the field that YuniKorn has instead of ``queuename``."""
    return without(value, "queuePath")


def test_users_of_the_enforcement_document() -> None:
    """The answer is the document's, byte for byte once keys are sorted.

    Source: Apache YuniKorn, user based quota enforcement, "Exposure of quota details".
    """
    answer = client(enforced_user()).get(f"{YUNIKORN}/usage/users")

    assert sorted_bytes(as_documented(answer.json())) == sorted_bytes(json.loads(USERS))


def test_groups_of_the_enforcement_document() -> None:
    """The answer is the document's, with the applications that the tracking document shows in addition.

    Source: Apache YuniKorn, user based quota enforcement, "Exposure of quota details".
    """
    answer = client(enforced_group()).get(f"{YUNIKORN}/usage/groups")

    assert sorted_bytes(as_documented(answer.json())) == sorted_bytes(json.loads(GROUPS))


@pytest.mark.parametrize("kind", ["user", "group"])
def test_unknown(kind: str) -> None:
    """A user or group without usage is unknown, and the error is JSON."""
    answer = client(enforced_group()).get(f"{YUNIKORN}/usage/{kind}/nobody")

    assert (answer.status_code, answer.json()) == (
        404,
        {
            "status_code": 404,
            "message": f"there is no {kind} 'nobody'",
            "description": f"there is no {kind} 'nobody'",
            "code": f"{kind}-unknown",
        },
    )


@pytest.mark.parametrize("name", [NASTY, "a\nb", "a\n", "\n"])
def test_a_name_with_everything_in_it(name: str) -> None:
    """A name with slashes, markup and line feeds is found by its path, and is returned as JSON text."""
    partition = state("partitions: [{queues: [{name: a}]}]", ("app", UserGroup(name), "root.a"))
    path = "".join(f"%{byte:02X}" for byte in name.encode())

    answer = client(partition).get(f"{YUNIKORN}/usage/user/{path}")

    assert answer.json()["userName"] == name
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
