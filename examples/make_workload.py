"""Make the bundled workload `grid.swf.gz`: two weeks of a synthetic research grid.

The workload has the properties of real grid logs. A few users send most of the jobs, in bursts. A few groups own most
users. Days are busier than nights and weekends. Most jobs are short, some are very long. Sites differ in popularity.
All values are drawn from one seed, so the file is always the same:

    python examples/make_workload.py examples/grid.swf.gz
"""

from __future__ import annotations

import gzip
import io
import random
import sys
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

SEED = 20051120
JOBS = 20_000
DAYS = 14
USERS = 320
GROUPS = 36
SITES = 12

HOUR = 3600
DAY = 24 * HOUR

#: The load of each hour of a day, from midnight.
DAILY_CYCLE = (3, 2, 2, 2, 2, 3, 4, 6, 10, 14, 16, 16, 13, 15, 17, 17, 15, 12, 9, 8, 7, 6, 5, 4)
WEEKEND = 0.35

#: Queue 1 takes jobs of less than two hours, 2 the longer ones, 3 those on several processors.
SHORT, LONG, PARALLEL = 1, 2, 3

HEADER = f"""\
; Version: 2.2
; Computer: a synthetic research grid
; Note: made by make_workload.py with seed {SEED}; any likeness to real users is by construction
; MaxJobs: {JOBS}
; UnixStartTime: 1798761600
; TimeZoneString: UTC
; MaxPartitions: {SITES}
; MaxQueues: 3
; Queue: 1 short
; Queue: 2 long
; Queue: 3 parallel
"""


class User(NamedTuple):
    """A user of the grid and their habits."""

    number: int
    group: int
    sites: tuple[int, ...]
    #: The mean logarithm of the run time in seconds.
    run_time: float
    #: The share of bursts on several processors.
    parallel: float


class Line(NamedTuple):
    """The properties of one job that vary."""

    submit_time: int
    run_time: int
    processors: int
    requested_time: int
    memory: int
    status: int
    user: int
    group: int
    executable: int
    queue: int
    site: int

    def text(self, number: int) -> str:
        """Return the 18 fields of the Standard Workload Format."""
        return (
            f"{number} {self.submit_time} -1 {self.run_time} {self.processors} -1 -1 {self.processors} "
            f"{self.requested_time} {self.memory} {self.status} {self.user} {self.group} {self.executable} "
            f"{self.queue} {self.site} -1 -1\n"
        )


def main(path: Path) -> None:
    """Write the workload to *path*."""
    file = io.BytesIO()
    # Without a name and a time in its header, the file depends only on its content.
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as zipped:
        zipped.write(make().encode("ascii"))
    path.write_bytes(file.getvalue())


def make() -> str:
    """Return the workload as text."""
    source = random.Random(SEED)
    users = [make_user(number, source) for number in range(1, USERS + 1)]
    activity = zipf(USERS, 0.9)
    hours = list(accumulate(hourly_load()))
    lines: list[Line] = []
    while len(lines) < JOBS:
        user = source.choices(users, cum_weights=activity)[0]
        start = source.choices(range(DAYS * 24), cum_weights=hours)[0] * HOUR + source.randrange(HOUR)
        lines += burst(user, start, source)
    lines = sorted(lines[:JOBS])
    return HEADER + "".join(line.text(number) for number, line in enumerate(lines, start=1))


def zipf(count: int, exponent: float) -> list[float]:
    """Return the cumulative weights of Zipf's law: rank n has about the weight of the first divided by n."""
    return list(accumulate(rank**-exponent for rank in range(1, count + 1)))


def make_user(number: int, source: random.Random) -> User:
    """Draw a user; low group and site numbers are more popular."""
    group = source.choices(range(1, GROUPS + 1), cum_weights=zipf(GROUPS, 0.8))[0]
    sites = tuple(source.choices(range(1, SITES + 1), cum_weights=zipf(SITES, 0.9), k=3))
    return User(number, group, sites, source.gauss(7.4, 1.3), source.choice((0, 0, 0, 0.05, 0.3)))


def hourly_load() -> list[float]:
    """Return the load of each hour of the workload, which starts on a Monday."""
    load = []
    for day in range(DAYS):
        factor = WEEKEND if day % 7 in (5, 6) else 1.0
        load += [factor * hour for hour in DAILY_CYCLE]
    return load


def burst(user: User, start: int, source: random.Random) -> list[Line]:
    """Draw the jobs of one burst: one program, similar run times, one site."""
    count = min(int(source.paretovariate(0.9)), 300)
    typical = source.gauss(user.run_time, 0.8)
    processors = source.choice((2, 2, 4, 8)) if source.random() < user.parallel else 1
    memory = source.choice((1, 1, 2, 2, 2, 4, 8)) * 2**20
    executable = user.number * 10 + source.randrange(4)
    site = source.choice(user.sites)
    lines = []
    for _ in range(count):
        start += int(source.expovariate(1 / 20))
        run_time, status = draw_run_time(typical, source)
        queue = PARALLEL if processors > 1 else LONG if typical > 8.9 else SHORT  # noqa: PLR2004 - the logarithm of two hours
        requested = DAY * 2 if queue == LONG else HOUR * 12
        who = (user.number, user.group, executable)
        lines.append(Line(start, run_time, processors, requested, memory, status, *who, queue, site))
    return lines


def draw_run_time(typical: float, source: random.Random) -> tuple[int, int]:
    """Return a run time and a status: most jobs succeed, some fail early, a few are cancelled."""
    fate = source.random()
    if fate < 0.02:  # noqa: PLR2004 - two in a hundred are cancelled before they run
        return 0, 5
    run_time = max(1, min(int(source.lognormvariate(typical, 0.35)), 2 * DAY))
    if fate < 0.08:  # noqa: PLR2004 - six in a hundred fail
        return min(run_time, 1 + int(source.expovariate(1 / 90))), 0
    return run_time, 1


if __name__ == "__main__":
    main(Path(sys.argv[1]))
