"""What an operation has done to a slice, as a change that the database makes if all is still as it was loaded.

The database is told of every counter what to add and the most that may be there then. Only what was decided by
comparing with a limit is compared once more: what is asked for, or what grows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, final

from ugm.hierarchy import UNLIMITED, Limit
from ugm.identity import TrackingType
from ugm.partition.allocation import Allocation, AllocationState
from ugm.partition.events import (
    Allocated,
    AllocationRequested,
    ApplicationEnded,
    ApplicationSubmitted,
    Event,
    Preempted,
    Released,
    RequestWithdrawn,
    Resized,
)
from ugm.partition.state import PartitionState
from ugm.partition.subject_queries import is_limiting
from ugm.resources import MEMORY, VCORE
from ugm.shared.slices import Place, Slice, place_of, stage_of, written_submission

__all__ = ["CHANGE", "Change", "change_of"]

#: How a change is made; see ``tables.sql``.
CHANGE: Final = (
    "SELECT {schema}.change(%s::bigint, %s::bigint, %s::bigint, %s::bigint, %s,"
    " %s::text[], %s::bigint[], %s::bigint[], %s::integer[], %s::integer[], %s::text[], %s::bigint[], %s::bigint[],"
    " %s::boolean[], %s::boolean[], %s::jsonb, %s::text[], %s::bigint[], %s::jsonb,"
    " %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::jsonb, %s::bigint[], %s::bigint[])"
)

_PENDING: Final = AllocationState.PENDING


@final
class _Growth:
    """What is added at one place, and the most there may be then, by resource; None counts applications."""

    __slots__ = ("more", "most")

    def __init__(self) -> None:
        self.more: Final[dict[str | None, int]] = {}
        self.most: Final[dict[str | None, int]] = {}


class Change(NamedTuple):
    """A change, but for who makes it, and where its counters are."""

    #: Whether it takes something, so that somebody who is presumed dead may not make it.
    spends: bool
    #: The arguments of ``change`` from the applications to the lines that are written.
    ledger: tuple[Any, ...]
    counters: Mapping[Place, _Growth]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        applications, new = self.ledger[0], self.ledger[10]
        return not applications and new is None

    def counted(self, ids: Mapping[Place, int], positions: Mapping[str, int]) -> tuple[Any, ...]:
        """Return the arguments of ``change`` for the counters."""
        rows = sorted((ids[place], growth) for place, growth in self.counters.items())
        columns: list[list[int | None]] = []
        for name in (VCORE, MEMORY):
            columns.append([growth.more.get(name, 0) for _, growth in rows])
            columns.append([growth.most.get(name) for _, growth in rows])
        others = [
            {"id": key, "at": positions[name] + 1, "more": growth.more.get(name, 0), "most": growth.most.get(name)}
            for key, growth in rows
            for name in {**growth.more, **growth.most}
            if name is not None and name in positions
        ]
        told = json.dumps(others) if others else None
        running = [growth.more.get(None, 0) for _, growth in rows]
        most_running = [growth.most.get(None) for _, growth in rows]
        return ([key for key, _ in rows], *columns, told, running, most_running)


def change_of(state: PartitionState, loaded: Slice, events: Sequence[Event], *, checks: bool, whole: bool) -> Change:
    """Return what has happened to a slice.

    Args:
        state: the state that the slice is loaded into.
        loaded: the slice as it was loaded.
        events: what has happened.
        checks: whether what grows is held to the limits.
        whole: whether it depends on all that the applications have, and not only on the lines that are loaded.
    """
    lines = dict(_last_lines(events))
    touched = _touched(loaded, lines, events)
    counts = {name: _counts(loaded, lines, name) for name in touched}
    after = [state.applications.get(name) for name in touched]
    held = [loaded.applications[name] for name in touched]
    ledger = (
        touched,
        [one.generation for one in held],
        [one.version if whole else None for one in held],
        [one.stage for one in held],
        [stage_of(one.application) for one in held],
        [one.application.group for one in held],
        [counts[name][0] for name in touched],
        [counts[name][1] for name in touched],
        [one.held + one.pending + sum(counts[name]) == 0 for name, one in zip(touched, held, strict=True)],
        [one is None for one in after],
        _new_applications(state, events),
        *_line_changes(loaded, lines),
    )
    counters: dict[Place, _Growth] = {}
    for name in touched:
        _count(counters, loaded, name, events, checks=checks)
    return Change(any(map(_spends, events)), ledger, counters)


def _spends(event: Event) -> bool:
    if isinstance(event, Resized):
        return any(amount > 0 for amount in (event.allocation.usage - event.before).values())
    return isinstance(event, Allocated | AllocationRequested)


def _last_lines(events: Iterable[Event]) -> Iterator[tuple[str, Allocation | None]]:
    for event in events:
        if isinstance(event, AllocationRequested | Allocated | Resized | Preempted):
            yield event.allocation.allocation_id, event.allocation
        elif isinstance(event, RequestWithdrawn | Released):
            yield event.allocation.allocation_id, None


def _touched(loaded: Slice, lines: Mapping[str, Allocation | None], events: Sequence[Event]) -> list[str]:
    """Return the applications to which something has happened, sorted."""
    names = {after.application_id for after in lines.values() if after is not None}
    names |= {loaded.entries[name][0].application.application_id for name in lines if name in loaded.entries}
    names |= {name for name, held in loaded.applications.items() if stage_of(held.application) != held.stage}
    names |= {event.application_id for event in events if isinstance(event, ApplicationEnded)}
    return sorted(name for name in names if name in loaded.applications)


def _counts(loaded: Slice, lines: Mapping[str, Allocation | None], application_id: str) -> tuple[int, int]:
    """Return by how much the allocations of an application have become more: those that are held, those pending."""
    held = pending = 0
    for name, after in lines.items():
        before = loaded.entries.get(name)
        if before is not None and before[0].application.application_id == application_id:
            is_pending = before[0].traits.state is _PENDING
            held, pending = held - (not is_pending), pending - is_pending
        if after is not None and after.application_id == application_id:
            is_pending = after.state is _PENDING
            held, pending = held + (not is_pending), pending + is_pending
    return held, pending


def _new_applications(state: PartitionState, events: Iterable[Event]) -> str | None:
    new = [
        {
            "id": event.application_id,
            "submission": written_submission(application),
            "queue": application.queue.queue_path,
            "grp": application.group,
            "stage": 0,
        }
        for event in events
        if isinstance(event, ApplicationSubmitted)
        for application in [state.applications[event.application_id]]
    ]
    return json.dumps(new) if new else None


def _line_changes(loaded: Slice, lines: Mapping[str, Allocation | None]) -> tuple[list[str], list[int], str | None]:
    """Return the lines that go, with their marks, and those that are written."""
    gone: list[tuple[str, int]] = []
    put = []
    for name, after in sorted(lines.items()):
        before = loaded.entries.get(name)
        stays = before and after and before[0].application.application_id == after.application_id
        if before is not None and not stays:
            gone.append((name, before[1]))
        if after is not None:
            put.append(_written(after, before[1] if before is not None and stays else None))
    return [name for name, _ in gone], [mark for _, mark in gone], json.dumps(put) if put else None


def _written(line: Allocation, mark: int | None) -> dict[str, Any]:
    told = {**line._asdict(), "usage": dict(line.usage), "state": line.state.value, "mark": mark}
    told["id"], told["application"] = told.pop("allocation_id"), told.pop("application_id")
    return told


def _count(counters: dict[Place, _Growth], loaded: Slice, name: str, events: Iterable[Event], *, checks: bool) -> None:
    """Add what has happened to an application to its counters."""
    held = loaded.applications[name]
    more, asked = _balance(name, events)
    starts = (stage_of(held.application) & 1) - (held.stage & 1)
    if not more and not asked and not starts:
        return
    chain, held_to = loaded.chains[name]
    for node in filter(is_limiting, chain):
        growth = counters.setdefault(place_of(node), _Growth())
        for resource, amount in more.items():
            growth.more[resource] = growth.more.get(resource, 0) + amount
        growth.more[None] = growth.more.get(None, 0) + starts
        if checks and node in held_to:
            is_queue = node.owner.kind is TrackingType.QUEUE
            _limit(growth, node.limit, [one for one, amount in asked.items() if amount or is_queue], starts)


def _limit(growth: _Growth, limit: Limit, asked: Iterable[str], starts: int) -> None:
    for name in asked:
        if limit.maximum(name) < UNLIMITED:
            growth.most[name] = limit.maximum(name)
    if starts > 0 and limit.applications:
        growth.most[None] = limit.applications


def _balance(name: str, events: Iterable[Event]) -> tuple[dict[str, int], dict[str, int]]:
    """Return what an application has become more, by resource, and what of that was asked for."""
    more: dict[str, int] = {}
    is_exchange = False
    for event in events:
        if not isinstance(event, Allocated | Resized | Released) or event.allocation.application_id != name:
            continue
        is_exchange = is_exchange or not isinstance(event, Allocated)
        sign = -1 if isinstance(event, Released) else 1
        for resource, amount in event.allocation.usage.items():
            more[resource] = more.get(resource, 0) + sign * amount
        for resource, amount in event.before.items() if isinstance(event, Resized) else ():
            more[resource] = more.get(resource, 0) - amount
    asked = {resource: amount for resource, amount in more.items() if amount > 0 or not (amount or is_exchange)}
    return more, asked
