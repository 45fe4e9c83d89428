"""Charges that find out what fits: of a gang, of a search, and in an empty partition.

The prospects of a denied request whose limits change by a schedule.

Waiting can help if an empty partition allows the request at some time. With the limits in force, it does unless the
request alone exceeds one of them. A later change may raise such a limit. But another limit may be low just then, so all
limits of the request are compared together: in an empty copy of its queues, once for each combination of limits that
comes into force later.

The other quota models do not change by a schedule. Each states by itself whether waiting can help.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, final

from ugm.arguments import require_vector
from ugm.decision import Violation
from ugm.partition.config.compiled import NEVER, ScheduledViolation
from ugm.partition.engine.application import Application
from ugm.partition.engine.model_set import ModelSet
from ugm.partition.engine.state import PartitionState
from ugm.partition.rows import Allocation, ApplicationRow
from ugm.queues import Submission
from ugm.resources import Resource, sum_of
from ugm.tracking.holding_index import BatchCharge


def charge_limits(state: PartitionState, charges: BatchCharge, application: Application, usage: Resource) -> None:
    """Charge the limits of users, groups and queues, as a part of several charges, and start the application."""
    holding = state.holding_of(application)
    charges.charge(holding, usage, require_vector("usage", usage, state.active_limits.epoch.layout))
    if application.holding is None:
        state.put("application", application.row.application_id, application.running_row(holding))
        application.holding = holding


def with_prospects(
    state: PartitionState, violations: tuple[Violation, ...], usages: Sequence[tuple[Application, Resource]]
) -> tuple[Violation, ...]:
    """Return the violations of some requests with the changes by the schedule that help.

    Args:
        state: the partition.
        violations: the violations of users, groups and queues, with others that stay as they are.
        usages: what applications would use; they were denied together.
    """
    schedule, second = state.compiled.schedule, state.compiled.changes_at
    if schedule is None or second >= NEVER:
        return violations
    # Different applications need not have the same limits.
    is_alone = len({id(application) for application, _ in usages}) == 1
    usage = sum_of(usage for _, usage in usages) if is_alone else Resource()
    found = schedule.with_rises(violations, second, usage)
    rises = [one for one in found if isinstance(one, ScheduledViolation)]
    if not rises or not all(one.can_wait for one in found):
        return found
    paths = frozenset(application.queue.queue_path for application, _ in usages)
    for limits, specs in schedule.later_variants(paths, second):
        compiled = state.compiled._replace(limits=limits, specs=specs, schedule=None, pending=None)
        emptied = PartitionState(compiled, user_limits_win=state.active_limits.user_limits_win)
        if state.cluster.total is not None:
            emptied.cluster.add("cluster", state.cluster.total)
            emptied.resize_cluster()
        charges = BatchCharge(emptied.holding_index)
        for application, amounts in _copies(emptied, usages):
            charge_limits(emptied, charges, application, amounts)
        if not charges.exceeded():
            return found
    return tuple(one.as_blocked() if isinstance(one, ScheduledViolation) else one for one in found)


def _copies(
    emptied: PartitionState, usages: Iterable[tuple[Application, Resource]]
) -> list[tuple[Application, Resource]]:
    """Return usages of applications that do not run yet, in an empty partition."""
    applications: dict[int, Application] = {}
    copies = []
    for known, usage in usages:
        if id(known) not in applications:
            queue = emptied.create_queue(known.queue.queue_path)
            emptied.count_resources(tuple(queue.quota.names))
            if known.queue.quota_override is not None:
                emptied.set_queue_quota(queue, known.queue.quota_override)
            applications[id(known)] = emptied.add_application(
                Submission(known.application_id, known.row.user), queue, known.row.gang_style, group=known.row.group
            )
        copies.append((applications[id(known)], usage))
    return copies


@final
class TrialCharges:
    """Requests that are charged like `AdmissionControl` does, but without a record; the caller holds the lock.

    If the search is interrupted, the lock takes back the charges and rebuilds the counters. Then call `forget`.

    Args:
        state: the partition.
        models: its quota models.
    """

    def __init__(self, state: PartitionState, models: ModelSet) -> None:
        self._state: Final = state
        self._models: Final = models
        #: The requests whose charges are not refunded, each with the row of its application before, if the charge has
        #: started it.
        self._made: Final[list[tuple[Application, Allocation, ApplicationRow | None]]] = []

    def charge(self, application: Application, row: Allocation) -> None:
        """Charge a request without a check, and start its application if need be."""
        if not self._made:
            self._state.note_charges()
        self._made.append((application, row, application.row if application.holding is None else None))
        if self._models.all:
            self._models.charge(application.claim(row), waiting=self._state.waiting_usage(row.allocation_id))
        holding = self._state.holding_of(application)
        holding.charge(self._state.vector(row.usage))
        if application.holding is None:
            application.row, application.holding = application.running_row(holding), holding
            self._state.holding_index.add(holding)

    def refund_all(self) -> None:
        """Refund all charges, the last one first."""
        while self._made:
            application, row, before = self._made.pop()
            holding = self._state.holding_of(application)
            holding.try_refund(self._state.vector(row.usage))
            if before is not None:
                self._state.holding_index.end(holding)
                application.holding, application.row = None, before
            waiting = self._state.waiting_usage(row.allocation_id) if self._models.all else None
            if waiting is not None:
                self._models.add_pending_again(application.claim(row), waiting)
            elif self._models.all:
                self._models.change("refund", application.claim(row))

    def forget(self) -> None:
        """Forget all charges of an interrupted search."""
        self._made.clear()
