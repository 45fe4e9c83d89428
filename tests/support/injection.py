"""Exceptions that arrive from outside: at every line and every bytecode instruction of a call."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import ugm
from ugm import RequestError

__all__ = ["HandlerTestError", "Injector", "InterruptedTestError", "points_of"]

#: The code that is interrupted.
SOURCE: Final = str(Path(ugm.__file__).parent)

#: What `sys.monitoring` knows the injector by.
TOOL: Final = 4

Tracer = Callable[[FrameType, str, Any], Any]


class InterruptedTestError(BaseException):
    """Arrives from outside."""


class HandlerTestError(RequestError):
    """Arrives from outside, because a signal handler has misused another object of the library."""

    def __init__(self) -> None:
        super().__init__("argument", None, "raised by a handler")


class Injector:
    """Counts the events of a call, and raises at one of them.

    Args:
        at: the number of the event; none if it is 0.
        opcodes: whether every instruction is an event, and not only every line and every return.
    """

    def __init__(self, at: int = 0, *, opcodes: bool = False) -> None:
        self.at = at
        self.events = 0
        self.opcodes = opcodes

    def run(self, call: Callable[[], object]) -> bool:
        """Make a call, and return whether the exception has arrived at the caller."""
        hook = sys.unraisablehook
        # What is raised while a generator is closed, CPython reports to the hook and goes on.
        sys.unraisablehook = lambda _: None
        try:
            # A tracer sees only some of the instructions from 3.12 on.
            (self._trace if sys.version_info < (3, 12) else self._monitor)(call)
        except InterruptedTestError:
            return True
        finally:
            sys.unraisablehook = hook
        return False

    def _count(self) -> None:
        self.events += 1
        if self.events == self.at:
            raise InterruptedTestError

    def _trace(self, call: Callable[[], object]) -> None:
        tracer = sys.gettrace()
        sys.settrace(self._enter)
        try:
            call()
        finally:
            sys.settrace(tracer)

    def _enter(self, frame: FrameType, _event: str, _argument: object) -> Tracer | None:
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        frame.f_trace_opcodes = self.opcodes
        return self._step

    def _step(self, _frame: FrameType, event: str, _argument: object) -> Tracer:
        if event != "exception":
            self._count()
        return self._step

    def _monitor(self, call: Callable[[], object]) -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        events = monitoring.events
        chosen = [events.INSTRUCTION] if self.opcodes else [events.LINE, events.PY_RETURN]
        monitoring.use_tool_id(TOOL, "injector")
        try:
            for event in chosen:
                monitoring.register_callback(TOOL, event, self._monitored)
            monitoring.set_events(TOOL, sum(chosen))
            call()
        finally:
            monitoring.set_events(TOOL, 0)
            for event in chosen:
                monitoring.register_callback(TOOL, event, None)
            monitoring.free_tool_id(TOOL)

    def _monitored(self, code: CodeType, *_: object) -> None:
        if code.co_filename.startswith(SOURCE):
            self._count()


def points_of(call: Callable[[], object], *, opcodes: bool) -> int:
    """Return how many events a call has."""
    injector = Injector(opcodes=opcodes)
    injector.run(call)
    return injector.events
