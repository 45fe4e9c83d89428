"""The ledger: the rows of a partition, and their indexes by application and allocation.

Every change of a row goes through `Ledger.put`, which lists it in the changes of the operation, or through one of the
two methods for nearly all changes, `Ledger.add` and `Ledger.remove_held`. They do not charge the counters of users,
groups and queues; see `ugm.partition.engine.state`.

Invariant: everything here but the tables follows from the rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from weakref import ref

from ugm.decision import Decision
from ugm.engine_lock import EngineLock
from ugm.model import Claim
from ugm.partition.config.compiled import CompiledConfig
from ugm.partition.engine.application import Application, ChangeMarks, PendingUsage, PromisedEnds
from ugm.partition.events import Denied
from ugm.partition.rows import (
    Allocation,
    AllocationRequest,
    AllocationState,
    ApplicationRow,
    Change,
    ConfigurationRow,
    PartitionRow,
    RequestRow,
    Row,
    Tables,
)
from ugm.queues.tree import QueueTree
from ugm.resources import Resource

_LOGGER: Final = logging.getLogger(__name__)
_PENDING: Final = AllocationState.PENDING
_TERMINATING: Final = AllocationState.TERMINATING
#: `Change(...)` takes twice as long.
_new: Final = tuple.__new__


class Ledger:
    """The rows of a partition.

    Args:
        compiled: the configuration in force.
        lock: the lock of the partition, which owns the changes of the operation.
    """

    #: The queues, each with its applications.
    tree: QueueTree

    def __init__(self, compiled: CompiledConfig, lock: EngineLock) -> None:
        self.lock: Final = lock
        self.tables: Final = Tables()
        self.tables.configuration[""] = ConfigurationRow(compiled)
        #: Held, terminating and pending allocations by id, in the order in which they were first written.
        self.allocations: Final = self.tables.allocations
        self.applications: Final[dict[str, Application]] = {}
        #: Finds the allocations whose promised end has passed.
        self.ends: PromisedEnds = PromisedEnds(self.allocations)
        #: The pending allocations for which a plan of preemption has made room, in the order of these plans.
        self.placed: dict[str, None] = {}
        self.terminating: set[str] = set()
        #: Counts pending work; None if nothing limits it.
        self.pending_usage: PendingUsage | None = None
        #: Returns the marks of the readers that follow all changes.
        self.readers: tuple[Callable[[], ChangeMarks | None], ...] = ()
        #: Whether subscribers or a log get changes and denials.
        self.is_recorded: bool = False
        #: The numbers of the last application that was submitted, and of the last request.
        self.submitted: int = 0
        self.requested: int = 0

    # Rows

    def put(self, table: str, key: str, row: Row | None, cause: str = "") -> None:
        """Write a row, or remove it if it is None, as a change of the current operation."""
        old = self.tables.by_name[table].get(key)
        self.lock.changes.append(_new(Change, (table, key, old, row, cause)))
        self.set_row(table, key, old, row)

    def set_row(self, table: str, key: str, old: Any, new: Any) -> None:  # noqa: ANN401 - rows of the table
        """Write a row in place of another one, and update the indexes; None is no row."""
        if new is not None:
            self.tables.by_name[table][key] = new
        elif old is not None:
            del self.tables.by_name[table][key]
        if table == "allocation":
            self.list_allocation(old, new)
        elif table == "application":
            self.list_application(old, new)
        elif table == "request":
            self.list_request(key, new)

    def list_allocation(self, old: Allocation | None, new: Allocation | None) -> None:
        """Note the change of the row of an allocation."""
        if old is not None:
            application = self.applications[old.application_id]
            self._count_pending(application, old, -1)
            if new is None or (old.state is _PENDING) != (new.state is _PENDING):
                del (application.pending if old.state is _PENDING else application.allocations)[old.allocation_id]
                self.terminating.discard(old.allocation_id)
        if new is not None:
            application = self.applications[new.application_id]
            self._count_pending(application, new, 1)
            (application.pending if new.state is _PENDING else application.allocations)[new.allocation_id] = new
            if new.until is not None:
                self.ends.add(new.until, new.allocation_id)
            if new.state is _TERMINATING:
                self.terminating.add(new.allocation_id)

    def _count_pending(self, application: Application, row: Allocation, sign: int) -> None:
        if row.state is _PENDING and self.pending_usage is not None:
            self.pending_usage.count(application, row.usage, sign)

    def list_request(self, allocation_id: str, request: RequestRow | None) -> None:
        """Note the facts about a pending allocation; None if it is not pending any more."""
        self.placed.pop(allocation_id, None)
        if request is not None:
            self.requested = max(self.requested, request.number)
            if request.placed:
                self.placed[allocation_id] = None

    def list_application(self, old: ApplicationRow | None, new: ApplicationRow | None) -> None:
        """Note the change of the row of an application."""
        if new is None:
            assert old is not None  # noqa: S101 - a removed row
            application = self.applications.pop(old.application_id)
            del application.queue.applications[old.application_id]
            if self.pending_usage is not None:
                self.pending_usage.submit(application, -1)
        elif old is not None:
            self.applications[new.application_id].row = new
        else:
            queue = self.tree.queues[new.queue_path]
            application = self.applications[new.application_id] = Application(new, queue)
            queue.applications[new.application_id] = application
            self.submitted = max(self.submitted, new.number)
            if self.pending_usage is not None:
                self.pending_usage.submit(application, 1)

    def list_everything(self) -> None:
        """Note all rows again."""
        self.applications.clear()
        self.ends, self.placed, self.terminating = PromisedEnds(self.allocations), {}, set()
        self.pending_usage = None
        for application in sorted(self.tables.applications.values(), key=lambda one: one.number):
            self.list_application(None, application)
        for row in self.allocations.values():
            if row.state is not _PENDING:
                self.list_allocation(None, row)
        for allocation_id, request in sorted(self.tables.requests.items(), key=lambda item: item[1].number):
            self.list_allocation(None, self.allocations[allocation_id])
            self.list_request(allocation_id, request)

    # Allocations

    def write(self, row: Allocation, replaces: str = "") -> None:
        """Write a row in place of the previous one of the allocation, which has the same application."""
        name, is_requested = row.allocation_id, row.allocation_id in self.tables.requests
        if row.state is not _PENDING and is_requested:
            self.put("request", name, None)
        elif row.state is _PENDING and not is_requested:
            self.put("request", name, RequestRow(self.requested + 1))
        self.put("allocation", name, row, replaces)

    def add(self, application: Application, row: Allocation) -> None:
        """Write a new allocation of an application, which is held."""
        # What `put` does, in less time: nearly all changes are of this kind.
        name, until = row[0], row[7]
        self.lock.changes.append(_new(Change, ("allocation", name, None, row, "")))
        self.allocations[name] = application.allocations[name] = row
        if until is not None:
            self.ends.add(until, name)

    def remove_held(self, application: Application, row: Allocation) -> None:
        """Remove an allocation of an application, which is not pending."""
        name = row[0]
        self.lock.changes.append(_new(Change, ("allocation", name, row, None, "")))
        del self.allocations[name], application.allocations[name]
        if self.terminating:
            self.terminating.discard(name)

    def remove(self, allocation_id: str) -> None:
        """Remove an allocation."""
        if allocation_id in self.tables.requests:
            self.put("request", allocation_id, None)
        self.put("allocation", allocation_id, None)

    def mark_terminating(self, row: Allocation) -> None:
        """Mark an allocation as terminating."""
        if row.state is not _TERMINATING:
            self.write(row._replace(state=_TERMINATING))

    def mark_placed(self, row: Allocation, node: str | None) -> None:
        """Note that a plan has made room for a pending allocation, on a node if one is named."""
        name = row.allocation_id
        if name in self.placed and node in {None, row.node}:
            return
        self.write(row._replace(node=node or row.node))
        self.put("request", name, self.tables.requests[name]._replace(placed=True))

    def held(self, allocation_id: str) -> Allocation | None:
        """Return an allocation that is held or terminating; None if it is pending or does not exist."""
        row = self.allocations.get(allocation_id)
        return None if row is None or row.state is _PENDING else row

    def waiting_usage(self, allocation_id: str) -> Resource | None:
        """Return the usage of a pending allocation; None if it is not pending."""
        return self.allocations[allocation_id].usage if allocation_id in self.tables.requests else None

    def terminating_rows(self) -> dict[str, Allocation]:
        """Return the terminating allocations, sorted by id."""
        return {name: self.allocations[name] for name in sorted(self.terminating)}

    def placed_rows(self) -> dict[str, Allocation]:
        """Return the pending allocations for which a plan has made room."""
        return {name: self.allocations[name] for name in self.placed}

    def owner(self, row: Allocation) -> Application:
        """Return the application of an allocation."""
        return self.applications[row.application_id]

    def claim(self, row: Allocation) -> Claim:
        """Return an allocation as a claim for quota models."""
        return self.applications[row.application_id].claim(row)

    # Applications

    def change_application(self, application: Application, **facts: Any) -> None:  # noqa: ANN401 - fields of the row
        """Change facts about an application."""
        row = application.row._replace(**facts)
        if row != application.row:
            self.put("application", row.application_id, row)

    # The partition as a whole

    @property
    def row(self) -> PartitionRow:
        """The facts about the partition as a whole."""
        return self.tables.partition[""]

    def change_partition(self, cause: str = "", **facts: Any) -> None:  # noqa: ANN401 - fields of the row
        """Change facts about the partition as a whole."""
        row = self.row._replace(**facts)
        if row != self.row:
            self.put("partition", "", row, cause)

    # Changes that are no rows

    def note(self, table: str, value: object, key: str = "") -> None:
        """Add something that is no row to the changes of the operation, for subscribers and the log."""
        self.lock.changes.append(Change(table, key, None, value))

    def note_charges(self) -> None:
        """Note that counters are charged before any row changes: if the operation fails, they have to be made again."""
        self.lock.changes.append(Change("charge", "", None, None))

    def deny(self, requests: Sequence[AllocationRequest], decision: Decision) -> None:
        """Note a denial if subscribers or a log get it."""
        if self.is_recorded:
            self.note("denial", Denied(tuple(requests), decision))

    def follow_changes(self, marks: ChangeMarks) -> None:
        """Set the marks of a reader from now on, for as long as the program keeps them."""
        marks.everything = True
        self.readers = (*(one for one in self.readers if one() is not None), ref(marks))
        self.lock.follow = self._mark

    def mark_everything(self) -> None:
        """Let readers of changes read everything again."""
        for one in self.readers:
            reader = one()
            if reader is not None:
                reader.mark_everything()

    def _mark(self, changes: Sequence[object]) -> None:
        for one in self.readers:
            reader = one()
            if reader is not None:
                reader.mark(changes)

    # Putting back

    def revert_all(self) -> None:
        """Put back all rows and calls of an operation that is not final; a rebuild follows."""
        changes = self.lock.changes
        while changes:
            change = changes[-1]
            if isinstance(change, Change):
                if change.table in self.tables.by_name:
                    self.tables.write(change.table, change.key, change.old)
                changes.pop()
                continue
            try:
                change.take_back()
            except Exception:
                if changes and changes[-1] is change:
                    raise
                _LOGGER.exception("a quota model failed while a call was taken back; its state is unknown")

    def load(self, tables: Mapping[str, Mapping[str, Any]]) -> None:
        """Replace the rows; a rebuild follows. Tables of other names are ignored."""
        for name, rows in self.tables.by_name.items():
            found = tables.get(name)
            if found or (found is not None and name not in {"partition", "configuration"}):
                rows.clear()
                rows.update(found)
