"""The description of all metrics: one table, from which the exposition is derived.

Units are part of the names, as Prometheus recommends. Amounts of resources have one metric for each unit: ``_cores``
for ``vcore``, ``_bytes`` for memory and storage, and ``_units`` for everything else. The last two have a label
``resource``. The suffix ``_count`` belongs to histograms in the format of Prometheus, so no gauge has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Final, NamedTuple

from ugm.resources import VCORE, as_float

#: The unit of ``vcore`` in a core.
_MILLI: Final = 1000
#: The names of resources that are measured in bytes.
_BYTES: Final = re.compile(r"(^|[-./_])(memory|storage|hugepages|bytes)([-./_]|$)", re.IGNORECASE)


class MetricDescription(NamedTuple):
    """One metric, or the metrics of one amount in all units."""

    #: Without the unit of an amount and without the suffix of a counter.
    name: str
    #: A sentence for people.
    sentence: str
    labels: tuple[str, ...] = ("partition",)
    #: ``gauge``, ``counter`` or ``histogram``; the samples of a counter have the suffix ``_total``. An ``amount`` is a
    #: gauge for each unit.
    kind: str = "gauge"


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


#: All metrics: in brackets the labels of those below, then the kind, the name and the sentence of each. An ``amount``
#: is a gauge for each unit.
_TABLE: Final = """
[partition]
gauge ugm_users: Users with running or pending allocations.
gauge ugm_groups: Groups with charged usage.
gauge ugm_queues: Queues, including dynamic queues.
gauge ugm_applications: Applications that have not ended.
gauge ugm_allocations: Allocations, including pending ones.
gauge ugm_pending_allocations: Pending allocations.
amount ugm_node_capacity: Sum of the resources of all registered nodes.
[partition queue]
amount ugm_queue_usage: Usage in and below the queue.
amount ugm_queue_pending: Pending requests in and below the queue.
amount ugm_queue_limit: Maximum of the queue; that of the root is the sum of all nodes.
amount ugm_queue_guaranteed: Guaranteed amount of the queue.
gauge ugm_queue_running_applications: Running applications in and below the queue.
gauge ugm_queue_limit_applications: Maximum number of running applications in and below the queue.
gauge ugm_queue_pending_allocations: Number of pending requests in and below the queue.
gauge ugm_queue_oldest_pending_seconds: Age of the oldest pending request in and below the queue.
[partition user]
amount ugm_user_usage: Usage of the user in all queues.
gauge ugm_user_running_applications: Running applications in all queues.
gauge ugm_user_pending_allocations: Number of pending requests in all queues.
gauge ugm_user_oldest_pending_seconds: Age of the oldest pending request.
gauge ugm_user_limit_share: Used part of the nearest limit; 1 is all of it.
[partition user queue]
amount ugm_user_limit: Each limit of the user.
amount ugm_user_limit_usage: Usage under each limit.
gauge ugm_user_limit_applications: Maximum number of running applications.
gauge ugm_user_limit_running_applications: Running applications under each limit.
[partition group]
amount ugm_group_usage: Usage of the group in all queues.
gauge ugm_group_running_applications: Running applications in all queues.
gauge ugm_group_limit_share: Used part of the nearest limit; 1 is all of it.
[partition group queue]
amount ugm_group_limit: Each limit of the group.
amount ugm_group_limit_usage: Usage under each limit.
gauge ugm_group_limit_applications: Maximum number of running applications.
gauge ugm_group_limit_running_applications: Running applications under each limit.
[partition outcome]
counter ugm_preemption_plans: Preemption plans by outcome. Reductions, executed plans and stale plans are separate
    outcomes.
