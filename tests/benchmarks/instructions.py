"""Count the instructions that the benchmark workloads execute, and compare two checkouts.

Usage: python tests/benchmarks/instructions.py [--traces FOLDER] [--against CHECKOUT] [--unit UNIT] [--steps NUMBER]
    [--workload NAME]... [--most RATIO]

FOLDER has the recorded workloads: ``users_groups.jsonl.gz``, ``quotatree_steady_2000.jsonl.gz``,
``quotatree_borrow_2000.jsonl.gz`` and ``elastic.jsonl.gz``; `users_groups.py`, `quotatree.py` and `elastic.py` describe
their formats. By default it is ``traces`` here, with the first 1,000 steps of each. If a file is missing, the workloads
that need it are left out.

CHECKOUT is a folder with another version, such as a git worktree. Its ``src`` runs with its own ``tests/benchmarks``.
The units are:

- ``bytecodes`` (the default): bytecode instructions in Python functions, without those of the benchmark itself;
- ``machine``: machine instructions of the steps under ``valgrind --tool=callgrind``, with all that they call in C;
- ``time``: nanoseconds of processor time, the best of several runs; with ``--against`` the runs of the two alternate.

Every workload runs in a process of its own, with ``PYTHONHASHSEED=0`` and without garbage collections. Prints one JSON
object: for each workload the figure, or with ``--against`` both figures and their ratio. With ``--most``, the exit
status is 1 if a ratio is larger.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time_ns
from types import MappingProxyType
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
#: How many steps of a trace are replayed before those that are counted.
WARM: Final = 4000
#: How often a time is taken.
ROUNDS: Final = 7

#: The function of CPython by which the counted part is called.
BOUNDARY: Final = "_PyEval_CallTracing"
VALGRIND: Final = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--toggle-collect={BOUNDARY}")

USERS_GROUPS: Final = "users_groups.jsonl.gz"
ELASTIC: Final = "elastic.jsonl.gz"

CONFIG: Final = """
partitions:
- name: default
  queues:
  - name: root
    limits: &limits
    - {limit: users, users: ["*"], maxresources: {vcore: 1000, memory: 1Ti}}
    - {limit: groups, groups: [dev], maxresources: {vcore: 1000, memory: 1Ti}}
    queues:
    - name: division
      limits: *limits
      resources: {max: {vcore: 1000, memory: 1Ti}}
      queues:
      - name: team
        limits: *limits
        resources: {max: {vcore: 1000, memory: 1Ti}}
        queues: [{name: batch, limits: *limits, resources: {max: {vcore: 1000, memory: 1Ti}}}]
