"""A scheduling loop on random nodes: a guaranteed request starts after the evictions of one plan.

Batch jobs of random sizes fill two to eight nodes. Then jobs of a guaranteed queue arrive. If one fits on no
node, a plan of preemption chooses the node whose victims cost least. The victims stop, wait again at once, and run on
other nodes or later.

The loop keeps the room of a node for the request that a plan has placed there. Without this, a victim might take its
own room again.
Run it from a clone with: python examples/node_loop.py 12
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from random import Random

from ugm import AllocationRequest, Partition, Resource, UserGroup, parse_config

CONFIG = """
partitions:
- queues:
  - {name: prod, resources: {guaranteed: {vcore: 256, gpu: 64}}, properties: {preemption.delay: 2s}}
  - {name: batch}
"""


#: The seconds after which the loop gives up.
PATIENCE = 60


class Loop:
    """A partition with nodes, and a loop that takes one step a second."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.second = 0
        self.partition = Partition(parse_config(CONFIG).partition(), clock=lambda: self.second)
        self.waiting = self.partition.waiting_list()
        for queue in ("prod", "batch"):
            self.partition.submit(queue, UserGroup("ana"), f"root.{queue}")
        #: The size and the free resources of each node.
        self.sizes = {f"n{number}": self.amounts(16, 4) for number in range(self.random.randint(2, 8))}
        self.free = dict(self.sizes)
        for node, size in self.sizes.items():
            self.partition.add_node(node, size)
        #: The requests of the guaranteed queue that wait, with the second since which they do.
        self.requests: dict[str, tuple[AllocationRequest, int]] = {}
        #: The jobs that run, with their nodes.
        self.running: dict[str, AllocationRequest] = {}
        #: The jobs that stop, with the second at which they have stopped.
        self.stopping: dict[str, int] = {}
        self.evictions: dict[str, int] = {}

    def amounts(self, cores: int, gpus: int) -> Resource:
        """Return a random amount, at most *cores* and *gpus*."""
        return Resource(vcore=1000 * self.random.randint(1, cores), gpu=self.random.randint(0, gpus))

    def fill(self) -> None:
        """Run batch jobs on all nodes, until the next one does not fit."""
        for node in self.sizes:
            number = 0
            while fits(usage := self.amounts(4, 1), self.free[node]):
                name = f"batch-{node}-{number}"
                self.partition.request(name, "batch", usage)
                self.start(AllocationRequest(name, "batch", usage), node)
                number += 1

    def submit(self) -> None:
        """Request the same amount one to three times; as many nodes are large enough for it."""
        nodes = self.random.sample(list(self.sizes.values()), self.random.randint(1, min(3, len(self.sizes))))
        usage = Resource({name: min(size[name] for size in nodes) for name in ("vcore", "gpu")})
        for number in range(len(nodes)):
            request = AllocationRequest(f"prod-{number}", "prod", usage)
            self.requests[request.allocation_id] = request, self.second
            self.partition.request(*request[:3])

    def step(self) -> Iterator[str]:
        """Take one step, and yield what happens."""
        self.second += 1
        for name in [name for name, end in self.stopping.items() if end <= self.second]:
            del self.stopping[name]
            self.stopped(name)
        while woken := self.waiting.wait(timeout=0):
            for request in woken:
                node = self.find(request)
                if node is not None and self.start(request, node):
                    yield f"{request.allocation_id} starts on {node}"
        yield from self.preempt()

    def find(self, request: AllocationRequest) -> str | None:
        """Return the node of a plan, or the first other node with room beyond that of placed requests."""
        kept: dict[str | None, Resource] = {}
        for one in self.partition.preemption_status().placed:
            if one.allocation.allocation_id != request.allocation_id:
                kept[one.allocation.node] = kept.get(one.allocation.node, Resource()) + one.allocation.usage
        fitting = [name for name, free in self.free.items() if fits(request.usage, free - kept.get(name, Resource()))]
        return request.node if request.node in fitting else next(iter(fitting), None)

    def start(self, request: AllocationRequest, node: str) -> bool:
        """Start a request on a node if the limits allow it."""
        request = request._replace(node=node)
        if not self.partition.allocate(request):
            return False
        self.free[node] -= request.usage
        self.running[request.allocation_id] = request
        self.requests.pop(request.allocation_id, None)
        return True

    def preempt(self) -> Iterator[str]:
        """Make room for requests that have waited long enough, on one node each."""
        for name, (request, since) in self.requests.items():
            plan = self.partition.plan_preemption(request, since=since, nodes=self.free)
            for victim in self.partition.carry_out(plan) if plan else ():
                self.stopping[victim] = self.second + self.random.randint(1, 3)
                self.evictions[name] = self.evictions.get(name, 0) + 1
                yield f"{victim} has to stop on {plan.node} for {name}"

    def stopped(self, name: str) -> None:
        """Release a victim that has stopped, and let it wait again."""
        job = self.running.pop(name)
        self.free[job.node or ""] += job.usage
        self.partition.release(name)
        self.partition.request(*job[:3])


def fits(usage: Resource, free: Resource) -> bool:
    """Return whether a node with free resources has room."""
    return all(free.get(name, 0) >= amount for name, amount in usage.items())


def run(seed: int) -> tuple[Loop, list[str]]:
    """Run the loop until the guaranteed jobs have started, and return it with what has happened."""
    loop = Loop(seed)
    loop.fill()
    loop.submit()
    lines: list[str] = []
    while loop.requests and loop.second < PATIENCE:
        lines += (f"second {loop.second}: {line}" for line in loop.step())
    return loop, lines


def main(seed: int) -> None:
    """Run the loop once, and print what happens."""
    loop, lines = run(seed)
    print(*lines, sep="\n")
    loop.partition.verify()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
