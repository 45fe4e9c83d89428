"""Share trees: the accounts of an organisation, and the users in them, with their shares.

Source of the ranking: the Fair Tree algorithm of SchedMD Slurm.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import lcm
from typing import Final, Literal, NamedTuple, TypeAlias, final

from ugm.arguments import require_mapping, require_mapping_view
from ugm.errors import RequestError
from ugm.fairness.rank import Competitor, FairRank, UsedShares

__all__ = ["PARENT", "ShareTree", "Shares"]

#: The shares of an account that is dissolved: its children compete with its siblings. A user with these shares has an
#: infinite level.
PARENT: Final = "parent"

#: A number of shares, or `PARENT`.
Shares: TypeAlias = int | Literal["parent"]

_ROOT: Final = ""


class _Account(NamedTuple):
    """An account that is not dissolved, with its competitors."""

    children: list[Competitor]
    total_shares: int


@final
class ShareTree:
    """Accounts and users with shares. It never changes, and can be ranked for any usage.

    Paths have the form ``account/account/user``. The shares of a node count only against those of its siblings.

    Args:
        accounts: the shares of each account by path. The account above must be listed, too, in any order.
        users: the shares of each user by path. Users at the top have no account above.

    Raises:
        RequestError: a path or a number of shares is invalid, an account is missing, or something is below a user.

    >>> tree = ShareTree({"physics": 40, "chemistry": 60}, {"physics/ana": 1, "physics/ben": 1, "chemistry/eva": 1})
    >>> rank = tree.rank({"ana": 20, "eva": 20})
    >>> rank.order
    (('chemistry/eva',), ('physics/ben',), ('physics/ana',))
    >>> print(rank.explain("physics/ana", "chemistry/eva"))
    physics/ana comes after chemistry/eva: physics has level 4/5, chemistry has level 6/5
    """

    __slots__ = ("_accounts", "_paths", "accounts", "users")

    def __init__(self, accounts: Mapping[str, Shares], users: Mapping[str, Shares]) -> None:
        #: The shares of each account.
        self.accounts: Final[Mapping[str, Shares]] = require_mapping("accounts", accounts)
        #: The shares of each user.
        self.users: Final[Mapping[str, Shares]] = require_mapping("users", users)
        for argument, nodes in (("accounts", self.accounts), ("users", self.users)):
            for path, shares in nodes.items():
                self._require_valid(argument, path, shares)
        self._accounts: Final = self._compile()
        self._paths: Final = self._paths_of_users()

    def _require_valid(self, argument: str, path: str, shares: Shares) -> None:
        if type(path) is not str or not all(path.split("/")):
            raise RequestError(argument, path, "expected names separated by '/'")
        if shares != PARENT and (type(shares) is not int or shares < 0):
            raise RequestError(argument, shares, f"the shares of {path} must be an int of at least 0, or 'parent'")
        above = path.rpartition("/")[0]
        if above and above not in self.accounts:
            raise RequestError(argument, path, f"there is no account {above}")
        if argument == "users" and path in self.accounts:
            raise RequestError(argument, path, "an account has the same path", "id-in-use")

    def _compile(self) -> dict[str, _Account]:
        """Return the accounts that are not dissolved, parents before children."""
        children: dict[str, list[Competitor]] = {_ROOT: []}
        nearest = {_ROOT: _ROOT}
        for path in sorted(self.accounts, key=lambda path: (path.count("/"), path)):
            above = nearest[path.rpartition("/")[0]]
            shares = self.accounts[path]
            if shares == PARENT:
                nearest[path] = above
            else:
                nearest[path] = path
                children[path] = []
                children[above].append(Competitor(path, int(shares), is_user=False))
        for path in sorted(self.users):
            shares = self.users[path]
            competitor = Competitor(path, None if shares == PARENT else int(shares), is_user=True)
            children[nearest[path.rpartition("/")[0]]].append(competitor)
        return {path: _Account(below, sum(one.shares or 0 for one in below)) for path, below in children.items()}

    def _paths_of_users(self) -> dict[str, str]:
        """Return the path of each user by its path, and by its name; empty if several users have the name."""
        by_name: dict[str, str] = {}
        for path in self.users:
            name = path.rpartition("/")[2]
            by_name[name] = "" if name in by_name else path
        return {**by_name, **{path: path for path in self.users}}

    def path_of(self, user: str) -> str | None:
        """Return the path of a user, given its path or its name; None if the tree does not have the user.

        Raises:
            RequestError: several users have this name, or it is not a text.
        """
        try:
            path = self._paths.get(user)
        except TypeError:
            raise RequestError("user", user, "expected a text") from None
        if path == "":
            raise RequestError("user", user, "several users have this name; expected a path")
        return path

    def rank(self, usage: Mapping[str, int | Fraction]) -> FairRank:
        """Return the order of all users for a given usage.

        The time is proportional to n log n for n users.

        Args:
            usage: the usage of each user, in any unit, by path or by a name that only one user has. A user that is
                missing has used nothing. A user that the tree does not have is ignored.

        Raises:
            RequestError: the usage is no mapping, a usage is negative or not exact, or several users have one of the
                names.
        """
        used, scale = self._used(usage)
        accounts: dict[str, UsedShares] = {}
        # Children come after their parents.
        for path, account in reversed(self._accounts.items()):
            total = sum(used.get(child.path, 0) for child in account.children)
            used[path] = total
            accounts[path] = UsedShares(account.children, account.total_shares, total)
        return FairRank(accounts, used, _with_users(self._accounts), self._paths, scale)

    def _used(self, usage: Mapping[str, int | Fraction]) -> tuple[dict[str, int], int]:
        """Return the usage of each user as integers, and the scale: scaling all usage changes no level."""
        found: dict[str, int | Fraction] = {}
        for owner, amount in require_mapping_view("usage", usage).items():
            if type(amount) not in (int, Fraction) or amount < 0:
                raise RequestError("usage", amount, f"the usage of {owner} must be an int or a Fraction of at least 0")
            path = self.path_of(owner)
            if path is not None:
                found[path] = found[path] + amount if path in found else amount
        ratios = {path: amount.as_integer_ratio() for path, amount in found.items()}
        scale = lcm(*{denominator for _, denominator in ratios.values()})
        # A product of fractions would be reduced, which takes much longer.
        return {path: numerator * (scale // denominator) for path, (numerator, denominator) in ratios.items()}, scale


def _with_users(accounts: Mapping[str, _Account]) -> frozenset[str]:
    """Return the accounts with users below them; the others take no part, although their shares count."""
    found: set[str] = set()
    for path in reversed(tuple(accounts)):
        account = accounts[path]
        if any(child.is_user or child.path in found for child in account.children):
            found.add(path)
    return frozenset(found)
