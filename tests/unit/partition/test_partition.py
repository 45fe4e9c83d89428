"""Granting, giving back and asking: the ledger of a partition, and every answer that it gives."""

from __future__ import annotations

import pytest

from support.partition_fixtures import BOB, SUE, changing_nothing, memory, partition_of, refused, shown, started
from ugm import Decision, Partition, Resource, UserGroup, Violation
from ugm.counters import UNLIMITED

#: A queue below another, with a limit of every kind on every level.
EVERYTHING = (
    "{name: a, resources: {max: {memory: 8}}, limits: [{users: [sue], maxresources: {memory: 6}},"
    " {groups: [dev], maxresources: {memory: 7}}], queues: [{name: b, resources: {max: {memory: 7}}}]}"
)
AT_THE_ROOT = "{users: ['*'], maxresources: {memory: 9}}"
IN_B = "root.a.b"


@pytest.fixture(name="partition")
def _partition() -> Partition:
    partition = partition_of(EVERYTHING, limits=AT_THE_ROOT, cluster=memory(10))
    started(partition, "app", 5, IN_B)
    return partition


def test_counted_everywhere(partition: Partition) -> None:
    """What is granted is counted for the user, the group, and every queue from the leaf to the root."""
    root = partition.queue()

    assert root is not None
    assert {queue.queue_path: queue.usage for queue in root.walk()} == dict.fromkeys(
        ["root", "root.a", IN_B], memory(5)
    )
    assert [user.queues.usage for user in partition.users()] == [memory(5)]
    assert [group.queues.usage for group in partition.groups()] == [memory(5)]
    assert [user.user_name for user in partition.users()] == ["sue"]
    assert [group.group_name for group in partition.groups()] == ["dev"]
    partition.verify()


def test_denial_names_every_limit(partition: Partition) -> None:
    """A denial names the limits of the user, of the group and of the queues, each leaf to root."""
    with changing_nothing(partition):
        decision = partition.allocate("more", "app", memory(6))

    assert str(decision) == (
        "denied, waiting can help:\n"
        "  user 'sue' in root.a: 6 memory requested, 5 of 6 used, 5 too much (limit for 'sue')\n"
        "  user 'sue' in root: 6 memory requested, 5 of 9 used, 2 too much (limit for '*')\n"
        "  group 'dev' in root.a: 6 memory requested, 5 of 7 used, 4 too much (limit for 'dev')\n"
        "  queue root.a.b: 6 memory requested, 5 of 7 used, 4 too much\n"
        "  queue root.a: 6 memory requested, 5 of 8 used, 3 too much\n"
        "  queue root: 6 memory requested, 5 of 10 used, 1 too much"
    )


def test_exact_fit(partition: Partition) -> None:
    """The last unit can be had, and not one more."""
    assert partition.allocate("last", "app", memory(1))
    assert not partition.allocate("more", "app", memory(1))


def test_waiting_can_never_help(partition: Partition) -> None:
    """A request above a limit itself is told so."""
    decision = partition.allocate("more", "app", memory(7))

    assert not decision.can_wait
    assert str(decision.violations[0]) == (
        "user 'sue' in root.a: 7 memory requested, never more than 6 allowed (limit for 'sue')"
    )


def test_retry_is_counted_once(partition: Partition) -> None:
    """The same allocation once more is answered as before, even where it would not fit twice."""
    with changing_nothing(partition):
        assert partition.allocate("app", "app", memory(5)) == Decision()


def test_retry_after_a_denial(partition: Partition) -> None:
    """A denied id stands for nothing: it may come back with other content, and is granted when there is room."""
    assert not partition.allocate("more", "app", memory(2))
    assert partition.allocation("more") is None
    assert partition.allocate("more", "app", memory(1))


