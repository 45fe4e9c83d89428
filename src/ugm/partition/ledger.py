"""All lines of the ledger by allocation id, each kept by its application.

Nearly every allocation is plain: held, of priority 0, preemptible, and not a placeholder. The ledger stores only the
usage of such an allocation, which is the caller's object, and its application. It makes the `LedgerEntry` on demand.
So an allocation takes 139 bytes instead of 211, and the garbage collector has no objects to visit where a million
allocations are live.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar, final

from ugm.operation_lock import Step
from ugm.partition.application import Application
from ugm.partition.ledger_entry import LedgerEntry
from ugm.resources import Resource

__all__ = ["AllocationLedger", "put"]

T = TypeVar("T")


@final
class AllocationLedger:
    """The ledger: held, going and pending allocations, in the order in which they were first written.

    Invariant: `owners` names exactly the allocations that the applications list, with the application that lists them.
    After an interruption `owners` is right, and an application may list an allocation that is not there.

    Args:
        undo: the undo list of the current operation.
    """

    __slots__ = ("_undo", "owners")

    owners: dict[str, Application]

    def __init__(self, undo: list[Step]) -> None:
        self.owners = {}
        self._undo: Final = undo

    def __getitem__(self, allocation_id: str) -> LedgerEntry:
        return self.owners[allocation_id].entry(allocation_id)

    def get(self, allocation_id: str) -> LedgerEntry | None:
        """Return the entry of an allocation; None if there is none."""
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
        """Write a line, in the place of the one that the same application had for the allocation."""
        self._note(allocation_id, entry.application)
        self.owners[allocation_id] = entry.application
        entry.application.write(allocation_id, entry)

    def strike(self, allocation_id: str) -> None:
        """Strike a line."""
        owner = self.owners[allocation_id]
        self._note(allocation_id, owner)
        del self.owners[allocation_id]
        owner.strike(allocation_id)

    def _note(self, allocation_id: str, application: Application) -> None:
        """Note what an application lists for an allocation, to undo a change of it."""
        is_known = allocation_id in self.owners
        line, pending = application.lines.get(allocation_id), application.pending.get(allocation_id)
        self._undo.append((self._restore, (allocation_id, application, is_known, line, pending)))

    def _restore(
        self,
        allocation_id: str,
        application: Application,
        is_known: bool,  # noqa: FBT001 - called with what `_note` lists
        line: Resource | LedgerEntry | None,
        pending: LedgerEntry | None,
    ) -> None:
        put(application.lines, allocation_id, line)
        put(application.pending, allocation_id, pending)
        put(self.owners, allocation_id, application if is_known else None)

    def clear(self) -> None:
        """Forget all lines; their applications still list them."""
        self.owners.clear()

    def repair(self, applications: Iterable[Application]) -> None:
        """Let all applications list exactly what `owners` says, after an interruption."""
        for application in applications:
            for listing in (application.lines, application.pending):
                for allocation_id in [name for name in listing if self.owners.get(name) is not application]:
                    del listing[allocation_id]
            for allocation_id in [name for name in application.pending if name in application.lines]:
                del application.pending[allocation_id]


def put(listing: dict[str, T], name: str, value: T | None) -> None:
    """Set an item, or remove it with None; it keeps its place if it is there."""
    if value is None:
        listing.pop(name, None)
    else:
        listing[name] = value
