"""JSON schemas of responses in the format of Apache YuniKorn, named after its classes of responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ugm.server.interface.schemas import Schema, reference

__all__ = ["YUNIKORN_SCHEMAS", "listing"]


def listing(items: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def _mapping(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _record(optionals: Mapping[str, Schema] | None = None, /, **fields: Schema) -> Schema:
    """Return the schema of an object with fixed fields, of which some are optional."""
    properties = {**fields, **(optionals or {})}
    return {"type": "object", "properties": properties, "required": sorted(fields), "additionalProperties": False}


_TEXT: Final[Schema] = {"type": "string"}
_TEXTS: Final = listing(_TEXT)
_TEXTS_BY_NAME: Final = _mapping(_TEXT)
_BOOLEAN: Final[Schema] = {"type": "boolean"}
_INTEGER: Final[Schema] = {"type": "integer"}
_NUMBER: Final[Schema] = {"type": "number"}
_AMOUNTS: Final = _mapping(_INTEGER)
_OPEN: Final[Schema] = {"type": "object"}

_USAGE: Final = _record(
    queuename=_TEXT,
    queuePath=_TEXT,
    resourceUsage=_AMOUNTS,
    runningApplications=_TEXTS,
    children=listing(reference("ResourceUsageDAOInfo")),
    maxApplications=_INTEGER,
    maxResources=_AMOUNTS,
)
_REQUEST: Final = {
    "allocationKey": _TEXT,
    "resource": _AMOUNTS,
    "priority": _TEXT,
    "applicationId": _TEXT,
    "placeholder": _BOOLEAN,
    "originator": _BOOLEAN,
}
_QUEUE: Final = _record(
    {"template": reference("TemplateInfo"), "parent": _TEXT},
    **dict.fromkeys(("queuename", "queuePath", "status", "partition", "sortingPolicy", "preemptionDelay"), _TEXT),
    **dict.fromkeys(("pendingResource", "maxResource", "guaranteedResource", "allocatedResource"), _AMOUNTS),
    **dict.fromkeys(("headroom", "absUsedCapacity"), _AMOUNTS),
    **dict.fromkeys(("isLeaf", "isManaged", "prioritySorting", "preemptionEnabled"), _BOOLEAN),
    **dict.fromkeys(("isPreemptionFence", "isPriorityFence"), _BOOLEAN),
    **dict.fromkeys(("maxRunningApps", "runningApps", "currentPriority", "priorityOffset"), _INTEGER),
    properties=_TEXTS_BY_NAME,
    children=listing(reference("PartitionQueueDAOInfo")),
    childNames=_TEXTS,
    allocatingAcceptedApps=_TEXTS,
)

YUNIKORN_SCHEMAS: Final[Mapping[str, Schema]] = {
    "YAPIError": _record(status_code=_INTEGER, message=_TEXT, description=_TEXT, code=_TEXT),
    "ResourceUsageDAOInfo": _USAGE,
    "UserResourceUsageDAOInfo": _record(
        userName=_TEXT, groups=_TEXTS_BY_NAME, queues=reference("ResourceUsageDAOInfo")
    ),
    "GroupResourceUsageDAOInfo": _record(
        groupName=_TEXT, users=_TEXTS, applications=_TEXTS, queues=reference("ResourceUsageDAOInfo")
    ),
    "ClusterDAOInfo": _record(
        startTime=_INTEGER, rmBuildInformation=listing(_TEXTS_BY_NAME), partition=_TEXT, clusterName=_TEXT
    ),
    "PartitionInfo": _record(
        clusterId=_TEXT,
        name=_TEXT,
        capacity=_record(capacity=_AMOUNTS, usedCapacity=_AMOUNTS, utilization=_AMOUNTS),
        nodeSortingPolicy=_record(type=_TEXT, resourceWeights=_mapping(_NUMBER)),
        preemptionEnabled=_BOOLEAN,
        quotaPreemptionEnabled=_BOOLEAN,
        totalNodes=_INTEGER,
        applications=_AMOUNTS,
        totalContainers=_INTEGER,
        state=_TEXT,
        lastStateTransitionTime=_INTEGER,
    ),
    "TemplateInfo": _record(
        maxApplications=_INTEGER, maxResource=_AMOUNTS, guaranteedResource=_AMOUNTS, properties=_TEXTS_BY_NAME
    ),
    "PartitionQueueDAOInfo": _QUEUE,
    "AllocationAskDAOInfo": _record(**_REQUEST),
    "AllocationDAOInfo": _record(**_REQUEST, nodeId=_TEXT, preempted=_BOOLEAN),
    "ApplicationDAOInfo": _record(
        **dict.fromkeys(("applicationID", "partition", "queueName", "applicationState", "user"), _TEXT),
        usedResource=_AMOUNTS,
        pendingResource=_AMOUNTS,
        groups=_TEXTS,
        requests=listing(reference("AllocationAskDAOInfo")),
        allocations=listing(reference("AllocationDAOInfo")),
        maxRequestPriority=_INTEGER,
        hasReserved=_BOOLEAN,
    ),
    "NodeDAOInfo": _record(nodeID=_TEXT, hostName=_TEXT, capacity=_AMOUNTS, schedulable=_BOOLEAN, isReserved=_BOOLEAN),
    "ValidateConfResponse": _record(allowed=_BOOLEAN, reason=_TEXT),
    "ConfigDAOInfo": _OPEN,
    "EventRecord": _record(
        {"resource": _record(resources=_mapping(_record(value=_INTEGER)))},
        **dict.fromkeys(("type", "timestampNano", "eventChangeType", "eventChangeDetail"), _INTEGER),
        **dict.fromkeys(("objectID", "message", "referenceID"), _TEXT),
    ),
    "RuleDAO": _record({"filter": _OPEN, "parentRule": reference("RuleDAO")}, name=_TEXT, parameters=_TEXTS_BY_NAME),
    "ApplicationHistoryDAOInfo": _record(timestamp=_INTEGER, totalApplications=_TEXT),
    "AggregatedStateInfo": _OPEN,
    "EventRecordDAO": _record(
        InstanceUUID=_TEXT, LowestID=_INTEGER, HighestID=_INTEGER, EventRecords=listing(reference("EventRecord"))
    ),
    "SchedulerHealthDAOInfo": _record(
        Healthy=_BOOLEAN,
        HealthChecks=listing(_record(Name=_TEXT, Succeeded=_BOOLEAN, Description=_TEXT, DiagnosisMessage=_TEXT)),
    ),
}
