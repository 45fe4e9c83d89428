"""Endpoints for quota models: accounts of budgets and their changes, shares of users, crossed thresholds, and trees."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct, structs

from ugm.budgets import AccountState, BudgetChange, BudgetChangeKind
from ugm.configuration.model_kinds import THRESHOLD_KINDS
from ugm.fairness.rank import RankedNode, RankExplanation
from ugm.partition import ThresholdCrossed, ThresholdWatch
from ugm.partition.interface.operation_kinds import Role
from ugm.resources import Resource
from ugm.server.http.payloads import require_found
from ugm.server.interface.route import PARTITION, Call, Routes, ServedPartition
from ugm.server.interface.schemas import ListQuery, Name, Object
from ugm.server.queries import account_dict, account_reports, accounts_of, explain_shares_of, listed_accounts, shares_of
from ugm.server.views.model_trees import MEASURES, BorrowingConsumer, ModelTree, TreeItem, trees_of

_LOGGER: Final = logging.getLogger(__name__)
ROUTES: Final = Routes()


class BudgetAccounts(Struct):
    """A page of accounts."""

    #: The second of the amounts; None if there are no accounts.
    now: int | None
    total: int
    accounts: list[Annotated[Object, AccountState]]


class AccountsQuery(ListQuery, forbid_unknown_fields=True):
    """The filters, the order and the page of accounts."""

    budget: Name = ""
    owner: Name = ""
    sort: Literal["exhausted", "name", "remaining", "share"] = "share"


@ROUTES.get(f"{PARTITION}/budgets")
def budgets(served: ServedPartition, *, query: AccountsQuery) -> BudgetAccounts:
    """List the accounts of budgets, those with the largest used part of their limit first, or in another order."""
    reports = served.partition.model_reports()
    terms = {"sort": query.sort, "search": query.search, "budget": query.budget, "owner": query.owner}
    found = listed_accounts(accounts_of(reports), **terms)
    now = max((one.state["now"] for one in account_reports(reports)), default=None)
    return BudgetAccounts(now, len(found), [account_dict(one) for one in query.page(found)])


class Change(Struct, forbid_unknown_fields=True):
    """The change of a budget; see `ugm.budgets.BudgetChange`. A reason is required.

    The amounts are base units times seconds, even if the configuration declares the budget with ``unit: hour``.
    """

    kind: BudgetChangeKind
    budget: Name
    amounts: Resource
    reason: Annotated[str, Meta(min_length=1, max_length=1000)]
    owner: Name = ""
    recipient: Name = ""
    recipient_owner: Name = ""
    change_id: Name = ""


class BudgetChanged(Struct):
    """The answer to a change of a budget: whether it was made now; False if it was made before."""

    changed: bool


@ROUTES.post(f"{PARTITION}/change_budget", role=Role.OPERATOR)
def change_budget(served: ServedPartition, call: Call, *, body: Change) -> BudgetChanged:
    """Set the amounts of a budget, refill an account, or transfer what remains to another, with a reason."""
    target = f"{served.name}: {body.kind} {body.budget}: {body.reason}"
    with call.operation("change_budget", target):
        is_new = served.partition.change_budget(BudgetChange(**structs.asdict(body)).checked())
        call.outcome = "ok" if is_new else "repeated"
    return BudgetChanged(is_new)


# Shares and thresholds


class RankedUser(RankedNode):
    """A user."""

    user: str
    place: int
    rank: int


class Shares(Struct):
    """A page of users, and their accounts."""

    #: None if the partition has no fair shares.
    as_of: int | None
    total: int
    users: list[Annotated[Object, RankedUser]]
    accounts: list[Annotated[Object, RankedNode]]
    explanation: Annotated[Object, RankExplanation] | None


class SharesQuery(ListQuery, forbid_unknown_fields=True):
    """The page of users, and two users whose order is explained."""

    first: Name = ""
    second: Name = ""


@ROUTES.get(f"{PARTITION}/shares")
def shares(served: ServedPartition, *, query: SharesQuery) -> Shares:
    """List the users by their shares, the best first, with their accounts, and explain the order of two users."""
    reports = served.partition.model_reports()
    report = shares_of(reports)
    if report is None or report.definition is None:
        return Shares(None, 0, [], [], None)
    users = [user for user in report.state["users"] if query.matches(user["path"])]
    listed = query.page(users)
    # The accounts that contain some of the users.
    accounts = [one for one in report.state["accounts"] if any(f"{one['path']}/" in user["path"] for user in listed)]
    first, second = query.first, query.second
    explanation = explain_shares_of(reports, first, second) if first and second else None
    return Shares(report.state["as_of"], len(users), listed, accounts, explanation)


class Thresholds(Struct):
    """A page of crossed thresholds, all thresholds in percent, and the kinds of limits that can have thresholds."""

    shares: tuple[int, ...]
    total: int
    crossed: list[ThresholdCrossed]
    kinds: tuple[str, ...] = THRESHOLD_KINDS


if TYPE_CHECKING:
    _ThresholdKind: TypeAlias = str
else:
    _ThresholdKind = Literal[("", *THRESHOLD_KINDS)]


class ThresholdsQuery(ListQuery, forbid_unknown_fields=True):
    """The filters and the page of thresholds."""

    kind: _ThresholdKind = ""


@ROUTES.get(f"{PARTITION}/thresholds")
def thresholds(served: ServedPartition, *, query: ThresholdsQuery) -> Thresholds:
    """List the thresholds that usage is above, those with the largest used part of their limit first."""
    watch = served.thresholds
    found = [one for one in watch.crossed if query.matches(one.name) and query.kind in ("", one.kind)]
    found.sort(key=lambda one: (-one.share, one.kind, one.name, one.place, one.resource or "", -one.threshold))
    return Thresholds(watch.shares, len(found), query.page(found))


def log_crossings(name: str, watch: ThresholdWatch) -> None:
    """Evaluate the thresholds of a partition, and log each crossing; at first, those that usage is above."""
    for crossing in watch.update():
        _LOGGER.log(logging.WARNING if crossing.rising else logging.INFO, "partition %s: %s", name, crossing)


# Trees


class ListedTree(Struct):
    """A tree."""

    name: str
    kind: str
    mode: str
    nodes: int


class ListedModel(Struct):
    """A quota model, by the name of its class."""

    model: str
    is_suspended: bool


class Trees(Struct):
    """The trees and the quota models of a partition."""

    trees: list[ListedTree]
    models: list[ListedModel]


class TreeRow(Struct):
    """A node with its amounts of one resource by measure; the measures depend on the kind of the tree."""

    name: str
    parent: str
    is_hard: bool
    #: The number of consumers that it holds for nodes below.
    borrowers: int
    amounts: dict[str, int | None]


class Tree(ListedTree):
    """A tree with its amounts of one resource, every parent before its children."""

    borrowers: int
    resources: list[str]
    resource: str
    rows: list[TreeRow]


class TreeNodeDetail(Struct):
    """A node with its amounts of every resource."""

    name: str
    parent: str
    is_hard: bool
    path: list[str]
    children: int
    borrowers: int
    amounts: dict[str, Resource]


class Borrowers(Struct):
    """A page of consumers."""

    total: int
    consumers: list[BorrowingConsumer]


@ROUTES.get(f"{PARTITION}/trees")
def trees(served: ServedPartition) -> Trees:
    """List the trees of quota models, and all quota models of the partition."""
    reports = served.partition.model_reports()
    listed = [ListedTree(one.name, one.kind, one.mode, len(one.nodes)) for one in trees_of(reports)]
    return Trees(listed, [ListedModel(one.model, one.is_suspended) for one in reports])


@ROUTES.get(f"{PARTITION}/tree")
def tree(served: ServedPartition, *, tree: Name, resource: Name = "") -> Tree:
    """Return the nodes of a tree, with their amounts of one resource, by default the scarcest one."""
    found = _find(served, tree)
    resource = resource or next(iter(found.resources), "")
    rows = [
        TreeRow(name, one.parent, one.is_hard, found.held_for_others.get(name, 0), _amounts(one, resource))
        for name, one in found.nodes.items()
    ]
    own = found.name, found.kind, found.mode, len(rows), len(found.borrowers)
    return Tree(*own, list(found.resources), resource, rows)


def _amounts(node: TreeItem, resource: str) -> dict[str, int | None]:
    return {measure: amounts.get(resource) for measure, amounts in node.amounts.items()}


def _find(served: ServedPartition, name: str) -> ModelTree:
    by_name = {one.name: one for one in trees_of(served.partition.model_reports())}
    return require_found("tree", name, by_name.get)


@ROUTES.get(f"{PARTITION}/tree/node")
def tree_node(served: ServedPartition, *, tree: Name, node: Name) -> TreeNodeDetail:
    """Return one node of a tree with its amounts of every resource."""
    found = _find(served, tree)
    one = require_found("node", node, found.nodes.get)
    children, borrowers = len(found.children.get(node, ())), found.held_for_others.get(node, 0)
    amounts = {measure: one.amounts[measure] for measure in MEASURES[found.kind]}
    return TreeNodeDetail(node, one.parent, one.is_hard, list(found.path(node)), children, borrowers, amounts)  # type: ignore[arg-type]  # amounts


class BorrowersQuery(ListQuery, forbid_unknown_fields=True, kw_only=True):
    """The tree, the node and the page of consumers."""

    tree: Name
    node: Name = ""


@ROUTES.get(f"{PARTITION}/tree/borrowers")
def tree_borrowers(served: ServedPartition, *, query: BorrowersQuery) -> Borrowers:
    """Return a page of the consumers that a node above their own node holds; ``node`` holds or owns them."""
    matching = [
        one
        for one in _find(served, query.tree).borrowers
        if query.node in ("", one.node, one.group) and query.matches(one.consumer_id)
    ]
    return Borrowers(len(matching), query.page(matching))