@pytest.mark.parametrize(
    "other",
    [
        {"usage": memory(4)},
        {"usage": Resource(memory=5, vcore=0)},
        {"application_id": "other"},
        {"priority": 1},
        {"placeholder": True},
        {"preemptible": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("call", ["allocate", "request", "adopt"])
def test_retry_with_other_content(partition: Partition, call: str, other: dict[str, object]) -> None:
    """An id that stands for an allocation is refused for anything else."""
    partition.submit("other", SUE, IN_B)
    requested = {"application_id": "app", "usage": memory(5), **other}

    with refused(partition, "allocation_id 'app': the id is in use with another "):
        getattr(partition, call)("app", **requested)


def test_id_can_be_used_again(partition: Partition) -> None:
    """A released id stands for nothing any more."""
    assert partition.release("app")
    assert partition.allocate("app", "app", memory(6), priority=3)


def test_equal_ids_of_both_kinds() -> None:
    """Allocations and applications have ids of their own; any text will do."""
    partition = partition_of()
    for name in ["?", "root", " ", "\N{SNOWMAN}\n"]:
        started(partition, name, 1)

    assert [allocation.allocation_id for allocation in partition.allocations()] == sorted(
        ["?", "root", " ", "\N{SNOWMAN}\n"]
    )
    partition.verify()


def test_resource_not_asked_for() -> None:
    """A resource that a request does not ask for never denies it, not even when it is over its limit."""
    partition = partition_of("{name: a, resources: {max: {memory: 5, gpu: 1}}}")
    started(partition, "app", 1)
    partition.adopt("gpus", "app", Resource(gpu=3))

    assert partition.allocate("more", "app", memory(1))
    assert not partition.allocate("gpu", "app", Resource(gpu=1))


def test_unlimited_beyond_the_number_for_it() -> None:
    """Where nothing is limited, no amount is too large, and sums stay exact."""
    partition = partition_of()
    started(partition, "app", UNLIMITED)
    assert partition.allocate("more", "app", memory(UNLIMITED))

    application = partition.application("app")
    assert application is not None
    assert application.usage == memory(2 * UNLIMITED)


def test_nothing_starts_an_application() -> None:
    """An allocation of nothing is legal, and starts its application."""
    partition = partition_of("{name: a, maxapplications: 1}")
    started(partition, "app", 0)
    assert partition.submit("next", SUE, "root.a")

    assert str(partition.allocate("next", "next", Resource())) == (
        "denied, waiting can help:\n  queue root.a: 1 of 1 applications running, 1 more requested"
    )
    assert partition.allocate("more", "app", memory(1)), "a running application is not counted again"


def test_group_is_chosen_once() -> None:
    """The group is that of the first allocation, whatever happens to limits, until the application goes."""
    partition = partition_of(limits="{groups: [dev], maxresources: {memory: 5}}")
    started(partition, "app", 1)
    partition.configure(None)
    assert partition.release("app")
    assert partition.allocate("app", "app", memory(9))

    application = partition.application("app")
    assert application is not None
    assert application.group == "dev"


def test_user_limits_win() -> None:
    """With ``unless-user-limited`` a user with a limit of its own is counted in the group and not held to it."""
    limits = "{users: [sue], maxresources: {memory: 6}}, {groups: [dev], maxresources: {memory: 5}}"
    partition = partition_of(limits=limits, group_limits="unless-user-limited")
    started(partition, "app", 6)

    assert [group.queues.usage for group in partition.groups()] == [memory(6)]
    assert [limit.kind for limit in partition.limits("app")] == ["user"]
    partition.verify()


# Giving back


def test_release_repeated(partition: Partition) -> None:
    """A release says whether there was something, and may be repeated."""
    assert partition.release("app") is True
    with changing_nothing(partition):
        assert partition.release("app") is False
    assert partition.users() == ()
    assert partition.groups() == ()


def test_release_one_of_several(partition: Partition) -> None:
    """A release gives back exactly what the allocation took."""
    before = shown(partition)
    for usage in [memory(1), Resource(vcore=0), Resource()]:
        assert partition.allocate("more", "app", usage)
        partition.release("more")
        assert shown(partition) == before
    partition.verify()


def test_release_withdraws_what_is_pending(partition: Partition) -> None:
    """An allocation that is pending counts nowhere, and is withdrawn by a release."""
    partition.request("next", "app", memory(50))
    assert [allocation.state.value for allocation in partition.allocations()] == ["held", "pending"]
    assert partition.queue_headroom(IN_B) == memory(2)

    assert partition.release("next") is True
    assert partition.release("next") is False
    assert partition.allocation("next") is None


def test_pending_is_granted(partition: Partition) -> None:
    """What was asked for is granted under its id, with the same content."""
    partition.request("next", "app", memory(1), priority=2)
    with refused(partition, "allocation_id 'next': the id is in use with another "):
        partition.allocate("next", "app", memory(1))
    assert partition.allocate("next", "app", memory(1), priority=2)

    application = partition.application("app")
    assert application is not None
    assert (application.allocations, application.pending) == (2, 0)


def test_pending_stays_after_a_denial(partition: Partition) -> None:
    """What is asked for and denied is pending as before."""
    partition.request("next", "app", memory(9))
    with changing_nothing(partition):
        assert not partition.allocate("next", "app", memory(9))
        partition.request("next", "app", memory(9))


# Counting what exists


def test_adopt_tells_what_is_exceeded(partition: Partition) -> None:
    """What exists is counted above the limits, and every limit that is exceeded then is told."""
    exceeded = partition.adopt("ghost", "app", memory(4))

    assert list(map(str, exceeded)) == [
        "user 'sue' in root.a: 9 of 6 memory used, 3 too much (limit for 'sue')",
        "group 'dev' in root.a: 9 of 7 memory used, 2 too much (limit for 'dev')",
        "queue root.a.b: 9 of 7 memory used, 2 too much",
        "queue root.a: 9 of 8 memory used, 1 too much",
    ]
    assert partition.exceeded_limits() == exceeded
    assert partition.adopt("ghost", "app", memory(4)) == exceeded, "it is counted once"


def test_adopt_more_applications_than_allowed() -> None:
    """What runs is counted above the number of applications, too."""
    partition = partition_of("{name: a, maxapplications: 1}")
    started(partition, "one", 1)
    partition.submit("two", BOB, "root.a")

    assert partition.adopt("two", "two", memory(1)) == (Violation("queue", "root.a", "root.a", "", None, 1, 2, 0),)
    assert list(map(str, partition.exceeded_limits())) == ["queue root.a: 2 of 1 applications running"]


def test_adopt_what_no_node_offers(partition: Partition) -> None:
    """What runs is counted at the root even if no node offers it."""
    assert "queue root: 2 of 0 gpu used, 2 too much" in map(str, partition.adopt("ghost", "app", Resource(gpu=2)))
    assert str(partition.allocate("more", "app", Resource(gpu=1))).endswith(
        "queue root: 1 gpu requested, never more than 0 allowed"
    )
    assert partition.release("ghost")
    partition.verify()


def test_exceeded_limits_leaf_to_root() -> None:
    """Limits that are exceeded are told users first, then groups, then queues, each leaf to root."""
    partition = partition_of(
        "{name: a, parent: true, resources: {max: {memory: 4}}, queues: [{name: b, resources: {max: {memory: 3}}}]}",
        limits="{users: [sue, bob], maxresources: {memory: 1}}",
        cluster=memory(5),
    )
    for name, user in [("1", SUE), ("2", BOB)]:
        partition.submit(name, user, IN_B)
        partition.adopt(name, name, memory(3))

    exceeded = [(over.kind, over.name, over.queue_path) for over in partition.exceeded_limits()]
    users = [("user", "bob", "root"), ("user", "sue", "root")]
    assert exceeded == [*users, *(("queue", path, path) for path in [IN_B, "root.a", "root"])]


def test_no_group_is_a_choice() -> None:
    """An application of a user without groups is charged to none, and stays so."""
    partition = partition_of(limits="{groups: [dev, '*'], maxresources: {memory: 5}}")
    started(partition, "app", 9, user=UserGroup("eve"))

    application = partition.application("app")
    assert application is not None
    assert (application.group, partition.groups()) == (None, ())
