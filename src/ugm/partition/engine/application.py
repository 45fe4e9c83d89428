"""Applications: their state, their allocations, and the indexes of both.

An application is submitted once and placed once. Its state is never stored. It follows from five facts: its
allocations, its pending allocations, whether it is charged to the counters, whether it has ever run, and whether it has
failed. So the state cannot disagree with the counters.

*Marks of changes.* A scheduling pass keeps a copy of the values that decide the order. Between two of its heads, other
callers may change the partition. Each reader has `ChangeMarks`, which the partition fills under its lock, and takes
them when it reads. Marks are set with every step of a change, even if the change is put back later. So a mark means
"perhaps".

*Promised ends.* A program looks for overdue allocations every few seconds, among a million. A search through all of
them would hold the lock for a long time, and an exact index would cost every release. So `PromisedEnds` is a heap of
ends and ids that only grows. An item is *stale* if the allocation has been released, or has another end by now; a
reader skips it. A new heap without stale items replaces the old one when most items may be stale.

*Pending work.* Each maximum in force for some application has an account: the number and the sum of the pending
requests, and the number of submitted applications. There are accounts only while a configuration limits pending work.
A request, its end, a submission and the end of an application take time proportional to the number of queues above.
Grants of new allocations and releases of held ones cost nothing.

Source: Apache YuniKorn, user based resource usage tracking, "Running state entry" and "Running state exit".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from heapq import heapify, heappop, heappush
from itertools import takewhile
from typing import Any, Final, NamedTuple, TypeAlias, final

from ugm._json_values import attributes
from ugm.decision import COUNTED_KINDS, EffectiveLimit, Violation
from ugm.identity import UserGroup
from ugm.model import Claim
from ugm.partition.config.compiled import (
    PENDING_REQUESTS,
    SUBMITTED_APPLICATIONS,
    AccountKey,
    Counted,
    PendingLimits,
    PendingMaximum,
)
from ugm.partition.rows import Allocation, AllocationState, ApplicationRow, Change
from ugm.queues.tree import Queue
from ugm.resources import Resource, smallest_amounts
from ugm.tracking.holding import Amounts, Holding, amounts_by_name

_PENDING: Final = AllocationState.PENDING
_TERMINATING: Final = AllocationState.TERMINATING


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


def claim_of(application: ApplicationRow, row: Allocation) -> Claim:
    """Return the claim of an allocation of an application."""
    application_id, user, path, _, tags, *_ = application
    name, _, usage, state, _, priority, preemptible, until, _, node, *_ = row
    node = None if state is _PENDING else node
    # `Claim(...)` takes twice as long.
    return tuple.__new__(Claim, (name, application_id, usage, path, user, tags, priority, preemptible, until, node))


#: The group of an application that has never run; None means that it has no group.
_UNCHOSEN: Final = ""


@final
class Application:
    """One application of a partition: its row, with everything that is looked up by application."""

    __slots__ = ("allocations", "holding", "pending", "queue", "row")

    row: ApplicationRow
    #: The queue in which it was placed, for its whole lifetime.
    queue: Queue
    #: Its held and terminating allocations by id.
    allocations: dict[str, Allocation]
    #: Its pending allocations by id, in the order of their requests.
    pending: dict[str, Allocation]
    #: The sum of its allocations, and the counters that are charged with it; None while it is not running.
    holding: Holding | None

    def __init__(self, row: ApplicationRow, queue: Queue) -> None:
        self.row = row
        self.queue = queue
        self.allocations = {}
        self.pending = {}
        self.holding = None

    @property
    def application_id(self) -> str:
        """The id of the application."""
        return self.row.application_id

    @property
    def has_chosen_group(self) -> bool:
        """True if its group is chosen."""
        return self.row.group != _UNCHOSEN

    def running_row(self, holding: Holding) -> ApplicationRow:
        """Return its row once it runs with a holding that was detached. Its group never changes from then on."""
        row, group = self.row, None if holding.group is None else holding.group.name
        # `_replace` takes several times as long.
        return tuple.__new__(ApplicationRow, (*row[:8], group, True, True, *row[11:]))

    def held(self) -> dict[str, int] | None:
        """Return the sum of its allocations by resource name; None if it is not running."""
        return None if self.holding is None else self.holding.held()

    def claim(self, row: Allocation) -> Claim:
        """Return the claim of one of its allocations."""
        return claim_of(self.row, row)

    @property
    def state(self) -> ApplicationState:
        """The state that follows from the facts."""
        if self.row.failing:
            return ApplicationState.FAILING if self.allocations else ApplicationState.FAILED
        if self.holding is not None:
            return ApplicationState.RUNNING
        if self.pending:
            return ApplicationState.ACCEPTED
        return ApplicationState.COMPLETING if self.row.has_run else ApplicationState.NEW

    def info(self, state: ApplicationState | None = None) -> ApplicationInfo:
        """Return the application as a value for callers, in its current state or in the last one of its life."""
        return self.copy(state).info()

    def copy(self, state: ApplicationState | None = None) -> ApplicationCopy:
        """Copy everything that `info` needs, in a short time."""
        amounts = None if self.holding is None else self.holding.amounts
        rows = list(self.allocations.values())
        return ApplicationCopy(self, state or self.state, self.row.group, amounts, rows, len(self.pending))


class ApplicationCopy(NamedTuple):
    """An application, with copies of everything that changes. Its information is computed without the lock."""

    application: Application
    state: ApplicationState
    group: str | None
    amounts: Amounts | None
    rows: list[Allocation]
    pending: int

    def info(self) -> ApplicationInfo:
        """Return the application as a value for callers."""
        row = self.application.row
        return ApplicationInfo(
            application_id=row.application_id,
            user=row.user,
            queue_path=row.queue_path,
            state=self.state,
            group=self.group or None,
            usage=Resource(amounts_by_name(self.amounts) if self.amounts else {}).without_zeros(),
            allocations=len(self.rows),
            terminating=sum(1 for one in self.rows if one.state is AllocationState.TERMINATING),
            placeholders=sum(1 for one in self.rows if one.placeholder),
            pending=self.pending,
            tags=dict(row.tags),
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
        return attributes(self, self.__slots__)


#: The tables of which every change may concern everything.
_OF_EVERYTHING: Final = ("node", "configuration", "budget")


@final
class ChangeMarks:
    """The objects that may have changed since the last `take`."""

    def __init__(self) -> None:
        #: The changed allocations of each changed application, in the order of their last request or else first change.
        self.applications: dict[str, dict[str, None]] = {}
        #: The applications that may have freed something, and the rows of those that were removed after that.
        self.freed: set[str] = set()
        self.ended: list[ApplicationRow] = []
        #: Whether queues, quotas, nodes or the configuration have changed.
        self.everything: bool = False
        #: Called, under the lock, when a waiting request may fit or a new one waits; None if no reader waits.
        self.notify: Callable[[], None] | None = None

    def take(self) -> dict[str, dict[str, None]]:
        """Return the changed applications, and forget all marks."""
        found, self.applications, self.everything = self.applications, {}, False
        self.freed, self.ended = set(), []
        return found

    def mark_everything(self) -> None:
        """Mark everything as changed, for example after the state was rebuilt."""
        self.everything = True
        if self.notify is not None:
            self.notify()

    def mark(self, changes: Iterable[object]) -> None:
        """Set the marks for the changes of an operation."""
        may_fit = False
        for change in changes:
            if type(change) is not Change:
                continue
            table, key, old, new, _ = change
            if table == "allocation":
                may_fit |= self._mark_allocation(key, old, new)
            elif table == "application":
                # Whether it runs, and in which group, follows from the changes of its allocations.
                if old is None or new is None or old.failing != new.failing:
                    self.applications.setdefault(key, {})
                if new is None and key in self.freed:
                    self.ended.append(old)
            elif table in _OF_EVERYTHING or (table == "queue" and new is not None and new.quota != (old and old.quota)):
                self.mark_everything()
        if may_fit and self.notify is not None:
            self.notify()

    def _mark_allocation(self, allocation_id: str, old: Any, new: Any) -> bool:  # noqa: ANN401 - of a change
        """Mark an allocation, and return whether a waiting request may fit or a new one waits."""
        if old is not None and new is not None and old.state is not new.state and new.state is _TERMINATING:
            # It counts until its release.
            return False
        application_id = (new or old).application_id
        changed = self.applications.setdefault(application_id, {})
        if old is None and new.state is _PENDING:
            # It comes after the requests before it, even if one with its id was withdrawn.
            changed.pop(allocation_id, None)
        changed[allocation_id] = None
        is_granted = new is not None and new.state is not _PENDING and (old is None or old.state is _PENDING)
        # A withdrawn request may end the run of its application, which then no longer counts as running. A promise of
        # an earlier end frees what budgets have committed.
        if new is None or (old is not None and not is_granted and new.state is not _PENDING):
            self.freed.add(application_id)
        return not is_granted


#: A heap of this size is never replaced.
_SMALL: Final = 64


@final
class PromisedEnds:
    """The promised ends of allocations.

    Args:
        rows: the allocations by id.
    """

    def __init__(self, rows: Mapping[str, Allocation]) -> None:
        self._rows: Final = rows
        #: Pairs of an end and an allocation id.
        self._heap: list[tuple[int, str]] = []
        #: The size at which the heap is replaced.
        self._most: int = _SMALL

    def _is_current(self, item: tuple[int, str]) -> bool:
        row = self._rows.get(item[1])
        return row is not None and row.until == item[0]

    def add(self, end: int, allocation_id: str) -> None:
        """Add the end of an allocation."""
        if len(self._heap) >= self._most:
            kept = list(filter(self._is_current, set(self._heap)))
            heapify(kept)
            self._heap, self._most = kept, max(_SMALL, 2 * len(kept))
        heappush(self._heap, (end, allocation_id))

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yield the ends with their allocations, sorted. A reader of the first ones does not pay for all others."""
        heap, last = self._heap, None
        #: The items whose parents were read, each with its position.
        front = [(item, 0) for item in heap[:1]]
        while front:
            item, position = heappop(front)
            if item != last and self._is_current(item):
                yield item
            last = item
            for below in (2 * position + 1, 2 * position + 2):
                if below < len(heap):
                    heappush(front, (heap[below], below))

    def until(self, now: int) -> list[str]:
        """Return the allocations whose end is not later than *now*, sorted by end and id."""
        return [name for _, name in takewhile(lambda item: item[0] <= now, self)]


