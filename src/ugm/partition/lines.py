"""All lines of the ledger by allocation id, each kept by its application.

Nearly every allocation is plain: held, of priority 0, preemptible, no placeholder. Of such a line nothing is stored but
the usage, which is the caller's object, and the application; its `Entry` is made for whoever asks. So an allocation
takes 139 bytes instead of 211 and is no object of its own, and the garbage collector has nothing to walk over where a
million of them are live.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from ugm.partition.application import Application
from ugm.partition.entry import Entry

__all__ = ["Lines"]


@final
class Lines:
    """The ledger: held, going and pending allocations, in the order in which they were first written.

    Invariant: `owners` names exactly the allocations that the applications list, with the application that lists them.
    """

    __slots__ = ("owners",)

    owners: dict[str, Application]

    def __init__(self) -> None:
        self.owners = {}

    def __getitem__(self, allocation_id: str) -> Entry:
        return self.owners[allocation_id].entry(allocation_id)

    def get(self, allocation_id: str) -> Entry | None:
        """Return the entry of an allocation; None if there is none."""
        owner = self.owners.get(allocation_id)
        return None if owner is None else owner.entry(allocation_id)

    def __contains__(self, allocation_id: str) -> bool:
        return allocation_id in self.owners

    def __len__(self) -> int:
        return len(self.owners)

    def items(self) -> Iterator[tuple[str, Entry]]:
        """Yield every allocation with its entry."""
        return ((allocation_id, owner.entry(allocation_id)) for allocation_id, owner in self.owners.items())

    def write(self, allocation_id: str, entry: Entry) -> None:
        """Write a line, in the place of the one that the same application had for the allocation."""
        self.owners[allocation_id] = entry.application
        entry.application.write(allocation_id, entry)

    def strike(self, allocation_id: str) -> None:
        """Strike a line."""
        self.owners.pop(allocation_id).strike(allocation_id)

    def clear(self) -> None:
        """Forget all lines; their applications still list them."""
        self.owners.clear()
