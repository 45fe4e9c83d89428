"""Read the recorded answers of the peers, and choose the sample of them that every run replays.

The folder is `tests/vectors`, or the one that the environment variable ``UGM_CONFORMANCE`` names; its layout is
``<folder>/yunikorn/<name>.jsonl.gz``. A file that is missing yields no cases.

By default, one case in `SAMPLE` of a large file is replayed. The marker ``ci`` selects the others. If the variable
names a folder, all of its cases are replayed.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from support.places import TESTS

__all__ = ["FOLDER", "SAMPLE", "cases", "vectors"]

_NAMED: Final = os.environ.get("UGM_CONFORMANCE")

#: The folder of the recorded answers.
FOLDER: Final = Path(_NAMED or TESTS / "vectors")

#: One case in this many is replayed by default.
SAMPLE: Final = 5


def vectors(name: str) -> list[dict[str, Any]]:
    """Return the lines of one file of recorded answers, for example ``yunikorn/quantities``."""
    path = FOLDER / f"{name}.jsonl.gz"
    if not path.is_file():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def cases(found: Iterable[dict[str, Any]], *, sample: int = SAMPLE) -> list[Any]:
    """Return recorded cases as parameters of a test, with their names as ids; all but one in *sample* are ``ci``."""
    return [
        pytest.param(case, id=case["name"], marks=() if _NAMED or number % sample == 0 else pytest.mark.ci)
        for number, case in enumerate(found)
    ]
