"""Laws of Fair Tree: nothing depends on the order of siblings or on units, and accounts order their users."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from ugm.fairness import PARENT, FairRank, Shares, ShareTree

_SHARES: st.SearchStrategy[Shares] = st.one_of(st.integers(0, 4), st.just(PARENT))


@st.composite
def trees(draw: st.DrawFn) -> tuple[dict[str, Shares], dict[str, Shares], dict[str, int | Fraction]]:
    """Draw accounts and users with shares, and the usage of the users."""
    accounts: dict[str, Shares] = {}
    for number in range(draw(st.integers(0, 6))):
        above = draw(st.sampled_from(["", *(f"{path}/" for path in accounts)]))
        accounts[f"{above}a{number}"] = draw(_SHARES)
    users: dict[str, Shares] = {}
    for number in range(draw(st.integers(1, 8))):
        above = draw(st.sampled_from(["", *(f"{path}/" for path in accounts)]))
        users[f"{above}u{number}"] = draw(_SHARES)
    usage: dict[str, int | Fraction] = {path: draw(st.integers(0, 4)) for path in users}
    return accounts, users, usage


@given(trees(), st.randoms(use_true_random=False))
def test_order_of_siblings(
    tree: tuple[dict[str, Shares], dict[str, Shares], dict[str, int | Fraction]], rng: object
) -> None:
    """The order in which accounts and users are listed does not matter."""
    accounts, users, usage = tree
    shuffled: list[dict[str, Shares]] = []
    for nodes in (accounts, users):
        items = list(nodes.items())
        rng.shuffle(items)  # type: ignore[attr-defined] # a Random
        shuffled.append(dict(items))

    assert ShareTree(*shuffled).rank(usage).order == ShareTree(accounts, users).rank(usage).order


@given(trees())
def test_accounts_order_their_users(
    tree: tuple[dict[str, Shares], dict[str, Shares], dict[str, int | Fraction]],
) -> None:
    """If an account is above another under their nearest common account, so are all of its users."""
    accounts, users, usage = tree
    rank = ShareTree(accounts, users).rank(usage)
    for first in users:
        for second in users:
            _check_pair(rank, first, second)


def _check_pair(rank: FairRank, first: str, second: str) -> None:
    explained = rank.explain(first, second)
    levels = [(step.first.level, step.second.level) for step in explained.steps]
    deciding = next((pair for pair in levels if pair[0] != pair[1]), None)
    if deciding is not None:
        assert explained.verdict == ("before" if deciding[0] > deciding[1] else "after")
        assert (rank.rank(first) > rank.rank(second)) == (deciding[0] > deciding[1])
