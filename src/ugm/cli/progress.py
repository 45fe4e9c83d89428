"""Progress of a long replay, on the standard error of a terminal and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from ugm.simulation import Progress as Moment

__all__ = ["watching"]

#: Every how many events the display is brought up to date; drawing it is left to a thread of rich.
_STRIDE: Final = 500


@contextmanager
def watching(path: Path, stream: BufferedReader) -> Iterator[Callable[[Moment], None]]:
    """Show how much of a workload file is read while the block runs, then take the display away.

    Of a pipe nobody knows how much there is: only the counts are shown.

    Args:
        path: the file.
        stream: the same, opened; how far it is read is how far the replay is.

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

        def observe(moment: Moment) -> None:
            nonlocal events
            events += 1
            if events % _STRIDE == 0:
                counts = f"{moment.read:,} jobs read, {moment.held:,} waiting"
                # The replay goes on for a while after the last job is read, and the reader has closed the file.
                done = size if size is None or stream.closed else stream.tell()
                display.update(task, completed=done, counts=counts)

        yield observe
