"""Time of a scrape of a large partition, and its effect on the decisions of the same process.

    python tests/benchmarks/metrics.py [queues] [users]

Prints the time of a scrape, its series, and the time of a decision (an allocation and its release) with and without a
second thread that scrapes without pause.
"""

from __future__ import annotations

import sys
import threading
import time
from statistics import median, quantiles

from ugm import Partition, Resource, UserGroup, parse_config
from ugm.server import History, PartitionCollector
from ugm.server.metrics.collector import exposition

SECONDS = 10
SIZE = Resource(vcore=100, memory=1 << 20)


def populated(queues: int, users: int) -> tuple[Partition, History]:
    """Return a partition in which every user has an allocation and every tenth a pending request."""
    leaves = ", ".join(f"{{name: q{n}, resources: {{max: {{memory: 1Pi, vcore: 1M}}}}}}" for n in range(queues))
    limits = '{users: ["*"], maxresources: {memory: 1Pi, vcore: 1M}}, {groups: [group-1], maxresources: {memory: 4Pi}}'
    text = f"partitions: [{{queues: [{{name: root, limits: [{limits}], queues: [{leaves}]}}]}}]"
    history = History()
    partition = Partition(parse_config(text).partition(), subscribers=[history])
    for number in range(users):
        name = f"app-{number}"
        partition.submit(name, UserGroup(f"user-{number}", (f"group-{number % 100}",)), f"root.q{number % queues}")
        partition.allocate(f"{name}.0", name, SIZE)
        if number % 10 == 0:
            partition.request(f"{name}.1", name, SIZE)
    return partition, history


def decisions(partition: Partition) -> list[float]:
    """Return the durations of decisions, in microseconds."""
    found, until, number = [], time.perf_counter() + SECONDS, 0
    while time.perf_counter() < until:
        number += 1
        application = f"app-{number % 1000}"
        began = time.perf_counter()
        partition.allocate("probe", application, SIZE)
        partition.release("probe")
        found.append((time.perf_counter() - began) * 1e6)
        time.sleep(0.0005)
    return found


def report(title: str, found: list[float]) -> None:
    """Print the distribution of durations."""
    cuts = quantiles(found, n=1000)
    values = f"median {median(found):.0f}, p99 {cuts[989]:.0f}, p99.9 {cuts[998]:.0f}, longest {max(found):.0f}"
    print(f"{title}: {len(found)} decisions, {values} microseconds")  # noqa: T201 - a benchmark


def main() -> None:
    """Measure and print."""
    queues, users = (int(text) for text in (*sys.argv[1:], "3000", "10000")[:2])
    partition, history = populated(queues, users)
    scrape = exposition(PartitionCollector({"default": partition}, history={"default": history}, most_queues=queues))
    times = []
    for _ in range(5):
        began = time.perf_counter()
        text = scrape()[0]
        times.append(time.perf_counter() - began)
    began = time.perf_counter()
    partition.snapshot()
    copied = time.perf_counter() - began
    series = sum(not line.startswith(b"#") for line in text.splitlines())
    print(f"a scrape: {median(times):.2f} s, {series} series, {copied * 1000:.1f} ms for the copy")  # noqa: T201 - as above
    report("alone", decisions(partition))
    for pause in (15.0 - median(times), 0.0):
        ended = threading.Event()

        def work(ended: threading.Event = ended, pause: float = pause) -> None:
            while not ended.is_set():
                scrape()
                ended.wait(pause)

        thread = threading.Thread(target=work)
        thread.start()
        report(f"with a scrape every {pause + median(times):.1f} s", decisions(partition))
        ended.set()
        thread.join()


if __name__ == "__main__":
    main()
