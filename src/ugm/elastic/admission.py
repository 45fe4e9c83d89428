"""The admission of a pod: the runtime of its group, the minimum of its group, and the groups above.

Only resources that the pod requests are checked. A resource that exceeds its limit already does not deny a pod that
requests none of it. A resource that the maximum of the group does not name is not counted at all.

Source: Koordinator, multi-hierarchy elastic quota management, "PreFilter".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias, final

from ugm.decision import Violation
from ugm.elastic.nodes import GroupNode, ResourceNode
from ugm.elastic.tree import ElasticTree
from ugm.resources import Resource

__all__ = ["GROUP", "MINIMUM", "AdmissionRules", "GroupAdmission", "RuntimeViolation"]

#: The kinds of the violations.
GROUP: Final = "elastic group"
MINIMUM: Final = "elastic group minimum"

_NOTHING: Final[Mapping[str, int]] = MappingProxyType({})

#: The node of each requested resource, its name, and the requested amount.
_Requested: TypeAlias = list[tuple[ResourceNode, str, int]]


@final
class RuntimeViolation(Violation):
    """A violation of the runtime of a group. The runtime can increase when other groups request less.

    A request that no increase can help is reported as a plain `ugm.Violation` instead; see `ElasticQuota.never`.
    """

    __slots__ = ()

    @property
    def can_wait(self) -> bool:
        """True: waiting can help."""
        return True


class AdmissionRules(NamedTuple):
    """The rules for admitting pods."""

    #: True: the limit is the runtime of the group. False: the maximum, independent of the usage of other groups.
    by_runtime: bool = True
    #: Whether the groups above limit a pod as well. Koordinator's default is False.
    check_parents: bool = True


@final
@dataclass(frozen=True, slots=True)
class GroupAdmission:
    """The check of pods against the limits of their groups.

    Args:
        tree: the groups.
        rules: the rules for admitting pods.
    """

    tree: ElasticTree
    rules: AdmissionRules

    def room(self, group: str, resource: str) -> int | None:
        """Return the most of a resource with which an expected pod fits a group; None if that is not limited."""
        found = self.tree.nodes.get(group)
        node = None if found is None else found.resources.get(resource)
        if node is None or not node.is_limited:
            return None
        return (node.runtime() if self.rules.by_runtime else node.max) - node.used

    def violations(
        self, group: str, usage: Resource, *, preemptible: bool = True, freed: Mapping[str, int] = _NOTHING
    ) -> Iterator[Violation]:
        """Yield every limit that *usage* would exceed: of the group, of its minimum, and of the groups above.

        The groups above are in order from the parent upwards, without the root.

        Args:
            group: the group of the pod.
            usage: the request of the pod.
            preemptible: whether the pod may be evicted; otherwise it must fit the minimum of the group.
            freed: the usage in the group that is released for the pod.
        """
        node = self.tree.node(group)
        requested = [
            (resource, name, amount)
            for name, amount in usage.amounts.items()
            if amount > 0 and (resource := node.resources.get(name)) and resource.is_limited
        ]
        for resource, name, amount in requested:
            yield from self._limit_violations(resource, name, amount, freed)
        if not preemptible:
            yield from _minimum_violations(node, requested)
        levels = [(above, name, amount) for resource, name, amount in requested for above in self._above(resource)]
        for above, name, amount in sorted(levels, key=lambda level: -self.tree.nodes[level[0].name].depth):
            yield from self._limit_violations(above, name, amount, freed)

    def _above(self, node: ResourceNode) -> Iterator[ResourceNode]:
        """Yield the nodes above a node that limit it too, without the root."""
        while self.rules.check_parents and node.parent is not None and node.parent.parent is not None:
            node = node.parent
            if node.is_limited:
                yield node

    def _limit_violations(
        self, node: ResourceNode, name: str, amount: int, freed: Mapping[str, int]
    ) -> Iterator[Violation]:
        used = node.used - freed.get(name, 0)
        if not self.rules.by_runtime:
            if used + amount > node.max:
                yield Violation(GROUP, node.name, "", "", name, node.max, used, amount)
            return
        runtime = node.runtime()
        if used + amount > runtime:
            yield RuntimeViolation(GROUP, node.name, "", "", name, runtime, used, amount)


def _minimum_violations(group: GroupNode, requested: _Requested) -> Iterator[Violation]:
    """Yield where non-preemptible pods would use more than the minimum of their group."""
    minimums = group.group.min if group.group is not None else Resource()
    for node, name, amount in requested:
        used = node.non_preemptible_used
        if name in minimums and used + amount > node.min:
            yield Violation(MINIMUM, group.name, "", "", name, node.min, used, amount)
