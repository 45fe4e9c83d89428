"""Decisions have a summary of one line, and sentences for end users."""

from __future__ import annotations

import pytest

from ugm import Decision, Partition, Resource, UserGroup, Violation, parse_config
from ugm.partition import ThresholdWatch

CONFIG = parse_config(
    """
partitions:
- queues:
  - name: hub
    resources: {max: {memory: 8Gi, vcore: 4}}
    limits: [{users: ["*"], maxresources: {gpu: 2}}]
"""
).partition()
ANA = UserGroup("ana")


def decided(**usage: str) -> Decision:
    """Return the decision about a request in a queue with some usage."""
    partition = Partition(CONFIG)
    partition.submit("a", ANA, "root.hub")
    assert partition.allocate("a.0", "a", Resource.parse(memory="5Gi", vcore="1", gpu="1"))
    return partition.allocate("a.1", "a", Resource.parse(**usage))


LATER = "Try again when other work has ended."
NEVER = "Waiting does not help: request less, or ask an administrator to raise the limit."
HUB = "The queue hub allows"


@pytest.mark.parametrize(
    ("usage", "limit", "advice"),
    [
        ({"memory": "4Gi"}, f"{HUB} 8 GiB of memory (in use: 5 GiB of memory), and the request is for 4 GiB", LATER),
        ({"gpu": "3"}, "Your limit allows 2 GPUs at most, and the request is for 3 GPUs.", NEVER),
        ({"vcore": "3500m"}, f"{HUB} 4 cores (in use: 1 core), and the request is for 3.5 cores.", LATER),
        ({"vcore": "1"}, "Granted.", ""),
    ],
)
def test_sentences_for_people(usage: dict[str, str], limit: str, advice: str) -> None:
    """The sentences have no path and no wildcard, amounts with units, and what can help."""
    text = decided(**usage).for_people()

    assert text.startswith(limit)
    assert text.endswith(advice)
    assert "root." not in text


def test_a_summary_is_one_short_line() -> None:
    """The summary has one line of bounded length, whatever the names and the number of limits are."""
    long = Violation("user", "x" * 300 + "\n" + "y", "root.q", "*", "gpu", 1, 1, 1)
    for decision in (
        Decision(),
        Decision((long, long, long)),
        Decision((), ("a", "b")),
        decided(gpu="3", memory="9Gi"),
    ):
        assert decision.summary.isprintable()
        assert 0 < len(decision.summary) <= 200

    assert decided(gpu="3").summary.startswith("denied, waiting cannot help: user 'ana' in root.hub: 3 gpu requested")


TEXT = """
partitions:
- ugm: {thresholds: {shares: [80]}}
  queues: [{name: a, resources: {max: {memory: 800Gi, vcore: 100}}}]
  limits: [{users: ["*"], maxapplications: 1}]
"""
BUDGET = """
partitions:
- ugm:
    thresholds: {shares: [50]}
    budgets: [{name: lab, amounts: {vcore: 10}, unit: hour, mode: admit}]
  queues: [{name: a}]
"""


def test_amounts_are_readable() -> None:
    """A message has cores and bytes with a suffix, rounded."""
    partition = Partition(parse_config(TEXT).partition())
    partition.submit("x", UserGroup("ana"), "root.a")
    partition.allocate("x.0", "x", Resource(memory=751619276801, vcore=92500))
    assert sorted(str(crossing) for crossing in ThresholdWatch(partition).update()) == [
        "queue root.a: 700Gi of 800Gi memory, at or above 80 %",
        "queue root.a: 92.5 of 100 vcore, at or above 80 %",
        "user 'ana' in root: 1 of 1 applications, at or above 80 %",
    ]


def test_budgets_are_in_hours() -> None:
    """A message about a budget counts in hours."""
    now = [0]
    partition = Partition(parse_config(BUDGET).partition(), clock=lambda: now[0])
    partition.submit("x", UserGroup("ana"), "root.a")
    partition.allocate("x.0", "x", Resource.parse(vcore="2"))
    now[0] = 3 * 3600
    (crossing,) = ThresholdWatch(partition).update()
    assert str(crossing).endswith(": 6 of 10 vcore-hours, at or above 50 %")
