"""A replay of recorded scenarios of Koordinator, with answers in the format of the recording."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ugm import RequestError, Resource
from ugm.elastic import (
    DEFAULT_GROUP,
    ROOT_GROUP,
    SYSTEM_GROUP,
    AdmissionRules,
    ElasticGroup,
    ElasticQuota,
    ElasticTree,
    GroupError,
    Pod,
)
from ugm.kubernetes import ManifestError, read_elastic_quota


def read_group(recorded: dict[str, Any]) -> ElasticGroup:
    """Return a group of a recording.

    Raises:
        ManifestError: its weights cannot be read.
    """
    if unread := recorded.get("raw_shared_weight"):
        name = "quota.scheduling.koordinator.sh/shared-weight"
        read_elastic_quota({"metadata": {"name": recorded["name"], "annotations": {name: unread}}})
    weight = recorded.get("shared_weight")
    return ElasticGroup(
        recorded["name"],
        recorded.get("parent") or ROOT_GROUP,
        min=Resource(recorded["min"]),
        max=Resource(recorded["max"]),
        shared_weight=None if weight is None else Resource(weight),
        allow_lent=recorded.get("allow_lent", True),
        is_parent=recorded.get("is_parent", False),
        namespaces=tuple(recorded.get("namespaces", ())),
        namespace=recorded.get("namespace", ""),
        tree_id=recorded.get("tree_id") or "",
        is_root=recorded.get("is_root", False),
        force_update=recorded.get("allow_force_update", False),
        strict_max=tuple(recorded.get("max_strict_check_resource_keys", ())),
        reported_used=Resource(recorded.get("used", {})),
    )


def built_in_groups(scenario: Mapping[str, Any]) -> list[ElasticGroup]:
    """Return the system and the default group with the maximums of a scenario."""
    return [
        ElasticGroup(name, max=Resource(scenario[key]))
        for name, key in ((SYSTEM_GROUP, "system_max"), (DEFAULT_GROUP, "default_max"))
    ]


def tree_of(scenario: Mapping[str, Any]) -> ElasticTree:
    """Return the initial tree of a scenario."""
    groups = [*built_in_groups(scenario), *map(read_group, scenario["quotas"])]
    return ElasticTree(Resource(scenario["total"]), groups, scale_min=scenario["scale_min"])


def amounts(value: Resource) -> dict[str, int]:
    """Return a vector without zeros: in recordings an absent resource is 0."""
    return dict(value.without_zeros())


class TreeReplay:
    """One scenario of ``runtime`` on one tree."""

    def __init__(self, scenario: Mapping[str, Any]) -> None:
        self.tree = tree_of(scenario)

    def do(self, step: dict[str, Any]) -> None:
        """Take a step that has no result."""
        getattr(self, f"_{step['op']}")(step)

    def _request(self, step: dict[str, Any]) -> None:
        self.tree.change_request(step["quota"], Resource(step["delta"]))

    def _used(self, step: dict[str, Any]) -> None:
        firm = Resource(step.get("non_preemptible_delta", {}))
        self.tree.change_used(step["quota"], Resource(step["delta"]), non_preemptible=firm)

    def _total(self, step: dict[str, Any]) -> None:
        self.tree.set_total(Resource(step["value"]))

    def _update_quota(self, step: dict[str, Any]) -> None:
        self.tree.put(read_group(step["quota"]))

    def _delete_quota(self, step: dict[str, Any]) -> None:
        self.tree.drop(step["name"])

    def shown(self, field: str, names: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return one field of a result step."""
        read = self._fields()[field]
        return {name: amounts(read(name)) for name in names}

    def _fields(self) -> dict[str, Callable[[str], Resource]]:
        tree = self.tree
        return {
            "runtime": tree.runtime,
            "request": tree.request,
            "child_request": tree.child_request,
            "limited_request": tree.limited_request,
            "auto_scaled_min": tree.scaled_min,
            "used": tree.used,
            "non_preemptible_used": lambda name: tree.node(name).amounts("non_preemptible_used"),
        }

    def differing(self, step: dict[str, Any]) -> list[tuple[str, str, Any, Any]]:
        """Return (field, group, recorded, shown) wherever a result step and the tree differ."""
        found = []
        for field in self._fields():
            recorded = {name: nonzero(values) for name, values in step.get(field, {}).items()}
            shown = self.shown(field, recorded)
            found += [(field, name, recorded[name], shown[name]) for name in recorded if recorded[name] != shown[name]]
        total = amounts(self.tree.runtime(ROOT_GROUP))
        if total != nonzero(step["total_for_quotas"]):
            found.append(("total_for_quotas", ROOT_GROUP, step["total_for_quotas"], total))
        return found


