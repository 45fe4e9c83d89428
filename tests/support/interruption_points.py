"""Exceptions that arrive from outside, each at one point of a call that a survey has found.

A call may run a loop thousands of times. So its points are the first, the second and the last time that it reaches each
instruction, each entry and each return of every function. What follows an instruction that only moves values on the
stack is left out: nothing has changed since, and the same handler would see the exception.

An interruption traces only the function of its point, so it costs about as much as the call itself. That makes it
affordable to interrupt a call at all of its points.
"""

from __future__ import annotations

import dis
import gc
import inspect
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from threading import get_ident
from types import CodeType, FrameType
from typing import Any, Final, Literal, NamedTuple

import ugm
from support.garbage import collect_garbage

#: The code that is interrupted.
SOURCE: Final = str(Path(ugm.__file__).parent)
#: What `sys.monitoring` knows the interruptions by.
TOOL: Final = 4

Tracer = Callable[[FrameType, str, Any], Any]


class InterruptedTestError(BaseException):
    """Arrives from outside."""


Call = Callable[[], object]
Kind = Literal["call", "opcode", "return"]

#: Whether events come from `sys.settrace`. From Python 3.12 on a tracer sees only some of the instructions.
_IS_TRACED: Final = sys.version_info < (3, 12)

#: The events of `sys.monitoring` of each kind.
_EVENTS: Final[dict[Kind, tuple[str, ...]]] = {
    "call": ("PY_START", "PY_RESUME"),
    "opcode": ("INSTRUCTION",),
    "return": ("PY_RETURN", "PY_YIELD"),
}


class Point(NamedTuple):
    """A moment of a call: the *time*-th event of a kind at one place of a function.

    The place is the offset of an instruction. A return comes after its instruction, everything else before.
    """

    code: CodeType
    kind: Kind
    place: int
    time: int


