"""The description of all metrics: one table, from which the exposition is derived.

Units are part of the names, as Prometheus recommends. Amounts of resources have one metric for each unit: ``_cores``
for ``vcore``, ``_bytes`` for memory and storage, and ``_units`` for everything else. The last two have a label
``resource``. The suffix ``_count`` belongs to histograms in the format of Prometheus, so no gauge has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from fractions import Fraction
from functools import cache
from typing import Final, NamedTuple

from ugm.resources import VCORE, as_float

__all__ = ["METRICS", "MetricDescription", "MetricKind", "amount_unit", "descriptions"]

#: The unit of ``vcore`` in a core.
_MILLI: Final = 1000
#: The names of resources that are measured in bytes.
_BYTES: Final = re.compile(r"(^|[-./_])(memory|storage|hugepages|bytes)([-./_]|$)", re.IGNORECASE)


class MetricKind(StrEnum):
    """The kind of a metric, as in the text format of Prometheus."""

    GAUGE = "gauge"
    #: Its samples have the suffix ``_total``.
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class MetricDescription(NamedTuple):
    """One metric, or the metrics of one amount in all units."""

    #: Without the unit of an amount and without the suffix of a counter.
    name: str
    #: A sentence for people.
    sentence: str
    labels: tuple[str, ...] = ("partition",)
    kind: MetricKind = MetricKind.GAUGE
    #: Whether the metric is an amount of resources.
    is_amount: bool = False

    def variants(self) -> Iterator[MetricDescription]:
        """Yield the metric itself, or that of every unit."""
        if not self.is_amount:
            yield self
            return
        for unit, described, more in _UNITS:
            yield MetricDescription(
                f"{self.name}{unit}", f"{self.sentence.rstrip('.')}, {described}.", (*self.labels, *more), self.kind
            )


#: The suffix of each unit, its description, and the additional labels.
_UNITS: Final = (
    ("_cores", "in cores", ()),
    ("_bytes", "in bytes", ("resource",)),
    ("_units", "in units of the resource", ("resource",)),
)


def amount_unit(resource: str, amount: int) -> tuple[str, float, dict[str, str]]:
    """Return the suffix of the metric for an amount, the amount in its unit, and the additional labels.

    >>> amount_unit("vcore", 1500)
    ('_cores', 1.5, {})
    >>> amount_unit("ephemeral-storage", 2048)
    ('_bytes', 2048.0, {'resource': 'ephemeral-storage'})
    >>> amount_unit("nvidia.com/gpu", 2)
    ('_units', 2.0, {'resource': 'nvidia.com/gpu'})
    """
    if resource == VCORE:
        return "_cores", as_float(Fraction(amount, _MILLI)), {}
    # The name of a resource says whether its amounts are bytes.
    return ("_bytes" if _BYTES.search(resource) else "_units"), as_float(amount), {"resource": resource}


def _numbers() -> Iterator[MetricDescription]:
    yield MetricDescription("ugm_users", "Users with running or pending allocations.")
    yield MetricDescription("ugm_groups", "Groups with charged usage.")
    yield MetricDescription("ugm_queues", "Queues, including dynamic queues.")
    yield MetricDescription("ugm_applications", "Applications that have not ended.")
    yield MetricDescription("ugm_allocations", "Allocations, including pending ones.")
    yield MetricDescription("ugm_pending_allocations", "Pending allocations.")
    yield MetricDescription("ugm_node_capacity", "Sum of the resources of all registered nodes.", is_amount=True)


def _queues() -> Iterator[MetricDescription]:
    labels = ("partition", "queue")
    for name, sentence in (
        ("usage", "Usage in and below the queue."),
        ("pending", "Pending requests in and below the queue."),
        ("limit", "Maximum of the queue; that of the root is the sum of all nodes."),
        ("guaranteed", "Guaranteed amount of the queue."),
    ):
        yield MetricDescription(f"ugm_queue_{name}", sentence, labels, is_amount=True)
    for name, sentence in (
        ("running_applications", "Running applications in and below the queue."),
        ("limit_applications", "Maximum number of running applications in and below the queue."),
        ("pending_allocations", "Number of pending requests in and below the queue."),
        ("oldest_pending_seconds", "Age of the oldest pending request in and below the queue."),
    ):
        yield MetricDescription(f"ugm_queue_{name}", sentence, labels)


def _owners(kind: str) -> Iterator[MetricDescription]:
    labels, name = ("partition", kind), f"ugm_{kind}"
    limited = (*labels, "queue")
    yield MetricDescription(f"{name}_usage", f"Usage of the {kind} in all queues.", labels, is_amount=True)
    yield MetricDescription(f"{name}_running_applications", "Running applications in all queues.", labels)
    if kind == "user":
        yield MetricDescription(f"{name}_pending_allocations", "Number of pending requests in all queues.", labels)
        yield MetricDescription(f"{name}_oldest_pending_seconds", "Age of the oldest pending request.", labels)
    yield MetricDescription(f"{name}_limit_share", "Used part of the nearest limit; 1 is all of it.", labels)
    yield MetricDescription(f"{name}_limit", f"Each limit of the {kind}.", limited, is_amount=True)
    yield MetricDescription(f"{name}_limit_usage", "Usage under each limit.", limited, is_amount=True)
    yield MetricDescription(f"{name}_limit_applications", "Maximum number of running applications.", limited)
    yield MetricDescription(f"{name}_limit_running_applications", "Running applications under each limit.", limited)


def _preemption() -> Iterator[MetricDescription]:
    labels = ("partition", "outcome")
    sentence = "Preemption plans by outcome. Reductions, executed plans and stale plans are separate outcomes."
    yield MetricDescription("ugm_preemption_plans", sentence, labels, MetricKind.COUNTER)
    yield MetricDescription("ugm_terminating_allocations", "Terminating allocations, which count until their release.")
    yield MetricDescription("ugm_placed_requests", "Pending requests for which a plan has made room.")
    yield MetricDescription("ugm_reduction_timers", "Queues above their maximum that are to be reduced.")


def _trees() -> Iterator[MetricDescription]:
    labels = ("partition", "tree", "group")
    for name, sentence in (
        ("usage", "Usage in and below the elastic group."),
        ("min", "Guaranteed minimum."),
        ("max", "Maximum; an unlimited resource has none."),
        ("runtime", "Amounts that the group may use now."),
        ("request", "Running and pending requests in and below the group."),
        ("borrowed", "Runtime beyond the minimum in force."),
        ("lent", "Minimum in force beyond the runtime, which other groups may use."),
    ):
        yield MetricDescription(f"ugm_elastic_group_{name}", sentence, labels, is_amount=True)
    labels = ("partition", "tree", "node")
    for name, sentence in (
        ("usage", "Amounts held at and below the node of the quota tree."),
        ("quota", "Quota of the node."),
        ("borrowed", "Amounts that consumers of groups in or below the node hold above it."),
        ("lent", "Amounts that the node itself holds for consumers of groups below it."),
    ):
        yield MetricDescription(f"ugm_quota_node_{name}", sentence, labels, is_amount=True)
    yield MetricDescription(
        "ugm_quota_node_borrowers", "Number of consumers that the node holds for groups below it.", labels
    )
    yield MetricDescription("ugm_suspended_models", "Quota models of unknown state; they deny every request.")


def _budgets() -> Iterator[MetricDescription]:
    labels = ("partition", "budget", "owner", "scope", "resource")
    for name, sentence in (
        ("limit", "Core-seconds of vcore, byte-seconds of memory, or unit-seconds of other resources in the period."),
        ("settled", "Core-seconds, byte-seconds or unit-seconds used in this period."),
        ("committed", "Core-seconds, byte-seconds or unit-seconds that are promised and have not happened yet."),
        ("remaining", "Limit less the settled and committed amounts; negative if it is exceeded."),
    ):
        yield MetricDescription(f"ugm_budget_{name}_unit_seconds", sentence, labels)


def _thresholds() -> Iterator[MetricDescription]:
    labels = ("partition", "kind", "threshold")
    sentence = "Number of limits whose usage is above a threshold in percent, by kind of their owner."
    yield MetricDescription("ugm_threshold_crossed_limits", sentence, labels)


def _shares() -> Iterator[MetricDescription]:
    labels = ("partition", "user", "account")
    yield MetricDescription(
        "ugm_fair_share_position",
        "Place of the user in the order by shares; 1 is the best, and ties share a place.",
        labels,
    )
    yield MetricDescription(
        "ugm_fair_share_entitled_share", "Share of the total usage to which the user is entitled.", labels
    )
    yield MetricDescription("ugm_fair_share_usage_share", "The user's share of the decayed usage of all users.", labels)
    yield MetricDescription(
        "ugm_fair_share_level", "Entitled share divided by used share; the largest comes first.", labels
    )


def _events() -> Iterator[MetricDescription]:
    counter = MetricKind.COUNTER
    labels = ("partition", "kind", "queue", "resource")
    sentence = "Denials by kind and queue of the limit; a denial by several limits counts for each."
    yield MetricDescription("ugm_denials", sentence, labels, counter)
    yield MetricDescription("ugm_events", "Events by kind.", ("partition", "event"), counter)
    sentence = "Attempts to replace the configuration, by source and result."
    yield MetricDescription("ugm_configuration_changes", sentence, ("source", "result"), counter)
    sentence = "1 while the configuration file has problems and is not in force, otherwise 0."
    yield MetricDescription("ugm_configuration_refused", sentence, ())
    sentence = "1 while the configuration file of the start differs from the stored configuration, otherwise 0."
    yield MetricDescription("ugm_configuration_unapplied", sentence, ())
    yield MetricDescription("ugm_decision_seconds", "Duration of decisions.", kind=MetricKind.HISTOGRAM)


def _services() -> Iterator[MetricDescription]:
    yield MetricDescription("ugm_service_leading", "1 if this process leads, otherwise 0.")
    yield MetricDescription("ugm_service_term", "Term of the leader.")
    yield MetricDescription("ugm_service_sessions", "Sessions of clients by state.", ("partition", "state"))
    yield MetricDescription("ugm_service_waiting_operations", "Operations that wait for their commit.")
    yield MetricDescription("ugm_service_operation_seconds", "Duration of operations.", kind=MetricKind.HISTOGRAM)
    yield MetricDescription("ugm_service_commit_seconds", "Duration of commits.", kind=MetricKind.HISTOGRAM)
    yield MetricDescription("ugm_service_log_available", "1 if the log accepts changes, otherwise 0.")
    yield MetricDescription("ugm_service_change", "Number of the last durable change in the log.")
    yield MetricDescription("ugm_service_standbys", "Processes that stand by.")
    labels = ("partition", "standby", "address")
    yield MetricDescription("ugm_service_standby_lag_changes", "Durable changes that the standby lacks.", labels)
    yield MetricDescription("ugm_service_standby_age_seconds", "Age of the state of the standby.", labels)


#: All metrics, in the order of the exposition.
METRICS: Final[tuple[MetricDescription, ...]] = (
    *_numbers(),
    *_queues(),
    *_owners("user"),
    *_owners("group"),
    *_preemption(),
    *_trees(),
    *_budgets(),
    *_thresholds(),
    *_shares(),
    *_events(),
    *_services(),
)


@cache
def descriptions() -> dict[str, MetricDescription]:
    """Return the description of every metric by its name, with one for each unit of amounts."""
    return {variant.name: variant for metric in METRICS for variant in metric.variants()}
