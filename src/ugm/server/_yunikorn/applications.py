"""Applications, allocations and pending requests in the format of Apache YuniKorn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ugm.partition import Allocation, AllocationState, ApplicationInfo
from ugm.resources import sum_of
from ugm.server._yunikorn.values import amounts

__all__ = ["ACTIVE_STATES", "application_dict", "state_name"]

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
