"""Pods, the group that each pod belongs to, and the decisions about pods.

A pod belongs to, in this order: the group that its label names; the group whose object has the name of the pod's
namespace and is in that namespace; the group that lists the namespace; the default group. A label that names an unknown
group means the default group, until the group exists.

*Admission* compares a pod with the runtime of its group, the minimum of its group, and the groups above. Only resources
that the pod requests are checked. A resource that exceeds its limit already does not deny a pod that requests none of
it. A resource that the maximum of the group does not name is not counted at all.

*Eviction* revokes what a group borrowed, or makes room for a pod of the group. A plan is a value, which the caller
carries out. Only pods of the group itself are chosen, because priorities of different groups cannot be compared.
Non-preemptible pods are never chosen. A plan removes all other pods from the counts, and then keeps each pod that still
fits, the most important first.

Source: Koordinator, multi-hierarchy elastic quota management, "Pod", "Compatibility", "PreFilter",
"Min Guarantee and Preemption" and "PostFilter".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias, final

from ugm.arguments import require_items, require_name, require_resource
from ugm.decision import Violation
from ugm.elastic.group import DEFAULT_GROUP, ElasticGroup
from ugm.elastic.nodes import GroupNode, ResourceNode
from ugm.elastic.tree import ElasticTree
from ugm.errors import RequestError
from ugm.identity import MAX_NAME
from ugm.resources import Resource

__all__ = [
    "GROUP",
    "MINIMUM",
    "AdmissionRules",
    "ElasticPreemptionPlan",
    "GroupAdmission",
    "Pod",
    "PodIndex",
    "RevokePlan",
    "RuntimeViolation",
    "TrackedPod",
    "plan_preemption",
    "plan_revoke",
    "require_pod",
    "require_texts",
]

_NOTHING: Final = Resource()


class Pod(NamedTuple):
    """A running or waiting pod, with its request.

    >>> Pod("web-1", Resource.parse(vcore="500m"), group="web").non_preemptible
    Resource()
    """

    #: Unique among all pods.
    name: str
    #: The request of the pod, which is its usage while it runs.
    usage: Resource
    #: The group that the pod names; empty for none.
    group: str = ""
    namespace: str = ""
    #: Higher values are more important. Only pods of one group are compared.
    priority: int = 0
    #: Whether the pod may be evicted. A non-preemptible pod must fit the minimum of its group.
    preemptible: bool = True
    #: The start time; None if it is unknown, which counts as just now.
    started: int | None = None

    @property
    def non_preemptible(self) -> Resource:
        """The part of the request that must not be taken back: all or nothing."""
        return _NOTHING if self.preemptible else self.usage


def require_pod(pod: object) -> None:
    """Check that an argument is a pod with valid fields.

    Raises:
        RequestError: it is not, or an amount is negative.
    """
    if not isinstance(pod, Pod):
        raise RequestError("pod", pod, "expected a Pod")
    require_name("pod.name", pod.name)
    require_resource("pod.usage", pod.usage)
    for field, value in (("group", pod.group), ("namespace", pod.namespace)):
        if not isinstance(value, str):
            raise RequestError(f"pod.{field}", value, "expected a text")
        if len(value) > MAX_NAME:
            raise RequestError(f"pod.{field}", value, f"a name has up to {MAX_NAME} characters")
    if type(pod.preemptible) is not bool:
        raise RequestError("pod.preemptible", pod.preemptible, "expected True or False")
    for field, number in (("priority", pod.priority), ("started", pod.started or 0)):
        if type(number) is not int:
            raise RequestError(f"pod.{field}", number, "expected an int")


def require_texts(argument: str, names: object) -> tuple[str, ...]:
    """Return several names, which may be unknown.

    Raises:
        RequestError: they are not several texts.
    """
    items = require_items(argument, names)
    for name in items:
        if not isinstance(name, str):
            raise RequestError(argument, name, "expected a text")
    return items


@final
@dataclass(slots=True, eq=False)
class TrackedPod:
    """A pod that is counted, with its group."""

    pod: Pod
    #: The group that the pod is counted in.
    group: str
    #: Whether the pod runs; otherwise it waits.
    is_running: bool = False


@final
class PodIndex:
    """All pods by name and group, and the names and namespaces of all groups."""

    def __init__(self, groups: Iterable[ElasticGroup] = ()) -> None:
        #: In the order of arrival.
        self.pods: Final[dict[str, TrackedPod]] = {}
        #: The pods of each group, by name.
        self._by_group: dict[str, dict[str, TrackedPod]] = {}
        #: In the order in which they were put.
        self._groups: Final[dict[str, ElasticGroup]] = {}
        #: For each namespace the earliest group that lists it.
        self._listed: Final[dict[str, str]] = {}
        for group in groups:
            self.put_group(group)

    # Groups. After a change, pods may belong to other groups; see `reindex`.

    def put_group(self, group: ElasticGroup) -> None:
        """Add or replace a group."""
        if group.name in self._groups:
            self.drop_group(group.name)
        self._groups[group.name] = group
        for namespace in group.namespaces:
            self._listed.setdefault(namespace, group.name)

    def drop_group(self, name: str) -> None:
        """Remove a group."""
        if self._groups.pop(name).namespaces:
            self._listed.clear()
            for group in self._groups.values():
                for namespace in group.namespaces:
                    self._listed.setdefault(namespace, group.name)

    def group_listing(self, namespace: str) -> str | None:
        """Return the group that lists a namespace."""
        return self._listed.get(namespace)

    def group_of(self, pod: Pod) -> str:
        """Return the group that a pod belongs to."""
        if pod.group:
            return pod.group if pod.group in self._groups else DEFAULT_GROUP
        same = self._groups.get(pod.namespace)
        if same is not None and same.namespace == pod.namespace:
            return pod.namespace
        return self._listed.get(pod.namespace, DEFAULT_GROUP)

    # Pods

    def has_pods_of(self, group: str) -> bool:
        """Return whether pods name a group. Takes time proportional to the number of pods."""
        return any(tracked.pod.group == group for tracked in self.pods.values())

    def has_pods_in(self, namespaces: Collection[str]) -> bool:
        """Return whether there are pods in one of some namespaces. Takes time proportional to the number of pods."""
        return any(tracked.pod.namespace in namespaces for tracked in self.pods.values())

    def pods_in(self, group: str) -> list[TrackedPod]:
        """Return the pods that are counted in a group, in the order of arrival."""
        return list(self._by_group.get(group, {}).values())

    def add(self, pod: Pod, *, is_running: bool = False) -> TrackedPod:
        """Add a new pod, and return it with its group."""
        tracked = TrackedPod(pod, self.group_of(pod), is_running)
        self.pods[pod.name] = tracked
        self._by_group.setdefault(tracked.group, {})[pod.name] = tracked
        return tracked

    def remove(self, name: str) -> None:
        """Remove a pod."""
        group = self.pods.pop(name).group
        del self._by_group[group][name]
        if not self._by_group[group]:
            del self._by_group[group]

    def reindex(self) -> None:
        """Let every pod belong to its present group, after a change of groups or an interrupted change of a pod."""
        self._by_group = {}
        for name, tracked in self.pods.items():
            tracked.group = self.group_of(tracked.pod)
            self._by_group.setdefault(tracked.group, {})[name] = tracked


#: The kinds of the violations.
GROUP: Final = "elastic group"
MINIMUM: Final = "elastic group minimum"

_NONE_FREED: Final[Mapping[str, int]] = MappingProxyType({})

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
        self, group: str, usage: Resource, *, preemptible: bool = True, freed: Mapping[str, int] = _NONE_FREED
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


class RevokePlan(NamedTuple):
    """The pods to evict from a group that uses more than its runtime."""

    group: str
    #: Most important first if the plan suffices; least important first if usage above the runtime remains.
    victims: tuple[str, ...]
    #: The usage above the runtime now.
    excess: Resource
    #: The usage above the runtime afterwards: of non-preemptible pods, or of child groups.
    remaining: Resource


class ElasticPreemptionPlan(NamedTuple):
    """The pods to evict for one pod of the same group."""

    pod: str
    group: str
    #: Least important first; empty if no eviction is necessary, or if none would help.
    victims: tuple[str, ...]
    #: The limits that are exceeded even if all candidates are evicted; empty if the pod fits.
    violations: tuple[Violation, ...]

    def __bool__(self) -> bool:
        return not self.violations


def plan_revoke(
    group: str, used: Mapping[str, int], limit: Mapping[str, int], pods: Iterable[TrackedPod]
) -> RevokePlan:
    """Choose pods to evict until *used* is within *limit*. All resources are considered.

    Args:
        group: the group.
        used: the usage of the group, including its child groups.
        limit: the limit of the group; a missing resource is not limited.
        pods: the pods of the group, in the order of arrival; only running pods are candidates.
    """
    over = {name: used.get(name, 0) - amount for name, amount in limit.items()}
    excess = _positive(over)

    def count(one: TrackedPod, sign: int) -> None:
        for name, amount in one.pod.usage.amounts.items():
            if name in over:
                over[name] += sign * amount

    candidates = _candidates(pods)
    needed = _needed(candidates, count, lambda: all(amount <= 0 for amount in over.values()))
    victims = candidates if needed is None else needed
    return RevokePlan(group, tuple(one.pod.name for one in victims), excess, _positive(over))


def _positive(over: Mapping[str, int]) -> Resource:
    return Resource({name: amount for name, amount in over.items() if amount > 0})


def plan_preemption(
    pod: Pod,
    group: str,
    pods: Iterable[TrackedPod],
    count: Callable[[TrackedPod, int], None],
    check: Callable[[], Iterable[Violation]],
) -> ElasticPreemptionPlan:
    """Choose pods of lower priority to evict for a pod: as few as possible, the least important first.

    Args:
        pod: the pod to admit.
        group: the group of the pod.
        pods: the pods of the group with a lower priority; of equal priority, in the order of arrival.
        count: removes a pod from the counts (-1) or adds it again (1). The victims are still removed at the end.
        check: returns the limits that the pod would exceed at that point.
    """
    candidates = _candidates(pods)
    needed = _needed(candidates, count, lambda: not any(True for _ in check()))
    if needed is None:
        return ElasticPreemptionPlan(pod.name, group, (), tuple(check()))
    return ElasticPreemptionPlan(pod.name, group, tuple(one.pod.name for one in reversed(needed)), ())


def _candidates(pods: Iterable[TrackedPod]) -> list[TrackedPod]:
    """Return the pods that may be evicted, least important first.

    Pods are compared by priority, and then by start: the youngest is the least important, and a pod without a start is
    the youngest. Sorting is stable, so equal pods stay in the order of arrival.
    """

    def importance(one: TrackedPod) -> tuple[int, bool, int]:
        return one.pod.priority, one.pod.started is not None, -(one.pod.started or 0)

    return sorted((one for one in pods if one.is_running and one.pod.preemptible), key=importance)


def _needed(
    candidates: list[TrackedPod], count: Callable[[TrackedPod, int], None], suffices: Callable[[], bool]
) -> list[TrackedPod] | None:
    """Remove the candidates, and add those again that can stay, the most important first.

    Returns:
        The removed candidates, most important first; None if the removal of all of them does not suffice.
    """
    for one in candidates:
        count(one, -1)
    if not suffices():
        return None
    needed = []
    for one in reversed(candidates):
        count(one, 1)
        if not suffices():
            count(one, -1)
            needed.append(one)
    return needed
