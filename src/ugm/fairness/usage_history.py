"""The usage of owners over time: the part that the half-life and the bins share.

The runs of allocations are added up per owner. Between two changes an owner uses amounts of a constant cost per second.
A subclass decides how the cost of such a span counts later. The cost is one number for an amount of several resources.

Invariant: no read and no timer changes the stored usage, only a change of what an owner uses. So the answer to a
question does not depend on earlier questions.

A change is prepared as copies of everything that it affects. One assignment makes it final. If an exception interrupts
the call after that, the next call stores the copies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import Final, Generic, NamedTuple, Self, TypeVar, final

from ugm._json_values import Json
from ugm.arguments import require_mapping
from ugm.engine_lock import OwnedLock, locked
from ugm.errors import ReentrantCallError, RequestError


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

    @abstractmethod
    def accrue(self, at: int) -> None:
        """Count what runs up to a time."""

    def change_rate(self, rate: int, at: int) -> None:
        """Let the owner use more or less from a time on."""
        self.accrue(at)
        self.rate += rate

    @abstractmethod
    def copied(self) -> Self:
        """Return a copy, which can be changed alone."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Return whether nothing was counted."""

    @abstractmethod
    def save(self) -> Json:
        """Return the counts, for JSON."""

    @abstractmethod
    def load(self, data: Json) -> None:
        """Restore the counts that `save` has returned."""


class _Run(NamedTuple):
    owner: str
    rate: int


