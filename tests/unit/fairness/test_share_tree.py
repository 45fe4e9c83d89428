"""Share trees: misuse, names of users, ties, and the errors of other implementations."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeAlias

import pytest

from ugm import RequestError
from ugm.fairness import INFINITE, PARENT, Shares, ShareTree

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


def test_unknown_nodes() -> None:
    """A question about an unknown user or a dissolved account is an error."""
    rank = ShareTree({"a": PARENT}, {"a/ana": 1}).rank({})

    for question in (rank.rank, rank.factor, rank.level):
        with pytest.raises(RequestError):
            question("a")


def test_account_without_users() -> None:
    """An account without users takes no part, but its shares count."""
    rank = ShareTree({"a": 3, "b": 1}, {"b/ana": 1}).rank({"ana": 1})

    assert rank.node("b").share == Fraction(1, 4)
    assert rank.order == (("b/ana",),)


def test_empty_tree() -> None:
    """A tree without users has an empty order."""
    assert ShareTree({"a": 1}, {}).rank({}).order == ()


def test_deep_tree() -> None:
    """The depth of a tree is not bounded by the stack."""
    paths = ["/".join(["a"] * depth) for depth in range(1, 3000)]

    assert ShareTree(dict.fromkeys(paths, 1), {f"{paths[-1]}/ana": 1}).rank({"ana": 1}).factor(f"{paths[-1]}/ana") == 1


def test_huge_numbers() -> None:
    """Shares and usages beyond the range of floats are compared exactly."""
    big = 10**400
    rank = ShareTree({}, {"ana": big, "ben": big, "eva": 1}).rank({"ana": 1, "ben": 2, "eva": big})

    assert rank.order == (("ana",), ("ben",), ("eva",))


def test_nearly_equal_levels() -> None:
    """Levels whose floats are equal are compared exactly."""
    big = 2**60
    rank = ShareTree({}, {"ana": big, "ben": big, "eva": big}).rank({"ana": big + 1, "ben": big, "eva": big + 1})

    assert rank.order == (("ben",), ("ana", "eva"))


def test_tied_accounts_are_merged() -> None:
    """Users of accounts with equal levels compete with one another. Slurm stops counting ties at the next account."""
    tree = ShareTree({"a": 1, "b": 1}, {"a/1": 1, "a/2": 3, "b/1": 1, "b/2": 3})
    usage = {f"{account}/{user}": 1 for account in "ab" for user in "12"}

    assert tree.rank(usage).order == (("a/2", "b/2"), ("a/1", "b/1"))


def test_merged_inside_merged() -> None:
    """Accounts with equal levels are merged at every depth. flux-accounting merges only at the top."""
    accounts = {"a": 1, "b": 1, "a/x": 1, "b/x": 1}
    tree = ShareTree(accounts, {"a/x/1": 2, "a/x/2": 1, "b/x/1": 2, "b/x/2": 1})
    rank = tree.rank({f"{account}/x/{user}": 5 for account in "ab" for user in "12"})

    assert rank.order == (("a/x/1", "b/x/1"), ("a/x/2", "b/x/2"))


def test_levels_differ_by_less_than_an_epsilon() -> None:
    """Levels that differ only after many digits differ. flux-accounting takes them for equal."""
    rank = ShareTree({}, {"ana": 10**15, "ben": 10**15 + 1}).rank({"ana": 1, "ben": 1})

    assert rank.order == (("ben",), ("ana",))


def test_no_rounding_artefact() -> None:
    """40 of 170 shares at 20 of 110 used equal 50 of 170 at 25 of 110. Slurm prints different figures."""
    users: dict[str, Shares] = {"parent": PARENT, "ana": 40, "ben": 50, "eva": 30, "zoe": 50}
    rank = ShareTree({}, users).rank({"parent": 30, "ana": 20, "ben": 25, "eva": 10, "zoe": 25})

    assert rank.level("ana") == rank.level("ben") == Fraction(22, 17)
    assert ("ana", "ben", "zoe") in rank.order


def test_infinity_and_shares_are_exact() -> None:
    """Infinity is no large number, and shares are fractions: flux-accounting documents 1.84467 and 0.909091."""
    rank = ShareTree({}, {"ana": 100, "ben": 10}).rank({"ben": 1})

    assert (rank.level("ana"), rank.node("ben").share) == (INFINITE, Fraction(1, 11))


def test_nothing_used_and_no_shares() -> None:
    """A user without shares comes last, also without usage: 0 divided by 0 is no advantage, as it was in Kueue."""
    assert ShareTree({}, {"ana": 0, "ben": 1}).rank({"ben": 100}).order == (("ben",), ("ana",))


def test_explanation_in_words() -> None:
    """An explanation names the nodes that decide."""
    rank = ShareTree({"a": 1, "b": 1}, {"a/ana": 1, "b/ben": 1, "b/eva": 1}).rank({"ben": 1})

    assert str(rank.explain("b/ben", "a/ana")) == "b/ben comes after a/ana: b has level 1/2, a has level infinity"
    assert str(rank.explain("a/ana", "a/ana")) == "a/ana ties with a/ana"
    assert rank.explain("b/eva", "b/ben").account == "b"


def test_explanation_of_a_prefix() -> None:
    """A user whose key begins the key of another ties with the best user of that account."""
    rank = ShareTree({"a": 1}, {"ana": 1, "a/ben": 1, "a/eva": 2}).rank({})

    assert rank.order == (("a/ben", "a/eva", "ana"),)
    assert str(rank.explain("ana", "a/eva")) == "ana ties with a/eva: all compared levels are equal"
