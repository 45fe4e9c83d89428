"""Usage that decays: in bins, of which each older one counts less, or with a half-life.

*Bins* have equal length. Each second of each run counts in its own bin, also while the run goes on. Bins are stored
undecayed, as integers. The decay is applied when a value is read.

The cost: a change takes time proportional to the number of bins that count, which are copied. The memory is one number
for each bin and owner.

*The half-life*: after each half-life, half of a usage is left. The value of an owner is the integral of its cost per
second, each second weighted by the power of 1/2 for its age. It is irrational, so it is computed with 50 digits. The
errors of a million changes stay far below 30 digits.

The cost: a change or a read takes one power for each owner that it concerns, and constant memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final, final

from ugm._json_values import Json
from ugm.engine_lock import locked
from ugm.errors import RequestError, number_text
from ugm.fairness.usage_history import DecayedUsage, OwnerHistory, require_time

#: The largest number of bins.
MAX_BINS: Final = 10_000
#: The most digits of the factor of the oldest bin: those of the denominator of the decay, times the number of bins.
#: Every value is a fraction with about as many digits, so the bound also keeps rankings of many owners fast.
MAX_DECAY_DIGITS: Final = 2_000


def bins_for(reset: int, half_life: int) -> int:
    """Return the number of bins of one half-life that cover a reset period.

    Raises:
        RequestError: a duration is not a positive number of seconds.

    >>> bins_for(28 * 86400, 7 * 86400), bins_for(100, 30)
    (4, 4)
    """
    for argument, seconds in (("reset", reset), ("half_life", half_life)):
        _require_positive(argument, seconds)
    return -(-reset // half_life)


def _require_positive(argument: str, value: object) -> None:
    if type(value) is not int or value < 1:
        raise RequestError(argument, value, "expected an int of at least 1")


def decay_fault(decay: int | Fraction, bins: int) -> str | None:
    """Return the reason why a decay has too many digits for a number of bins; None if it can be used.

    >>> decay_fault(Fraction("0.99"), 365)
    >>> decay_fault(Fraction("0.99"), 1000)
    'the denominator 100 has too many digits for 1000 bins (allowed: up to 2, as digits times bins are at most 2000)'
    >>> decay_fault(Fraction(1, 2), 3000)
    'more than 2000 bins need the factor 0 or 1'
    """
    # The powers of an integer have no denominator.
    allowed = MAX_DECAY_DIGITS // bins
    if decay.denominator == 1 or decay.denominator < 10**allowed:
        return None
    if not allowed:
        return f"more than {MAX_DECAY_DIGITS} bins need the factor 0 or 1"
    return (
        f"the denominator {number_text(decay.denominator)} has too many digits for {bins} bins"
        f" (allowed: up to {allowed}, as digits times bins are at most {MAX_DECAY_DIGITS})"
    )


@final
class _Bins(OwnerHistory):
    """The undecayed bins of one owner by number."""

    __slots__ = ("_anchor", "_count", "_length", "amounts")

    #: A few of them may not count any more. A change with more bins than that leaves only those that count now or
    #: later.
    amounts: dict[int, int | Fraction]

    def __init__(self, at: int, length: int, anchor: int, count: int) -> None:
        super().__init__(at)
        self.amounts = {}
        self._length: Final = length
        self._anchor: Final = anchor
        self._count: Final = count

    def copied(self) -> _Bins:
        made = _Bins(self.since, self._length, self._anchor, self._count)
        made.rate, made.amounts = self.rate, self.amounts.copy()
        return made

    def is_empty(self) -> bool:
        return not any(self.amounts.values())

    def save(self) -> Json:
        # Hexadecimal, because Python formats only 4,300 decimal digits.
        return [
            [number, *(f"{part:x}" for part in amount.as_integer_ratio())]
            for number, amount in sorted(self.amounts.items())
            if amount
        ]

    def load(self, data: Json) -> None:
        for number, numerator, denominator in data:
            amount = Fraction(int(numerator, 16), int(denominator, 16))
            self.amounts[require_time(number)] = amount.numerator if amount.denominator == 1 else amount

    def number(self, at: int) -> int:
        """Return the number of the bin of a second."""
        return (at - self._anchor) // self._length

    def accrue(self, at: int) -> None:
        amounts, since, self.since = self.amounts, self.since, at
        if not self.rate:
            return
        for number, seconds in self.spans(since, at, self.number(at)):
            amounts[number] = amounts.get(number, 0) + self.rate * seconds
        # Once for the whole span: each search for old bins looks at all of them.
        if len(amounts) > self._count:
            self._forget(max(amounts))

    def _forget(self, newest: int) -> None:
        """Forget the bins that are too old to count while *newest* is the current one."""
        for old in [each for each in self.amounts if each <= newest - self._count]:
            del self.amounts[old]

    def spans(self, begin: int, end: int, newest: int) -> list[tuple[int, int]]:
        """Return the seconds between two times in each bin that counts while *newest* is the current one."""
        if end <= begin:
            return []
        first = max(self.number(begin), newest - self._count + 1)
        return [(number, self._overlap(number, begin, end)) for number in range(first, self.number(end - 1) + 1)]

    def _overlap(self, number: int, begin: int, end: int) -> int:
        start = self._anchor + number * self._length
        return min(end, start + self._length) - max(begin, start)

    def add_amount(self, number: int, amount: int | Fraction) -> None:
        """Add an amount to a bin, and forget the bins that are too old to count."""
        amounts = self.amounts
        if number not in amounts and len(amounts) >= self._count:
            newest = max(number, *amounts)
            self._forget(newest)
            if number <= newest - self._count:
                return
        amounts[number] = amounts.get(number, 0) + amount

    def current(self, now: int) -> list[int | Fraction]:
        """Return the bins at a time, with what runs; the current one first."""
        newest = self.number(now)
        found = [self.amounts.get(newest - age, 0) for age in range(self._count)]
        for number, seconds in self.spans(self.since, now, newest) if self.rate else ():
            found[newest - number] += self.rate * seconds
        return found


@final
class BinnedUsage(DecayedUsage[_Bins]):
    """Usage in bins: the value of an owner is the sum of its bins, each multiplied by a power of *decay*.

    Args:
        bin: the length of a bin in seconds.
        decay: the factor of each bin relative to the next younger one, from 0 to 1.
        bins: the number of bins that count, including the current one. It is at most 10,000; if *decay* is a fraction,
            the number of digits of its denominator times *bins* is at most 2,000.
        weights: as for `DecayedUsage`.
        anchor: the first second of bin 0.
        default_weight: as for `DecayedUsage`.

    Raises:
        RequestError: an argument is invalid.

    >>> usage = BinnedUsage(bin=60, decay=Fraction(1, 2), bins=3)
    >>> usage.start("job", "ana", {"vcore": 2}, at=30)
    >>> usage.bins("ana", 90), usage.value("ana", 90)
    ((Fraction(60, 1), Fraction(60, 1), Fraction(0, 1)), Fraction(90, 1))
    """

    def __init__(
        self,
        *,
        bin: int,  # noqa: A002 - the term of the field
        decay: int | Fraction,
        bins: int,
        weights: Mapping[str, int | Fraction] | None = None,
        anchor: int = 0,
        default_weight: int = 1,
    ) -> None:
        super().__init__(weights, default_weight)
        _require_positive("bin", bin)
        _require_positive("bins", bins)
        if bins > MAX_BINS:
            raise RequestError("bins", bins, f"expected an int of at most {MAX_BINS}")
        if type(decay) not in (int, Fraction) or not 0 <= decay <= 1:
            raise RequestError("decay", decay, "expected an int or a Fraction from 0 to 1")
        if (fault := decay_fault(decay, bins)) is not None:
            raise RequestError("decay", decay, fault)
        if type(anchor) is not int:
            raise RequestError("anchor", anchor, "expected whole seconds as an int")
        self._shape: Final = (bin, anchor, bins)
        #: The factors of all bins as integers over one denominator, the current bin first.
        self._factors: Final = _factors(decay, bins)
        self._denominator: Final = self._factors[0] * self._cost.denominator

    @locked
    def bins(self, owner: str, now: int) -> tuple[Fraction, ...]:
        """Return the undecayed bins of an owner at a time, the current one first."""
        history = self._stored_histories().get(owner) or self._new_history(0)
        return tuple(Fraction(amount, self._cost.denominator) for amount in history.current(self._time(now)))

    def _new_history(self, at: int) -> _Bins:
        return _Bins(at, *self._shape)

    def _add_lump(self, history: _Bins, amount: int | Fraction, at: int) -> None:
        history.add_amount(history.number(at), amount)

    def _value(self, history: _Bins, now: int) -> Fraction:
        amounts = history.current(now)
        total = sum(factor * amount for factor, amount in zip(self._factors, amounts, strict=True) if amount)
        return Fraction(total, self._denominator)


def _factors(decay: int | Fraction, bins: int) -> list[int]:
    """Return the powers of a factor over their common denominator, which is the first of them."""
    kept, lost = decay.numerator, decay.denominator
    factors = [lost ** (bins - 1)]
    for _ in range(bins - 1):
        # The division is exact, and faster than a product of two powers.
        factors.append(factors[-1] // lost * kept)
    return factors


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
