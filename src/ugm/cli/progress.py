"""A progress display for replays, on the standard error if it is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from ugm.simulation import Progress as ReplayProgress

__all__ = ["watching"]

#: The number of events between two updates of the display; a thread of rich draws it.
_STRIDE: Final = 500


@contextmanager
def watching(path: Path, stream: BufferedReader) -> Iterator[Callable[[ReplayProgress], None]]:
    """Show the progress of a replay while the block runs.

    For a pipe, whose size is unknown, only the counts are shown.

    Args:
        path: the workload file.
        stream: the open file, whose position is the progress of the replay.

    Yields:
        An observer for `ugm.simulation.simulate`.
    """
    console = Console(stderr=True)
    counts = TextColumn("{task.fields[counts]}")
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), counts, TimeElapsedColumn())
    size = path.stat().st_size if stream.seekable() else None
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as display:
        task = display.add_task("replaying", total=size, counts="")
        events = 0

        def observe(moment: ReplayProgress) -> None:
            nonlocal events
            events += 1
            if events % _STRIDE == 0:
                counts = f"{moment.read:,} jobs read, {moment.held:,} waiting"
                # The replay continues after the last job has been read, when the file is already closed.
                done = size if size is None or stream.closed else stream.tell()
                display.update(task, completed=done, counts=counts)

        yield observe
