"""Queues, applications, allocations, pending requests and events in the format of Apache YuniKorn.

Events are those of the classes ``EventRecordDAO`` and ``EventRecord``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from ugm.configuration import QueueConfig
from ugm.identity import ancestors
from ugm.ordering.sort_settings import QueueSettings
from ugm.partition import Allocation, AllocationState, ApplicationInfo, ApplicationState, PartitionSnapshot
from ugm.partition.events import (
    Allocated,
    AllocationRequested,
    ApplicationEnded,
    ApplicationFailing,
    ApplicationSubmitted,
    Denied,
    NodeChanged,
    Preempted,
    QueueQuotaSet,
    Released,
    RequestWithdrawn,
    Resized,
)
from ugm.queues import QueueState
from ugm.resources import Resource, sum_of
from ugm.server.history import Record


def go_class(name: str) -> dict[str, str]:
    """Return the schema of an object of a class of ``pkg/webservice/dao``, whose fields Apache YuniKorn defines."""
    return {"type": "object", "title": name, "description": f"The class {name} of Apache YuniKorn."}


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
        configured = (self._configured[above] for above in ancestors(path) if above in self._configured)
        return next((one.child_template.properties for one in configured if one.child_template is not None), {})

    def _template(self, path: str) -> dict[str, object] | None:
        configured = self._configured.get(path)
        template = configured and configured.child_template
        if template is None:
            return None
        return {
            "maxApplications": template.max_applications,
            "maxResource": amounts(template.resources.max),
            "guaranteedResource": amounts(template.resources.guaranteed),
            "properties": dict(template.properties),
        }


# The numbers of the scheduler interface of YuniKorn: types, kinds of changes, and details.
_OTHER, _REQUEST, _APP, _NODE, _QUEUE = range(5)
_NONE, _SET, _ADD, _REMOVE = range(4)
_NO_DETAIL, _REQUEST_CANCEL = 0, 100
_APP_ALLOC, _APP_REQUEST, _APP_NEW, _APP_COMPLETED, _APP_FAILING, _APP_FAILED = 200, 201, 203, 208, 209, 210
_NODE_REMOVED, _NODE_CAPACITY, _QUEUE_MAX = 300, 304, 403
_ALLOC_CANCEL, _ALLOC_PREEMPT, _ALLOC_REPLACED = 500, 501, 503


class _Described(NamedTuple):
    kind: int = _OTHER
    object_id: str = ""
    change: int = _NONE
    detail: int = _NO_DETAIL
    reference: str = ""
    resource: Resource | None = None
    message: str = ""


def event_dict(record: Record) -> dict[str, object]:
    """Return a record of a history for JSON; several equal denials are one event with their number."""
    # The record of a changed configuration contains its differences instead of the event.
    describe = _DESCRIBED.get(type(record.event))
    found = _Described() if describe is None else describe(record.event)
    resource = {}
    if found.resource is not None:
        resource["resource"] = {"resources": {name: {"value": amount} for name, amount in found.resource.items()}}
    repeated = f" ({record.times} times)" if record.times > 1 else ""
    return {
        "type": found.kind,
        "objectID": found.object_id,
        "referenceID": found.reference,
        "message": (found.message or record.kind) + repeated,
        "timestampNano": nanoseconds(record.last_at),
        "eventChangeType": found.change,
        "eventChangeDetail": found.detail,
        **resource,
    }


def _describe_node(event: NodeChanged) -> _Described:
    if event.after is None:
        return _Described(_NODE, event.name, _REMOVE, _NODE_REMOVED, resource=event.before)
    return _Described(_NODE, event.name, _SET if event.before else _ADD, _NODE_CAPACITY, resource=event.after)


def _describe_denial(event: Denied) -> _Described:
    allocation_id, application_id, usage, *_ = event.requests[0]
    text = str(event.decision)
    return _Described(_REQUEST, allocation_id, reference=application_id, resource=usage, message=text)


def _describe_withdrawal(event: RequestWithdrawn) -> _Described:
    one = event.allocation
    return _Described(_REQUEST, one.allocation_id, _REMOVE, _REQUEST_CANCEL, one.application_id, one.usage)


def _describe_end(event: ApplicationEnded) -> _Described:
    detail = _APP_FAILED if event.state is ApplicationState.FAILED else _APP_COMPLETED
    return _Described(_APP, event.application_id, _REMOVE, detail)


def _describe_allocation(change: int, detail: int, event: Any) -> _Described:  # noqa: ANN401 - with an allocation
    one: Allocation = event.allocation
    if isinstance(event, Allocated) and event.replaces:
        detail = _ALLOC_REPLACED
    return _Described(_APP, one.application_id, change, detail, one.allocation_id, one.usage)


#: The descriptions by class of the event.
_DESCRIBED: Final[Mapping[type, Callable[[Any], _Described]]] = {
    QueueQuotaSet: lambda event: _Described(_QUEUE, event.queue_path, _SET, _QUEUE_MAX, resource=event.quota),
    NodeChanged: _describe_node,
    Denied: _describe_denial,
    ApplicationSubmitted: lambda event: _Described(_APP, event.application_id, _ADD, _APP_NEW, event.queue_path),
    ApplicationFailing: lambda event: _Described(_APP, event.application_id, _SET, _APP_FAILING),
    ApplicationEnded: _describe_end,
    RequestWithdrawn: _describe_withdrawal,
    AllocationRequested: partial(_describe_allocation, _ADD, _APP_REQUEST),
    Allocated: partial(_describe_allocation, _ADD, _APP_ALLOC),
    Resized: partial(_describe_allocation, _SET, _APP_ALLOC),
    Preempted: partial(_describe_allocation, _SET, _ALLOC_PREEMPT),
    Released: partial(_describe_allocation, _REMOVE, _ALLOC_CANCEL),
}
