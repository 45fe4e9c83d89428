"""Measure how long it takes to load and validate configurations; print one JSON object.

One file is as large as that of a busy cluster (200 queues, 1,000 limits, about 4,600 lines); the other has 25,000
limits. Run as ``python tests/benchmarks/load_config.py``.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Final

from ugm.config import parse_config

#: How often the first file is read; the best time counts, since everything else is the machine's other work.
REPEATS: Final = 10


def configuration(queues: int, limits: int) -> str:
    """Write a configuration with *limits* limits in each of *queues* queues, twenty of them below each parent."""
    lines = ["partitions:", "- name: default", "  queues:", "  - name: root", "    queues:"]
    for index in range(queues):
        if index % 20 == 0:
            lines += [f"    - name: division{index // 20}", "      parent: true", "      queues:"]
        lines += [
            f"      - name: team{index}",
            "        maxapplications: 100",
            "        resources:",
            "          max: {memory: 400Gi, vcore: 200}",
            "        limits:",
        ]
        lines += [line for limit in range(limits) for line in _limit(index, limit)]
    return "\n".join(lines) + "\n"


def _limit(queue: int, limit: int) -> list[str]:
    kind = "users" if limit % 2 else "groups"
    return [
        f"        - limit: number {limit}",
        f"          {kind}: [{kind[:-1]}-{queue}-{limit}]",
        f"          maxresources: {{memory: {limit % 9 + 1}Gi, vcore: {limit % 4 + 1}}}",
        f"          maxapplications: {limit % 9 + 1}",
    ]


def milliseconds(text: str, repeats: int) -> float:
    """Return the best of some readings."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        parse_config(text)
        best = min(best, time.perf_counter() - start)
    return round(best * 1000, 1)


def main() -> None:
    """Measure both files."""
    usual, large = configuration(queues=190, limits=5), configuration(queues=200, limits=125)
    report = {
        "lines": usual.count("\n"),
        "milliseconds": milliseconds(usual, REPEATS),
        "large_lines": large.count("\n"),
        "large_milliseconds": milliseconds(large, 1),
    }
    json.dump(report, sys.stdout)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
