"""The prospects of a denied request whose limits change by a schedule.

Waiting can help if an empty partition allows the request at some time. With the limits in force, it does unless the
request alone exceeds one of them. A later change may raise such a limit. But another limit may be low just then, so all
limits of the request are compared together: in an empty copy of its queues, once for each combination of limits that
comes into force later.

The other quota models do not change by a schedule. Each states by itself whether waiting can help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from ugm.arguments import require_vector
from ugm.decision import ScheduledViolation, Violation
from ugm.partition.application import Application, LedgerEntry
from ugm.partition.config_schedule import NEVER
from ugm.partition.state import PartitionState
from ugm.resources import Resource, sum_of
from ugm.tracking.batch import BatchCharge

__all__ = ["charge_limits", "with_prospects"]


def charge_limits(
    state: PartitionState, entries: Iterable[LedgerEntry]
) -> tuple[BatchCharge, list[Callable[[], None]]]:
    """Charge the limits of users, groups and queues; return the charges, and functions that undo each start."""
    charges = BatchCharge(state.holding_index)
    undo_starts: list[Callable[[], None]] = []
    for entry in entries:
        application = entry.application
        holding = state.holding_of(application)
        vector = require_vector("usage", entry.usage, state.active_limits.epoch.layout)
        charges.charge(holding, entry.usage, vector)
        if application.holding is None:
            fields = application.mutable_fields()
            undo_starts.append(partial(application.restore_fields, *fields))
            state.undo.append((application.restore_fields, fields))
            application.start(holding)
    return charges, undo_starts


def with_prospects(
    state: PartitionState, violations: tuple[Violation, ...], entries: Sequence[LedgerEntry]
) -> tuple[Violation, ...]:
    """Return the violations of some entries with the changes by the schedule that help.

    Args:
        state: the partition.
        violations: the violations of users, groups and queues, with others that stay as they are.
        entries: the entries, which were denied together.
    """
    schedule, second = state.compiled.schedule, state.compiled.changes_at
    if schedule is None or second >= NEVER:
        return violations
    # Different applications need not have the same limits.
    is_alone = len({id(entry.application) for entry in entries}) == 1
    usage = sum_of(entry.usage for entry in entries) if is_alone else Resource()
    found = schedule.with_rises(violations, second, usage)
    rises = [one for one in found if isinstance(one, ScheduledViolation)]
    if not rises or not all(one.can_wait for one in found):
        return found
    paths = frozenset(entry.application.queue.queue_path for entry in entries)
    for limits, specs in schedule.later_variants(paths, second):
        compiled = state.compiled._replace(limits=limits, specs=specs, schedule=None, pending=None)
        emptied = PartitionState(compiled, user_limits_win=state.active_limits.user_limits_win)
        if state.cluster.total is not None:
            emptied.cluster.add("cluster", state.cluster.total)
            emptied.resize_cluster()
        if not charge_limits(emptied, _copies(emptied, entries))[0].exceeded():
            return found
    return tuple(one.as_blocked() if isinstance(one, ScheduledViolation) else one for one in found)


def _copies(emptied: PartitionState, entries: Iterable[LedgerEntry]) -> list[LedgerEntry]:
    """Return entries of applications that do not run yet, in an empty partition."""
    applications: dict[int, Application] = {}
    copies = []
    for entry in entries:
        known = entry.application
        if id(known) not in applications:
            queue = emptied.tree.create(known.queue.queue_path)
            emptied.count_resources(tuple(queue.quota.names))
            if known.queue.quota_override is not None:
                emptied.set_queue_quota(queue, known.queue.quota_override)
            copy = applications[id(known)] = Application(known.submission, queue, known.gang_style)
            copy.group = known.group
        copies.append(entry._replace(application=applications[id(known)]))
    return copies
