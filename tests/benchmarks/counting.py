"""Count the bytecode instructions that a call executes in Python functions.

Counts do not depend on the load of the machine, so two versions can be compared where times cannot. They leave out what
functions in C do.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any


def bytecodes(call: Callable[[], object], *, driver: tuple[Path, ...] = ()) -> int:
    """Return how many bytecode instructions a call executes in this thread.

    Args:
        call: the call.
        driver: folders whose functions are not counted, such as that of the benchmark.
    """
    folders = tuple(f"{folder}/" for folder in driver)
    is_counted: dict[CodeType, bool] = {}

    def counts(code: CodeType) -> bool:
        known = is_counted.get(code)
        if known is None:
            known = is_counted[code] = not code.co_filename.startswith(folders)
        return known

    # A collection would run at a moment that depends on everything before.
    gc.collect()
    # Later collections pass over what is alive now.
    gc.freeze()
    gc.disable()
    try:
        return _monitored(call, counts) if sys.version_info >= (3, 12) else _traced(call, counts)
    finally:
        gc.enable()


def _traced(call: Callable[[], object], counts: Callable[[CodeType], bool]) -> int:
    count = 0

    def enter(frame: FrameType, _event: str, _argument: object) -> Any:  # noqa: ANN401 - a trace function or None
        if not counts(frame.f_code):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return step

    def step(_frame: FrameType, event: str, _argument: object) -> Any:  # noqa: ANN401 - a trace function returns itself
        nonlocal count
        count += event == "opcode"
        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def _monitored(call: Callable[[], object], counts: Callable[[CodeType], bool]) -> int:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]  # from Python 3.12 on
    count, tool = 0, monitoring.PROFILER_ID

    def step(code: CodeType, _offset: int) -> object:
        nonlocal count
        if not counts(code):
            return monitoring.DISABLE
        count += 1
        return None

    monitoring.use_tool_id(tool, "ugm instructions")
    monitoring.register_callback(tool, monitoring.events.INSTRUCTION, step)
    monitoring.set_events(tool, monitoring.events.INSTRUCTION)
    try:
        call()
    finally:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, monitoring.events.INSTRUCTION, None)
        monitoring.free_tool_id(tool)
        monitoring.restart_events()
    return count
