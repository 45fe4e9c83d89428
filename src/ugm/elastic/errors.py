"""What is wrong with a group, or with a change of it."""

from __future__ import annotations

from typing import Final, NamedTuple

from ugm.errors import UgmError

__all__ = ["GroupError", "Refusal"]


class Refusal(NamedTuple):
    """One rule that stands in the way of a change."""

    #: The group that was to be created, changed, deleted or joined.
    group: str
    #: A stable word for programs, for example ``min_exceeds_max``.
    rule: str
    #: For people, as the end of a sentence.
    reason: str

    def __str__(self) -> str:
        return f"elastic group {self.group!r}: {self.reason} [{self.rule}]"


class GroupError(UgmError, ValueError):
    """A change of the elastic groups is refused; nothing has changed.

    Attributes:
        refusals: every rule in the way, as far as they could be checked, in the order of the rules; never empty.
    """

    def __init__(self, refusals: tuple[Refusal, ...]) -> None:
        super().__init__(refusals)
        self.refusals: Final = refusals

    def __str__(self) -> str:
        return "\n".join(str(refusal) for refusal in self.refusals)
