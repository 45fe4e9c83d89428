"""The retry loops of the how-to pages have the result of retrying every request, with fewer denials."""

from __future__ import annotations

import asyncio
import re
from random import Random
from typing import Any

import pytest

from support.examples import seeds
from support.places import DOCS
from ugm import Manager, Partition, Resource, UserGroup, parse_config

HOWTOS = DOCS / "howto"


def blocks(page: str) -> dict[str, Any]:
    """Execute the definitions of a page and return them."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", (HOWTOS / page).read_text(encoding="utf-8"), re.DOTALL):
        if ">>>" not in block:
            exec(block, names)  # noqa: S102 - a page of our own
    return names


CONFIG = """
partitions:
- limits: [{groups: [red], maxresources: {gpu: 6}, maxapplications: 5}]
  queues:
  - name: a
    resources: {max: {vcore: 12}}
    limits: [{users: ["*"], maxresources: {vcore: 7}, maxapplications: 4}]
  - {name: b, maxapplications: 6, resources: {max: {vcore: 9, gpu: 9}}}
"""
USERS = (UserGroup("ana", ("red",)), UserGroup("ben", ("red",)), UserGroup("eve"))


def request(random: Random, number: int) -> tuple[str, str, UserGroup, Resource]:
    """Return a request of a new application."""
    usage = Resource(vcore=random.randint(0, 4) * 1000, gpu=random.randint(0, 3))
    return f"app-{number}", random.choice(["root.a", "root.b"]), random.choice(USERS), usage


@pytest.mark.parametrize("seed", seeds(4, 30))
def test_manager_grants_the_same(seed: int) -> None:
    """The loop for a manager grants the same requests in the same order as retrying every request."""
    random, page = Random(seed), blocks("embed-manager.md")
    manager = page["manager"] = Manager(parse_config(CONFIG).partition())
    naive, waiting = Manager(parse_config(CONFIG).partition()), dict[str, Any]()
    running = dict[str, Any]()

    def retry_all() -> None:
        for name, (queue, user, usage) in list(waiting.items()):
            decision = naive.increase(queue, name, usage, user)
            if decision or not decision.can_wait:
                del waiting[name]
            if decision:
                running[name] = queue, user, usage

    for number in range(80):
        name, *rest = request(random, number)
        waiting[name] = rest
        retry_all()
        page["start"](name, *rest)
        assert waiting.keys() == page["pending"].keys()
        if running and random.random() < 0.7:
            ended = random.choice(list(running))
            rest = running.pop(ended)
            queue, user, usage = rest
            naive.decrease_tracked_resource(queue, ended, usage, remove_app=True, user=user)
            retry_all()
            page["end"](ended, *rest)
        assert list(waiting) == list(page["pending"])
        assert naive.get_users_resources() == manager.get_users_resources()


class Counting(Partition):
    """A partition that counts its denials."""

    denials = 0

    def allocate(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - handed through
        """Allocate, and count a denial."""
        decision = super().allocate(*args, **options)
        self.denials += not decision
        return decision


@pytest.mark.parametrize("seed", seeds(4, 30))
def test_partition_grants_the_same(seed: int) -> None:
    """The loop for a partition grants the same requests in the same order as retrying every request."""
    asyncio.run(compare(Random(seed)))


async def compare(random: Random) -> None:
    """Compare the loop of the page with a loop that retries every request."""
    page, config = blocks("asyncio.md"), parse_config(CONFIG).partition()
    page["print"] = lambda *_: None
    scheduler, naive = page["Scheduler"](Partition(config)), Partition(config)
    waiting, tasks = dict[str, Resource](), list[asyncio.Task[None]]()
    for number in range(60):
        name, queue, user, usage = request(random, number)
        for partition in (scheduler.partition, naive):
            partition.submit(name, user, queue)
        waiting[name] = usage
        naive.request(name, name, usage)
        retry_all(naive, waiting)
        tasks.append(asyncio.create_task(scheduler._granted(name, name, usage)))
        await asyncio.sleep(0)
        held = [allocation.allocation_id for allocation in naive.allocations() if allocation.state != "pending"]
        if held and random.random() < 0.7:
            ended = random.choice(held)
            naive.release(ended)
            retry_all(naive, waiting)
            scheduler.release(ended)
        running = {allocation.allocation_id for allocation in naive.allocations() if allocation.state != "pending"}
        assert running == {
            allocation.allocation_id
            for allocation in scheduler.partition.allocations()
            if allocation.state != "pending"
        }
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def retry_all(partition: Partition, waiting: dict[str, Resource]) -> None:
    """Retry every request, the oldest first."""
    for name, usage in list(waiting.items()):
        decision = partition.allocate(name, name, usage)
        if decision or not decision.can_wait:
            del waiting[name]


def test_release_costs_one_denial() -> None:
    """With many requests under the same limit, a release causes one denial."""
    page = blocks("asyncio.md")
    config = parse_config("partitions: [{queues: [{name: a, resources: {max: {vcore: 8}}}]}]").partition()
    partition = Counting(config)
    scheduler, most = page["Scheduler"](partition), 300

    async def job(name: str) -> None:
        partition.submit(name, UserGroup("ana"), "root.a")
        async with scheduler.allocation(f"{name}.0", name, Resource(vcore=1000)):
            await asyncio.sleep(0)

    async def run() -> None:
        async with asyncio.TaskGroup() as jobs:
            for number in range(most):
                jobs.create_task(job(f"job-{number}"))

    asyncio.run(run())

    # Each is denied once when it comes, and each release causes one denial more.
    assert partition.denials <= 2 * most
    assert partition.allocations() == ()
