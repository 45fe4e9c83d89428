"""Elastic quotas that a configuration declares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from ugm.arguments import require_instance
from ugm.configuration import ElasticConfig, ElasticGroupConfig
from ugm.elastic.group import ROOT_GROUP, ElasticGroup, GroupError, Refusal, parents_first
from ugm.elastic.pods import AdmissionRules
from ugm.elastic.quota import ElasticQuota
from ugm.elastic.tree import ElasticTree
from ugm.resources import MAX_QUANTITY, Resource

__all__ = ["broken_rules", "declared_group", "declared_quota", "unlimited_total"]

#: The fields that a group and its configuration share.
_SHARED: Final = tuple(name for name in ElasticGroup._fields if name in ElasticGroupConfig.__dataclass_fields__)


def declared_group(config: ElasticGroupConfig) -> ElasticGroup:
    """Return the group that a configuration declares.

    >>> declared_group(ElasticGroupConfig("ml", max=Resource(gpu=4))).parent
    'koordinator-root-quota'

    Raises:
        RequestError: *config* is not an ElasticGroupConfig.
    """
    require_instance("config", config, ElasticGroupConfig)
    group = ElasticGroup(**{name: getattr(config, name) for name in _SHARED})
    return group._replace(parent=config.parent or ROOT_GROUP, tree_id=config.tree_id or None)


def declared_quota(config: ElasticConfig) -> ElasticQuota:
    """Return elastic quotas with the groups of a configuration, without pods.

    Raises:
        GroupError: the groups violate rules.
        RequestError: a field of a group is invalid.
    """
    quota = _empty_quota(config)
    refusals = tuple(refusal for _, refusal in _create(quota, config))
    if refusals:
        raise GroupError(refusals)
    return quota


def broken_rules(config: ElasticConfig) -> Iterator[tuple[int, Refusal]]:
    """Yield every rule that the groups of a configuration violate, with the position of the group.

    A group is compared with the groups above it even if these violate rules themselves.
    """
    return _create(_empty_quota(config), config)


def unlimited_total(config: ElasticConfig) -> Resource:
    """Return an amount of every resource of the groups that is never exhausted.

    It is twice the sum of the maximums, which leaves as much for the default group, but at least the largest amount of
    a configuration. It may exceed 64 bits.
    """
    sums = Counter[str]()
    for group in config.groups:
        sums.update(group.max.amounts)
    return Resource({name: max(2 * amount, MAX_QUANTITY) for name, amount in sums.items()})


def _empty_quota(config: ElasticConfig) -> ElasticQuota:
    total = unlimited_total(config) if config.total is None else config.total
    rules = AdmissionRules(by_runtime=not config.ignore_runtime, check_parents=config.check_parents)
    tree = ElasticTree(total, scale_min=config.scale_min)
    return ElasticQuota(tree, rules=rules, preempt_in_default=config.preempt_in_default)


def _create(quota: ElasticQuota, config: ElasticConfig) -> Iterator[tuple[int, Refusal]]:
    """Create all groups, parents first, and yield each refusal with the position of its group."""
    groups = [declared_group(group) for group in config.groups]
    positions = {id(group): position for position, group in enumerate(groups)}
    for group in parents_first(groups):
        try:
            quota.create(group)
        except GroupError as error:
            yield from ((positions[id(group)], refusal) for refusal in error.refusals)
            if quota.tree.nodes.get(group.name) is None:
                # The groups below it are compared with it nevertheless.
                with suppress(GroupError):
                    quota.tree.put(group)
