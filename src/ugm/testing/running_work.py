"""An oracle for schedulers: the work that a scheduler runs is the work that its partition counts.

A scheduler that forgets a release, or that starts work without a grant, leaves the counters of its partition
consistent. Only a comparison with the running work finds such a bug. `check_running` makes it after a step of a test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, final

from ugm.errors import RequestError
from ugm.partition import AbstractPartition, AllocationSpec, RunningAllocation, RunningApplication

__all__ = ["RunningWorkError", "check_running"]


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
    applications = _by_id(running)
    report = partition.audit(one for application in applications.values() for one in _allocations(application))
    known = {application.application_id for application in partition.applications()}
    findings = [str(difference) for difference in report.differences]
    findings += [f"the application {name!r} runs, but is unknown" for name in sorted(applications.keys() - known)]
    findings += [f"the application {name!r} does not run, but is known" for name in sorted(known - applications.keys())]
    if within_limits:
        findings += [f"exceeded: {violation}" for violation in partition.exceeded_limits()]
    if findings:
        raise RunningWorkError(tuple(findings))
    partition.verify()


def _by_id(running: Iterable[RunningApplication]) -> dict[str, RunningApplication]:
    applications: dict[str, RunningApplication] = {}
    for one in running:
        if not isinstance(one, RunningApplication):
            raise RequestError("running", one, "expected a RunningApplication")
        if applications.setdefault(one.application_id, one) is not one:
            raise RequestError("running", one.application_id, "the application occurs twice")
    return applications


def _allocations(application: RunningApplication) -> Iterator[RunningAllocation]:
    for one in application.allocations:
        spec = AllocationSpec(*one)
        yield RunningAllocation(spec.allocation_id, application.application_id, spec.usage, spec.node)