[partition]
gauge ugm_terminating_allocations: Terminating allocations, which count until their release.
gauge ugm_placed_requests: Pending requests for which a plan has made room.
gauge ugm_reduction_timers: Queues above their maximum that are to be reduced.
[partition tree group]
amount ugm_elastic_group_usage: Usage in and below the elastic group.
amount ugm_elastic_group_min: Guaranteed minimum.
amount ugm_elastic_group_max: Maximum; an unlimited resource has none.
amount ugm_elastic_group_runtime: Amounts that the group may use now.
amount ugm_elastic_group_request: Running and pending requests in and below the group.
amount ugm_elastic_group_borrowed: Runtime beyond the minimum in force.
amount ugm_elastic_group_lent: Minimum in force beyond the runtime, which other groups may use.
[partition tree node]
amount ugm_quota_node_usage: Amounts held at and below the node of the quota tree.
amount ugm_quota_node_quota: Quota of the node.
amount ugm_quota_node_borrowed: Amounts that consumers of groups in or below the node hold above it.
amount ugm_quota_node_lent: Amounts that the node itself holds for consumers of groups below it.
gauge ugm_quota_node_borrowers: Number of consumers that the node holds for groups below it.
[partition]
gauge ugm_suspended_models: Quota models of unknown state; they deny every request.
[partition budget owner scope resource]
gauge ugm_budget_limit_unit_seconds: Core-seconds of vcore, byte-seconds of memory, or unit-seconds of other resources
    in the period.
gauge ugm_budget_settled_unit_seconds: Core-seconds, byte-seconds or unit-seconds used in this period.
gauge ugm_budget_committed_unit_seconds: Core-seconds, byte-seconds or unit-seconds that are promised and have not
    happened yet.
gauge ugm_budget_remaining_unit_seconds: Limit less the settled and committed amounts; negative if it is exceeded.
[partition kind threshold]
gauge ugm_threshold_crossed_limits: Number of limits whose usage is above a threshold in percent, by kind of their
    owner.
[partition user account]
gauge ugm_fair_share_position: Place of the user in the order by shares; 1 is the best, and ties share a place.
gauge ugm_fair_share_entitled_share: Share of the total usage to which the user is entitled.
gauge ugm_fair_share_usage_share: The user's share of the decayed usage of all users.
gauge ugm_fair_share_level: Entitled share divided by used share; the largest comes first.
[partition kind queue resource]
counter ugm_denials: Denials by kind and queue of the limit; a denial by several limits counts for each.
[partition event]
counter ugm_events: Events by kind.
[source result]
counter ugm_configuration_changes: Attempts to replace the configuration, by source and result.
[]
gauge ugm_configuration_refused: 1 while the configuration file has problems and is not in force, otherwise 0.
gauge ugm_configuration_unapplied: 1 while the configuration file of the start differs from the stored configuration,
    otherwise 0.
[partition]
gauge ugm_service_leading: 1 if this process leads, otherwise 0.
gauge ugm_service_term: Term of the leader.
[partition state]
gauge ugm_service_sessions: Sessions of clients by state.
[partition]
gauge ugm_service_waiting_operations: Operations that wait for their commit.
histogram ugm_service_operation_seconds: Duration of operations.
histogram ugm_service_commit_seconds: Duration of commits.
gauge ugm_service_log_available: 1 if the log accepts changes, otherwise 0.
gauge ugm_service_change: Number of the last durable change in the log.
gauge ugm_service_standby_age_seconds: Age of the state of this process if it stands by, otherwise 0.
"""


def _parsed(table: str) -> Iterator[MetricDescription]:
    labels: tuple[str, ...] = ()
    for line in table.replace("\n    ", " ").strip().splitlines():
        if line.startswith("["):
            labels = tuple(line.strip("[]").split())
            continue
        heading, _, sentence = line.partition(": ")
        kind, name = heading.split()
        yield MetricDescription(name, sentence, labels, kind)


#: All metrics, in the order of the exposition.
METRICS: Final[tuple[MetricDescription, ...]] = tuple(_parsed(_TABLE))


@cache
def descriptions() -> dict[str, MetricDescription]:
    """Return the description of every metric by its name, with one for each unit of amounts."""
    found = {}
    for metric in METRICS:
        for unit, described, more in _UNITS if metric.kind == "amount" else ():
            sentence, labels = f"{metric.sentence.rstrip('.')}, {described}.", (*metric.labels, *more)
            found[metric.name + unit] = MetricDescription(metric.name + unit, sentence, labels)
        if metric.kind != "amount":
            found[metric.name] = metric
    return found
