"""Pods, and the group that each pod belongs to.

A pod belongs to, in this order: the group that its label names; the group whose object has the name of the pod's
namespace and is in that namespace; the group that lists the namespace; the default group. A label that names an unknown
group means the default group, until the group exists.

Source: Koordinator, multi-hierarchy elastic quota management, "Pod" and "Compatibility".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final, NamedTuple, TypeAlias, TypeVar, final

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


KeyT = TypeVar("KeyT")

#: The group that a pod names or, if it names none, its namespace. This determines the group of the pod.
_Binding: TypeAlias = tuple[str, str]


@final
@dataclass(slots=True, eq=False)
class TrackedPod:
    """A pod that is counted, with its group."""

    pod: Pod
    #: The group that the pod is counted in.
    group: str
    #: The position in the order of arrival.
    arrival: int = 0
    #: Whether the pod runs; otherwise it waits.
    is_running: bool = False


_ByGroup: TypeAlias = defaultdict[str, defaultdict[int, dict[str, TrackedPod]]]

#: Makes the pods of a group by priority. A partial function can be copied and pickled, unlike a lambda.
_by_priority: Final = partial(defaultdict[int, dict[str, TrackedPod]], dict)


@final
class PodIndex:
    """All pods by name, group and namespace, and the names and namespaces of all groups."""

    def __init__(self, groups: Iterable[ElasticGroup] = ()) -> None:
        #: In the order of arrival. All other indexes of pods follow from it (see `reindex`).
        self.pods: dict[str, TrackedPod] = {}
        self._arrivals: Final = count(1)
        #: Group to priority to the pods of both, by name. Queries use `get`, so that they add nothing.
        self._by_group: _ByGroup = defaultdict(_by_priority)
        self._by_binding: defaultdict[_Binding, dict[str, TrackedPod]] = defaultdict(dict)
        #: In the order in which they were put. The next index follows from it.
        self._groups: dict[str, ElasticGroup] = {}
        #: The positions of the groups in this order.
        self._places: Final[dict[str, int]] = {}
        #: Namespace to the groups that list it, the earliest first.
        self._listed: dict[str, list[str]] = {}
        for group in groups:
            self.put_group(group)

    # Groups

    def put_group(self, group: ElasticGroup) -> list[TrackedPod]:
        """Add or replace a group, and return the pods whose group may have changed."""
        old = self._groups.get(group.name, group)
        if self._groups.pop(group.name, None) is not None:
            self._unlist(old)
        self._places[group.name] = next(self._arrivals)
        self._groups[group.name] = group
        self._list(group)
        return self._bound(group.name, dict.fromkeys((*old.namespaces, *group.namespaces)))

    def drop_group(self, name: str) -> list[TrackedPod]:
        """Remove a group, and return the pods whose group may have changed."""
        old = self._groups.pop(name)
        del self._places[name]
        self._unlist(old)
        return self._bound(name, old.namespaces)

    def undo_of_change(self, name: str) -> Callable[[], None]:
        """Return a function that undoes the next change of a group, whether or not it was interrupted.

        The indexes of pods must be rebuilt afterwards.
        """
        return partial(self._restore_group, name, self._groups.get(name), self._places.get(name, 0))

    def _restore_group(self, name: str, group: ElasticGroup | None, place: int) -> None:
        """Restore a group at its place, or remove it if *group* is None."""
        others = {other: each for other, each in self._groups.items() if other != name}
        self._places.pop(name, None)
        if group is not None:
            others[name], self._places[name] = group, place
        self._groups = {each: others[each] for each in sorted(others, key=self._places.__getitem__)}
        self._listed = {}
        for each in self._groups.values():
            self._list(each)

    def _list(self, group: ElasticGroup) -> None:
        for namespace in group.namespaces:
            self._listed.setdefault(namespace, []).append(group.name)

    def _unlist(self, old: ElasticGroup) -> None:
        for namespace in old.namespaces:
            self._listed[namespace].remove(old.name)
            if not self._listed[namespace]:
                del self._listed[namespace]

    def _bound(self, name: str, namespaces: Collection[str]) -> list[TrackedPod]:
        bindings = [(name, ""), ("", name), *(("", namespace) for namespace in namespaces if namespace != name)]
        return [tracked for binding in bindings for tracked in self._by_binding.get(binding, {}).values()]

    def group_listing(self, namespace: str) -> str | None:
        """Return the group that lists a namespace."""
        listed = self._listed.get(namespace)
        return listed[0] if listed else None

    def group_of(self, pod: Pod) -> str:
        """Return the group that a pod belongs to."""
        if pod.group:
            return pod.group if pod.group in self._groups else DEFAULT_GROUP
        same = self._groups.get(pod.namespace)
        if same is not None and same.namespace == pod.namespace:
            return pod.namespace
        return self.group_listing(pod.namespace) or DEFAULT_GROUP

    # Pods

    def has_pods_of(self, group: str) -> bool:
        """Return whether pods name a group."""
        return (group, "") in self._by_binding

    def has_pods_in(self, namespaces: Collection[str]) -> bool:
        """Return whether there are pods in one of some namespaces. Takes time proportional to the number of pods."""
        return any(tracked.pod.namespace in namespaces for tracked in self.pods.values())

    def pods_in(self, group: str) -> list[TrackedPod]:
        """Return the pods that are counted in a group, in the order of arrival."""
        found = [tracked for pods in self._by_group.get(group, {}).values() for tracked in pods.values()]
        return sorted(found, key=_arrival)

    def pods_below(self, group: str, priority: int) -> Iterator[TrackedPod]:
        """Yield the pods of lower priority that are counted in a group; of equal priority, in the order of arrival.

        Other pods cost no time.
        """
        for one, pods in self._by_group.get(group, {}).items():
            if one < priority:
                yield from pods.values()

    def add(self, pod: Pod, *, is_running: bool = False) -> TrackedPod:
        """Add a new pod, and return it with its group."""
        tracked = TrackedPod(pod, self.group_of(pod), next(self._arrivals), is_running)
        self.pods[pod.name] = tracked
        self._index(tracked)
        return tracked

    def _index(self, tracked: TrackedPod) -> None:
        pod = tracked.pod
        self._put_in_group(tracked)
        self._by_binding[_binding(pod)][pod.name] = tracked

    def _put_in_group(self, tracked: TrackedPod) -> None:
        pod = tracked.pod
        self._by_group[tracked.group][pod.priority][pod.name] = tracked

    def _remove_from_group(self, tracked: TrackedPod) -> None:
        by_priority = self._by_group[tracked.group]
        _remove(by_priority, tracked.pod.priority, tracked.pod.name)
        if not by_priority:
            del self._by_group[tracked.group]

    def reindex(self) -> None:
        """Rebuild all other indexes of pods from `pods`, for example after an interrupted change."""
        self.pods = dict(sorted(self.pods.items(), key=lambda item: item[1].arrival))
        self._by_group, self._by_binding = defaultdict(_by_priority), defaultdict(dict)
        for tracked in self.pods.values():
            tracked.group = self.group_of(tracked.pod)
            self._index(tracked)

    def remove(self, name: str) -> None:
        """Remove a pod."""
        tracked = self.pods.pop(name)
        self._remove_from_group(tracked)
        _remove(self._by_binding, _binding(tracked.pod), name)

    def move(self, tracked: TrackedPod, group: str) -> None:
        """Count a pod in another group."""
        self._remove_from_group(tracked)
        tracked.group = group
        self._put_in_group(tracked)


def _arrival(tracked: TrackedPod) -> int:
    return tracked.arrival


def _binding(pod: Pod) -> _Binding:
    return (pod.group, "") if pod.group else ("", pod.namespace)


def _remove(index: dict[KeyT, dict[str, TrackedPod]], key: KeyT, name: str) -> None:
    pods = index[key]
    del pods[name]
    if not pods:
        del index[key]
