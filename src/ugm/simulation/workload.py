"""Workloads: jobs with their submission, run time, queue, user and resources, and a reader for logs of them.

A workload is any iterable of jobs in the order of their submission. A job does not depend on the format of a log.

`read_swf` reads the Standard Workload Format, which is that of the Parallel Workloads Archive: one job per line, with
18 numbers separated by white space. ``;`` starts a comment, ``-1`` means unknown, times are seconds, memory is KB per
processor, and the lines are sorted by submit time. Files may be gzipped; the reader detects that by their first bytes,
not by their name.

The reader is strict and streams the file: only one line is in memory at a time. The first invalid line, or a number
that is too large, raises an error with the line number.

A log contains numbers of users, groups and sites. For a `JobMapping`, a prefix turns a number into a name, so that user
12 of the log is ``user12`` in the limits. Unknown values of the log get their defaults only here.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from io import BufferedReader
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, final, get_args

from ugm.arguments import (
    require_instance,
    require_items,
    require_iterable,
    require_mapping,
    require_resource,
)
from ugm.errors import RequestError, UgmError, printable
from ugm.families import family_name
from ugm.identity import ROOT, UserGroup, canonical_path
from ugm.resources import MEMORY, Resource

__all__ = [
    "Job",
    "JobMapping",
    "NameField",
    "SwfHeader",
    "SwfRecord",
    "WorkloadError",
    "parse_swf",
    "read_swf",
]

#: The largest run time and submit time: 300 years. The waiting times of a thousand million such jobs in sequence fit
#: into the 64 bits that a replay uses for them.
MAX_SECONDS: Final = 10**10


class WorkloadError(UgmError, ValueError):
    """A workload file has an error.

    Attributes:
        file: the name of the file.
        line: the line number, from 1; 0 if the error is not in the text.
        reason: the problem, as a sentence without a full stop.
    """

    code = "workload-invalid"

    def __init__(self, file: str, line: int, reason: str) -> None:
        super().__init__(file, line, reason)
        self.file: Final = file
        self.line: Final = line
        self.reason: Final = reason

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return printable(f"{place}: {self.reason}")


#: The types of the fields of a job, and the lowest values of its times, of which some may be unknown.
_TYPES: Final = (("number", int), ("queue", str), ("user", UserGroup), ("usage", Resource), ("tags", Mapping))
_LOWEST_TIMES: Final = {"submit_time": 0, "run_time": 0, "requested_time": 1, "logged_wait": 0}
_OPTIONAL_TIMES: Final = frozenset({"requested_time", "logged_wait"})


@final
@dataclass(frozen=True, slots=True)
class Job:
    """One job of a workload; in a replay it is one application with one allocation.

    Raises:
        RequestError: a time is negative, or more than `MAX_SECONDS`, or a value is of another type.
    """

    #: Unique among the jobs that are waiting or running at one time.
    number: int
    #: In seconds since the start of the log.
    submit_time: int
    #: In seconds. A job of 0 seconds starts and ends at the same time, if its usage fits.
    run_time: int
    #: The requested queue, empty for none; the placement rules choose the final one.
    queue: str
    user: UserGroup
    usage: Resource
    #: Data for the placement rules, for example the namespace.
    tags: Mapping[str, str] = field(default_factory=dict)
    #: The seconds for which it waited according to the log; None if that is unknown. The replay does not use it.
    logged_wait: int | None = None
    #: The run time that its user requested, in seconds; None if that is unknown. Budgets count it as promised.
    requested_time: int | None = None

    def __post_init__(self) -> None:
        for name, kind in _TYPES:
            require_instance(name, getattr(self, name), kind)
        for name, lowest in _LOWEST_TIMES.items():
            time = getattr(self, name)
            is_unknown = time is None and name in _OPTIONAL_TIMES
            if not is_unknown and (type(time) is not int or not lowest <= time <= MAX_SECONDS):
                raise RequestError(name, time, f"expected a number of seconds from {lowest} to {MAX_SECONDS}")

    @property
    def promised_time(self) -> int:
        """The seconds that it promises to take at most: the requested time, or else its run time, and at least one."""
        return self.requested_time or max(self.run_time, 1)

    @property
    def application_id(self) -> str:
        """The id of the application of the job, and of its allocation.

        >>> Job(17, 0, 60, "root.a", UserGroup("sue"), Resource()).application_id
        'job-17'
        """
        return f"job-{self.number}"


# The Standard Workload Format

#: The value for unknown numbers.
UNKNOWN: Final = -1

#: The statuses of parts of a job that was interrupted; another line describes the whole job.
PARTIAL_STATUSES: Final = frozenset((2, 3, 4))

#: The fields that must be known.
_KNOWN: Final = ("number", "submit_time")

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
@dataclass(slots=True)
class SwfHeader:
    """The comments at the start of a workload file, as far as a replay needs them."""

    #: The second since 1970 at which the log begins; None if it has no such comment.
    start_time: int | None = None

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
    with suppress(ValueError):
        record = SwfRecord._make(map(int, texts))
        is_known = min(record.number, record.submit_time) >= 0
        if is_known and min(record) >= UNKNOWN and max(record) <= MAX_SECONDS and _NUMBERS.fullmatch(line):
            return record
    # Few lines have decimals, numbers larger than a time, or an error.
    fields = zip(SwfRecord._fields, texts, strict=True)
    return SwfRecord._make([_number(column, text, name, line_number) for column, text in fields])


def _number(column: str, text: str, name: str, line_number: int) -> float:
    lowest = 0 if column in _KNOWN else UNKNOWN
    highest = MAX_SECONDS if column in _TIMES else _MAX_NUMBER
    with suppress(ValueError):
        value = float(text) if column == "cpu_time" else int(text)
        if _NUMBERS.fullmatch(text) and lowest <= value <= highest:
            return value
    kind = "number" if column == "cpu_time" else "whole number"
    raise WorkloadError(name, line_number, f"{column} is {text!r}, expected a {kind} from {lowest} to {highest}")


# The mapping to jobs

#: The fields of a log with numbers that stand for names.
NameField = Literal["user", "group", "executable", "queue", "partition"]

#: The prefix of each field. The partition of a log is called a site, to distinguish it from that of a configuration.
_PREFIXES: Final[Mapping[NameField, str]] = MappingProxyType(
    {"user": "user", "group": "group", "executable": "executable", "queue": "queue", "partition": "site"}
)

#: The number of cached job sizes. If the log contains the used memory, nearly every job has a size of its own.
_REMEMBERED_SIZES: Final = 1024

_KIB: Final = 2**10
#: The amounts of jobs per processor, in base units.
_AMOUNTS: Final = Resource(vcore=1000, memory=2 * 2**30)
#: The user of jobs with an unknown user. If the group of a job is unknown, its user has no groups.
_UNKNOWN_USER: Final = "unknown"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class JobMapping:
    """Converts the records of a log to jobs.

    Raises:
        RequestError: a queue level is not a name field, an amount is negative, or a value is of another type.

    >>> record = SwfRecord(7, 0, -1, 60, 4, -1, -1, -1, 90, 524288, 1, 12, 3, -1, -1, 40, -1, -1)
    >>> job, = JobMapping().jobs([record])
    >>> print(job.queue, job.user.name, job.user.groups, job.usage)
    root.site40 user12 ('group3',) memory 2Gi, vcore 4
    """

    #: The fields that form the path of the requested queue below the root, from the top. Fields with an unknown value
    #: are omitted.
    queue_levels: tuple[NameField, ...] = ("partition", "queue")
    #: The requested queue of jobs for which all these fields are unknown; empty for none.
    default_queue: str = "default"
    #: The prefixes of names, by default the name of the field, and ``site`` for the partition.
    prefixes: Mapping[NameField, str] = field(default_factory=dict)
    #: The tags of each job, with the field whose name each has; a tag is omitted if the field is unknown. Quota models
    #: and placement rules read them.
    tags: Mapping[str, NameField] = field(default_factory=dict)
    #: The amounts per processor that replace or complete a core and 2 GiB of memory. The memory is that of jobs with
    #: neither requested nor used memory in the log. With 0, jobs do not request a resource.
    per_processor: Resource = field(default_factory=Resource)
    #: The variants of these amounts that jobs request, by the name of one of their fields, such as ``queue2``. Of
    #: several for a job, the first counts; a job without one requests any.
    variants: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        levels = require_items("queue_levels", self.queue_levels)
        prefixes, tags = require_mapping("prefixes", self.prefixes), require_mapping("tags", self.tags)
        for level in (*levels, *prefixes, *tags.values()):
            if level not in get_args(NameField):
                raise RequestError("field", level, f"expected one of {', '.join(get_args(NameField))}")
        require_instance("default_queue", self.default_queue, str)
        amounts = require_resource("per_processor", self.per_processor)
        for variant in require_mapping("variants", self.variants).values():
            if family_name(require_instance("variants", variant, str)) not in amounts:
                raise RequestError("variants", variant, "expected family:variant with an amount per processor")

    def jobs(self, records: Iterable[SwfRecord]) -> Iterator[Job]:
        """Yield one job for each record.

        - Processors: the allocated, else the requested, else one; 0 counts as unknown.
        - Memory: the requested, else the used, else that of `per_processor`; each multiplied by the processors.
        - Other resources: those of `per_processor`, with the `variants`.
        - Run time: 0 if unknown, for example for a job that was cancelled before it ran.

        Raises:
            RequestError: a prefix leads to an invalid name of a queue or user, or a record is of another type.
        """
        # A log has few users and queues, and often few sizes, so equal values are created once and shared.
        require_user, queue_of = lru_cache(maxsize=None)(self._user), lru_cache(maxsize=None)(self._queue)
        usage_of = lru_cache(maxsize=_REMEMBERED_SIZES)(self._usage)
        tags_of, fields = lru_cache(maxsize=None)(self._tags), tuple(self.tags.values())
        for record in require_iterable("records", records):
            require_instance("records", record, SwfRecord)
            queue = queue_of(*[getattr(record, level) for level in self.queue_levels])
            user = require_user(record.user, record.group)
            usage = usage_of(*self._size(record), self._requested_variants(record) if self.variants else ())
            tags = tags_of(*[getattr(record, field) for field in fields])
            wait = None if record.wait_time == UNKNOWN else record.wait_time
            requested = record.requested_time if record.requested_time > 0 else None
            run_time = max(record.run_time, 0)
            yield Job(record.number, record.submit_time, run_time, queue, user, usage, tags, wait, requested)

    def _user(self, user: int, group: int) -> UserGroup:
        groups = filter(None, [self._name("group", group)])
        return UserGroup(self._name("user", user) or _UNKNOWN_USER, tuple(groups))

    def _queue(self, *numbers: int) -> str:
        path = [*filter(None, map(self._name, self.queue_levels, numbers))] or [*filter(None, [self.default_queue])]
        return canonical_path(".".join([ROOT, *path])) if path else ""

    def _tags(self, *numbers: int) -> Mapping[str, str]:
        names = zip(self.tags, map(self._name, self.tags.values(), numbers), strict=True)
        return {tag: name for tag, name in names if name is not None}

    def _name(self, level: NameField, number: int) -> str | None:
        """Return the name for a number of a field; None if it is unknown."""
        return None if number == UNKNOWN else f"{self.prefixes.get(level, _PREFIXES[level])}{number}"

    @staticmethod
    def _size(record: SwfRecord) -> tuple[int, int]:
        """Return the number of processors, and the memory of each in KiB."""
        processors = max(record.processors, 0) or max(record.requested_processors, 0) or 1
        return processors, record.memory if record.requested_memory == UNKNOWN else record.requested_memory

    def _requested_variants(self, record: SwfRecord) -> tuple[str, ...]:
        names = {self._name(level, getattr(record, level)) for level in _PREFIXES}
        found = [variant for name, variant in self.variants.items() if name in names]
        # The first one of each family replaces the later ones.
        return tuple({family_name(variant): variant for variant in reversed(found)}.values())

    def _usage(self, processors: int, memory: int, variants: tuple[str, ...]) -> Resource:
        each = {**_AMOUNTS, **self.per_processor}
        each |= {variant: each[family_name(variant)] for variant in variants}
        if memory != UNKNOWN:
            each[MEMORY] = memory * _KIB
        return (Resource(each) * processors).without_zeros()
