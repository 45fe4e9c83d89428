"""Usage over time as intervals: in each interval, an application used constant amounts.

An interval ends when an allocation of the application is granted, released or resized, or when another configuration
counts it for other groups of elastic quotas or nodes of quota trees. Nothing is sampled, so sums over
intervals are exact. A terminating allocation counts until it is released; a pending one does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias, final

from ugm._json_values import Json
from ugm.journal.contents import JournalContents, JournalEntry
from ugm.model import Claim, ReportingModel
from ugm.partition.allocation import AllocationState
from ugm.partition.checkpoint import Checkpoint
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.events import (
    Allocated,
    ApplicationEnded,
    ApplicationSubmitted,
    ConfigurationChanged,
    GroupAssigned,
    Released,
    Resized,
)
from ugm.resources import Resource

__all__ = [
    "UsageInterval",
    "UsageMeter",
    "decode_intervals",
    "encode_intervals",
    "recorded_intervals",
    "usage_intervals",
]


#: Kinds and names of owners of limits.
Owners: TypeAlias = tuple[tuple[str, str], ...]


class UsageInterval(NamedTuple):
    """A time in which an application used constant amounts."""

    application_id: str
    user: str
    queue_path: str
    #: The group that the usage was charged to; None for none.
    group: str | None
    #: In milliseconds since 1970; the end is after the beginning, and not part of the interval.
    begin: int
    end: int
    usage: Mapping[str, int]
    #: The kind and the name of the owners in declared quota models, from the group or leaf upward.
    owners: Owners = ()
    #: The first group of the user, to which reports assign usage that is charged to no group.
    first_group: str | None = None


class _CurrentUsage:
    """The usage of an application since the end of its last interval."""

    __slots__ = ("claim", "group", "owners", "since", "usage")

    def __init__(self, claim: Claim, group: str | None, since: int, owners: Owners) -> None:
        #: The application as quota models see it, without an allocation.
        self.claim = claim
        self.group = group
        self.since = since
        self.owners = owners
        self.usage: dict[str, int] = {}

    def add(self, amounts: Resource, sign: int) -> None:
        """Add amounts, or subtract them if *sign* is -1."""
        usage = self.usage
        for name, amount in amounts.amounts.items():
            total = usage.get(name, 0) + sign * amount
            if total:
                usage[name] = total
            else:
                usage.pop(name, None)


@final
class UsageMeter:
    """Turns changes into intervals.

    Args:
        checkpoint: the state before the first change.
        at: the time of this state, in milliseconds since 1970.
        compiled: the configuration in force then.
    """

    __slots__ = ("_current", "_models")

    #: By application id. An application that is submitted again under the id of an ended one replaces it.
    _current: dict[str, _CurrentUsage]
    #: The declared models in force, without claims; they only tell the owners of a claim.
    _models: list[ReportingModel]

    def __init__(self, checkpoint: Checkpoint, at: int, compiled: CompiledConfig) -> None:
        self._models, self._current = _models_of(compiled), {}
        for application_id, user, _, tags, path, group in (
            (*one.submission, one.queue_path, one.group) for one in checkpoint.applications
        ):
            self._begin(Claim("", application_id, Resource(), path, user, tags), group or None, at)
        for allocation in checkpoint.allocations:
            if allocation.state is not AllocationState.PENDING:
                self._current[allocation.application_id].add(allocation.usage, 1)

    def process(self, entry: JournalEntry) -> Iterator[UsageInterval]:
        """Yield the intervals that a change ends."""
        at = entry.at
        for event in entry.events:
            match event:
                case ApplicationSubmitted(application_id, user, queue_path, _, tags, _, _, group):
                    self._begin(Claim("", application_id, Resource(), queue_path, user, tags), group or None, at)
                case ConfigurationChanged(_, after):
                    yield from self._change_models(after, at)
                case GroupAssigned():
                    self._current[event.application_id].group = event.group
                case ApplicationEnded():
                    del self._current[event.application_id]
                case Allocated(allocation):
                    yield from self._change(allocation.application_id, at, allocation.usage, 1)
                case Released(allocation):
                    yield from self._change(allocation.application_id, at, allocation.usage, -1)
                case Resized(allocation, before):
                    yield from self._change(allocation.application_id, at, before, -1)
                    yield from self._change(allocation.application_id, at, allocation.usage, 1)

    def _begin(self, claim: Claim, group: str | None, at: int) -> None:
        self._current[claim.application_id] = _CurrentUsage(claim, group, at, self._owners(claim))

    def _owners(self, claim: Claim) -> Owners:
        return tuple(owner for model in self._models for owner in model.owners(claim))

    def _change_models(self, compiled: CompiledConfig, at: int) -> Iterator[UsageInterval]:
        """Yield the intervals that another configuration ends: of applications that have other owners in its models."""
        self._models = _models_of(compiled)
        for application_id, current in self._current.items():
            owners = self._owners(current.claim)
            if owners != current.owners:
                yield from self._end(application_id, at)
                current.owners = owners

    def _change(self, application_id: str, at: int, usage: Resource, sign: int) -> Iterator[UsageInterval]:
        yield from self._end(application_id, at)
        self._current[application_id].add(usage, sign)

    def _end(self, application_id: str, at: int) -> Iterator[UsageInterval]:
        current = self._current[application_id]
        since, current.since = current.since, at
        if at > since and current.usage:
            user, queue_path, usage = current.claim.user, current.claim.queue_path, current.usage.copy()
            first_group = user.groups[0] if user.groups else None
            owner = application_id, user.name, queue_path, current.group
            yield UsageInterval(*owner, since, at, usage, current.owners, first_group)

    def finish(self, at: int) -> Iterator[UsageInterval]:
        """Yield the intervals that have not ended, up to an instant."""
        for application_id in self._current:
            yield from self._end(application_id, at)


def _models_of(compiled: CompiledConfig) -> list[ReportingModel]:
    models = (definition.build() for definition in compiled.models)
    return [model for model in models if isinstance(model, ReportingModel)]


def usage_intervals(contents: JournalContents, until: int | None) -> Iterator[UsageInterval]:
    """Yield all intervals of a journal; the last ones end at *until*, or with the last change."""
    yield from recorded_intervals(contents)
    start = contents.start
    with contents.decoding():
        meter, last = UsageMeter(start.checkpoint, start.at, start.compiled), start.at
        for entry in contents.changes():
            yield from meter.process(entry)
            last = entry.at
        yield from meter.finish(last if until is None else max(until, last))


def recorded_intervals(contents: JournalContents) -> Iterator[UsageInterval]:
    """Yield the intervals before the first change of a journal."""
    with contents.decoding():
        for record in contents.history():
            yield from decode_intervals(record)


# In the history, the intervals of one application are one record


def encode_intervals(intervals: list[UsageInterval]) -> list[Json]:
    """Return several intervals of one application with the same owners as a record of the history."""
    first = intervals[0]
    more = [list(map(list, first.owners)), first.first_group] if first.owners or first.first_group else []
    return ["used", *first[:4], [[each.begin, each.end, each.usage] for each in intervals], *more]


def decode_intervals(record: Json) -> Iterator[UsageInterval]:
    """Yield the intervals of a record of the history, which may have none.

    Types are checked here, because callers compute with the values outside of `JournalContents.decoding`.

    Raises:
        ValueError: a value has another type; or another of `ugm.journal.contents.DECODING_ERRORS`.
    """
    kind, *values = record
    if kind == "used":
        application_id, user, queue_path, group, times, *rest = values
        owners, first_group = _decode_owners(rest[0]) if rest else (), rest[1] if rest[1:] else None
        is_grouped = all(one is None or type(one) is str for one in (group, first_group))
        if not (is_grouped and type(application_id) is type(user) is type(queue_path) is str):
            raise ValueError("a name in the usage is not text")
        for begin, end, usage in times:
            if not type(begin) is type(end) is int:
                raise ValueError("an instant of the usage is not an integer")
            for amount in usage.values():
                if type(amount) is not int:
                    raise ValueError("an amount of the usage is not an integer")
            yield UsageInterval(application_id, user, queue_path, group, begin, end, usage, owners, first_group)


def _decode_owners(values: Json) -> Owners:
    owners = tuple((kind, name) for kind, name in values)
    if any(type(text) is not str for owner in owners for text in owner):
        raise ValueError("an owner in the usage is not text")
    return owners
