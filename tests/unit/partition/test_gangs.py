"""Several allocations together, a real one in the place of a placeholder, and another size: all or nothing."""

from __future__ import annotations

import pytest

from support.partition_fixtures import BOB, SUE, changing_nothing, memory, partition_of, refused, started
from ugm import AllocationRequest, Partition, Resource

QUEUES = (
    "{name: p, resources: {max: {memory: 10}}, queues: [{name: a, maxapplications: 2}, {name: b, resources: {max:"
    " {memory: 6}}}]}"
)
A, B = "root.p.a", "root.p.b"


@pytest.fixture(name="partition")
def _partition() -> Partition:
    partition = partition_of(QUEUES, limits="{users: ['*'], maxresources: {memory: 9}}")
    for name, queue, user in [("one", A, SUE), ("two", A, SUE), ("three", A, SUE), ("other", B, BOB)]:
        assert partition.submit(name, user, queue)
    return partition


def requests(application_id: str, *amounts: int) -> list[AllocationRequest]:
    """Return asks of an application, numbered from 0."""
    return [
        AllocationRequest(f"{application_id}-{number}", application_id, memory(amount))
        for number, amount in enumerate(amounts)
    ]


def test_gang_granted(partition: Partition) -> None:
    """A gang of several applications is granted as its allocations one by one."""
    assert partition.allocate_all([*requests("one", 1, 2), *requests("other", 3)])
    apart = partition_of(QUEUES, limits="{users: ['*'], maxresources: {memory: 9}}")
    for request in [*requests("one", 1, 2), *requests("other", 3)]:
        apart.submit(
            request.application_id,
            SUE if request.application_id == "one" else BOB,
            B if request.usage["memory"] > 2 else A,
        )
        assert apart.allocate(*request[:3])
    assert (apart.users(), apart.allocations()) == (partition.users(), partition.allocations())
    partition.verify()


def test_gang_denied(partition: Partition) -> None:
    """A gang that does not fit as a whole is denied as a whole, with what all of it asks of every limit in the way."""
    with changing_nothing(partition):
        decision = partition.allocate_all([*requests("one", 5, 5), *requests("other", 4, 3)])

    assert str(decision) == (
        "denied, waiting cannot help:\n"
        "  user 'sue' in root: 10 memory requested, never more than 9 allowed (limit for '*')\n"
        "  queue root.p.b: 7 memory requested, never more than 6 allowed\n"
        "  queue root.p: 17 memory requested, never more than 10 allowed"
    )


def test_gang_denied_by_one(partition: Partition) -> None:
    """The last of a gang may be what does not fit: those before it are not granted either."""
    partition.allocate("big", "other", memory(6))
    with changing_nothing(partition):
        decision = partition.allocate_all(requests("one", 1, 1, 1, 2))
    assert str(decision) == "denied, waiting can help:\n  queue root.p: 5 memory requested, 6 of 10 used, 1 too much"


def test_gang_of_too_many_applications(partition: Partition) -> None:
    """The applications that a gang starts are counted together."""
    with changing_nothing(partition):
        decision = partition.allocate_all([*requests("one", 1), *requests("two", 1), *requests("three", 1)])
    assert str(decision) == (
        "denied, waiting cannot help:\n  queue root.p.a: 0 of 2 applications running, 3 more requested"
    )
    assert partition.allocate_all([*requests("one", 1, 1), *requests("two", 1)])


def test_gang_repeated(partition: Partition) -> None:
    """A gang that is repeated, or partly held already, is charged once for each of its allocations."""
    assert partition.allocate("one-1", "one", memory(2))
    for _ in range(2):
        assert partition.allocate_all(requests("one", 3, 2))
    (users,) = partition.users()
    assert users.queues.usage == memory(5)
    partition.verify()


def test_gang_with_an_ask_twice(partition: Partition) -> None:
    """The same ask twice is one allocation; an id for two different ones is refused."""
    assert partition.allocate_all(requests("one", 3) * 2)
    assert len(partition.allocations()) == 1
    with refused(partition, "allocation_id 'two-0': the id is in use with another "):
        partition.allocate_all([*requests("two", 1), *requests("two", 2)])


