"""The collection of problems that the steps of reading a configuration share, with bounds on their number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NoReturn, final

from ugm._documents.places import Mark, Path, format_path, line_and_column
from ugm.errors import ConfigError, Problem

__all__ = ["MAX_CONSEQUENCES", "MAX_PROBLEMS", "Problems"]

#: Reading stops after this many problems: more are not useful, and each costs memory.
MAX_PROBLEMS: Final = 1000
#: Reading stops after this many findings that may follow from other problems and are not reported.
MAX_CONSEQUENCES: Final = 10_000


@final
class Problems:
    """The problems of one text."""

    __slots__ = ("_file", "_found", "_left_out")

    def __init__(self, file: str) -> None:
        self._file: Final = file
        self._found: Final[list[Problem]] = []
        self._left_out = 0

    @property
    def file(self) -> str:
        """The name of the text."""
        return self._file

    def __len__(self) -> int:
        return len(self._found)

    def add(self, mark: Mark, path: Path, code: str, message: str, *, file: str = "") -> None:
        """Record a problem.

        Args:
            mark: its place.
            path: the path of the value.
            code: its code.
            message: its message.
            file: the name of another file to which the place belongs; empty for the text itself.

        Raises:
            ConfigError: the maximum number of problems (`MAX_PROBLEMS`) is exceeded.
        """
        self.include([Problem(file or self._file, *line_and_column(mark), format_path(path), code, message)])

    def include(self, problems: Iterable[Problem]) -> None:
        """Record problems of another file.

        Raises:
            ConfigError: the maximum number of problems (`MAX_PROBLEMS`) is exceeded.
        """
        for problem in problems:
            if len(self._found) == MAX_PROBLEMS:
                self.stop()
            self._found.append(problem)

    def skip(self) -> None:
        """Count a finding that is not reported because it may follow from another problem.

        Raises:
            ConfigError: the maximum number of such findings (`MAX_CONSEQUENCES`) is exceeded.
        """
        if self._left_out == MAX_CONSEQUENCES:
            self.stop()
        self._left_out += 1

    def stop(self) -> NoReturn:
        """Raise all problems, with a final one: too many problems.

        Raises:
            ConfigError: always.
        """
        found = sorted(self._found)
        message = "too many problems; the rest of the text was not checked"
        last = found[-1]._replace(path="", code="too-many-problems", message=message)
        raise ConfigError((*found, last)) from None

    def error(self) -> ConfigError:
        """Return the error that lists all problems in the order of the text."""
        return ConfigError(tuple(sorted(self._found)))
