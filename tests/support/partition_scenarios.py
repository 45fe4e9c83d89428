"""Recorded scenarios of elastic quotas and quota trees, replayed through partitions whose configuration declares them.

The configuration is a text, so the reader, the validation and the models of a partition take part.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from support.elastic_replay import nonzero
from ugm import ConfigError, Decision, Partition, Resource, UserGroup, Violation, parse_config
from ugm.configuration import PartitionConfig
from ugm.elastic import DEFAULT_GROUP, ROOT_GROUP
from ugm.elastic.model import GROUP_TAG, NAMESPACE_TAG
from ugm.partition import AllocationState

__all__ = ["ElasticScenario", "InexpressibleError", "TreeScenario", "elastic_config", "exceeded_groups", "tree_config"]

_SUE: Final = UserGroup("sue")
#: The recorded fields of groups, and their names in the report of the model.
_FIELDS: Final = {
    "runtime": "runtime",
    "request": "request",
    "child_request": "child_request",
    "limited_request": "limited_request",
    "auto_scaled_min": "scaled_min",
    "used": "used",
}


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def _config(extensions: Mapping[str, object]) -> PartitionConfig:
    partition = {"name": "default", "queues": [{"name": "queue"}], "ugm": extensions}
    return parse_config(json.dumps({"partitions": [partition]})).partition()


# Elastic quotas


def elastic_config(
    scenario: Mapping[str, Any], quotas: Iterable[Mapping[str, Any]], total: Mapping[str, int]
) -> PartitionConfig:
    """Return the configuration of a partition with some recorded groups.

    Raises:
        ConfigError: the groups violate rules.
    """
    default = {"name": DEFAULT_GROUP, "max": _texts(scenario["default_max"])}
    elastic = {
        "total": _texts(total),
        "scalemin": scenario["scale_min"],
        "ignoreruntime": not scenario.get("enable_runtime", True),
        "checkparents": scenario.get("check_parents", False),
        "groups": [default, *map(_declared_group, quotas)],
    }
    return _config({"elastic": elastic})


def _declared_group(quota: Mapping[str, Any]) -> dict[str, object]:
    # A declared group has the weights that the webhook of Koordinator completes; the recorded groups are incomplete.
    weight = dict.fromkeys(quota["max"], 0) | (quota.get("shared_weight") or {})
    return {
        "name": quota["name"],
        "min": _texts(quota["min"]),
        "max": _texts(quota["max"]),
        "isparent": quota.get("is_parent", False),
        "allowlent": quota.get("allow_lent", True),
        **({"parent": quota["parent"]} if quota.get("parent") else {}),
        "sharedweight": _texts(weight),
    }


class ElasticScenario:
    """A recorded scenario of elastic quotas and its partition."""

    def __init__(self, scenario: Mapping[str, Any]) -> None:
        self._scenario = scenario
        self._quotas = {quota["name"]: quota for quota in scenario["quotas"]}
        self._total = scenario["total"]
        self.partition = Partition(elastic_config(scenario, self._quotas.values(), self._total))
        #: The requests and usages of the groups, and the parts of them that cannot be evicted.
        self._request: dict[str, Counter[str]] = {}
        self._used: dict[str, Counter[str]] = {}
        self._fixed_request: dict[str, Counter[str]] = {}
        self._fixed_used: dict[str, Counter[str]] = {}

    # Pods

    def place_pod(self, pod: Mapping[str, Any], *, waits: bool = False) -> None:
        """Adopt a running pod, or let a pod wait."""
        self._submit(pod["name"], pod.get("quota", ""), pod["namespace"])
        self.partition.release(pod["name"])
        put = self.partition.request if waits else self.partition.adopt
        put(pod["name"], pod["name"], Resource(pod["request"]), **_properties(pod))

    def _submit(self, name: str, group: str, namespace: str = "") -> None:
        tags = {GROUP_TAG: group, NAMESPACE_TAG: namespace}
        placed = self.partition.submit(name, _SUE, "root.queue", tags={tag: text for tag, text in tags.items() if text})
        assert placed

    def admit(self, pod: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the decision about a waiting pod in the format of the recordings; None if the partition cannot answer.

        The recorded quotas do not count the request of a pod that does not wait, and a partition counts every request.
        A group above other groups grants nothing in a partition.
        """
        name = pod["name"]
        if self._quotas.get(pod.get("quota", ""), {}).get("is_parent"):
            return None
        known = self.partition.allocation(name)
        if known is None or known.state is not AllocationState.PENDING or known.usage != Resource(pod["request"]):
            return None
        decision = self.partition.allocate(name, name, Resource(pod["request"]), **_properties(pod))
        if decision:
            self.place_pod(pod, waits=True)
        return _admitted(decision, pod.get("quota") or DEFAULT_GROUP)

    # Groups

    def change(self, step: Mapping[str, Any]) -> None:
        """Take a step that has no result."""
        getattr(self, f"_{step['op']}_step")(step)

    def _assign_pod_step(self, step: Mapping[str, Any]) -> None:
        self.place_pod(step["pod"])

    def _pending_pod_step(self, step: Mapping[str, Any]) -> None:
        self.place_pod(step["pod"], waits=True)

    def _total_step(self, step: Mapping[str, Any]) -> None:
        self._total = step["value"]
        self._configure()

    def _update_quota_step(self, step: Mapping[str, Any]) -> None:
        self._quotas[step["quota"]["name"]] = step["quota"]
        self._configure()

    def _delete_quota_step(self, step: Mapping[str, Any]) -> None:
        name = step["name"]
        self._quotas.pop(name, None)
        for amounts in (self._request, self._used, self._fixed_request, self._fixed_used):
            amounts.pop(name, None)
        self._place_group(name)
        self._configure()

    def _configure(self) -> None:
        self.partition.configure(elastic_config(self._scenario, self._quotas.values(), self._total))

    def _request_step(self, step: Mapping[str, Any]) -> None:
        _add(self._request, step, "delta")
        _add(self._fixed_request, step, "non_preemptible_delta")

    def _used_step(self, step: Mapping[str, Any]) -> None:
        _add(self._used, step, "delta")
        _add(self._fixed_used, step, "non_preemptible_delta")

    def report(self, step: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the fields of a step with results, as the model reports them."""
        for name in {*self._request, *self._used}:
            self._place_group(name)
        groups = {group["group"]: group for group in self.groups()}
        found: dict[str, dict[str, Any]] = {
            field: {name: nonzero(groups[name][_FIELDS[field]]) for name in step[field] if name in groups}
            for field in _FIELDS.keys() & step.keys()
        }
        return found | {"total_for_quotas": nonzero(groups[ROOT_GROUP]["runtime"])}

    def groups(self) -> list[dict[str, Any]]:
        """Return the status of all groups."""
        [model] = self.partition.model_reports()
        found: list[dict[str, Any]] = model.state["groups"]
        return found

    def _place_group(self, name: str) -> None:
        """Hold the usage of a group in allocations, and let the rest of its request wait."""
        used, fixed = self._used.get(name, Counter()), self._fixed_used.get(name, Counter())
        missing = _less(self._request.get(name, Counter()), used)
        fixed_missing = _less(self._fixed_request.get(name, Counter()), fixed)
        for suffix, amounts, waits, preemptible in (
            ("used", _less(used, fixed), False, True),
            ("fixed", dict(fixed), False, False),
            ("asked", _less(Counter(missing), Counter(fixed_missing)), True, True),
            ("asked-fixed", fixed_missing, True, False),
        ):
            pod: dict[str, Any] = {
                "name": f"{name}/{suffix}",
                "quota": name,
                "namespace": "",
                "request": nonzero(amounts),
            }
            self.partition.release(pod["name"])
            if pod["request"]:
                self.place_pod(pod | {"non_preemptible": not preemptible}, waits=waits)


def _properties(pod: Mapping[str, Any]) -> dict[str, Any]:
    return {"priority": pod.get("priority", 0), "preemptible": not pod.get("non_preemptible", False)}


def _add(amounts: dict[str, Counter[str]], step: Mapping[str, Any], field: str) -> None:
    amounts.setdefault(step["quota"], Counter()).update(step.get(field, {}))


def _less(amounts: Counter[str], other: Counter[str]) -> dict[str, int]:
    left = Counter(amounts)
    left.subtract(other)
    return dict(left)


def _admitted(decision: Decision, group: str) -> dict[str, Any]:
    if decision:
        return {"admitted": True}
    first = decision.violations[0]
    same = [one for one in decision.violations if (one.kind, one.name) == (first.kind, first.name)]
    answer = {"admitted": False, "exceeded": sorted(str(one.resource) for one in same)}
    if first.kind == "elastic group minimum":
        return {**answer, "reason": "non_preemptible_min"}
    if first.name == group:
        return {**answer, "reason": "quota_limit"}
    return {**answer, "reason": "parent_limit", "at": first.name}


def exceeded_groups(violations: Iterable[Violation]) -> list[str]:
    """Return the names of the elastic groups above a limit."""
    return sorted({one.name for one in violations if one.kind == "elastic group"})


# Quota trees

#: The tag that names the group of an allocation in a tree begins with this text.
_TREE_TAG: Final = "tree/"
#: The fields of a request that are properties of the whole allocation here.
_SHARED_FIELDS: Final = ("request", "priority", "unPreemptable")


class InexpressibleError(Exception):
    """A step is not an operation of a partition; the argument is the reason."""


def tree_config(scenario: Mapping[str, Any]) -> PartitionConfig:
    """Return the configuration of a partition with the recorded trees.

    Raises:
        ConfigError: a tree is malformed.
        InexpressibleError: the trees are neither one tree nor one forest.
    """
    forests = {tree: forest for forest, trees in scenario["forests"].items() for tree in trees}
    names = [tree["metadata"]["name"] for tree in scenario["trees"]]
    if len(names) != 1 and {forests.get(name) for name in names} != set(scenario["forests"]):
        raise InexpressibleError("the trees are neither one tree nor one forest")
    trees = [
        {
            "tree": tree,
            "groupby": [{"source": "tag", "tag": _TREE_TAG + name}],
            "unrestricted": True,
            **({"forest": forests[name]} if forests else {}),
        }
        for tree, name in zip(scenario["trees"], names, strict=True)
    ]
    rules = {"requeuerejected": True, "checkunrequested": True}
    return _config({"quotatrees": trees, "quotatreerules": rules})


class TreeScenario:
    """A recorded scenario of one quota tree or one forest and its partition."""

    def __init__(self, scenario: Mapping[str, Any]) -> None:
        if any("error" in answer for answer in scenario["setup"]):
            raise InexpressibleError("the document of a tree is refused")
        try:
            self.partition = Partition(tree_config(scenario))
        except (ConfigError, KeyError):
            raise InexpressibleError("the document of a tree is refused") from None
        self._in_forest = bool(scenario["forests"])
        self._maintenance = True
        self._consumers: dict[str, list[dict[str, Any]]] = {}
        #: The allocation that was granted last. Its release also moves the others back to where they were before.
        self._latest = ""
        #: Whether the latest allocation has ever been released.
        self.has_undone = False
        #: See `support.quotatree_replay.Replay.has_order`.
        self._has_order = True

    def answer(self, step: Mapping[str, Any]) -> dict[str, Any]:
        """Take a step and return its result in the format of the recordings.

        A step about an unknown consumer or tree has no effect, and its recorded result is returned.

        Raises:
            InexpressibleError: a partition has no such operation.
        """
        operation = step["op"].removesuffix("_forest")
        if operation not in _TREE_STEPS or "raw" in step:
            raise InexpressibleError("an operation of a manager")
        if operation in ("allocate", "deallocate", "is_allocated") and self._in_forest is not ("forest" in step):
            raise InexpressibleError("one tree of a forest by itself")
        return _TREE_STEPS[operation](self, step)

    def _set_mode(self, step: Mapping[str, Any]) -> dict[str, Any]:
        self._maintenance = step["mode"] == "maintenance"
        return {"ok": True}

    def _add_consumer(self, step: Mapping[str, Any]) -> dict[str, Any]:
        spec = step["consumer"].get("spec", {})
        name, entries = spec.get("id", ""), spec.get("trees", [])
        if not name or not entries or step["result"] != {"ok": True}:
            raise InexpressibleError("a document of a consumer that is refused or empty")
        if len({json.dumps([entry.get(field) for field in _SHARED_FIELDS], sort_keys=True) for entry in entries}) > 1:
            raise InexpressibleError("other amounts or another priority in another tree")
        if any(entry.get("type", 0) for entry in entries):
            raise InexpressibleError("a type of consumers")
        self._consumers[name] = entries
        tags = {_TREE_TAG + entry["treeName"]: entry["groupID"] for entry in entries}
        self.partition.submit(name, _SUE, "root.queue", tags=tags)
        return {"ok": True}

    def _remove_consumer(self, step: Mapping[str, Any]) -> dict[str, Any]:
        name = step["consumer"]
        if self._is_held(name):
            raise InexpressibleError("the removal of a consumer that is allocated")
        if self._consumers.pop(name, None) is None:
            return {"error": True, "category": "not_found"}
        self.partition.remove(name)
        return {"ok": True}

    def _allocate(self, step: Mapping[str, Any]) -> dict[str, Any]:
        name = step["consumer"]
        if name not in self._consumers or step["result"].get("category") == "unknown_tree":
            return dict(step["result"])
        if self._is_held(name):
            return {"error": True, "category": "already_allocated"}
        entry = self._consumers[name][0]
        usage = Resource({resource: int(amount) for resource, amount in entry.get("request", {}).items()})
        if min(usage.values(), default=0) < 0:
            raise InexpressibleError("a negative amount")
        if not all(one.get("groupID") for one in self._consumers[name]):
            raise InexpressibleError("a consumer with an empty group")
        if self._maintenance:
            raise InexpressibleError("a forced allocation in maintenance mode")
        decision = self.partition.allocate_evicting(
            name,
            name,
            usage,
            priority=int(entry.get("priority", 0)),
            preemptible=not entry.get("unPreemptable", False),
        )
        if not decision and self._protected(entry, step["result"].get("preempted") or ()):
            raise InexpressibleError("the eviction of a consumer of the same or a higher priority")
        self._latest = name if decision else self._latest
        self._has_order &= decision.allowed or not self._in_forest
        evicted = list(decision.evictions)
        return {
            "allocated": decision.allowed,
            "preempted": sorted(evicted) if self._in_forest else evicted,
            "message_category": "allocated" if decision else "rejected",
        }

    def _protected(self, entry: Mapping[str, Any], victims: Iterable[str]) -> bool:
        """Return whether a partition does not evict some consumers for another, because of their priorities."""
        return any(
            int(self._consumers[victim][0].get("priority", 0)) >= int(entry.get("priority", 0)) for victim in victims
        )

    def _deallocate(self, step: Mapping[str, Any]) -> dict[str, Any]:
        if step["consumer"] not in self._consumers:
            return dict(step["result"])
        self.has_undone |= step["consumer"] == self._latest
        return {"ok": self.partition.release(step["consumer"])}

    def _is_allocated(self, step: Mapping[str, Any]) -> dict[str, Any]:
        return {"allocated": self._is_held(step["consumer"])}

    def _is_held(self, name: str) -> bool:
        return self.partition.allocation(name) is not None

    def _state(self, _: Mapping[str, Any]) -> dict[str, Any]:
        [model] = self.partition.model_reports()
        return {"trees": {tree["name"]: self._shown(tree) for tree in model.state["trees"]}}

    def _shown(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        nodes, consumers = {}, {}
        for node in tree["nodes"]:
            held = [consumer["consumer_id"] for consumer in node["consumers"]]
            nodes[node["name"]] = {
                "parent": node["parent"] or None,
                "hard": node["hard"],
                "quota": [node["quota"][name] for name in tree["resources"]],
                "allocated": [node["allocated"][name] for name in tree["resources"]],
                "consumers": sorted(held),
                **({"order": held} if self._has_order else {}),
            }
            for consumer in node["consumers"]:
                consumers[consumer["consumer_id"]] = {"gNode": consumer["group"], "aNode": consumer["node"]}
        root = tree["nodes"][0]["name"] if tree["nodes"] else None
        resources = list(tree["resources"])
        return {"name": tree["name"], "root": root, "resources": resources, "nodes": nodes, "consumers": consumers}


#: The operations of a manager that are also operations of a partition.
_TREE_STEPS: Final[Mapping[str, Callable[[TreeScenario, Mapping[str, Any]], dict[str, Any]]]] = {
    "set_mode": TreeScenario._set_mode,
    "add_consumer": TreeScenario._add_consumer,
    "remove_consumer": TreeScenario._remove_consumer,
    "allocate": TreeScenario._allocate,
    "deallocate": TreeScenario._deallocate,
    "is_allocated": TreeScenario._is_allocated,
    "state": TreeScenario._state,
}
