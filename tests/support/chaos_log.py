"""The examination of a store after faults, without the engine: limits, and the changes that clients were told of."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from support.chaos_limits import DYNAMIC, Sums
from ugm import Resource
from ugm.partition.events import (
    Allocated,
    ApplicationSubmitted,
    ConfigurationChanged,
    Event,
    QueueQuotaSet,
    Released,
    Resized,
    events_of,
)
from ugm.store import StoreReader, open_partition
from ugm.store.reader import StoreLocation


def events_in(place: StoreLocation) -> list[Event]:
    """Return the events of all changes in a store that has them all."""
    found: list[Event] = []
    number = 0
    with StoreReader(place) as reader:
        while transactions := reader.changes(number):
            for one in transactions:
                found += events_of(one.changes)
            number = transactions[-1].number
        assert number == reader.number
    return found


class Examination:
    """A store, examined change by change without the engine.

    Attributes:
        events: the allocations that were obtained, resized and released, by allocation id: the kind, memory and cores.
    """

    def __init__(self, place: StoreLocation) -> None:
        self.events = defaultdict[str, list[tuple[str, list[int]]]](list)
        self._sums = Sums()
        self._applications: dict[str, ApplicationSubmitted] = {}
        self._allocations: dict[str, tuple[str, Resource]] = {}
        for event in events_in(place):
            self._apply(event)
        with open_partition(place) as partition:
            partition.verify()
            assert set(partition.allocation_ids()) == set(self._allocations)

    def _apply(self, event: Event) -> None:
        if isinstance(event, ApplicationSubmitted):
            self._applications[event.application_id] = event
        elif isinstance(event, ConfigurationChanged):
            config = event.after.config
            assert config is not None
            assert config.queues is not None
            limit = config.queues[0].limits[0].max_resources
            assert limit is not None
            self._sums.memory = limit["memory"]
        elif isinstance(event, QueueQuotaSet):
            assert event.queue_path == DYNAMIC
            self._sums.quota = event.quota["memory"]
        elif isinstance(event, (Allocated, Resized, Released)):
            self._apply_allocation(event)

    def _apply_allocation(self, event: Allocated | Resized | Released) -> None:
        allocation_id, application_id, usage, *_ = event.allocation
        assert (allocation_id in self._allocations) != isinstance(event, Allocated), event
        _, before = self._allocations.pop(allocation_id, ("", Resource()))
        after = Resource()
        if not isinstance(event, Released):
            self._allocations[allocation_id], after = (application_id, usage), usage
        self._sums.change(self._applications[application_id], before, after)
        self.events[allocation_id].append((type(event).__name__, [usage["memory"], usage["vcore"]]))

    def require_reported(self, lines: list[dict[str, Any]], *, is_released: bool = False) -> int:
        """Check that the log has every change that a client was told of exactly once; return their number.

        Each name is used by one thread of one process, so its calls and its events have the same order. A call without
        an answer may have taken effect or not.

        Args:
            lines: the report of a client.
            is_released: whether another process may have released its allocations at the end.
        """
        calls = [line for line in lines if "call" in line]
        names = {name for line in calls for name in line["names"]}
        result = 0
        for name in sorted(names):
            count, left = self._match(name, [line for line in calls if name in line["names"]])
            if is_released and left and left[-1] == "Released":
                left.pop()
            # The process may have been killed while it made its last call.
            assert len(left) <= 1, f"{name}: the log has {left}, and no call"
            result += count
        return result

    def _match(self, name: str, calls: list[dict[str, Any]]) -> tuple[int, list[str]]:
        """Return the number of acknowledged changes of a name, and the events after the last call.

        A call without an answer had an effect or not. All combinations that agree with the events so far are followed:
        the number of events that have happened, and the usage that is held, with the number of acknowledged changes.
        """
        events = self.events[name]
        states: dict[tuple[int, tuple[int, ...]], int] = {(0, ()): 0}
        for call in calls:
            is_certain, after = call["answer"] is True, dict[tuple[int, tuple[int, ...]], int]()
            for (position, held), count in states.items():
                kind, usage = _effect(call, name, list(held))
                if not kind or not is_certain:
                    after[position, held] = max(count, after.get((position, held), 0))
                if kind and call["answer"] is not False and events[position : position + 1] == [(kind, usage)]:
                    state = position + 1, () if kind == "Released" else tuple(usage)
                    after[state] = max(count + is_certain, after.get(state, 0))
            assert after, f"{name}: {call} is not in the log: {events}, after {states}"
            states = after
        (position, _), count = max(states.items())
        return count, [kind for kind, _ in events[position:]]


def _effect(call: dict[str, Any], name: str, held: list[int]) -> tuple[str, list[int]]:
    """Return the event that a call causes for a name, and the usage in it; empty if it changes nothing."""
    kind = call["call"]
    usage: list[int] = held if kind == "release" else call["usages"][call["names"].index(name)]
    if kind == "release":
        return "Released" if held else "", usage
    if kind == "resize":
        return "Resized" if held and held != usage else "", usage
    return "" if held else "Allocated", usage
