"""Queues, applications, allocations and pending requests in the format of Apache YuniKorn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ugm.configuration import ChildTemplate, QueueConfig
from ugm.ordering.sort_settings import QueueSettings
from ugm.partition import Allocation, AllocationState, ApplicationInfo, PartitionSnapshot
from ugm.queues import QueueState
from ugm.resources import Resource, sum_of

__all__ = [
    "ACTIVE_STATES",
    "CLUSTER",
    "QueueFormat",
    "amounts",
    "application_dict",
    "nanoseconds",
    "percentages",
    "state_name",
]

#: The name of the cluster in responses.
CLUSTER: Final = "ugm"
_NANO: Final = 1_000_000_000


def amounts(resource: Mapping[str, int] | None) -> dict[str, int]:
    """Return amounts in base units; no amounts if there is no limit."""
    return dict(sorted((resource or {}).items()))


def percentages(maximum: Resource | None, usage: Resource) -> dict[str, int]:
    """Return the used percentage of every limited resource, rounded down; 100 if 0 is the limit and it is exceeded."""
    return {
        name: usage.get(name, 0) * 100 // most if most else 100 * (usage.get(name, 0) > 0)
        for name, most in amounts(maximum).items()
    }


def nanoseconds(seconds: float) -> int:
    """Return a time in seconds since 1970 in nanoseconds."""
    return int(seconds * _NANO)


# Applications

#: The states of applications that have not ended, as YuniKorn names them in queries.
ACTIVE_STATES: Final = ("new", "accepted", "running", "completing", "failing", "resuming")


def state_name(info: ApplicationInfo) -> str:
    """Return the state of an application as YuniKorn writes it."""
    return info.state.value.capitalize()


def application_dict(partition: str, info: ApplicationInfo, allocations: Sequence[Allocation]) -> dict[str, object]:
    """Return an application for JSON: the class ``ApplicationDAOInfo``.

    Args:
        partition: the name of the partition.
        info: the application.
        allocations: its allocations, including pending ones.
    """
    pending = [one for one in allocations if one.state is AllocationState.PENDING]
    granted = [one for one in allocations if one.state is not AllocationState.PENDING]
    return {
        "applicationID": info.application_id,
        "partition": partition,
        "queueName": info.queue_path,
        "applicationState": state_name(info),
        "user": info.user.name,
        "groups": list(info.user.groups),
        "usedResource": amounts(sum_of(one.usage for one in granted)),
        "pendingResource": amounts(sum_of(one.usage for one in pending)),
        "requests": [_request_dict(one) for one in pending],
        "allocations": [_allocation_dict(one) for one in granted],
        "maxRequestPriority": max((one.priority for one in pending), default=0),
        "hasReserved": False,
    }


def _request_dict(allocation: Allocation) -> dict[str, object]:
    """Return a pending allocation for JSON: the class ``AllocationAskDAOInfo``."""
    return {
        "allocationKey": allocation.allocation_id,
        "applicationId": allocation.application_id,
        "resource": amounts(allocation.usage),
        "priority": str(allocation.priority),
        "placeholder": allocation.placeholder,
        "originator": False,
    }


def _allocation_dict(allocation: Allocation) -> dict[str, object]:
    """Return a granted allocation for JSON: the class ``AllocationDAOInfo``."""
    preempted = allocation.state is AllocationState.TERMINATING
    return {**_request_dict(allocation), "nodeId": allocation.node or "", "preempted": preempted}


# Queues

_PREEMPTION: Final = "preemption.policy"
_DELAY: Final = "preemption.delay"
#: The delay of queues whose configuration sets none.
_DEFAULT_DELAY: Final = "30s"


class QueueFormat:
    """Returns the queues of one snapshot in the format of Apache YuniKorn.

    Args:
        partition: the name of the partition.
        snapshot: the partition at one moment.
    """

    def __init__(self, partition: str, snapshot: PartitionSnapshot) -> None:
        self._partition: Final = partition
        self._snapshot: Final = snapshot
        self._settings: Final = QueueSettings(snapshot.config)
        self._configured: Final[dict[str, QueueConfig]] = (
            {} if snapshot.config is None else dict(snapshot.config.root.walk())
        )

    def queue(self, state: QueueState, *, subtree: bool) -> dict[str, object]:
        """Return a queue for JSON.

        Args:
            state: the queue.
            subtree: if false, the queues below are only named.
        """
        path = state.queue_path
        above = path.rpartition(".")[0]
        template = self._template(path)
        return {
            "queuename": path,
            "queuePath": path,
            "partition": self._partition,
            "isLeaf": state.is_leaf,
            "isManaged": state.is_managed,
            "status": "Draining" if state.is_draining else "Active",
            **({"parent": above} if above else {}),
            **self._amounts(state),
            **self._settings_of(path, is_leaf=state.is_leaf),
            **({} if template is None else {"template": template}),
            "children": [self.queue(child, subtree=True) for child in state.children] if subtree else [],
            "childNames": [child.queue_path for child in state.children],
        }

    def _amounts(self, state: QueueState) -> dict[str, object]:
        pending = self._snapshot.pending.queues.get(state.queue_path)
        return {
            "allocatedResource": amounts(state.usage),
            "pendingResource": amounts(pending.amounts if pending else None),
            "maxResource": amounts(state.max_resources),
            "guaranteedResource": amounts(state.guaranteed),
            "headroom": amounts(self._snapshot.queue_headroom(state.queue_path)),
            "absUsedCapacity": percentages(state.max_resources, state.usage),
            "maxRunningApps": state.max_applications,
            "runningApps": state.running_applications,
            "allocatingAcceptedApps": [],
        }

    def _settings_of(self, path: str, *, is_leaf: bool) -> dict[str, object]:
        sorting, properties = self._settings.of(path), self._properties(path)
        preemption = properties.get(_PREEMPTION, "").lower()
        return {
            "properties": dict(properties),
            "sortingPolicy": sorting.policy if is_leaf else "fair",
            "prioritySorting": sorting.priority_first,
            "priorityOffset": sorting.offset,
            "isPriorityFence": sorting.is_fenced,
            "currentPriority": sorting.offset,
            "preemptionEnabled": preemption != "disabled",
            "isPreemptionFence": preemption == "fence",
            "preemptionDelay": properties.get(_DELAY) or _DEFAULT_DELAY,
        }

    def _properties(self, path: str) -> Mapping[str, str]:
        """Return the properties of a queue; those of a dynamic queue are in the template that applies to it."""
        if path in self._configured:
            return self._configured[path].properties
        template = self._nearest_template(path)
        return {} if template is None else template.properties

    def _nearest_template(self, path: str) -> ChildTemplate | None:
        above = path.rpartition(".")[0]
        while above:
            configured = self._configured.get(above)
            if configured is not None and configured.child_template is not None:
                return configured.child_template
            above = above.rpartition(".")[0]
        return None

    def _template(self, path: str) -> dict[str, object] | None:
        configured = self._configured.get(path)
        template = None if configured is None else configured.child_template
        if template is None:
            return None
        return {
            "maxApplications": template.max_applications,
            "maxResource": amounts(template.resources.max),
            "guaranteedResource": amounts(template.resources.guaranteed),
            "properties": dict(template.properties),
        }
