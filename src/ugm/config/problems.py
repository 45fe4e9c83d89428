"""Where the steps of reading a configuration put what they find wrong, and how they end when it is too much."""

from __future__ import annotations

from typing import Final, NoReturn, final

from ugm.config.places import Mark, Path, format_path, line_and_column
from ugm.errors import ConfigError, Problem

__all__ = ["MAX_CONSEQUENCES", "MAX_PROBLEMS", "Problems"]

#: After so many problems no more are looked for: nobody reads them, and each costs memory.
MAX_PROBLEMS: Final = 1000
#: How many findings are left out, because they may follow from a problem, before no more are looked for.
MAX_CONSEQUENCES: Final = 10_000


@final
class Problems:
    """The problems of one text."""

    __slots__ = ("_file", "_found", "_left_out")

    def __init__(self, file: str) -> None:
        self._file: Final = file
        self._found: Final[list[Problem]] = []
        self._left_out = 0

    def __len__(self) -> int:
        return len(self._found)

    def add(self, mark: Mark, path: Path, code: str, message: str) -> None:
        """Note a problem.

        Raises:
            ConfigError: there are `MAX_PROBLEMS` already.
        """
        if len(self._found) == MAX_PROBLEMS:
            self.stop()
        self._found.append(Problem(self._file, *line_and_column(mark), format_path(path), code, message))

    def skip(self) -> None:
        """Count what is not reported because it may follow from a problem; it takes time like others.

        Raises:
            ConfigError: there were `MAX_CONSEQUENCES` already.
        """
        if self._left_out == MAX_CONSEQUENCES:
            self.stop()
        self._left_out += 1

    def stop(self) -> NoReturn:
        """Give up looking, and say so behind the last problem."""
        found = sorted(self._found)
        message = "there may be more problems; no more are looked for after these"
        last = found[-1]._replace(path="", code="too-many-problems", message=message)
        raise ConfigError((*found, last)) from None

    def error(self) -> ConfigError:
        """Return the error that lists all problems in the order of the text."""
        return ConfigError(tuple(sorted(self._found)))
