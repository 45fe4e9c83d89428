"""Exceptions in the threads of a journal: every caller gets its answer, and the threads go on."""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias

import pytest

from support.journal_fixtures import begin
from ugm import Resource
from ugm.journal.change_queue import ChangeQueue
from ugm.journal.deferred_results import FutureResult
from ugm.journal.result_delivery import ResultDelivery

#: Longer than anything takes, in seconds.
PATIENCE: Final = 30
NOTHING: Final = Resource()

_Trace: TypeAlias = Callable[[FrameType, str, Any], Any]

#: The functions of each thread, by the beginning of its name. The outermost ones contain nothing but the recovery.
FUNCTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "journal": (
        ChangeQueue._commit_until_closed,
        ChangeQueue._wait_for_work,
        ChangeQueue.flush,
        ChangeQueue._collect_due_callbacks,
        ChangeQueue._notify,
        FutureResult.__call__,
        ResultDelivery.add,
    ),
    "results": (
        ResultDelivery._deliver_until_closed,
        ResultDelivery._deliver_all,
        FutureResult.deliver,
        FutureResult.finish,
        FutureResult._complete,
    ),
}


#: Early releases of Python 3.12 crash if the instructions of a loop are traced, so lines are traced there.
_TRACES_INSTRUCTIONS: Final = sys.version_info < (3, 12)


def places_in(code: CodeType) -> list[int]:
    """Return the offsets of the instructions, or the numbers of the lines."""
    if _TRACES_INSTRUCTIONS:
        return [one.offset for one in dis.get_instructions(code)]
    return sorted({line for _, line in dis.findlinestarts(code) if line})


class Interrupter:
    """Raises an exception in the thread with a name, once, before an instruction or a line."""

    def __init__(self) -> None:
        self.place: tuple[str, CodeType, int] | None = None
        self.kind: type[BaseException] = SystemExit

    def enter(self, frame: FrameType, _event: str, _argument: object) -> _Trace | None:
        """Trace the functions."""
        if "ugm/journal" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = _TRACES_INSTRUCTIONS
        return self.step

    def step(self, frame: FrameType, event: str, _argument: object) -> _Trace:
        """Raise the exception at the place."""
        name = threading.current_thread().name.split()[0]
        expected, place = ("opcode", frame.f_lasti) if _TRACES_INSTRUCTIONS else ("line", frame.f_lineno)
        if event == expected and self.place == (name, frame.f_code, place):
            self.place = None
            raise self.kind
        return self.step


@contextmanager
def interrupter() -> Iterator[Interrupter]:
    """Yield an interrupter for the threads that start in the block."""
    one = Interrupter()
    threading.settrace(one.enter)
    try:
        yield one
    finally:
        threading.settrace(None)


@pytest.mark.parametrize("distance", [23, pytest.param(3, marks=pytest.mark.ci)])
@pytest.mark.parametrize("thread", FUNCTIONS)
def test_interrupted_threads(quick_folder: Path, thread: str, distance: int) -> None:
    """Whatever the instruction is before which an exception arrives, promises and other calls are answered."""
    codes = [function.__code__ for function in FUNCTIONS[thread]]
    places = [(thread, code, place) for code in codes for place in places_in(code)]
    arrived = 0
    with interrupter() as one, ExitStack() as last:
        for place, one.kind in product(places[::distance], (SystemExit, MemoryError)):
            if one.place is None:
                # CPython does not trace a thread any more after an exception.
                last.close()
                arrived += 1
                partition = last.enter_context(begin(quick_folder / str(arrived), durability="group"))
                partition.promise(partition.release, "nothing").result(PATIENCE)
            one.place = place
            assert partition.promise(partition.allocate, "a", "app", NOTHING).result(PATIENCE), place
            assert partition.promise(partition.release, "a").result(PATIENCE), place
        one.place = None
    assert arrived > 40 // distance
