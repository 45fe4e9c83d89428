"""Other processes that use a journal. Each begins without anything open, and knows this module already."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from support.journal_fixtures import begin
from support.partition_fixtures import memory
from ugm.journal import JournaledPartition, JournalError, JournalHeldError, export, inspect, open_partition, usage

__all__ = ["elsewhere", "fill", "forked", "killed", "opened", "race", "read", "writer"]

_CONTEXT: Final = get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])


@cache
def _server() -> ForkServerContext:
    """Return where processes come from; some versions of Python do not let the server know where modules are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        ensure_running()
    return _CONTEXT


def _call(end: Connection, function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    end.send(function(*arguments))


def elsewhere(function: Callable[..., object], *arguments: object) -> Any:  # noqa: ANN401 - whatever it returns
    """Call a function of this module in another process and return its result."""
    here, there = _server().Pipe()
    process = _server().Process(target=_call, args=(there, function, arguments))
    process.start()
    there.close()
    try:
        return here.recv()
    finally:
        process.join()


def fill(partition: JournaledPartition, *names: str) -> None:
    """Allocate one of ten for each name."""
    for name in names:
        assert partition.allocate(name, "app", memory(1))


def opened(path: Path | str) -> str:
    """Open a journal and return its allocations, or the error."""
    try:
        with open_partition(path) as partition:
            return " ".join(partition.allocation_ids())
    except JournalError as error:
        return f"{type(error).__name__} {error.reason}"


def read(path: Path | str) -> list[str]:
    """Read a journal in every way, and return the error of each, or "read"."""
    found = []
    for way in (inspect, lambda path: list(export(path)), lambda path: usage(path, "user")):
        try:
            way(path)
            found.append("read")
        except JournalError as error:
            found.append(f"{type(error).__name__} {error.reason}")
    return found


def race(path: Path, name: str) -> str:
    """Make a journal with an allocation, or find that another process makes it."""
    try:
        with begin(path) as partition:
            fill(partition, name)
    except JournalHeldError:
        return "held"
    return "made"


def _write(end: Connection, path: Path, how: str) -> None:
    partition = begin(path)
    fill(partition, "a", "b", "c")
    end.send(os.getpid())
    end.recv()
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    partition.journal.close()


@contextmanager
def writer(path: Path, how: Literal["close", "kill"] = "close") -> Iterator[int]:
    """Let another process make three allocations and keep the journal open; it ends with the block."""
    here, there = _server().Pipe()
    process = _server().Process(target=_write, args=(there, path, how))
    process.start()
    yield here.recv()
    here.send(None)
    process.join()
    assert process.exitcode == (0 if how == "close" else -signal.SIGKILL)


def _die(path: Path) -> None:
    partition = open_partition(path)
    fill(partition, "d")
    os.kill(os.getpid(), signal.SIGKILL)


def killed(path: Path) -> None:
    """Let another process make a fourth allocation and die."""
    process = _server().Process(target=_die, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def _fork(end: Connection, path: Path) -> None:
    partition = begin(path)
    fill(partition, "a", "b", "c")
    if os.fork():
        os.wait()
    partition.journal.close()
    sys.stdin.close()
    end.send(os.getpid())
    end.recv()


@contextmanager
def forked(path: Path) -> Iterator[tuple[int, int]]:
    """Let another process open a journal and fork; the fork has closed it and goes on. Yield both."""
    here, there = _server().Pipe()
    process = _server().Process(target=_fork, args=(there, path))
    process.start()
    assert process.pid is not None
    yield process.pid, here.recv()
    here.send(None)
    process.join()
