"""The groups of each user when it last began to use something: they place a user that the share tree does not list.

The problem: a partition charges and refunds claims that are undone, for a gang that is denied, for a plan, or because
an operation has failed. Undone calls must leave the groups as they were, also if their undoing is interrupted. And it
charges all claims of its ledger again, which began earlier, after an interruption, a restart or another configuration.

The idea: within one operation, a refund of a noted claim restores the groups before it, and an allocation that is
charged again after its refund is not noted. So both are exact inverses, and a resized allocation stays in its account.
A claim of the ledger is noted only if its user has no groups, or if it was noted by the operation that failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from ugm.model import Claim

__all__ = ["LatestGroups"]

_NO_GROUPS: Final[tuple[str, ...]] = ()


@final
class LatestGroups:
    """The groups of users, which follow the claims of a quota model."""

    __slots__ = ("_by_user", "_first", "_is_ledger", "_noted", "_operation", "_refunded", "_tracked", "_undone")

    _by_user: dict[str, tuple[str, ...]]
    #: The number of the present operation, and that of the operation whose steps are known.
    _operation: int
    _tracked: int
    #: The claims that the operation has noted, with the groups before. By identity: an undone call has the same claim.
    _noted: dict[int, tuple[Claim, tuple[str, ...]]]
    #: The allocations that the operation has refunded.
    _refunded: set[str]
    #: The allocations whose claims were noted before a reset.
    _undone: set[str]
    #: Whether the claims are those of the ledger.
    _is_ledger: bool
    #: The allocations of the ledger that count for users who had no groups.
    _first: dict[str, str]

    def __init__(self, by_user: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self._by_user = dict(by_user or {})
        self._operation = self._tracked = 0
        self._noted, self._refunded, self._undone = {}, set(), set()
        self._is_ledger, self._first = False, {}

    def begin(self) -> None:
        """Begin an operation."""
        self._operation += 1
        self._is_ledger = False

    def expect_ledger(self) -> None:
        """Expect the claims of the ledger, in any order. Of those of a user without groups, the first id counts."""
        self._is_ledger, self._first = True, {}

    def charge(self, claim: Claim) -> None:
        """Note the groups of a user that begins to use something. A user without groups stays where it is."""
        user = claim.user
        if not user.groups:
            return
        if self._is_ledger:
            self._charge_again(claim)
        elif user.groups != self._by_user.get(user.name):
            self._track()
            if claim.allocation_id in self._refunded:
                self._refunded.discard(claim.allocation_id)
            else:
                self._note(claim)

    def _charge_again(self, claim: Claim) -> None:
        user, allocation_id = claim.user.name, claim.allocation_id
        if allocation_id in self._undone:
            self._note(claim)
        elif user not in self._by_user or allocation_id < self._first.get(user, ""):
            self._first[user] = allocation_id
            self._note(claim)

    def _note(self, claim: Claim) -> None:
        user = claim.user
        self._noted[id(claim)] = claim, self.of(user.name)
        self._set(user.name, user.groups)

    def refund(self, claim: Claim) -> None:
        """Undo the charge of a claim in the present operation. An earlier charge stays noted."""
        self._track()
        noted = self._noted.get(id(claim))
        if noted is None:
            self._refunded.add(claim.allocation_id)
            return
        self._set(claim.user.name, noted[1])
        del self._noted[id(claim)]

    def reset(self) -> None:
        """Undo what the last operation has noted, which may have failed. The claims of the ledger are charged again."""
        for claim, before in reversed(self._noted.values()):
            self._set(claim.user.name, before)
        # If the operation has succeeded, they are in the ledger.
        self._undone.update(claim.allocation_id for claim, _ in self._noted.values())
        self._noted, self._refunded = {}, set()
        self.expect_ledger()

    def _track(self) -> None:
        """Forget the steps of an earlier operation. Its claims that are still noted are those of the ledger."""
        if self._tracked != self._operation:
            self._noted, self._refunded, self._undone = {}, set(), set()
            self._tracked = self._operation

    def _set(self, user: str, groups: tuple[str, ...]) -> None:
        if groups:
            self._by_user[user] = groups
        else:
            self._by_user.pop(user, None)

    def of(self, user: str) -> tuple[str, ...]:
        """Return the groups of a user; none for a user that has used nothing."""
        return self._by_user.get(user, _NO_GROUPS)

    def copy(self) -> LatestGroups:
        """Return the same groups without an operation."""
        return LatestGroups(self._by_user)

    def to_dict(self) -> dict[str, list[str]]:
        """Return the groups of all users, for JSON."""
        return {user: list(groups) for user, groups in self._by_user.items()}
