"""The life of applications: every state, and every way in and out of it."""

from __future__ import annotations

import pytest

from support.partition_fixtures import BOB, SUE, changing_nothing, config, memory, partition_of, refused, shown, started
from ugm import Partition
from ugm.partition import ApplicationState


@pytest.fixture(name="partition")
def _partition() -> Partition:
    partition = partition_of("{name: a, maxapplications: 1}, {name: b}")
    partition.submit("app", SUE, "root.a")
    return partition


def state(partition: Partition, application_id: str = "app") -> str | None:
    """Return how far an application has come; None if the partition knows it not or not any more."""
    application = partition.application(application_id)
    return None if application is None else application.state.value


def running(partition: Partition) -> int:
    """Return how many applications are counted as running."""
    root = partition.queue()
    assert root is not None
    return root.running_applications


def test_new(partition: Partition) -> None:
    """A submitted application is new, and does not run."""
    assert (state(partition), running(partition)) == ("new", 0)


def test_accepted(partition: Partition) -> None:
    """With something pending an application is accepted, and does not run."""
    partition.request("1", "app", memory(1))
    assert (state(partition), running(partition), partition.users()) == ("accepted", 0, ())


def test_new_again(partition: Partition) -> None:
    """An application that withdraws all that it asked for is as new."""
    before = shown(partition)
    partition.request("1", "app", memory(1))
    partition.release("1")
    assert shown(partition) == before


def test_running_from_the_first_allocation(partition: Partition) -> None:
    """The first allocation starts an application; the models change nothing about that."""
    for name in "123":
        assert partition.allocate(name, "app", memory(1))
        assert (state(partition), running(partition)) == ("running", 1)


def test_running_until_the_last_is_gone(partition: Partition) -> None:
    """An application runs until its last allocation is gone, in whatever order they go."""
    for name in "12":
        partition.allocate(name, "app", memory(1))
    partition.release("1")
    assert (state(partition), running(partition)) == ("running", 1)
    partition.release("2")
    assert (state(partition), running(partition), partition.users()) == ("completing", 0, ())


def test_running_while_something_is_pending(partition: Partition) -> None:
    """Without an allocation an application runs on as long as something is pending."""
    partition.allocate("1", "app", memory(1))
    partition.request("2", "app", memory(1))
    partition.release("1")
    assert (state(partition), running(partition)) == ("running", 1)
    assert [queue.running_applications for queue in partition.queue("root.a").walk()] == [1]  # type: ignore[union-attr]  # it is there

    partition.release("2")
    assert (state(partition), running(partition)) == ("completing", 0)


def test_running_holds_its_place(partition: Partition) -> None:
    """Who runs with nothing but pending requests keeps models from the place; who is completing does not."""
    partition.submit("next", BOB, "root.a")
    partition.allocate("1", "app", memory(1))
    partition.request("2", "app", memory(1))
    partition.release("1")
    assert not partition.allocate("n", "next", memory(1))
    partition.release("2")
    assert partition.allocate("n", "next", memory(1))


def test_running_again(partition: Partition) -> None:
    """A completing application runs again with its next allocation, if there is a place for it."""
    partition.submit("next", BOB, "root.a")
    partition.allocate("1", "app", memory(1))
    partition.release("1")
    partition.allocate("n", "next", memory(1))

    assert str(partition.allocate("1", "app", memory(1))) == (
        "denied, waiting can help:\n  queue root.a: 1 of 1 applications running, 1 more requested"
    )
    partition.release("n")
    assert partition.allocate("1", "app", memory(1))
    assert (state(partition), state(partition, "next")) == ("running", "completing")


def test_accepted_again(partition: Partition) -> None:
    """A completing application that asks for more is accepted again, and does not run."""
    partition.allocate("1", "app", memory(1))
    partition.release("1")
    partition.request("2", "app", memory(1))
    assert (state(partition), running(partition)) == ("accepted", 0)
    partition.release("2")
    assert state(partition) == "completing"


def test_complete(partition: Partition) -> None:
    """A completed application is returned as it was, and forgotten."""
    partition.allocate("1", "app", memory(1))
    partition.release("1")

    completed = partition.complete("app")
    assert (completed.application_id, completed.state, completed.group) == ("app", ApplicationState.COMPLETED, None)
    assert state(partition) is None
    partition.verify()


