"""Objects that are made with an argument of another type: the error names the argument."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from operator import add, sub
from typing import Any, cast

import pytest

from support.tracking_fixtures import Wrong
from ugm import Partition, RequestError, Resource, UserGroup
from ugm.budgets import Budget, Budgets
from ugm.configuration import PartitionConfig
from ugm.elastic import ElasticTree
from ugm.fairness import BinnedUsage, ContinuousUsage, FairRank, ShareTree
from ugm.queues import Acl, PlacementRules, path_allows
from ugm.quotatree import ConsumerInfo
from ugm.simulation import Job, JobMapping, simulate
from ugm.tracking import GroupTracker, UserTracker

ONE = Resource(memory=1)
CONFIG = PartitionConfig(name="default")
SUE = UserGroup("sue")
MAKERS: list[tuple[Callable[[Any], object], str, Any]] = [
    (lambda zone: Budget("b", amounts=ONE, zone=zone), "zone", []),
    (lambda weights: Budget("b", amounts=ONE, weights=weights), "weights", None),
    (Budgets, "budgets", None),
    (Budgets, "budgets", "b"),
    (lambda groups: ElasticTree(ONE, groups), "groups", 7),
    (lambda weights: ContinuousUsage(half_life=1, weights=weights), "weights", 1),
    (lambda weights: BinnedUsage(bin=1, decay=Fraction(1, 2), bins=1, weights=weights), "weights", "memory"),
    (lambda trees: ConsumerInfo("c", trees), "trees", None),
    (lambda limits: UserTracker("sue", limits), "active_limits", 7),
    (lambda limits: GroupTracker("dev", limits), "active_limits", "x"),
    (lambda group: UserTracker("sue").set_group_for_app("app", group), "group_tracker", True),
]
#: The same for several wrong values.
WRONG: list[tuple[Callable[[Any], object], str, list[Any]]] = [
    (UserTracker("sue").has_group_for_app, "application_id", [[], 7, None]),
    (UserTracker("sue").group_name_for_app, "application_id", [[], 7, None]),
    (Resource, "amounts", [True, False, 0, 7, "", "vcore", [], [1]]),
    (Resource.parse, "amounts", [True, "", [1], [("vcore", "1")]]),
    (ONE.fits_in, "limit", [5, "memory", []]),
    (lambda given: Partition(subscribers=given), "subscribers", [None, 7, "x", [7]]),
    (Acl, "users", [None, "ana", [7], [[]]]),
    (lambda groups: Acl((), groups), "groups", ["dev", None]),
    (Acl(["ana"]).allows, "user", ["ana", None]),
    (lambda acls: path_allows(acls, SUE), "acls", [None, "x", ["x"]]),
    (lambda user: path_allows([None], user), "user", ["sue", None]),
    (PlacementRules, "rules", [None, "user", ["user"]]),
    (lambda submission: PlacementRules().place(submission, cast("Any", None)), "submission", [None, ("app", "sue")]),
    (lambda accounts: ShareTree(accounts, {}), "accounts", [None, "a", [1]]),
    (lambda users: ShareTree({}, users), "users", [None]),
    (ShareTree({}, {}).rank, "usage", [[1], None]),
    (ShareTree({}, {}).path_of, "user", [[]]),
    (ShareTree({}, {}).rank({}).rank, "user", [[]]),
    (ShareTree({}, {}).rank({}).node, "path", [[]]),
    (lambda accounts: FairRank(accounts, {}, frozenset(), {}, 1), "accounts", [None]),
    (lambda users: FairRank({}, {}, users, {}, 1), "with_users", [None, "x"]),
    (lambda weights: ContinuousUsage(half_life=1, weights=weights), "weights", [7, {"gpu": 0.5}, {"gpu": -1}]),
    (lambda records: list(JobMapping().jobs(records)), "records", [None, "x", [7]]),
    (lambda jobs: simulate(jobs, CONFIG), "jobs", [None, "x", [7]]),
    (lambda config: simulate([], config), "config", [{}, None]),
]
MAKERS += [(make, argument, value) for make, argument, values in WRONG for value in values]

#: Functions with many options, with valid arguments, and with a wrong value of each option.
OPTIONS: list[tuple[Callable[..., object], dict[str, Any], dict[str, Any]]] = [
    (
        Job,
        {"number": 1, "submit_time": 0, "run_time": 1, "queue": "root.a", "user": SUE, "usage": ONE},
        {
            **dict.fromkeys(("number", "submit_time", "run_time", "queue", "user", "usage"), None),
            **dict.fromkeys(("tags", "logged_wait", "requested_time"), 1.5),
        },
    ),
    (
        JobMapping,
        {},
        dict.fromkeys(("queue_levels", "prefixes", "tags", "per_processor", "default_queue"), None),
    ),
    (
        simulate,
        {"jobs": [], "config": CONFIG},
        dict.fromkeys(("until", "recorder", "models", "order", "start", "group_limits"), "x"),
    ),
]


@pytest.mark.parametrize(("make", "argument", "value"), MAKERS)
def test_another_type(make: Callable[[Any], object], argument: str, value: Wrong) -> None:
    """The error is a `RequestError` with the name and the value of the argument."""
    with pytest.raises(RequestError) as caught:
        make(value)
    assert caught.value.argument == argument
    # The value itself, or the element of it that is wrong.
    assert caught.value.value == value or caught.value.value in _elements(value)


def _elements(value: object) -> list[object]:
    return list(value.values() if isinstance(value, dict) else value) if isinstance(value, list | dict) else []


@pytest.mark.parametrize(("function", "valid", "wrong"), OPTIONS)
def test_options(function: Callable[..., object], valid: dict[str, Any], wrong: dict[str, Any]) -> None:
    """The same for each option of a function that has many."""
    for name, value in wrong.items():
        with pytest.raises(RequestError) as caught:
            function(**{**valid, name: value})
        assert (caught.value.argument, caught.value.value) == (name, value)


@pytest.mark.parametrize("other", [5, None, {"memory": 1}, "x"])
def test_operators(other: Any) -> None:  # noqa: ANN401 - of any wrong type
    """An operator with another type raises the error of Python, also if the other operand is on the left."""
    for operator in (add, sub):
        for operands in ((ONE, other), (other, ONE)):
            with pytest.raises(TypeError, match=r"unsupported operand|can only concatenate"):
                operator(*operands)
