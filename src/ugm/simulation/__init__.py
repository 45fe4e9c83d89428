"""Simulation: replay a workload with a virtual clock, and report the effect of a configuration on its jobs.

    records = read_swf("last-month.swf.gz")
    report = simulate(JobMapping().jobs(records), load_config("queues.yaml").partition())
    print(report.waiting.p95, report.limits[0])

The command ``ugm simulate`` does this and shows the report.
"""

from ugm.simulation import report, workload
from ugm.simulation.orders import JobOrderName
from ugm.simulation.recorder import Envelope, Recorder
from ugm.simulation.replay import simulate
from ugm.simulation.report import *  # noqa: F403 - all rows of a report, listed once
from ugm.simulation.workload import *  # noqa: F403 - jobs and the reader of logs, listed once

__all__ = ["Envelope", "JobOrderName", "Recorder", "simulate"]
__all__ += report.__all__
__all__ += workload.__all__
