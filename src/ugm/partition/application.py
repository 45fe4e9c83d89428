"""Applications and their entries in the ledger.

An application is submitted once and placed once. Its state is never stored. It follows from five facts: its
allocations, its pending allocations, whether it is charged to the counters, whether it has ever run, and whether it has
failed. So the state cannot disagree with the counters.

Source: Apache YuniKorn, user based resource usage tracking, "Running state entry" and "Running state exit".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias, final

from ugm.identity import UserGroup
from ugm.model import Claim
from ugm.partition.allocation import PLAIN, Allocation, AllocationState, Traits, shared_traits
from ugm.queues.placement import Submission
from ugm.queues.queue import Queue
from ugm.resources import Resource
from ugm.tracking.holding import Amounts, Holding, amounts_by_name

__all__ = ["Application", "ApplicationCopy", "ApplicationInfo", "ApplicationState", "GangStyle", "LedgerEntry"]


class ApplicationState(StrEnum):
    """The state of an application."""

    #: Submitted and placed, without granted or pending allocations.
    NEW = "new"
    #: Something is pending, and nothing is allocated, either not yet or no longer.
    ACCEPTED = "accepted"
    #: From the first allocation until the last is released and nothing is pending.
    RUNNING = "running"
    #: Has run, holds nothing, and nothing is pending. It runs again with its next allocation.
    COMPLETING = "completing"
    #: Finished, and removed from the partition.
    COMPLETED = "completed"
    #: Receives no more allocations, and counts until its last allocation is released.
    FAILING = "failing"
    #: Failed, and removed from the partition.
    FAILED = "failed"


class GangStyle(StrEnum):
    """The consequence of a gang that is not complete in time."""

    #: The application continues without a gang.
    SOFT = "soft"
    #: The application fails.
    HARD = "hard"


#: The properties of a request.
_REQUESTED: Final = ("application_id", "usage", "placeholder", "priority", "preemptible", "duration", "node")


class LedgerEntry(NamedTuple):
    """One entry of the ledger: an allocation of an application. It is replaced, never changed."""

    application: Application
    usage: Resource
    traits: Traits

    def in_state(self, state: AllocationState) -> LedgerEntry:
        """Return the entry in another state."""
        return self._replace(traits=shared_traits(state, *self.traits[1:]))

    def granted(self, now: int) -> LedgerEntry:
        """Return a pending entry as it is held if it is granted now."""
        _, placeholder, priority, preemptible, _, duration, node = self.traits
        until = None if duration is None else now + duration
        traits = shared_traits(AllocationState.HELD, placeholder, priority, preemptible, until, duration, node)
        return self._replace(traits=traits)

    def with_promise(self, until: int | None, duration: int | None) -> LedgerEntry:
        """Return the entry with another promised end and duration."""
        return self._replace(traits=shared_traits(*self.traits[:4], until, duration, self.traits.node))

    def on_node(self, node: str | None) -> LedgerEntry:
        """Return the entry on another node."""
        return self._replace(traits=shared_traits(*self.traits[:6], node))

    def difference(self, other: LedgerEntry) -> tuple[str, object, object] | None:
        """Return the first property in which the requests of two entries differ, with both values; None for none.

        The state and the promised end are no properties of a request.
        """
        return next(
            (
                (name, mine, theirs)
                for name, mine, theirs in zip(_REQUESTED, self._requested(), other._requested(), strict=True)
                if mine != theirs
            ),
            None,
        )

    def _requested(self) -> tuple[object, ...]:
        _, placeholder, priority, preemptible, _, duration, node = self.traits
        return self.application.application_id, self.usage, placeholder, priority, preemptible, duration, node

    def claim(self, allocation_id: str) -> Claim:
        """Return the entry as a claim for quota models."""
        application, usage, (_, _, priority, preemptible, until, _, _) = self
        application_id, user, _, tags = application.submission
        path = application.queue.queue_path
        # `Claim(...)` takes twice as long.
        return tuple.__new__(
            Claim, (allocation_id, application_id, usage, path, user, tags, priority, preemptible, until)
        )

    def to_allocation(self, allocation_id: str) -> Allocation:
        """Return the entry as a value for callers."""
        application, usage, traits = self
        return Allocation.of(allocation_id, application.application_id, usage, traits)


#: The group of an application that has never run; None means that it has no group.
_UNCHOSEN: Final = ""

#: How many times as many requests as are pending `Application.requested` may have.
_FORGOTTEN: Final = 4

#: Everything that changes in the life of an application, except its allocations.
_Fields: TypeAlias = tuple[Holding | None, str | None, bool, bool, bool, bool]


@final
class Application:
    """One application of a partition."""

    __slots__ = (
        "allocations",
        "allows_fast_path",
        "failing",
        "gang_style",
        "group",
        "has_replaced",
        "has_run",
        "holding",
        "is_adopted",
        "number",
        "pending",
        "queue",
        "requested",
        "submission",
    )

    submission: Submission
    gang_style: GangStyle
    #: The queue in which it was placed, for its whole lifetime.
    queue: Queue
    #: Its held and terminating allocations by id: only the usage of a plain allocation, the entry of any other.
    allocations: dict[str, Resource | LedgerEntry]
    #: Its pending allocations by id, in the order of their requests.
    pending: dict[str, LedgerEntry]
    #: The ids of its requests in their order, also of some that are no longer pending.
    requested: list[str]
    #: The sum of its allocations, and the counters that are charged with it; None while it is not running.
    holding: Holding | None
    #: The group that it is charged to, which never changes; None for no group, empty until its first allocation.
    group: str | None
    has_run: bool
    #: Whether a real allocation has ever replaced a placeholder.
    has_replaced: bool
    failing: bool
    #: Whether the fast path may serve it: only its user, its group and its queues limit it, nothing is recorded, and it
    #: may get more.
    allows_fast_path: bool
    #: Whether it was adopted, so that the arguments of its submission are unknown.
    is_adopted: bool
    #: Its place in the order of submission; later applications have higher numbers.
    number: int

    def __init__(self, submission: Submission, queue: Queue, gang_style: GangStyle) -> None:
        self.submission = submission
        self.queue = queue
        self.gang_style = gang_style
        self.allocations = {}
        self.pending = {}
        self.requested = []
        self.holding = None
        self.group = _UNCHOSEN
        self.has_run = False
        self.has_replaced = False
        self.failing = False
        self.allows_fast_path = True
        self.is_adopted = False
        self.number = 0

    @property
    def application_id(self) -> str:
        """The id of the application."""
        return self.submission.application_id

    @property
    def is_running(self) -> bool:
        """True if it runs according to its allocations and its last state: pending allocations keep it running."""
        return bool(self.allocations) or (self.holding is not None and bool(self.pending))

    @property
    def has_chosen_group(self) -> bool:
        """True if its group is chosen."""
        return self.group != _UNCHOSEN

    def start(self, holding: Holding) -> None:
        """Begin to run. The group that the holding is charged to never changes from now on."""
        self.holding = holding
        self.group = None if holding.group is None else holding.group.name
        self.has_run = True

    def undo_start(self, holding: Holding | None, group: str | None, has_run: bool) -> None:  # noqa: FBT001 - an undo step
        """Undo that the application has started or stopped; the counters are rebuilt."""
        self.holding, self.group, self.has_run = holding, group, has_run

    def mutable_fields(self) -> _Fields:
        """Return everything that changes in the life of the application, except its allocations."""
        return self.holding, self.group, self.has_run, self.has_replaced, self.failing, self.allows_fast_path

    def restore_fields(self, *fields: *_Fields) -> None:
        """Undo changes of `mutable_fields`; the counters are rebuilt."""
        self.holding, self.group, self.has_run, self.has_replaced, self.failing, self.allows_fast_path = fields

    def held(self) -> dict[str, int] | None:
        """Return the sum of its allocations by resource name; None if it is not running."""
        return None if self.holding is None else self.holding.held()

    # Its entries in the ledger

    def claim(self, allocation_id: str, stored: Resource | LedgerEntry) -> Claim:
        """Return the claim of a value of `allocations`, like `LedgerEntry.claim`."""
        if isinstance(stored, LedgerEntry):
            return stored.claim(allocation_id)
        application_id, user, _, tags = self.submission
        # `Claim(...)` takes twice as long.
        return tuple.__new__(
            Claim, (allocation_id, application_id, stored, self.queue.queue_path, user, tags, 0, True, None)
        )

    def entry(self, allocation_id: str) -> LedgerEntry:
        """Return the entry of one of its allocations, which may be pending."""
        return self.pending.get(allocation_id) or self.to_entry(self.allocations[allocation_id])

    def entries(self) -> dict[str, LedgerEntry]:
        """Return the entries of its held and terminating allocations by id."""
        return {name: self.to_entry(stored) for name, stored in self.allocations.items()}

    def to_entry(self, stored: Resource | LedgerEntry) -> LedgerEntry:
        """Return the entry that a value of `allocations` or of `pending` represents."""
        return stored if isinstance(stored, LedgerEntry) else LedgerEntry(self, stored, PLAIN)

    def write(self, allocation_id: str, entry: LedgerEntry) -> None:
        """Store the entry of an allocation in place of its previous one."""
        if entry.traits.state is AllocationState.PENDING:
            if allocation_id not in self.pending:
                self._note_request(allocation_id)
            self.pending[allocation_id] = entry
            return
        self.pending.pop(allocation_id, None)
        self.allocations[allocation_id] = entry.usage if entry.traits == PLAIN else entry

    def _note_request(self, allocation_id: str) -> None:
        if len(self.requested) > _FORGOTTEN * len(self.pending) + _FORGOTTEN:
            self.requested = list(self.pending)
        self.requested.append(allocation_id)

    def sort_pending(self) -> None:
        """Return pending allocations to their places, because an undo step has added them again, behind the others."""
        places = {allocation_id: place for place, allocation_id in enumerate(self.requested)}
        self.pending = dict(sorted(self.pending.items(), key=lambda item: places.get(item[0], len(places))))

    def remove(self, allocation_id: str) -> None:
        """Remove the entry of an allocation."""
        if self.pending.pop(allocation_id, None) is None:
            del self.allocations[allocation_id]

    def placeholders(self) -> Iterator[tuple[str, LedgerEntry]]:
        """Yield the placeholders that were not replaced."""
        entries = ((name, stored) for name, stored in self.allocations.items() if isinstance(stored, LedgerEntry))
        return ((name, entry) for name, entry in entries if entry.traits.placeholder)

    @property
    def state(self) -> ApplicationState:
        """The state that follows from the facts."""
        if self.failing:
            return ApplicationState.FAILING if self.allocations else ApplicationState.FAILED
        if self.holding is not None:
            return ApplicationState.RUNNING
        if self.pending:
            return ApplicationState.ACCEPTED
        return ApplicationState.COMPLETING if self.has_run else ApplicationState.NEW

    def info(self, state: ApplicationState | None = None) -> ApplicationInfo:
        """Return the application as a value for callers, in its current state or in the last one of its life."""
        return self.copy(state).info()

    def copy(self, state: ApplicationState | None = None) -> ApplicationCopy:
        """Copy everything that `info` needs, in a short time."""
        amounts = None if self.holding is None else self.holding.amounts
        stored = list(self.allocations.values())
        return ApplicationCopy(self, state or self.state, self.group, amounts, stored, len(self.pending))


class ApplicationCopy(NamedTuple):
    """An application, with copies of everything that changes. Its information is computed without the lock."""

    application: Application
    state: ApplicationState
    group: str | None
    amounts: Amounts | None
    stored: list[Resource | LedgerEntry]
    pending: int

    def info(self) -> ApplicationInfo:
        """Return the application as a value for callers."""
        submission = self.application.submission
        traits = [one.traits for one in self.stored if isinstance(one, LedgerEntry)]
        return ApplicationInfo(
            application_id=submission.application_id,
            user=submission.user,
            queue_path=self.application.queue.queue_path,
            state=self.state,
            group=self.group or None,
            usage=Resource(amounts_by_name(self.amounts) if self.amounts else {}).without_zeros(),
            allocations=len(self.stored),
            terminating=sum(1 for one in traits if one.state is AllocationState.TERMINATING),
            placeholders=sum(1 for one in traits if one.placeholder),
            pending=self.pending,
            tags=dict(submission.tags),
        )


@dataclass(frozen=True, slots=True)
class ApplicationInfo:
    """An application at one moment."""

    application_id: str
    user: UserGroup
    queue_path: str
    state: ApplicationState
    #: The group that it is charged to; None if there is none, or it has not run yet.
    group: str | None
    #: The sum of its allocations, without zeros.
    usage: Resource
    #: The number of its allocations, including terminating ones and placeholders.
    allocations: int
    #: The number of its terminating allocations.
    terminating: int
    placeholders: int
    pending: int
    tags: Mapping[str, str]

    def to_dict(self) -> dict[str, object]:
        """Return the application for JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values |= {
            "user": {"name": self.user.name, "groups": list(self.user.groups)},
            "state": self.state.value,
            "usage": dict(self.usage),
            "tags": dict(self.tags),
        }
        return values
