"""The rules of declared thresholds, for configurations of files and of programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ugm.configuration import ThresholdConfig
from ugm.errors import RequestError

__all__ = ["ThresholdProblem", "require_thresholds", "threshold_problems"]

#: The largest threshold in percent: all of the limit.
_ALL: Final = 100


class ThresholdProblem(NamedTuple):
    """A rule that declared thresholds violate."""

    #: The path below the thresholds.
    path: tuple[str | int, ...]
    code: str
    message: str


def threshold_problems(thresholds: ThresholdConfig) -> Iterator[ThresholdProblem]:
    """Yield the problems of declared thresholds.

    Each is from 1 to 100 percent and occurs once, and the hysteresis is less than the smallest. So a limit without
    usage is below all of them.
    """
    shares = thresholds.shares
    for at, share in enumerate(shares):
        if not 1 <= share <= _ALL:
            message = f"the threshold is {share} % (allowed: 1 to {_ALL})"
            yield ThresholdProblem(("shares", at), "threshold-share-invalid", message)
        elif share in shares[:at]:
            yield ThresholdProblem(("shares", at), "threshold-duplicate", f"the threshold {share} % occurs twice")
    smallest = min(shares, default=_ALL)
    if thresholds.hysteresis >= smallest > 0:
        message = f"the hysteresis is {thresholds.hysteresis} % (allowed: less than the smallest threshold, {smallest})"
        yield ThresholdProblem(("hysteresis",), "threshold-hysteresis-too-large", message)


def require_thresholds(thresholds: ThresholdConfig) -> None:
    """Check declared thresholds.

    Raises:
        RequestError: a rule is violated.
    """
    for problem in threshold_problems(thresholds):
        raise RequestError("config", "thresholds", problem.message)
