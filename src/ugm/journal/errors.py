"""What can be wrong with a journal: it cannot be written, it is damaged, or another process writes it.

Everything else that goes wrong with a file is left as the `OSError` that it is.
"""

from __future__ import annotations

from typing import Final

from ugm.errors import UgmError

__all__ = ["JournalDamagedError", "JournalError", "JournalHeldError"]


class JournalError(UgmError):
    """A journal cannot be used, or cannot be written now.

    Attributes:
        path: the file.
        reason: what is wrong, as the end of a sentence.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path: Final = path
        self.reason: Final = reason

    def __str__(self) -> str:
        return f"journal {self.path}: {self.reason}"


class JournalDamagedError(JournalError):
    """A journal does not say what was written into it. Nothing of it is used.

    Attributes:
        readable: the last change up to which everything can be read; 0 for nothing.
    """

    def __init__(self, path: str, reason: str, readable: int) -> None:
        super().__init__(path, reason)
        self.args = (path, reason, readable)
        self.readable: Final = readable

    def __str__(self) -> str:
        told = f"changes up to number {self.readable} are readable" if self.readable else "nothing is readable"
        return f"{super().__str__()}; {told}"


class JournalHeldError(JournalError):
    """Another process, or another part of this one, has the journal open for writing.

    Attributes:
        holder: its process id; None if it has not said yet.
    """

    def __init__(self, path: str, holder: int | None) -> None:
        whose = "another process" if holder is None else f"process {holder}"
        super().__init__(path, f"{whose} has it open for writing")
        self.args = (path, holder)
        self.holder: Final = holder
