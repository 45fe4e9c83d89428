"""The Standard Workload Format: one job a line, 18 numbers separated by white space.

The format is that of the Parallel Workloads Archive. ``;`` starts a comment, ``-1`` means unknown, times are seconds,
memory is KB per processor, and the lines are in the order of their submit times. Files may be gzipped; that is told
from their first bytes, not from their name.

Reading is strict and streams: one line is in memory at a time, and the first line that is not of the format ends the
reading with its number. Nothing is interpreted here; see `ugm.simulation.JobMapping` for what the numbers become.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator
from functools import partial
from io import BufferedReader
from typing import Any, Final, NamedTuple

from ugm.simulation.workload import WorkloadError

__all__ = ["UNKNOWN", "SwfRecord", "parse_swf", "read_swf"]

#: What the format writes where the log does not say.
UNKNOWN: Final = -1

#: Lines of the parts in which a job ran that was stopped in between; another line stands for the whole job.
PARTIAL_STATUSES: Final = frozenset((2, 3, 4))

#: Characters that a line may have: more than ten times what 18 numbers need.
_MAX_LINE: Final = 4096

#: `int` and `float` also take ``1_000``, ``+1``, ``1e3`` and ``nan``.
_NUMBERS: Final = re.compile(r"[-.0-9\s]+", re.ASCII)

_GZIP_MAGIC: Final = b"\x1f\x8b"


class SwfRecord(NamedTuple):
    """One line of a workload file, with `UNKNOWN` where the log does not say."""

    number: int
    submit_time: int
    wait_time: int
    run_time: int
    processors: int
    #: The one field that logs also give with decimals.
    cpu_time: float
    memory: int
    requested_processors: int
    requested_time: int
    requested_memory: int
    status: int
    user: int
    group: int
    executable: int
    queue: int
    partition: int
    preceding_job: int
    think_time: int


def read_swf(path: str | os.PathLike[str]) -> Iterator[SwfRecord]:
    """Yield the jobs of a workload file, plain or gzipped, as they are asked for.

    Lines for parts of a job that was stopped and continued (status 2, 3 and 4) are left out: the format has another
    line for the whole of it.

    Raises:
        WorkloadError: the file cannot be read, or a line is not of the format.
    """
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - a path may be a text
            yield from parse_swf(stream, os.fspath(path))
    except OSError as error:
        raise WorkloadError(os.fspath(path), 0, f"cannot be read: {error.strerror or error}") from None


def parse_swf(stream: BufferedReader, name: str) -> Iterator[SwfRecord]:
    """Yield the jobs of an open file, plain or gzipped, and close it at its end.

    Args:
        stream: the bytes of the file.
        name: what errors call the file.

    Raises:
        WorkloadError: a line is not of the format, or the compressed data are damaged or end early.
    """
    zipped = stream.peek(2).startswith(_GZIP_MAGIC)
    line_number, latest = 0, 0
    with io.TextIOWrapper(gzip.GzipFile(fileobj=stream) if zipped else stream, "ascii", "replace") as text:
        try:
            for line_number, line in enumerate(iter(partial(text.readline, _MAX_LINE), ""), start=1):
                if line.isspace() or line.lstrip().startswith(";"):
                    continue
                record = _parse_line(line, name, line_number)
                if record.submit_time < latest:
                    reason = f"submitted at {record.submit_time}, but an earlier line is from {latest}"
                    raise WorkloadError(name, line_number, reason)
                latest = record.submit_time
                if record.status not in PARTIAL_STATUSES:
                    yield record
        except (EOFError, gzip.BadGzipFile, zlib.error):
            reason = "the compressed data are damaged or end early"
            raise WorkloadError(name, line_number + 1, reason) from None


def _parse_line(line: str, name: str, line_number: int) -> SwfRecord:
    texts = line.split()
    if len(texts) != len(SwfRecord._fields) or not _NUMBERS.fullmatch(line):
        raise WorkloadError(name, line_number, _fault(line, texts))
    try:
        record = SwfRecord._make(map(int, texts))
    except ValueError:
        record = _with_decimals(texts, name, line_number)
    if min(record) < UNKNOWN or record.submit_time < 0 or record.number < 0:
        raise WorkloadError(name, line_number, _out_of_range(record))
    return record


def _fault(line: str, texts: list[str]) -> str:
    if len(line) == _MAX_LINE:
        return f"a line of {_MAX_LINE} characters or more"
    if len(texts) != len(SwfRecord._fields):
        return f"expected {len(SwfRecord._fields)} fields, found {len(texts)}"
    odd = next(text for text in texts if not _NUMBERS.fullmatch(text))
    return f"{odd!r} is not a number"


def _with_decimals(texts: list[str], name: str, line_number: int) -> SwfRecord:
    values: list[Any] = []
    for field, text in zip(SwfRecord._fields, texts, strict=True):
        try:
            values.append(float(text) if field == "cpu_time" else int(text))
        except ValueError:
            raise WorkloadError(name, line_number, f"{field} is {text!r}, expected a whole number") from None
    return SwfRecord._make(values)


def _out_of_range(record: SwfRecord) -> str:
    for field, value in zip(SwfRecord._fields, record, strict=True):
        if value < UNKNOWN:
            return f"{field} is {value}, and only {UNKNOWN} may stand for unknown"
    field = "number" if record.number < 0 else "submit_time"
    return f"{field} is unknown"
