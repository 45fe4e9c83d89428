"""The plain data of events: rows for journals, and dictionaries for clients.

The problem: journals store events, and the server sends them. Old journals must open and clients must work after a
class or an attribute has been renamed. Two descriptions of the same data would diverge.

The idea: one table, `_ALL_KINDS`, describes the plain data of all events. For each class it has the name for clients,
the tag in journals, and a codec for each field. There are two forms:

- A *row* is a short list: the tag and the values. Its bytes are compact JSON.
- A *dictionary* has the name under ``event``, and each value under the name of its field.

Invariant: a row has everything about its event, so a change can be decoded without the changes before it. Texts are
stored as they are, including unpaired surrogates; amounts are integers of any size.

The cost: about 70 bytes for an allocation. Equal amounts and equal users are decoded to one object.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, final

from ugm._json_values import Json, JsonObject
from ugm.budgets import BudgetChange
from ugm.identity import UserGroup
from ugm.partition.allocation import PLAIN, Allocation, AllocationRequest, AllocationState, Traits
from ugm.partition.application import ApplicationState, GangStyle
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.events import (
    Allocated,
    AllocationRequested,
    ApplicationEnded,
    ApplicationFailing,
    ApplicationSubmitted,
    BudgetChanged,
    ConfigurationChanged,
    Denied,
    Event,
    GroupAssigned,
    ModelsChanged,
    NodeChanged,
    PartitionClosed,
    Preempted,
    QueueQuotaSet,
    ReductionTimersStarted,
    Released,
    Renewed,
    RequestPlaced,
    RequestWithdrawn,
    ReservationChanged,
    Resized,
)
from ugm.partition.stored_config import config_from_data, config_to_data
from ugm.resources import Resource, optional_dict

__all__ = [
    "decode_allocation",
    "decode_amounts",
    "decode_events",
    "decode_optional_amounts",
    "decode_rows",
    "decode_user",
    "encode_allocation",
    "encode_events",
    "encode_optional_amounts",
    "event_name",
    "event_row",
    "event_rows",
    "event_to_dict",
    "from_json",
    "to_json",
    "user_to_dict",
]

_encode_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
# A third of the time of `json.loads`, which detects other encodings first.
_decode_json: Final = json.JSONDecoder().raw_decode


def to_json(value: Json) -> bytes:
    """Return the compact JSON text of a value."""
    # An unpaired surrogate is allowed in a text, and `from_json` reads it.
    return _encode_json(value).encode("utf-8", "surrogatepass")


def from_json(data: bytes) -> Json:
    """Return the value of a JSON text.

    Raises:
        ValueError: the text is not JSON.
    """
    text = data.decode("utf-8", "surrogatepass")
    value, end = _decode_json(text)
    if end != len(text):
        raise ValueError("unexpected text after the JSON value")
    return value


# Values in rows


@lru_cache(maxsize=4096)
def _shared_resource(items: tuple[tuple[str, int], ...]) -> Resource:
    return Resource(dict(items))


def decode_amounts(amounts: Mapping[str, int]) -> Resource:
    """Return a resource vector; equal ones are usually the same object, as most allocations have a few sizes."""
    return _shared_resource(tuple(amounts.items()))


def decode_optional_amounts(amounts: Mapping[str, int] | None) -> Resource | None:
    """Return a resource vector, or None for None."""
    return None if amounts is None else decode_amounts(amounts)


def encode_optional_amounts(resource: Resource | None) -> Mapping[str, int] | None:
    """Return the amounts of a resource vector, or None for None."""
    return None if resource is None else resource.amounts


@lru_cache(maxsize=4096)
def _shared_user(name: str, groups: tuple[str, ...]) -> UserGroup:
    return UserGroup.recorded(name, groups)


def decode_user(name: str, groups: Sequence[str]) -> UserGroup:
    """Return a user; equal ones are usually the same object."""
    return _shared_user(name, tuple(groups))


#: Older journals know the last state as ``going``.
_STATES: Final = {**{state.value: state for state in AllocationState}, "going": AllocationState.TERMINATING}


def encode_allocation(allocation: Allocation) -> list[Json]:
    """Return the values of an allocation for a row.

    There are three for an ordinary one that is held, and seven for others. An eighth one is its promised
    duration if it is pending, or else its promised end, a ninth one its node, and a tenth one the promised duration of
    one that is not pending.
    """
    allocation_id, application_id, usage, state, placeholder, priority, preemptible, until, duration, node = allocation
    if allocation[3:] == PLAIN:
        return [allocation_id, application_id, usage.amounts]
    values = [allocation_id, application_id, usage.amounts, state, int(placeholder), priority, int(preemptible)]
    if until is not None and duration is not None:
        return [*values, until, node, duration]
    duration_or_end = until if duration is None else duration
    if node is not None:
        return [*values, duration_or_end, node]
    return values if duration_or_end is None else [*values, duration_or_end]


def decode_allocation(values: Sequence[Json]) -> Allocation:
    """Return the allocation of the values that `encode_allocation` has returned."""
    if len(values) == 3:  # noqa: PLR2004 - the short form
        allocation_id, application_id, amounts = values
        return Allocation(allocation_id, application_id, decode_amounts(amounts), *PLAIN)
    allocation_id, application_id, amounts, state, placeholder, priority, preemptible, *rest = values
    duration_or_end, node, duration = (*rest, None, None, None)[:3]
    until, duration = (
        (None, duration_or_end) if _STATES[state] is AllocationState.PENDING else (duration_or_end, duration)
    )
    traits = Traits(_STATES[state], placeholder == 1, priority, preemptible == 1, until, duration, node)
    return Allocation.of(allocation_id, application_id, decode_amounts(amounts), traits)


# Values in dictionaries


def user_to_dict(user: UserGroup) -> dict[str, Json]:
    """Return a user for JSON."""
    return {"name": user.name, "groups": list(user.groups)}


def _requests(requests: Iterable[AllocationRequest]) -> list[Json]:
    return [{**request._asdict(), "usage": dict(request.usage)} for request in requests]


# Codecs of fields


class _Codec(NamedTuple):
    """The plain data of one type of field."""

    #: Returns the values for a row.
    encode: Callable[[Any], Sequence[Json]]
    #: Takes the values of a row from an iterator, and returns the field.
    decode: Callable[[Iterator[Json]], object]
    #: Returns the value for a dictionary.
    to_dict: Callable[[Any], Json]


def _same(value: Json) -> Json:
    return value


def _one(value: Json) -> tuple[Json]:
    return (value,)


def _enum(kind: Callable[[str], object]) -> _Codec:
    return _Codec(_one, lambda values: kind(next(values)), attrgetter("value"))


_PLAIN: Final = _Codec(_one, next, _same)
_TEXTS: Final = _Codec(lambda names: (list(names),), lambda values: tuple(next(values)), list)
_TAGS: Final = _Codec(lambda tags: (dict(tags),), next, dict)
_USER: Final = _Codec(
    lambda user: (user.name, user.groups), lambda values: decode_user(next(values), next(values)), user_to_dict
)
_AMOUNTS: Final = _Codec(lambda amounts: (amounts.amounts,), lambda values: decode_amounts(next(values)), dict)
_OPTIONAL_AMOUNTS: Final = _Codec(
    lambda amounts: (encode_optional_amounts(amounts),),
    lambda values: decode_optional_amounts(next(values)),
    optional_dict,
)
#: The values of an allocation are the last ones in a row, because their number varies.
_ALLOCATION: Final = _Codec(encode_allocation, lambda values: decode_allocation(list(values)), Allocation.to_dict)

#: A change of a budget: its fields in their order, with plain amounts.
_BUDGET_CHANGE: Final = _Codec(
    lambda change: [*change[:2], change.amounts.amounts, *change[3:]],
    lambda values: BudgetChange.of(next(values), next(values), decode_amounts(next(values)), **_rest_of_change(values)),
    BudgetChange.to_dict,
)


def _rest_of_change(values: Iterator[Json]) -> dict[str, str]:
    return dict(zip(BudgetChange._fields[3:], values, strict=True))


# Denials are not stored.
_REQUESTS: Final = _Codec(_one, next, _requests)
_DECISION: Final = _Codec(_one, next, lambda decision: decision.to_dict())


# Events


@final
class _Kind:
    """The plain data of one class of events.

    Args:
        event: the class.
        name: the name for clients.
        tag: the tag in journals; empty if these events are not stored.
        codecs: the codec of each field.
    """

    __slots__ = ("_codecs", "_has_only_allocation", "_row", "event", "name", "tag")

    def __init__(self, event: type[Any], name: str, tag: str, /, **codecs: _Codec) -> None:
        self.event: Final = event
        self.name: Final = name
        self.tag: Final = tag
        self._codecs: Final = codecs
        self._row: Final = sorted(codecs.items(), key=lambda field: field[1] is _ALLOCATION)
        self._has_only_allocation: Final = list(codecs) == ["allocation"]

    def encode(self, event: Event) -> list[Json]:
        """Return the row of an event."""
        if self._has_only_allocation:
            return [self.tag, *encode_allocation(event.allocation)]  # type: ignore[union-attr] # it has this field
        return [self.tag, *(value for name, codec in self._row for value in codec.encode(getattr(event, name)))]

    def decode(self, values: Sequence[Json]) -> Event:
        """Return the event of a row without its tag."""
        if self._has_only_allocation:
            event: Event = self.event(decode_allocation(values))
        else:
            iterator = iter(values)
            event = self.event(**{name: codec.decode(iterator) for name, codec in self._row})
        return event

    def to_dict(self, event: Event) -> dict[str, Json]:
        """Return the dictionary of an event."""
        fields = {_NAMES.get(name, name): codec.to_dict(getattr(event, name)) for name, codec in self._codecs.items()}
        return {"event": self.name, **fields}


#: The fields whose name for clients differs from the attribute.
_NAMES: Final = {"requests": "asks", "requested_queue": "asked_queue"}

_ALL_KINDS: Final = (
    _Kind(
        ApplicationSubmitted,
        "submitted",
        "sub",
        application_id=_PLAIN,
        user=_USER,
        queue_path=_PLAIN,
        requested_queue=_PLAIN,
        tags=_TAGS,
        gang_style=_enum(GangStyle),
        is_adopted=_PLAIN,
        group=_PLAIN,
    ),
    _Kind(QueueQuotaSet, "quota_given", "quota", queue_path=_PLAIN, quota=_AMOUNTS),
    _Kind(GroupAssigned, "group_assigned", "link", application_id=_PLAIN, user=_PLAIN, group=_PLAIN),
    _Kind(ApplicationFailing, "failing", "failing", application_id=_PLAIN),
    _Kind(ApplicationEnded, "ended", "end", application_id=_PLAIN, state=_enum(ApplicationState)),
    _Kind(AllocationRequested, "asked", "ask", allocation=_ALLOCATION),
    _Kind(RequestWithdrawn, "withdrawn", "back", allocation=_ALLOCATION),
    _Kind(Allocated, "allocated", "+for", allocation=_ALLOCATION, replaces=_PLAIN),
    _Kind(Resized, "resized", "size", allocation=_ALLOCATION, before=_AMOUNTS),
    _Kind(Renewed, "renewed", "renew", allocation=_ALLOCATION, before=_PLAIN),
    _Kind(Preempted, "preempted", "go", allocation=_ALLOCATION),
    _Kind(RequestPlaced, "request_placed", "placed", allocation=_ALLOCATION),
    _Kind(ReductionTimersStarted, "reduction_timers_started", "above", queue_paths=_TEXTS, since=_PLAIN),
    _Kind(Released, "released", "-", allocation=_ALLOCATION),
    _Kind(Denied, "denied", "", requests=_REQUESTS, decision=_DECISION),
    _Kind(ReservationChanged, "reservation_changed", "reserve", queue_path=_PLAIN, before=_PLAIN, after=_PLAIN),
    _Kind(NodeChanged, "node_changed", "node", name=_PLAIN, before=_OPTIONAL_AMOUNTS, after=_OPTIONAL_AMOUNTS),
    _Kind(BudgetChanged, "budget_changed", "budget", change=_BUDGET_CHANGE),
    _Kind(ModelsChanged, "models_changed", "models", before=_TEXTS, after=_TEXTS),
    # `_encode`, `decode_events` and `event_to_dict` handle its configurations.
    _Kind(ConfigurationChanged, "configured", "config"),
    _Kind(PartitionClosed, "closed", "close"),
)
#: The short row of a grant that replaces no placeholder.
_GRANT: Final = _Kind(Allocated, "allocated", "+", allocation=_ALLOCATION)
_KINDS: Final[Mapping[type[Event], _Kind]] = {kind.event: kind for kind in _ALL_KINDS}
_KINDS_BY_TAG: Final = {kind.tag: kind for kind in (*_ALL_KINDS, _GRANT) if kind.tag}


def encode_events(events: Iterable[Event]) -> bytes:
    """Return the stored form of the events of one change; empty if there are none but denials."""
    rows = event_rows(events)
    return to_json(rows) if rows else b""


def event_rows(events: Iterable[Event]) -> list[list[Json]]:
    """Return the rows of the events of one change, without denials."""
    return [event_row(event) for event in events if type(event) is not Denied]


def event_row(event: Event) -> list[Json]:
    """Return the row of an event that is not a denial."""
    if type(event) is Released or (type(event) is Allocated and not event.replaces):
        allocation = event.allocation
        if allocation[3:] == PLAIN:
            # Nearly all events. `_Kind.encode` returns the same in three times the time.
            allocation_id, application_id, usage = allocation[:3]
            return ["-" if type(event) is Released else "+", allocation_id, application_id, usage.amounts]
    return _encode(event)


def _encode(event: Event) -> list[Json]:
    if type(event) is Allocated and not event.replaces:
        return _GRANT.encode(event)
    kind = _KINDS[type(event)]
    if type(event) is ConfigurationChanged:
        # Rows of earlier versions have no author.
        author = [event.author] if event.author else []
        return [kind.tag, config_to_data(event.after.config), *author]
    return kind.encode(event)


def decode_events(data: bytes, before: CompiledConfig) -> tuple[Event, ...]:
    """Return the events of one change.

    Args:
        data: the stored form.
        before: the configuration in force before the change.

    Raises:
        ValueError: the data are not such a form; or another error of decoding.
    """
    return decode_rows(from_json(data), before)


def decode_rows(rows: Iterable[Sequence[Json]], before: CompiledConfig) -> tuple[Event, ...]:
    """Return the events of some rows; see `decode_events`."""
    events: list[Event] = []
    for tag, *values in rows:
        if tag == _KINDS[ConfigurationChanged].tag:
            config, *author = values
            after = CompiledConfig.of(config_from_data(config))
            events.append(ConfigurationChanged(before, after, *author))
            before = after
        else:
            events.append(_KINDS_BY_TAG[tag].decode(values))
    return tuple(events)


def event_to_dict(event: Event) -> JsonObject:
    """Return an event for JSON, with its name as ``event``."""
    kind = _KINDS[type(event)]
    if isinstance(event, ConfigurationChanged):
        return {"event": kind.name, "changes": event.changes.to_dict(), "author": event.author}
    return kind.to_dict(event)


def event_name(kind: type[Event]) -> str:
    """Return the name of a class of events for clients: in JSON, in metrics and in requests.

    >>> event_name(NodeChanged)
    'node_changed'
    """
    return _KINDS[kind].name
