"""The cost of elastic groups and of a quota tree in a replay, as a multiple of the same replay with queues only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from runpy import run_path
from typing import Final

import pytest

from support.places import EXAMPLES
from support.reclaim_scenes import lending_models
from ugm import Resource, parse_config
from ugm.elastic.model import GROUP_TAG
from ugm.simulation import Job, JobMapping, Report, read_swf, simulate

#: As a script would have it: the folder is not a package.
bytecodes: Final[Callable[..., int]] = run_path(str(Path(__file__).parent / "counting.py"))["bytecodes"]

CORES: Final = 150
QUEUES: Final = parse_config("""
partitions:
- placementrules: [{name: provided, create: true}]
  queues: [{name: root, childtemplate: {resources: {max: {gpu: 60}}}}]
""").partition()


@cache
def jobs() -> tuple[Job, ...]:
    """Return a part of the log in the examples, with cores as gpu and the group as a tag."""
    found = islice(JobMapping(tags={GROUP_TAG: "group"}).jobs(read_swf(EXAMPLES / "grid.swf.gz")), 3000, 3800)
    return tuple(replace(job, usage=Resource(gpu=job.usage["vcore"] // 1000)) for job in found)


@cache
def tenths() -> dict[str, int]:
    """Return a tenth of the mean usage of each group."""
    used: Counter[str] = Counter()
    for job in jobs():
        used[job.tags[GROUP_TAG]] += job.usage["gpu"] * job.run_time
    seconds = jobs()[-1].submit_time - jobs()[0].submit_time
    return {group: amount // (10 * seconds) for group, amount in sorted(used.items())}


def replay(kinds: str) -> Report:
    """Replay the jobs with the models of some kinds."""
    models = partial(lending_models, kinds, tenths(), CORES)
    return simulate(jobs(), QUEUES, cluster=Resource(gpu=CORES), models=models)


@pytest.mark.ci
def test_models_cost_a_small_multiple_of_queues() -> None:
    """Where most jobs wait, a quota tree takes less than 2.5 times the instructions, and elastic groups less than 3."""
    reports = [replay(kinds) for kinds in ("", "elastic", "tree")]
    queues, elastic, tree = (bytecodes(partial(replay, kinds)) for kinds in ("", "elastic", "tree"))

    assert all(report.is_clean and report.waiting.delayed > len(jobs()) // 2 for report in reports)
    assert [any(one.borrowed for one in report.lending) for report in reports] == [False, True, True]
    assert elastic < 3 * queues
    assert tree < 2.5 * queues
