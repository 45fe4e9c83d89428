"""A worker process that reads the configurations of clients, so that they do not delay the scheduler.

The interpreter runs one thread at a time. Reading a configuration of a megabyte takes seconds. During that time, a
scheduler in the same process would be slowed down to a fraction of its rate. Therefore one child process with a low
priority reads the texts of clients. It starts with the first text and does one job at a time. It is killed if a job
takes too long, and when the server stops. If the server is killed, the child ends as soon as its pipe is closed.

If no process can be started, the server itself reads small texts, and refuses larger ones.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from threading import Event, Lock, Timer
from typing import IO, Final, cast, final
from weakref import finalize

from ugm import ConfigError
from ugm.config import SchedulerConfig
from ugm.partition import AbstractPartition
from ugm.server.payloads import ApiError, Payload
from ugm.server.worker_jobs import Job, PlanJob, ReadJob, Result, ValidateJob, run_job

__all__ = ["Worker"]

_LOGGER: Final = logging.getLogger(__name__)

#: Seconds that a job may take.
_MOST_SECONDS: Final = 60.0
#: Characters of a text that the server itself reads if it cannot start a process.
_MOST_LOCAL: Final = 1 << 16
#: The program of the child. Its argument is the module search path of the server, which is searched last.
_PROGRAM: Final = (
    "import json, sys; sys.path += [p for p in json.loads(sys.argv[1]) if p not in sys.path]; "
    "from ugm.server.worker_jobs import serve; serve()"
)


class _Child:
    """A child process with its pipes."""

    __slots__ = ("config", "process", "requests", "results")

    #: The configuration of the last plan; before the first plan, the object itself, which is no configuration.
    config: object

    def __init__(self, process: subprocess.Popen[bytes], requests: IO[bytes], results: IO[bytes]) -> None:
        self.process: Final = process
        self.requests: Final = requests
        self.results: Final = results
        self.config = self


@final
class Worker:
    """A child process that reads configurations, one at a time, for any number of threads.

    Args:
        seconds: the time limit of a job.
        executable: the interpreter of the child; None or empty for no child.
    """

    __slots__ = ("__weakref__", "_children", "_executable", "_is_closed", "_lock", "_seconds")

    def __init__(self, seconds: float = _MOST_SECONDS, executable: str | None = sys.executable) -> None:
        self._seconds: Final = seconds
        self._executable = executable
        self._lock: Final = Lock()
        #: At most one child process. It must not outlive this object.
        self._children: Final[list[_Child]] = []
        self._is_closed = False
        finalize(self, _end, self._children)

    def validate(self, text: str) -> Payload:
        """Return the problems of a configuration, as a response.

        Raises:
            ApiError: the worker took too long, or failed.
        """
        return cast("Payload", self._run(ValidateJob(text)))

    def plan(self, partition: AbstractPartition, name: str, text: str) -> Payload:
        """Return the effects that a configuration would have on a partition, as a response.

        Raises:
            ApiError: as for `validate`.
        """
        # A configuration that declares quota models has the key `ugm`.
        current = partition.plan_input(allocations="ugm" in text)
        return cast("Payload", self._run(PlanJob(text, name, current.parts(), current.compiled.config)))

    def read(self, text: str) -> SchedulerConfig:
        """Return a configuration.

        Raises:
            ConfigError: the configuration has problems.
            ApiError: as for `validate`.
        """
        found = cast("SchedulerConfig | ConfigError", self._run(ReadJob(text)))
        if isinstance(found, ConfigError):
            raise found
        return found

    def open(self) -> None:
        """Accept requests again after `close`."""
        self._is_closed = False

    def close(self) -> None:
        """End the child process, even if it is busy, and refuse further jobs."""
        self._is_closed = True
        for child in self._children:
            # A thread that waits for the child finds the pipe closed, and releases the lock.
            child.process.kill()
        with self._lock:
            _end(self._children)

    def _run(self, job: Job) -> Result:
        with self._lock:
            if self._is_closed:
                raise ApiError(503, "busy", "the server is stopping")
            child = self._started()
            return _run_locally(job) if child is None else self._exchange(child, _message(job, child))

    def _exchange(self, child: _Child, message: bytes) -> Result:
        late = Event()
        timer = Timer(self._seconds, _stop, (child, late))
        timer.daemon = True
        timer.start()
        try:
            child.requests.write(message)
            child.requests.flush()
            return cast("Result", pickle.load(child.results))  # noqa: S301 - written by our own child
        except (OSError, EOFError, pickle.UnpicklingError):
            _end(self._children)
            if late.is_set():
                reason = f"the configuration was not read within {self._seconds:g} seconds"
                raise ApiError(503, "validation-timeout", reason) from None
            raise ApiError(503, "validation-failed", "the process that reads configurations ended") from None
        finally:
            timer.cancel()

    def _started(self) -> _Child | None:
        if any(child.process.poll() is not None for child in self._children):
            _end(self._children)
        if not self._children and self._executable:
            child = _start(self._executable)
            if child is None:
                # Another attempt would fail, too.
                self._executable = None
            else:
                self._children.append(child)
        return next(iter(self._children), None)


def _stop(child: _Child, late: Event) -> None:
    late.set()
    child.process.kill()


def _end(children: list[_Child]) -> None:
    while children:
        child = children.pop()
        child.process.kill()
        child.process.wait()
        for pipe in (child.requests, child.results):
            # Unwritten data cannot be delivered any more.
            with suppress(OSError):
                pipe.close()


def _start(executable: str) -> _Child | None:
    places = json.dumps([place for place in sys.path if place])
    try:
        process = subprocess.Popen(  # noqa: S603 - our own program
            [executable, "-c", _PROGRAM, places], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=os.sep
        )
    except OSError as error:
        _LOGGER.warning(
            "cannot start a process that reads configurations (%s); only small ones can be validated", error
        )
        return None
    assert process.stdin is not None  # noqa: S101 - both are child
    assert process.stdout is not None  # noqa: S101 - as above
    return _Child(process, process.stdin, process.stdout)


def _message(job: Job, child: _Child) -> bytes:
    """Return a job as a message for a child, without a configuration that the child knows."""
    if not isinstance(job, PlanJob):
        return pickle.dumps(job)
    is_known = child.config is job.config
    message = pickle.dumps(replace(job, config=None, has_same_config=True) if is_known else job)
    child.config = job.config
    return message


def _run_locally(job: Job) -> Result:
    if len(job.text) > _MOST_LOCAL:
        message = (
            f"the worker process cannot start; without it, a configuration may have at most {_MOST_LOCAL} characters"
        )
        raise ApiError(503, "validation-unavailable", message)
    return run_job(job)
