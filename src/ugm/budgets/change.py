"""Changes of budgets by an operator, as values: a journal stores them, and a repeated one is recognised.

>>> BudgetChange.refill("lab", Resource(gpu=3600), reason="the conference").kind.value
'refill'
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Self

from ugm._json_values import JsonObject
from ugm.arguments import require_name, require_resource
from ugm.errors import RequestError
from ugm.resources import Resource

__all__ = ["BudgetChange", "BudgetChangeKind"]

#: The most characters of a reason.
_LONGEST_REASON = 1000


class BudgetChangeKind(StrEnum):
    """The kind of a change of a budget."""

    #: New amounts, from now on.
    SET = "set"
    #: A higher limit of one account in its current period.
    REFILL = "refill"
    #: A part of what remains in one account is moved to another.
    TRANSFER = "transfer"


class BudgetChange(NamedTuple):
    """A change of a budget."""

    kind: BudgetChangeKind
    #: The budget; of a transfer, the source.
    budget: str
    #: In amounts times seconds: the new amounts, or those that are added or moved.
    amounts: Resource
    #: The owner of the account; empty for that of the budget, if it has one account, and for new amounts.
    owner: str
    #: Of a transfer: the budget that receives the amounts, and the owner of its account; empty for others.
    recipient: str
    recipient_owner: str
    #: For people.
    reason: str
    #: Identifies the change, so that a repeated call has no effect; empty if a repetition is another change.
    change_id: str

    @classmethod
    def of(
        cls,
        kind: str,
        budget: str,
        amounts: Resource,
        *,
        owner: str = "",
        recipient: str = "",
        recipient_owner: str = "",
        reason: str = "",
        change_id: str = "",
    ) -> Self:
        """Return a change, after a check of its arguments.

        Raises:
            RequestError: an argument is invalid, or the kind of change does not have it.
        """
        if kind not in tuple(BudgetChangeKind):
            raise RequestError("kind", kind, f"expected {', '.join(BudgetChangeKind)}")
        is_transfer = kind == BudgetChangeKind.TRANSFER
        _require("owner", owner, is_allowed=kind != BudgetChangeKind.SET)
        _require("recipient", recipient, is_allowed=is_transfer, is_required=is_transfer)
        _require("recipient_owner", recipient_owner, is_allowed=is_transfer)
        _require("change_id", change_id, is_allowed=True)
        _require_reason(reason)
        checked = require_resource("amounts", amounts)
        names = require_name("budget", budget), checked, owner, recipient, recipient_owner
        return cls(BudgetChangeKind(kind), *names, reason, change_id)

    @classmethod
    def set(cls, budget: str, amounts: Resource, *, reason: str = "", change_id: str = "") -> Self:
        """Return the change to new amounts; see `Budgets.set`."""
        return cls.of(BudgetChangeKind.SET, budget, amounts, reason=reason, change_id=change_id)

    @classmethod
    def refill(cls, budget: str, amounts: Resource, *, owner: str = "", reason: str = "", change_id: str = "") -> Self:
        """Return the change to a higher limit in the current period; see `Budgets.refill`."""
        return cls.of(BudgetChangeKind.REFILL, budget, amounts, owner=owner, reason=reason, change_id=change_id)

    @classmethod
    def transfer(
        cls,
        source: str,
        recipient: str,
        amounts: Resource,
        *,
        source_owner: str = "",
        recipient_owner: str = "",
        reason: str = "",
        change_id: str = "",
    ) -> Self:
        """Return the move of amounts from one account to another; see `Budgets.transfer`."""
        owners = {"owner": source_owner, "recipient": recipient, "recipient_owner": recipient_owner}
        return cls.of(BudgetChangeKind.TRANSFER, source, amounts, **owners, reason=reason, change_id=change_id)

    def checked(self) -> Self:
        """Return the change, after a check of its fields.

        Raises:
            RequestError: a field is invalid.
        """
        kind, budget, amounts, *_ = self
        return self.of(kind, budget, amounts, **{name: getattr(self, name) for name in self._fields[3:]})

    def to_dict(self) -> JsonObject:
        """Return the change for JSON."""
        return {**self._asdict(), "kind": self.kind.value, "amounts": dict(self.amounts)}


def _require_reason(reason: object) -> None:
    if not isinstance(reason, str) or len(reason) > _LONGEST_REASON:
        raise RequestError("reason", reason, f"expected a text of up to {_LONGEST_REASON} characters")


def _require(argument: str, name: object, *, is_allowed: bool, is_required: bool = False) -> None:
    """Check a name that may be empty.

    Raises:
        RequestError: it is not a name, or is missing, or must be empty.
    """
    if name != "" or is_required:
        require_name(argument, name)
    if name and not is_allowed:
        raise RequestError(argument, name, "this kind of change has no such argument")