def test_gang_of_pending_asks(partition: Partition) -> None:
    """What was asked for is granted together, or stays pending together."""
    for request in requests("one", 4, 5):
        partition.request(*request[:3])
    partition.allocate("big", "other", memory(6))
    with changing_nothing(partition):
        assert not partition.allocate_all(requests("one", 4, 5))
    partition.release("big")
    assert partition.allocate_all(requests("one", 4, 5))
    assert {allocation.state.value for allocation in partition.allocations()} == {"held"}


def test_gang_of_tuples(partition: Partition) -> None:
    """Asks may be plain tuples, from any iterable, with all traits of an allocation."""
    assert partition.allocate_all(iter([("one-0", "one", memory(1), True, 5, False)]))  # type: ignore[arg-type]  # as documented
    allocation = partition.allocation("one-0")
    assert allocation is not None
    assert allocation[3:7] == ("held", True, 5, False)


def test_gang_of_nobody(partition: Partition) -> None:
    """A gang of nothing is granted."""
    with changing_nothing(partition):
        assert partition.allocate_all([])


def test_gang_with_a_failing_application(partition: Partition) -> None:
    """One failing application keeps the whole gang out."""
    partition.allocate("1", "two", memory(1))
    partition.fail("two")
    with refused(partition, "application_id 'two': the application is failing"):
        partition.allocate_all([*requests("one", 1), *requests("two", 1)])


# Placeholders


def placeholder(partition: Partition, amount: int) -> None:
    """Let application one hold a placeholder."""
    assert partition.allocate("p", "one", memory(amount), placeholder=True, priority=3, preemptible=False)


def test_replace_by_the_same(partition: Partition) -> None:
    """A real allocation of the same size takes the place, priority and all, even in a queue that is full."""
    placeholder(partition, 9)
    usage = partition.users()
    assert partition.replace("p", "r", memory(9))
    assert partition.users() == usage
    assert [tuple(allocation)[:7] for allocation in partition.allocations()] == [
        ("r", "one", memory(9), "held", False, 3, False)
    ]


def test_replace_by_less(partition: Partition) -> None:
    """A smaller allocation is always granted, even above a limit, and the rest is given back."""
    placeholder(partition, 9)
    partition.adopt("ghost", "one", memory(9))
    assert partition.replace("p", "r", memory(8))
    assert [user.queues.usage for user in partition.users()] == [memory(17)]
    partition.verify()


def test_replace_by_more(partition: Partition) -> None:
    """Only what grows is checked; the denial asks the whole and counts the placeholder as gone."""
    placeholder(partition, 5)
    partition.allocate("other", "other", memory(4))

    with changing_nothing(partition):
        decision = partition.replace("p", "r", memory(7))
    assert str(decision) == "denied, waiting can help:\n  queue root.p: 7 memory requested, 4 of 10 used, 1 too much"
    assert partition.replace("p", "r", memory(6))


def test_replace_by_something_else(partition: Partition) -> None:
    """What shrinks makes no room for what grows in another resource."""
    partition.configure(None)
    partition.add_node("n", Resource(memory=9, gpu=1))
    placeholder(partition, 9)
    assert not partition.replace("p", "r", Resource(gpu=2))
    assert partition.replace("p", "r", Resource(gpu=1))
    assert partition.headroom("one") == Resource(memory=9, gpu=0)
    partition.verify()


def test_replace_repeated(partition: Partition) -> None:
    """The same replacement once more is answered as before; one of another size is refused."""
    placeholder(partition, 5)
    assert partition.replace("p", "r", memory(4))
    with changing_nothing(partition):
        assert partition.replace("p", "r", memory(4))
    with refused(partition, "allocation_id 'r': the id is in use with another "):
        partition.replace("p", "r", memory(5))


