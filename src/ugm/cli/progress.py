"""A progress display for replays, on the standard error if it is a terminal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from ugm.simulation import Progress as ReplayProgress

__all__ = ["watching"]

#: The number of events between two updates of the display; a thread of rich draws it.
_STRIDE: Final = 500


def _size_of(stream: BufferedReader) -> int | None:
    """Return the size of a file; None for a pipe."""
    try:
        return os.fstat(stream.fileno()).st_size if stream.seekable() else None
    except OSError:
        # A stream without a file, as in a test.
        return None


@contextmanager
def watching(stream: BufferedReader) -> Iterator[Callable[[ReplayProgress], None]]:
    """Show the progress of a replay while the block runs.

    For a pipe, whose size is unknown, only the counts are shown.

    Args:
        stream: the open file, whose position is the progress of the replay.

    Yields:
        An observer for `ugm.simulation.simulate`.
    """
    console = Console(stderr=True)
    counts = TextColumn("{task.fields[counts]}")
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), counts, TimeElapsedColumn())
    size = _size_of(stream)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as display:
        task = display.add_task("replaying", total=size, counts="")
        events = 0

        def observe(moment: ReplayProgress) -> None:
            nonlocal events
            events += 1
            if events % _STRIDE == 0:
                counts = f"{moment.submitted:,} jobs submitted, {moment.waiting:,} waiting"
                # The replay continues after the last job has been read, when the file is already closed.
                done = size if size is None or stream.closed else stream.tell()
                display.update(task, completed=done, counts=counts)

        yield observe
