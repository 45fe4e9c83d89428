"""What is replayed: jobs, each with when it comes, how long it runs, who sends it, where to, and what it takes.

A job knows nothing of the log it was read from. A workload is any iterable of jobs in the order of their submission.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, final

from ugm.errors import RequestError, UgmError, printable
from ugm.identity import UserGroup
from ugm.resources import Resource

__all__ = ["MAX_SECONDS", "Job", "WorkloadError"]

#: The longest that a job may run, and the latest that it may come: 300 years. Waits of a thousand million such jobs,
#: one after the other, fit the 64 bits in which a replay keeps them.
MAX_SECONDS: Final = 10**10


class WorkloadError(UgmError, ValueError):
    """A workload file cannot be read any further.

    Attributes:
        file: the name of the file.
        line: counted from 1; 0 where the error has no place in the text.
        reason: what is wrong there, as a sentence without its full stop.
    """

    def __init__(self, file: str, line: int, reason: str) -> None:
        super().__init__(file, line, reason)
        self.file: Final = file
        self.line: Final = line
        self.reason: Final = reason

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return printable(f"{place}: {self.reason}")


@final
@dataclass(frozen=True, slots=True)
class Job:
    """One job of a workload; in the replay it is one application that holds its usage for as long as it runs.

    Raises:
        RequestError: a time is negative, or more than `MAX_SECONDS`.
    """

    #: Unique among the jobs that are held or running at one time.
    number: int
    #: In seconds since the start of the log.
    submit_time: int
    #: In seconds. A job of 0 seconds starts and ends at one instant, if its usage fits.
    run_time: int
    #: The queue that is asked for, empty for none; placement decides.
    queue: str
    user: UserGroup
    usage: Resource
    #: What placement rules look at, for example the namespace.
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.submit_time < 0:
            raise RequestError("submit_time", self.submit_time, "a workload starts at second 0")
        if self.run_time < 0:
            raise RequestError("run_time", self.run_time, "a job runs for 0 seconds or longer")
        for name, time in (("submit_time", self.submit_time), ("run_time", self.run_time)):
            if time > MAX_SECONDS:
                raise RequestError(name, time, f"a time is at most {MAX_SECONDS} seconds")

    @property
    def application_id(self) -> str:
        """The application that the job is to the partition, and its one allocation.

        >>> Job(17, 0, 60, "root.a", UserGroup("sue"), Resource()).application_id
        'job-17'
        """
        return f"job-{self.number}"
