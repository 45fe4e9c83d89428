"""The rules of a configuration as a whole: the rules of the document and of a partition, and their application.

Each rule is one function; its docstring states the rule and its source. The rules of queues, limits and placement are
in modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ugm._declared_models import definitions_of
from ugm._request_names import unlisted
from ugm.config.findings import Finding, LocatedPartition
from ugm.config.validation_budgets import BUDGET_RULES
from ugm.config.validation_limits import LIMIT_RULES
from ugm.config.validation_models import MODEL_RULES
from ugm.config.validation_placement import PLACEMENT_RULES, placement_patterns_are_short
from ugm.config.validation_queues import QUEUE_RULES, guaranteed_fits_above
from ugm.config.validation_schedules import SCHEDULE_RULES
from ugm.configuration import SchedulerConfig
from ugm.configuration.vectors import unlisted_resources
from ugm.errors import RequestError, quote
from ugm.identity import MAX_NAME
from ugm.queues import PlacementRules
from ugm.queues.specs import QueueSpecs
from ugm.resources import is_resource_name
from ugm.tracking.limits import Limits

__all__ = ["find_problems", "partitions_can_be_used"]

_WITHOUT_LIMITS: Final = (*QUEUE_RULES, *SCHEDULE_RULES)
_WITH_LIMITS: Final = (*_WITHOUT_LIMITS, *LIMIT_RULES)
_NODE_SORT_POLICIES: Final = ("", "fair", "binpacking")


def find_problems(config: SchedulerConfig) -> Iterator[Finding]:
    """Apply every rule to a configuration."""
    yield from partitions_exist(config)
    yield from partition_names_differ(config)
    located_partitions = [
        LocatedPartition(partition, ("partitions", index)) for index, partition in enumerate(config.partitions)
    ]
    if pattern := next(placement_patterns_are_short(located_partitions), None):
        yield pattern
        return
    for located in located_partitions:
        for rule in PARTITION_RULES:
            yield from rule(located)
        yield from guaranteed_fits_above(located.root)
        for queue in located.root.walk():
            for queue_rule in _WITH_LIMITS if queue.queue.limits else _WITHOUT_LIMITS:
                yield from queue_rule(queue)


def partitions_can_be_used(config: SchedulerConfig) -> Iterator[Finding]:
    """A partition can compile the configuration.

    The other rules report the known reasons why it cannot, each at its place. This rule compiles the configuration, so
    that it finds all other reasons as well.
    """
    for index, partition in enumerate(config.partitions):
        try:
            Limits.compile(partition)
            definitions_of(partition)
            QueueSpecs.compile(partition.root)
            PlacementRules(partition.placement_rules)
        except RequestError as error:
            yield Finding(("partitions", index), "partition-unusable", f"the partition cannot be used: {error}")


def partitions_exist(config: SchedulerConfig) -> Iterator[Finding]:
    """There is at least one partition.

    A document without partitions is more likely the wrong file than the wish to remove all limits. Apache YuniKorn
    accepts it.

    Source: Apache YuniKorn, partition and queue configuration, "Partitions".
    """
    if not config.partitions:
        yield Finding(("partitions",), "partitions-missing", "there is no partition (required: at least one)")


def partition_names_differ(config: SchedulerConfig) -> Iterator[Finding]:
    """No two partitions have the same name (case-insensitive).

    Source: Apache YuniKorn, partition and queue configuration, "Partitions".
    """
    first: dict[str, int] = {}
    for index, partition in enumerate(config.partitions):
        earlier = first.setdefault(partition.name, index)
        if earlier != index:
            message = f"the partition {quote(partition.name)} already exists (partitions[{earlier}])"
            path = ("partitions", index, "name")
            yield Finding(path, "partition-name-duplicate", message, (path, ("partitions", earlier, "name")))


def partition_name_is_short(located: LocatedPartition) -> Iterator[Finding]:
    """The name of a partition has at most 256 characters, like all names."""
    length = len(located.partition.name)
    if length > MAX_NAME:
        message = f"the name of the partition has {length} characters (allowed: up to {MAX_NAME})"
        yield Finding((*located.path, "name"), "partition-name-too-long", message)


def partition_has_queues(located: LocatedPartition) -> Iterator[Finding]:
    """A partition lists its queues, even if there are none below the root.

    Source: Apache YuniKorn, partition and queue configuration, "Queues".
    """
    if located.partition.queues is None:
        yield Finding(
            (*located.path, "queues"), "queues-missing", "the partition has no list of queues (allowed: an empty list)"
        )


def root_has_no_resources(located: LocatedPartition) -> Iterator[Finding]:
    """The root queue sets no resources, because its maximum is the sum of the nodes. An empty mapping counts as set.

    Source: Apache YuniKorn, resource quota management, on the quota of the root queue.
    """
    if located.partition.root_inserted:
        return
    resources = located.partition.root.resources
    path = (*located.path, "queues", 0, "resources")
    message = "the root queue must not set resources: its maximum is the sum of the nodes"
    for name, amounts in (("guaranteed", resources.guaranteed), ("max", resources.max)):
        if amounts is not None:
            yield Finding((*path, name), "root-has-resources", message)


def partition_limits_are_root_limits(located: LocatedPartition) -> Iterator[Finding]:
    """Limits of the partition and of the root queue are the same setting, and are equal if both are given.

    Quantities are compared by amount, so 1Gi equals 1024Mi; order and descriptions count.

    Source: Apache YuniKorn, user based quota enforcement, "Generic behaviour".
    """
    if located.partition.root_inserted:
        return
    limits, root_limits = located.partition.limits, located.partition.root.limits
    if limits and limits != root_limits:
        path = (*located.path, "limits")
        message = "the limits of the partition and those of its root queue are both given and differ"
        sources = (path, (*located.path, "queues", 0, "limits"))
        yield Finding(path, "partition-limits-differ", message, sources)


def node_sort_policy_is_known(located: LocatedPartition) -> Iterator[Finding]:
    """Nodes are sorted ``fair`` or ``binpacking``.

    Source: Apache YuniKorn, sorting policies, "Node sorting".
    """
    policy = located.partition.node_sort_policy.type
    if policy not in _NODE_SORT_POLICIES:
        message = f"unknown node sort policy {quote(policy)} (allowed: 'fair', 'binpacking')"
        yield Finding((*located.path, "nodesortpolicy", "type"), "node-sort-policy-unknown", message)


def node_sort_weights_are_not_negative(located: LocatedPartition) -> Iterator[Finding]:
    """The weight of a resource is 0 or more.

    Source: Apache YuniKorn, sorting policies, "Node sorting".
    """
    for name, weight in located.partition.node_sort_policy.resource_weights.items():
        if weight < 0:
            path = (*located.path, "nodesortpolicy", "resourceweights", name)
            yield Finding(
                path, "node-sort-weight-negative", f"the weight of {quote(name)} is {weight:g} (allowed: 0 or more)"
            )


def listed_resources_have_names(located: LocatedPartition) -> Iterator[Finding]:
    """Every name in the list of resources is a name of a resource, and occurs once."""
    listed = located.partition.ugm.resources
    for at, name in enumerate(listed):
        path = (*located.path, "ugm", "resources", at)
        if not is_resource_name(name):
            message = f"{quote(name)} is not a valid resource name (allowed: 1 to 256 characters without white space)"
            yield Finding(path, "resource-name-invalid", message)
        elif name in listed[:at]:
            yield Finding(path, "resource-duplicate", f"the resource {quote(name)} is listed twice")


def resources_are_listed(located: LocatedPartition) -> Iterator[Finding]:
    """If a partition lists its resources, its limits and weights name no others."""
    source = (*located.path, "ugm", "resources")
    for path, name in unlisted_resources(located.partition):
        place = (*located.path, *path)
        yield Finding(place, "resource-unlisted", unlisted(name, located.partition.ugm.resources), (place, source))


PARTITION_RULES: Final[tuple[Callable[[LocatedPartition], Iterator[Finding]], ...]] = (
    partition_name_is_short,
    partition_has_queues,
    root_has_no_resources,
    partition_limits_are_root_limits,
    node_sort_policy_is_known,
    node_sort_weights_are_not_negative,
    listed_resources_have_names,
    resources_are_listed,
    *PLACEMENT_RULES,
    *MODEL_RULES,
    *BUDGET_RULES,
)