def test_complete_a_new_one(partition: Partition) -> None:
    """An application that never ran can be completed, too."""
    assert partition.complete("app").state is ApplicationState.COMPLETED


def test_complete_too_early(partition: Partition) -> None:
    """An application that holds something, or has something pending, cannot be completed."""
    partition.allocate("1", "app", memory(1))
    partition.request("2", "app", memory(1))
    with refused(partition, "application_id 'app': the application has 1 granted and 1 pending allocations"):
        partition.complete("app")


def test_complete_with_half_of_that(partition: Partition) -> None:
    """One of the two is enough to keep an application from being completed."""
    partition.request("1", "app", memory(1))
    with refused(partition, "application_id 'app': the application has 0 granted and 1 pending allocations"):
        partition.complete("app")
    partition.allocate("1", "app", memory(1))
    with refused(partition, "application_id 'app': the application has 1 granted and 0 pending allocations"):
        partition.complete("app")


def test_end_under_other_limits() -> None:
    """An application that ends after a change of limits leaves nothing behind in the new ones."""
    limited = config("{name: a, maxapplications: 3}", limits="{users: ['*'], maxapplications: 3}")
    partition = partition_of()
    started(partition, "app", 1)
    partition.request("next", "app", memory(1))
    partition.release("app")
    partition.configure(limited)
    partition.release("next")
    assert (state(partition), running(partition)) == ("completing", 0)
    partition.verify()


def test_submitted_again(partition: Partition) -> None:
    """The id of a completed application may be used by anybody, in any queue."""
    partition.allocate("1", "app", memory(1))
    partition.release("1")
    partition.complete("app")

    assert partition.submit("app", BOB, "root.b").queue_path == "root.b"
    assert state(partition) == "new"


def test_fail_without_allocations(partition: Partition) -> None:
    """An application without allocations fails at once: it is forgotten with all that it asked for."""
    partition.request("1", "app", memory(1))
    assert partition.fail("app") == ()
    assert (state(partition), partition.allocations()) == (None, ())


def test_failing(partition: Partition) -> None:
    """A failing application is counted until its last allocation is released, and asks for nothing more."""
    for name in "12":
        partition.allocate(name, "app", memory(1))
    partition.request("3", "app", memory(1))

    assert partition.fail("app") == ("1", "2")
    assert (state(partition), running(partition)) == ("failing", 1)
    assert [allocation.state.value for allocation in partition.allocations()] == ["terminating", "terminating"]
    assert partition.fail("app") == ("1", "2"), "it may be repeated"


def test_failed(partition: Partition) -> None:
    """A failing application is forgotten with its last allocation."""
    for name in "12":
        partition.allocate(name, "app", memory(1))
    partition.fail("app")
    partition.release("1")
    assert (state(partition), running(partition)) == ("failing", 1)
    partition.release("2")
    assert (state(partition), running(partition)) == (None, 0)
    partition.verify()


@pytest.mark.parametrize("call", ["request", "allocate"])
def test_failing_gets_nothing(partition: Partition, call: str) -> None:
    """A failing application gets nothing more; what it has may be told again."""
    partition.allocate("1", "app", memory(1))
    partition.fail("app")
    with refused(partition, "application_id 'app': the application is failing"):
        getattr(partition, call)("2", "app", memory(1))
    with changing_nothing(partition):
        getattr(partition, call)("1", "app", memory(1))


def test_failing_is_given_what_it_has(partition: Partition) -> None:
    """What runs of a failing application is counted when it is found."""
    partition.allocate("1", "app", memory(1))
    partition.fail("app")
    assert partition.adopt("2", "app", memory(1)) == ()
    partition.release("1")
    assert state(partition) == "failing"


def test_remove(partition: Partition) -> None:
    """A removed application gives back all that it holds, and what was pending is withdrawn."""
    for name in "12":
        partition.allocate(name, "app", memory(1))
    partition.request("3", "app", memory(1))

    assert partition.remove("app") == ("1", "2")
    assert (state(partition), partition.allocations(), partition.users()) == (None, (), ())
    partition.verify()


@pytest.mark.parametrize("ending", [Partition.fail, Partition.preempt])
def test_remove_what_is_going(partition: Partition, ending: object) -> None:
    """An application that is failing, or whose allocations are going, can be removed."""
    partition.allocate("app", "app", memory(1))
    assert callable(ending)
    ending(partition, "app")
    assert partition.remove("app") == ("app",)
    assert state(partition) is None


