"""Reviews of configurations that clients send: their problems, and the effects that they would have."""

from __future__ import annotations

from dataclasses import dataclass

from ugm import ConfigError, Problem
from ugm._json_values import Json
from ugm.config import parse_config, review_config
from ugm.partition import AbstractPartition
from ugm.server.http.payloads import problem_to_dict

__all__ = ["Validation", "plan_of", "validate"]


@dataclass(frozen=True, slots=True)
class Validation:
    """The problems and warnings of a configuration."""

    allowed: bool
    #: The first problem; empty if there is none.
    reason: str
    problems: list[Json]
    warnings: list[Json]


def validate(text: str) -> Validation:
    """Return the problems and warnings of a configuration."""
    review = review_config(text, file="sent")
    return Validation(
        allowed=not review.problems,
        reason=review.problems[0].message if review.problems else "",
        problems=list(map(problem_to_dict, review.problems)),
        warnings=list(map(problem_to_dict, review.warnings)),
    )


def plan_of(partition: AbstractPartition, name: str, text: str) -> dict[str, Json]:
    """Return the effects that a configuration would have on the partition of a name.

    Raises:
        ConfigError: it has problems, or does not have this partition.
    """
    config = next((found for found in parse_config(text, file="plan").partitions if found.name == name), None)
    if config is None:
        message = f"partition {name!r} is missing"
        raise ConfigError((Problem("plan", 0, 0, "partitions", "partition-missing", message),))
    plan = partition.plan(config)
    return {**plan.to_dict(), "text": str(plan)}