def points_in(prepared: Callable[[], AbstractContextManager[Call]]) -> list[Point]:
    """Make a call that is prepared afresh each time, and return its points.

    Another call is counted by a profiler: it must enter each function as often as the points say. So a tracer that sees
    nothing, or not everything, is noticed.
    """
    with prepared() as call:
        # Fills the caches.
        call()
    survey = _Survey()
    with prepared() as call, _unraisable(), _no_collection():
        survey.run(call)
    with prepared() as call, _no_collection():
        counted = _profiled(call)
    entered = survey.entered()
    assert entered
    # Closing a generator is a call for a profiler, but enters at no instruction.
    functions = {code for code in entered.keys() | counted if not code.co_flags & inspect.CO_GENERATOR}
    different = {code: (entered[code], counted[code]) for code in functions if entered[code] != counted[code]}
    assert not different, different
    return survey.points()


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the collector from finalizing objects of earlier tests, which enters functions that the call does not."""
    collect_garbage()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _profiled(call: Call) -> Counter[CodeType]:
    calls: Counter[CodeType] = Counter()

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            calls[frame.f_code] += 1

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return calls


@contextmanager
def _unraisable() -> Iterator[list[object]]:
    """Yield a list of what was raised while a generator was closed: CPython reports it and goes on."""
    seen: list[object] = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda report: seen.append(report.exc_type)
    try:
        yield seen
    finally:
        sys.unraisablehook = hook


#: How the names of instructions begin that only move values on the stack. (After a jump comes another instruction.)
_STACK_ONLY: Final = (
    *("LOAD_FAST", "LOAD_CONST", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLOSURE", "PUSH_NULL", "BUILD_TUPLE"),
    *("COPY", "SWAP", "IS_OP", "KW_NAMES", "PRECALL", "NOP", "POP_JUMP_FORWARD_IF", "POP_JUMP_IF"),
)


@cache
def _places_without_effect(code: CodeType) -> frozenset[int]:
    """Return the instructions at which everything is as at the instruction before, also who handles an exception."""
    instructions = dis.Bytecode(code)
    entries = instructions.exception_entries  # type: ignore[attr-defined] # unknown to the type checker
    edges = {edge for entry in entries for edge in (entry.start, entry.end, entry.target)}
    return frozenset(
        after.offset
        for before, after in itertools.pairwise(instructions)
        if before.opname.startswith(_STACK_ONLY) and not after.is_jump_target and after.offset not in edges
    )


class _Survey:
    """Counts how often a call comes to each place."""

    def __init__(self) -> None:
        #: By identity, because code objects are slow to compare.
        self._codes: dict[int, CodeType] = {}
        self._times: Counter[tuple[int, Kind, int]] = Counter()

    def run(self, call: Call) -> None:
        """Make the call."""
        if _IS_TRACED:
            _traced(call, self._enter)
        else:
            monitoring = _monitoring()
            with _tool({kind: self._handler(kind) for kind in _EVENTS}):
                monitoring.set_events(TOOL, sum(map(_mask, _EVENTS)))
                try:
                    call()
                finally:
                    monitoring.set_events(TOOL, 0)

    def points(self) -> list[Point]:
        """Return the points, in the order of their first events."""
        return [
            Point(self._codes[code], kind, place, time)
            for (code, kind, place), times in self._times.items()
            if kind != "opcode" or place not in _places_without_effect(self._codes[code])
            for time in sorted({1, min(2, times), times})
        ]

    def entered(self) -> Counter[CodeType]:
        """Return how often each function was entered."""
        entered: Counter[CodeType] = Counter()
        for (number, kind, _), times in self._times.items():
            code = self._codes[number]
            if kind == "call":
                entered[code] += times
        return entered

    def _count(self, code: CodeType, kind: Kind, place: int) -> None:
        self._codes[id(code)] = code
        self._times[id(code), kind, place] += 1

    def _enter(self, frame: FrameType, event: str, _argument: object) -> Tracer | None:
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._step(frame, event, None)

    def _step(self, frame: FrameType, event: str, _argument: object) -> Tracer:
        if event != "exception":
            self._count(frame.f_code, event, frame.f_lasti)  # type: ignore[arg-type] # one of the others
        return self._step

    def _handler(self, kind: Kind) -> Callable[..., None]:
        thread = get_ident()

        def handle(code: CodeType, place: int, *_: object) -> None:
            # `sys.monitoring` reports all threads.
            if get_ident() == thread and code.co_filename.startswith(SOURCE):
                self._count(code, kind, place)

        return handle


class Interruption:
    """Raises an exception at one point of a call.

    Args:
        point: the point.
        error: the type of the exception.

    Attributes:
        has_raised: whether the call came to the point.
        has_arrived: whether the exception came back to the caller.
        was_swallowed: whether CPython reported it instead, because a generator was being closed.
    """

    def __init__(self, point: Point, error: type[BaseException] = InterruptedTestError) -> None:
        self._point: Final = point
        #: Not an instance: its traceback would keep files open that the call has lost.
        self._error: Final = error
        self._left = point.time
        self.has_raised = self.has_arrived = self.was_swallowed = False

    def run(self, call: Call) -> None:
        """Make the call."""
        with _unraisable() as seen:
            try:
                (self._trace if _IS_TRACED else self._monitor)(call)
            except self._error:
                self.has_arrived = True
        self.was_swallowed = self._error in seen

    def _count(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.has_raised = True
            raise self._error

    def _trace(self, call: Call) -> None:
        point = self._point

        def enter(frame: FrameType, _event: str, _argument: object) -> Tracer | None:
            if frame.f_code is not point.code:
                return None
            if point.kind == "call":
                if frame.f_lasti == point.place:
                    self._count()
                return None
            frame.f_trace_lines = False
            frame.f_trace_opcodes = point.kind == "opcode"
            return step

        def step(frame: FrameType, event: str, _argument: object) -> Tracer:
            if event == point.kind and frame.f_lasti == point.place:
                self._count()
            return step

        _traced(call, enter)

    def _monitor(self, call: Call) -> None:
        point, monitoring, thread = self._point, _monitoring(), get_ident()

        def handle(code: CodeType, place: int, *_: object) -> None:
            if get_ident() == thread and code is point.code and place == point.place:
                self._count()

        with _tool({point.kind: handle}):
            # Which lines are reported depends on the other events. An event without a handler costs little.
            monitoring.set_local_events(TOOL, point.code, sum(map(_mask, _EVENTS)))
            try:
                call()
            finally:
                monitoring.set_local_events(TOOL, point.code, 0)


def _traced(call: Call, tracer: Tracer) -> None:
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        call()
    finally:
        sys.settrace(before)


def _monitoring() -> Any:  # noqa: ANN401 - unknown to the type checker before 3.12
    return sys.monitoring  # type: ignore[attr-defined,unused-ignore]


def _numbers(kind: Kind) -> list[int]:
    events = _monitoring().events
    return [getattr(events, name) for name in _EVENTS[kind]]


def _mask(kind: Kind) -> int:
    return sum(_numbers(kind))


@contextmanager
def _tool(handlers: dict[Kind, Callable[..., None]]) -> Iterator[None]:
    monitoring = _monitoring()
    monitoring.use_tool_id(TOOL, "interruptions")
    numbers = [(number, handler) for kind, handler in handlers.items() for number in _numbers(kind)]
    try:
        for number, handler in numbers:
            monitoring.register_callback(TOOL, number, handler)
        yield
    finally:
        for number, _ in numbers:
            monitoring.register_callback(TOOL, number, None)
        monitoring.free_tool_id(TOOL)
