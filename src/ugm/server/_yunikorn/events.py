"""Events in the format of Apache YuniKorn: the classes ``EventRecordDAO`` and ``EventRecord``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ugm.partition import Allocation, ApplicationState
from ugm.partition.events import (
    Allocated,
    AllocationRequested,
    ApplicationEnded,
    ApplicationFailing,
    ApplicationSubmitted,
    Denied,
    Event,
    NodeChanged,
    Preempted,
    QueueQuotaSet,
    Released,
    RequestWithdrawn,
    Resized,
)
from ugm.resources import Resource
from ugm.server._yunikorn.objects import nanoseconds
from ugm.server.history import Record

__all__ = ["event_dict"]

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
    found = _Described() if isinstance(record.event, Mapping) else _describe(record.event)
    resource = {} if found.resource is None else {"resource": _resource_dict(found.resource)}
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


def _resource_dict(resource: Resource) -> dict[str, object]:
    return {"resources": {name: {"value": amount} for name, amount in resource.items()}}


def _describe(event: Event) -> _Described:
    match event:
        case QueueQuotaSet():
            return _Described(_QUEUE, event.queue_path, _SET, _QUEUE_MAX, resource=event.quota)
        case NodeChanged(after=None):
            return _Described(_NODE, event.name, _REMOVE, _NODE_REMOVED, resource=event.before)
        case NodeChanged():
            return _Described(_NODE, event.name, _SET if event.before else _ADD, _NODE_CAPACITY, resource=event.after)
        case Denied():
            return _describe_denial(event)
        case _:
            return _describe_allocation(event) if type(event) in _ALLOCATION_EVENTS else _describe_application(event)


def _describe_denial(event: Denied) -> _Described:
    allocation_id, application_id, usage, *_ = event.requests[0]
    text = str(event.decision)
    return _Described(_REQUEST, allocation_id, reference=application_id, resource=usage, message=text)


def _describe_application(event: Event) -> _Described:
    match event:
        case ApplicationSubmitted():
            return _Described(_APP, event.application_id, _ADD, _APP_NEW, event.queue_path)
        case ApplicationFailing():
            return _Described(_APP, event.application_id, _SET, _APP_FAILING)
        case ApplicationEnded():
            detail = _APP_FAILED if event.state is ApplicationState.FAILED else _APP_COMPLETED
            return _Described(_APP, event.application_id, _REMOVE, detail)
        case _:
            return _Described()


#: The change and its detail, by event with an allocation. The object is the application, except for `_REQUEST_CANCEL`.
_ALLOCATION_EVENTS: Final[Mapping[type, tuple[int, int]]] = {
    AllocationRequested: (_ADD, _APP_REQUEST),
    RequestWithdrawn: (_REMOVE, _REQUEST_CANCEL),
    Allocated: (_ADD, _APP_ALLOC),
    Resized: (_SET, _APP_ALLOC),
    Preempted: (_SET, _ALLOC_PREEMPT),
    Released: (_REMOVE, _ALLOC_CANCEL),
}


def _describe_allocation(event: Any) -> _Described:  # noqa: ANN401 - one of `_ALLOCATION_EVENTS`
    allocation: Allocation = event.allocation
    change, detail = _ALLOCATION_EVENTS[type(event)]
    if isinstance(event, Allocated) and event.replaces:
        detail = _ALLOC_REPLACED
    ids = (allocation.application_id, allocation.allocation_id)
    if detail == _REQUEST_CANCEL:
        return _Described(_REQUEST, ids[1], change, detail, ids[0], allocation.usage)
    return _Described(_APP, ids[0], change, detail, ids[1], allocation.usage)