@dataclass(slots=True)
class _Change(Generic[HistoryT]):
    """The values that a change replaces."""

    #: The time of the change.
    last: int | None
    histories: dict[str, HistoryT] = field(default_factory=dict)
    #: Runs by their ids; None for a run that has ended.
    runs: dict[str, _Run | None] = field(default_factory=dict)
    #: Whether all that is not replaced is forgotten.
    forgets: bool = False


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
        #: The change that is final and not stored yet.
        self._unstored: _Change[HistoryT] | None = None

    @property
    @locked
    def owners(self) -> tuple[str, ...]:
        """The owners that use or have used something that counts, sorted."""
        return tuple(sorted(self._stored_histories()))

    # Changes

    @locked
    def start(self, run_id: str, owner: str, usage: Mapping[str, int], at: int) -> None:
        """Count the usage of a run from a time on, for example of an allocation.

        A run that has started already only changes its usage.
        """
        change = self._prepared(at)
        self._start(change, run_id, owner, usage)
        self._store(change)

    def _start(self, change: _Change[HistoryT], run_id: str, owner: str, usage: Mapping[str, int]) -> None:
        self._end(change, run_id)
        run = change.runs[run_id] = _Run(owner, self._cost.of(usage))
        self._add_rate(change, owner, run.rate)

    @locked
    def resize(self, run_id: str, usage: Mapping[str, int], at: int) -> None:
        """Change the usage of a run; an unknown run is ignored."""
        require_time(at)
        self._store_final()
        run = self._runs.get(run_id)
        if run is not None:
            change = self._prepared(at)
            self._start(change, run_id, run.owner, usage)
            self._store(change)

    @locked
    def stop(self, run_id: str, at: int) -> None:
        """End a run; an unknown run is ignored."""
        change = self._prepared(at)
        self._end(change, run_id)
        self._store(change)

    @locked
    def add_use(self, owner: str, usage: Mapping[str, int], at: int) -> None:
        """Let an owner use more from a time on, without a run of its own; the opposite of `remove_use`."""
        change = self._prepared(at)
        self._add_rate(change, owner, self._cost.of(usage))
        self._store(change)

    @locked
    def remove_use(self, owner: str, usage: Mapping[str, int], at: int) -> None:
        """Let an owner use less from a time on."""
        change = self._prepared(at)
        self._add_rate(change, owner, -self._cost.of(usage))
        self._store(change)

    @locked
    def stop_all(self, at: int) -> None:
        """End the use of all owners. What they have used still counts."""
        change = self._prepared(at)
        change.forgets = True
        for owner, history in self._histories.items():
            self._add_rate(change, owner, -history.rate)
        self._store(change)

    @locked
    def clear(self) -> None:
        """Forget all owners and all times."""
        self._store(_Change(None, forgets=True))

    @locked
    def add(self, owner: str, amount: int | Fraction, at: int) -> None:
        """Count an amount that is weighted already, as a whole, at a time.

        Raises:
            RequestError: the amount is not an int or a Fraction.
        """
        if type(amount) not in (int, Fraction):
            raise RequestError("amount", amount, "expected an int or a Fraction")
        change = self._prepared(at)
        history, now = self._changed(change, owner)
        self._add_lump(history, amount * self._cost.denominator, now)
        self._store(change)

    @locked
    def save(self) -> list[Json]:
        """Return what all owners have used, and what they use since a time, for JSON."""
        found = sorted(self._stored_histories().items())
        return [[owner, history.since, history.rate, history.save()] for owner, history in found]

    @locked
    def load(self, data: Iterable[Json], at: int) -> None:
        """Bring a new measure into the state that `save` has returned, up to a time, at which all use ends.

        If the owners use the same again from that time on, the state is exactly as it was.

        Raises:
            ValueError, TypeError, ArithmeticError: the data are not those of `save`.
        """
        change = self._prepared(at)
        for owner, since, rate, past in data:
            if type(owner) is not str:
                raise TypeError(owner)
            history = change.histories[owner] = self._new_history(require_time(since))
            history.load(past)
            history.rate = require_time(rate)
            history.change_rate(-rate, max(at, since))
        self._store(change)

    def _prepared(self, at: int) -> _Change[HistoryT]:
        """Return an empty change at a time.

        Raises:
            ReentrantCallError: a signal handler or finalizer has interrupted another call of this thread.
        """
        if self._lock.own_depth() > 1:
            raise ReentrantCallError
        self._store_final()
        last = self._last
        return _Change(require_time(at) if last is None or at > last else last)

    def _store(self, change: _Change[HistoryT]) -> None:
        # The change is final after this assignment.
        self._unstored = change
        self._store_final()

    def _store_final(self) -> None:
        """Store the change that is final, if there is one. A repeated call has the same effect."""
        change = self._unstored
        if change is None:
            return
        if change.forgets:
            self._runs, self._histories = {}, {}
        self._last = change.last
        for owner, history in change.histories.items():
            if history.rate or not history.is_empty():
                self._histories[owner] = history
            else:
                # As if the use had never begun, for example because a gang was denied.
                self._histories.pop(owner, None)
        for run_id, run in change.runs.items():
            if run is None:
                self._runs.pop(run_id, None)
            else:
                self._runs[run_id] = run
        self._unstored = None

    def _end(self, change: _Change[HistoryT], run_id: str) -> None:
        run = self._runs.get(run_id)
        if run is not None:
            change.runs[run_id] = None
            self._add_rate(change, run.owner, -run.rate)

    def _add_rate(self, change: _Change[HistoryT], owner: str, rate: int) -> None:
        history, now = self._changed(change, owner)
        history.change_rate(rate, now)

    def _changed(self, change: _Change[HistoryT], owner: str) -> tuple[HistoryT, int]:
        """Return the history of an owner in a change, and the time of the change."""
        now = change.last
        assert now is not None  # noqa: S101 - only `clear` forgets it
        found = change.histories.get(owner)
        if found is None:
            known = self._histories.get(owner)
            found = change.histories[owner] = self._new_history(now) if known is None else known.copied()
        return found, now

    @abstractmethod
    def _new_history(self, at: int) -> HistoryT: ...

    @abstractmethod
    def _add_lump(self, history: HistoryT, amount: int | Fraction, at: int) -> None: ...

    # Queries

    @locked
    def at(self, now: int) -> Mapping[str, Fraction]:
        """Return the value of every owner at a time: weighted amounts times seconds."""
        time = self._time(now)
        return {owner: self._value(history, time) for owner, history in sorted(self._stored_histories().items())}

    @locked
    def value(self, owner: str, now: int) -> Fraction:
        """Return the value of one owner at a time; 0 for an unknown owner."""
        history = self._stored_histories().get(owner)
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
        found = sorted(self._stored_histories().items())
        return {owner: Fraction(history.rate, denominator) for owner, history in found if history.rate}

    def _stored_histories(self) -> Mapping[str, HistoryT]:
        """Return the histories after every change that is final; the caller holds the lock."""
        self._store_final()
        return self._histories

    def _time(self, now: int) -> int:
        require_time(now)
        self._store_final()
        return now if self._last is None else max(now, self._last)

    @abstractmethod
    def _value(self, history: HistoryT, now: int) -> Fraction: ...
