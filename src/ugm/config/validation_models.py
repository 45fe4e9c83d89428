"""The rules of declared quota models: elastic groups, quota trees, the sources of the group of a claim, and shares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ugm._documents.places import Path
from ugm._thresholds import threshold_problems
from ugm.config.findings import Finding, LocatedPartition
from ugm.configuration import ElasticConfig, ElasticGroupConfig, GroupSource, QuotaTreeConfig
from ugm.errors import quote
from ugm.identity import MAX_NAME, is_name

__all__ = ["MODEL_RULES"]

#: The field of a group to which a rule of elastic groups applies; all others apply to the group as a whole.
_FIELDS: Final[Mapping[str, str]] = {
    "already_exists": "name",
    "parent_not_found": "parent",
    "parent_is_not_parent": "parent",
    "cycle": "parent",
    "namespace_bound": "namespaces",
    "min_key_not_in_max": "min",
    "min_exceeds_max": "min",
    "min_keys_not_in_parent": "min",
    "siblings_min_exceeds_parent_min": "min",
    "children_min_exceeds_min": "min",
    "max_keys_mismatch": "max",
    "tree_id_parent_mismatch": "treeid",
    "tree_id_child_mismatch": "treeid",
}
#: The rules for which the contents of the groups above and below do not count.
_OF_ONE_GROUP: Final = frozenset(
    ("already_exists", "too_deep", "namespace_bound", "min_key_not_in_max", "min_exceeds_max")
)
#: The fields of a group with one name, which may be empty, and those with lists of names.
_NAMES: Final = ("parent", "namespace", "tree_id")
_LISTS_OF_NAMES: Final = ("namespaces", "strict_max")
#: The sources that a tag names.
_TAGGED: Final = ("tag", "namespace")


def elastic_groups_are_valid(located: LocatedPartition) -> Iterator[Finding]:
    """Every elastic group has a name, lists valid names, and obeys the rules for groups and their place in the tree.

    Source: Koordinator, multi-hierarchy elastic quota management, "Configuration Limit".
    """
    elastic = located.partition.ugm.elastic
    if elastic is None:
        return
    # Imported late: most configurations declare no groups.
    from ugm.elastic.declared import broken_rules  # noqa: PLC0415 - as above

    path = (*located.path, "ugm", "elastic", "groups")
    named = [at for at, group in enumerate(elastic.groups) if is_name(group.name)]
    for at in sorted(set(range(len(elastic.groups))) - set(named)):
        message = f"the elastic group has no name (allowed: 1 to {MAX_NAME} characters)"
        yield Finding((*path, at, "name"), "elastic-name-invalid", message)
    for at, group in enumerate(elastic.groups):
        yield from _name_findings(group, (*path, at))
    groups, neighbours = tuple(_with_usable_names(elastic.groups[at]) for at in named), _Neighbours(elastic.groups)
    for position, refusal in broken_rules(replace(elastic, groups=groups)):
        place, field = (*path, named[position]), _FIELDS.get(refusal.rule)
        code = f"elastic-{refusal.rule.replace('_', '-')}"
        sources = neighbours.sources(named[position], refusal.rule, path)
        yield Finding(
            (*place, field) if field else place,
            code,
            f"elastic group {quote(refusal.group)}: {refusal.reason}",
            sources,
        )


def _name_findings(group: ElasticGroupConfig, path: Path) -> Iterator[Finding]:
    """Yield each name in the fields of a group that is too long, or empty in a list."""
    for field in _NAMES:
        name = getattr(group, field)
        if len(name) > MAX_NAME:
            message = f"the name has {len(name)} characters (allowed: up to {MAX_NAME})"
            yield Finding((*path, _yaml_name(field)), "elastic-name-invalid", message)
    for field in _LISTS_OF_NAMES:
        for at, name in enumerate(getattr(group, field)):
            if not is_name(name):
                message = f"the name has {len(name)} characters (allowed: 1 to {MAX_NAME})"
                yield Finding((*path, _yaml_name(field), at), "elastic-name-invalid", message)


def _yaml_name(field: str) -> str:
    return field.replace("_", "")


def _with_usable_names(group: ElasticGroupConfig) -> ElasticGroupConfig:
    """Return a group in which names are cut to the allowed length, so that the other rules can be applied."""
    return replace(
        group,
        parent=group.parent[:MAX_NAME],
        namespace=group.namespace[:MAX_NAME],
        tree_id=group.tree_id[:MAX_NAME],
        namespaces=tuple(name[:MAX_NAME] for name in group.namespaces if name),
        strict_max=tuple(name[:MAX_NAME] for name in group.strict_max if name),
    )


class _Neighbours:
    """The positions of the groups above and below each group."""

    def __init__(self, groups: Sequence[ElasticGroupConfig]) -> None:
        self._groups: Final = groups
        self._positions: Final[dict[str, int]] = {}
        self._children: Final[dict[str, list[int]]] = {}
        for at, group in enumerate(groups):
            # A second group with the same name is reported by itself.
            self._positions.setdefault(group.name, at)
            self._children.setdefault(group.parent, []).append(at)

    def sources(self, position: int, rule: str, path: Path) -> tuple[Path, ...]:
        """Return the paths of a group and of the groups with which a rule compares it."""
        if rule == "parent_not_found":
            return (path,)
        group, compared = self._groups[position], list[int]()
        if rule not in _OF_ONE_GROUP:
            parent = self._positions.get(group.parent)
            above = () if parent is None else (parent,)
            compared = sorted({*above, *self._children.get(group.name, ())})
        return tuple((*path, at) for at in (position, *compared))


def elastic_sources_are_valid(located: LocatedPartition) -> Iterator[Finding]:
    """The sources of the elastic group of a claim name tags and groups that can be used."""
    elastic = located.partition.ugm.elastic
    if elastic is not None:
        path = (*located.path, "ugm", "elastic")
        yield from _source_findings(elastic.group_by, _usable_groups(elastic), path, (*path, "groups"))


def _usable_groups(elastic: ElasticConfig) -> set[str]:
    from ugm.elastic.group import BUILT_IN  # noqa: PLC0415 - as above

    return {group.name for group in elastic.groups if not group.is_parent} | BUILT_IN


def _source_findings(
    sources: Sequence[GroupSource], groups: Collection[str], path: Path, declared: Path
) -> Iterator[Finding]:
    for at, source in enumerate(sources):
        below = (*path, "groupby", at)
        if source.source == "tag" and not source.tag:
            yield Finding(below, "group-source-tag-missing", "a source of the kind 'tag' needs the name of a tag")
        if source.tag and source.source not in _TAGGED:
            message = f"a source of the kind {quote(source.source)} does not use a tag"
            yield Finding((*below, "tag"), "group-source-tag-unused", message, ((*below, "source"),))
        for value, group in source.names.items():
            if group not in groups:
                message = f"there is no group {quote(group)} that accepts claims"
                yield Finding((*below, "names", value), "group-source-group-unknown", message, (below, declared))


def quota_trees_are_valid(located: LocatedPartition) -> Iterator[Finding]:
    """Every quota tree has a name of its own and one root, and all its nodes are connected to the root.

    The quota manager of MCAD leaves out nodes that are not connected; their quotas would have no effect.

    Source: MCAD, quota manager, "Quota Tree".
    """
    first: dict[str, int] = {}
    for at, config in enumerate(located.partition.ugm.quota_trees):
        path = (*located.path, "ugm", "quotatrees", at, "tree")
        name = config.tree.name
        sources = ((*path[:-2], first.get(name, at), "tree"), path)
        if not is_name(name):
            message = f"the quota tree has no name (allowed: 1 to {MAX_NAME} characters)"
            yield Finding((*path, "metadata", "name"), "quotatree-name-invalid", message, (path,))
        elif first.setdefault(name, at) != at:
            message = f"the quota tree {quote(name)} already exists (quotatrees[{first[name]}])"
            yield Finding((*path, "metadata", "name"), "quotatree-name-duplicate", message, sources)
        if len(config.forest) > MAX_NAME:
            message = f"the name of the forest has {len(config.forest)} characters (allowed: up to {MAX_NAME})"
            yield Finding((*path[:-1], "forest"), "quotatree-forest-invalid", message)
        yield from _node_findings(config, (*path, "spec", "nodes"), path)


def _node_findings(config: QuotaTreeConfig, nodes: Path, path: Path) -> Iterator[Finding]:
    from ugm.quotatree.declared import children_of  # noqa: PLC0415 - as above

    roots = sorted(node.name for node in config.tree.nodes if not node.parent)
    if not roots:
        yield Finding(nodes, "quotatree-root-missing", "the quota tree has no node without a parent", (path,))
    for name in roots[1:]:
        message = f"the node {quote(name)} has no parent, but {quote(roots[0])} is already the root"
        yield Finding((*nodes, name), "quotatree-roots-several", message, (path,))
    connected = children_of(config.tree)
    for node in config.tree.nodes:
        if node.parent and node.name not in connected and roots:
            message = f"the node {quote(node.name)} is not connected to the root {quote(roots[0])}"
            yield Finding((*nodes, node.name, "parent"), "quotatree-node-unconnected", message, (path,))


def quota_tree_sources_are_valid(located: LocatedPartition) -> Iterator[Finding]:
    """A quota tree has a source for the leaf of a claim, a default leaf, or limits only what has a leaf."""
    for at, config in enumerate(located.partition.ugm.quota_trees):
        path = (*located.path, "ugm", "quotatrees", at)
        leaves, tree = _leaves(config), (*path, "tree")
        if not config.group_by and not config.default_group and not config.unrestricted:
            message = "the quota tree denies everything (required: groupby, defaultgroup or unrestricted)"
            yield Finding(path, "quotatree-source-missing", message, ((*path, "groupby"), (*path, "defaultgroup")))
        if config.default_group and config.default_group not in leaves:
            message = f"{quote(config.default_group)} is not a leaf of the quota tree"
            yield Finding((*path, "defaultgroup"), "quotatree-default-unknown", message, (tree,))
        yield from _source_findings(config.group_by, leaves, path, tree)


def _leaves(config: QuotaTreeConfig) -> set[str]:
    from ugm.quotatree.declared import leaves_of  # noqa: PLC0415 - most configurations declare no trees

    return leaves_of(config.tree)


def fair_shares_are_valid(located: LocatedPartition) -> Iterator[Finding]:
    """Shares are numbers, each below an account that exists, no user occurs twice, and usage decays in one way.

    Source: SchedMD Slurm, Fair Tree.
    """
    shares = located.partition.ugm.fair_share
    if shares is None:
        return
    # Imported late: most configurations declare no shares.
    from ugm.fairness.declared import share_problems  # noqa: PLC0415 - as above

    path = (*located.path, "ugm", "fairshare")
    sources = ((*path, "accounts"), (*path, "users"))
    for problem in share_problems(shares):
        is_consequence = problem.code in ("fairshare-empty", "fairshare-account-missing", "fairshare-bins-missing")
        yield Finding((*path, *problem.path), problem.code, problem.message, (path, *sources) if is_consequence else ())


def thresholds_are_valid(located: LocatedPartition) -> Iterator[Finding]:
    """Thresholds are percentages that differ, and their hysteresis is less than the smallest of them."""
    path = (*located.path, "ugm", "thresholds")
    for problem in threshold_problems(located.partition.ugm.thresholds):
        sources = ((*path, "hysteresis"), (*path, "shares")) if problem.path == ("hysteresis",) else ()
        yield Finding((*path, *problem.path), problem.code, problem.message, sources)


MODEL_RULES: Final[tuple[Callable[[LocatedPartition], Iterator[Finding]], ...]] = (
    elastic_groups_are_valid,
    elastic_sources_are_valid,
    quota_trees_are_valid,
    quota_tree_sources_are_valid,
    fair_shares_are_valid,
    thresholds_are_valid,
)
