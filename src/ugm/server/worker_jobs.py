"""The jobs of the worker process of a `ugm.server.worker.Worker`, and the program that does them.

Jobs and results are pickled. That is safe, because both ends are this program, and clients only contribute texts.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import IO, Final, TypeAlias, cast

from ugm import ConfigError, Problem, RequestError
from ugm.config import PartitionConfig, SchedulerConfig, parse_config, review_config
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.config_plan import ConfigPlanInput, ConfigPlanParts, make_config_plan
from ugm.server.payloads import ApiError, Payload, json_payload, problem_to_dict

__all__ = ["Job", "PlanJob", "ReadJob", "Result", "ValidateJob", "run_job", "serve"]

#: The reduction of the priority of the worker. On a processor that it shares with one busy thread of the server, it
#: gets a thirtieth of the time; on an idle processor, all of it.
_NICENESS: Final = 15


@dataclass(frozen=True, slots=True)
class ValidateJob:
    """Validate a configuration."""

    text: str


@dataclass(frozen=True, slots=True)
class PlanJob:
    """Plan the change to a configuration."""

    text: str
    #: The name of the partition.
    name: str
    #: The result of `ConfigPlanInput.parts`.
    parts: ConfigPlanParts
    #: The configuration in force.
    config: PartitionConfig | None
    #: Whether to use the configuration of the last plan instead of `config`. It may be large, so it is sent only once.
    has_same_config: bool = False


@dataclass(frozen=True, slots=True)
class ReadJob:
    """Read a configuration."""

    text: str


Job: TypeAlias = ValidateJob | PlanJob | ReadJob
#: A payload, or the result of a `ReadJob`.
Result: TypeAlias = Payload | SchedulerConfig | ConfigError


def run_job(job: Job) -> Result:
    """Do a job, and return its result."""
    if isinstance(job, ReadJob):
        return _read(job.text)
    try:
        return json_payload(_validate(job.text) if isinstance(job, ValidateJob) else _plan(job))
    except (ConfigError, RequestError) as error:
        return ApiError.of(error).payload()


def _read(text: str) -> SchedulerConfig | ConfigError:
    try:
        return parse_config(text, file="upload")
    except ConfigError as error:
        return error
    except RequestError as error:
        # An exception would end the process, and with it the jobs of other clients.
        return ConfigError((Problem("upload", 0, 0, "", "partition-unusable", str(error)),))


def _validate(text: str) -> dict[str, object]:
    """Return the problems and warnings of a configuration."""
    review = review_config(text, file="sent")
    return {
        "allowed": not review.problems,
        "reason": review.problems[0].message if review.problems else "",
        "problems": list(map(problem_to_dict, review.problems)),
        "warnings": list(map(problem_to_dict, review.warnings)),
    }


def _plan(job: PlanJob) -> dict[str, object]:
    """Return the effects that a configuration would have on a partition."""
    current = ConfigPlanInput(CompiledConfig.of(job.config), job.parts)
    plan = make_config_plan(current, CompiledConfig.of(_partition_config(job)))
    return {**plan.to_dict(), "text": str(plan)}


def _partition_config(job: PlanJob) -> PartitionConfig:
    for found in parse_config(job.text, file="plan").partitions:
        if found.name == job.name:
            return found
    message = f"partition {job.name!r} is missing"
    raise ConfigError((Problem("plan", 0, 0, "partitions", "partition-missing", message),))


def serve() -> None:
    """Do the jobs from standard input until it ends."""
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    # Ctrl-C in a terminal also reaches this process, but it must end with the server.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as results:
        # Output of any other code must not mix with the results.
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        with suppress(EOFError, BrokenPipeError):
            _serve(sys.stdin.buffer, results)


def _serve(jobs: IO[bytes], results: IO[bytes]) -> None:
    config: PartitionConfig | None = None
    while True:
        job = cast("Job", pickle.load(jobs))  # noqa: S301 - written by our own parent
        if isinstance(job, PlanJob):
            config = config if job.has_same_config else job.config
            job = replace(job, config=config)
        results.write(pickle.dumps(run_job(job)))
        results.flush()
