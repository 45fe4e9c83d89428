"""The kind of elastic groups that a configuration declares."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, final

from ugm._json_values import JsonMapping
from ugm.configuration import ElasticConfig, ElasticGroupConfig, PartitionConfig
from ugm.configuration.fields import setting_texts
from ugm.configuration.model_kinds import (
    ModelDefinition,
    ModelKind,
    ModelPart,
    ReportedUse,
    UnmappedQueue,
    queues_without_group,
    source_findings,
)
from ugm.configuration.scheduler import Finding, Path
from ugm.elastic.group import BUILT_IN, DEFAULT_GROUP
from ugm.elastic.model import ElasticModel
from ugm.elastic.quota import broken_rules
from ugm.errors import quote
from ugm.identity import MAX_NAME, is_name

__all__ = ["KIND"]

#: The paths of the settings and of the groups in a partition.
_ELASTIC: Final[Path] = ("ugm", "elastic")
_GROUPS: Final[Path] = (*_ELASTIC, "groups")
#: The field of a group to which a rule of elastic groups applies; all others apply to the group as a whole.
_FIELDS: Final[Mapping[str, str]] = {
    "already_exists": "name",
    "parent_not_found": "parent",
    "parent_is_not_parent": "parent",
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
_OF_ONE_GROUP: Final = frozenset(("already_exists", "namespace_bound", "min_key_not_in_max", "min_exceeds_max"))
#: The fields of a group with one name, which may be empty, and those with lists of names.
_NAMES: Final = ("parent", "namespace", "tree_id")
_LISTS_OF_NAMES: Final = ("namespaces", "strict_max")


@final
class _ElasticKind(ModelKind):
    __slots__ = ()

    has_past = False

    def definitions(
        self,
        config: PartitionConfig,
        before: Sequence[ModelDefinition],  # noqa: ARG002 - groups depend on no others
    ) -> Iterator[ModelDefinition]:
        """Return the one definition."""
        yield ModelDefinition("elastic", "elastic groups", "", config.ugm.elastic)

    def build(self, content: ElasticConfig) -> ElasticModel:
        """Return the model."""
        return ElasticModel.declared(content)

    def parts(self, definition: ModelDefinition) -> Iterator[ModelPart]:
        """Yield the settings and the groups."""
        content: ElasticConfig = definition.content
        yield ("settings", definition.kind), setting_texts(content, "groups")
        for group in content.groups:
            yield ("elastic group", group.name), setting_texts(group, "name")

    def findings(self, config: PartitionConfig) -> Iterator[Finding]:
        """Yield the violations of the rules of groups and of the sources of the group of a claim."""
        elastic = config.ugm.elastic or ElasticConfig()
        yield from _groups_are_valid(elastic)
        accepting = _accepting(elastic) | BUILT_IN
        yield from source_findings(elastic.group_by, accepting, _ELASTIC, _GROUPS)

    def unmapped_queues(self, config: PartitionConfig) -> Iterator[UnmappedQueue]:
        """Yield the queues without a group. Without one, and in every unknown group, the default group is used."""
        elastic = config.ugm.elastic or ElasticConfig()
        if not elastic.unrestricted and DEFAULT_GROUP not in {group.name for group in elastic.groups}:
            yield from queues_without_group(config, elastic.group_by, _accepting(elastic), "the elastic groups")

    def uses(self, state: JsonMapping) -> Iterator[ReportedUse]:
        """Yield the use of each maximum of a group."""
        for group in state["groups"]:
            for resource, maximum in group["max"].items():
                used = group["used"].get(resource, 0)
                yield ReportedUse("elastic group", "", group["group"], "", resource, used, maximum)


KIND: Final = _ElasticKind()


def _accepting(elastic: ElasticConfig) -> set[str]:
    """Return the groups that accept claims."""
    return {group.name for group in elastic.groups if not group.is_parent}


def _groups_are_valid(elastic: ElasticConfig) -> Iterator[Finding]:
    """Every elastic group has a name, lists valid names, and obeys the rules for groups and their place in the tree.

    Source: Koordinator, multi-hierarchy elastic quota management, "Configuration Limit".
    """
    usable, neighbours = [], _neighbours(elastic.groups)
    for at, group in enumerate(elastic.groups):
        found = list(_name_findings(group, (*_GROUPS, at)))
        yield from found
        if not found:
            usable.append(at)
    for number, refusal in broken_rules(replace(elastic, groups=tuple(elastic.groups[at] for at in usable))):
        position, field = usable[number], _FIELDS.get(refusal.rule)
        code = f"elastic-{refusal.rule.replace('_', '-')}"
        compared = set() if refusal.rule in _OF_ONE_GROUP else neighbours(elastic.groups[position])
        near = tuple((*_GROUPS, at) for at in (position, *sorted(compared)))
        sources = (_GROUPS,) if refusal.rule == "parent_not_found" else near
        yield Finding(
            (*_GROUPS, position, field) if field else (*_GROUPS, position),
            code,
            f"elastic group {quote(refusal.group)}: {refusal.reason}",
            sources,
        )


def _name_findings(group: ElasticGroupConfig, path: Path) -> Iterator[Finding]:
    """Yield each name in the fields of a group that is too long, or missing where it is required."""
    if not is_name(group.name):
        message = f"the elastic group has no name (allowed: 1 to {MAX_NAME} characters)"
        yield Finding((*path, "name"), "elastic-name-invalid", message)
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


def _neighbours(groups: Sequence[ElasticGroupConfig]) -> Callable[[ElasticGroupConfig], set[int]]:
    """Return a function that returns the positions of the groups above and below a group."""
    # Of several groups with the same name, which is reported by itself, the first counts as the parent.
    above = {group.name: at for at, group in reversed([*enumerate(groups)])}
    below = defaultdict[str, set[int]](set)
    for at, group in enumerate(groups):
        below[group.parent].add(at)
    return lambda group: below[group.name] | ({above[group.parent]} if group.parent in above else set())
