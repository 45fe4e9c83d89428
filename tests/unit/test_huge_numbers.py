"""Amounts of any size: sums with more digits than Python writes are counted, shown and returned like others."""

from __future__ import annotations

import json

import pytest

from ugm import NotTrackedError, Partition, ReleaseError, RequestError, Resource, UserGroup, Violation, parse_config
from ugm.errors import number_text, value_text
from ugm.journal import UsageRow
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


def test_numbers() -> None:
    """A number is written exactly up to 633 digits, and by its first digits and its exponent beyond."""
    assert number_text(10**632 - 1) == "9" * 632
    assert number_text(-(10**5000)) == "-1.000000000000000e+5000"
    assert number_text(1234567890123456789 * 10**4000) == "1.234567890123456e+4018"
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
