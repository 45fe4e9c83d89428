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


@given(trees(), st.fractions(Fraction(1, 9), 9), st.integers(2, 9))
def test_units(
    tree: tuple[dict[str, Shares], dict[str, Shares], dict[str, int | Fraction]], scale: Fraction, factor: int
) -> None:
    """Scaling all usage, or all shares under one account, changes nothing."""
    accounts, users, usage = tree
    order = ShareTree(accounts, users).rank(usage).order

    assert ShareTree(accounts, users).rank({path: amount * scale for path, amount in usage.items()}).order == order
    # With dissolved accounts, siblings are not all that competes.
    if PARENT not in accounts.values():
        scaled = [{path: _scaled(path, one, factor) for path, one in nodes.items()} for nodes in (accounts, users)]
        assert ShareTree(*scaled).rank(usage).order == order


def _scaled(path: str, shares: Shares, factor: int) -> Shares:
    return shares * factor if isinstance(shares, int) and path.startswith("a0/") and path.count("/") == 1 else shares


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
