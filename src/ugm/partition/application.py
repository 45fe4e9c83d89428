"""Applications: submitted once, placed once, and at every moment in a state that follows from what they hold.

The state is never stored. It follows from four facts: what the application holds, what is pending, whether it has ever
run, and whether it has failed. So it cannot disagree with the counters.

Source: Apache YuniKorn, user based resource usage tracking, "Running state entry" and "Running state exit".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple, final

from ugm.identity import UserGroup
from ugm.partition.ledger_entry import PLAIN, AllocationState, LedgerEntry
from ugm.queues import Queue
from ugm.queues.placement import Submission
from ugm.resources import Resource
from ugm.tracking.holding import Holding

__all__ = ["Application", "ApplicationInfo", "ApplicationState", "GangStyle"]


class ApplicationState(StrEnum):
    """How far an application has come."""

    #: Submitted and placed; nothing is asked for.
    NEW = "new"
    #: Something is pending; nothing is allocated yet, or nothing any more.
    ACCEPTED = "accepted"
    #: From the first allocation until the last is gone and nothing is pending.
    RUNNING = "running"
    #: Has run, holds nothing, and nothing is pending; runs again with the next allocation.
    COMPLETING = "completing"
    #: Ended in good order; the partition has forgotten it.
    COMPLETED = "completed"
    #: Gets nothing more, and is still counted until its last allocation is released.
    FAILING = "failing"
    #: Ended by failing; the partition has forgotten it.
    FAILED = "failed"


class GangStyle(StrEnum):
    """What becomes of an application whose gang is not complete in time."""

    #: It goes on without a gang.
    SOFT = "soft"
    #: It fails.
    HARD = "hard"


#: The group of an application that has never run; None is a choice.
_UNCHOSEN: Final = ""


@final
class Application:
    """One application of a partition."""

    __slots__ = (
        "failing",
        "gang_style",
        "group",
        "has_replaced",
        "has_run",
        "holding",
        "is_adopted",
        "is_plain",
        "lines",
        "pending",
        "queue",
        "submission",
    )

    submission: Submission
    gang_style: GangStyle
    #: Where it was placed, for good.
    queue: Queue
    #: Its allocations, held or going: of a plain one what it takes, of any other the entry.
    lines: dict[str, Resource | LedgerEntry]
    #: What it asks for and does not have yet.
    pending: dict[str, LedgerEntry]
    #: What all allocations add up to, and whom they are charged to; None while it is not running.
    holding: Holding | None
    #: The group that it is charged to for good, None for none; empty until its first allocation.
    group: str | None
    has_run: bool
    #: Whether a real allocation has ever taken the place of a placeholder.
    has_replaced: bool
    failing: bool
    #: Whether nobody but its user, its group and its queues has a say in what it gets, and it may get more.
    is_plain: bool
    #: Whether it was listed where it had been placed before, so that what it was submitted with is not known.
    is_adopted: bool

    def __init__(self, submission: Submission, queue: Queue, gang_style: GangStyle) -> None:
        self.submission = submission
        self.queue = queue
        self.gang_style = gang_style
        self.lines = {}
        self.pending = {}
        self.holding = None
        self.group = _UNCHOSEN
        self.has_run = False
        self.has_replaced = False
        self.failing = False
        self.is_plain = True
        self.is_adopted = False

    @property
    def application_id(self) -> str:
        """Its id."""
        return self.submission.application_id

    @property
    def is_running(self) -> bool:
        """Whether it runs, as far as its allocations and its last state say: while anything is pending, it runs on."""
        return bool(self.lines) or (self.holding is not None and bool(self.pending))

    @property
    def is_placed_in_a_group(self) -> bool:
        """Whether the choice of its group has been made."""
        return self.group != _UNCHOSEN

    def started(self, holding: Holding) -> None:
        """Begin to run; the group that this is charged to stays for good."""
        self.holding = holding
        self.group = None if holding.group is None else holding.group.name
        self.has_run = True

    def undo_start(self, holding: Holding | None, group: str | None, has_run: bool) -> None:  # noqa: FBT001
        """Undo that the application has started or stopped; the counters are rebuilt."""
        self.holding, self.group, self.has_run = holding, group, has_run

    def facts(self) -> tuple[Any, ...]:
        """Return everything that changes in the life of the application, but its allocations."""
        return self.holding, self.group, self.has_run, self.has_replaced, self.failing, self.is_plain

    def restore(self, *facts: Any) -> None:  # noqa: ANN401 - as `facts` returned them
        """Undo changes of `facts`; the counters are rebuilt."""
        self.holding, self.group, self.has_run, self.has_replaced, self.failing, self.is_plain = facts

    def held(self) -> Mapping[str, int] | None:
        """Return what it holds, by resource name; None if it is not running."""
        return None if self.holding is None else self.holding.held()

    # Its lines of the ledger

    def entry(self, allocation_id: str) -> LedgerEntry:
        """Return one of its allocations, pending or not."""
        return self.pending.get(allocation_id) or self.entry_of(self.lines[allocation_id])

    def entries(self) -> dict[str, LedgerEntry]:
        """Return its allocations, held or going, by id."""
        return {name: self.entry_of(line) for name, line in self.lines.items()}

    def entry_of(self, line: Resource | LedgerEntry) -> LedgerEntry:
        """Return what one of `lines` or of `pending` stands for."""
        return line if isinstance(line, LedgerEntry) else LedgerEntry(self, line, PLAIN)

    def write(self, allocation_id: str, entry: LedgerEntry) -> None:
        """List an allocation, in the place of what was listed for it."""
        if entry.traits.state is AllocationState.PENDING:
            self.pending[allocation_id] = entry
            return
        self.pending.pop(allocation_id, None)
        self.lines[allocation_id] = entry.usage if entry.traits == PLAIN else entry

    def strike(self, allocation_id: str) -> None:
        """List an allocation no longer."""
        if self.pending.pop(allocation_id, None) is None:
            del self.lines[allocation_id]

    def placeholders(self) -> Iterator[tuple[str, LedgerEntry]]:
        """Yield the placeholders that nothing has replaced."""
        return ((name, entry) for name, entry in self._marked() if entry.traits.placeholder)

    def _marked(self) -> Iterator[tuple[str, LedgerEntry]]:
        """Yield its allocations, held or going, that are not plain: of many thousand hardly any."""
        return ((name, line) for name, line in self.lines.items() if isinstance(line, LedgerEntry))

    @property
    def state(self) -> ApplicationState:
        """How far it has come."""
        if self.failing:
            return ApplicationState.FAILING if self.lines else ApplicationState.FAILED
        if self.holding is not None:
            return ApplicationState.RUNNING
        if self.pending:
            return ApplicationState.ACCEPTED
        return ApplicationState.COMPLETING if self.has_run else ApplicationState.NEW

    def shown(self, state: ApplicationState | None = None) -> ApplicationInfo:
        """Return the application for somebody outside, as it is or in the last state of its life."""
        traits = [entry.traits for _, entry in self._marked()]
        return ApplicationInfo(
            self.application_id,
            self.submission.user,
            self.queue.queue_path,
            state or self.state,
            self.group or None,
            Resource(self.held() or {}).without_zeros(),
            len(self.lines),
            sum(1 for one in traits if one.state is AllocationState.TERMINATING),
            sum(1 for one in traits if one.placeholder),
            len(self.pending),
            dict(self.submission.tags),
        )


class ApplicationInfo(NamedTuple):
    """An application at one moment."""

    application_id: str
    user: UserGroup
    queue_path: str
    state: ApplicationState
    #: The group that it is charged to; None if there is none, or it has not run yet.
    group: str | None
    #: What it holds, without zeros.
    usage: Resource
    #: How many allocations it has, terminating ones and placeholders included.
    allocations: int
    terminating: int
    placeholders: int
    pending: int
    tags: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return the application for JSON, in the same words as its attributes."""
        user = {"name": self.user.name, "groups": list(self.user.groups)}
        fields = self._asdict()
        converted = {"user": user, "usage": dict(self.usage), "state": self.state.value, "tags": dict(self.tags)}
        return {"going" if name == "terminating" else name: converted.get(name, fields[name]) for name in fields}
