"""What the child process of a `ugm.server.worker.Worker` does.

Jobs and results cross the pipe pickled. Both ends are this program, and nothing of it comes from a client but texts.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, Final, NamedTuple, TypeAlias, cast

from ugm import ConfigError, Problem, RequestError
from ugm.config import PartitionConfig, SchedulerConfig, parse_config, review_config
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.plan import Snapshot, make_plan
from ugm.server.errors import ApiError, of_config, of_request, problem_dict
from ugm.server.json_text import json_text

__all__ = ["Job", "KeepJob", "KeptPlanJob", "Message", "PlanJob", "ReadJob", "Result", "ValidateJob", "done", "serve"]

#: How much lower the priority of the child is. On a processor that it shares with one busy thread of the server, it
#: gets a thirtieth of the time; on one of its own, all of it.
_NICENESS: Final = 15


class Result(NamedTuple):
    """A finished answer."""

    #: Of HTTP.
    status: int
    #: JSON; for a `ReadJob` the configuration, or what is wrong with it, pickled.
    content: bytes


@dataclass(frozen=True, slots=True)
class ValidateJob:
    """Say whether a configuration can be used."""

    text: str


@dataclass(frozen=True, slots=True)
class PlanJob:
    """Say what a configuration would do."""

    text: str
    #: The name of the partition.
    name: str
    basis: Snapshot


@dataclass(frozen=True, slots=True)
class KeepJob:
    """Keep a configuration for plans to come: sent once for many of them, because it may be large."""

    config: Any


@dataclass(frozen=True, slots=True)
class KeptPlanJob:
    """Do a `PlanJob` under the configuration that was kept."""

    text: str
    name: str
    #: What `Snapshot.parts` returned.
    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ReadJob:
    """Read a configuration."""

    text: str


Job: TypeAlias = ValidateJob | PlanJob | ReadJob
#: What crosses the pipe.
Message: TypeAlias = ValidateJob | KeepJob | KeptPlanJob | ReadJob


def done(job: Job) -> Result:
    """Do a job."""
    if isinstance(job, ReadJob):
        return Result(200, pickle.dumps(_read(job.text)))
    try:
        return Result(200, _json(validated(job.text) if isinstance(job, ValidateJob) else planned(job)))
    except ConfigError as error:
        return _refused(of_config(error))
    except RequestError as error:
        return _refused(of_request(error))


def _read(text: str) -> SchedulerConfig | ConfigError:
    try:
        return parse_config(text, file="upload")
    except ConfigError as error:
        return error


def _refused(error: ApiError) -> Result:
    return Result(error.status, _json(error.to_dict()))


def _json(value: object) -> bytes:
    return json_text(value).encode()


def validated(text: str) -> dict[str, Any]:
    """Return whether a configuration is good, everything that is wrong with it, and what probably is."""
    review = review_config(text, file="sent")
    return {
        "allowed": not review.problems,
        "reason": review.problems[0].message if review.problems else "",
        "problems": list(map(problem_dict, review.problems)),
        "warnings": list(map(problem_dict, review.warnings)),
    }


def planned(job: PlanJob) -> dict[str, Any]:
    """Return what a configuration would do to a partition."""
    plan = make_plan(job.basis, CompiledConfig.of(_chosen(job)))
    return {**plan.to_dict(), "text": str(plan)}


def _chosen(job: PlanJob) -> PartitionConfig:
    config = parse_config(job.text, file="plan")
    chosen = next((found for found in config.partitions if found.name == job.name), None)
    if chosen is None:
        message = f"partition {job.name!r} is missing"
        raise ConfigError((Problem("plan", 0, 0, "partitions", "partition-missing", message),))
    return chosen


def serve() -> None:
    """Do jobs from standard input until it ends."""
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    # Ctrl-C in a terminal reaches this process, too; it ends with the server.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as results:
        # Whatever else prints something must not disturb the results.
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        with suppress(EOFError, BrokenPipeError):
            _serve(sys.stdin.buffer, results)


def _serve(jobs: IO[bytes], results: IO[bytes]) -> None:
    kept: Any = None
    while True:
        message = cast("Message", pickle.load(jobs))  # noqa: S301 - written by our own parent
        if isinstance(message, KeepJob):
            kept = message.config
            continue
        results.write(pickle.dumps(done(_job(message, kept))))
        results.flush()


def _job(message: ValidateJob | KeptPlanJob | ReadJob, kept: Any) -> Job:  # noqa: ANN401 - a configuration
    if isinstance(message, KeptPlanJob):
        return PlanJob(message.text, message.name, Snapshot.of(kept, message.parts))
    return message
