"""Validates and plans configurations in another process, so that the scheduler keeps the interpreter.

The interpreter runs one thread at a time. Reading a configuration of a megabyte takes seconds, during which a scheduler
in the same process would keep a fraction of its usual rate. So texts from clients are read by one child process with
a low priority. It is started when the first text comes, serves one request after the other,
and is killed when a request takes too long, or when the server stops. If the server is killed, the child ends as soon
as it finds its pipe closed.

Where no process can be started, small texts are read in the server itself, and larger ones are refused.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from threading import Event, Lock, Timer
from typing import IO, Final, cast, final
from weakref import finalize

from ugm import ConfigError, Partition
from ugm.config import SchedulerConfig
from ugm.server.errors import ApiError
from ugm.server.worker_jobs import Job, KeepJob, KeptPlanJob, PlanJob, ReadJob, Result, ValidateJob, done

__all__ = ["Worker"]

_LOGGER: Final = logging.getLogger(__name__)

#: Seconds that a request may take.
_PATIENCE: Final = 60.0
#: Characters of a text that is read in the server itself if there is no other process.
_MOST_HERE: Final = 1 << 16
#: The program of the child. It gets the places of modules as its argument, and looks there last.
_PROGRAM: Final = (
    "import json, sys; sys.path += [p for p in json.loads(sys.argv[1]) if p not in sys.path]; "
    "from ugm.server.worker_jobs import serve; serve()"
)


class _Child:
    """A child process, with the child to it."""

    __slots__ = ("kept", "process", "requests", "results")

    #: The configuration that was sent to it for plans; itself at first, which is none.
    kept: object

    def __init__(self, process: subprocess.Popen[bytes], requests: IO[bytes], results: IO[bytes]) -> None:
        self.process: Final = process
        self.requests: Final = requests
        self.results: Final = results
        self.kept = self


@final
class Worker:
    """One child process that reads configurations; any number of threads may use it, one at a time is served.

    Args:
        seconds: how long a request may take.
        executable: the interpreter of the child; None or empty for no child.
    """

    __slots__ = ("__weakref__", "_children", "_executable", "_is_closed", "_lock", "_seconds")

    def __init__(self, seconds: float = _PATIENCE, executable: str | None = sys.executable) -> None:
        self._seconds: Final = seconds
        self._executable = executable
        self._lock: Final = Lock()
        #: The child process, if there is one. It must not outlive this object.
        self._children: Final[list[_Child]] = []
        self._is_closed = False
        finalize(self, _end, self._children)

    def validate(self, text: str) -> Result:
        """Return whether a configuration can be used, as the answer of the server.

        Raises:
            ApiError: it took too long, or could not be read at all.
        """
        return self._do(ValidateJob(text))

    def plan(self, partition: Partition, name: str, text: str) -> Result:
        """Return what a configuration would do to a partition, as the answer of the server.

        Raises:
            ApiError: as for `validate`.
        """
        return self._do(PlanJob(text, name, partition.plan_basis()))

    def read(self, text: str) -> SchedulerConfig:
        """Return a configuration.

        Raises:
            ConfigError: it cannot be used; with everything that is wrong.
            ApiError: as for `validate`.
        """
        found: SchedulerConfig | ConfigError = pickle.loads(self._do(ReadJob(text)).content)  # noqa: S301 - our child's
        if isinstance(found, ConfigError):
            raise found
        return found

    def open(self) -> None:
        """Accept requests again after `close`."""
        self._is_closed = False

    def close(self) -> None:
        """End the child process, whatever it does; further requests are refused."""
        self._is_closed = True
        for child in self._children:
            # The thread that waits for it, if there is one, finds the pipe closed and tidies up.
            child.process.kill()
        with self._lock:
            _end(self._children)

    def _do(self, job: Job) -> Result:
        with self._lock:
            if self._is_closed:
                raise ApiError(503, "busy", "the server is stopping")
            child = self._started()
            messages = None if child is None else _messages(job, child)
            if child is None or messages is None:
                return _here(job)
            return self._exchanged(child, messages)

    def _exchanged(self, child: _Child, messages: Iterable[bytes]) -> Result:
        late = Event()
        timer = Timer(self._seconds, _stop, (child, late))
        timer.daemon = True
        timer.start()
        try:
            for message in messages:
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
                # It will not be possible the next time either.
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
            # What was left to be written has nobody to read it.
            with suppress(OSError):
                pipe.close()


def _start(executable: str) -> _Child | None:
    places = json.dumps([place for place in sys.path if place])
    try:
        process = subprocess.Popen(  # noqa: S603 - our own program
            [executable, "-c", _PROGRAM, places], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=os.sep
        )
    except OSError as error:
        _LOGGER.warning("no process to read configurations in (%s); only small ones can be validated", error)
        return None
    assert process.stdin is not None  # noqa: S101 - both are child
    assert process.stdout is not None  # noqa: S101 - as above
    return _Child(process, process.stdin, process.stdout)


def _messages(job: Job, child: _Child) -> list[bytes] | None:
    """Return a job as messages for a child; None if it holds a configuration of a program that cannot be pickled."""
    if not isinstance(job, PlanJob):
        return [pickle.dumps(job)]
    config, messages = job.basis.compiled.config, []
    if child.kept is not config:
        try:
            messages.append(pickle.dumps(KeepJob(config)))
        except Exception:  # noqa: BLE001 - whatever a foreign class raises
            return None
        child.kept = config
    return [*messages, pickle.dumps(KeptPlanJob(job.text, job.name, job.basis.parts()))]


def _here(job: Job) -> Result:
    if len(job.text) > _MOST_HERE:
        message = f"a configuration of more than {_MOST_HERE} characters cannot be read here"
        raise ApiError(503, "validation-unavailable", message)
    return done(job)
