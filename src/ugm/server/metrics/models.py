"""Metrics of quota models: elastic groups, nodes of quota trees, accounts of budgets, and shares of users."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from math import inf
from typing import Final, final

from ugm._json_values import JsonMapping
from ugm.budgets import AccountState
from ugm.partition import ModelReport
from ugm.resources import VCORE, as_float
from ugm.server.metrics.samples import MetricSamples
from ugm.server.views.budgets import accounts_of
from ugm.server.views.model_trees import MEASURES, ModelTree, trees_of
from ugm.server.views.shares import shares_of

__all__ = ["ModelMetrics"]

#: The prefix of the metrics, and the label of a node, by kind of tree.
_NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "elastic": ("ugm_elastic_group", "group"),
    "quota": ("ugm_quota_node", "node"),
}
#: Separates the parts of the key of an account.
_SEPARATOR: Final = "\0"


@final
class ModelMetrics:
    """Adds the samples of the quota models of one partition.

    Args:
        samples: receives the samples.
        partition: the name of the partition.
        select: returns the names that have series of their own; see `ugm.server.metrics.collector`.
        most: the number of nodes of each tree, and of accounts, that do.
    """

    __slots__ = ("_most", "_partition", "_samples", "_select")

    def __init__(
        self,
        samples: MetricSamples,
        partition: str,
        select: Callable[[tuple[str, ...], int, Mapping[str, float]], list[str]],
        most: int,
    ) -> None:
        self._samples: Final = samples
        self._partition: Final = partition
        self._select: Final = select
        self._most: Final = most

    def add(self, reports: tuple[ModelReport, ...], users: Iterable[str]) -> None:
        """Add the samples.

        Args:
            reports: the states of the quota models.
            users: the users that have series of their own.
        """
        if reports:
            suspended = sum(report.is_suspended for report in reports)
            self._samples.add("ugm_suspended_models", suspended, partition=self._partition)
        for tree in trees_of(reports):
            shares = tree.shares()
            nodes = self._select((self._partition, "tree", tree.name), self._most, shares)
            self._add_tree(tree, [node for node in nodes if node in shares])
        self._add_accounts(accounts_of(reports))
        report = shares_of(reports)
        if report is not None:
            self._add_users(report.state["users"], frozenset(users))

    def _add_tree(self, tree: ModelTree, names: Iterable[str]) -> None:
        """Add some nodes of a tree.

        Clients choose the names of resources that they request, so only resources that a node limits have samples.
        """
        prefix, label = _NAMES[tree.kind]
        for node in map(tree.nodes.__getitem__, names):
            labels = {"partition": self._partition, "tree": tree.name, label: node.name}
            for measure in MEASURES[tree.kind]:
                amounts = node.amounts[measure]
                # A missing maximum is not 0.
                has_zeros = measure != "max"
                known = {name: amounts.get(name, 0) for name in tree.limited(node) if has_zeros or name in amounts}
                metric = "usage" if measure == "used" else measure
                self._samples.add_amounts(f"{prefix}_{metric}", known, **labels)
            if tree.kind == "quota":
                self._samples.add(f"{prefix}_borrowers", tree.held_for_others.get(node.name, 0), **labels)

    def _add_accounts(self, accounts: Iterable[AccountState]) -> None:
        by_key = {_SEPARATOR.join((one.budget, one.scope, one.owner, one.resource)): one for one in accounts}
        shares = {key: as_float(account.share) for key, account in by_key.items()}
        if not shares:
            return
        for key in self._select((self._partition, "budget"), self._most, shares):
            if key in by_key:
                self._add_account(by_key[key])

    def _add_account(self, account: AccountState) -> None:
        labels = {
            "partition": self._partition,
            "budget": account.budget,
            "owner": account.owner,
            "scope": account.scope,
            "resource": account.resource,
        }
        unit = 1000 if account.resource == VCORE else 1
        for name in ("limit", "settled", "committed", "remaining"):
            amount = as_float(Fraction(getattr(account, name)) / unit)
            self._samples.add(f"ugm_budget_{name}_unit_seconds", amount, **labels)

    def _add_users(self, ranked: Iterable[JsonMapping], users: frozenset[str]) -> None:
        for one in ranked:
            if one["user"] not in users:
                continue
            labels = {"partition": self._partition, "user": one["user"], "account": one["path"].rpartition("/")[0]}
            self._samples.add("ugm_fair_share_position", one["place"], **labels)
            self._samples.add("ugm_fair_share_usage_share", _number(one["used"]), **labels)
            self._samples.add("ugm_fair_share_level", _number(one["level"]), **labels)
            if one["share"] is not None:
                self._samples.add("ugm_fair_share_entitled_share", _number(one["share"]), **labels)


def _number(text: str) -> float:
    """Return an exact number of a report as a float; levels may be infinite."""
    return inf if "inf" in text else as_float(Fraction(text))
