"""Pods, and the group that each pod belongs to.

A pod belongs to, in this order: the group that its label names; the group whose object has the name of the pod's
namespace and is in that namespace; the group that lists the namespace; the default group. A label that names an unknown
group means the default group, until the group exists.

Source: Koordinator, multi-hierarchy elastic quota management, "Pod" and "Compatibility".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, final

from ugm.arguments import require_items, require_name, require_resource
from ugm.elastic.group import DEFAULT_GROUP, ElasticGroup
from ugm.errors import RequestError
from ugm.identity import MAX_NAME
from ugm.resources import Resource

__all__ = ["Pod", "PodIndex", "TrackedPod", "require_pod", "require_texts"]

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