@pytest.mark.parametrize("ending", [Partition.complete, Partition.fail, Partition.remove])
def test_created_queue_goes_with_its_last_application(ending: object) -> None:
    """A queue that placement has made vanishes with the last application in it, with those above that were made."""
    partition = partition_of(rules="{name: provided, create: true}")
    partition.submit("one", SUE, "root.x.y")
    partition.submit("two", SUE, "root.x.y")
    assert callable(ending)
    ending(partition, "one")
    assert partition.queue("root.x.y") is not None
    ending(partition, "two")
    assert partition.queue("root.x") is None
    partition.verify()


# Preemption


def test_preempted_counts_until_released(partition: Partition) -> None:
    """A preempted allocation is counted until its release confirms that it has gone."""
    partition.allocate("1", "app", memory(1))
    usage = partition.users()

    assert partition.preempt("1") is True
    application = partition.application("app")
    assert application is not None
    assert (partition.users(), application.terminating, application.state.value) == (usage, 1, "running")
    assert partition.preempt("1") is True, "it may be repeated"

    partition.release("1")
    assert partition.users() == ()


def test_preempt_what_is_not_held(partition: Partition) -> None:
    """There is nothing to preempt in what is unknown, or only pending."""
    partition.request("1", "app", memory(1))
    with changing_nothing(partition):
        assert partition.preempt("1") is False
        assert partition.preempt("2") is False


# Removal of the partition


def test_close(partition: Partition) -> None:
    """A partition that is removed lets all applications fail, and says what has to be stopped."""
    partition.submit("new", SUE, "root.b")
    for name in "21":
        partition.allocate(name, "app", memory(1))
    started(partition, "other", 1, "root.b", BOB)

    assert partition.terminate(confirm=True) == ("2", "1", "other")
    assert [application.state.value for application in partition.applications()] == ["failing", "failing"]
    for name in ["1", "2", "other"]:
        partition.release(name)
    assert (partition.applications(), partition.users()) == ((), ())
    assert partition.terminate(confirm=True) == ()


@pytest.mark.parametrize("call", ["submit", "adopt_application"])
def test_closed(partition: Partition, call: str) -> None:
    """A closed partition takes no more applications, and still answers for those it has."""
    partition.allocate("1", "app", memory(1))
    partition.terminate(confirm=True)
    with refused(partition, "application_id 'new': the partition is closed"):
        getattr(partition, call)("new", SUE, "root.b")
    assert partition.submit("app", SUE, "root.a").queue_path == "root.a"


# Recovery, and quotas that change


def test_an_adopted_application_may_be_submitted_once_more(partition: Partition) -> None:
    """What an adopted application was submitted with is not known: submitting it finds it, for its own user."""
    partition.adopt_application("back", SUE, "root.a")

    placement = partition.submit("back", SUE, tags={"namespace": "dev"}, gang_style="hard")
    assert placement.queue_path == "root.a"
    with refused(partition, "application_id 'back': the id is in use with another "):
        partition.submit("back", BOB, "root.a")


def test_a_quota_that_changes(partition: Partition) -> None:
    """The quota of a namespace may change while something runs there; the latest one holds."""
    partition.adopt_application("new", SUE, "root.made", quota=memory(5))
    assert partition.allocate("1", "new", memory(5))

    partition.set_queue_quota("root.made", memory(4))
    assert not partition.allocate("2", "new", memory(1))
    partition.submit("new", SUE, "root.made", quota=memory(6))
    assert partition.allocate("2", "new", memory(1))
    partition.verify()


def test_a_quota_for_a_queue_of_the_configuration(partition: Partition) -> None:
    """The quota of a configured queue can only be changed in the configuration."""
    with refused(partition, "queue_path 'root.a': the configuration sets the quota of this queue"):
        partition.set_queue_quota("root.a", memory(4))
    with refused(partition, "queue_path 'root.x': there is no such queue"):
        partition.set_queue_quota("root.x", memory(4))
    with refused(partition, "quota None: expected a Resource that names at least one resource"):
        partition.set_queue_quota("root.a", None)  # type: ignore[arg-type] # the mistake that is tested
