"""The ledger of allocations: all entries by allocation id, each stored by its application.

Most allocations are plain: held, of priority 0, preemptible, no placeholder, without a promised end and a node. For a
plain allocation the ledger stores only the usage, which is the caller's object, and the application. It makes the
`LedgerEntry` on demand. So an allocation takes 139 bytes instead of 211, and the garbage collector has no objects to
visit where there are a million allocations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar, final

from ugm.operation_lock import Step
from ugm.partition.allocation import AllocationState
from ugm.partition.application import Application, LedgerEntry
from ugm.partition.pending_usage import PendingUsage
from ugm.partition.promised_ends import PromisedEnds
from ugm.resources import Resource

__all__ = ["AllocationLedger", "put"]

T = TypeVar("T")


@final
class AllocationLedger:
    """The held, terminating and pending allocations, in the order in which they were first written.

    Invariant: `owners` contains exactly the allocations that the applications store, with their applications. After an
    interruption `owners` is right, and an application may store an allocation that is not in it.

    Args:
        undo: the undo list of the current operation.
    """

    __slots__ = ("_undo", "ends", "owners", "pending_usage")

    owners: dict[str, Application]
    #: Finds the allocations whose promised end has passed.
    ends: PromisedEnds
    #: Counts pending entries; None if nothing limits them.
    pending_usage: PendingUsage | None

    def __init__(self, undo: list[Step]) -> None:
        self.owners = {}
        self.ends = PromisedEnds(self._end)
        self.pending_usage = None
        self._undo: Final = undo

    def __getitem__(self, allocation_id: str) -> LedgerEntry:
        return self.owners[allocation_id].entry(allocation_id)

    def get(self, allocation_id: str) -> LedgerEntry | None:
        """Return the entry of an allocation, or None if it does not exist."""
        owner = self.owners.get(allocation_id)
        return None if owner is None else owner.entry(allocation_id)

    def __contains__(self, allocation_id: str) -> bool:
        return allocation_id in self.owners

    def __len__(self) -> int:
        return len(self.owners)

    def items(self) -> Iterator[tuple[str, LedgerEntry]]:
        """Yield every allocation with its entry."""
        return ((allocation_id, owner.entry(allocation_id)) for allocation_id, owner in self.owners.items())

    def write(self, allocation_id: str, entry: LedgerEntry) -> None:
        """Write an entry in place of the previous entry of the allocation, which has the same application."""
        self._add_undo_step(allocation_id, entry.application)
        self.owners[allocation_id] = entry.application
        if self.pending_usage is not None:
            is_pending = entry.traits.state is AllocationState.PENDING
            self._count_pending(entry.application, allocation_id, entry if is_pending else None)
        entry.application.write(allocation_id, entry)
        if entry.traits.until is not None:
            self._add_end(allocation_id)

    def _end(self, allocation_id: str) -> int | None:
        """Return the promised end of an allocation; None if it has none, is pending or does not exist."""
        entry = self.get(allocation_id)
        return None if entry is None else entry.traits.until

    def _add_end(self, allocation_id: str) -> None:
        end = self._end(allocation_id)
        if end is not None:
            self.ends.add(end, allocation_id)

    def remove(self, allocation_id: str) -> None:
        """Remove the entry of an allocation."""
        owner = self.owners[allocation_id]
        self._add_undo_step(allocation_id, owner)
        del self.owners[allocation_id]
        if self.pending_usage is not None:
            self._count_pending(owner, allocation_id, None)
        owner.remove(allocation_id)

    def _count_pending(self, application: Application, allocation_id: str, entry: LedgerEntry | None) -> None:
        """Count a pending entry, or None, in place of the present one."""
        if self.pending_usage is not None:
            self.pending_usage.replace(application, application.pending.get(allocation_id), entry)

    def _add_undo_step(self, allocation_id: str, application: Application) -> None:
        """List how to restore the present entry of an allocation."""
        is_known = allocation_id in self.owners
        stored, pending = application.allocations.get(allocation_id), application.pending.get(allocation_id)
        self._undo.append((self._restore, (allocation_id, application, is_known, stored, pending)))

    def _restore(
        self,
        allocation_id: str,
        application: Application,
        is_known: bool,  # noqa: FBT001 - called with the values of `_add_undo_step`
        stored: Resource | LedgerEntry | None,
        pending: LedgerEntry | None,
    ) -> None:
        if self.pending_usage is not None:
            self._count_pending(application, allocation_id, pending)
        put(application.allocations, allocation_id, stored)
        put(application.pending, allocation_id, pending)
        put(self.owners, allocation_id, application if is_known else None)
        self._add_end(allocation_id)

    def undo_grant(self, allocation_id: str, application: Application) -> None:
        """Undo that a new allocation was written without `write`; the counters are rebuilt."""
        self._restore(allocation_id, application, False, None, None)  # noqa: FBT003 - as above

    def undo_release(self, allocation_id: str, application: Application, stored: Resource | LedgerEntry) -> None:
        """Undo that an allocation that is not pending was removed without `remove`; the counters are rebuilt."""
        self._restore(allocation_id, application, True, stored, None)  # noqa: FBT003 - as above

    def clear(self) -> None:
        """Remove all entries, which their applications still store."""
        self.owners.clear()

    def repair(self, applications: Iterable[Application]) -> None:
        """Remove from all applications what `owners` does not contain, after an interruption, and sort the rest."""
        for application in applications:
            for stored in (application.allocations, application.pending):
                for allocation_id in [name for name in stored if self.owners.get(name) is not application]:
                    del stored[allocation_id]
            for allocation_id in [name for name in application.pending if name in application.allocations]:
                del application.pending[allocation_id]
            if application.pending:
                application.sort_pending()
        self.ends = PromisedEnds(self._end)
        for allocation_id in self.owners:
            self._add_end(allocation_id)


def put(mapping: dict[str, T], name: str, value: T | None) -> None:
    """Set an item, which keeps its position if it exists, or remove it if the value is None."""
    if value is None:
        mapping.pop(name, None)
    else:
        mapping[name] = value
