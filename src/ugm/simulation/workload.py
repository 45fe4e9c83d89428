"""Jobs: the elements of a workload, with their submission, run time, queue, user and resources.

A job does not depend on the format of the log. A workload is any iterable of jobs in the order of their submission.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, final

from ugm.arguments import require_instance, require_iterable
from ugm.errors import RequestError, UgmError, printable
from ugm.identity import UserGroup
from ugm.resources import Resource

__all__ = ["MAX_SECONDS", "Job", "WorkloadError", "checked_jobs"]

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


#: The types of the fields of a job.
_TYPES: Final = (("number", int), ("queue", str), ("user", UserGroup), ("usage", Resource), ("tags", Mapping))


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
        self._require_types()
        for name in ("submit_time", "run_time"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 0:
                raise RequestError(name, getattr(self, name), "expected a number of seconds >= 0")
        if self.requested_time is not None and (type(self.requested_time) is not int or self.requested_time < 1):
            raise RequestError("requested_time", self.requested_time, "expected a number of seconds >= 1, or None")
        for name in ("submit_time", "run_time", "requested_time"):
            time = getattr(self, name) or 0
            if time > MAX_SECONDS:
                raise RequestError(name, time, f"expected at most {MAX_SECONDS} seconds")

    def _require_types(self) -> None:
        for name, kind in _TYPES:
            require_instance(name, getattr(self, name), kind)
        if self.logged_wait is not None:
            require_instance("logged_wait", self.logged_wait, int)

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


def checked_jobs(jobs: object) -> Iterator[Job]:
    """Yield the jobs of a workload one by one, after checking their types."""
    for job in require_iterable("jobs", jobs):
        yield require_instance("jobs", job, Job)
