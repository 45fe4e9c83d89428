"""The text of a journal: what happened, and the state of a partition, as JSON and back.

Every record says everything about its event, so that a change can be read without those before it. Texts are kept
as they are, whatever is in them; amounts are whole numbers of any size.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from ugm.identity import UserGroup
from ugm.partition.application import ApplicationState, GangStyle
from ugm.partition.checkpoint import ApplicationRecord, Checkpoint, QueueRecord
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.events import (
    Allocated,
    AllocationRequested,
    ApplicationEnded,
    ApplicationFailing,
    ApplicationSubmitted,
    ConfigurationChanged,
    Denied,
    Event,
    GroupAssigned,
    NodeChanged,
    PartitionClosed,
    Preempted,
    QueueQuotaSet,
    Released,
    RequestWithdrawn,
    Resized,
)
from ugm.partition.ledger_entry import Allocation, AllocationState
from ugm.partition.settings import read_settings, settings_of, written_settings
from ugm.queues import Acl, QueueSpec, Quota, Submission
from ugm.resources import Resource

__all__ = ["Json", "from_json", "read_events", "read_image", "to_json", "written_events", "written_image"]

#: A value of JSON: None, a bool, a number, a text, or a list or mapping of such values.
Json: TypeAlias = Any

_HELD: Final = AllocationState.HELD
_STATES: Final = {state.value: state for state in AllocationState}
#: How a record of allocations begins.
_ALLOCATIONS: Final = b'["allocations",'
#: How many allocations are in one record of an image.
_TOGETHER: Final = 100

_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
# A third of the time of `json.loads`, which looks for other encodings first.
_decode: Final = json.JSONDecoder().raw_decode


def to_json(value: object) -> bytes:
    """Return a value as text."""
    # Half a pair of surrogates is a text, too; `json.loads` reads it back.
    return _encode(value).encode("utf-8", "surrogatepass")


def from_json(data: bytes) -> Json:
    """Return the value of a text.

    Raises:
        ValueError: it is none.
    """
    text = data.decode("utf-8", "surrogatepass")
    value, end = _decode(text)
    if end != len(text):
        raise ValueError("there is more behind the value")
    return value


# Parts


@lru_cache(maxsize=4096)
def _shared(items: tuple[tuple[str, int], ...]) -> Resource:
    """Return one object for equal amounts: most allocations are of a few sizes."""
    return Resource(dict(items))


def _amounts(told: dict[str, int]) -> Resource:
    return _shared(tuple(told.items()))


@lru_cache(maxsize=4096)
def _user(name: str, groups: tuple[str, ...]) -> UserGroup:
    return UserGroup.recorded(name, groups)


def _maybe(told: dict[str, int] | None) -> Resource | None:
    return None if told is None else _amounts(told)


def _plain(resource: Resource | None) -> Mapping[str, int] | None:
    return None if resource is None else resource.amounts


def _allocation(allocation: Allocation) -> list[Any]:
    allocation_id, application_id, usage, state, placeholder, priority, preemptible = allocation
    if state is _HELD and preemptible and not placeholder and not priority:
        return [allocation_id, application_id, usage.amounts]
    return [allocation_id, application_id, usage.amounts, state, int(placeholder), priority, int(preemptible)]


def _read_allocation(told: Sequence[Any]) -> Allocation:
    if len(told) == 3:  # noqa: PLR2004 - the short form
        allocation_id, application_id, amounts = told
        return Allocation(allocation_id, application_id, _amounts(amounts), _HELD, False, 0, True)  # noqa: FBT003 - a tuple
    allocation_id, application_id, amounts, state, placeholder, priority, preemptible = told
    usage = _amounts(amounts)
    return Allocation(
        allocation_id, application_id, usage, _STATES[state], placeholder == 1, priority, preemptible == 1
    )


# Events

#: The word of each kind of event, and its parts.
_WRITERS: Final[Mapping[type[Event], tuple[str, Callable[[Any], Sequence[Any]]]]] = {
    ApplicationSubmitted: ("sub", lambda it: [*it[:1], it.user.name, it.user.groups, *it[2:4], dict(it.tags), *it[5:]]),
    QueueQuotaSet: ("quota", lambda it: [it.queue_path, it.quota.amounts]),
    GroupAssigned: ("link", lambda it: it),
    ApplicationFailing: ("failing", lambda it: it),
    ApplicationEnded: ("end", lambda it: it),
    AllocationRequested: ("ask", lambda it: _allocation(it.allocation)),
    RequestWithdrawn: ("back", lambda it: _allocation(it.allocation)),
    Allocated: ("+", lambda it: _allocation(it.allocation)),
    Resized: ("size", lambda it: [it.before.amounts, *_allocation(it.allocation)]),
    Preempted: ("go", lambda it: _allocation(it.allocation)),
    Released: ("-", lambda it: _allocation(it.allocation)),
    NodeChanged: ("node", lambda it: [it.name, _plain(it.before), _plain(it.after)]),
    ConfigurationChanged: ("config", lambda it: [written_settings(settings_of(it.after.config))]),
    PartitionClosed: ("close", lambda it: it),
}

_Reader = Callable[[Sequence[Any]], Event]

#: The event of each word; each function takes the parts behind it.
_READERS: Final[Mapping[str, _Reader]] = {
    "sub": lambda it: ApplicationSubmitted(
        it[0], _user(it[1], tuple(it[2])), it[3], it[4], it[5], GangStyle(it[6]), it[7], it[8]
    ),
    "quota": lambda it: QueueQuotaSet(it[0], _amounts(it[1])),
    "link": lambda it: GroupAssigned(*it),
    "failing": lambda it: ApplicationFailing(*it),
    "end": lambda it: ApplicationEnded(it[0], ApplicationState(it[1])),
    "ask": lambda it: AllocationRequested(_read_allocation(it)),
    "back": lambda it: RequestWithdrawn(_read_allocation(it)),
    "+": lambda it: Allocated(_read_allocation(it)),
    "+for": lambda it: Allocated(_read_allocation(it[1:]), it[0]),
    "size": lambda it: Resized(_read_allocation(it[1:]), _amounts(it[0])),
    "go": lambda it: Preempted(_read_allocation(it)),
    "-": lambda it: Released(_read_allocation(it)),
    "node": lambda it: NodeChanged(it[0], _maybe(it[1]), _maybe(it[2])),
    "close": lambda _: PartitionClosed(),
}


def written_events(events: Iterable[Event]) -> bytes:
    """Return what happened in one go as text; nothing if nothing has changed."""
    told = [_written(event) for event in events if type(event) is not Denied]
    return to_json(told) if told else b""


def _written(event: Event) -> list[Any]:
    if type(event) is Allocated and event.replaces:
        return ["+for", event.replaces, *_allocation(event.allocation)]
    word, parts = _WRITERS[type(event)]
    return [word, *parts(event)]


def read_events(data: bytes, before: CompiledConfig) -> tuple[Event, ...]:
    """Return the events of a text, of a partition with the configuration *before*.

    Raises:
        ValueError: it is no such text; or any other error that comes of reading what was never written.
    """
    events: list[Event] = []
    for word, *parts in from_json(data):
        if word == "config":
            after = CompiledConfig.of(read_settings(parts[0]))
            events.append(ConfigurationChanged(before, after))
            before = after
        else:
            events.append(_READERS[word](parts))
    return tuple(events)


# The state of a partition


def written_image(checkpoint: Checkpoint) -> Iterator[bytes]:
    """Yield the records of an image."""
    nodes = {name: offers.amounts for name, offers in checkpoint.nodes.items()}
    yield to_json(["partition", checkpoint.closed, nodes, _plain(checkpoint.total)])
    for queue in checkpoint.queues:
        yield to_json(["queue", _spec(queue.spec), queue.has_left, _plain(queue.annotated)])
    for (application_id, user, asked, tags), *rest in checkpoint.applications:
        yield to_json(["application", application_id, user.name, user.groups, asked, dict(tags), *rest])
    allocations = iter(checkpoint.allocations)
    while together := list(map(_allocation, islice(allocations, _TOGETHER))):
        yield to_json(["allocations", *together])


def read_image(records: Iterable[bytes]) -> Checkpoint:
    """Return the image that `written_image` has written.

    Raises:
        ValueError: it is no such text; or any other error that comes of reading what was never written.
    """
    parts: dict[str, list[Any]] = {"partition": [], "queue": [], "application": []}
    allocations: list[bytes] = []
    for record in records:
        if record.startswith(_ALLOCATIONS):
            allocations.append(record)
        else:
            word, *told = from_json(record)
            parts[word].append(told)
    [(closed, nodes, total)] = parts["partition"]
    return Checkpoint(
        closed,
        {name: _amounts(offers) for name, offers in nodes.items()},
        _maybe(total),
        tuple(QueueRecord(_read_spec(spec), has_left, _maybe(most)) for spec, has_left, most in parts["queue"]),
        tuple(map(_read_application, parts["application"])),
        _Allocations(allocations),
    )


class _Allocations:
    """The allocations of some records, read when they are asked for: there may be millions."""

    __slots__ = ("_records",)

    def __init__(self, records: list[bytes]) -> None:
        self._records: Final = records

    def __iter__(self) -> Iterator[Allocation]:
        for record in self._records:
            yield from map(_read_allocation, islice(from_json(record), 1, None))


def _read_application(told: Sequence[Any]) -> ApplicationRecord:
    application_id, user, groups, asked, tags, queue_path, style, *rest = told
    submission = Submission(application_id, _user(user, tuple(groups)), asked, MappingProxyType(tags))
    return ApplicationRecord(submission, queue_path, GangStyle(style), *rest)


def _spec(spec: QueueSpec) -> list[Any]:
    path, is_parent, quota, template, submit, admin = spec
    acls = [None if acl is None else str(acl) for acl in (submit, admin)]
    return [path, is_parent, _quota(quota), template and _quota(template), *acls]


def _quota(quota: Quota) -> list[Any]:
    return [_plain(quota.max_resources), quota.max_applications, _plain(quota.guaranteed)]


def _read_spec(told: Sequence[Any]) -> QueueSpec:
    path, is_parent, quota, template, submit, admin = told
    acls = [None if acl is None else Acl.parse(acl) for acl in (submit, admin)]
    return QueueSpec(path, is_parent, _read_quota(quota), template and _read_quota(template), *acls)


def _read_quota(told: Sequence[Any]) -> Quota:
    most, applications, guaranteed = told
    return Quota(_maybe(most), applications, _maybe(guaranteed))
