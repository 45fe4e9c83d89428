"""Processes that allocate and release in turns, and the latencies of their decisions.

The engine of an older version is measured with the same load, so this module uses only what all versions have.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from time import perf_counter
from typing import Final, NamedTuple, TypeAlias

__all__ = ["CONFIG", "MOST_PROCESSES", "WARM_UP", "Measurement", "Work", "alternate", "best_of", "measure", "queue_of"]

MOST_PROCESSES: Final = 40
#: The number of pairs of decisions before the clock starts.
WARM_UP: Final = 20
#: The maximum time for the start of all processes, in seconds.
_TIMEOUT: Final = 120.0

_QUEUES: Final = ", ".join(
    f"{{name: q{number}, resources: {{max: {{memory: 2E}}}}}}" for number in range(MOST_PROCESSES)
)
#: One limit is above all processes; each process has its own queue.
CONFIG: Final = f"""
partitions:
  - name: default
    queues:
      - name: root
        limits: [{{limit: each, users: ["*"], maxresources: {{memory: 1E}}}}]
        queues:
          - {{name: team, resources: {{max: {{memory: 4E}}}}, queues: [{_QUEUES}]}}
"""

#: Waits at the barrier, decides for some seconds, and returns the latencies; called in each process with its number.
Work: TypeAlias = Callable[[int, float, Barrier], "array[float]"]


def queue_of(number: int) -> str:
    """Return the queue of a process."""
    return f"root.team.q{number}"


class Measurement(NamedTuple):
    """The decisions of all processes in one round."""

    rate: float
    p50_ms: float
    p99_ms: float


def best_of(rounds: list[Measurement]) -> Measurement:
    """Return the round with the highest rate."""
    return max(rounds)


def alternate(
    allocate: Callable[[str], object], release: Callable[[str], object], number: int, seconds: float, start: Barrier
) -> array[float]:
    """Allocate and release in turns, and return the latencies in seconds."""
    for line in range(WARM_UP):
        allocate(f"{number}-{line}")
        release(f"{number}-{line}")
    start.wait()
    latencies, line = array("d"), 0
    begin = perf_counter()
    end = begin + seconds
    while begin < end:
        for decide in (allocate, release):
            decide(f"{number}-{line}")
            after = perf_counter()
            latencies.append(after - begin)
            begin = after
        line += 1
    return latencies


def _run(work: Work, number: int, seconds: float, start: Barrier, results: Queue[array[float]]) -> None:
    results.put(work(number, seconds, start))


def measure(work: Work, processes: int, seconds: float, on_start: Callable[[], object] = lambda: None) -> Measurement:
    """Run work in some processes at the same time.

    Args:
        work: what each process does.
        processes: their number.
        seconds: the time for which each of them decides.
        on_start: called when all processes begin.
    """
    context = get_context("fork")
    start, results = context.Barrier(processes + 1), context.Queue()
    running = [
        context.Process(target=_run, args=(work, number, seconds, start, results), daemon=True)
        for number in range(processes)
    ]
    for process in running:
        process.start()
    start.wait(_TIMEOUT)
    on_start()
    latencies = array("d")
    for _ in running:
        latencies.extend(results.get(timeout=_TIMEOUT))
    for process in running:
        process.join()
    ordered = sorted(latencies)
    p50, p99 = (ordered[int(len(ordered) * part)] * 1e3 for part in (0.5, 0.99))
    return Measurement(len(ordered) / seconds, p50, p99)
