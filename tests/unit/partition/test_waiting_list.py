"""The waiting list: how few requests are tested, declined requests, and waiting in threads and tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Thread

import pytest

from support.partition_fixtures import BOB, SUE, Licences, config, memory
from ugm import Partition, Resource, UserGroup, Violation, parse_config
from ugm.model import Claim, ReportingModel
from ugm.partition import AbstractPartition, WaitingList
from ugm.partition.ordering.waiting_list import WakeEvent
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


class Rooms(Licences, ReportingModel):
    """Licences, of which the model knows how many are free."""

    def room(self, kind: str, name: str, resource: str) -> int:
        """Return the free licences."""
        return self.limit - self.used if (kind, name, resource) == ("licence", "solver", "licence") else 0


def test_no_test_without_room_in_a_model() -> None:
    """A request that a quota model has denied is tested again when the model, or the next one, has room for it."""
    model = Rooms(1)
    partition = Partition(EIGHT, models=[model])
    partition.submit("app", SUE, "root.a")
    assert partition.allocate("held", "app", Resource(licence=1))
    partition.request("waits", "app", Resource(licence=2))
    waiting = partition.waiting_list()
    assert (woken(waiting), waiting.tests) == ([], 1)
    partition.release("held")
    assert (woken(waiting), waiting.tests, waiting.event.is_set()) == ([], 1, False)
    partition.replace_model(model, Rooms(2))

    assert waiting.event.is_set()
    assert (woken(waiting), waiting.tests) == (["waits"], 2)
    partition.verify()


def test_nothing_is_recorded(tmp_path: Path) -> None:
    """A wake-up changes nothing: no event, no entry in the store, no group."""
    seen = list[object]()
    with open_partition(tmp_path / "store", EIGHT, subscribers=[lambda _, events: seen.extend(events)]) as partition:
        fill(partition, 2)
        number, events = partition.store.number, len(seen)

        assert woken(partition.waiting_list()) == ["x0.0", "x1.0"]
        assert (partition.store.number, len(seen)) == (number, events)
        assert partition.application("x0").group is None  # type: ignore[union-attr] # it exists


def test_applications_of_one_user_in_different_groups() -> None:
    """A request is woken although older ones of its user wait for the limit of another group."""
    limits = (
        "{limit: dev, groups: [dev], maxresources: {memory: 1}}, {limit: qa, groups: [qa], maxresources: {memory: 1}}"
    )
    partition = Partition(config("{name: a, resources: {max: {memory: 2}}}", limits=limits))
    for name, group in (("first", "dev"), ("second", "qa"), ("dev", "dev"), ("qa", "qa")):
        partition.submit(name, UserGroup("sue", (group,)), "root.a")
    for name in ("first", "second"):
        assert partition.allocate(name, name, memory(1))
    for name in ("dev", "qa"):
        assert partition.request(name, name, memory(1))
    assert woken(partition.waiting_list()) == []
    partition.release("second")

    assert woken(partition.waiting_list()) == ["qa"]


def test_second_request_of_an_application_that_starts() -> None:
    """After the first request of an application, only others are denied by the number of running applications."""
    limits = "{users: ['*'], maxapplications: 1}"
    partition = Partition(config("{name: x}, {name: y}", limits=limits), cluster=memory(9))
    for name, queue in (("held", "x"), ("two", "x"), ("other", "y")):
        partition.submit(name, SUE, f"root.{queue}")
    assert partition.allocate("held", "held", memory(1))
    for name, owner in (("first", "two"), ("second", "two"), ("third", "other")):
        partition.request(name, owner, memory(1))
    assert woken(partition.waiting_list()) == []
    partition.release("held")

    assert woken(partition.waiting_list()) == ["first", "second"]


def test_zero_of_an_exceeded_resource() -> None:
    """A request with 0 of a resource that its user has too much of waits only for the other resources."""
    both = "{users: ['*'], maxresources: {memory: 3, vcore: 3m}}"
    partition = Partition(config("{name: a}", limits=both))
    partition.submit("app", SUE, "root.a")
    for name, usage in (("large", Resource(memory=3, vcore=2)), ("small", Resource(vcore=1))):
        assert partition.allocate(name, "app", usage)
    partition.configure(config("{name: a}", limits=both.replace("3,", "1,")))
    partition.request("waits", "app", Resource(memory=0, vcore=1))
    assert woken(partition.waiting_list()) == []
    partition.release("small")

    assert woken(partition.waiting_list()) == ["waits"]


class Doorman(Licences):
    """Denies claims for a reason that it does not explain."""

    allows: Callable[[Claim], bool] = staticmethod(lambda claim: claim.allocation_id == "held")

    def check(self, claim: Claim) -> list[Violation]:
        """Deny the claims that a test does not allow."""
        return [] if self.allows(claim) else [Violation("door", "", "", "", None, 0, 0, 1)]


@pytest.mark.parametrize(
    "allows",
    [lambda claim: claim.user == BOB, lambda claim: not claim.preemptible, lambda claim: claim.node == "n4"],
    ids=["user", "preemptible", "node"],
)
def test_requests_of_one_size_that_a_model_tells_apart(allows: Callable[[Claim], bool]) -> None:
    """A request is woken although a quota model still denies an older one of its size."""
    model = Doorman(0)
    partition = Partition(EIGHT, models=[model])
    requests = (("first", SUE, True, None), ("second", BOB, True, None), ("third", SUE, False, None))
    for name, user, preemptible, node in (*requests, ("fourth", SUE, True, "n4")):
        partition.submit(user.name, user, "root.a")
        assert partition.request(name, user.name, memory(1), preemptible=preemptible, node=node)
    assert partition.allocate("held", BOB.name, memory(1))
    assert woken(partition.waiting_list()) == []
    model.allows = allows
    partition.release("held")

    assert len(woken(partition.waiting_list())) == 1


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


def test_no_wake_up_is_lost() -> None:
    """A thread that begins to wait while another one sets the event is woken."""
    for _ in range(300):
        event, barrier = WakeEvent(), Barrier(2)

        def begin(event: WakeEvent = event, barrier: Barrier = barrier) -> None:
            barrier.wait()
            event.set()

        thread = Thread(target=begin)
        thread.start()
        barrier.wait()
        assert event.wait(20)
        thread.join()
