"""Share trees, and the order of users by Fair Tree: first comes the user with the least usage for its shares.

The problem: the fairest user is the one whose *key* is highest: the list of the levels of its accounts, from the top
down, and of the user itself. Accounts with equal keys must not be ordered by chance, so their users compete as if they
were in one account.

The idea: one walk from the top. It starts with all accounts that have equal keys, which is the root alone, sorts all
their children by level at once, and continues with each group of children that have equal levels. Users of a group are
emitted before the users of its accounts. The best of these tie with them, because one key begins the other. A *level*
is how much of its share a competitor has left, as an exact fraction.

The cost: each account is visited once, and each competitor is sorted once.

Source: the Fair Tree algorithm of SchedMD Slurm; intentionally, accounts with equal levels are merged at every depth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cmp_to_key
from math import inf, lcm
from operator import itemgetter
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar, final

from ugm.arguments import require_instance, require_mapping, require_mapping_view, require_whole
from ugm.errors import RequestError, fields_text, number_text

T = TypeVar("T")

#: The level of a competitor without usage. It is greater than every fraction, and compares exactly with them.
INFINITE: Final = inf

_NEAREST: Final = itemgetter(0)

#: A fraction, or `INFINITE`; never another float.
Level: TypeAlias = Fraction | float


class Quotient(NamedTuple):
    """A level as a quotient that is not reduced, because reducing takes most of the time of a ranking."""

    #: Not negative.
    numerator: int
    #: Positive; 0 for an infinite level.
    denominator: int

    def level(self) -> Level:
        """Return the level."""
        return Fraction(*self) if self.denominator else INFINITE

    def nearest(self) -> float:
        """Return the nearest float.

        Python rounds the quotient of two integers correctly, so the floats of two levels are never in the wrong order:
        different floats decide, and equal ones leave the decision to the integers.
        """
        try:
            return self.numerator / self.denominator
        except (OverflowError, ZeroDivisionError):
            return inf


def groups_of_equals(items: Iterable[tuple[Quotient, T]]) -> Iterator[list[T]]:
    """Yield items with equal levels as groups, the highest level first."""
    sortable = sorted(((level.nearest(), level, item) for level, item in items), key=_NEAREST, reverse=True)
    start = 0
    while start < len(sortable):
        end, nearest = start + 1, sortable[start][0]
        while end < len(sortable) and sortable[end][0] == nearest:
            end += 1
        if end == start + 1:
            yield [sortable[start][2]]
        else:
            yield from _exact_groups([(level, item) for _, level, item in sortable[start:end]])
        start = end


def _exact_groups(items: list[tuple[Quotient, T]]) -> Iterator[list[T]]:
    """Yield the groups of items whose levels have the same float."""
    first = items[0][0]
    if all(_difference(level, first) == 0 for level, _ in items):
        yield [item for _, item in items]
        return
    order: Callable[[tuple[Quotient, T]], object] = cmp_to_key(lambda a, b: _difference(a[0], b[0]))
    group: list[T] = []
    before = first
    for level, item in sorted(items, key=order, reverse=True):  # type: ignore[arg-type] # its keys can be compared
        if group and _difference(level, before):
            yield group
            group = []
        group.append(item)
        before = level
    yield group


def _difference(one: Quotient, other: Quotient) -> int:
    """Return a number with the sign of the difference of two levels."""
    return one[0] * other[1] - other[0] * one[1]


#: Where the first of two users stands relative to the second.
Verdict: TypeAlias = Literal["before", "after", "tied"]

_NOTHING: Final = Quotient(0, 1)
_INFINITE: Final = Quotient(1, 0)


class Competitor(NamedTuple):
    """An account or a user below an account that is not dissolved."""

    path: str
    #: None for a user with the shares `PARENT`.
    shares: int | None
    is_user: bool


class UsedShares(NamedTuple):
    """An account that is not dissolved, with the usage of its users."""

    children: Sequence[Competitor]
    total_shares: int
    used: int

    def quotient(self, child: Competitor, used: int) -> Quotient:
        """Return the level of a child: its part of the shares, divided by its part of the usage."""
        if child.shares is None:
            return _INFINITE
        if not child.shares:
            return _NOTHING
        return Quotient(child.shares * self.used, self.total_shares * used) if used else _INFINITE


def level_text(level: Level) -> str:
    """Return a level as a text: a fraction, or ``infinity``."""
    return number_text(level) if isinstance(level, Fraction) else "infinity"


class RankedNode(NamedTuple):
    """An account or a user among its competitors."""

    path: str
    usage: Fraction
    #: Its part of the shares of its account; None for a user with the shares `PARENT`.
    share: Fraction | None
    #: Its part of the usage of its account.
    used: Fraction
    level: Level

    def __repr__(self) -> str:
        return fields_text(self, self._asdict())

    def to_dict(self) -> dict[str, object]:
        """Return the node for JSON; exact numbers are texts."""
        share = None if self.share is None else number_text(self.share)
        level, usage, used = level_text(self.level), number_text(self.usage), number_text(self.used)
        return {"path": self.path, "level": level, "share": share, "used": used, "usage": usage}


class RankStep(NamedTuple):
    """One comparison between two users: of the users, or of accounts above them."""

    first: RankedNode
    second: RankedNode


class RankExplanation(NamedTuple):
    """The reason for the order of two users."""

    first: str
    second: str
    #: The nearest common account that is not dissolved; empty for the root.
    account: str
    #: The compared nodes from the account downward. The levels of the last step decide if they differ.
    steps: tuple[RankStep, ...]
    verdict: Verdict

    def to_dict(self) -> dict[str, object]:
        """Return the reason for JSON; exact numbers are texts."""
        steps = [{"first": one.first.to_dict(), "second": one.second.to_dict()} for one in self.steps]
        return {**self._asdict(), "steps": steps, "text": str(self)}

    def __str__(self) -> str:
        head = f"{self.first} ties with {self.second}"
        if self.verdict != "tied":
            head = f"{self.first} comes {self.verdict} {self.second}"
        last = self.steps[-1] if self.steps else None
        if last is None:
            return head
        if last.first.level == last.second.level:
            return f"{head}: all compared levels are equal"
        levels = (f"{node.path} has level {level_text(node.level)}" for node in last)
        return f"{head}: {', '.join(levels)}"


def is_path(name: str) -> bool:
    """Return whether the name of a user would be the path of another one."""
    return "/" in name


@final
class FairRank:
    """The order of all users of a share tree for one usage; `ShareTree.rank` returns it.

    Attributes:
        order: groups of users that tie, the best first. The users of a group are sorted by path.

    Raises:
        RequestError: an argument is of another type.
    """

    def __init__(
        self,
        accounts: Mapping[str, UsedShares],
        used: Mapping[str, int],
        with_users: frozenset[str],
        paths: Mapping[str, str],
        scale: int,
    ) -> None:
        for argument, mapping in (("accounts", accounts), ("used", used), ("paths", paths)):
            require_mapping_view(argument, mapping)
        require_instance("with_users", with_users, frozenset)
        require_whole("scale", scale, 1)
        self._accounts: Final = accounts
        self._used: Final = used
        self._scale: Final = scale
        #: The path of each user by its path and by its name.
        self._paths: Final = paths
        #: The account in which each node competes, with its place among the children.
        self._parents: Final = {
            child.path: (path, child) for path, account in accounts.items() for child in account.children
        }
        self.order: Final = tuple(self._tie_groups(with_users))
        self._ranks: Final = dict(self._numbered())
        self._positions: Final = {path: number for number, group in enumerate(self.order) for path in group}

    def _tie_groups(self, with_users: frozenset[str]) -> Iterator[tuple[str, ...]]:
        """Yield the users that tie, the best first."""
        used = self._used
        # Groups of competitors with equal keys, the best one last.
        waiting: list[list[Competitor]] = [[Competitor("", 0, is_user=False)]] if "" in with_users else []
        tied: list[str] = []
        while waiting:
            group = waiting.pop()
            tied.extend(one.path for one in group if one.is_user)
            merged = [self._accounts[one.path] for one in group if not one.is_user]
            if not merged:
                yield tuple(sorted(tied))
                tied = []
                continue
            levels = (
                (account.quotient(child, used.get(child.path, 0)), child)
                for account in merged
                for child in account.children
                if child.is_user or child.path in with_users
            )
            waiting.extend(reversed(list(groups_of_equals(levels))))

    def _numbered(self) -> Iterator[tuple[str, int]]:
        rank = sum(map(len, self.order))
        for group in self.order:
            for path in group:
                yield path, rank
            rank -= len(group)

    def rank(self, user: str) -> int:
        """Return the number of users that are not better than a user; users that tie have the same rank.

        Raises:
            RequestError: there is no such user.
        """
        try:
            return self._ranks[user]
        except (KeyError, TypeError):
            raise RequestError("user", user, "the share tree has no such user", "object-unknown") from None

    def place(self, user: str) -> int:
        """Return the place of a user in the order: 1 plus the number of better users. Users that tie share a place.

        Raises:
            RequestError: there is no such user.
        """
        return len(self._ranks) + 1 - self.rank(user)

    def accounts(self) -> list[str]:
        """Return the paths of the accounts that compete, sorted; dissolved accounts do not."""
        return sorted(path for path, (_, child) in self._parents.items() if not child.is_user)

    def position_of_user(self, name: str) -> int:
        """Return the same as `position` for the name of a user, which is no path, even if it has a slash."""
        return self.position("" if is_path(name) else name)

    def describe_user(self, name: str) -> str:
        """Return the same as `describe` for the name of a user."""
        return self.describe("" if is_path(name) else name)

    def position(self, owner: str) -> int:
        """Return the number of tie groups before a user, given its path or a name that only one user has.

        A user that the tree does not have comes after all others.
        """
        return self._positions.get(self._paths.get(owner, ""), len(self.order))

    def describe(self, owner: str) -> str:
        """Return the place of a user as a text, given its path or a name that only one user has."""
        path = self._paths.get(owner, "")
        return f"place {self.place(path)} of {len(self._ranks)}" if path in self._ranks else "no place"

    def node(self, path: str) -> RankedNode:
        """Return the shares, the usage and the level of a user or an account.

        Raises:
            RequestError: there is no such node, or the account is dissolved.
        """
        try:
            above, child = self._parents[path]
        except (KeyError, TypeError):
            reason = "the share tree has no such node, or the account is dissolved"
            raise RequestError("path", path, reason, "object-unknown") from None
        account, used = self._accounts[above], self._used.get(path, 0)
        share = None if child.shares is None else Fraction(child.shares, account.total_shares or 1)
        part = Fraction(used, account.used or 1)
        return RankedNode(path, Fraction(used, self._scale), share, part, account.quotient(child, used).level())

    def explain(self, first: str, second: str) -> RankExplanation:
        """Return the reason for the order of two users.

        Raises:
            RequestError: there is no such user.
        """
        ranks = self.rank(first), self.rank(second)
        one, other = self._lineage(first), self._lineage(second)
        common = 0
        while one[common : common + 1] == other[common : common + 1] and common < len(one):
            common += 1
        steps = tuple(self._steps(zip(one[common:], other[common:], strict=False)))
        verdict: Verdict = "tied" if ranks[0] == ranks[1] else "before" if ranks[0] > ranks[1] else "after"
        return RankExplanation(first, second, one[common - 1] if common else "", steps, verdict)

    def _steps(self, pairs: Iterable[tuple[str, str]]) -> Iterator[RankStep]:
        for pair in pairs:
            step = RankStep(*map(self.node, pair))
            yield step
            if step.first.level != step.second.level:
                return

    def _lineage(self, path: str) -> list[str]:
        """Return the accounts that a node competes in, from the top, and the node."""
        found = [path]
        while above := self._parents[found[-1]][0]:
            found.append(above)
        return found[::-1]


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
