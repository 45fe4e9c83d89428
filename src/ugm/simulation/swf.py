"""A reader for the Standard Workload Format: one job per line, with 18 numbers separated by white space.

The format is that of the Parallel Workloads Archive. ``;`` starts a comment, ``-1`` means unknown, times are seconds,
memory is KB per processor, and the lines are sorted by submit time. Files may be gzipped; the reader detects that by
their first bytes, not by their name.

The reader is strict and streams the file: only one line is in memory at a time. The first invalid line, or a number
that is too large, raises an error with the line number. `ugm.simulation.JobMapping` interprets the numbers.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator
from io import BufferedReader
from operator import gt
from typing import Final, NamedTuple, final

from ugm.simulation.workload import MAX_SECONDS, WorkloadError

__all__ = ["UNKNOWN", "SwfHeader", "SwfRecord", "parse_swf", "read_swf"]

#: The value for unknown numbers.
UNKNOWN: Final = -1

#: The statuses of parts of a job that was interrupted; another line describes the whole job.
PARTIAL_STATUSES: Final = frozenset((2, 3, 4))

#: The fields that are times.
_TIMES: Final = ("submit_time", "wait_time", "run_time", "requested_time", "think_time")

#: The largest number in any other field: enough for a million TB, in KB.
_MAX_NUMBER: Final = 10**15

#: `int` and `float` also take ``1_000``, ``+1``, ``1e3`` and ``nan``.
_NUMBERS: Final = re.compile(r"[-.0-9\s]+", re.ASCII)

_START: Final = re.compile(r"\s*;\s*UnixStartTime\s*:\s*([0-9]{1,12})\s*", re.ASCII)

_GZIP_MAGIC: Final = b"\x1f\x8b"


class SwfRecord(NamedTuple):
    """One line of a workload file, with `UNKNOWN` for unknown numbers."""

    number: int
    submit_time: int
    wait_time: int
    run_time: int
    processors: int
    #: The only field that may have decimals.
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


@final
class SwfHeader:
    """The comments at the start of a workload file, as far as a replay needs them."""

    __slots__ = ("start_time",)

    #: The second since 1970 at which the log begins; None if it has no such comment.
    start_time: int | None

    def __init__(self) -> None:
        self.start_time = None

    def read(self, line: str) -> None:
        """Read a comment.

        >>> header = SwfHeader()
        >>> header.read("; UnixStartTime: 1132444805")
        >>> header.start_time
        1132444805
        """
        found = _START.fullmatch(line)
        # The authors of a log write 0 or -1 if the time is unknown.
        if found is not None and 0 < (start := int(found[1])) <= MAX_SECONDS:
            self.start_time = start


#: The largest number of each field.
_MAXIMA: Final = tuple(MAX_SECONDS if name in _TIMES else _MAX_NUMBER for name in SwfRecord._fields)


def read_swf(path: str | os.PathLike[str]) -> Iterator[SwfRecord]:
    """Yield the records of a workload file, plain or gzipped, lazily.

    Lines for parts of an interrupted job (status 2, 3 and 4) are skipped, because another line describes the whole job.

    Raises:
        WorkloadError: the file cannot be read, or a line is invalid.
    """
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - a path may be a text
            yield from parse_swf(stream, os.fspath(path))
    except OSError as error:
        raise WorkloadError(os.fspath(path), 0, f"cannot be read: {error.strerror or error}") from None


def parse_swf(stream: BufferedReader, name: str, header: SwfHeader | None = None) -> Iterator[SwfRecord]:
    """Yield the records of an open file, plain or gzipped, and close it at its end.

    Args:
        stream: the bytes of the file.
        name: the name of the file in errors.
        header: filled with the header, which is complete before the first record.

    Raises:
        WorkloadError: a line is invalid, or the compressed data are damaged or incomplete.
    """
    # A pipe may have only the first byte yet, but no text starts with it.
    head = stream.peek(len(_GZIP_MAGIC))[: len(_GZIP_MAGIC)]
    zipped = head != b"" and _GZIP_MAGIC.startswith(head)
    latest = number = 0
    with io.TextIOWrapper(gzip.GzipFile(fileobj=stream) if zipped else stream, "ascii", "replace") as text:
        try:
            for number, line in enumerate(text, 1):
                if not (start := line.lstrip()) or start[0] == ";":
                    if header is not None:
                        header.read(line)
                    continue
                record = _parse_line(line, name, number)
                if record.submit_time < latest:
                    reason = f"submitted at {record.submit_time}, but an earlier line is from {latest}"
                    raise WorkloadError(name, number, reason)
                latest = record.submit_time
                if record.status not in PARTIAL_STATUSES:
                    yield record
        except (EOFError, gzip.BadGzipFile, zlib.error):
            reason = "the compressed data are damaged or incomplete"
            raise WorkloadError(name, number + 1, reason) from None


def _parse_line(line: str, name: str, line_number: int) -> SwfRecord:
    texts = line.split()
    if len(texts) != len(SwfRecord._fields):
        raise WorkloadError(name, line_number, f"expected {len(SwfRecord._fields)} fields, found {len(texts)}")
    if not _NUMBERS.fullmatch(line):
        odd = next(text for text in texts if not _NUMBERS.fullmatch(text))
        raise WorkloadError(name, line_number, f"{odd!r} is not a number")
    try:
        record = SwfRecord._make(map(int, texts))
    except ValueError:
        record = _with_decimals(texts, name, line_number)
    if min(record) < UNKNOWN or record.submit_time < 0 or record.number < 0 or _is_too_large(record):
        raise WorkloadError(name, line_number, _range_fault(record))
    return record


def _with_decimals(texts: list[str], name: str, line_number: int) -> SwfRecord:
    values: list[float] = []
    for field, text in zip(SwfRecord._fields, texts, strict=True):
        try:
            values.append(float(text) if field == "cpu_time" else int(text))
        except ValueError:
            raise WorkloadError(name, line_number, f"{field} is {text!r}, expected a whole number") from None
    return SwfRecord._make(values)


def _is_too_large(record: SwfRecord) -> bool:
    return max(record) > MAX_SECONDS and any(map(gt, record, _MAXIMA))


def _range_fault(record: SwfRecord) -> str:
    for field, value, maximum in zip(SwfRecord._fields, record, _MAXIMA, strict=True):
        if value < UNKNOWN:
            return f"{field} is {value}, expected a number >= 0, or {UNKNOWN} for unknown"
        if value > maximum:
            return f"{field} is larger than {maximum}"
    field = "number" if record.number < 0 else "submit_time"
    return f"{field} is unknown"
