"""Usage over time, in which old usage counts less: the part that all forms of decay share.

The runs of allocations are added up per owner. Between two changes an owner uses amounts of a constant cost per second.
A subclass decides how the cost of such a span counts later.

Invariant: no read and no timer changes the stored usage, only a change of what an owner uses. So the answer to a
question does not depend on earlier questions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from fractions import Fraction
from typing import Final, Generic, NamedTuple, Self, TypeVar

from ugm.errors import RequestError
from ugm.fairness.cost import CostRate
from ugm.operation_lock import OwnedLock, locked

__all__ = ["DecayedUsage", "OwnerHistory", "require_time"]

HistoryT = TypeVar("HistoryT", bound="OwnerHistory")


class OwnerHistory(ABC):
    """The usage of one owner: what it has used, and what it uses since a time."""

    __slots__ = ("rate", "since")

    #: The cost per second of what runs, over the denominator of the `CostRate`.
    rate: int
    #: Everything before this time is counted.
    since: int

    def __init__(self, at: int) -> None:
        self.rate = 0
        self.since = at

    def accrue(self, at: int) -> None:
        """Count what runs up to a time."""
        if self.rate:
            self.add_span(self.rate, self.since, at)
        self.since = at

    @abstractmethod
    def add_span(self, rate: int, begin: int, end: int) -> None:
        """Count a cost per second from *begin* up to *end*."""


class _Run(NamedTuple):
    owner: str
    rate: int


def require_time(at: object) -> int:
    """Return a time, after checking its type.

    Raises:
        RequestError: it is not a number of whole seconds.
    """
    if type(at) is not int:
        raise RequestError("at", at, "expected whole seconds as an int")
    return at


class DecayedUsage(ABC, Generic[HistoryT]):
    """The decaying usage of owners, who are usually users.

    All times are whole seconds. A change at a time before that of an earlier change counts at the time of the earlier
    one. Reading changes nothing, and the time of a read before the last change stands for the last change.

    Any number of threads may call any method at any time.

    Args:
        weights: the weight of a resource, and 0 for one that does not count.
        default_weight: the weight of a resource that is missing.

    Raises:
        RequestError: an argument is invalid.
    """

    def __init__(self, weights: Mapping[str, int | Fraction] | None = None, default_weight: int = 1) -> None:
        if type(default_weight) is not int or default_weight < 0:
            raise RequestError("default_weight", default_weight, "expected an int of at least 0")
        self._cost: Final = CostRate(weights, default_weight)
        self._begin()

    def _begin(self) -> None:
        self._lock = OwnedLock()
        self._histories: dict[str, HistoryT] = {}
        self._runs: dict[str, _Run] = {}
        self._last: int | None = None

    @property
    def owners(self) -> tuple[str, ...]:
        """The owners that have ever used something, sorted."""
        return tuple(sorted(self._histories.copy()))

    # Changes

    @locked
    def start(self, run_id: str, owner: str, usage: Mapping[str, int], at: int) -> None:
        """Count the usage of a run from a time on, for example of an allocation.

        A run that has started already only changes its usage.
        """
        self._start(run_id, owner, usage, self._advance(at))

    def _start(self, run_id: str, owner: str, usage: Mapping[str, int], now: int) -> None:
        self._end(run_id, now)
        run = _Run(owner, self._cost.of(usage))
        self._runs[run_id] = run
        self._change(owner, run.rate, now)

    @locked
    def resize(self, run_id: str, usage: Mapping[str, int], at: int) -> None:
        """Change the usage of a run; an unknown run is ignored."""
        run = self._runs.get(run_id)
        if run is not None:
            self._start(run_id, run.owner, usage, self._advance(at))

    @locked
    def stop(self, run_id: str, at: int) -> None:
        """End a run; an unknown run is ignored."""
        self._end(run_id, self._advance(at))

    @locked
    def add_use(self, owner: str, usage: Mapping[str, int], at: int) -> None:
        """Let an owner use more from a time on, without a run of its own; the opposite of `remove_use`."""
        self._change(owner, self._cost.of(usage), self._advance(at))

    @locked
    def remove_use(self, owner: str, usage: Mapping[str, int], at: int) -> None:
        """Let an owner use less from a time on."""
        self._change(owner, -self._cost.of(usage), self._advance(at))

    @locked
    def stop_all(self, at: int) -> None:
        """End the use of all owners. What they have used still counts."""
        now = self._advance(at)
        self._runs.clear()
        for owner, history in self._histories.items():
            self._change(owner, -history.rate, now)

    @locked
    def clear(self) -> None:
        """Forget all owners and all times."""
        self._runs.clear()
        self._histories.clear()
        self._last = None

    @locked
    def add(self, owner: str, amount: int | Fraction, at: int) -> None:
        """Count an amount that is weighted already, as a whole, at a time.

        Raises:
            RequestError: the amount is not an int or a Fraction.
        """
        if type(amount) not in (int, Fraction):
            raise RequestError("amount", amount, "expected an int or a Fraction")
        now = self._advance(at)
        self._add_lump(self._history(owner, now), amount * self._cost.denominator, now)

    @locked
    def record(self, owner: str, usage: Mapping[str, int], begin: int, end: int) -> None:
        """Count a run that has ended, for example one from a journal. It may lie before earlier changes."""
        require_time(begin)
        last = self._advance(max(end, self._last if self._last is not None else end))
        history = self._history(owner, last)
        history.accrue(last)
        if end > begin:
            history.add_span(self._cost.of(usage), begin, end)

    def _advance(self, at: int) -> int:
        last = self._last
        self._last = require_time(at) if last is None or at > last else last
        return self._last

    def _end(self, run_id: str, now: int) -> None:
        run = self._runs.pop(run_id, None)
        if run is not None:
            self._change(run.owner, -run.rate, now)

    def _change(self, owner: str, rate: int, now: int) -> None:
        history = self._history(owner, now)
        history.accrue(now)
        history.rate += rate

    def _history(self, owner: str, now: int) -> HistoryT:
        found = self._histories.get(owner)
        if found is None:
            found = self._histories[owner] = self._new_history(now)
        return found

    @abstractmethod
    def _new_history(self, at: int) -> HistoryT: ...

    @abstractmethod
    def _add_lump(self, history: HistoryT, amount: int | Fraction, at: int) -> None: ...

    # Queries

    @locked
    def at(self, now: int) -> Mapping[str, Fraction]:
        """Return the value of every owner at a time: weighted amounts times seconds."""
        time = self._time(now)
        return {owner: self._value(history, time) for owner, history in sorted(self._histories.items())}

    @locked
    def value(self, owner: str, now: int) -> Fraction:
        """Return the value of one owner at a time; 0 for an unknown owner."""
        history = self._histories.get(owner)
        return Fraction(0) if history is None else self._value(history, self._time(now))

    def new(self) -> Self:
        """Return an empty measure of the same kind."""
        made = copy(self)
        made._begin()  # noqa: SLF001 - of the same class
        return made

    @locked
    def rates(self) -> Mapping[str, Fraction]:
        """Return the weighted amounts that each owner uses now; owners that use nothing are missing."""
        denominator = self._cost.denominator
        found = sorted(self._histories.items())
        return {owner: Fraction(history.rate, denominator) for owner, history in found if history.rate}

    def _time(self, now: int) -> int:
        require_time(now)
        return now if self._last is None else max(now, self._last)

    @abstractmethod
    def _value(self, history: HistoryT, now: int) -> Fraction: ...
