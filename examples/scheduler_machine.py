"""A state machine that tests a small scheduler: after every step, its partition counts exactly what it runs.

Replace `Scheduler` with your own. The machine needs hypothesis.
Run it from a clone with: python examples/scheduler_machine.py
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from ugm import Partition, Resource, UserGroup, parse_config
from ugm.partition import RunningApplication
from ugm.testing import check_running

CONFIG = "partitions: [{queues: [{name: batch, resources: {max: {vcore: 4}}}]}]"
QUEUE = "root.batch"
ANA = UserGroup("ana")


class Scheduler:
    """Starts jobs that the partition admits; every job is an application with one allocation."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.running: dict[str, Resource] = {}

    def start(self, job: str, size: Resource) -> None:
        """Start a job unless it runs, if the partition admits it."""
        if job not in self.running and self.partition.admit(job, ANA, QUEUE, [(job, size)]):
            self.running[job] = size

    def finish(self, job: str) -> None:
        """Finish a job and return its resources."""
        if self.running.pop(job, None) is not None:
            self.partition.end(job)


class SchedulerMachine(RuleBasedStateMachine):
    """Starts and finishes random jobs."""

    scheduler_type: type[Scheduler] = Scheduler

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = self.scheduler_type(Partition(parse_config(CONFIG).partition()))

    @rule(number=st.integers(0, 3), vcores=st.integers(1, 3))
    def start(self, number: int, vcores: int) -> None:
        """Start one of a few jobs, so that most rules meet a running job."""
        self.scheduler.start(f"job-{number}", Resource(vcore=1000 * vcores))

    @rule(number=st.integers(0, 3))
    def finish(self, number: int) -> None:
        """Finish one of the jobs."""
        self.scheduler.finish(f"job-{number}")

    @invariant()
    def partition_counts_what_runs(self) -> None:
        """Compare the running jobs with the partition."""
        jobs = self.scheduler.running.items()
        running = [RunningApplication(job, ANA, QUEUE, [(job, size)]) for job, size in jobs]
        check_running(self.scheduler.partition, running, within_limits=True)


if __name__ == "__main__":
    run_state_machine_as_test(SchedulerMachine, settings=settings(max_examples=50, stateful_step_count=15))
    print("the partition always counts what runs")
