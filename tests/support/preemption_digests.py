"""Print a digest of the plans of random worlds, to compare processes with different hash seeds.

Usage: python -m support.preemption_digests WORLDS
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from support.preemption_scenes import MODEL_KINDS, drawn_scene, drawn_with_models
from support.reduction_scenes import drawn_reduction


def plans(worlds: int) -> Iterator[dict[str, Any]]:
    """Yield the data of plans for requests, without and with quota models, and of plans of reductions."""
    for seed in range(worlds):
        yield drawn_scene(seed, 12).plan().to_dict()
        yield drawn_scene(seed, 40).plan(steps=0).to_dict()
        yield drawn_reduction(seed, 1 + seed % 4).plan().to_dict()
        if seed % 10 == 0:
            partition, request = drawn_with_models(MODEL_KINDS[seed // 10 % len(MODEL_KINDS)], seed)
            yield partition.plan_preemption(request, since=0, now=60).to_dict()


def main() -> None:
    """Print the digest, and the number of plans with victims."""
    digest, found = sha256(), 0
    for plan in plans(int(sys.argv[1])):
        digest.update(json.dumps(plan).encode())
        found += bool(plan["victims"])
    print(digest.hexdigest(), found)  # noqa: T201 - the output


if __name__ == "__main__":
    main()
