"""The half-life: usage that decays continuously, so that after each half-life half of it is left.

The value of an owner is the integral of its cost per second, each second weighted by the power of 1/2 for its age. It
is irrational, so it is computed with 50 digits. The errors of a million changes stay far below 30 digits.

The cost: a change or a read takes one power for each owner that it concerns, and constant memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final, final

from ugm._json_values import Json
from ugm.errors import RequestError
from ugm.fairness.usage_history import DecayedUsage, OwnerHistory, require_time

__all__ = ["ContinuousUsage"]

#: The arithmetic. Nothing overflows or underflows in it.
_DIGITS: Final = Context(prec=50, Emin=MIN_EMIN, Emax=MAX_EMAX)
_LN2: Final = _DIGITS.ln(Decimal(2))


#: Powers are products of one for a multiple of these seconds and one for the rest, so that few are computed.
_SPAN: Final = 4096


def _power(seconds: int, half_life: int) -> Decimal:
    """Return the part that is left of a value after some seconds."""
    spans, rest = divmod(seconds, _SPAN)
    return _DIGITS.multiply(_computed_power(spans * _SPAN, half_life), _computed_power(rest, half_life))


@lru_cache(maxsize=4 * _SPAN)
def _computed_power(seconds: int, half_life: int) -> Decimal:
    exponent = _DIGITS.divide(_DIGITS.multiply(_LN2, Decimal(-seconds)), Decimal(half_life))
    return _DIGITS.exp(exponent)


def _finite(text: str) -> Decimal:
    value = Decimal(text)
    if not value.is_finite():
        raise ValueError(text)
    return value


@final
class _Decaying(OwnerHistory):
    """The value of one owner at the time of its last change."""

    __slots__ = ("_before", "_half_life", "value")

    #: At `since`.
    value: Decimal
    #: The rate, the time and the value before `since`, if only the rate has changed then. A rate that changes back in
    #: the same second restores them: what was undone leaves no trace in the last digits.
    _before: tuple[int, int, Decimal] | None

    def __init__(self, at: int, half_life: int) -> None:
        super().__init__(at)
        self.value = Decimal(0)
        self._before = None
        self._half_life: Final = half_life

    def copied(self) -> _Decaying:
        made = _Decaying(self.since, self._half_life)
        made.rate, made.value, made._before = self.rate, self.value, self._before
        return made

    def is_empty(self) -> bool:
        return not self.value

    def save(self) -> Json:
        if self._before is None:
            return str(self.value)
        rate, since, value = self._before
        return [str(self.value), rate, since, str(value)]

    def load(self, data: Json) -> None:
        if isinstance(data, str):
            self.value = _finite(data)
            return
        value, rate, since, earlier = data
        self.value = _finite(value)
        self._before = require_time(rate), require_time(since), _finite(earlier)

    def change_rate(self, rate: int, at: int) -> None:
        before = self._before if self.since == at else (self.rate, self.since, self.value)
        super().change_rate(rate, at)
        if before is not None and self.rate == before[0]:
            (self.rate, self.since, self.value), before = before, None
        self._before = before

    def accrue(self, at: int) -> None:
        self.value = self.value_at(at)
        self.since, self._before = at, None

    def add_amount(self, amount: Decimal) -> None:
        """Add an amount at `since`."""
        self.value, self._before = _DIGITS.add(self.value, amount), None

    def value_at(self, now: int) -> Decimal:
        """Return the value at a time that is not before the last change."""
        seconds = now - self.since
        left = _DIGITS.multiply(self.value, _power(seconds, self._half_life)) if self.value else self.value
        return _DIGITS.add(left, self._integral(self.rate, seconds)) if self.rate and seconds else left

    def _integral(self, rate: int, seconds: int) -> Decimal:
        """Return what a cost per second has added up to after some seconds."""
        part = _DIGITS.subtract(Decimal(1), _power(seconds, self._half_life))
        return _DIGITS.divide(_DIGITS.multiply(_DIGITS.multiply(Decimal(rate), Decimal(self._half_life)), part), _LN2)


@final
class ContinuousUsage(DecayedUsage[_Decaying]):
    """Usage with a half-life.

    Args:
        half_life: the seconds after which half of a usage counts.
        weights: as for `DecayedUsage`.
        default_weight: as for `DecayedUsage`.

    Raises:
        RequestError: an argument is invalid.

    >>> usage = ContinuousUsage(half_life=3600)
    >>> usage.start("job", "ana", {"vcore": 2000}, at=0)
    >>> round(float(usage.average("ana", 3600)), 6), round(float(usage.average("ana", 10 * 3600)), 6)
    (1000.0, 1998.046875)
    """

    def __init__(
        self, *, half_life: int, weights: Mapping[str, int | Fraction] | None = None, default_weight: int = 1
    ) -> None:
        super().__init__(weights, default_weight)
        if type(half_life) is not int or half_life < 1:
            raise RequestError("half_life", half_life, "expected whole seconds, at least 1")
        self._half_life: Final = half_life

    def average(self, owner: str, now: int) -> Fraction:
        """Return the cost per second that would have led to the present value if it had been constant forever."""
        return self.value(owner, now) * Fraction(_LN2) / self._half_life

    def _new_history(self, at: int) -> _Decaying:
        return _Decaying(at, self._half_life)

    def _add_lump(self, history: _Decaying, amount: int | Fraction, at: int) -> None:
        history.accrue(at)
        exact = Fraction(amount)
        history.add_amount(_DIGITS.divide(Decimal(exact.numerator), Decimal(exact.denominator)))

    def _value(self, history: _Decaying, now: int) -> Fraction:
        numerator, denominator = history.value_at(now).as_integer_ratio()
        return Fraction(numerator, denominator * self._cost.denominator)
