"""Budgets in a configuration: reading, problems with their places, writing, differences and export."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from support.config_cases import places_of
from ugm import Resource, parse_config
from ugm.budgets import BudgetMode, Carry, Period
from ugm.budgets.kind import declared_budget
from ugm.config import dump_config

FULL: Final = """
partitions:
- ugm:
    elastic: {groups: [{name: ml, max: {gpu: 4}}]}
    quotatrees:
    - unrestricted: true
      tree:
        kind: QuotaTree
        metadata: {name: t}
        spec: {resourceNames: [gpu], nodes: {top: {parent: nil, quota: {gpu: "4"}}}}
    budgets:
    - {name: lab, group: lab, amounts: {gpu: 100, vcore: 5}, unit: hour, period: month, carry: capped, cap: {gpu: 10}}
    - {name: bill, amounts: {units: 100}, weights: {gpu: 10, vcore: 1/1000, memory: 0.25}, zone: Europe/Berlin}
    - {name: ml, elasticgroup: ml, amounts: {gpu: 9}, mode: admit, unit: day, queue: root.Prod}
    - {name: t, quotanode: t/top, amounts: {gpu: 9}}
    - {name: each, user: "*", amounts: {gpu: 9}, period: week, carry: all}
  queues: [{name: prod}]
"""


def budgets(*lines: str) -> str:
    """Return a configuration with some budgets, each on its own line; the first one is on line 4."""
    return "\n".join(["partitions:", "- ugm:", "    budgets:", *lines, "  queues: []", ""])


def problems(*lines: str) -> list[str]:
    """Return the line, the column, the end of the path and the code of each problem."""
    return places_of(budgets(*(f"    - {{{line}}}" for line in lines)), "partitions[0].ugm.budgets")


def test_every_field_is_read() -> None:
    """Amounts are quantities times the time unit, weights are exact, and the case of queues does not matter."""
    lab, bill, ml, node, each = map(declared_budget, parse_config(FULL).partition().ugm.budgets)

    assert lab.amounts == Resource(gpu=360_000, vcore=18_000_000)
    assert (lab.group, lab.period, lab.carry, lab.cap) == ("lab", Period.MONTH, Carry.CAPPED, Resource(gpu=36_000))
    assert bill.weights == {"gpu": 10, "vcore": Fraction(1, 1000), "memory": Fraction(1, 4)}
    assert (bill.zone, bill.owner) == ("Europe/Berlin", "root")
    assert (ml.elastic_group, ml.mode, ml.queue) == ("ml", BudgetMode.ADMIT, "root.prod")
    assert (node.quota_node, each.user) == ("t/top", "*")


def test_written_budgets_are_read_again() -> None:
    """Writing a configuration with budgets and reading it gives the same configuration."""
    config = parse_config(FULL)
    assert parse_config(dump_config(config)) == config


def test_problems_of_names_and_owners() -> None:
    """A budget has a name of its own, and one owner that exists."""
    assert problems(
        "amounts: {gpu: 1}",
        "name: a, amounts: {gpu: 1}",
        "name: a, amounts: {gpu: 1}, user: sue, group: lab",
        f"name: b, amounts: {{gpu: 1}}, user: {'x' * 257}",
        "name: c, amounts: {gpu: 1}, elasticgroup: ml",
        "name: d, amounts: {gpu: 1}, quotanode: t/top",
    ) == [
        "4:7 [0].name budget-name-invalid",
        "6:14 [2].name budget-name-duplicate",
        "6:54 [2].group budget-owner-several",
        "7:42 [3].user budget-owner-invalid",
        "8:50 [4].elasticgroup budget-group-unknown",
        "9:47 [5].quotanode budget-node-unknown",
    ]


def test_problems_of_values() -> None:
    """Amounts, periods, carry-over, weights, queues and time zones are checked at their place."""
    assert problems(
        "name: a",
        "name: b, amounts: {gpu: 1, vcore: 1}, weights: {gpu: 1}",
        "name: c, amounts: {gpu: 1}, carry: all",
        "name: d, amounts: {gpu: 1}, period: day, carry: capped",
        "name: e, amounts: {gpu: 1}, period: day, cap: {gpu: 1}",
        "name: f, amounts: {gpu: 1}, period: day, carry: capped, cap: {vcore: 1}",
        "name: g, amounts: {gpu: 1}, zone: Mars/Olympus",
        "name: h, amounts: {gpu: 1}, queue: prod",
        "name: i, amounts: {gpu: 1}, weights: {gpu: -1, vcore: 1/0, memory: '1e9'}",
        "name: j, amounts: {gpu: 1}, period: fortnight",
        "name: k, amounts: {gpu: 1}, mode: lax, unit: week",
        "name: l, amounts: {gpu: -1, 'a b': 1}, length: 1",
        "name: m, amounts: {gpu: 1}, weights: {'': 1}",
    ) == [
        "4:7 [0].amounts budget-amounts-missing",
        "5:17 [1].amounts budget-weights-amounts",
        "6:43 [2].carry budget-carry-without-period",
        "7:7 [3].cap budget-cap-missing",
        "8:49 [4].cap budget-cap-unused",
        "9:77 [5].cap.vcore budget-cap-unused",
        "10:42 [6].zone budget-zone-unknown",
        "11:43 [7].queue budget-queue-invalid",
        "12:51 [8].weights.gpu weight-invalid",
        "12:62 [8].weights.vcore weight-invalid",
        "12:75 [8].weights.memory weight-invalid",
        "13:44 [9].period choice-invalid",
        "14:42 [10].mode choice-invalid",
        "14:53 [10].unit choice-invalid",
        "15:32 [11].amounts.gpu quantity-invalid",
        "15:43 [11].amounts.a b resource-name-invalid",
        "15:47 [11].length field-unknown",
        "16:50 [12].weights. resource-name-invalid",
    ]
