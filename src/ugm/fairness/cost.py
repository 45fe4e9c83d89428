"""The cost of resources: one number for an amount of several resources."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import lcm
from typing import Any, Final, final

from ugm.arguments import require_mapping
from ugm.errors import RequestError
from ugm.fairness.levels import INFINITE, Level

__all__ = ["CostRate", "cost", "weighted_usage"]


@final
class CostRate:
    """The cost of amounts per second, as integers over one common denominator.

    Args:
        weights: the weight of a resource, and 0 for one that does not count.
        default: the weight of a resource that is missing.

    Raises:
        RequestError: a weight is negative or not exact.
    """

    __slots__ = ("_default", "_weights", "denominator")

    def __init__(self, weights: Mapping[str, int | Fraction] | None = None, default: int = 1) -> None:
        given = _require_weights(weights)
        #: The denominator of every cost.
        self.denominator: Final = lcm(*(weight.denominator for weight in given.values()))
        self._weights: Final = {name: int(weight * self.denominator) for name, weight in given.items()}
        self._default: Final = default * self.denominator

    def of(self, usage: Mapping[str, int]) -> int:
        """Return the numerator of the cost of a usage per second."""
        weights, default = self._weights, self._default
        return sum(weights.get(name, default) * amount for name, amount in usage.items())


def _require_weights(weights: object) -> dict[str, int | Fraction]:
    given = require_mapping("weights", {} if weights is None else weights)
    for name, weight in given.items():
        if type(weight) not in (int, Fraction) or weight < 0:
            raise RequestError("weights", weight, f"the weight of {name} must be an int or Fraction >= 0")
    return given


def _require_exact(argument: str, amounts: object) -> dict[str, Any]:
    given = require_mapping(argument, amounts)
    for name, amount in given.items():
        if type(amount) not in (int, Fraction):
            raise RequestError(argument, amount, f"the amount of {name} must be an int or Fraction")
    return given


def cost(usage: Mapping[str, int], seconds: int, weights: Mapping[str, int | Fraction] | None = None) -> Fraction:
    """Return the cost of a usage over some seconds: the sum of weight times amount times seconds.

    Args:
        usage: the amounts.
        seconds: the duration.
        weights: the weight of a resource; 1 for a resource that is missing, and 0 for one that does not count.

    Raises:
        RequestError: a weight is negative or not exact, or an argument is of another type.

    >>> cost({"gpu": 1, "vcore": 4}, 60, {"gpu": 10})
    Fraction(840, 1)
    """
    if type(seconds) is not int:
        raise RequestError("seconds", seconds, "expected whole seconds as an int")
    rate = CostRate(weights)
    return Fraction(rate.of(_require_exact("usage", usage)) * seconds, rate.denominator)


def weighted_usage(
    consumed: Mapping[str, int | Fraction],
    queue_weight: int | Fraction,
    *,
    penalty: Mapping[str, int | Fraction] | None = None,
    weights: Mapping[str, int | Fraction] | None = None,
) -> Level:
    """Return the usage of a queue that has a weight: what it has consumed, divided by its weight.

    Args:
        consumed: the consumed amounts.
        queue_weight: the weight. Without a positive weight the usage is infinite, also if nothing was consumed.
        penalty: amounts that count as consumed, for example those of requests that were just granted.
        weights: the weight of a resource; 1 for a resource that is missing.

    Raises:
        RequestError: a weight is negative or not exact, or an argument is of another type.

    >>> weighted_usage({"gpu": 2}, Fraction(1, 2)), weighted_usage({}, 0)
    (Fraction(4, 1), inf)
    """
    if type(queue_weight) not in (int, Fraction):
        raise RequestError("queue_weight", queue_weight, "expected an int or Fraction")
    counted = _require_weights(weights)
    penalties = {} if penalty is None else penalty
    amounts = (*_require_exact("consumed", consumed).items(), *_require_exact("penalty", penalties).items())
    if queue_weight <= 0:
        return INFINITE
    return sum((counted.get(name, 1) * Fraction(amount) for name, amount in amounts), Fraction(0)) / queue_weight
