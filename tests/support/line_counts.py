"""Count the lines that an operation runs: a cost that does not depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

import ugm

__all__ = ["lines_run_by"]

#: The folder of the files of ugm.
PACKAGE: Final = str(Path(ugm.__file__).parent)


def lines_run_by(call: Callable[[], object]) -> int:
    """Return how many lines of ugm a call runs; whatever else is awakened by it, such as garbage collection, is not."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:  # noqa: ANN401 - a trace function returns itself
        nonlocal count
        count += event == "line" and frame.f_code.co_filename.startswith(PACKAGE)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
