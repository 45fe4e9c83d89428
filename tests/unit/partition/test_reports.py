"""Questions to a partition a piece at a time, and of those who have no application in it."""

from __future__ import annotations

from fractions import Fraction

import pytest

from support.partition_fixtures import SUE, Licences, changing_nothing, config, memory, partition_of, started
from ugm import Partition, RequestError, Resource, UserGroup, UserInQueue
from ugm.tracking import EffectiveLimit

LIMITS = '{groups: [dev], maxresources: {memory: 8}}, {users: ["*"], maxresources: {memory: 10}, maxapplications: 4}'
QUEUES = "{name: a, resources: {max: {memory: 9}}}, {name: b}"
ANN = UserGroup("ann")


def test_pieces_are_what_the_whole_says() -> None:
    """One user, one group and their names say what the lists of all say."""
    partition = partition_of(QUEUES, limits=LIMITS)
    started(partition, "app", 3)
    started(partition, "other", 2, "root.b", ANN)

    assert tuple(partition.user(name) for name in partition.user_names()) == partition.users()
    assert tuple(partition.group(name) for name in partition.group_names()) == partition.groups()
    assert partition.application_ids() == ("app", "other") == partition.allocation_ids()
    assert partition.queue_paths() == ("root", "root.a", "root.b")


def test_who_uses_nothing() -> None:
    """Nobody is told of whom nothing runs."""
    partition = partition_of(QUEUES)

    assert partition.user("sue") is None
    assert partition.group("dev") is None
    assert partition.user_utilization("sue") is partition.group_utilization("dev") is None
    assert partition.queue_alone("root.none") is None
    assert partition.pending("root.none") == (0, Resource())


def test_utilization_of_a_user() -> None:
    """The nearest limit is the one of which the largest part is used."""
    partition = partition_of(QUEUES, limits=LIMITS)
    started(partition, "app", 3)
    standing = partition.user_utilization("sue")

    assert standing is not None
    assert (standing.share, standing.resource, standing.running_applications) == (Fraction(3, 10), "memory", 1)
    group = partition.group_utilization("dev")
    assert group is not None
    assert (standing.usage, group.share) == (memory(3), Fraction(3, 8))
    assert standing.limit is not None
    assert (standing.limit.limit_name, standing.limit.queue_path) == ("*", "root")


def test_utilization_by_applications() -> None:
    """The number of applications is a limit like models."""
    partition = partition_of(QUEUES, limits=LIMITS)
    for number in range(3):
        started(partition, f"app-{number}", 1)
    standing = partition.user_utilization("sue")

    assert standing is not None
    assert (standing.share, standing.resource) == (Fraction(3, 4), None)
    assert standing.to_dict()["share"] == 0.75


def test_utilization_without_limit() -> None:
    """Who has no limit is at no part of it."""
    partition = partition_of(QUEUES)
    started(partition, "app", 3)
    standing = partition.user_utilization("sue")

    assert standing is not None
    assert (float(standing.share), standing.limit, standing.to_dict()["limit"]) == (0, None, None)


def test_utilization_at_a_limit_of_nothing() -> None:
    """A limit of 0 counts as used up, and with usage above it as exceeded."""
    partition = partition_of(QUEUES, limits="{users: [sue], maxresources: {memory: 10, gpu: 0}}")
    started(partition, "app", 3)
    partition.adopt("gpus", "app", Resource(gpu=2))
    standing = partition.user_utilization("sue")

    assert standing is not None
    assert (float(standing.share), standing.resource) == (3, "gpu")


def test_queue_alone() -> None:
    """A queue alone is told without those below it, and without what is used there."""
    partition = partition_of("{name: p, queues: [{name: a}]}")
    started(partition, "app", 3, "root.p.a")
    parent, child = partition.queue_alone("root.p"), partition.queue_alone("root.P.A")

    assert parent is not None
    assert child is not None
    assert (parent.usage, parent.children, parent.is_leaf) == (Resource(), (), False)
    assert (child.usage, child.applications) == (memory(3), ("app",))


def test_pending() -> None:
    """What is pending in a queue itself is told with its sum."""
    partition = partition_of(QUEUES)
    started(partition, "app", 3)
    partition.request("x", "app", Resource(memory=2))
    partition.request("y", "app", Resource(memory=3, gpu=1))

    assert partition.pending("root.a") == (2, Resource(memory=5, gpu=1))
    assert partition.pending("root") == (0, Resource())


