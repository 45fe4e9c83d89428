"""Scheduling passes and `order`: what takes part, what a caller may do, and the errors of other implementations."""

from __future__ import annotations

from typing import Any

import pytest

from support.partition_fixtures import BOB, SUE, config, memory
from ugm import AllocationRequest, Partition, RequestError
from ugm.fairness import ShareTree
from ugm.partition import AbstractPartition, by_share


def waiting(queues: str, *applications: str, **options: Any) -> Partition:  # noqa: ANN401 - handed on
    """Return a partition with applications, given as ``name queue priority...``, that request 1 each time."""
    partition = Partition(config(queues), **options)
    for text in applications:
        add(partition, text)
    return partition


def add(partition: AbstractPartition, text: str) -> None:
    """Submit an application, given as ``name queue priority...``, and its requests."""
    name, queue, *priorities = text.split()
    partition.submit(name, BOB if name.startswith("bob") else SUE, f"root.{queue}")
    for number, priority in enumerate(priorities):
        partition.request(f"{name}.{number}", name, memory(1), priority=int(priority))


def test_queues_by_submission() -> None:
    """With the property, child queues are compared by their earliest submission, and not by the parts that they use."""
    fifo = "properties: {ugm.queue.sort.policy: fifo}"
    partition = waiting(f"{{name: p, {fifo}, queues: [{{name: a}}, {{name: b}}]}}", "y p.a 0 0", "z p.b 0", "x p.a 0")
    partition.allocate("held", "y", memory(1))

    order = partition.order()
    assert [turn.request.allocation_id for turn in order] == ["y.0", "y.1", "z.0", "x.0"]
    assert "root.p.a comes before root.p.b by the order of submission: 1 against 2" in order[0].explain()


def test_requests_that_are_passed() -> None:
    """A program that keeps its requests passes them; nothing else takes part."""
    partition = waiting("{name: a}", "x a 0", "y a")
    wanted = [AllocationRequest("y.1", "y", memory(1)), AllocationRequest("y.2", "y", memory(2), priority=1)]
    turn = partition.scheduling_pass({"y": wanted})

    assert [head.request for head in turn if head.allocate()] == wanted[::-1]
    assert partition.application("y").usage == memory(3)  # type: ignore[union-attr] # it exists


def test_user_supplied_keys() -> None:
    """A function of the program orders the applications of a queue and of those below it."""
    partition = waiting("{name: p, queues: [{name: a}]}", "x p.a 0", "bob p.a 0")
    tree = ShareTree({}, {"sue": 1, "bob": 1})
    turn = partition.scheduling_pass(keys={"root.p": by_share(tree.rank({"sue": 1}))})

    heads = list(turn)
    assert [head.request.allocation_id for head in heads] == ["bob.0", "x.0"]
    assert heads[0].explain().splitlines()[-1] == "bob comes before x by the key of the program: 0 against 1"


def test_explanation() -> None:
    """A head has the compared values and the loser of each level, and explains them in words."""
    partition = waiting("{name: a, properties: {priority.offset: '2'}}, {name: b}", "x a 0", "y b 1", "z a 0")
    head = next(partition.scheduling_pass())

    first, second = head.keys
    assert (first.winner.name, first.winner.priority) == ("root.a", 2)
    assert first.beaten is not None
    assert (first.beaten.name, first.beaten.priority) == ("root.b", 1)
    assert (second.winner.name, second.beaten and second.beaten.name) == ("x", "z")
    assert head.explain() == (
        "root.a comes before root.b by priority: 2 against 1\nx comes before z by the order of submission: 1 against 3"
    )


def test_order_by_ranks() -> None:
    """The places of users order the applications of every queue; other users come last."""
    partition = waiting("{name: a}", "x a 0", "bob a 0")

    assert [one.user for one in partition.order(ranks={"bob": 3})] == ["bob", "sue"]


@pytest.mark.parametrize(
    "call",
    [
        lambda p: p.order(max_turns=-1),
        lambda p: p.order(max_turns=True),
        lambda p: p.order(ranks={"sue": 0.5}),
        lambda p: p.scheduling_pass(keys={"root.a": 1}),
        lambda p: p.scheduling_pass({"x": [("x.1", "x", memory(1))]}),
        lambda p: p.scheduling_pass({"x": [AllocationRequest("y.1", "y", memory(1))]}),
    ],
)
def test_misuse(call: Any) -> None:  # noqa: ANN401 - a call that is rejected
    """A wrong argument is an error at once."""
    with pytest.raises(RequestError):
        call(waiting("{name: a}", "x a 0"))
