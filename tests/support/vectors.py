"""Read the recorded answers of the peers, and choose the sample of them that every run replays.

The folder is `tests/vectors`, or the one that the environment variable ``UGM_CONFORMANCE`` names; its layout is
``<folder>/yunikorn/<name>.jsonl.gz``. A file that is missing yields no cases.

By default, one case in `SAMPLE` of a large file is replayed. The marker ``ci`` selects the others. If the variable
names a folder, all of its cases are replayed.

Collection needs only the names of the cases, so a case is parsed when a test reads it. Parsed at collection, all cases
would fill the memory of each process, and every run of the garbage collector would visit them.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, final

import pytest

from support.places import TESTS

_NAMED: Final = os.environ.get("UGM_CONFORMANCE")

#: The folder of the recorded answers.
FOLDER: Final = Path(_NAMED or TESTS / "vectors")

#: One case in this many is replayed by default.
SAMPLE: Final = 8

#: A test that counts or names cases holds for the folder of the repository only.
of_visible_folder: Final = pytest.mark.skipif(_NAMED is not None, reason="UGM_CONFORMANCE names another folder")

#: The first fields of a line, up to one that is long or no plain value.
_HEADER: Final = re.compile(rb'\{(?:"\w+":(?:"[^"\\]{0,100}"|-?[0-9]+|true|false|null),)*')


@final
class RecordedCase(Mapping[str, Any]):
    """One line of a file of recorded answers, parsed when a field is read that is not among its first ones."""

    __slots__ = ("_header", "_number", "_path")

    def __init__(self, path: Path, number: int, line: bytes) -> None:
        self._path = path
        self._number = number
        header = _HEADER.match(line)
        self._header: dict[str, Any] = json.loads(header[0].rstrip(b",") + b"}") if header else {}

    def __getitem__(self, field: str) -> Any:  # noqa: ANN401 - JSON
        return self._header[field] if field in self._header else _parsed(self._path, self._number)[field]

    def __iter__(self) -> Iterator[str]:
        return iter(_parsed(self._path, self._number))

    def __len__(self) -> int:
        return len(_parsed(self._path, self._number))

    def __repr__(self) -> str:
        return f"<line {self._number + 1} of {self._path}>"


# A test reads up to three files, in a random order of cases.
@lru_cache(maxsize=3)
def _lines(path: Path) -> list[bytes]:
    with gzip.open(path) as file:
        return file.read().splitlines()


# A test reads the fields of one case, or of two that it compares.
@lru_cache(maxsize=2)
def _parsed(path: Path, number: int) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(_lines(path)[number])
    return fields


@cache
def vectors(name: str) -> tuple[RecordedCase, ...]:
    """Return the lines of one file of recorded answers, for example ``yunikorn/quantities``."""
    path = FOLDER / f"{name}.jsonl.gz"
    if not path.is_file():
        return ()
    return tuple(RecordedCase(path, number, line) for number, line in enumerate(_lines(path)))


def cases(found: Iterable[RecordedCase], *, sample: int = SAMPLE, name: str = "name") -> list[Any]:
    """Return recorded cases as parameters, with the field *name* as ids; all but one in *sample* are ``ci``."""
    return [
        pytest.param(case, id=case[name], marks=() if _NAMED or number % sample == 0 else pytest.mark.ci)
        for number, case in enumerate(found)
    ]
