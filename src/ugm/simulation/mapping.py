"""What the numbers of a workload log become: queue, user, group and resources of a job.

A log knows users, groups and sites by number. A number becomes a name by a prefix, so that user 12 of the log is
``user12`` in the limits. What the log leaves unknown is filled in here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal, final, get_args

from ugm.errors import RequestError
from ugm.identity import ROOT, UserGroup, canonical_path
from ugm.resources import Resource
from ugm.simulation.swf import UNKNOWN, SwfRecord
from ugm.simulation.workload import Job

__all__ = ["DEFAULT_PREFIXES", "JobMapping", "NameField"]

#: The fields of a log that are names given as numbers.
NameField = Literal["user", "group", "executable", "queue", "partition"]

#: What stands before the number of each. The partition of a log is a site, not to be taken for that of a configuration.
DEFAULT_PREFIXES: Final[Mapping[NameField, str]] = MappingProxyType(
    {"user": "user", "group": "group", "executable": "executable", "queue": "queue", "partition": "site"}
)

#: How many sizes of jobs are kept for sharing; where the log has the memory that was used, each job has its own.
_REMEMBERED_SIZES: Final = 1024

_KIB: Final = 2**10
_GIB: Final = 2**30


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class JobMapping:
    """How to make jobs of the records of a log.

    Raises:
        RequestError: a queue level is no name field, or an amount is negative.

    >>> record = SwfRecord(7, 0, -1, 60, 4, -1, -1, -1, 90, 524288, 1, 12, 3, -1, -1, 40, -1, -1)
    >>> job, = JobMapping().jobs([record])
    >>> print(job.queue, job.user.name, job.user.groups, job.usage)
    root.site40 user12 ('group3',) memory 2Gi, vcore 4
    """

    #: The fields that name the levels of the queue that is asked for, below the root, from the top. Levels unknown to
    #: the log are left out.
    queue_levels: tuple[NameField, ...] = ("partition", "queue")
    #: The queue below the root that jobs with no level left ask for; empty if they ask for none.
    default_queue: str = "default"
    #: Prefixes other than those of `DEFAULT_PREFIXES`.
    prefixes: Mapping[NameField, str] = field(default_factory=dict)
    #: The user of jobs whose user is unknown. A job whose group is unknown is of a user without groups.
    unknown_user: str = "unknown"
    #: In thousandths of a core.
    vcore_per_processor: int = 1000
    #: In bytes; for jobs of which the log gives neither the requested nor the used memory. With 0 they ask for none.
    memory_per_processor: int = 2 * _GIB

    def __post_init__(self) -> None:
        for level in (*self.queue_levels, *self.prefixes):
            if level not in get_args(NameField):
                raise RequestError("field", level, f"expected one of {', '.join(get_args(NameField))}")
        for name in ("vcore_per_processor", "memory_per_processor"):
            if getattr(self, name) < 0:
                raise RequestError(name, getattr(self, name), "an amount is 0 or more")

    def jobs(self, records: Iterable[SwfRecord]) -> Iterator[Job]:
        """Yield one job for each record.

        - Processors: those allocated, else those requested, else one.
        - Memory: that requested, else that used, else `memory_per_processor`; each times the processors.
        - Run time: 0 when unknown, as of a job that was cancelled before it ran.

        Raises:
            RequestError: a prefix makes a name that no queue or user can have.
        """
        # A log has few users and places, and often few sizes: equal values are made once and shared.
        require_user, queue_of = lru_cache(maxsize=None)(self._user), lru_cache(maxsize=None)(self._queue)
        usage_of = lru_cache(maxsize=_REMEMBERED_SIZES)(self._usage)
        for record in records:
            queue = queue_of(*[getattr(record, level) for level in self.queue_levels])
            user = require_user(record.user, record.group)
            usage = usage_of(*self._size(record))
            yield Job(record.number, record.submit_time, max(record.run_time, 0), queue, user, usage)

    def _user(self, user: int, group: int) -> UserGroup:
        name = self.unknown_user if user == UNKNOWN else self._name("user", user)
        groups = () if group == UNKNOWN else (self._name("group", group),)
        return UserGroup(name, groups)

    def _queue(self, *numbers: int) -> str:
        known = [
            self._name(level, number)
            for level, number in zip(self.queue_levels, numbers, strict=True)
            if number != UNKNOWN
        ]
        if not known and not self.default_queue:
            return ""
        return canonical_path(".".join([ROOT, *(known or [self.default_queue])]))

    def _name(self, level: NameField, number: int) -> str:
        return f"{self.prefixes.get(level, DEFAULT_PREFIXES[level])}{number}"

    def _size(self, record: SwfRecord) -> tuple[int, int]:
        """Return processors, and bytes for each."""
        processors = _first_known(record.processors, record.requested_processors, default=1)
        memory = _first_known(record.requested_memory, record.memory, default=UNKNOWN)
        return processors, self.memory_per_processor if memory == UNKNOWN else memory * _KIB

    def _usage(self, processors: int, memory: int) -> Resource:
        return Resource(vcore=processors * self.vcore_per_processor, memory=processors * memory).without_zeros()


def _first_known(*values: int, default: int) -> int:
    return next((value for value in values if value != UNKNOWN), default)