def test_replace_by_what_is_pending(partition: Partition) -> None:
    """What was asked for takes the place with its own priority, and is no longer pending."""
    placeholder(partition, 5)
    partition.request("r", "one", memory(4), priority=7)
    assert partition.replace("p", "r", memory(4))

    allocation = partition.allocation("r")
    assert allocation is not None
    assert (allocation.state.value, allocation.priority, allocation.preemptible) == ("held", 7, True)
    assert partition.applications(A)[0].pending == 0


def test_replace_what_is_no_placeholder(partition: Partition) -> None:
    """Only placeholders that are held can be replaced, by what is not held yet."""
    started(partition, "two", 1, A)
    placeholder(partition, 1)
    partition.request("q", "one", memory(1), placeholder=True)
    partition.allocate("r", "one", memory(1), priority=3, preemptible=False)

    for name, new, text in [
        ("two", "new", "placeholder_id 'two': the allocation is not a placeholder"),
        ("no", "new", "placeholder_id 'no': there is no such allocation"),
        ("q", "new", "placeholder_id 'q': there is no such allocation"),
        ("p", "two", "allocation_id 'two': the id is in use with another "),
        ("p", "r", "allocation_id 'r': an allocation with this id already exists"),
        ("p", "p", "allocation_id 'p': the id is in use with another "),
    ]:
        with refused(partition, text):
            partition.replace(name, new, memory(1))


def test_replace_for_a_failing_application(partition: Partition) -> None:
    """A failing application gets nothing in the place of its placeholders."""
    placeholder(partition, 1)
    partition.fail("one")
    with refused(partition, "application_id 'one': the application is failing"):
        partition.replace("p", "r", memory(1))


# Other sizes


def test_resize(partition: Partition) -> None:
    """An allocation takes something else from then on; only what grows is checked."""
    partition.allocate("1", "one", memory(5), priority=2)
    with changing_nothing(partition):
        assert str(partition.resize("1", memory(10))) == (
            "denied, waiting cannot help:\n"
            "  user 'sue' in root: 10 memory requested, never more than 9 allowed (limit for '*')"
        )
    assert partition.resize("1", memory(9))
    assert partition.resize("1", memory(9)), "it may be repeated"
    assert [tuple(allocation)[:7] for allocation in partition.allocations()] == [
        ("1", "one", memory(9), "held", False, 2, True)
    ]
    partition.verify()


def test_resize_down_above_a_limit(partition: Partition) -> None:
    """An allocation may always take less, even if the rest is still above a limit."""
    partition.allocate("1", "one", memory(9))
    partition.adopt("2", "one", memory(9))
    assert partition.resize("1", memory(3))
    assert len(partition.exceeded_limits()) == 2


def test_resize_to_nothing(partition: Partition) -> None:
    """An allocation of nothing keeps its application running."""
    partition.allocate("1", "one", memory(9))
    assert partition.resize("1", Resource())
    (users,) = partition.users()
    assert (users.queues.usage, users.queues.running_applications) == (Resource(), ("one",))
    partition.verify()


def test_resize_what_is_going(partition: Partition) -> None:
    """An allocation that is going may change in size, and is still going."""
    partition.allocate("1", "one", memory(5))
    partition.preempt("1")
    assert partition.resize("1", memory(4))
    allocation = partition.allocation("1")
    assert allocation is not None
    assert allocation.state.value == "terminating"


def test_resize_what_is_not_held(partition: Partition) -> None:
    """What is pending, or unknown, has no size to change."""
    partition.request("1", "one", memory(5))
    for name in "12":
        with refused(partition, f"allocation_id '{name}': there is no such allocation"):
            partition.resize(name, memory(4))


def test_resize_for_a_failing_application(partition: Partition) -> None:
    """A failing application may give back, and not grow."""
    partition.allocate("1", "one", memory(5))
    partition.fail("one")
    assert partition.resize("1", memory(4))
    with refused(partition, "application_id 'one': the application is failing"):
        partition.resize("1", memory(5))
