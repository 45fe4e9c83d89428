"""Who used what from when to when: the history of usage as spans in which nothing changes.

A span ends whenever its application is granted something, gives something back, or changes what it holds; so nothing is
sampled, and sums over spans are exact. What is going counts until it is released, what is pending does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, final

from ugm.journal.contents import JournalContents, JournalEntry
from ugm.partition.checkpoint import Checkpoint
from ugm.partition.events import Allocated, ApplicationEnded, ApplicationSubmitted, GroupAssigned, Released, Resized
from ugm.partition.ledger_entry import AllocationState
from ugm.resources import Resource

__all__ = ["UsageInterval", "UsageMeter", "decode_intervals", "encode_intervals", "usage_intervals"]


class UsageInterval(NamedTuple):
    """A time in which an application used the same."""

    application_id: str
    user: str
    queue_path: str
    #: The group that it was charged to; None for none.
    group: str | None
    #: In milliseconds since 1970; the end is behind the beginning, and is no part of it.
    begin: int
    end: int
    usage: Mapping[str, int]


class _Reading:
    """What an application uses now, and since when."""

    __slots__ = ("group", "queue_path", "since", "usage", "user")

    def __init__(self, user: str, queue_path: str, group: str | None, since: int) -> None:
        self.user = user
        self.queue_path = queue_path
        self.group = group
        self.since = since
        self.usage: dict[str, int] = {}


@final
class UsageMeter:
    """Turns changes into spans."""

    __slots__ = ("_readings",)

    #: By application; one that is submitted again under its old id is another.
    _readings: dict[str, _Reading]

    def __init__(self, image: Checkpoint, at: int) -> None:
        self._readings = {
            told.submission.application_id: _Reading(told.submission.user.name, told.queue_path, told.group or None, at)
            for told in image.applications
        }
        for allocation in image.allocations:
            if allocation.state is not AllocationState.PENDING:
                _add(self._readings[allocation.application_id].usage, allocation.usage, 1)

    def follow(self, entry: JournalEntry) -> Iterator[UsageInterval]:
        """Yield the spans that a change ends."""
        at = entry.at
        for event in entry.events:
            match event:
                case ApplicationSubmitted():
                    told = event.group or None
                    self._readings[event.application_id] = _Reading(event.user.name, event.queue_path, told, at)
                case GroupAssigned():
                    self._readings[event.application_id].group = event.group
                case ApplicationEnded():
                    del self._readings[event.application_id]
                case Allocated(allocation):
                    yield from self._change(allocation.application_id, at, allocation.usage, 1)
                case Released(allocation):
                    yield from self._change(allocation.application_id, at, allocation.usage, -1)
                case Resized(allocation, before):
                    yield from self._change(allocation.application_id, at, before, -1)
                    yield from self._change(allocation.application_id, at, allocation.usage, 1)

    def _change(self, application_id: str, at: int, usage: Resource, sign: int) -> Iterator[UsageInterval]:
        yield from self._end(application_id, at)
        _add(self._readings[application_id].usage, usage, sign)

    def _end(self, application_id: str, at: int) -> Iterator[UsageInterval]:
        told = self._readings[application_id]
        since, told.since = told.since, at
        if at > since and told.usage:
            yield UsageInterval(application_id, told.user, told.queue_path, told.group, since, at, told.usage.copy())

    def finish(self, at: int) -> Iterator[UsageInterval]:
        """Yield the spans that go on, up to an instant."""
        for application_id in self._readings:
            yield from self._end(application_id, at)


def _add(usage: dict[str, int], more: Resource, sign: int) -> None:
    for name, amount in more.amounts.items():
        total = usage.get(name, 0) + sign * amount
        if total:
            usage[name] = total
        else:
            usage.pop(name, None)


def usage_intervals(contents: JournalContents, until: int | None) -> Iterator[UsageInterval]:
    """Yield all spans of a journal; those that go on end at *until*, or with the last change."""
    for told in contents.history():
        yield from decode_intervals(told)
    start = contents.start
    meter, last = UsageMeter(start.image, start.at), start.at
    for entry in contents.changes():
        yield from meter.follow(entry)
        last = entry.at
    yield from meter.finish(last if until is None else max(until, last))


def decode_intervals(told: Any) -> Iterator[UsageInterval]:  # noqa: ANN401 - whatever JSON has
    """Yield the spans of a row of the history, which may have none."""
    word, *parts = told
    if word == "used":
        application_id, user, queue_path, group, times = parts
        for begin, end, usage in times:
            yield UsageInterval(application_id, user, queue_path, group, begin, end, usage)


def encode_intervals(together: list[UsageInterval]) -> list[Any]:
    """Return several spans of one application for the history."""
    return ["used", *together[0][:4], [[span.begin, span.end, span.usage] for span in together]]
