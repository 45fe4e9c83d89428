"""Responses in the format of Apache YuniKorn, compared with its objects field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from starlette.testclient import TestClient

from support.places import TESTS
from support.server_fixtures import CONFIG, STATUS, YAML, YUNIKORN, busy, client, create_partition
from ugm import Resource, UserGroup, parse_config
from ugm.partition import AbstractPartition
from ugm.server import History, create_app

#: The fields of the objects of YuniKorn, by object: the Go type, and whether empty values are left out.
OBJECTS: Final[dict[str, dict[str, dict[str, Any]]]] = json.loads(
    (TESTS / "vectors" / "yunikorn" / "rest_objects.json").read_text(encoding="utf-8")
)
#: Fields of the design documents, and of ugm, which YuniKorn does not have.
OWN: Final[Mapping[str, frozenset[str]]] = {
    "ResourceUsageDAOInfo": frozenset(("queuename",)),
    "GroupResourceUsageDAOInfo": frozenset(("users",)),
    "PartitionQueueDAOInfo": frozenset(("queuePath",)),
    "YAPIError": frozenset(("code",)),
}
BASIC: Final[Mapping[str, type]] = {
    **dict.fromkeys(("int", "int32", "int64", "uint64"), int),
    "string": str,
    "bool": bool,
    "float64": float,
}

#: The object, or the list of objects, of each path.
ANSWERS: Final = {
    f"{YUNIKORN}/usage/users": "[]UserResourceUsageDAOInfo",
    f"{YUNIKORN}/usage/groups": "[]GroupResourceUsageDAOInfo",
    f"{YUNIKORN}/usage/user/sue": "UserResourceUsageDAOInfo",
    f"{YUNIKORN}/usage/group/dev": "GroupResourceUsageDAOInfo",
    f"{YUNIKORN}/queues": "PartitionQueueDAOInfo",
    f"{YUNIKORN}/queue/root": "PartitionQueueDAOInfo",
    f"{YUNIKORN}/queue/root?subtree": "PartitionQueueDAOInfo",
    f"{YUNIKORN}/queue/root.a/applications": "[]ApplicationDAOInfo",
    f"{YUNIKORN}/queue/root.a/applications/active": "[]ApplicationDAOInfo",
    f"{YUNIKORN}/queue/root.a/application/app": "ApplicationDAOInfo",
    f"{YUNIKORN}/applications": "[]ApplicationDAOInfo",
    f"{YUNIKORN}/applications/active?status=running": "[]ApplicationDAOInfo",
    f"{YUNIKORN}/applications/completed": "[]ApplicationDAOInfo",
    f"{YUNIKORN}/application/app": "ApplicationDAOInfo",
    f"{YUNIKORN}/nodes": "[]NodeDAOInfo",
    f"{YUNIKORN}/node/node-1": "NodeDAOInfo",
    "/ws/v1/clusters": "[]ClusterDAOInfo",
    "/ws/v1/partitions": "[]PartitionInfo",
    "/ws/v1/config": "ConfigDAOInfo",
    "/ws/v1/events/batch": "EventRecordDAO",
    "/ws/v1/scheduler/healthcheck": "SchedulerHealthDAOInfo",
}


def differences(kind: str, value: object, place: str) -> Iterator[str]:
    """Yield the differences between a value and a Go type."""
    if kind.startswith("[]"):
        assert isinstance(value, list), place
        for index, item in enumerate(value):
            yield from differences(kind[2:], item, f"{place}[{index}]")
    elif kind.startswith("map[string]"):
        assert isinstance(value, dict), place
        for name, item in value.items():
            yield from differences(kind.removeprefix("map[string]"), item, f"{place}.{name}")
    elif kind in BASIC:
        # A number without a fraction is a valid float in JSON.
        expected = (int, float) if kind == "float64" else BASIC[kind]
        if not isinstance(value, expected) or (isinstance(value, bool) and kind != "bool"):
            yield f"{place}: {value!r} is no {kind}"
    else:
        yield from object_differences(kind, value, place)


def object_differences(kind: str, value: object, place: str) -> Iterator[str]:
    """Yield the fields that are missing, unknown, or of another type."""
    assert isinstance(value, dict), place
    known = OBJECTS[kind]
    yield from (
        f"{place}.{name}: missing"
        for name, field in known.items()
        if not field["omitempty"] and not field["type"].startswith("configs.") and name not in value
    )
    for name, item in value.items():
        if name in known:
            yield from differences(known[name]["type"], item, f"{place}.{name}")
        elif name not in OWN.get(kind, ()):
            yield f"{place}.{name}: unknown"


def full() -> tuple[AbstractPartition, History]:
    """Return a partition with nodes, settings and dynamic queues, in which most fields have a value."""
    history = History(clock=lambda: 7)
    partition = busy(history)
    partition.add_node("node-1", Resource(memory=40, vcore=4000))
    partition.submit("dynamic", UserGroup("ana", ("dev",)), "root.new")
    partition.allocate("dynamic-1", "dynamic", Resource(memory=1), priority=3)
    partition.preempt("dynamic-1")
    partition.submit("short", UserGroup("ana"), "root.b")
    partition.allocate("short-1", "short", Resource(memory=1))
    partition.resize("short-1", Resource(memory=2))
    partition.release("short-1")
    partition.remove("short")
    return partition, history


@pytest.mark.parametrize(("path", "kind"), ANSWERS.items())
def test_fields_have_the_names_and_types_of_yunikorn(path: str, kind: str) -> None:
    """Each response has the fields of the object of YuniKorn, with values of their types, and no unknown ones."""
    partition, history = full()
    answer = client(partition, history={"default": history}, services={"default": lambda: STATUS}).get(
        path, headers={"accept": "application/json"}
    )

    assert answer.status_code == 200, answer.text
    assert list(differences(kind, answer.json(), path)) == []


def test_lists_are_not_empty() -> None:
    """The comparison of lists compares something, and the lists have the values of the partition."""
    partition, history = full()
    rest = client(partition, history={"default": history})
    lists = {path: rest.get(path).json() for path, kind in ANSWERS.items() if kind.startswith("[]")}

    assert [bool(found) for found in lists.values()].count(False) == 1  # the completed applications
    [totals] = lists["/ws/v1/partitions"]
    assert totals["applications"] == {"Running": 2, "New": 1, "total": 3}
    assert totals["capacity"]["utilization"] == {"memory": 17, "vcore": 0}
    found = next(one for one in lists[f"{YUNIKORN}/applications"] if one["applicationID"] == "app")
    assert (found["applicationState"], found["user"], found["queueName"]) == ("Running", "sue", "root.a")
    assert (found["usedResource"], found["pendingResource"]) == ({"memory": 6}, {"memory": 4})
    assert [one["allocationKey"] for one in (*found["allocations"], *found["requests"])] == ["held", "pending"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{YUNIKORN}/queue/root..x", 400),
        (f"{YUNIKORN}/applications/sleeping", 400),
        (f"{YUNIKORN}/applications/active?status=sleeping", 400),
        (f"{YUNIKORN}/queue/root.a/applications/completed", 400),
        (f"{YUNIKORN}/queue/root.b/application/app", 404),
        ("/ws/v1/partition/none/queues", 404),
        ("/ws/v1/events/batch?count=0", 400),
    ],
)
def test_errors(path: str, status: int) -> None:
    """A refused request gets the error object of YuniKorn, with the status also in it."""
    answer = client().get(path)

    assert (answer.status_code, answer.json()["status_code"]) == (status, status)
    assert list(differences("YAPIError", answer.json(), path)) == []


def test_values_of_a_queue() -> None:
    """A queue has its amounts, its headroom, and the settings of the configuration."""
    partition, _ = full()
    found = client(partition).get(f"{YUNIKORN}/queue/root.a").json()

    assert (found["queuename"], found["queuePath"], found["parent"]) == ("root.a", "root.a", "root")
    assert (found["allocatedResource"], found["pendingResource"]) == ({"memory": 6}, {"memory": 4})
    assert (found["maxResource"], found["guaranteedResource"]) == ({"memory": 9}, {"memory": 4})
    assert (found["headroom"]["memory"], found["absUsedCapacity"]) == (3, {"memory": 66})
    assert (found["isLeaf"], found["isManaged"], found["status"], found["runningApps"]) == (True, True, "Active", 1)
    assert (found["sortingPolicy"], found["preemptionDelay"]) == ("fifo", "30s")
    alone, subtree = (client(partition).get(f"{YUNIKORN}/queue/root{query}").json() for query in ("", "?subtree"))
    assert (alone["children"], alone["childNames"]) == ([], ["root.a", "root.b", "root.new"])
    assert [child["queuename"] for child in subtree["children"]] == ["root.a", "root.b", "root.new"]


def test_settings_of_queues() -> None:
    """Properties decide on the order and on preemption; those of a dynamic queue come from a template."""
    text = """
    partitions:
    - placementrules: [{name: provided, create: true}]
      queues:
      - name: p
        parent: true
        childtemplate:
          maxapplications: 7
          properties:
            application.sort.policy: fair
            preemption.policy: fence
            preemption.delay: 60s
            priority.offset: 5
    """
    partition = create_partition(parse_config(text).partition())
    partition.submit("app", UserGroup("ana"), "root.p.new")
    above, below = (client(partition).get(f"{YUNIKORN}/queue/root.p{end}").json() for end in ("", ".new"))

    assert above["template"]["maxApplications"] == 7
    assert (below["sortingPolicy"], below["isPreemptionFence"], below["preemptionDelay"]) == ("fair", True, "60s")
    assert (below["priorityOffset"], below["isManaged"]) == (5, False)


def test_validation_takes_any_media_type() -> None:
    """Clients of YuniKorn send configurations without a media type."""
    form = {"content-type": "application/x-www-form-urlencoded"}
    valid, invalid = (
        client().post("/ws/v1/validate-conf", content=text, headers=headers).json()
        for text, headers in ((CONFIG, YAML), ("partitions: [{queues: [{name: a b}]}]", form))
    )

    assert valid == {"allowed": True, "reason": ""}
    assert (invalid["allowed"], list(invalid)) == (False, ["allowed", "reason"])
    assert "a b" in invalid["reason"]


def test_configuration_in_yaml_can_be_read_again() -> None:
    """The YAML has a checksum and settings of the process at its end, as that of YuniKorn."""
    answer = client().get("/ws/v1/config")
    exported = answer.text.partition("checksum:")[0]

    assert answer.headers["content-type"] == "application/x-yaml"
    assert parse_config(exported).partition().root == parse_config(CONFIG).partition().root
    assert "deadlockdetectionenabled: false\n" in answer.text


def test_configuration_in_json_has_the_names_of_go() -> None:
    """JSON is returned if it alone is accepted; amounts are texts."""
    found = client().get("/ws/v1/config", headers={"accept": "application/json"}).json()
    (root,) = found["Partitions"][0]["Queues"]

    assert (found["Partitions"][0]["Name"], root["Name"]) == ("default", "root")
    assert root["Limits"][0] == {"Limit": "team", "Groups": ["dev"], "MaxResources": {"memory": "8"}}


def test_events_from_an_id() -> None:
    """Events begin with the given id; equal denials are one event; several partitions have different ids."""
    partition, history = full()
    partition.allocate("pending", "app", Resource(memory=4))
    other = History(clock=lambda: 7)
    both = {"default": history, "other": other}
    rest = TestClient(create_app({"default": partition, "other": busy(other)}, history=both))
    everything = rest.get("/ws/v1/events/batch").json()
    found = client(partition, history={"default": history})
    newest = found.get("/ws/v1/events/batch").json()["HighestID"]
    last = found.get(f"/ws/v1/events/batch?start={newest}").json()
    first = found.get("/ws/v1/events/batch?count=1").json()

    assert len(everything["EventRecords"]) == sum(len(one.page().records) for one in both.values())
    assert first["EventRecords"][0]["eventChangeDetail"] == 203
    assert [event["message"].endswith("(2 times)") for event in last["EventRecords"]] == [True]
    assert first["InstanceUUID"] == last["InstanceUUID"]


def test_a_refused_configuration_is_unhealthy(tmp_path: Any) -> None:  # noqa: ANN401 - a path
    """The health check fails while the configuration file has problems."""
    file = tmp_path / "queues.yaml"
    file.write_text(CONFIG)
    rest = client(config_path=file)
    healthy = rest.get("/ws/v1/scheduler/healthcheck").json()
    file.write_text("partitions: [")
    rest.app.state.configurations.reload_if_changed()  # type: ignore[attr-defined] # a Starlette application
    found = rest.get("/ws/v1/scheduler/healthcheck").json()

    assert (healthy["Healthy"], found["Healthy"]) == (True, False)
    assert "yaml-syntax" in found["HealthChecks"][0]["DiagnosisMessage"]
