"""Amounts of any size: sums with more digits than Python writes are counted, shown and returned like others."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from ugm import (
    AllocationRequest,
    NotTrackedError,
    Partition,
    ReleaseError,
    RequestError,
    Resource,
    UserGroup,
    Violation,
    parse_config,
)
from ugm.elastic import GroupShare, RuntimeCap, RuntimeExplanation, SharingResult, SharingRound, Shortage
from ugm.errors import number_text, value_text
from ugm.fairness import Comparison, RankedNode, SortKeys
from ugm.journal import UsageRow
from ugm.model import Guarantee
from ugm.partition.limit_risks import LimitRisk
from ugm.partition.thresholds import ThresholdCrossed
from ugm.preemption import Freed, GuaranteeUse, MissingAmount, PlanCost
from ugm.resources import as_float, format_amount
from ugm.server.payloads import json_payload

#: As many digits as Python writes; two of them are too many.
HUGE = 9 * 10**4299
LIMITS = """
partitions:
- limits: [{users: ["*"], maxresources: {vcore: 5, gpu: 1, memory: 4Gi}}]
  queues: [{name: a, resources: {guaranteed: {gpu: 1}}}]
"""


def overfull() -> Partition:
    """Return a partition in which more is used than Python can write in decimal digits."""
    partition = Partition(
        parse_config("partitions: [{queues: [{name: a, resources: {guaranteed: {gpu: 1}}}]}]").partition()
    )
    partition.submit("app", UserGroup("ana", ("dev",)), "root.a")
    for number in range(3):
        usage = Resource({"vcore": HUGE, "gpu": HUGE, "memory": HUGE, "a/b": HUGE})
        assert partition.allocate(f"app-{number}", "app", usage)
    return partition


def test_denials_are_shown() -> None:
    """A denial, its explanation and a plan can be written, represented and converted whatever the amounts."""
    partition = overfull()
    after = parse_config(LIMITS).partition()
    plan = partition.plan(after)
    partition.configure(after)
    denial = partition.allocate("app-9", "app", Resource(vcore=HUGE, gpu=1))
    explanation = partition.explain("app", Resource(vcore=HUGE))

    for value in (plan, denial, explanation, *denial.violations, *explanation.holders):
        assert str(value)
        assert repr(value)
    for value in (plan, denial, explanation):
        assert value.to_dict()
    assert "e+4296 vcore requested, never more than 5 allowed" in str(denial)


@pytest.mark.parametrize(
    "method", ["queue", "queues", "headroom", "user", "users", "user_standing", "usage", "applications"]
)
def test_reads_are_shown(method: str) -> None:
    """What is read of a partition can be represented, and converted for JSON."""
    partition = overfull()
    partition.configure(parse_config(LIMITS).partition())
    read = getattr(partition, method, None)
    argument = {"queue": ("root.a",), "headroom": ("app",), "user": ("ana",), "user_standing": ("ana",)}.get(method, ())
    found = read(*argument) if callable(read) else read

    for value in found if type(found) is tuple else (found,):
        assert repr(value)
        assert str(value)
        assert not hasattr(value, "to_dict") or value.to_dict()


def test_scheduling_is_shown() -> None:
    """So can the scheduling order with its fractions, and the accounts of budgets."""
    budgets = '{name: b, user: "*", mode: admit, amounts: {gpu: 5}, unit: hour, period: day}'
    queues = "{name: a, resources: {guaranteed: {gpu: 1}}}, {name: b}"
    text = f"partitions: [{{queues: [{queues}], ugm: {{budgets: [{budgets}]}}}}]"
    partition = Partition(parse_config(text).partition(), clock=lambda: 1000)
    for name in ("a", "b"):
        partition.submit(name, UserGroup("ana"), f"root.{name}")
        partition.adopt(f"{name}-0", name, Resource(gpu=HUGE))
        partition.request(f"{name}-1", name, Resource(gpu=HUGE))

    assert "Comparison(" in str(partition.order())
    assert "settled=0, " in str(partition.budget_accounts())


def test_reports_of_models_are_shown() -> None:
    """So can the reports of all quota models."""
    text = """
    budgets: [{name: b, queue: root.a, mode: admit, amounts: {gpu: 5}}]
    elastic: {total: {gpu: 9}, groupby: [{source: queue}], groups: [{name: a, max: {gpu: 5}}]}
    quotatrees:
    - tree:
        kind: QuotaTree
        metadata: {name: t}
        spec: {resourceNames: [gpu], nodes: {R: {parent: nil, quota: {gpu: 9}}, a: {parent: R, quota: {gpu: 4}}}}
      groupby: [{source: queue}]
    """
    partition = Partition(
        parse_config(f"partitions:\n- queues: [{{name: a}}]\n  ugm:{text}").partition(), clock=lambda: 1
    )
    partition.submit("app", UserGroup("ana"), "root.a")
    partition.adopt("app-0", "app", Resource(gpu=HUGE * 10))

    reports = partition.model_reports()
    assert len(reports) == 3
    for report in reports:
        assert repr(report).startswith("ModelReport(model=")


def test_preemption_is_shown() -> None:
    """So can a plan for a request that exceeds the maximum of its queue."""
    text = "partitions: [{queues: [{name: a, resources: {max: {gpu: 5}, guaranteed: {gpu: 5}}}]}]"
    partition = Partition(parse_config(text).partition())
    partition.submit("app", UserGroup("ana"), "root.a")
    partition.adopt("app-0", "app", Resource(gpu=HUGE * 10))

    plan = partition.plan_preemption(AllocationRequest("app-1", "app", Resource(gpu=1)), since=0)
    assert repr(plan.missing) == "(MissingAmount(queue_path='root.a', resource='gpu', amount=8.999999999999999e+4300),)"
    assert repr(plan)


_MANY = HUGE * 10
_LONG = Fraction(_MANY, 7)
_SHARE = GroupShare("a", 1, 1, None, 1, _MANY, 1, _MANY, RuntimeCap.OTHERS)
_KEYS = SortKeys("root.a", 0, (_LONG,), "", 1)


@pytest.mark.parametrize(
    "value",
    [
        MissingAmount("root.a", "gpu", _MANY),
        Freed("root.a", "gpu", _MANY),
        GuaranteeUse("root.a", "gpu", _MANY, 1, _MANY),
        PlanCost(1, _LONG, (), ()),
        LimitRisk("queue", "root.a", "root.a", "gpu", None, 1, _MANY),
        ThresholdCrossed("budget", "ana", "b", "gpu", 80, True, _LONG, 1),  # noqa: FBT003 - a field
        ThresholdCrossed("queue", "root.a", "root.a", "gpu", 80, True, _MANY, 1),  # noqa: FBT003 - as above
        Guarantee("elastic group", "a", "", "gpu", 1, 1, _MANY),
        _SHARE,
        RuntimeExplanation("a", "gpu", "root", _MANY, (_SHARE,), (SharingRound(_MANY, 1, {"a": _MANY}),)),
        Shortage("a", "gpu", _MANY, (("b", _MANY),)),
        SharingRound(_MANY, 1, {"a": _MANY}),
        SharingResult(_MANY, {"a": _MANY}, {}, {}, ()),
        RankedNode("/a/ana", Fraction(_MANY), _LONG, Fraction(1), _LONG),
        Comparison("root", "ratio", False, _KEYS, _KEYS._replace(shares=())),  # noqa: FBT003 - as above
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_of_plans_and_explanations_are_shown(value: object) -> None:
    """So can every value with an amount of its own, also as a fraction."""
    assert repr(value).startswith(f"{type(value).__name__}(")
    assert str(value)
    assert not hasattr(value, "to_dict") or value.to_dict()


def test_numbers() -> None:
    """A number is written exactly up to 633 digits, and by its first digits and its exponent beyond."""
    assert number_text(10**632 - 1) == "9" * 632
    assert number_text(-(10**5000)) == "-1.000000000000000e+5000"
    assert number_text(1234567890123456789 * 10**4000) == "1.234567890123456e+4018"
    assert number_text(Fraction(-(10**5000), 3)) == "-1.000000000000000e+5000/3"
    assert (number_text(Fraction(7, 2)), number_text(Fraction(7))) == ("7/2", "7")
    assert format_amount("vcore", 10**5000) == "1.000000000000000e+4997"
    assert as_float(-(10**400)) < -1e308


def test_vectors() -> None:
    """A vector is shown like its amounts."""
    assert repr(Resource(gpu=10**5000)) == "Resource(gpu=1.000000000000000e+5000)"
    assert repr(Resource({"a/b": 10**5000})) == "Resource({'a/b': 1.000000000000000e+5000})"
    assert str(Resource(gpu=10**5000)) == "gpu 1.000000000000000e+5000"


def test_errors_are_shown() -> None:
    """The text of an error is short, whatever its value is."""
    assert str(RequestError("x", 10**5000, "no")) == "x 1.000000000000000e+5000: no"
    assert str(RequestError("x", {"a": 10**5000}, "no")) == "x <dict>: no"
    assert len(str(RequestError("x", "a" * 10**6, "no"))) < 1100
    assert str(ReleaseError("app", "root", "gpu", 10**5000, 10**5001)).endswith(
        "cannot give back 1.000000000000000e+5001"
    )
    assert str(NotTrackedError("app", "root", "ana", "no"))
    assert repr(Violation("user", "ana", "root", "*", "gpu", 1, 10**5000, 10**5000))
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    assert value_text(nested) == "<list>"


def test_usage_over_time_is_shown() -> None:
    """A line of the usage over time can be converted and represented."""
    line = UsageRow("ana", 0, 1, {"gpu": 1500, "vcore": HUGE * 1001})

    assert line.to_dict()["resource_seconds"]["gpu"] == "1.5"
    assert line.to_dict()["resource_seconds"]["vcore"].endswith("e+4299")
    assert repr(line).startswith("UsageRow(name='ana', begin=0, end=1, amounts={'gpu': 1500, ")


def test_answers_of_the_server() -> None:
    """A number that Python cannot write is a text in an answer; others stay numbers."""
    body = json.loads(json_payload({"a": [1, HUGE * 10], "b": (HUGE * 10,)}).content)

    assert body == {"a": [1, "9.000000000000000e+4300"], "b": ["9.000000000000000e+4300"]}
