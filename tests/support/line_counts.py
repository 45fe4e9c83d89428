"""Count the lines that an operation runs: a cost that does not depend on the machine."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

import ugm

#: The folder of the files of ugm.
PACKAGE: Final = str(Path(ugm.__file__).parent)


def lines_run_by(call: Callable[[], object]) -> int:
    """Return how many lines of ugm a call runs, without garbage collections, which run finalizers of other tests."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:  # noqa: ANN401 - a trace function returns itself
        nonlocal count
        count += event == "line" and frame.f_code.co_filename.startswith(PACKAGE)
        return trace

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return count
