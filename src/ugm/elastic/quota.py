"""Elastic quotas, also declared ones: checked changes of groups, counted pods, admission and eviction plans.

`ElasticQuota` combines the tree of groups (`ugm.elastic.tree`), the rules for changes of groups
(`ugm.elastic.validation`), and the decisions about pods (`ugm.elastic.admission`). It has no lock: its owner has one.

All counts follow from the pods. If an exception from outside interrupts a change of a pod, call
`ElasticQuota.recount`, as a partition does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar, final

from ugm.arguments import require_instance
from ugm.configuration import ElasticConfig, ElasticGroupConfig
from ugm.decision import ALLOWED, Decision, EffectiveLimit, Violation
from ugm.elastic.admission import (
    GROUP,
    AdmissionRules,
    ElasticPreemptionPlan,
    GroupAdmission,
    RevokePlan,
    RuntimeViolation,
    missing_request,
    plan_preemption,
    plan_revoke,
    refusal_of,
)
from ugm.elastic.group import (
    DEFAULT_GROUP,
    ROOT_GROUP,
    SYSTEM_GROUP,
    ElasticGroup,
    GroupError,
    Pod,
    Refusal,
    parents_first,
    require_group,
    require_pod,
    require_texts,
)
from ugm.elastic.tree import ElasticTree, TrackedPod, verify
from ugm.elastic.validation import BrokenRule, refusals_of_create, refusals_of_delete, refusals_of_update, with_defaults
from ugm.errors import RequestError
from ugm.identity import is_name
from ugm.resources import MAX_QUANTITY, Resource

__all__ = ["ElasticQuota", "broken_rules", "declared_group", "declared_quota", "unlimited_total"]

AnswerT = TypeVar("AnswerT")

_DEFAULT_RULES: Final = AdmissionRules()


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
        self._admission: Final = GroupAdmission(tree, rules)
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
        _refuse(group.name, refusals_of_create(filled, self.tree))
        self._put(filled)

    def update(self, group: ElasticGroup) -> None:
        """Replace the group of the same name. If its parent changes, its child groups move with it.

        Raises:
            GroupError: rules are violated. Nothing has changed.
            RequestError: *group* is not a group, or a field has the wrong type. Nothing has changed.
        """
        require_group(group)
        _refuse(group.name, refusals_of_update(group, self.tree, self._pods))
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
        _refuse(name, refusals_of_delete(name, self.tree, self._pods))
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
        try:
            return name in self._pods
        except TypeError:
            # It cannot be hashed.
            return False

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
            _refuse(group, [("pod_on_parent_quota", "the group is marked as a parent and accepts no pods")])
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
            RequestError: *names* are not several texts.
        """
        for name in require_texts("names", names):
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
        emptied = self._emptied
        if emptied is None or emptied.tree.total != self.tree.total:
            emptied = ElasticQuota(self.tree.emptied(), rules=self._admission.rules)
        # An interrupted call leaves pods in it.
        self._emptied = None
        found: dict[object, Violation] = {}
        for pod in pods:
            for one in emptied.if_expected(pod, partial(emptied._own_violations, pod)):
                found[one[:5]] = Violation(*one[:5], one.limit, 0, one.used + one.requested)
            if len(pods) > 1:
                emptied.charge(pod)
        if len(pods) > 1:
            emptied.forget_all([pod.name for pod in pods])
        self._emptied = emptied
        return tuple(found.values())

    def room(self, group: str, resource: str) -> int | None:
        """Return what the limit of a group leaves of a resource for waiting pods; None if it does not limit it."""
        return self._admission.room(group, resource)

    def _own_violations(self, pod: Pod) -> tuple[Violation, ...]:
        return tuple(self._admission.violations(self.group_of(pod), pod.usage, preemptible=pod.preemptible))

    def if_expected(self, pod: Pod, answer: Callable[[], AnswerT]) -> AnswerT:
        """Return the result of *answer* while a valid pod is counted as waiting. Afterwards everything is as before."""
        return self._while(self._count_request, (TrackedPod(pod, self.tree.nodes[self.group_of(pod)]),), 1, answer)

    def if_forgotten(self, names: Iterable[str], answer: Callable[[], AnswerT]) -> AnswerT:
        """Return the result of *answer* while some pods are not counted. Afterwards everything is as before."""
        gone = [tracked for name in names if (tracked := self._pods.get(name))]
        return self._while(self._count, gone, -1, answer)

    def _while(
        self,
        count: Callable[[TrackedPod, int], None],
        pods: Sequence[TrackedPod],
        sign: int,
        answer: Callable[[], AnswerT],
    ) -> AnswerT:
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
        group = self.group_of(pod)
        if self.refuses_pods(group):
            return tuple(refusal_of(self.tree, group))
        wanted = pod._replace(usage=missing_request(self.tree, group))
        found = self.if_expected(wanted, lambda: self._admission.limits(group, preemptible=pod.preemptible))
        return tuple(found)

    def all_limits(self) -> tuple[EffectiveLimit, ...]:
        """Return the limits of all groups, sorted by group. The system group and the root have none."""
        return self._admission.all_limits()

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
            for name in sorted(self.tree.nodes.keys() - {ROOT_GROUP, SYSTEM_GROUP})
            for resource, node in self.tree.nodes[name].resources.items()
            if node.is_limited and node.used > (limit := node.runtime())
        )

    def plan_revoke(self, group: str) -> RevokePlan:
        """Return the pods of a group to evict so that it uses no more than its runtime. Changes nothing.

        Raises:
            GroupError: the group is unknown.
        """
        pods = self.tree.node(group).pods.values()
        return plan_revoke(group, self.tree.used(group), self.tree.limit(group), pods)

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

    def _plan_preemption(self, pod: Pod, count: Callable[[TrackedPod, int], None]) -> ElasticPreemptionPlan:
        require_pod(pod)
        plan = partial(plan_preemption, pod, self.group_of(pod), self._less_important(pod), count)
        return self._while(count, (), 1, lambda: plan(partial(self._own_violations, pod)))

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


