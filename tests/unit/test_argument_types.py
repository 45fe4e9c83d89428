"""Objects that are made with an argument of another type: the error names the argument."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from support.tracking_fixtures import Wrong
from ugm import RequestError, Resource, UgmError
from ugm.budgets import Budget, Budgets
from ugm.elastic import ElasticTree
from ugm.fairness import BinnedUsage, ContinuousUsage
from ugm.quotatree import ConsumerInfo, parse_consumer
from ugm.tracking import GroupTracker, UserTracker

ONE = Resource(memory=1)
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


@pytest.mark.parametrize(("make", "argument", "value"), MAKERS)
def test_another_type(make: Callable[[Any], object], argument: str, value: Wrong) -> None:
    """The error is a `RequestError` with the name and the value of the argument."""
    with pytest.raises(RequestError) as caught:
        make(value)
    assert (caught.value.argument, caught.value.value) == (argument, value)


def test_subclass_of_str() -> None:
    """A text may be of a subclass of `str`."""

    class Text(str):
        __slots__ = ()

    for text in ("one", "kind: Consumer\nmetadata: {name: c}\n"):
        assert _outcome(Text(text)) == _outcome(text)


def _outcome(text: str) -> object:
    try:
        return repr(parse_consumer(text))
    except UgmError as error:
        return str(error)