def nonzero(values: dict[str, int]) -> dict[str, int]:
    """Return amounts without zeros."""
    return {name: amount for name, amount in values.items() if amount}


def read_pod(recorded: dict[str, Any]) -> Pod:
    """Return a pod of a recording."""
    return Pod(
        recorded["name"],
        Resource(recorded["request"]),
        recorded.get("quota", ""),
        recorded["namespace"],
        recorded.get("priority", 0),
        preemptible=not recorded.get("non_preemptible", False),
        started=recorded.get("start"),
    )


def quota_of(scenario: Mapping[str, Any]) -> ElasticQuota:
    """Return the initial quota of a scenario of ``admission`` or ``revoke``."""
    rules = AdmissionRules(
        by_runtime=scenario.get("enable_runtime", True), check_parents=scenario.get("check_parents", False)
    )
    quota = ElasticQuota(tree_of(scenario), rules=rules)
    for pod in scenario.get("pods", ()):
        quota.adopt(read_pod(pod))
    return quota


def take(quota: ElasticQuota, step: dict[str, Any]) -> None:
    """Take a step of ``admission`` that has no result."""
    if step["op"] == "total":
        quota.tree.set_total(Resource(step["value"]))
        return
    # Adopted, and not expected, because recordings have pods on groups that are there for groups below them.
    pod = read_pod(step["pod"])
    if step["op"] == "pending_pod":
        quota.adopt(pod)
        quota.stop(pod.name)
    elif pod in quota.pods_in(quota.group_of(pod)):
        quota.start(pod.name)
    else:
        quota.adopt(pod)


def admitted(quota: ElasticQuota, pod: Pod) -> dict[str, Any]:
    """Return the decision about a pod in the format of the recordings: the first reason only."""
    decision = quota.check(pod)
    if decision:
        return {"admitted": True}
    first = decision.violations[0]
    same = [each for each in decision.violations if (each.kind, each.name) == (first.kind, first.name)]
    answer = {"admitted": False, "exceeded": sorted(str(each.resource) for each in same)}
    if first.kind == "elastic group minimum":
        return {**answer, "reason": "non_preemptible_min"}
    if first.name == quota.group_of(pod):
        return {**answer, "reason": "quota_limit"}
    return {**answer, "reason": "parent_limit", "at": first.name}


def judged(quota: ElasticQuota, step: dict[str, Any]) -> dict[str, Any]:
    """Take a step of ``validation``, and return its result."""
    try:
        _change(quota, step)
    except GroupError as error:
        return {"accepted": False, "category": error.refusals[0].rule}
    except ManifestError:
        return {"accepted": False, "category": "bad_shared_weight"}
    return {} if step["op"] == "remove_pod" else {"accepted": True}


def _change(quota: ElasticQuota, step: dict[str, Any]) -> None:
    if step["op"] == "create":
        quota.create(read_group(step["quota"]))
    elif step["op"] == "update":
        quota.update(read_group(step["quota"]))
    elif step["op"] == "delete":
        quota.delete(step["name"])
    elif step["op"] == "add_pod":
        quota.expect(read_pod(step["pod"]))
    else:
        with contextlib.suppress(RequestError):  # a pod that was refused before is not there
            quota.forget(step["pod"]["name"])
