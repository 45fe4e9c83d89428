"""Invariants of trackers and partitions, as functions that raise `ugm.InvariantError`.

They only use public queries, and may run while other threads change the object.

>>> from ugm import Manager, Resource, UserGroup
>>> manager = Manager()
>>> manager.increase_tracked_resource("root.prod", "app-1", Resource(memory=4), UserGroup("sue"))
True
>>> verify_all(manager)
>>> check_never_above(manager)

`check_running` is an oracle for schedulers: the work that a scheduler runs is the work that its partition counts. A
scheduler that forgets a release, or that starts work without a grant, leaves the counters of its partition
consistent. Only a comparison with the running work finds such a bug.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from ugm import InvariantError, Manager, TrackingType
from ugm._json_values import JsonObject
from ugm.partition import AbstractPartition, RunningAllocation, RunningApplication
from ugm.partition.admission.running_work import require_work
from ugm.tracking import Tracker

__all__ = ["RunningWorkError", "check_never_above", "check_running", "exposed", "exposed_partition", "verify_all"]


def exposed(tracker: Tracker) -> JsonObject:
    """Return the visible state of a tracker, for comparisons: the ``users`` and ``groups``, sorted by name."""
    return {"users": tracker.get_users_resources(), "groups": tracker.get_groups_resources()}


def exposed_partition(partition: AbstractPartition) -> JsonObject:
    """Return the visible state of a partition, for comparisons.

    Returns:
        ``users``, ``groups``, ``applications`` and ``allocations``, sorted by name or id; ``queues``, the root;
        ``nodes`` by name; and ``over``, the exceeded limits.
    """
    return {
        "users": partition.users(),
        "groups": partition.groups(),
        "queues": partition.queue(),
        "applications": partition.applications(),
        "allocations": partition.allocations(),
        "nodes": partition.nodes(),
        "over": sorted(partition.exceeded_limits(), key=tuple.__repr__),
    }


def check_never_above(checked: Manager | AbstractPartition) -> None:
    """Check that no user and no group exceeds a limit.

    That is an invariant as long as no allocation was adopted and no limit was lowered, unless
    ``group_limits="unless-user-limited"`` lets a group exceed its limit.

    Args:
        checked: the manager or partition. Its ``exceeded_limits`` also report exceeded queue quotas and quota models.

    Raises:
        InvariantError: with a message for each exceeded limit.
    """
    owners = (TrackingType.USER, TrackingType.GROUP)
    findings = tuple(str(one) for one in checked.exceeded_limits() if one.kind in owners)
    if findings:
        raise InvariantError(findings)


def verify_all(tracker: Tracker | AbstractPartition) -> None:
    """Recompute every counter of a `ugm.Manager` or a partition. Other trackers have no self-check.

    Raises:
        InvariantError: with a message for each wrong counter.
    """
    if isinstance(tracker, Manager) or not isinstance(tracker, Tracker):
        tracker.verify()


@final
class RunningWorkError(AssertionError):
    """The running work of a scheduler differs from its partition.

    Attributes:
        findings: a message for each difference; never empty.
    """

    def __init__(self, findings: tuple[str, ...]) -> None:
        super().__init__(findings)
        self.findings: Final = findings

    def __str__(self) -> str:
        return "\n".join(self.findings)


def check_running(
    partition: AbstractPartition, running: Iterable[RunningApplication], *, within_limits: bool = False
) -> None:
    """Check that a partition counts exactly the running work of a scheduler, and that its counters are consistent.

    Args:
        partition: the partition of the scheduler.
        running: every application that has started and not ended, with the allocations that run.
        within_limits: whether an exceeded limit is a difference, too. It is one unless the scheduler adopts
            allocations or lowers limits.

    Raises:
        RunningWorkError: an allocation is missing, is not running, or has another application, size or node; an
            application is missing or has not been ended; or a limit is exceeded.
        InvariantError: a counter is inconsistent.
        RequestError: an item is invalid, or an id occurs twice.
    """
    applications = require_work(running, (), None).applications
    report = partition.audit(
        RunningAllocation(one.allocation_id, name, one.usage, one.node)
        for name, (_, allocations) in applications.items()
        for one in allocations
    )
    known = set(partition.application_ids())
    findings = [str(difference) for difference in report.differences]
    findings += [f"the application {name!r} runs, but is unknown" for name in sorted(applications.keys() - known)]
    findings += [f"the application {name!r} does not run, but is known" for name in sorted(known - applications.keys())]
    if within_limits:
        findings += [f"exceeded: {violation}" for violation in partition.exceeded_limits()]
    if findings:
        raise RunningWorkError(tuple(findings))
    partition.verify()
