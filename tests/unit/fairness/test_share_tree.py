"""Share trees: misuse, names of users, ties, and the errors of other implementations."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from ugm import RequestError
from ugm.fairness import ShareTree

#: An argument of a wrong type.
Wrong: TypeAlias = Any


@pytest.mark.parametrize(
    ("accounts", "users"),
    [
        ({"a": -1}, {}),
        ({"a": 1.5}, {}),
        ({"a": True}, {}),
        ({"a": "all"}, {}),
        ({"a//b": 1, "a": 1}, {}),
        ({"": 1}, {}),
        ({"a/b": 1}, {}),
        ({}, {"a/ana": 1}),
        ({"a": 1}, {"a": 1}),
        ({}, {"ana": 1, "ana/ben": 1}),
    ],
)
def test_invalid_trees(accounts: Wrong, users: Wrong) -> None:
    """A tree with an invalid path or share, without an account, or with something below a user is an error."""
    with pytest.raises(RequestError):
        ShareTree(accounts, users)


@pytest.mark.parametrize("amount", [-1, 0.5, True, "1"])
def test_invalid_usage(amount: Wrong) -> None:
    """Usage is exact and not negative."""
    with pytest.raises(RequestError):
        ShareTree({}, {"ana": 1}).rank({"ana": amount})


def test_users_by_name() -> None:
    """A user can be named without its account if only one user has the name; unknown owners are ignored."""
    tree = ShareTree({"a": 1, "b": 1}, {"a/ana": 1, "a/ben": 1, "b/ana": 1})

    assert tree.rank({"ben": 1, "zoe": 9}).order == (("b/ana",), ("a/ana",), ("a/ben",))
    assert tree.path_of("ben") == "a/ben"
    assert tree.path_of("zoe") is None
    with pytest.raises(RequestError, match="several users"):
        tree.rank({"ana": 1})


def test_deep_tree() -> None:
    """The depth of a tree is not bounded by the stack."""
    paths = ["/".join(["a"] * depth) for depth in range(1, 3000)]

    assert ShareTree(dict.fromkeys(paths, 1), {f"{paths[-1]}/ana": 1}).rank({"ana": 1}).rank(f"{paths[-1]}/ana") == 1


def test_nearly_equal_levels() -> None:
    """Levels whose floats are equal are compared exactly."""
    big = 2**60
    rank = ShareTree({}, {"ana": big, "ben": big, "eva": big}).rank({"ana": big + 1, "ben": big, "eva": big + 1})

    assert rank.order == (("ben",), ("ana", "eva"))


def test_nothing_used_and_no_shares() -> None:
    """A user without shares comes last, also without usage: 0 divided by 0 is no advantage, as it was in Kueue."""
    assert ShareTree({}, {"ana": 0, "ben": 1}).rank({"ben": 100}).order == (("ben",), ("ana",))


def test_explanation_in_words() -> None:
    """An explanation names the nodes that decide."""
    rank = ShareTree({"a": 1, "b": 1}, {"a/ana": 1, "b/ben": 1, "b/eva": 1}).rank({"ben": 1})

    assert str(rank.explain("b/ben", "a/ana")) == "b/ben comes after a/ana: b has level 1/2, a has level infinity"
    assert str(rank.explain("a/ana", "a/ana")) == "a/ana ties with a/ana"
    assert rank.explain("b/eva", "b/ben").account == "b"
