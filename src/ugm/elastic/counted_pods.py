"""The pods of elastic groups, counted in the request and the usage of their groups.

All counts can be rebuilt from the pods (`CountedPods.recount`). If an exception from outside interrupts a change of one
pod, the change is undone and all counts are rebuilt. The owner of the pods undoes a change of a group in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from ugm.elastic.pods import Pod, PodIndex, TrackedPod, require_texts
from ugm.elastic.self_check import verify
from ugm.elastic.tree import ElasticTree
from ugm.errors import RequestError
from ugm.resources import Resource

__all__ = ["CountedPods"]


@final
class CountedPods:
    """The pods of a tree of groups. Pods and tree change together.

    Args:
        tree: the groups.
    """

    def __init__(self, tree: ElasticTree) -> None:
        self._tree: Final = tree
        self.index: Final = PodIndex(tree.groups)
        #: A copy of the initial tree, if it had requests or usage of its own.
        self._without_pods: Final = tree.copy() if tree.has_counts else None

    def tracked(self, name: str) -> TrackedPod:
        """Return a pod.

        Raises:
            RequestError: the pod is unknown.
        """
        try:
            return self.index.pods[name]
        except (KeyError, TypeError):
            raise RequestError("pod", name, "there is no such pod", "object-unknown") from None

    def rebind(self, bound: Iterable[TrackedPod]) -> None:
        """Count pods in the groups that they belong to now."""
        for tracked in bound:
            group = self.index.group_of(tracked.pod)
            if group != tracked.group:
                self.count(tracked, -1)
                self.index.move(tracked, group)
                self.count(tracked, 1)

    def add(self, pod: Pod, *, is_running: bool = False) -> None:
        """Add a new pod.

        Raises:
            RequestError: there is already a pod of this name. Nothing has changed.
        """
        if pod.name in self.index.pods:
            raise RequestError("pod", pod.name, "there is already a pod of this name", "id-in-use")
        try:
            self.count(self.index.add(pod, is_running=is_running), 1)
        except BaseException:
            self._restore(pod.name, None)
            raise

    def replace(self, pod: Pod) -> None:
        """Add a running pod in place of the pod of this name, if there is one."""
        old = self.index.pods.get(pod.name)
        try:
            if old is not None and not old.is_running and old.pod[:-1] == pod[:-1]:
                # A waiting pod starts. Its request, which determines the runtimes of all groups, stays as it is.
                self.index.remove(pod.name)
                self._count_start(self.index.add(pod, is_running=True))
                return
            if old is not None:
                self.remove(pod.name)
            self.count(self.index.add(pod, is_running=True), 1)
        except BaseException:
            self._restore(pod.name, old)
            raise

    def set_running(self, name: str, *, is_running: bool) -> None:
        """Count a pod as running or as waiting.

        Raises:
            RequestError: the pod is unknown.
        """
        tracked = self.tracked(name)
        if tracked.is_running is is_running:
            return
        try:
            self._count_usage(tracked, 1 if is_running else -1)
            tracked.is_running = is_running
        except BaseException:
            tracked.is_running = not is_running
            self.recount()
            raise

    def remove(self, name: str) -> Pod:
        """Remove a pod, and return it.

        Raises:
            RequestError: the pod is unknown.
        """
        tracked = self.tracked(name)
        try:
            self.count(tracked, -1)
            self.index.remove(name)
        except BaseException:
            self._restore(name, tracked)
            raise
        return tracked.pod

    def remove_each(self, names: Iterable[str]) -> None:
        """Remove some pods.

        Raises:
            RequestError: a pod is unknown. Nothing has changed.
        """
        removed = {name: self.tracked(name) for name in names}
        try:
            for name in removed:
                self.remove(name)
        except BaseException:
            self.index.pods.update(removed)
            self.recount()
            raise

    def remove_all(self, names: Iterable[str]) -> None:
        """Remove all pods with one of these names, and rebuild all counts."""
        pods, gone = self.index.pods, set(require_texts("names", names))
        try:
            self.index.pods = {name: tracked for name, tracked in pods.items() if name not in gone}
            self._recount()
        except BaseException:
            self.index.pods = pods
            self._recount()
            raise

    def _restore(self, name: str, tracked: TrackedPod | None) -> None:
        """Undo an interrupted call for one pod: count *tracked*, or no pod of that name."""
        self.index.pods.pop(name, None)
        if tracked is not None:
            self.index.pods[name] = tracked
        self.recount()

    def recount(self) -> None:
        """Rebuild all counts from the pods. Takes time proportional to the number of groups and pods."""
        try:
            self._recount()
        except BaseException:
            # It can start from any state, so an interrupted call is repeated.
            self._recount()
            raise

    def _recount(self) -> None:
        self.index.reindex()
        self._tree.clear_counts()
        if self._without_pods is not None:
            self._tree.add_counts_of(self._without_pods)
        for tracked in self.index.pods.values():
            self.count(tracked, 1)

    def verify(self) -> None:
        """Compare the tree with one that counts the pods from the start.

        Raises:
            InvariantError: with a message for each difference.
        """
        tree = self._tree
        expected = self._without_pods or ElasticTree(tree.total, tree.groups, scale_min=tree.scale_min)
        twin = CountedPods(expected.copy())
        for tracked in self.index.pods.values():
            twin.count(tracked, 1)
        verify(tree, expected=twin._tree)

    def count(self, tracked: TrackedPod, sign: int) -> None:
        """Add the counts of a pod to its group if *sign* is 1; subtract them if it is -1."""
        pod = tracked.pod
        if pod.preemptible:
            self._tree.count_pod(tracked.group, pod.usage, sign, is_running=tracked.is_running)
            return
        self.count_request(tracked, sign)
        if tracked.is_running:
            self._count_usage(tracked, sign)

    def count_request(self, tracked: TrackedPod, sign: int) -> None:
        """Do the same with its request alone."""
        pod = tracked.pod
        if pod.preemptible:
            self._tree.count_pod(tracked.group, pod.usage, sign, is_running=False)
            return
        fixed = _times(sign, pod.non_preemptible)
        tree = self._tree
        tree._change_request(tree.nodes[tracked.group], _times(sign, pod.usage), fixed)  # noqa: SLF001 - of this package

    def _count_start(self, tracked: TrackedPod) -> None:
        if tracked.pod.preemptible:
            self._tree.count_start(tracked.group, tracked.pod.usage)
        else:
            self._count_usage(tracked, 1)

    def _count_usage(self, tracked: TrackedPod, sign: int) -> None:
        pod = tracked.pod
        fixed = _times(sign, pod.non_preemptible)
        tree = self._tree
        tree._change_used(tree.nodes[tracked.group], _times(sign, pod.usage), fixed)  # noqa: SLF001 - of this package


def _times(sign: int, amounts: Resource) -> Resource:
    return amounts if sign > 0 else Resource({name: -amount for name, amount in amounts.amounts.items()})
