"""The errors of a journal. Other errors of the file system are raised unchanged, as `OSError`."""

from __future__ import annotations

from typing import Final

from ugm.errors import OutageError

__all__ = ["FILE_MOVED", "DeposedError", "JournalDamagedError", "JournalError", "JournalHeldError"]

#: The reason why a journal is refused whose path no longer leads to the file that was opened.
FILE_MOVED: Final = "the file was moved, replaced or deleted while it was open; move it back, or open it again"


class JournalError(OutageError):
    """A journal cannot be used, or cannot be written now.

    Attributes:
        path: the file, or the address of the database without the password.
        reason: the problem, as the end of a sentence.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path: Final = path
        self.reason: Final = reason

    def __str__(self) -> str:
        return f"journal {self.path}: {self.reason}"


class JournalDamagedError(JournalError):
    """The content of a journal differs from what was written. The journal is not used at all.

    Attributes:
        readable: the number of the last change that can be read; 0 for none.
    """

    code = "journal-damaged"

    def __init__(self, path: str, reason: str, readable: int) -> None:
        super().__init__(path, reason)
        self.args: tuple[object, ...] = (path, reason, readable)
        self.readable: Final = readable

    def __str__(self) -> str:
        rest = f"changes up to number {self.readable} are readable" if self.readable else "nothing is readable"
        return f"{super().__str__()}; {rest}"


class JournalHeldError(JournalError):
    """A journal is open for writing in another process, or in another partition of this process.

    Attributes:
        holder: the id of the process; None if it is not known yet.
    """

    def __init__(self, path: str, holder: int | None) -> None:
        process = "another process" if holder is None else f"process {holder}"
        super().__init__(path, f"{process} has it open for writing")
        self.args: tuple[object, ...] = (path, holder)
        self.holder: Final = holder


class DeposedError(JournalError):
    """Another process leads the log now. This process can never write it again with the same partition.

    A change in doubt took effect only if the new leader found it in the log.

    Attributes:
        term: the term of the other leader.
    """

    def __init__(self, path: str, term: int) -> None:
        super().__init__(path, f"another process has become the leader, in term {term}")
        self.args: tuple[object, ...] = (path, term)
        self.term: Final = term
