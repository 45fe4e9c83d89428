"""Quota models that fail where a test wants, and what they have to hold according to the ledger of a partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from support.partition_fixtures import BrokenError
from ugm import Claim, Partition, Violation
from ugm.partition.engine.model_calls import row_calls

#: The calls that change a model.
CHANGES: Final = ("charge", "refund", "add_pending", "remove_pending")

#: What is charged and what waits, by allocation id.
State = tuple[dict[str, Claim], dict[str, Claim]]


class Fuse(NamedTuple):
    """Where a model fails: at the *time*-th of the next calls of a kind, before or after its effect."""

    call: str
    time: int
    is_after: bool


class Failing:
    """So many licences in all, and a list of what is charged and what waits; without `reset`."""

    def __init__(self, limit: int = 100, *, gives_up: tuple[str, ...] = (), resource: str = "licence") -> None:
        self.limit, self.gives_up, self.resource = limit, gives_up, resource
        self.charged: dict[str, Claim] = {}
        self.waiting: dict[str, Claim] = {}
        self.calls: list[str] = []
        self.fuse: Fuse | None = None
        #: Called in every call, before its effect and after it.
        self.trap: Callable[[str, bool], None] | None = None

    def arm(self, fuse: Fuse | None) -> None:
        """Fail at some of the next calls."""
        self.fuse = fuse
        self.calls.clear()

    def _pass(self, call: str, *, is_after: bool) -> None:
        if not is_after:
            self.calls.append(call)
        if self.trap is not None:
            self.trap(call, is_after)
        if self.fuse == Fuse(call, self.calls.count(call), is_after):
            raise BrokenError(call)

    def state(self) -> State:
        """Return everything that counts."""
        return self.charged.copy(), self.waiting.copy()

    @property
    def used(self) -> int:
        """The licences that are charged."""
        return sum(claim.usage.get(self.resource, 0) for claim in self.charged.values())

    def check(self, claim: Claim) -> list[Violation]:
        """Deny more than there are."""
        self._pass("check", is_after=False)
        used, requested = self.used, claim.usage.get(self.resource, 0)
        short = requested > 0 and used + requested > self.limit
        self._pass("check", is_after=True)
        return [Violation("licence", "solver", "", "", self.resource, self.limit, used, requested)] if short else []

    def evictions(self, claim: Claim) -> tuple[str, ...]:
        """Give up what is there of what is to be given up."""
        self._pass("evictions", is_after=False)
        found = tuple(name for name in self.gives_up if name in self.charged and name != claim.allocation_id)
        self._pass("evictions", is_after=True)
        return found

    def charge(self, claim: Claim) -> None:
        """Count a claim that is not counted yet."""
        self._pass("charge", is_after=False)
        assert claim.allocation_id not in self.charged
        self.charged[claim.allocation_id] = claim
        self._pass("charge", is_after=True)

    def refund(self, claim: Claim) -> None:
        """Forget an equal claim that is counted."""
        self._pass("refund", is_after=False)
        assert self.charged.pop(claim.allocation_id) == claim
        self._pass("refund", is_after=True)

    def add_pending(self, claim: Claim) -> None:
        """Let a claim wait."""
        self._pass("add_pending", is_after=False)
        assert claim.allocation_id not in self.waiting
        self.waiting[claim.allocation_id] = claim
        self._pass("add_pending", is_after=True)

    def remove_pending(self, claim: Claim) -> None:
        """Let an equal claim wait no longer."""
        self._pass("remove_pending", is_after=False)
        assert self.waiting.pop(claim.allocation_id) == claim
        self._pass("remove_pending", is_after=True)


class ResettableFailing(Failing):
    """The same with `reset`."""

    def reset(self) -> None:
        """Forget all claims."""
        self._pass("reset", is_after=False)
        self.charged, self.waiting = {}, {}
        self._pass("reset", is_after=True)


def ledger_of(partition: Partition) -> State:
    """Return what every model has to hold."""
    copy = Failing()
    for method, claim in row_calls(partition._state.tables):
        getattr(copy, method)(claim)
    return copy.state()
