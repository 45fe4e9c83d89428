"""Find the recorded answers of the peers.

The folder is `tests/vectors`, or the one that the environment variable ``UGM_CONFORMANCE`` names; its layout is
``<folder>/yunikorn/<name>.jsonl.gz``. A file that is not there yields no cases.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any, Final

from support.places import TESTS

__all__ = ["FOLDER", "vectors"]

#: Where the recorded answers are.
FOLDER: Final = Path(os.environ.get("UGM_CONFORMANCE") or TESTS / "vectors")


def vectors(name: str) -> list[dict[str, Any]]:
    """Return the lines of one file of recorded answers, for example ``yunikorn/quantities``."""
    path = FOLDER / f"{name}.jsonl.gz"
    if not path.is_file():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
