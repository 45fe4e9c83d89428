"""The replay of the bundled workload under the bundled configuration, once in each process."""

from __future__ import annotations

from functools import cache

from support.places import EXAMPLES
from ugm import load_config
from ugm.simulation import JobMapping, Recorder, Report, read_swf, simulate

__all__ = ["grid_replay"]


@cache
def grid_replay() -> tuple[Report, Recorder]:
    """Return the report and the history of the replay. Tests must not change them."""
    recorder = Recorder()
    config = load_config(str(EXAMPLES / "grid.yaml")).partition()
    return simulate(JobMapping().jobs(read_swf(EXAMPLES / "grid.swf.gz")), config, recorder=recorder), recorder
