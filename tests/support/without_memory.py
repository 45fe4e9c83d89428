"""Ordinary Python, without ugm, in which allocations of memory fail: some versions of CPython crash in it.

CPython 3.12.1 and 3.13.0 end with a segmentation fault; 3.11.7 raises ``SystemError: error return without exception
set``. Where the interpreter itself crashes, nothing can be said of ugm.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


class BatchError(Exception):
    """An error that carries data."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(name, number)
        self.number = number


class Batch:
    """Something that changes, raises, and undoes its changes."""

    def __init__(self) -> None:
        self.amounts: dict[str, list[int]] = {}
        self.undo: list[tuple[Callable[..., Any], tuple[int]]] = []

    def run(self, work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - handed on
        """Change something, or undo it and raise."""
        try:
            return work(*arguments, **options)
        except BaseException as error:
            self.withdraw(error)
            raise

    def withdraw(self, _error: BaseException) -> None:
        """Undo everything."""
        while self.undo:
            self.undo.pop()

    def change(self, number: int) -> tuple[tuple[str, list[int]], ...]:
        """Change something; every third time raise after that."""
        self.undo.append((self.withdraw, (number,)))
        self.amounts = {**self.amounts, str(number): [factor * 2**70 for factor in range(5)]}
        if not number % 3:
            raise BatchError("amounts", number)
        return tuple(sorted(self.amounts.items()))


def work() -> None:
    """Make some changes, of which every third fails."""
    batch = Batch()
    for number in range(6):
        try:  # noqa: SIM105 - as a program would; a context manager does not crash
            batch.run(lambda: batch.change(number))  # noqa: B023 - called at once
        except BatchError:
            pass


def main() -> None:
    """Let memory end at every allocation of `work`, for one allocation and for thirty."""
    testing = import_module("_testcapi")
    for width in (1, 30):
        for start in range(400):
            print(width, start, flush=True)  # noqa: T201 - what was tried last
            try:
                testing.set_nomemory(start, start + width)
                work()
            except (MemoryError, SystemError):
                pass
            finally:
                testing.remove_mem_hooks()


if __name__ == "__main__":
    main()
