"""The kind of elastic groups that a configuration declares."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, final

from ugm._json_values import JsonMapping
from ugm.configuration import ElasticConfig, ElasticGroup, PartitionConfig
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
from ugm.elastic.group import BUILT_IN, DEFAULT_GROUP, invalid_names
from ugm.elastic.model import ElasticModel, declared_quota
from ugm.errors import quote

#: The paths of the settings and of the groups in a partition.
_ELASTIC: Final[Path] = ("ugm", "elastic")
_GROUPS: Final[Path] = (*_ELASTIC, "groups")
#: The rules for which the contents of the groups above and below do not count.
_OF_ONE_GROUP: Final = frozenset(("already_exists", "namespace_bound", "min_key_not_in_max", "min_exceeds_max"))


@final
class _ElasticKind(ModelKind):
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
        found = list(invalid_names(group))
        for (field, *items), message in found:
            yield Finding((*_GROUPS, at, _yaml_name(str(field)), *items), "elastic-name-invalid", message)
        if not found:
            usable.append(at)
    _, refused = declared_quota(replace(elastic, groups=tuple(elastic.groups[at] for at in usable)))
    for number, refusal in refused:
        position = usable[number]
        code = f"elastic-{refusal.rule.replace('_', '-')}"
        compared = set() if refusal.rule in _OF_ONE_GROUP else neighbours(elastic.groups[position])
        near = tuple((*_GROUPS, at) for at in (position, *sorted(compared)))
        sources = (_GROUPS,) if refusal.rule == "parent_not_found" else near
        place = (*_GROUPS, position, _yaml_name(refusal.field)) if refusal.field else (*_GROUPS, position)
        yield Finding(place, code, f"elastic group {quote(refusal.group)}: {refusal.reason}", sources)


def _yaml_name(field: str) -> str:
    return field.replace("_", "")


def _neighbours(groups: Sequence[ElasticGroup]) -> Callable[[ElasticGroup], set[int]]:
    """Return a function that returns the positions of the groups above and below a group."""
    # Of several groups with the same name, which is reported by itself, the first counts as the parent.
    above = {group.name: at for at, group in reversed([*enumerate(groups)])}
    below = defaultdict[str, set[int]](set)
    for at, group in enumerate(groups):
        below[group.parent].add(at)
    return lambda group: below[group.name] | ({above[group.parent]} if group.parent in above else set())
