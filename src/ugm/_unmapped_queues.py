"""Queues whose requests no declared quota model can assign to a group, so that it denies all of them.

A model finds the group of a request in the sources that its configuration lists. If all of them are queues, the group
of every request follows from the configuration alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from ugm._claim_groups import finder_of
from ugm.configuration import ElasticConfig, GroupSource, PartitionConfig, QuotaTreeConfig
from ugm.identity import UserGroup
from ugm.model import Claim
from ugm.resources import Resource

__all__ = ["UnmappedQueue", "unmapped_queues"]


class UnmappedQueue(NamedTuple):
    """A queue in which a quota model denies every request."""

    queue_path: str
    #: ``the elastic groups`` or the name of a quota tree.
    model: str
    #: The group that a source names and the model does not have; None if no source maps the queue.
    group: str | None

    def __str__(self) -> str:
        reason = "no source of a group maps it" if self.group is None else f"there is no group {self.group!r} for it"
        return f"the queue {self.queue_path} denies every request: {reason} in {self.model}"


def unmapped_queues(config: PartitionConfig | None) -> Iterator[UnmappedQueue]:
    """Yield the leaf queues of a configuration in which a declared quota model denies every request."""
    if config is None:
        return
    if config.ugm.elastic is not None:
        yield from _without_elastic_group(config, config.ugm.elastic)
    for tree in config.ugm.quota_trees:
        yield from _without_leaf(config, tree)


def _without_elastic_group(config: PartitionConfig, elastic: ElasticConfig) -> Iterator[UnmappedQueue]:
    from ugm.elastic.group import DEFAULT_GROUP  # noqa: PLC0415 - most configurations declare no groups

    accepting = {group.name for group in elastic.groups if not group.is_parent}
    # Everything without a group, and every unknown group, belongs to the default group.
    if not elastic.unrestricted and DEFAULT_GROUP not in {group.name for group in elastic.groups}:
        yield from _unmapped(config, elastic.group_by, accepting, "the elastic groups")


def _without_leaf(config: PartitionConfig, tree: QuotaTreeConfig) -> Iterator[UnmappedQueue]:
    from ugm.quotatree.declared import leaves_of  # noqa: PLC0415 - most configurations declare no trees

    has_default = bool(tree.default_group) or tree.unrestricted
    for found in _unmapped(config, tree.group_by, leaves_of(tree.tree), f"the quota tree {tree.tree.name!r}"):
        if found.group is not None or not has_default:
            yield found


def _unmapped(
    config: PartitionConfig, sources: tuple[GroupSource, ...], groups: Collection[str], model: str
) -> Iterator[UnmappedQueue]:
    if not sources or any(source.source != "queue" for source in sources):
        return
    finders = [finder_of(source) for source in sources]
    for path, queue in config.root.walk():
        if not queue.parent:
            claim = Claim("", "", Resource(), path, UserGroup("anyone"), {})
            group = next((name for find in finders if (name := find(claim))), None)
            if group not in groups:
                yield UnmappedQueue(path, model, group)
