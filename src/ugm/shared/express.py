"""The short way for most allocations: plain ones, of an application that is running, given back by whom they are of.

What the database has to be told of an application and its limits is worked out once an epoch; granting and giving back
is one statement each, without loading anything. Whatever is not so, or turns out not to be so, goes the long way of
`ugm.shared.engine`, which then also finds the words for a denial.
"""

from __future__ import annotations

import json
from typing import Any, Final, final

from ugm.arguments import require_name
from ugm.hierarchy import UNLIMITED, Limit
from ugm.identity import TrackingType
from ugm.partition.subject_queries import is_limiting
from ugm.resources import MAX_QUANTITY, MEMORY, VCORE, Resource
from ugm.shared.database import Moved, Short
from ugm.shared.engine import Engine, Need, Tools
from ugm.shared.slices import Held, place_of

__all__ = ["Express"]

#: How many applications, allocations and sizes are remembered.
_APPLICATIONS: Final = 1 << 14
_LINES: Final = 1 << 18
_SIZES: Final = 1 << 8

_BOTH: Final = {VCORE, MEMORY}

#: How a step is made; see ``tables.sql``.
_STEP: Final = (
    "SELECT {schema}.step(%s::bigint, %s::bigint, %s::bigint, %s::bigint, %s, %s::bigint, %s::integer, %s, %s,"
    " %s::bigint, %s::bigint[], %s::bigint, %s::bigint, %s::bigint[], %s::bigint[])"
)

#: What the database is told of one size: the usage, and the arguments for the counters, taken and given back.
_Size = tuple[str, tuple[Any, ...], tuple[Any, ...]]


@final
class _Known:
    """A running application."""

    __slots__ = ("identity", "limits", "lines", "sizes")

    def __init__(self, application_id: str, held: Held) -> None:
        #: What the database compares: another application with this id has another generation.
        self.identity: Final = (application_id, str(held.generation), str(held.stage))
        #: How many allocations it probably has.
        self.lines = held.held + held.pending
        #: Its counters, each with the limit there if it is held to that, and whether it is a queue's; sorted.
        self.limits: list[tuple[int, Limit | None, bool]] = []
        self.sizes: Final[dict[Resource, _Size]] = {}

    def size(self, usage: Resource) -> _Size | None:
        """Return what to tell of a usage; None if that is not for here."""
        known = self.sizes.get(usage)
        if known is None and usage.keys() <= _BOTH and all(0 <= amount <= MAX_QUANTITY for amount in usage.values()):
            if len(self.sizes) >= _SIZES:
                self.sizes.clear()
            known = self.sizes[usage] = (json.dumps(dict(usage)), self._told(usage, 1), self._told(usage, -1))
        return known

    def _told(self, usage: Resource, sign: int) -> tuple[Any, ...]:
        most = [
            _array(
                [
                    limit.maximum(name) if limit and name in usage and (usage[name] or is_queue) else UNLIMITED
                    for _, limit, is_queue in self.limits
                ]
            )
            for name in (VCORE, MEMORY)
        ]
        ids = _array([key for key, _, _ in self.limits])
        return (ids, str(sign * usage.get(VCORE, 0)), str(sign * usage.get(MEMORY, 0)), *most)


def _array(values: list[int]) -> str:
    return "{" + ",".join("NULL" if value == UNLIMITED else str(value) for value in values) + "}"


@final
class Express:
    """What one process knows of applications that are running, and of allocations that it was granted."""

    __slots__ = ("_applications", "_engine", "_epoch", "_lines", "_step")

    def __init__(self, engine: Engine) -> None:
        self._engine: Final = engine
        self._step: Final = engine.database.text(_STEP)
        self._epoch = 0
        self._applications: dict[str, _Known] = {}
        #: Allocation id to application, usage and mark.
        self._lines: dict[str, tuple[str, Resource, int]] = {}

    def allocate(self, allocation_id: object, application_id: object, usage: object) -> bool:
        """Grant an allocation, and return whether that was possible here.

        Raises:
            RequestError: the allocation id cannot be used.
        """
        require_name("allocation_id", allocation_id)
        if not (type(application_id) is str and type(allocation_id) is str):
            return False
        if type(usage) is not Resource or allocation_id in self._lines:
            return False
        known = self._known(application_id)
        size = known and known.size(usage)
        if known is None or size is None:
            return False
        mark = self._sent(known, (*known.identity, allocation_id, size[0], None, *size[1]), 1)
        if mark is None:
            return False
        if len(self._lines) >= _LINES:
            self._lines.clear()
        self._lines[allocation_id] = (application_id, usage, mark)
        return True

    def release(self, allocation_id: str) -> bool:
        """Give an allocation back, and return whether that was possible here."""
        line = self._lines.pop(allocation_id, None)
        if line is None:
            return False
        application_id, usage, mark = line
        known = self._known(application_id)
        size = known and known.size(usage)
        # The last allocation ends more than itself.
        if known is None or size is None or known.lines <= 1:
            return False
        step = (*known.identity, allocation_id, None, str(mark), *size[2])
        return self._sent(known, step, -1) is not None

    def _sent(self, known: _Known, step: tuple[Any, ...], more: int) -> int | None:
        """Make a step, and return the mark of its line; None if it was not possible."""
        try:
            mark = self._engine.send(self._step, step)
        except (Moved, Short):
            # It is loaded anew when it is needed next.
            self._applications.pop(step[0], None)
            return None
        known.lines += more
        return mark

    def _known(self, application_id: str) -> _Known | None:
        epoch = self._engine.structure.epoch
        if epoch != self._epoch:
            self._applications.clear()
            self._epoch = epoch
        found = self._applications.get(application_id)
        if found is None:
            found = self._engine.ask(
                Need(applications=(application_id,)), lambda tools: self._look(tools, application_id)
            )
            if found is not None and self._engine.structure.epoch == self._epoch:
                if len(self._applications) >= _APPLICATIONS:
                    self._applications.clear()
                self._applications[application_id] = found
        return found

    def _look(self, tools: Tools, application_id: str) -> _Known | None:
        application = tools.state.applications.get(application_id)
        if application is None or application.holding is None or application.failing:
            return None
        known = _Known(application_id, self._engine.loaded_as(application_id))
        chain = application.holding.chain()
        enforced = application.holding.enforced(chain)
        known.limits = sorted(
            (
                (
                    self._engine.counter(place_of(node)),
                    node.limit if node in enforced else None,
                    node.owner.kind is TrackingType.QUEUE,
                )
                for node in chain
                if is_limiting(node)
            ),
            key=lambda one: one[0],
        )
        return known
