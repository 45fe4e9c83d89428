"""The mapping from the numbers of a workload log to the queue, user, group and resources of a job.

A log contains numbers of users, groups and sites. A prefix turns a number into a name, so that user 12 of the log is
``user12`` in the limits. Unknown values of the log get their defaults only here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal, final, get_args

from ugm.arguments import (
    require_instance,
    require_items,
    require_iterable,
    require_mapping,
    require_resource,
    require_whole,
)
from ugm.errors import RequestError
from ugm.families import family_name
from ugm.identity import ROOT, UserGroup, canonical_path
from ugm.resources import Resource
from ugm.simulation.swf import UNKNOWN, SwfRecord
from ugm.simulation.workload import Job

__all__ = ["DEFAULT_PREFIXES", "JobMapping", "NameField"]

#: The fields of a log with numbers that stand for names.
NameField = Literal["user", "group", "executable", "queue", "partition"]

#: The prefix of each field. The partition of a log is called a site, to distinguish it from that of a configuration.
DEFAULT_PREFIXES: Final[Mapping[NameField, str]] = MappingProxyType(
    {"user": "user", "group": "group", "executable": "executable", "queue": "queue", "partition": "site"}
)

#: The number of cached job sizes. If the log contains the used memory, nearly every job has a size of its own.
_REMEMBERED_SIZES: Final = 1024

_KIB: Final = 2**10
_GIB: Final = 2**30


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
    #: Prefixes that replace those of `DEFAULT_PREFIXES`.
    prefixes: Mapping[NameField, str] = field(default_factory=dict)
    #: The tags of each job, with the field whose name each has; a tag is omitted if the field is unknown. Quota models
    #: and placement rules read them.
    tags: Mapping[str, NameField] = field(default_factory=dict)
    #: The user of jobs with an unknown user. If the group of a job is unknown, its user has no groups.
    unknown_user: str = "unknown"
    #: In thousandths of a core.
    vcore_per_processor: int = 1000
    #: In bytes, for jobs with neither requested nor used memory in the log. With 0, they request no memory.
    memory_per_processor: int = 2 * _GIB
    #: Further amounts per processor, for example of GPUs.
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
        for name in ("vcore_per_processor", "memory_per_processor"):
            require_whole(name, getattr(self, name))
        for name in ("default_queue", "unknown_user"):
            require_instance(name, getattr(self, name), str)
        amounts = require_resource("per_processor", self.per_processor)
        for variant in require_mapping("variants", self.variants).values():
            if family_name(require_instance("variants", variant, str)) not in amounts:
                raise RequestError("variants", variant, "expected family:variant with an amount per processor")

    def jobs(self, records: Iterable[SwfRecord]) -> Iterator[Job]:
        """Yield one job for each record.

        - Processors: the allocated, else the requested, else one; 0 counts as unknown.
        - Memory: the requested, else the used, else `memory_per_processor`; each multiplied by the processors.
        - Other resources: `per_processor`, with the `variants`.
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

    def _tags(self, *numbers: int) -> Mapping[str, str]:
        known = zip(self.tags.items(), numbers, strict=True)
        return {tag: self._name(level, number) for (tag, level), number in known if number != UNKNOWN}

    def _name(self, level: NameField, number: int) -> str:
        return f"{self.prefixes.get(level, DEFAULT_PREFIXES[level])}{number}"

    def _size(self, record: SwfRecord) -> tuple[int, int]:
        """Return the number of processors, and the bytes of each."""
        processors = max(record.processors, 0) or max(record.requested_processors, 0) or 1
        memory = record.memory if record.requested_memory == UNKNOWN else record.requested_memory
        return processors, self.memory_per_processor if memory == UNKNOWN else memory * _KIB

    def _requested_variants(self, record: SwfRecord) -> tuple[str, ...]:
        names = {self._name(level, getattr(record, level)) for level in DEFAULT_PREFIXES}
        found: dict[str, str] = {}
        for name, variant in self.variants.items():
            if name in names:
                found.setdefault(family_name(variant), variant)
        return tuple(found.values())

    def _usage(self, processors: int, memory: int, variants: tuple[str, ...]) -> Resource:
        each = Resource(vcore=self.vcore_per_processor, memory=memory) + self.per_processor
        typed = {variant: self.per_processor[family_name(variant)] for variant in variants}
        return ((each + Resource(typed)) * processors).without_zeros()
