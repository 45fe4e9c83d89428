"""The waiting list: how few requests are tested, declined requests, and waiting in threads and tasks."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from unittest.mock import Mock

import pytest

from support.partition_fixtures import BOB, SUE, Licences, config, memory
from support.reclaim_scenes import elastic_groups, quota_tree
from ugm import Partition, Resource, UserGroup, parse_config
from ugm.decision import Violation
from ugm.elastic.model import GROUP_TAG
from ugm.model import Claim, QuotaModel
from ugm.partition import AbstractPartition, WaitingList
from ugm.store import open_partition

EIGHT = config("{name: a, resources: {max: {memory: 8}}}")


def fill(partition: AbstractPartition, count: int, size: int = 1) -> None:
    """Submit applications with one pending request each."""
    for number in range(count):
        partition.submit(f"x{number}", SUE, "root.a")
        partition.request(f"x{number}.0", f"x{number}", memory(size))


def woken(waiting: WaitingList) -> list[str]:
    """Return the ids of the woken requests."""
    return [one.allocation_id for one in waiting.wake()]


def test_one_test_per_grant() -> None:
    """Of 2,000 requests that wait for one queue, a release tests only the one that it wakes."""
    partition = Partition(EIGHT)
    fill(partition, 500)
    waiting, running = partition.waiting_list(), list[str]()
    for _ in range(60):
        for one in partition.wake():
            assert partition.allocate(**one._asdict())
            running.append(one.application_id)
        partition.remove(running.pop(0))

    assert waiting.tests == 8 + 59
    partition.verify()


def test_declined_requests() -> None:
    """A request that was woken and not granted makes room for the next one, until something is released."""
    partition = Partition(EIGHT)
    fill(partition, 3, size=6)
    waiting = partition.waiting_list()

    assert [woken(waiting) for _ in range(4)] == [["x0.0"], ["x1.0"], ["x2.0"], []]
    partition.adopt("held", "x0", memory(1))
    assert woken(waiting) == []
    partition.release("held")
    assert woken(waiting) == ["x0.0"]


def test_one_unit_does_not_wake_all() -> None:
    """A request that needs more than what was released stays asleep."""
    partition = Partition(EIGHT)
    fill(partition, 3, size=2)
    waiting = partition.waiting_list()
    partition.adopt("one", "x0", memory(1))
    partition.adopt("rest", "x0", memory(7))

    assert woken(waiting) == []
    partition.release("one")
    assert woken(waiting) == []
    partition.resize("rest", memory(6))
    assert woken(waiting) == ["x0.0"]


def test_limits_of_users() -> None:
    """A user that is blocked by the own limit does not hold back others, and is tested when it releases something."""
    limits = "{limit: l, users: ['*'], maxresources: {memory: 1}}"
    partition = Partition(config("{name: a}", limits=limits))
    for name, user in (("x", SUE), ("y", BOB)):
        partition.submit(name, user, "root.a")
        partition.request(f"{name}.0", name, memory(1))
        partition.request(f"{name}.1", name, memory(1))
    waiting = partition.waiting_list()

    assert woken(waiting) == ["x.0", "y.0"]
    for name in "xy":
        assert partition.allocate(f"{name}.0", name, memory(1))
    assert woken(waiting) == []
    tests = waiting.tests
    partition.release("y.0")
    assert (woken(waiting), waiting.tests - tests) == (["y.1"], 1)


def test_room_of_a_model() -> None:
    """Requests that an elastic group denies are tested again only when the group has room for their size."""
    partition = Partition(config("{name: a}"), models=[elastic_groups({"red": 2, "blue": 2}, 4)])
    for number, group in enumerate(["red"] * 2 + ["blue"] * 20):
        partition.submit(f"x{number}", SUE, "root.a", tags={GROUP_TAG: group})
        partition.request(f"x{number}.1", f"x{number}", Resource(gpu=2 if number < 10 else 1))
    for number in range(4):
        partition.adopt(f"x{number}.0", f"x{number}", Resource(gpu=1))
    waiting = partition.waiting_list()
    assert (woken(waiting), waiting.tests) == ([], 22)

    # Both groups request more than they get.
    partition.release("x0.0")
    assert (woken(waiting), waiting.tests) == ([], 22)
    partition.release("x2.0")
    assert (woken(waiting), waiting.tests) == (["x10.1"], 23)


def test_maximum_number_of_applications() -> None:
    """Only the request that would start an application counts against the maximum number."""
    partition = Partition(config("{name: a, maxapplications: 1}"))
    for name in ("x", "y"):
        partition.submit(name, SUE, "root.a")
        for number in range(2):
            partition.request(f"{name}.{number}", name, memory(1))

    assert woken(partition.waiting_list()) == ["x.0", "x.1"]


def test_raised_limits_and_nodes() -> None:
    """A node or a configuration wakes what fits then."""
    partition = Partition(config("{name: a, resources: {max: {memory: 1}}}"), cluster=memory(1))
    fill(partition, 3)
    waiting = partition.waiting_list()
    partition.adopt("held", "x0", memory(1))

    assert woken(waiting) == []
    partition.add_node("n", memory(9))
    assert woken(waiting) == []
    partition.configure(config("{name: a, resources: {max: {memory: 3}}}"))
    assert woken(waiting) == ["x0.0", "x1.0"]


def test_nothing_is_recorded(tmp_path: Path) -> None:
    """A wake-up changes nothing: no event, no entry in the store, no group."""
    seen = list[object]()
    with open_partition(tmp_path / "store", EIGHT, subscribers=[lambda _, events: seen.extend(events)]) as partition:
        fill(partition, 2)
        number, events = partition.store.number, len(seen)

        assert woken(partition.waiting_list()) == ["x0.0", "x1.0"]
        assert (partition.store.number, len(seen)) == (number, events)
        assert partition.application("x0").group is None  # type: ignore[union-attr] # it exists


def test_model_that_raises() -> None:
    """An exception of a quota model reaches the caller, and the list works again when the model does."""

    class Fragile(Licences):
        """A model that fails on request."""

        fails = False

        def charge(self, claim: object) -> None:
            """Fail or count."""
            if self.fails:
                raise ValueError
            super().charge(claim)  # type: ignore[arg-type] # a claim

        def reset(self) -> None:
            """Forget everything."""
            self.used = 0

    model = Fragile(9)
    partition = Partition(EIGHT, models=[model])
    fill(partition, 2)
    waiting = partition.waiting_list()
    model.fails = True

    with pytest.raises(ValueError, match=r"^$"):
        waiting.wake()
    model.fails = False
    assert woken(waiting) == ["x0.0", "x1.0"]
    partition.verify()


def test_threads() -> None:
    """A thread waits until a release wakes a request."""
    partition = Partition(EIGHT)
    fill(partition, 1)
    partition.adopt("held", "x0", memory(8))
    waiting = partition.waiting_list()
    assert waiting.wake() == ()
    assert not waiting.event.is_set()
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(waiting.wait, 60)
        partition.release("held")

        assert [one.allocation_id for one in found.result(60)] == ["x0.0"]
    assert waiting.wait(0) == ()


def test_tasks() -> None:
    """A task waits until a release wakes a request, in this thread or another one."""
    partition = Partition(EIGHT)
    fill(partition, 1)
    partition.adopt("held", "x0", memory(8))

    async def main() -> list[str]:
        task = asyncio.create_task(partition.waiting_list().woken())
        await asyncio.sleep(0)
        await asyncio.to_thread(partition.release, "held")
        return [one.allocation_id for one in await asyncio.wait_for(task, 60)]

    assert asyncio.run(main()) == ["x0.0"]


def test_new_requests() -> None:
    """A new request that fits is woken, and sets the event."""
    partition = Partition(EIGHT)
    waiting = partition.waiting_list()
    assert waiting.wake() == ()
    fill(partition, 1)

    assert waiting.event.is_set()
    assert woken(waiting) == ["x0.0"]


def test_unoffered_resource() -> None:
    """A request for a resource that no node has sleeps until a node has it."""
    partition = Partition(config("{name: a}"), cluster=memory(5))
    partition.submit("x", SUE, "root.a")
    partition.request("x.0", "x", Resource(gpu=1))
    waiting = partition.waiting_list()

    assert woken(waiting) == []
    partition.add_node("n", Resource(gpu=2))
    assert woken(waiting) == ["x.0"]


def test_a_closed_loop_does_not_stop_a_change() -> None:
    """A change succeeds if the loop of a task that waited has been closed; another error of the loop is raised."""
    partition = Partition(config("{name: a, resources: {max: {memory: 1}}}"))
    fill(partition, 1)
    waiting, loop = partition.waiting_list(), asyncio.new_event_loop()
    waiting._loops[loop.create_future()] = loop
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "call_soon_threadsafe", Mock(side_effect=RecursionError))
        with pytest.raises(RecursionError):
            partition.add_node("one", memory(1))
    loop.close()
    partition.add_node("two", memory(1))

    assert list(partition.nodes()) == ["two"]
    partition.verify()


def test_users_exempt_from_the_limits_of_their_group() -> None:
    """A full group blocks the requests of its members, but not of one whose own limit replaces that of the group."""
    limits = "[{users: [bob], maxresources: {memory: 9}}, {groups: [lab], maxresources: {memory: 2}}]"
    chosen = parse_config(f"partitions: [{{queues: [{{name: a, limits: {limits}}}]}}]").partition()
    partition = Partition(chosen, group_limits="unless-user-limited")
    for name in ("sue", "bob"):
        partition.submit(name, UserGroup(name, ("lab",)), "root.a")
        assert partition.allocate(f"{name}-1", name, memory(1))
        partition.request(f"{name}-2", name, memory(1))

    assert [one.allocation_id for one in partition.wake()] == ["bob-2"]
    assert partition.allocate("bob-2", "bob", memory(1))
    partition.request("bob-3", "bob", memory(1))
    assert [one.allocation_id for one in partition.wake()] == ["bob-3"]


@pytest.mark.parametrize("end", ["fail", "remove"])
@pytest.mark.parametrize("policy", ["fifo", "fair", "share"])
def test_an_application_that_ends_with_several_requests(policy: str, end: str) -> None:
    """The others are woken, however the queue orders its applications."""
    queue = f"{{name: a, resources: {{max: {{memory: 1}}}}, properties: {{application.sort.policy: {policy}}}}}"
    shares = "ugm: {fairshare: {defaultshares: 1, halflife: 100}}"
    partition = Partition(parse_config(f"partitions: [{{queues: [{queue}], {shares}}}]").partition(), clock=lambda: 0)
    for name, user in (("ends", SUE), ("stays", BOB)):
        partition.submit(name, user, "root.a")
    assert partition.allocate("held", "stays", memory(1))
    for number, size in enumerate((1, 1, 0)):
        partition.request(f"ends-{number}", "ends", memory(size))
    partition.request("waits", "stays", memory(1))
    assert [one.allocation_id for one in partition.wake()] == ["ends-2"]
    getattr(partition, end)("ends")
    partition.release("held")

    assert [one.allocation_id for one in partition.wake()] == ["waits"]
    assert [head.request.allocation_id for head in partition.scheduling_pass()] == ["waits"]


def test_an_application_under_the_id_of_one_that_ended() -> None:
    """Its queue and its place in the order are its own, also if both changes come between two searches."""
    partition = Partition(config("{name: a, resources: {max: {memory: 1}}}, {name: b}"))
    for name in ("first", "again"):
        partition.submit(name, SUE, "root.a")
    partition.submit("other", BOB, "root.a")
    assert partition.allocate("held", "first", memory(1))
    for name in ("again", "other"):
        partition.request(f"{name}-1", name, memory(1))
    waiting = partition.waiting_list()
    assert woken(waiting) == []
    partition.remove("again")
    partition.submit("again", BOB, "root.b")
    partition.request("again-1", "again", memory(1))
    assert woken(waiting) == ["again-1"]
    partition.remove("again")
    partition.submit("again", BOB, "root.a")
    partition.request("again-1", "again", memory(1))
    partition.release("held")

    assert woken(waiting) == ["other-1"]


def test_a_request_that_is_made_again() -> None:
    """A request that was withdrawn and made again comes after the others, and is woken again."""
    partition = Partition(config("{name: a, resources: {max: {memory: 1}}}"))
    partition.submit("app", SUE, "root.a")
    for name in ("one", "two"):
        partition.request(name, "app", memory(1))
    waiting = partition.waiting_list()
    assert woken(waiting) == ["one"]
    partition.release("one")
    partition.request("three", "app", memory(1))
    partition.request("one", "app", memory(1))

    assert woken(waiting) == ["two"]
    assert [head.request.allocation_id for head in partition.scheduling_pass()] == ["two", "three", "one"]
    for name in ("two", "three"):
        partition.release(name)
    assert woken(waiting) == ["one"]


def lending_partition(seed: int, *models: QuotaModel) -> Partition:
    """Return a partition with a quota tree in which one group borrows, and other models."""
    tree = quota_tree({"red": 100, "blue": 100}, 400)
    # An iterator, which can be read once.
    partition = Partition(config("{name: a}"), models=iter([tree, *models]))
    for group in ("red", "blue"):
        partition.submit(group, SUE, "root.a", tags={GROUP_TAG: group})
    draw = Random(seed)
    for number in range(150):
        assert partition.allocate(f"red-{number}", "red", Resource(gpu=1), priority=draw.randrange(3))
    return partition


def test_a_search_that_fails_leaves_a_quota_tree_as_it_was() -> None:
    """All charges of a search are undone exactly, however many there were, and later ones are bounded again."""

    class Fragile(Licences):
        """A model that fails at a check."""

        left = 1000

        def check(self, claim: Claim) -> list[Violation]:
            """Fail at one check."""
            self.left -= 1
            if self.left == 0:
                raise ValueError
            return super().check(claim)

    fragile = Fragile(9)
    partition = lending_partition(2, fragile)
    before = partition.model_reports()
    for number in range(150):
        partition.request(f"asks-{number}", "red", Resource(gpu=1), priority=3 + number % 2)
    fragile.left = 140

    with pytest.raises(ValueError, match=r"^$"):
        partition.wake()
    assert partition.model_reports() == before
    assert len(partition.wake()) == 150
    assert partition.model_reports() == before
