"""Elastic quotas, also declared ones: checked changes of groups, counted pods, admission and eviction plans.

`ElasticQuota` combines the tree of groups (`ugm.elastic.tree`), the rules for changes of groups
(`ugm.elastic.validation`), and the decisions about pods (`ugm.elastic.admission`). It has no lock: its owner has one.

All counts follow from the pods. If an exception from outside interrupts a change of a pod, call
`ElasticQuota.recount`, as a partition does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final, TypeVar, final

from ugm.arguments import require_instance, require_names
from ugm.configuration.scheduler import ROOT_GROUP, ElasticGroup
from ugm.decision import ALLOWED, Decision, EffectiveLimit, Violation
from ugm.elastic.admission import (
    GROUP,
    MINIMUM,
    AdmissionRules,
    ElasticPreemptionPlan,
    RevokePlan,
    RuntimeViolation,
    candidates_of,
    needed_of,
)
from ugm.elastic.group import DEFAULT_GROUP, SYSTEM_GROUP, Pod, refuse, require_group, require_pod
from ugm.elastic.runtime import ResourceNode
from ugm.elastic.tree import CountPod, ElasticTree, GroupNode, TrackedPod, verify
from ugm.elastic.validation import refusals_of_create, refusals_of_update, with_defaults
from ugm.errors import RequestError
from ugm.identity import is_name
from ugm.resources import Resource

AnswerT = TypeVar("AnswerT")

_DEFAULT_RULES: Final = AdmissionRules()
#: The groups that limit nothing.
_WITHOUT_LIMITS: Final = (ROOT_GROUP, SYSTEM_GROUP)


@final
class ElasticQuota:
    """Elastic groups with their pods.

    Args:
        tree: the groups, without requests and usage. From now on, it must be changed only through the quota.
        rules: the rules for admitting pods.
        preempt_in_default: whether pods of the default group may be evicted for each other.

    Raises:
        RequestError: *tree* is not an ElasticTree, or has requests or usage.

    >>> from ugm import Resource
    >>> quota = ElasticQuota(ElasticTree(Resource(gpu=8)))
    >>> quota.create(ElasticGroup("research", min=Resource(gpu=6), max=Resource(gpu=8)))
    >>> quota.create(ElasticGroup("service", min=Resource(gpu=2), max=Resource(gpu=8)))
    >>> quota.adopt(Pod("train", Resource(gpu=6), group="research"))
    >>> quota.expect(Pod("serve", Resource(gpu=3), group="service"))
    >>> print(quota.admit("serve"))
    denied, waiting can help:
      elastic group 'service': 3 gpu requested, 0 of 2 used, 1 too much
    """

    def __init__(
        self, tree: ElasticTree, *, rules: AdmissionRules = _DEFAULT_RULES, preempt_in_default: bool = False
    ) -> None:
        require_instance("tree", tree, ElasticTree)
        if any(group.requested or group.used for group in tree.nodes.values()):
            raise RequestError("tree", tree, "expected a tree without requests and usage")
        self.tree: Final = tree
        #: By name, in the order of arrival.
        self._pods: Final[dict[str, TrackedPod]] = {}
        self._rules: Final = rules
        self._preempt_in_default: Final = preempt_in_default
        #: An equal quota without pods, for `never`; None until it is needed, and after a change of the groups.
        self._emptied: ElasticQuota | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} groups={len(self.tree.groups)}>"

    # Groups

    def create(self, group: ElasticGroup) -> None:
        """Add a group. Pods that belong to it now are moved to it.

        Raises:
            GroupError: rules are violated. Nothing has changed.
            RequestError: *group* is not a group, or a field has the wrong type. Nothing has changed.
        """
        require_group(group)
        filled = with_defaults(group, self.tree)
        refuse(group.name, refusals_of_create(filled, self.tree))
        self._put(filled)

    def update(self, group: ElasticGroup) -> None:
        """Replace the group of the same name. If its parent changes, its child groups move with it.

        Raises:
            GroupError: rules are violated. Nothing has changed.
            RequestError: *group* is not a group, or a field has the wrong type. Nothing has changed.
        """
        require_group(group)
        refuse(group.name, refusals_of_update(group, self.tree, self._pods))
        self._put(group)

    def _put(self, group: ElasticGroup) -> None:
        self._emptied = None
        self.tree.put(group)
        if self._pods:
            self.recount()

    def delete(self, name: str) -> None:
        """Remove a group. Pods that belonged to it through their namespace are moved to their new group.

        Raises:
            GroupError: rules are violated. Nothing has changed.
        """
        ties = [*self.tree.ties(self.tree.node(name))]
        if any(tracked.pod.group == name for tracked in self._pods.values()):
            ties.append(("has_pods", "there are pods that name the group", ""))
        refuse(name, ties)
        self._emptied = None
        self.tree.drop(name)
        if self._pods:
            self.recount()

    # Pods

    def group_of(self, pod: Pod) -> str:
        """Return the group that a pod belongs to."""
        return self.tree.group_of(pod)

    def pods_in(self, group: str) -> tuple[Pod, ...]:
        """Return the pods that are counted in a group, in the order of arrival."""
        node = self.tree.nodes.get(group) if is_name(group) else None
        return () if node is None else tuple(tracked.pod for tracked in node.pods.values())

    def has_pod(self, name: str) -> bool:
        """Return whether there is a pod of this name."""
        return is_name(name) and name in self._pods

    def pod(self, name: str) -> Pod | None:
        """Return the pod of a name, or None if there is none."""
        tracked = self._pods.get(name) if is_name(name) else None
        return None if tracked is None else tracked.pod

    def is_running(self, name: str) -> bool:
        """Return whether a pod runs.

        Raises:
            RequestError: the pod is unknown.
        """
        return self._tracked(name).is_running

    def _tracked(self, name: str) -> TrackedPod:
        if not self.has_pod(name):
            raise RequestError("pod", name, "there is no such pod", "object-unknown")
        return self._pods[name]

    def refuses_pods(self, name: str) -> bool:
        """Return whether a group accepts no pods because it is marked as a parent.

        The default group accepts pods even if it is marked, because there is no other group for them.

        Raises:
            GroupError: the group is unknown.
        """
        group = self.tree.node(name).group
        return group is not None and group.is_parent and name != DEFAULT_GROUP

    def expect(self, pod: Pod) -> None:
        """Add a new waiting pod. From now on, its request is part of the request of its group.

        Raises:
            GroupError: its group is marked as a parent.
            RequestError: there is already a pod of this name, or the pod is not valid. Nothing has changed.
        """
        require_pod(pod)
        group = self.group_of(pod)
        if self.refuses_pods(group):
            refuse(group, [("pod_on_parent_quota", "the group is marked as a parent and accepts no pods", "")])
        self._add(pod)

    def adopt(self, pod: Pod) -> None:
        """Add a running pod without a check.

        Raises:
            RequestError: there is already a pod of this name, or the pod is not valid. Nothing has changed.
        """
        require_pod(pod)
        self._add(pod, is_running=True)

    def adopt_waiting(self, pod: Pod) -> None:
        """Add a waiting pod that is known to be valid, without a check of its group.

        Raises:
            RequestError: there is already a pod of this name. Nothing has changed.
        """
        self._add(pod)

    def _add(self, pod: Pod, *, is_running: bool = False) -> None:
        if pod.name in self._pods:
            raise RequestError("pod", pod.name, "there is already a pod of this name", "id-in-use")
        node = self.tree.nodes[self.group_of(pod)]
        tracked = self._pods[pod.name] = node.pods[pod.name] = TrackedPod(pod, node, is_running)
        self._count(tracked, 1)

    def charge(self, pod: Pod) -> None:
        """Add a running pod that is known to be valid, in place of the pod of this name if there is one."""
        if pod.name in self._pods:
            self.forget(pod.name)
        self._add(pod, is_running=True)

    def start(self, name: str) -> None:
        """Count a waiting pod as running, without a check. A running pod stays as it is.

        Raises:
            RequestError: the pod is unknown.
        """
        tracked = self._tracked(name)
        if not tracked.is_running:
            tracked.is_running = True
            self._count_usage(tracked, 1)

    def stop(self, name: str) -> None:
        """Undo `start`: count a running pod as waiting.

        Raises:
            RequestError: the pod is unknown.
        """
        tracked = self._tracked(name)
        if tracked.is_running:
            self._count_usage(tracked, -1)
            tracked.is_running = False

    def forget(self, name: str) -> Pod:
        """Remove a waiting or running pod, and return it.

        Raises:
            RequestError: the pod is unknown.
        """
        tracked = self._tracked(name)
        self._count(tracked, -1)
        del self._pods[name], tracked.node.pods[name]
        return tracked.pod

    def forget_all(self, names: Iterable[str]) -> None:
        """Remove all pods with one of these names, and rebuild all counts.

        Raises:
            RequestError: *names* are not several names.
        """
        for name in require_names("names", names):
            self._pods.pop(name, None)
        self.recount()

    def recount(self) -> None:
        """Rebuild all counts from the pods. Takes time proportional to the number of groups and pods."""
        self.tree.clear_counts()
        for name, tracked in self._pods.items():
            tracked.node = self.tree.nodes[self.group_of(tracked.pod)]
            tracked.node.pods[name] = tracked
            self._count(tracked, 1)

    def _count(self, tracked: TrackedPod, sign: int) -> None:
        """Add the counts of a pod to its group if *sign* is 1; subtract them if it is -1."""
        self._count_request(tracked, sign)
        if tracked.is_running:
            self._count_usage(tracked, sign)

    def _count_request(self, tracked: TrackedPod, sign: int) -> None:
        self.tree.count_request(tracked.node, tracked.pod.usage, sign)

    def _count_usage(self, tracked: TrackedPod, sign: int) -> None:
        self.tree.count_used(tracked.node, tracked.pod.usage, tracked.pod.non_preemptible, sign)

    def verify(self) -> None:
        """Recompute all requests and usage from the pods, and all sums and runtimes from these.

        Raises:
            InvariantError: with a message for each difference.
        """
        twin = ElasticQuota(self.tree.emptied())
        for tracked in self._pods.values():
            twin._add(tracked.pod, is_running=tracked.is_running)
        verify(self.tree, expected=twin.tree)

    # Admission

    def check(self, pod: Pod) -> Decision:
        """Return the decision whether a pod may run now. Changes nothing.

        The runtime follows from the present requests. That of the pod is not part of them before it is expected.

        Raises:
            RequestError: the pod is not valid.
        """
        require_pod(pod)
        found = self.violations(pod)
        return Decision(found) if found else ALLOWED

    def violations(self, pod: Pod) -> tuple[Violation, ...]:
        """Return every limit that a pod that is known to be valid would exceed, like `check`."""
        found = self._own_violations(pod)
        if all(type(one) is not RuntimeViolation for one in found):
            return found
        never = {one[:5]: one for one in self.never((pod,))}
        exact = [Violation(*one[:5], never.pop(one[:5]).limit, *one[6:]) if one[:5] in never else one for one in found]
        return (*exact, *never.values())

    def never(self, pods: Sequence[Pod]) -> tuple[Violation, ...]:
        """Return every limit that some valid pods exceed together even if there are no others, each with their sum.

        The pods are checked one after the other, each as if it were expected and those before it were running.
        """
        emptied, found = self._emptied, dict[object, Violation]()
        if emptied is None or emptied.tree.total != self.tree.total:
            emptied = self._emptied = ElasticQuota(self.tree.emptied(), rules=self._rules)
        if emptied._pods:
            # The pods of the last call.
            emptied.forget_all(tuple(emptied._pods))
        for pod in pods:
            for one in emptied.if_expected(pod, partial(emptied._own_violations, pod)):
                found[one[:5]] = Violation(*one[:5], one.limit, 0, one.used + one.requested)
            if len(pods) > 1:
                emptied.charge(pod)
        return tuple(found.values())

    def _own_violations(self, pod: Pod) -> tuple[Violation, ...]:
        """Return every limit that a pod would exceed: of its group, of the minimum, and of the groups above.

        The groups above are in order from the parent upwards, without the root.
        """
        node = self.tree.nodes[self.group_of(pod)]
        requested = [
            (name, amount)
            for name, amount in pod.usage.amounts.items()
            if amount > 0 and (own := node.resources.get(name)) and own.is_limited
        ]
        found = [*self._group_violations(node, requested)]
        if not pod.preemptible and node.group is not None:
            found += _minimum_violations(node, node.group.min, requested)
        for above in self._above(node):
            found += self._group_violations(above, requested)
        return tuple(found)

    def _above(self, group: GroupNode) -> list[GroupNode]:
        """Return the groups above a group that limit it too, without the root."""
        found: list[GroupNode] = []
        while self._rules.check_parents and group.above is not None and group.above.parent is not None:
            group = group.above
            found.append(group)
        return found

    def _group_violations(self, group: GroupNode, requested: Sequence[tuple[str, int]]) -> Iterator[Violation]:
        kind = RuntimeViolation if self._rules.by_runtime else Violation
        for name, amount in requested:
            node = group.resources[name]
            if node.is_limited and node.used + amount > (limit := self._most(node)):
                yield kind(GROUP, group.name, "", "", name, limit, node.used, amount)

    def _most(self, node: ResourceNode) -> int:
        """Return the limit on the usage of a resource by a group."""
        return node.runtime() if self._rules.by_runtime else node.max

    def room(self, group: str, resource: str) -> int | None:
        """Return what the limit of a group leaves of a resource for waiting pods; None if it does not limit it."""
        found = self.tree.nodes.get(group)
        node = None if found is None else found.resources.get(resource)
        return None if node is None or not node.is_limited else self._most(node) - node.used

    def if_expected(self, pod: Pod, answer: Callable[[], AnswerT]) -> AnswerT:
        """Return the result of *answer* while a valid pod is counted as waiting. Afterwards everything is as before."""
        return self._while(self._count_request, (TrackedPod(pod, self.tree.nodes[self.group_of(pod)]),), 1, answer)

    def if_forgotten(self, names: Iterable[str], answer: Callable[[], AnswerT]) -> AnswerT:
        """Return the result of *answer* while some pods are not counted. Afterwards everything is as before."""
        gone = [tracked for name in names if (tracked := self._pods.get(name))]
        return self._while(self._count, gone, -1, answer)

    def _while(self, count: CountPod, pods: Sequence[TrackedPod], sign: int, answer: Callable[[], AnswerT]) -> AnswerT:
        """Return an answer while some pods are counted or not. An exception from outside leaves no trace."""
        try:
            for tracked in pods:
                count(tracked, sign)
            found = answer()
            for tracked in pods:
                count(tracked, -sign)
        except BaseException:
            self.recount()
            raise
        return found

    def running_pods(self) -> dict[str, list[str]]:
        """Return the names of all running pods, by group. Takes time proportional to the number of pods."""
        running = {
            node.name: [name for name, tracked in node.pods.items() if tracked.is_running]
            for node in self.tree.nodes.values()
        }
        return {group: names for group, names in running.items() if names}

    def limits(self, pod: Pod) -> tuple[EffectiveLimit, ...]:
        """Return the limits that apply to a pod, with the largest amounts that its group can get now. Changes nothing.

        Raises:
            RequestError: the pod is not valid.
        """
        require_pod(pod)
        node = self.tree.nodes[self.group_of(pod)]
        if self.refuses_pods(node.name):
            nothing = dict.fromkeys(sorted({*self.tree.total, *node.resources}), 0)
            return (_limit(GROUP, node.name, nothing, nothing),) if nothing else ()
        # With this request, the runtime of the group is the largest that it can get now. A smaller request never leads
        # to a larger runtime, and it is granted if it is within that runtime.
        missing = {name: max(one.max - one.child_request, 0) for name, one in node.resources.items() if one.is_limited}
        wanted = pod._replace(usage=Resource(missing))
        return self.if_expected(wanted, lambda: tuple(self._limits_of(node, preemptible=pod.preemptible)))

    def _limits_of(self, node: GroupNode, *, preemptible: bool) -> Iterator[EffectiveLimit]:
        """Yield the limits of pods of a group: of the group, of its minimum, and of the groups above."""
        yield from self._limits(node)
        if not preemptible and node.group is not None:
            yield from _minimum_limit(node, node.group.min)
        # Only resources that the group itself counts are checked above.
        counted = frozenset(name for name, own in node.resources.items() if own.is_limited)
        for above in self._above(node):
            yield from self._limits(above, counted)

    def _limits(self, group: GroupNode, counted: AbstractSet[str] | None = None) -> Iterator[EffectiveLimit]:
        """Yield the limit of a group on some resources, or on all, if it limits any of them."""
        names = sorted(group.resources if counted is None else counted & group.resources.keys())
        nodes = {name: node for name in names if (node := group.resources[name]).is_limited}
        if not nodes or group.name in _WITHOUT_LIMITS:
            return
        most = {name: self._most(node) for name, node in nodes.items()}
        borrowed = {name: max(node.borrowed(), 0) for name, node in nodes.items() if self._rules.by_runtime}
        own = {name: amount - borrowed.get(name, 0) for name, amount in most.items()}
        guaranteed = None if own == most else Resource(own)
        yield _limit(GROUP, group.name, most, {name: node.used for name, node in nodes.items()}, guaranteed)

    def all_limits(self) -> tuple[EffectiveLimit, ...]:
        """Return the limits of all groups, sorted by group. The system group and the root have none."""
        return tuple(limit for name in sorted(self.tree.nodes) for limit in self._limits(self.tree.nodes[name]))

    def admit(self, name: str) -> Decision:
        """Start a waiting pod if it may run now, and return the decision.

        Raises:
            RequestError: the pod is unknown, or runs already.
        """
        tracked = self._tracked(name)
        if tracked.is_running:
            raise RequestError("pod", name, "the pod runs already", "id-in-use")
        decision = self.check(tracked.pod)
        if decision:
            self.start(name)
        return decision

    # Eviction

    def over_used(self) -> tuple[Violation, ...]:
        """Return every limit of a group that its usage exceeds, sorted by group and resource.

        The system group and the root are never reported.
        """
        return tuple(
            Violation(GROUP, name, "", "", resource, limit, node.used, 0)
            for name in sorted(self.tree.nodes.keys() - _WITHOUT_LIMITS)
            for resource, node in self.tree.nodes[name].resources.items()
            if node.is_limited and node.used > (limit := node.runtime())
        )

    def plan_revoke(self, group: str) -> RevokePlan:
        """Return the pods of a group to evict so that it uses no more than its runtime. Changes nothing.

        Raises:
            GroupError: the group is unknown.
        """
        used = self.tree.used(group)
        over = {name: used.get(name, 0) - amount for name, amount in self.tree.limit(group).items()}

        def excess() -> Resource:
            return Resource({name: amount for name, amount in over.items() if amount > 0})

        def count(one: TrackedPod, sign: int) -> None:
            for name, amount in one.pod.usage.amounts.items():
                if name in over:
                    over[name] += sign * amount

        before, candidates = excess(), candidates_of(self.tree.node(group).pods.values())
        needed = needed_of(candidates, count, lambda: not excess())
        victims = candidates if needed is None else needed
        return RevokePlan(group, tuple(one.pod.name for one in victims), before, excess())

    def plan_preemption(self, pod: Pod) -> ElasticPreemptionPlan:
        """Return the pods to evict from the group of a pod so that it fits; they wait again. Changes nothing.

        The requests of the victims stay part of the runtime.

        Raises:
            RequestError: the pod is not valid.
        """
        return self._plan_preemption(pod, self._count_usage)

    def plan_eviction(self, pod: Pod) -> ElasticPreemptionPlan:
        """Return the pods to evict from the group of a pod so that it fits; they end. Changes nothing.

        Raises:
            RequestError: the pod is not valid.
        """
        return self._plan_preemption(pod, self._count)

    def _plan_preemption(self, pod: Pod, count: CountPod) -> ElasticPreemptionPlan:
        """Choose pods of lower priority: as few as possible, the least important first."""
        require_pod(pod)

        def plan() -> ElasticPreemptionPlan:
            candidates = candidates_of(self._less_important(pod))
            needed = needed_of(candidates, count, lambda: not self._own_violations(pod))
            violations = self._own_violations(pod) if needed is None else ()
            for one in candidates if needed is None else needed:
                count(one, 1)
            victims = tuple(one.pod.name for one in reversed(needed or ()))
            return ElasticPreemptionPlan(pod.name, self.group_of(pod), victims, violations)

        return self._while(count, (), 1, plan)

    def may_evict(self, pod: Pod) -> bool:
        """Return whether there are pods of lower priority in the group of a pod, which might be evicted for it."""
        return bool(self._less_important(pod))

    def _less_important(self, pod: Pod) -> Sequence[TrackedPod]:
        group = self.group_of(pod)
        if group == DEFAULT_GROUP and not self._preempt_in_default:
            return ()
        pods = self.tree.nodes[group].pods.values()
        return [one for one in pods if one.pod.priority < pod.priority]

    def carry_out(self, plan: RevokePlan | ElasticPreemptionPlan) -> None:
        """Remove the victims of a plan. A victim that will wait again must be expected again.

        Raises:
            RequestError: a victim is unknown; nothing has changed.
        """
        for name in plan.victims:
            self._tracked(name)
        for name in plan.victims:
            self.forget(name)


def _minimum_violations(
    group: GroupNode, minimums: Resource, requested: Sequence[tuple[str, int]]
) -> Iterator[Violation]:
    """Yield where non-preemptible pods would use more than the minimum of their group."""
    for name, amount in requested:
        node = group.resources[name]
        used = node.non_preemptible_used
        if name in minimums and used + amount > node.min:
            yield Violation(MINIMUM, group.name, "", "", name, node.min, used, amount)


def _minimum_limit(group: GroupNode, minimums: Resource) -> Iterator[EffectiveLimit]:
    """Yield the limit of the minimum of a group on its non-preemptible pods, if it limits any resource."""
    nodes = {name: node for name in minimums if (node := group.resources.get(name)) and node.is_limited}
    if nodes:
        used = {name: node.non_preemptible_used for name, node in nodes.items()}
        yield _limit(MINIMUM, group.name, {name: node.min for name, node in nodes.items()}, used)


def _limit(
    kind: str, name: str, most: dict[str, int], used: dict[str, int], guaranteed: Resource | None = None
) -> EffectiveLimit:
    """Return the limit of a group."""
    place = f"elastic group {name!r}"
    return EffectiveLimit(kind, name, "", "", place, Resource(most), 0, Resource(used), 0, guaranteed)