"""

#: What is counted.
Run = Callable[[], object]


def manager(traces: Path, steps: int) -> Run:
    """Prepare increases and decreases of a recorded trace on a manager."""
    ugm, scripts = import_module("ugm"), import_module("users_groups")
    config, trace = scripts.read(str(traces / USERS_GROUPS))[0]
    made = ugm.Manager()
    made.update_config(config)

    def replay(part: list[Any]) -> None:
        increase, decrease = made.increase_tracked_resource, made.decrease_tracked_resource
        for grows, queue, application, usage, user, line in part:
            if grows:
                increase(queue, application, usage, user)
            else:
                decrease(queue, application, usage, remove_app=line, user=user)

    replay(trace[:WARM])
    return partial(replay, trace[WARM : WARM + steps])


def partition(traces: Path, steps: int) -> Run:
    """Prepare allocations and releases of the same trace on a partition."""
    scripts = import_module("partition")
    config, trace, submissions = scripts.read(str(traces / USERS_GROUPS))
    made = scripts.prepared(config, submissions)

    def replay(part: list[Any]) -> None:
        allocate, release = made.allocate, made.release
        for allocation_id, application_id, usage, _ in part:
            if application_id is None:
                release(allocation_id)
            else:
                allocate(allocation_id, application_id, usage)

    replay(trace[:WARM])
    return partial(replay, trace[WARM : WARM + steps])


def _one_application(**options: Any) -> tuple[Any, Any, Any]:  # noqa: ANN401 - of either version
    ugm = import_module("ugm")
    cluster = ugm.Resource.parse({"vcore": "999", "memory": "1Ti"})
    made = ugm.Partition(ugm.parse_config(CONFIG).partition(), cluster=cluster, **options)
    made.submit("app", ugm.UserGroup("sue", ("dev",)), "root.division.team.batch")
    usage, too_much = ugm.Resource(vcore=100, memory=1 << 20), ugm.Resource(vcore=10**9)
    made.allocate("first", "app", usage)
    return made, usage, too_much


def pair(_traces: Path, steps: int, **options: Any) -> Run:  # noqa: ANN401 - as above
    """Prepare pairs of an allocation and its release in a queue at depth 4."""
    made, usage, _ = _one_application(**options)

    def replay() -> None:
        for _ in range(steps):
            made.allocate("more", "app", usage)
            made.release("more")

    return replay


def check(_traces: Path, steps: int) -> Run:
    """Prepare checks that are allowed."""
    made, usage, _ = _one_application()

    def replay() -> None:
        for _ in range(steps):
            made.check("app", usage)

    return replay


def denied(_traces: Path, steps: int) -> Run:
    """Prepare allocations that every limit denies."""
    made, _, too_much = _one_application()

    def replay() -> None:
        for _ in range(steps):
            made.allocate("more", "app", too_much)

    return replay


def tree(name: str, traces: Path, steps: int) -> Run:
    """Prepare arrivals and departures on a quota tree."""
    scripts = import_module("quotatree")
    workload = scripts.read(str(traces / name))
    tally = scripts.Tally(workload)
    tally.run(0, workload.warmup)
    return partial(tally.run, workload.warmup, workload.warmup + steps)


def elastic(traces: Path, steps: int) -> Run:
    """Prepare changes of requests among elastic groups, each followed by a read of that group."""
    scripts = import_module("elastic")
    with gzip.open(traces / ELASTIC, "rt", encoding="utf-8") as lines:
        workload = json.loads(lines.readline())
    groups = [scripts.read_group(quota) for quota in workload["quotas"]]
    initial, changes = (scripts.read_steps(workload[name]) for name in ("initial_requests", "steps"))
    made = scripts.prepared(workload, groups, initial)

    def replay() -> None:
        for name, delta in changes[:steps]:
            made.change_request(name, delta)
            made.runtime(name)

    return replay


STEADY, BORROW = "quotatree_steady_2000.jsonl.gz", "quotatree_borrow_2000.jsonl.gz"

#: By name: the recording that is needed, and what prepares the run.
WORKLOADS: Final[Mapping[str, tuple[str | None, Callable[[Path, int], Run]]]] = MappingProxyType({
    "manager": (USERS_GROUPS, manager),
    "partition": (USERS_GROUPS, partition),
    "pair": (None, pair),
    "check": (None, check),
    "denied": (None, denied),
    "subscribed": (None, partial(pair, subscribers=[id])),
    "quotatree-steady": (STEADY, partial(tree, STEADY)),
    "quotatree-borrow": (BORROW, partial(tree, BORROW)),
    "elastic": (ELASTIC, elastic),
})  # fmt: skip


# The process of one run


def run_one(options: argparse.Namespace) -> int:
    """Run one workload in this process, and return its figure; of machine instructions others keep count."""
    sys.path.insert(0, str(options.checkout / "tests" / "benchmarks"))
    found = Path(import_module("ugm").__file__ or "").resolve()
    if not found.is_relative_to(options.checkout / "src"):
        sys.exit(f"{found} was imported instead of ugm in {options.checkout / 'src'}")
    _, prepare = WORKLOADS[options.run]
    run = prepare(options.traces, options.steps)
    gc.collect()
    gc.disable()
    if options.unit == "bytecodes":
        counting = import_module("counting")
        return int(counting.bytecodes(run, driver=(HERE, options.checkout / "tests" / "benchmarks")))
    start = process_time_ns()
    # Nothing else uses this function, which only calls its argument: valgrind collects while it is active.
    sys.call_tracing(run, ())
    return process_time_ns() - start


# The process that compares


class Measurement:
    """How a workload is measured in a checkout."""

    def __init__(self, unit: str, steps: int, traces: Path) -> None:
        self.unit, self.steps, self.traces = unit, steps, traces

    def of(self, name: str, checkouts: list[Path]) -> list[int]:
        """Return the figures of a workload in each checkout."""
        measured = self._machine if self.unit == "machine" else self._printed
        rounds = [[measured(name, one) for one in checkouts] for _ in range(ROUNDS if self.unit == "time" else 1)]
        return [min(column) for column in zip(*rounds, strict=True)]

    def _printed(self, name: str, checkout: Path) -> int:
        return int(self._child(name, checkout).stdout)

    def _machine(self, name: str, checkout: Path) -> int:
        # The first run compiles what is not compiled yet.
        self._child(name, checkout)
        output = self._child(name, checkout, before=VALGRIND).stderr
        found = re.search(r"Collected : (\d+)", output)
        if found is None or found[1] == "0":
            sys.exit(f"valgrind collected nothing; does this Python have the symbol {BOUNDARY}?\n{output}")
        return int(found[1])

    def _child(self, name: str, checkout: Path, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        command = [*before, sys.executable, __file__, "--run", name, "--checkout", str(checkout),
            "--traces", str(self.traces), "--steps", str(self.steps), "--unit", self.unit]  # fmt: skip
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(checkout / "src")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - this file
        if done.returncode:
            sys.exit(f"{name} in {checkout}:\n{done.stderr}")
        return done


def cut(traces: Path, folder: Path, steps: int) -> None:
    """Copy the beginning of each recording, so that a run reads no more than it replays."""
    for name in {needed for needed, _ in WORKLOADS.values() if needed}:
        if not (traces / name).exists():
            continue
        with gzip.open(traces / name, "rt", encoding="utf-8") as lines, gzip.open(folder / name, "wt") as copy:
            head = json.loads(lines.readline())
            if "steps" in head:
                head["steps"] = head["steps"][: steps + (WARM if name == USERS_GROUPS else 0)]
            copy.write(json.dumps(head) + "\n")
            copy.writelines(line for _, line in zip(range(head.get("warmup_ops", 0) + steps), lines, strict=False))


def chosen(options: argparse.Namespace) -> list[str]:
    """Return the workloads to run: those that are named, or all that have their recording."""
    have = [name for name, (needed, _) in WORKLOADS.items() if needed is None or (options.traces / needed).exists()]
    if missing := sorted(set(options.workload) - set(have)):
        sys.exit(f"no recording in {options.traces} for: {', '.join(missing)}")
    return [name for name in have if not options.workload or name in options.workload]


def compare(options: argparse.Namespace) -> bool:
    """Print the figures, and return whether no ratio is above the one that is allowed."""
    names = chosen(options)
    if options.unit == "machine" and shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed")
    checkouts = [options.checkout, *([options.against.resolve()] if options.against else [])]
    with TemporaryDirectory() as folder:
        cut(options.traces, Path(folder), options.steps)
        measurement = Measurement(options.unit, options.steps, Path(folder))
        figures = {}
        for name in names:
            figures[name] = measurement.of(name, checkouts)
            print(name, *figures[name], file=sys.stderr)  # noqa: T201 - the progress of long runs
    report: dict[str, Any] = {name: ours for name, (ours, *_) in figures.items()}
    if options.against:
        report = {
            name: {"here": ours, "against": theirs, "ratio": round(ours / theirs, 4)}
            for name, (ours, theirs) in figures.items()
        }
    print(json.dumps(report, indent=1))  # noqa: T201 - the figures are the output
    return not options.against or options.most is None or all(one["ratio"] <= options.most for one in report.values())


def main() -> None:
    """Read the command line, and do what it says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--traces", type=Path, default=HERE / "traces", help="folder with the recorded workloads")
    parser.add_argument("--against", type=Path, help="folder with another version to compare with")
    parser.add_argument("--unit", choices=("bytecodes", "machine", "time"), default="bytecodes")
    parser.add_argument("--steps", type=int, default=1000, help="how many steps of each workload are counted")
    parser.add_argument("--workload", action="append", choices=sorted(WORKLOADS), default=[], help="run only this one")
    parser.add_argument("--most", type=float, help="exit with status 1 if a ratio is larger")
    # For the processes that this one starts.
    parser.add_argument("--run", choices=sorted(WORKLOADS), help=argparse.SUPPRESS)
    parser.add_argument("--checkout", type=Path, default=HERE.parents[1], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(run_one(options))  # noqa: T201 - read by the process that started this one
    elif not compare(options):
        sys.exit(1)


if __name__ == "__main__":
    main()
