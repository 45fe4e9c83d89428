"""A batch of requests that is granted as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, final

from ugm.counters import Counter, Owner, RequestVector
from ugm.decision import Violation, already_exceeded, exceeded
from ugm.identity import TrackingType
from ugm.resources import Resource
from ugm.tracking.holding import DETACHED, Holding, HoldingTree
from ugm.tracking.holding_index import HoldingIndex

__all__ = ["BatchCharge"]

#: The order in which violations are reported.
_ORDER: Final = (TrackingType.USER, TrackingType.GROUP, TrackingType.QUEUE)

#: The requested amounts by resource name; None counts the applications.
_Requested: TypeAlias = dict[str | None, int]

#: A limit: kind, name, queue path and resource.
_LimitKey: TypeAlias = tuple[str, str, str, str | None]


@final
@dataclass(slots=True, eq=False)
class BatchCharge:
    """The charges of a batch of requests, and the limits that it exceeds.

    Every request is charged without a check, so that later requests see the applications, groups and counters of
    those before it. The lock of the partition hides these charges. If a limit is exceeded, they are taken back in
    reverse order, which leaves no trace.
    """

    _index: HoldingIndex
    #: Owner and queue path to what the batch requests there.
    _requested: dict[tuple[Owner, str], _Requested] = field(default_factory=dict, init=False)
    #: Owner and queue path to the users and applications of the batch there, also those that run already.
    _applications: dict[tuple[Owner, str], set[tuple[str, str]]] = field(default_factory=dict, init=False)
    #: The charges, and whether each of them started the application in its queue.
    _charged: list[tuple[Holding, RequestVector, bool]] = field(default_factory=list, init=False)
    #: The group choices of a user before one of its applications was started.
    _choices: list[tuple[HoldingTree, Mapping[str, HoldingTree | None] | None]] = field(
        default_factory=list, init=False
    )
    #: The limits that denied one of the requests after those before it had been charged.
    _short: set[_LimitKey] = field(default_factory=set, init=False)

    def charge(self, holding: Holding, usage: Resource, vector: RequestVector) -> None:
        """Charge one more request, and note what it requests and which limits are short."""
        is_new = holding.epoch is DETACHED
        self._short.update(_key(violation) for violation in holding.violations(vector))
        chain = holding.chain()
        starting = holding.newly_counted(chain) if is_new else ()
        application = holding.owner.name, holding.application_id
        for counter in chain:
            place = counter.owner, counter.queue_path
            requested = self._requested.setdefault(place, {})
            self._applications.setdefault(place, set()).add(application)
            for name, amount in usage.amounts.items():
                requested[name] = requested.get(name, 0) + amount
            if counter in starting:
                requested[None] = requested.get(None, 0) + 1
        self._add_undo_steps(holding, is_new=is_new)
        user = self._index.users.get(holding.owner.name)
        if is_new and user is not None:
            self._choices.append((user, user.group_choices))
        self._index.charge(holding, vector)
        self._charged.append((holding, vector, is_new))

    def _add_undo_steps(self, holding: Holding, *, is_new: bool) -> None:
        undo = holding.owner.active_limits.lock.undo
        undo.append((holding.restore_amounts, (holding.amounts,)))
        if is_new:
            undo.append((self._index.undo_add, (holding,)))

    def exceeded(self) -> tuple[Violation, ...]:
        """Return every limit that was short, with the total that the batch requests there."""
        return tuple(
            violation
            for (owner, path), requested in self._in_order()
            for violation in _batch_violations(owner.counters[path], requested, len(self._applications[owner, path]))
            if _key(violation) in self._short
        )

    def _in_order(self) -> list[tuple[tuple[Owner, str], _Requested]]:
        """Return the requested amounts of users, then groups, then queues, each in order of arrival and leaf to root.

        A user or group has counters in many queues, and is sorted by its first one. Each queue has one counter, so all
        queues are sorted by depth.
        """
        first = {
            owner: 0 if owner.kind is TrackingType.QUEUE else position
            for position, (owner, _) in enumerate(self._requested)
        }
        return sorted(
            self._requested.items(),
            key=lambda item: (_ORDER.index(item[0][0].kind), first[item[0][0]], -item[0][1].count(".")),
        )

    def roll_back(self) -> None:
        """Undo all charges."""
        for holding, vector, is_new in reversed(self._charged):
            holding.try_refund(vector)
            if is_new:
                self._index.end(holding)
        for user, choices in reversed(self._choices):
            user.restore_group_choices(choices)


def _batch_violations(counter: Counter, requested: Mapping[str | None, int], applications: int) -> Iterator[Violation]:
    """Yield the exceeded limits of a counter, to which the batch has been charged, with the requested totals.

    If the limit never allows all applications of the batch, those that run already count as requested.
    """
    for violation in already_exceeded(counter):
        more = requested.get(violation.resource, 0)
        if violation.resource is None and applications > violation.limit:
            more = applications
        yield violation._replace(used=violation.used - more, requested=more)
    if counter.limit.closed:
        counted = counter.limited_resources()
        unavailable = {name: amount for name, amount in requested.items() if name is not None and name not in counted}
        # A resource that is not counted never shows up as exceeded.
        yield from exceeded((counter,), counter.layout.vector(Resource(unavailable)))


def _key(violation: Violation) -> _LimitKey:
    return violation.kind, violation.name, violation.queue_path, violation.resource