def _refuse(group: str, broken: Iterable[BrokenRule]) -> None:
    """Refuse a change of a group, if it violates rules."""
    found = tuple(Refusal(group, rule, reason) for rule, reason in broken)
    if found:
        raise GroupError(found)


# The quota that a configuration declares

#: The fields that a group and its configuration share.
_SHARED: Final = tuple(name for name in ElasticGroup._fields if name in ElasticGroupConfig.__dataclass_fields__)


def declared_group(config: ElasticGroupConfig) -> ElasticGroup:
    """Return the group that a configuration declares.

    >>> declared_group(ElasticGroupConfig("ml", max=Resource(gpu=4))).parent
    'koordinator-root-quota'

    Raises:
        RequestError: *config* is not an ElasticGroupConfig.
    """
    require_instance("config", config, ElasticGroupConfig)
    group = ElasticGroup(**{name: getattr(config, name) for name in _SHARED})
    return group._replace(parent=config.parent or ROOT_GROUP, tree_id=config.tree_id or None)


def declared_quota(config: ElasticConfig) -> ElasticQuota:
    """Return elastic quotas with the groups of a configuration, without pods.

    Raises:
        GroupError: the groups violate rules.
        RequestError: a field of a group is invalid.
    """
    quota = _empty_quota(config)
    refusals = tuple(refusal for _, refusal in _create(quota, config))
    if refusals:
        raise GroupError(refusals)
    return quota


def broken_rules(config: ElasticConfig) -> Iterator[tuple[int, Refusal]]:
    """Yield every rule that the groups of a configuration violate, with the position of the group.

    A group is compared with the groups above it even if these violate rules themselves.
    """
    return _create(_empty_quota(config), config)


def unlimited_total(config: ElasticConfig) -> Resource:
    """Return an amount of every resource of the groups that is never exhausted.

    It is twice the sum of the maximums, which leaves as much for the default group, but at least the largest amount of
    a configuration. It may exceed 64 bits.
    """
    sums = Counter[str]()
    for group in config.groups:
        sums.update(group.max.amounts)
    return Resource({name: max(2 * amount, MAX_QUANTITY) for name, amount in sums.items()})


def _empty_quota(config: ElasticConfig) -> ElasticQuota:
    total = unlimited_total(config) if config.total is None else config.total
    rules = AdmissionRules(by_runtime=not config.ignore_runtime, check_parents=config.check_parents)
    tree = ElasticTree(total, scale_min=config.scale_min)
    return ElasticQuota(tree, rules=rules, preempt_in_default=config.preempt_in_default)


def _create(quota: ElasticQuota, config: ElasticConfig) -> Iterator[tuple[int, Refusal]]:
    """Create all groups, parents first, and yield each refusal with the position of its group."""
    groups = [declared_group(group) for group in config.groups]
    positions = {id(group): position for position, group in enumerate(groups)}
    for group in parents_first(groups):
        try:
            quota.create(group)
        except GroupError as error:
            yield from ((positions[id(group)], refusal) for refusal in error.refusals)
            if quota.tree.nodes.get(group.name) is None:
                # The groups below it are compared with it nevertheless.
                with suppress(GroupError):
                    quota.tree.put(group)
