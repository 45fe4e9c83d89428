"""Fair shares of a partition: the shares of its users, and their decayed usage.

The object is a quota model that denies nothing. The partition tells it every allocation and every release with their
times, also those of the past if the partition has a store. In return it ranks the users for queues with the sort
policy ``share``.

`LatestGroups` has the groups of each user when it last began to use something. They place a user that the share tree
does not list.

The problem: a partition charges and refunds claims that are undone, for a gang that is denied, for a plan, or because
an operation has failed. Undone calls must leave the groups as they were, also if their undoing is interrupted. And it
charges all claims of its ledger again, which began earlier, after an interruption, a restart or another configuration.

The idea: within one operation, a refund of a noted claim restores the groups before it, and an allocation that is
charged again after its refund is not noted. So both are exact inverses, and a resized allocation stays in its account.
A claim of the ledger is noted only if its user has no groups, or if it was noted by the operation that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final, final

from ugm._json_values import JsonMapping
from ugm.errors import RequestError
from ugm.fairness.rank import FairRank, RankExplanation, Shares, ShareTree, is_path
from ugm.fairness.usage_history import DecayedUsage
from ugm.identity import UserGroup
from ugm.model import Claim, ReportingModel

_NO_GROUPS: Final[tuple[str, ...]] = ()


@final
class LatestGroups:
    """The groups of users, which follow the claims of a quota model."""

    _by_user: dict[str, tuple[str, ...]]
    #: The number of the present operation, and that of the operation whose steps are known.
    _operation: int
    _tracked: int
    #: The claims that the operation has noted, with the groups before. By identity: an undone call has the same claim.
    _noted: dict[int, tuple[Claim, tuple[str, ...]]]
    #: The allocations that the operation has refunded.
    _refunded: set[str]
    #: The allocations whose claims were noted before a reset.
    _undone: set[str]
    #: Whether the claims are those of the ledger.
    _is_ledger: bool
    #: The allocations of the ledger that count for users who had no groups.
    _first: dict[str, str]

    def __init__(self, by_user: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self._by_user = dict(by_user or {})
        self._operation = self._tracked = 0
        self._noted, self._refunded, self._undone = {}, set(), set()
        self._is_ledger, self._first = False, {}

    def begin(self) -> None:
        """Begin an operation."""
        self._operation += 1
        self._is_ledger = False

    def expect_ledger(self) -> None:
        """Expect the claims of the ledger, in any order. Of those of a user without groups, the first id counts."""
        self._is_ledger, self._first = True, {}

    def charge(self, claim: Claim) -> None:
        """Note the groups of a user that begins to use something. A user without groups stays where it is."""
        user = claim.user
        if not user.groups:
            return
        if self._is_ledger:
            self._charge_again(claim)
        elif user.groups != self._by_user.get(user.name):
            self._track()
            if claim.allocation_id in self._refunded:
                self._refunded.discard(claim.allocation_id)
            else:
                self._note(claim)

    def _charge_again(self, claim: Claim) -> None:
        user, allocation_id = claim.user.name, claim.allocation_id
        if allocation_id in self._undone:
            self._note(claim)
        elif user not in self._by_user or allocation_id < self._first.get(user, ""):
            self._first[user] = allocation_id
            self._note(claim)

    def _note(self, claim: Claim) -> None:
        user = claim.user
        self._noted[id(claim)] = claim, self.of(user.name)
        self._set(user.name, user.groups)

    def refund(self, claim: Claim) -> None:
        """Undo the charge of a claim in the present operation. An earlier charge stays noted."""
        self._track()
        noted = self._noted.get(id(claim))
        if noted is None:
            self._refunded.add(claim.allocation_id)
            return
        self._set(claim.user.name, noted[1])
        del self._noted[id(claim)]

    def reset(self) -> None:
        """Undo what the last operation has noted, which may have failed. The claims of the ledger are charged again."""
        for claim, before in reversed(self._noted.values()):
            self._set(claim.user.name, before)
        # If the operation has succeeded, they are in the ledger.
        self._undone.update(claim.allocation_id for claim, _ in self._noted.values())
        self._noted, self._refunded = {}, set()
        self.expect_ledger()

    def _track(self) -> None:
        """Forget the steps of an earlier operation. Its claims that are still noted are those of the ledger."""
        if self._tracked != self._operation:
            self._noted, self._refunded, self._undone = {}, set(), set()
            self._tracked = self._operation

    def _set(self, user: str, groups: tuple[str, ...]) -> None:
        if groups:
            self._by_user[user] = groups
        else:
            self._by_user.pop(user, None)

    def of(self, user: str) -> tuple[str, ...]:
        """Return the groups of a user; none for a user that has used nothing."""
        return self._by_user.get(user, _NO_GROUPS)

    def copy(self) -> LatestGroups:
        """Return the same groups without an operation."""
        return LatestGroups(self._by_user)

    def to_dict(self) -> dict[str, list[str]]:
        """Return the groups of all users, for JSON."""
        return {user: list(groups) for user, groups in self._by_user.items()}


@final
class FairShares(ReportingModel):
    """The shares of the users of a partition, and what they have used.

    Args:
        tree: the accounts and users with their shares.
        usage: a new measure of usage, which counts by user name.
        default_shares: the shares of each user that the tree does not have. It belongs to the account that has the name
            of one of its groups, the first that there is, or else to none. With 0, these users come after all others.
        decay: identifies how usage is measured. Shares that replace others with an equal identity keep their usage.

    Raises:
        RequestError: an argument is invalid, or two users of the tree have the same name.

    >>> from ugm import Partition, Resource, parse_config
    >>> from ugm.fairness import ContinuousUsage
    >>> shares = FairShares(ShareTree({}, {"ana": 1, "ben": 1}), ContinuousUsage(half_life=3600))
    >>> queues = "[{name: prod, properties: {application.sort.policy: share}}]"
    >>> config = parse_config(f"partitions: [{{queues: {queues}}}]").partition()
    >>> now = iter(range(0, 6000, 600))
    >>> partition = Partition(config, models=[shares], clock=lambda: next(now))
    >>> for name in ("ana", "ben"):
    ...     _ = partition.submit(name, UserGroup(name), "root.prod")
    >>> partition.allocate("ana.0", "ana", Resource(vcore=1)).allowed
    True
    >>> all(partition.request(f"{name}.1", name, Resource(vcore=1)) for name in ("ana", "ben"))
    True
    >>> [turn.user for turn in partition.order()]
    ['ben', 'ana']
    >>> print(shares.explain("ben", "ana"))
    ben comes before ana: ben has level infinity, ana has level 1/2
    """

    #: Shares only order requests.
    may_deny: Final = False
    sees_nodes: Final = False

    def __init__(
        self, tree: ShareTree, usage: DecayedUsage[Any], *, default_shares: int = 0, decay: object = None
    ) -> None:
        if not isinstance(tree, ShareTree):
            raise RequestError("tree", tree, "expected a ShareTree")
        if not isinstance(usage, DecayedUsage):
            raise RequestError("usage", usage, "expected a BinnedUsage or a ContinuousUsage")
        if type(default_shares) is not int or default_shares < 0:
            raise RequestError("default_shares", default_shares, "expected an int of at least 0")
        #: The accounts and the listed users.
        self.tree: Final = tree
        self.default_shares: Final = default_shares
        #: What the users have used, by name.
        self.usage: DecayedUsage[Any] = usage
        #: Identifies how usage is measured.
        self.decay: Final = decay
        #: The groups of each user that has used something, when it last began to.
        self._groups: LatestGroups = LatestGroups()
        #: The time of the last call of the partition.
        self.now: int = 0
        #: The tree that was used last, with the users that it adds to `tree`.
        self._tree: tuple[frozenset[str], ShareTree] = frozenset(), tree
        #: The account of each group: the one that has its name, of several the first by path.
        self._accounts: Final = {_last(path): path for path in sorted(tree.accounts, reverse=True)}
        self._listed: Final = frozenset(map(_last, tree.users))
        for name in self._listed:
            tree.path_of(name)

    # Called by the partition

    def at(self, now: int) -> None:
        """Note the time of an operation, in seconds."""
        self.now = now
        self._groups.begin()

    def check(self, claim: Claim) -> tuple[()]:  # noqa: ARG002 - nothing is limited
        """Return no limit: shares only order requests."""
        return ()

    def charge(self, claim: Claim) -> None:
        """Count a claim for its user from now on."""
        self.usage.add_use(claim.user.name, claim.usage, self.now)
        self._groups.charge(claim)

    def refund(self, claim: Claim) -> None:
        """Stop counting a claim. What it has used stays."""
        self.usage.remove_use(claim.user.name, claim.usage, self.now)
        self._groups.refund(claim)

    def reset(self) -> None:
        """Forget all claims. What they have used up to now stays."""
        self.usage.stop_all(self.now)
        self._groups.reset()

    def forget(self) -> None:
        """Forget all claims and all past usage."""
        self.usage.clear()
        self._groups = LatestGroups()
        self.now = 0

    # The past

    def save(self) -> JsonMapping:
        """Return the past usage, with the rates at which it grows, as plain data for `load`; claims are left out."""
        return {"now": self.now, "usage": self.usage.save(), "groups": self._groups.to_dict()}

    def load(self, data: JsonMapping) -> None:
        """Bring new shares with the same decay into the state of `save` at its last call, without claims.

        Raises:
            LookupError, ValueError, TypeError, ArithmeticError: the data are not those of `save`.
        """
        self.now = data["now"]
        self.usage.load(data["usage"], self.now)
        self._groups = LatestGroups({user: _loaded(groups) for user, groups in dict(data["groups"]).items()})

    def continue_past(self, old: FairShares) -> None:
        """Continue the usage of the shares that these replace, up to the last call; without claims.

        If usage is measured in another way, its value now is what counts of it later.
        """
        self._groups = old._groups.copy()
        if old.decay == self.decay:
            self.usage.load(old.usage.save(), self.now)
            return
        for user, value in old.usage.at(self.now).items():
            self.usage.add(user, value, self.now)

    def expect_ledger(self) -> None:
        """Expect the claims of the ledger, which began earlier, up to the next call of `at`."""
        self._groups.expect_ledger()

    # The ranking of users

    def rank(self, users: Iterable[UserGroup] = ()) -> FairRank:
        """Return the order of the users now.

        Args:
            users: users to rank besides those that are listed or have used something.
        """
        return self.capture_rank(users)()

    def capture_rank(self, users: Iterable[UserGroup] = ()) -> Callable[[], FairRank]:
        """Return a function that returns the order of the users at this moment, for a caller that holds a lock now."""
        now, unlisted = self.now, dict(self._unlisted(users))
        return lambda: self._tree_with(unlisted).rank(self._usage_at(now))

    def _unlisted(self, users: Iterable[UserGroup]) -> Iterator[tuple[str, Shares]]:
        """Yield the path and the shares of each user that the tree does not list."""
        if self.default_shares:
            known = {name: self._groups.of(name) for name in self.usage.owners}
            for name, groups in {**{user.name: user.groups for user in users}, **known}.items():
                if name not in self._listed and not is_path(name) and name:
                    yield self._path(name, groups), self.default_shares

    def _path(self, name: str, groups: Iterable[str]) -> str:
        account = None
        if self._accounts:
            account = next((self._accounts[group] for group in groups if group in self._accounts), None)
        path = name if account is None else f"{account}/{name}"
        # An account may have the name of the user.
        return path if path not in self.tree.accounts else f"{path}/{name}"

    def _tree_with(self, unlisted: Mapping[str, Shares]) -> ShareTree:
        names, tree = self._tree
        if names != unlisted.keys():
            tree = ShareTree(self.tree.accounts, {**self.tree.users, **unlisted})
            self._tree = frozenset(unlisted), tree
        return tree

    def _usage_at(self, now: int) -> dict[str, Fraction]:
        """Return the usage of the users at a time. A name with a slash is left out: it would be the path of another."""
        return {user: value for user, value in self.usage.at(now).items() if not is_path(user)}

    def explain(self, first: str, second: str) -> RankExplanation:
        """Return the reason for the order of two users now.

        Args:
            first: the name or the path of a user.
            second: the same of the other user.

        Raises:
            RequestError: one of them is not ranked.
        """
        tree = self._tree_with(dict(self._unlisted(())))
        return _explained(tree, self._usage_at(self.now), first, second)

    # Reports

    def state(self) -> JsonMapping:
        """Return the users with usage, places and levels, the best first, and the accounts. Exact numbers are texts."""
        return self.capture_state()()

    def capture_state(self) -> Callable[[], JsonMapping]:
        """Return a function that returns the state of this moment."""
        now, capture = self.now, self.capture_rank()
        return lambda: {"as_of": now, **_ranked(capture())}

    def definition(self) -> JsonMapping:
        """Return the shares as plain data."""
        return {
            "accounts": dict(self.tree.accounts),
            "users": dict(self.tree.users),
            "default_shares": self.default_shares,
        }

    def verify(self, held: Mapping[str, Claim], pending: Mapping[str, Claim]) -> Iterator[str]:  # noqa: ARG002 - pending claims do not count
        """Yield a message for every user whose usage is not that of the held claims."""
        expected = self.usage.new()
        for claim in held.values():
            expected.add_use(claim.user.name, claim.usage, self.now)
        wanted, found = expected.rates(), self.usage.rates()
        for user in sorted({**wanted, **found}):
            if wanted.get(user) != found.get(user):
                yield f"fair shares: the usage of {user!r} counts other claims than those that are held"


def explain_shares(definition: JsonMapping, state: JsonMapping, first: str, second: str) -> RankExplanation:
    """Return the reason for the order of two users, from the definition and the state of `FairShares` as plain data.

    Raises:
        RequestError: one of the users is not ranked.
    """
    users = {one["path"]: definition["users"].get(one["path"], definition["default_shares"]) for one in state["users"]}
    usage = {one["path"]: _fraction(one["usage"]) for one in state["users"]}
    return _explained(ShareTree(definition["accounts"], users), usage, first, second)


def _loaded(groups: object) -> tuple[str, ...]:
    if not isinstance(groups, list) or not all(type(group) is str for group in groups):
        raise TypeError(groups)
    return tuple(groups)


def _fraction(text: str) -> Fraction:
    """Return the number that `number_text` has written; both parts of a long one have exponents."""
    numerator, _, denominator = text.partition("/")
    return Fraction(numerator) / Fraction(denominator or 1)


def _explained(tree: ShareTree, usage: Mapping[str, Fraction], first: str, second: str) -> RankExplanation:
    return tree.rank(usage).explain(tree.path_of(first) or first, tree.path_of(second) or second)


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _ranked(rank: FairRank) -> dict[str, object]:
    return {"users": list(_users(rank)), "accounts": [rank.node(path).to_dict() for path in rank.accounts()]}


def _users(rank: FairRank) -> Iterator[dict[str, object]]:
    for group in rank.order:
        for path in group:
            yield {"user": _last(path), "place": rank.place(path), "rank": rank.rank(path), **rank.node(path).to_dict()}
