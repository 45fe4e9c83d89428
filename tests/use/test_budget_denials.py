"""The text of a denial by a budget that is used up."""

import pytest

from ugm import Partition, Resource, UserGroup, Violation, parse_config

CONFIG = """
partitions: [{queues: [{name: q}], ugm: {budgets: [{name: lab, user: '*', amounts: {gpu: 1}, unit: second, %s}]}}]
"""


def denial(options: str, duration: int | None) -> Violation:
    """Return the denial of 2 GPUs for a duration after 10 GPU seconds of a budget of 1 were used."""
    now = 1_795_435_200
    partition = Partition(parse_config(CONFIG % options).partition(), clock=lambda: now)
    partition.submit("app", UserGroup("ana"), "root.q")
    partition.adopt("running", "app", Resource(gpu=1), duration=10)
    now += 10
    partition.release("running")
    (violation,) = partition.allocate("next", "app", Resource(gpu=2), duration=duration).violations
    return violation


@pytest.mark.parametrize("options", ["mode: admit", "mode: safe", "mode: admit, period: month"])
def test_promise_is_named(options: str) -> None:
    """A denial names the amount that the request promises to use."""
    violation = denial(options, duration=60)
    assert violation.requested == 120
    assert "120 gpu-seconds requested, 10 of 1 used or promised; " in str(violation)


@pytest.mark.parametrize("options", ["mode: admit", "mode: admit, period: month"])
def test_no_promise(options: str) -> None:
    """A denial of a request without a promise names no requested amount."""
    text = str(denial(options, duration=None))
    assert "requested" not in text
    assert "10 of 1 gpu-seconds used or promised; " in text


def test_size_does_not_matter() -> None:
    """A budget that admits requests until it is used up admits one of any size in the next period."""
    assert denial("mode: admit, period: month", duration=10**9).can_wait


def test_a_budget_that_needs_a_duration_for_people() -> None:
    """The text for a request without a promised end requires the duration, and states no amounts."""
    text = "{name: month, user: '*', amounts: {gpu: 10, vcore: 3}, unit: hour}"
    partition = Partition(
        parse_config(f"partitions: [{{queues: [{{name: q}}], ugm: {{budgets: [{text}]}}}}]").partition()
    )
    partition.submit("app", UserGroup("ana"), "root.q")
    shown = partition.allocate("a", "app", Resource(gpu=1)).for_people()
    assert (
        shown == "The budget month needs to know how long the work takes. State the duration, or ask an administrator."
    )
    shown = partition.allocate("a", "app", Resource(gpu=2), duration=36_000).for_people()
    assert shown.startswith(
        "The budget month allows 10 GPU hours (used or promised: 0 GPU hours), and the request is for 20"
    )
    shown = partition.allocate("a", "app", Resource(vcore=1500), duration=36_000).for_people()
    assert "allows 3 core hours (used or promised: 0 core hours), and the request is for 15 core hours." in shown
