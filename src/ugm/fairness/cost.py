"""The cost of resources: one number for an amount of several resources."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import lcm
from typing import Final, final

from ugm.arguments import require_mapping
from ugm.errors import RequestError

__all__ = ["CostRate"]


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
