"""The errors of a store."""

from __future__ import annotations

from typing import Final

from ugm.errors import OutageError

__all__ = ["StoreDamagedError", "StoreDeposedError", "StoreError", "StoreHeldError"]


class StoreError(OutageError):
    """A store cannot be used, or cannot be written now.

    Attributes:
        path: the file, or the address of the database without the password.
        reason: the problem, as the end of a sentence.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path: Final = path
        self.reason: Final = reason

    def __str__(self) -> str:
        return f"store {self.path}: {self.reason}"


class StoreDamagedError(StoreError):
    """The content of a store differs from what was written. The store is not used at all."""

    # The code of all damage of stored data.
    code = "store-damaged"


class StoreHeldError(StoreError):
    """A store is open for writing in another process, or twice in this process.

    Attributes:
        holder: the name of the leader, for people; empty if it is unknown.
    """

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(path, f"{holder or 'another process'} has it open for writing")
        self.args: tuple[object, ...] = (path, holder)
        self.holder: Final = holder


class StoreDeposedError(StoreError):
    """Another process leads now. This process can never write the store again.

    A change in doubt took effect only if the new leader found it.

    Attributes:
        term: the term of the other leader.
    """

    def __init__(self, path: str, term: int) -> None:
        super().__init__(path, f"another process has become the leader, in term {term}")
        self.args: tuple[object, ...] = (path, term)
        self.term: Final = term
