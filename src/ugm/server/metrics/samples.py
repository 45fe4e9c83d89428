"""The samples of one scrape by metric of the table, and those of quota models.

Quota models are elastic groups, nodes of quota trees, accounts of budgets, and shares of users.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import inf
from typing import Any, Final, TypeAlias, final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from ugm._json_values import JsonMapping
from ugm.budgets import AccountState
from ugm.partition import ModelReport
from ugm.resources import VCORE, as_float
from ugm.server.metrics.table import MetricKind, amount_unit, descriptions
from ugm.server.queries import accounts_of, shares_of
from ugm.server.views.model_trees import MEASURES, ModelTree, trees_of

__all__ = ["MetricSamples", "add_models"]

_FAMILIES: Final[Mapping[MetricKind, Any]] = {
    MetricKind.GAUGE: GaugeMetricFamily,
    MetricKind.COUNTER: CounterMetricFamily,
    MetricKind.HISTOGRAM: HistogramMetricFamily,
}


@final
class MetricSamples:
    """The samples of one scrape, and some labels that those which are added have.

    >>> samples = MetricSamples()
    >>> samples.of(partition="default").add("ugm_users", 3)
    >>> samples.of(partition="default").add_amounts("ugm_node_capacity", {"vcore": 4000, "memory": 8})
    >>> [(found.name, found.labels, found.value) for family in samples.families() for found in family.samples]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('ugm_users', {'partition': 'default'}, 3),
     ('ugm_node_capacity_cores', {'partition': 'default'}, 4.0),
     ('ugm_node_capacity_bytes', {'partition': 'default', 'resource': 'memory'}, 8.0)]
    """

    def __init__(self, families: dict[str, Any] | None = None, labels: Mapping[str, str] | None = None) -> None:
        self._families: Final = {} if families is None else families
        self._labels: Final = labels or {}

    def of(self, **labels: str) -> MetricSamples:
        """Return the same samples with further labels for those which are added."""
        return MetricSamples(self._families, {**self._labels, **labels})

    def add(self, name: str, value: float, /, **labels: str) -> None:
        """Add the value of a gauge or counter.

        Args:
            name: the name of the metric, with its unit if it has one.
            value: the value.
            labels: the other labels of the metric.
        """
        self._add(name, labels, value)

    def add_amounts(self, name: str, amounts: Mapping[str, int] | None) -> None:
        """Add a value for each resource to the metric of its unit."""
        for resource, amount in (amounts or {}).items():
            suffix, value, more = amount_unit(resource, amount)
            self._add(f"{name}{suffix}", more, value)

    def add_histogram(self, name: str, buckets: Sequence[tuple[float, int]], total: float) -> None:
        """Add durations: pairs (upper bound in seconds, number of durations up to it), and their sum in seconds."""
        ends = [("+Inf" if end == float("inf") else str(end), count) for end, count in buckets]
        self._add(name, {}, ends, total)

    def _add(self, name: str, labels: Mapping[str, str], *values: object) -> None:
        metric, found = descriptions()[name], {**self._labels, **labels}
        if name not in self._families:
            self._families[name] = _FAMILIES[metric.kind](metric.name, metric.sentence, labels=metric.labels)
        self._families[name].add_metric([_text(found[label]) for label in metric.labels], *values)

    def families(self) -> Iterator[Metric]:
        """Yield the metrics that have samples, in the order of the table."""
        return (self._families[name] for name in descriptions() if name in self._families)


def _text(name: str) -> str:
    """Return a name with escapes for text that is not valid UTF-8, which would make the whole scrape fail."""
    return name.encode(errors="backslashreplace").decode()


#: Returns the names that have series of their own, for a kind of names and the share of each.
_Select: TypeAlias = Callable[[tuple[str, ...], Mapping[str, float]], list[str]]
#: The prefix of the metrics, and the label of a node, by kind of tree.
_NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "elastic": ("ugm_elastic_group", "group"),
    "quota": ("ugm_quota_node", "node"),
}
#: Separates the parts of the key of an account.
_SEPARATOR: Final = "\0"


def add_models(samples: MetricSamples, select: _Select, reports: tuple[ModelReport, ...], users: Iterable[str]) -> None:
    """Add the samples of the quota models of one partition.

    Args:
        samples: receives the samples, with the label of the partition.
        select: returns the nodes and accounts that have series of their own.
        reports: the states of the quota models.
        users: the users that have series of their own.
    """
    if reports:
        samples.add("ugm_suspended_models", sum(report.is_suspended for report in reports))
    for tree in trees_of(reports):
        shares = tree.shares()
        _add_tree(samples, tree, [node for node in select(("tree", tree.name), shares) if node in shares])
    accounts = {_SEPARATOR.join((one.budget, one.scope, one.owner, one.resource)): one for one in accounts_of(reports)}
    if accounts:
        shares = {key: as_float(account.share) for key, account in accounts.items()}
        for key in select(("budget",), shares):
            if key in accounts:
                _add_account(samples, accounts[key])
    report = shares_of(reports)
    if report is not None:
        for one in report.state["users"]:
            if one["user"] in users:
                _add_user(samples, one)


def _add_tree(samples: MetricSamples, tree: ModelTree, names: Iterable[str]) -> None:
    """Add some nodes of a tree.

    Clients choose the names of resources that they request, so only resources that a node limits have samples.
    """
    prefix, label = _NAMES[tree.kind]
    for node in map(tree.nodes.__getitem__, names):
        found = samples.of(tree=tree.name, **{label: node.name})
        for measure in MEASURES[tree.kind]:
            amounts = node.amounts[measure]
            # A missing maximum is not 0.
            has_zeros = measure != "max"
            known = {name: amounts.get(name, 0) for name in tree.limited(node) if has_zeros or name in amounts}
            found.add_amounts(f"{prefix}_{'usage' if measure == 'used' else measure}", known)
        if tree.kind == "quota":
            found.add(f"{prefix}_borrowers", tree.held_for_others.get(node.name, 0))


def _add_account(samples: MetricSamples, account: AccountState) -> None:
    found = samples.of(budget=account.budget, owner=account.owner, scope=account.scope, resource=account.resource)
    unit = 1000 if account.resource == VCORE else 1
    for name in ("limit", "settled", "committed", "remaining"):
        found.add(f"ugm_budget_{name}_unit_seconds", as_float(Fraction(getattr(account, name)) / unit))


def _add_user(samples: MetricSamples, user: JsonMapping) -> None:
    found = samples.of(user=user["user"], account=user["path"].rpartition("/")[0])
    found.add("ugm_fair_share_position", user["place"])
    for name, field in (("usage_share", "used"), ("level", "level"), ("entitled_share", "share")):
        if user[field] is not None:
            found.add(f"ugm_fair_share_{name}", _number(user[field]))


def _number(text: str) -> float:
    """Return an exact number of a report as a float; levels may be infinite."""
    return inf if "inf" in text else as_float(Fraction(text))
