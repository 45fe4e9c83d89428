"""The accounts that a claim counts for: those of its user, of one of its groups, of its queue, and others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, final

from ugm.budgets.budget import Budget
from ugm.errors import RequestError
from ugm.identity import WILDCARD, is_below
from ugm.model import Claim, Scope

__all__ = ["ChainFinder", "Coverage"]

#: Returns the elastic group or quota node of a claim, and those above it, in any order.
ChainFinder: TypeAlias = Callable[[Claim], Iterable[str]]


@final
class Coverage:
    """Finds the owners of the accounts of a claim.

    Args:
        budgets: the budgets.
        chains: for elastic groups and quota nodes, the functions that return those of a claim.

    Raises:
        RequestError: a budget of an elastic group or quota node has no such function.
    """

    __slots__ = ("_budgets", "_chains", "_groups", "_users")

    def __init__(self, budgets: Sequence[Budget], chains: Mapping[Scope, ChainFinder]) -> None:
        self._budgets: Final = tuple(budgets)
        self._chains: Final = dict(chains)
        #: The users and the groups that budgets of a queue name.
        self._users: Final = _named(budgets, Scope.USER)
        self._groups: Final = _named(budgets, Scope.GROUP)
        for budget in budgets:
            if budget.scope in (Scope.ELASTIC_GROUP, Scope.QUOTA_NODE) and budget.scope not in chains:
                reason = f"a function that returns the {budget.scope}s of a claim is needed"
                raise RequestError("budgets", budget.name, reason)

    @property
    def depends_on_claim(self) -> bool:
        """True if the owners depend on more than the user and the queue of a claim."""
        return bool(self._chains)

    def owners(self, claim: Claim) -> Iterator[tuple[Budget, str]]:
        """Yield each budget that covers a claim, with the owner of its account, in the order of the budgets."""
        chains = {scope: frozenset(find(claim)) for scope, find in self._chains.items()}
        for budget in self._budgets:
            if not is_below(claim.queue_path, budget.queue):
                continue
            owner = self._owner(budget, claim, chains)
            if owner is not None:
                yield budget, owner

    def _owner(self, budget: Budget, claim: Claim, chains: Mapping[Scope, frozenset[str]]) -> str | None:
        match budget.scope:
            case Scope.USER:
                name = claim.user.name
                is_rest = budget.owner == WILDCARD and name not in self._users.get(budget.queue, ())
                return name if is_rest or budget.owner == name else None
            case Scope.GROUP:
                return budget.owner if budget.owner == self._group(budget.queue, claim.user.groups) else None
            case Scope.QUEUE:
                return budget.queue
            case scope:
                return budget.owner if budget.owner in chains[scope] else None

    def _group(self, queue_path: str, groups: tuple[str, ...]) -> str | None:
        """Return the group for which a claim counts in a queue: the first that a budget names, or the wildcard."""
        named = self._groups.get(queue_path, frozenset())
        return next((group for group in groups if group in named), WILDCARD if groups else None)


def _named(budgets: Iterable[Budget], scope: Scope) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for budget in budgets:
        if budget.scope is scope and budget.owner != WILDCARD:
            found.setdefault(budget.queue, set()).add(budget.owner)
    return {queue_path: frozenset(names) for queue_path, names in found.items()}
