"""Pods, and which of the groups each belongs to.

A pod belongs to the group that its label names; else to the group whose object has the name of the pod's namespace and
lives in it; else to the group that lists the namespace; else to the default group. A name that no group has stands for
the default group as well, for as long as there is no such group.

Source: Koordinator, multi-hierarchy elastic quota management, "Pod" and "Compatibility".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import count
from typing import Final, NamedTuple, TypeVar, final

from ugm.arguments import require_name, require_resource
from ugm.elastic.group import DEFAULT_GROUP, ElasticGroup
from ugm.errors import RequestError
from ugm.identity import MAX_NAME
from ugm.resources import Resource

__all__ = ["Held", "Pod", "PodLedger", "require_pod"]

_NOTHING: Final = Resource()


class Pod(NamedTuple):
    """What runs, or waits to run, and what it asks for.

    >>> Pod("web-1", Resource(vcore=500), group="web").firm
    Resource()
    """

    #: Unique among all pods.
    name: str
    usage: Resource
    #: The group that the pod names; empty if it names none.
    group: str = ""
    namespace: str = ""
    #: Higher goes first; only pods of one group are compared.
    priority: int = 0
    #: Whether the pod may be taken back. If not, it has to fit into the minimum of its group.
    preemptible: bool = True
    #: When it started; None if that is not known yet, which counts as just now.
    started: int | None = None

    @property
    def firm(self) -> Resource:
        """What of the usage must not be taken back: all or nothing."""
        return _NOTHING if self.preemptible else self.usage


def require_pod(pod: object) -> None:
    """Make sure that this is a pod that can be counted and compared with others.

    Raises:
        RequestError: it is not, or asks for less than nothing.
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
            raise RequestError(f"pod.{field}", number, "expected a whole number")


KeyT = TypeVar("KeyT")

#: Whom a pod names and, if it names nobody, where it is: all that decides where it belongs.
_Binding = tuple[str, str]


@final
class Held:
    """A pod that is counted, and where."""

    __slots__ = ("arrival", "group", "is_running", "pod")

    pod: Pod
    #: The group that it is counted in.
    group: str
    #: Whether it uses what it asks for.
    is_running: bool
    #: Its place in the order of arrival.
    arrival: int

    def __init__(self, pod: Pod, group: str, arrival: int = 0) -> None:
        self.pod, self.group, self.is_running, self.arrival = pod, group, False, arrival


@final
class PodLedger:
    """All pods, and the groups as far as it takes to say where a pod belongs."""

    __slots__ = ("_arrivals", "_by_binding", "_by_group", "_groups", "_listed", "_namespaces", "pods")

    #: In the order of their arrival. All other records of pods follow from these (see `reindex`).
    pods: dict[str, Held]
    _arrivals: Iterator[int]
    _by_group: dict[str, dict[str, Held]]
    _by_binding: dict[_Binding, dict[str, Held]]
    #: How many pods there are in each namespace.
    _namespaces: dict[str, int]
    _groups: dict[str, ElasticGroup]
    #: Namespace to the groups that list it, the earliest first.
    _listed: dict[str, list[str]]

    def __init__(self, groups: Iterable[ElasticGroup] = ()) -> None:
        self.pods = {}
        self._arrivals = count(1)
        self._by_group, self._by_binding, self._namespaces = {}, {}, {}
        self._groups, self._listed = {}, {}
        for group in groups:
            self.know(group)

    # Groups

    def know(self, group: ElasticGroup) -> list[Held]:
        """Take note of a new or changed group, and return the pods that may belong elsewhere now."""
        old = self._groups.get(group.name, group)
        if group.name in self._groups:
            self._unlist(old)
        self._groups[group.name] = group
        for namespace in group.namespaces:
            self._listed.setdefault(namespace, []).append(group.name)
        return self._bound(group.name, dict.fromkeys((*old.namespaces, *group.namespaces)))

    def ignore(self, name: str) -> list[Held]:
        """Undo `know`, for good."""
        old = self._groups.pop(name)
        self._unlist(old)
        return self._bound(name, old.namespaces)

    def _unlist(self, old: ElasticGroup) -> None:
        for namespace in old.namespaces:
            self._listed[namespace].remove(old.name)
            if not self._listed[namespace]:
                del self._listed[namespace]

    def _bound(self, name: str, namespaces: Collection[str]) -> list[Held]:
        bindings = [(name, ""), ("", name), *(("", namespace) for namespace in namespaces if namespace != name)]
        return [held for binding in bindings for held in self._by_binding.get(binding, {}).values()]

    def group_bound_to(self, namespace: str) -> str | None:
        """Return the group that lists a namespace."""
        listed = self._listed.get(namespace)
        return listed[0] if listed else None

    def group_of(self, group: str, namespace: str) -> str:
        """Return where a pod belongs that names *group*, or nobody, and is in *namespace*."""
        if group:
            return group if group in self._groups else DEFAULT_GROUP
        same = self._groups.get(namespace)
        if same is not None and same.namespace == namespace:
            return namespace
        return self.group_bound_to(namespace) or DEFAULT_GROUP

    # Pods

    def has_pods_of(self, group: str) -> bool:
        """Return whether pods name a group."""
        return (group, "") in self._by_binding

    def has_pods_in(self, namespace: str) -> bool:
        """Return whether there are pods in a namespace."""
        return namespace in self._namespaces

    def pods_in(self, group: str) -> Iterator[Held]:
        """Yield the pods that are counted in a group, in the order of their arrival."""
        yield from self._by_group.get(group, {}).values()

    def add(self, pod: Pod) -> Held:
        """Take in a new pod."""
        held = Held(pod, self.group_of(pod.group, pod.namespace), next(self._arrivals))
        self.pods[pod.name] = held
        self._index(held)
        return held

    def _index(self, held: Held) -> None:
        pod = held.pod
        self._by_group.setdefault(held.group, {})[pod.name] = held
        self._by_binding.setdefault(_binding(pod), {})[pod.name] = held
        self._namespaces[pod.namespace] = self._namespaces.get(pod.namespace, 0) + 1

    def reindex(self) -> None:
        """Rebuild all records of pods from `pods`, whatever state an interrupted change has left them in."""
        self.pods = dict(sorted(self.pods.items(), key=lambda item: item[1].arrival))
        self._by_group, self._by_binding, self._namespaces = {}, {}, {}
        for held in self.pods.values():
            self._index(held)

    def remove(self, name: str) -> Held:
        """Leave a pod out."""
        held = self.pods.pop(name)
        _take_out(self._by_group, held.group, name)
        _take_out(self._by_binding, _binding(held.pod), name)
        self._namespaces[held.pod.namespace] -= 1
        if not self._namespaces[held.pod.namespace]:
            del self._namespaces[held.pod.namespace]
        return held

    def move(self, held: Held, group: str) -> None:
        """Count a pod in another group."""
        _take_out(self._by_group, held.group, held.pod.name)
        held.group = group
        self._by_group.setdefault(group, {})[held.pod.name] = held


def _binding(pod: Pod) -> _Binding:
    return (pod.group, "") if pod.group else ("", pod.namespace)


def _take_out(index: dict[KeyT, dict[str, Held]], key: KeyT, name: str) -> None:
    del index[key][name]
    if not index[key]:
        del index[key]