@pytest.mark.parametrize("amount", range(1, 12))
def test_check_of_a_user_in_a_queue(amount: int) -> None:
    """The answer is that which the first allocation of a new application gets, and asking changes nothing."""
    partition = partition_of(QUEUES, limits=LIMITS)
    started(partition, "app", 3)
    with changing_nothing(partition):
        decision = partition.check(UserInQueue(SUE, "root.a"), memory(amount))
    partition.submit("new", SUE, "root.a")

    assert decision == partition.allocate("new", "new", memory(amount))


def test_check_of_a_user_counts_the_application() -> None:
    """A new application needs room for an application, too."""
    partition = partition_of(QUEUES, limits='{users: ["*"], maxapplications: 1}')
    started(partition, "app", 1)

    assert [violation.resource for violation in partition.check(UserInQueue(SUE, "root.a"), memory(1)).violations] == [
        None
    ]


def test_check_of_a_user_asks_other_models() -> None:
    """Other quota models are asked, too, and none is charged."""
    licences = Licences(2)
    partition = partition_of(QUEUES, models=[licences])

    assert [
        violation.kind for violation in partition.check(UserInQueue(SUE, "root.a"), Resource(licence=3)).violations
    ] == ["licence"]
    assert licences.used == 0


def test_check_of_a_user_in_a_queue_that_would_be_created() -> None:
    """A queue that is not there counts as created from the template above it."""
    rules, root = "{name: provided, create: true}", ", childtemplate: {resources: {max: {memory: 5}}}"
    partition = Partition(config(QUEUES, rules, root=root))
    assert partition.place(SUE, "root.new").queue_path == "root.new"
    with changing_nothing(partition):
        decision = partition.check(UserInQueue(SUE, "root.new"), memory(6))
    partition.submit("new", SUE, "root.new")

    assert not decision
    assert decision == partition.allocate("new", "new", memory(6))


def test_explain_of_a_user() -> None:
    """The largest holders of what is missing are named, as for an application."""
    partition = partition_of(QUEUES, limits=LIMITS)
    started(partition, "small", 2)
    started(partition, "large", 5)
    explanation = partition.explain(UserInQueue(SUE, "root.a"), memory(2), max_holders=1)

    assert explanation.decision == partition.check(UserInQueue(SUE, "root.a"), memory(2))
    assert [holder.application_id for (holder,) in explanation.holders] == ["large"]


def test_limits_of_a_user() -> None:
    """The limits and the headroom are those of a new application."""
    partition = partition_of(QUEUES, limits=LIMITS)
    started(partition, "app", 3)
    subject = UserInQueue(SUE, "root.a")
    limits, headroom = partition.limits(subject), partition.headroom(subject)
    partition.submit("new", SUE, "root.a")

    assert limits == partition.limits("new") == partition.limits(subject)
    assert headroom == partition.headroom("new") == memory(5)


def test_no_limits_of_a_user() -> None:
    """Where nothing is limited there is no headroom to tell."""
    partition, subject = partition_of("{name: a}"), UserInQueue(SUE, "root.a")
    assert (partition.limits(subject), partition.headroom(subject)) == ((), None)


def test_limit_as_json() -> None:
    """A limit is told for JSON in the words of its attributes."""
    limit = EffectiveLimit("user", "sue", "root", "*", "root limits[0]", None, 2, Resource(), 1)

    assert limit.to_dict() == {
        "kind": "user",
        "name": "sue",
        "queue_path": "root",
        "limit_name": "*",
        "place": "root limits[0]",
        "max_resources": None,
        "max_applications": 2,
        "usage": {},
        "running_applications": 1,
        "guaranteed": None,
    }


def test_config() -> None:
    """The configuration in force is the one that was given last."""
    first, second = config("{name: a}"), config("{name: b}")
    partition = Partition(first)
    assert partition.config is first
    partition.configure(second)

    assert partition.config is second


def test_a_path_that_is_none() -> None:
    """What is no path is refused."""
    with pytest.raises(RequestError):
        partition_of().check(UserInQueue(SUE, "a..b"), memory(1))