#: Returns the group that a member of some groups would be charged to in a queue; None for none.
SelectGroup: TypeAlias = Callable[[str, tuple[str, ...]], str | None]


class PendingHeadroom(NamedTuple):
    """The pending work that a subject may still add; None where nothing limits it.

    A number or amount is negative if a limit was reduced below the pending work.
    """

    #: The number of further requests.
    requests: int | None = None
    #: The sum of their amounts, for each limited resource.
    resources: Resource | None = None
    #: The number of further applications.
    applications: int | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the headroom for JSON, with the names of its attributes."""
        return attributes(self, self._fields)


#: Amounts of pending work.
_Amounts: TypeAlias = Mapping[Counted, int]


@final
class _Account:
    """The pending work that counts for one maximum."""

    __slots__ = ("key", "maximum", "used")

    def __init__(self, key: AccountKey, maximum: PendingMaximum) -> None:
        self.key: Final = key
        self.maximum: Final = maximum
        self.used: Final = dict.fromkeys(maximum.amounts, 0)

    def exceeded(self, amounts: _Amounts) -> Iterator[Violation]:
        """Yield the maxima that more work would exceed; without amounts, those exceeded now."""
        path, kind, name = self.key
        for counted, limit in self.maximum.amounts.items():
            (work, resource), used, amount = counted, self.used[counted], amounts.get(counted, 0)
            if used + amount > limit and (amount or not amounts):
                where = f"{work} {kind}", name, path, self.maximum.limit_name
                yield Violation(*where, resource, limit, used, amount)

    def limits(self) -> Iterator[EffectiveLimit]:
        """Yield the maximum with what counts for it: of requests, and of submitted applications."""
        (path, kind, name), (place, limit_name, most) = self.key, self.maximum
        for work in COUNTED_KINDS:
            counted = [one for one in most if one[0] == work]
            if counted:
                limit, usage = (
                    Resource({one[1]: amounts[one] for one in counted if one[1] is not None})
                    for amounts in (most, self.used)
                )
                where, count = (f"{work} {kind}", name, path, limit_name, place), (work, None)
                yield EffectiveLimit(*where, limit or None, most.get(count, 0), usage, self.used.get(count, 0))

    def left(self) -> dict[Counted, int]:
        """Return the amounts that may be added."""
        return {counted: limit - self.used[counted] for counted, limit in self.maximum.amounts.items()}


@final
class PendingUsage:
    """The pending work of one partition.

    Args:
        limits: the limits on pending work.
        select_group: chooses the group of an application that has not run yet.
        applications: all applications.
    """

    def __init__(
        self, limits: PendingLimits, select_group: SelectGroup, applications: Iterable[Application] = ()
    ) -> None:
        self._limits: Final = limits
        self._select_group: Final = select_group
        self._accounts: Final[dict[AccountKey, _Account]] = {}
        for application in applications:
            self.submit(application, 1)
            for entry in application.pending.values():
                self.count(application, entry.usage, 1)

    # Changes

    def submit(self, application: Application, sign: int) -> None:
        """Count a submitted application, or with the sign -1 its end."""
        self._count(application, _SUBMISSION, sign)

    def count(self, application: Application, usage: Resource, sign: int) -> None:
        """Count a pending request of an application, or with the sign -1 its end."""
        self._count(application, _of_request(usage), sign)

    def _count(self, application: Application, amounts: _Amounts, sign: int) -> None:
        for account in self._accounts_of(application):
            for counted in account.used:
                account.used[counted] += sign * amounts.get(counted, 0)
            # An account is listed exactly while something counts.
            if any(account.used.values()):
                self._accounts[account.key] = account
            else:
                self._accounts.pop(account.key, None)

    def _accounts_of(self, application: Application) -> list[_Account]:
        """Return the accounts of all maxima; those that are not listed are new."""
        row = application.row
        return self._accounts_in(row.queue_path, row.user, row.group)

    def _accounts_in(self, path: str, user: UserGroup, group: str | None = _UNCHOSEN) -> list[_Account]:
        if group == _UNCHOSEN:
            group = self._select_group(path, user.groups)
        maxima = self._limits.maxima(path, user.name, group)
        return [self._accounts.get(key) or _Account(key, maximum) for key, maximum in maxima]

    # Queries

    def of_request(self, application: Application, usage: Resource) -> tuple[Violation, ...]:
        """Return every limit that one more pending request of an application would exceed."""
        accounts, amounts = self._accounts_of(application), _of_request(usage)
        return tuple(found for account in accounts for found in account.exceeded(amounts))

    def of_submission(self, queue_path: str, user: UserGroup) -> tuple[Violation, ...]:
        """Return every limit that one more application would exceed."""
        accounts = self._accounts_in(queue_path, user)
        return tuple(found for account in accounts for found in account.exceeded(_SUBMISSION))

    def exceeded(self) -> Iterator[Violation]:
        """Yield every limit that is exceeded, by queue, kind and name."""
        for key in sorted(self._accounts):
            yield from self._accounts[key].exceeded({})

    def limits(self, application: Application) -> tuple[EffectiveLimit, ...]:
        """Return every limit for an application."""
        return tuple(limit for account in self._accounts_of(application) for limit in account.limits())

    def headroom(self, application: Application) -> PendingHeadroom:
        """Return what an application may add."""
        left = [item for account in self._accounts_of(application) for item in account.left().items()]
        return PendingHeadroom(
            min((amount for counted, amount in left if counted == PENDING_REQUESTS), default=None),
            smallest_amounts((resource, amount) for (_, resource), amount in left if resource is not None),
            min((amount for counted, amount in left if counted == SUBMITTED_APPLICATIONS), default=None),
        )

    def state(self) -> dict[AccountKey, _Amounts]:
        """Return the numbers of every account, for a comparison."""
        return {key: dict(one.used) for key, one in self._accounts.items()}


_SUBMISSION: Final[_Amounts] = {SUBMITTED_APPLICATIONS: 1}


def _of_request(usage: Resource) -> _Amounts:
    return {PENDING_REQUESTS: 1, **{("pending", resource): amount for resource, amount in usage.items()}}
