"""The usage history of one partition: samples at regular times, and at the start those that a journal contains.

The engine does not take part: the server reads a snapshot every 15 seconds and stores its values in a
`ugm.server.series.SeriesStore`. If the partition has a journal, the samples of the week before the start of the server
are computed from it: the usage, and the pending requests since its last compaction. A journal contains no denials.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import Lock
from typing import Final, NamedTuple, final

from ugm.elastic.group import ROOT_GROUP
from ugm.events import ConfigurationChanged
from ugm.identity import ancestors
from ugm.journal.locations import LogLocation, log_at
from ugm.journal.pending_intervals import PendingMeter
from ugm.journal.usage_intervals import UsageInterval, usage_intervals
from ugm.partition import AbstractPartition, PartitionSnapshot
from ugm.server.cooperative import cooperatively
from ugm.server.history import History
from ugm.server.series import TIERS, SeriesStore, Subject
from ugm.server.trees import trees_of
from ugm.server.usage_samples import NO_DENIALS, Sampler
from ugm.server.work_times import DenialCounts, WorkTimes

__all__ = ["UsageHistory", "samples_of"]

#: The subjects of owners in quota models, by their kind in a journal.
_ELASTIC: Final = "elastic group"
#: The measures of the amounts and of the number of running applications, and of pending requests.
_USED: Final = ("usage", "running_applications")
_WAITED: Final = ("pending", "pending_allocations")


@final
class UsageHistory:
    """The usage history of one partition.

    Args:
        partition: the partition.
        history: its events, for denials; None for none.
        store: keeps the samples.
        clock: returns the time, in seconds since 1970.
    """

    __slots__ = (
        "_clock",
        "_history",
        "_known_since",
        "_loaded_at",
        "_lock",
        "_newest",
        "_partition",
        "_sampler",
        "store",
    )

    def __init__(
        self,
        partition: AbstractPartition,
        history: History | None = None,
        *,
        store: SeriesStore | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store: Final = store or SeriesStore()
        self._partition: Final = partition
        self._history: Final = history
        self._clock: Final = clock
        self._sampler: Final = Sampler(self.store.metrics)
        #: The snapshot of the newest sample.
        self._newest: PartitionSnapshot | None = None
        #: From when samples come from the partition itself, and from when the journal knows a measure; in milliseconds.
        self._loaded_at = 0
        self._known_since: Mapping[str, int] = {}
        #: Held while a sample is taken.
        self._lock: Final = Lock()

    def now(self) -> int:
        """Return the time in milliseconds since 1970."""
        return int(self._clock() * 1000)

    def known_since(self, measure: str) -> int:
        """Return the time in milliseconds since 1970 before which a missing value of a measure is unknown, not 0."""
        return self._known_since.get(measure, self._loaded_at)

    def take(self) -> bool:
        """Take a sample if the last one is older than the shortest step, and return whether one was taken.

        Raises:
            OutageError: the partition cannot be read now.
        """
        with self._lock:
            at = self.now()
            if not self.store.is_due(at):
                return False
            denials = self._denials()
            snapshot = self._newest = self._partition.snapshot(cooperatively, self._newest)
            trees = trees_of(self._partition.model_reports())
            self.store.record(at, self._sampler.sample(snapshot, trees, denials))
            return True

    def _denials(self) -> DenialCounts:
        """Return the numbers of denials, with the applications that the history does not know assigned to owners."""
        if self._history is None:
            return NO_DENIALS
        counts = self._history.denials_by_subject()
        found = dict(counts.by_subject)
        for one in self._partition.applications_by_id(counts.of_unknown) if counts.of_unknown else ():
            subjects = [("user", one.user.name), ("queue", one.queue_path)]
            for subject in (*subjects, ("group", one.group)) if one.group is not None else subjects:
                found[subject] = found.get(subject, 0) + counts.of_unknown[one.application_id]
        return counts._replace(by_subject=found)

    def load(self, location: LogLocation) -> list[tuple[float, ConfigurationChanged]]:
        """Add the samples of the last week, and the times of waiting work, that a journal contains.

        Returns:
            The changes of the configuration since the last compaction, with their times in seconds since 1970.

        Call it before the first `take`.

        The function takes time proportional to the journal.

        Raises:
            JournalError: the journal cannot be read.
        """
        with self._lock:
            now = self.now()
            with log_at(location).open_contents() as contents:
                start = contents.start
                known = {**dict.fromkeys(_USED, start.usage_since), **dict.fromkeys(_WAITED, start.at)}
                intervals = [one for one in usage_intervals(contents, now) if one.end > now - TIERS[-1].span * 1000]
            recent = _recent(location, now)
            if self._history is not None:
                self._history.add_earlier(recent.times)
            instants = _instants((*intervals, *recent.waited), now)
            for at, values in samples_of(intervals, recent.waited, instants, self._numbers):
                self.store.record(at, values)
            self._loaded_at, self._known_since = now, known
            return recent.changed

    def _numbers(self, values: Mapping[tuple[str, str], int]) -> dict[int, int]:
        named = ((self.store.metrics.number(*measure), value) for measure, value in values.items())
        return {metric: value for metric, value in named if metric is not None and value}


class _Recent(NamedTuple):
    """The contents of a journal since its last compaction that it does not keep longer."""

    #: The times of submissions and requests.
    times: WorkTimes
    #: The changes of the configuration, with their times in seconds since 1970.
    changed: list[tuple[float, ConfigurationChanged]]
    #: The intervals of pending requests.
    waited: list[UsageInterval]


def _recent(location: LogLocation, now: int) -> _Recent:
    found = _Recent(WorkTimes(), [], [])
    with log_at(location).open_contents() as contents, contents.decoding():
        meter = PendingMeter(contents.start.checkpoint, contents.start.at)
        for entry in contents.changes():
            for event in entry.events:
                found.times.apply(event, entry.at / 1000)
                found.waited.extend(meter.process(event, entry.at))
                if isinstance(event, ConfigurationChanged):
                    found.changed.append((entry.at / 1000, event))
        found.waited.extend(meter.finish(now))
    return found


def _instants(intervals: Iterable[UsageInterval], now: int) -> list[int]:
    """Return the times of the samples of all tiers before a time, from the first interval on."""
    first = min((one.begin for one in intervals), default=now)
    found: set[int] = set()
    for tier in TIERS:
        step = tier.step * 1000
        begin = max(now - tier.span * 1000, first)
        found.update(range(-(-begin // step) * step, now, step))
    return sorted(found)


class _Total:
    """The amounts and numbers of one subject."""

    __slots__ = ("stored", "values")

    def __init__(self) -> None:
        #: By measure and resource; the resource of a number is empty.
        self.values: dict[tuple[str, str], int] = {}
        #: The values as stored; None after a change.
        self.stored: dict[int, int] | None = None

    def add(self, one: UsageInterval, measures: tuple[str, str], sign: int) -> None:
        """Add the amounts of an interval, or subtract them if *sign* is -1, and count it, if it has a number."""
        amounts, number = measures
        counts = [((number, ""), 1)] if number else []
        for measure, amount in (*counts, *(((amounts, name), amount) for name, amount in one.usage.items())):
            self.values[measure] = self.values.get(measure, 0) + sign * amount
        self.stored = None


def samples_of(
    used: Iterable[UsageInterval],
    waited: Iterable[UsageInterval],
    instants: Iterable[int],
    numbers: Callable[[Mapping[tuple[str, str], int]], dict[int, int]],
) -> Iterator[tuple[int, dict[Subject, dict[int, int]]]]:
    """Yield the values of all subjects at instants.

    Args:
        used: what each application used; an interval counts at its beginning, and not at its end.
        waited: the same for pending requests.
        instants: ascending, in milliseconds since 1970.
        numbers: returns the stored values for those by measure and resource.
    """
    changes = sorted(
        (
            (at, sign, measures, one)
            for measures, intervals in ((_USED, used), (_WAITED, waited))
            for one in intervals
            for at, sign in ((one.begin, 1), (one.end, -1))
        ),
        key=lambda change: change[:2],
        reverse=True,
    )
    totals: dict[Subject, _Total] = {}
    for instant in cooperatively(instants):
        while changes and changes[-1][0] <= instant:
            _, sign, measures, one = changes.pop()
            for subject in _subjects(one):
                # Nodes of trees have amounts only.
                of_subject = (measures[0], "") if subject[0] == "tree_node" else measures
                totals.setdefault(subject, _Total()).add(one, of_subject, sign)
        for total in totals.values():
            if total.stored is None:
                total.stored = numbers(total.values)
        yield instant, {subject: total.stored or {} for subject, total in totals.items()}


def _subjects(one: UsageInterval) -> Iterator[Subject]:
    for path in ancestors(one.queue_path):
        yield "queue", path
    for kind, name in one.owners:
        # The only tree of elastic groups has this name; the nodes of quota trees have the name of their tree.
        yield ("tree_node", "elastic", name) if kind == _ELASTIC else ("tree_node", *name.split("/", 1))
    if any(kind == _ELASTIC for kind, _ in one.owners):
        # No configuration names the root of elastic groups.
        yield "tree_node", "elastic", ROOT_GROUP
    if one.group is not None:
        yield "group", one.group
    yield "user", one.user
