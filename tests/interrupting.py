"""Exceptions that arrive from outside: at every line and every bytecode instruction of a call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

import ugm

__all__ = ["Interruption", "count_points", "interrupt_at", "is_locked"]

#: Where the code is whose calls are interrupted.
SOURCE: Final = str(Path(ugm.__file__).parent)


class Interruption(BaseException):
    """An exception from outside."""


class _Tracer:
    """Counts the lines and instructions that are about to be executed, and raises at one of them."""

    def __init__(self, at: int = -1, kind: type[BaseException] = Interruption) -> None:
        self.count, self.at, self.kind = 0, at, kind
        self.has_raised = False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> Any:  # noqa: ANN401 - itself
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        frame.f_trace_opcodes = True
        if event in ("line", "opcode", "return"):
            self._point()
        return self

    def _point(self) -> None:
        number, self.count = self.count, self.count + 1
        if number == self.at:
            self.has_raised = True
            raise self.kind


def count_points(call: Callable[[], object]) -> int:
    """Return at how many points a call can be interrupted."""
    tracer = _Tracer()
    _traced(call, tracer)
    return tracer.count


def interrupt_at(call: Callable[[], object], at: int, kind: type[BaseException] = Interruption) -> bool:
    """Interrupt a call at one of its points, and return whether it has been."""
    tracer = _Tracer(at, kind)
    try:
        _traced(call, tracer)
    except BaseException as error:
        if not _is_caused_by(error, kind):
            raise
    return tracer.has_raised


def _is_caused_by(error: BaseException, kind: type[BaseException]) -> bool:
    return any(isinstance(one, kind) for one in _chain(error))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _traced(call: Callable[[], object], tracer: _Tracer) -> None:
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        call()
    finally:
        sys.settrace(before)


def is_locked(engine: Any) -> bool:  # noqa: ANN401 - a partition, a manager or a tracker
    """Return whether the lock of an engine is held by any thread."""
    locked: bool = engine._lock.locked()
    return locked
