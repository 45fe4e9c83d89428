"""The messages about thresholds of limits."""

from __future__ import annotations

from ugm import Partition, Resource, UserGroup, parse_config
from ugm.partition import ThresholdWatch

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
