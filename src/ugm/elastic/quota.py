"""Elastic quotas as a scheduler uses them: groups that are judged, pods that are counted, and answers.

`ElasticQuota` joins the parts: the tree that shares (`ugm.elastic.tree`), the rules for its groups
(`ugm.elastic.rules`), the pods (`ugm.elastic.pods`), and what decides about them (`ugm.elastic.admission`,
`ugm.elastic.revoke`, `ugm.elastic.preemption`). It has no lock; the owner has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar, final

from ugm.decision import ALLOWED, Decision, Violation
from ugm.elastic.admission import GROUP, Admission, AdmissionRules
from ugm.elastic.errors import GroupError, Refusal
from ugm.elastic.group import DEFAULT_GROUP, ROOT_GROUP, SYSTEM_GROUP, ElasticGroup, require_group
from ugm.elastic.pods import Held, Pod, PodLedger, require_pod
from ugm.elastic.preemption import PreemptionPlan, plan_preemption
from ugm.elastic.revoke import RevokePlan, plan_revoke
from ugm.elastic.rules import refusals_of_create, refusals_of_delete, refusals_of_update, with_defaults
from ugm.elastic.tree import ElasticTree
from ugm.errors import RequestError
from ugm.resources import Resource

__all__ = ["ElasticQuota"]

AnswerT = TypeVar("AnswerT")

_DEFAULT_RULES: Final = AdmissionRules()


@final
class ElasticQuota:
    """Elastic groups, their pods, and whether one more fits.

    Args:
        tree: the groups as they are; taken over, and to be changed only through the quota from now on.
        rules: what pods are held to.
        preempt_in_default: whether pods of the default group may give way to one another.

    Raises:
        RequestError: *tree* is no tree.

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

    __slots__ = ("_admission", "_ledger", "_preempt_in_default", "_without_pods", "tree")

    tree: ElasticTree
    _ledger: PodLedger
    #: A tree as it was taken over, if something was requested or used in it then.
    _without_pods: ElasticTree | None
    _admission: Admission
    _preempt_in_default: bool

    def __init__(
        self, tree: ElasticTree, *, rules: AdmissionRules = _DEFAULT_RULES, preempt_in_default: bool = False
    ) -> None:
        if not isinstance(tree, ElasticTree):
            raise RequestError("tree", tree, "expected an ElasticTree")
        self.tree = tree
        self._ledger = PodLedger(tree.groups)
        self._without_pods = tree.copy() if tree.has_counts else None
        self._admission = Admission(tree, rules)
        self._preempt_in_default = preempt_in_default

    def __repr__(self) -> str:
        return f"<{type(self).__name__} groups={len(self.tree.groups)}>"

    # Groups

    def create(self, group: ElasticGroup) -> None:
        """Add a group. Pods that belong to it, and had nowhere else to go, are moved to it.

        Raises:
            GroupError: with every rule in the way. Nothing has changed.
            RequestError: this is no group, or one of its parts is of the wrong kind. Nothing has changed.
        """
        require_group(group)
        filled = with_defaults(group, self.tree)
        _refuse(refusals_of_create(filled, self.tree, self._ledger))
        self._put(filled)

    def update(self, group: ElasticGroup) -> None:
        """Replace a group by one of the same name; with another parent, the groups below it move along.

        Raises:
            GroupError: with every rule in the way. Nothing has changed.
            RequestError: this is no group, or one of its parts is of the wrong kind. Nothing has changed.
        """
        require_group(group)
        _refuse(refusals_of_update(group, self.tree, self._ledger))
        self._put(group)

    def _put(self, group: ElasticGroup) -> None:
        self.tree.put(group)
        self._rebind(self._ledger.know(group))

    def delete(self, name: str) -> None:
        """Remove a group. Pods that belonged to it by their namespace are moved to where they belong now.

        Raises:
            GroupError: with every rule in the way. Nothing has changed.
        """
        _refuse(refusals_of_delete(name, self.tree, self._ledger))
        self._rebind(self._ledger.ignore(name))
        self.tree.drop(name)

    def _rebind(self, bound: Iterable[Held]) -> None:
        for held in bound:
            group = self._ledger.group_of(held.pod.group, held.pod.namespace)
            if group != held.group:
                self._count(held, -1)
                self._ledger.move(held, group)
                self._count(held, 1)

    # Pods

    def group_of(self, pod: Pod) -> str:
        """Return the group that a pod belongs to."""
        return self._ledger.group_of(pod.group, pod.namespace)

    def pods_in(self, group: str) -> tuple[Pod, ...]:
        """Return the pods that are counted in a group, in the order of their arrival."""
        return tuple(held.pod for held in self._ledger.pods_in(group))

    def knows(self, name: str) -> bool:
        """Return whether there is a pod of this name."""
        return name in self._ledger.pods

    def is_running(self, name: str) -> bool:
        """Return whether a pod uses what it asks for.

        Raises:
            RequestError: the pod is unknown.
        """
        return self._held(name).is_running

    def expect(self, pod: Pod) -> None:
        """Count a new pod as waiting: what it asks for is part of the request of its group from now on.

        Raises:
            GroupError: it belongs to a group that is there for groups below it.
            RequestError: there is a pod of this name, or it cannot be counted. Nothing has changed.
        """
        require_pod(pod)
        group = self.group_of(pod)
        if self.takes_no_pods(group):
            reason = "the group is marked as a parent, and takes no pods itself"
            raise GroupError((Refusal(group, "pod_on_parent_quota", reason),))
        self._take_in(pod)

    def takes_no_pods(self, name: str) -> bool:
        """Return whether a group refuses pods of its own, because it is marked as a parent.

        The default group takes pods even if it is marked: there is no other group for them.

        Raises:
            GroupError: the group is unknown.
        """
        group = self.tree.node(name).group
        return name != DEFAULT_GROUP and group is not None and group.is_parent

    def adopt(self, pod: Pod) -> None:
        """Count a pod that runs already, without asking whether it may.

        Raises:
            RequestError: there is a pod of this name, or it cannot be counted. Nothing has changed.
        """
        require_pod(pod)
        self._take_in(pod, is_running=True)

    def wait(self, pod: Pod) -> None:
        """Count a pod that waits already, like `expect`, whatever group it belongs to.

        Raises:
            RequestError: there is a pod of this name, or it cannot be counted. Nothing has changed.
        """
        require_pod(pod)
        self._take_in(pod)

    def _take_in(self, pod: Pod, *, is_running: bool = False) -> None:
        if pod.name in self._ledger.pods:
            raise RequestError("pod", pod.name, "there is a pod of this name")
        try:
            held = self._ledger.add(pod)
            held.is_running = is_running
            self._count(held, 1)
        except BaseException:
            self._restore(pod.name, None)
            raise

    def replace(self, pod: Pod) -> None:
        """Count a pod that runs already, in place of the pod of this name if there is one.

        Raises:
            RequestError: it cannot be counted. Nothing has changed.
        """
        require_pod(pod)
        old = self._ledger.pods.get(pod.name)
        try:
            if old is not None:
                self.forget(pod.name)
            self._take_in(pod, is_running=True)
        except BaseException:
            self._restore(pod.name, old)
            raise

    def _restore(self, name: str, held: Held | None) -> None:
        """Count a pod, or none of that name, as before a call that was interrupted."""
        self._ledger.pods.pop(name, None)
        if held is not None:
            self._ledger.pods[name] = held
        self.recount()

    def start(self, name: str) -> None:
        """Count a waiting pod as running, without asking whether it may; a running one stays as it is.

        Raises:
            RequestError: the pod is unknown.
        """
        held = self._held(name)
        if not held.is_running:
            self._run(held, is_running=True)

    def stop(self, name: str) -> None:
        """Undo `start`: the pod waits again.

        Raises:
            RequestError: the pod is unknown.
        """
        held = self._held(name)
        if held.is_running:
            self._run(held, is_running=False)

    def _run(self, held: Held, *, is_running: bool) -> None:
        try:
            self._use(held, 1 if is_running else -1)
            held.is_running = is_running
        except BaseException:
            held.is_running = not is_running
            self.recount()
            raise

    def forget(self, name: str) -> Pod:
        """Leave a pod out, whether it waits or runs, and return it.

        Raises:
            RequestError: the pod is unknown.
        """
        held = self._held(name)
        try:
            self._count(held, -1)
            self._ledger.remove(name)
        except BaseException:
            self._restore(name, held)
            raise
        return held.pod

    def forget_all(self, names: Iterable[str]) -> None:
        """Leave out all pods of some names, as far as there are such pods, whatever state the counts are in."""
        for name in names:
            self._ledger.pods.pop(name, None)
        self.recount()

    def recount(self) -> None:
        """Rebuild everything that is counted from the pods. Costs all groups and pods.

        A call that is interrupted by an exception from outside does this itself.
        """
        self._ledger.reindex()
        self.tree.forget_counts()
        if self._without_pods is not None:
            self.tree.count_like(self._without_pods)
        for held in self._ledger.pods.values():
            self._count(held, 1)

    def _held(self, name: str) -> Held:
        held = self._ledger.pods.get(name)
        if held is None:
            raise RequestError("pod", name, "there is no such pod")
        return held

    def _count(self, held: Held, sign: int) -> None:
        self._ask(held, sign)
        if held.is_running:
            self._use(held, sign)

    def _ask(self, held: Held, sign: int) -> None:
        pod = held.pod
        self.tree.change_request(held.group, _times(sign, pod.usage), firm=_times(sign, pod.firm))

    def _use(self, held: Held, sign: int) -> None:
        pod = held.pod
        self.tree.change_used(held.group, _times(sign, pod.usage), firm=_times(sign, pod.firm))

    # Answers

    def check(self, pod: Pod) -> Decision:
        """Return whether a pod may run now. Changes nothing.

        The runtime is the one that follows from all requests as they are: a pod that is not expected yet has no part
        in it.

        Raises:
            RequestError: the pod is none that could be counted.
        """
        require_pod(pod)
        found = tuple(self._violations(pod, {}))
        return Decision(found) if found else ALLOWED

    def _violations(self, pod: Pod, freed: dict[str, int]) -> Iterable[Violation]:
        group = self.group_of(pod)
        return self._admission.violations(group, pod.usage, firm=not pod.preemptible, freed=freed)

    def if_expected(self, pod: Pod, answer: Callable[[], AnswerT]) -> AnswerT:
        """Return an answer as it is while a pod that is not counted is expected; afterwards everything is as before.

        Raises:
            RequestError: the pod is none that could be counted.
        """
        require_pod(pod)
        group = self.group_of(pod)
        # What nobody has named there changes no answer; counted, its name would stay behind.
        named = {name: amount for name, amount in pod.usage.amounts.items() if name in self.tree.node(group).cells}
        held = Held(pod._replace(usage=Resource(named)), group)
        try:
            self._ask(held, 1)
            found = answer()
            self._ask(held, -1)
        except BaseException:
            self.recount()
            raise
        return found

    def admit(self, name: str) -> Decision:
        """Start a waiting pod if it may run now.

        Raises:
            RequestError: the pod is unknown, or runs already.
        """
        held = self._held(name)
        if held.is_running:
            raise RequestError("pod", name, "it runs already")
        decision = self.check(held.pod)
        if decision:
            self.start(name)
        return decision

    def over_used(self) -> tuple[Violation, ...]:
        """Return where a group uses more than its runtime, sorted by group and resource.

        The system group and the root are never over.
        """
        found = []
        for name in sorted(self.tree.nodes):
            if name not in (ROOT_GROUP, SYSTEM_GROUP):
                used = self.tree.used(name)
                for resource, most in self.tree.limit(name).amounts.items():
                    if used.get(resource, 0) > most:
                        found.append(Violation(GROUP, name, "", "", resource, most, used[resource], 0))
        return tuple(found)

    def plan_revoke(self, group: str) -> RevokePlan:
        """Return which pods of a group have to go so that it uses no more than its runtime. Changes nothing.

        Raises:
            GroupError: the group is unknown.
        """
        return plan_revoke(group, self.tree.used(group), self.tree.limit(group), self._ledger.pods_in(group))

    def plan_preemption(self, pod: Pod) -> PreemptionPlan:
        """Return which pods of its group give way to a pod, and wait again. Changes nothing.

        The plan is held against the runtime as it is, in which they keep their part.

        Raises:
            RequestError: the pod is none that could be counted.
        """
        require_pod(pod)
        freed: dict[str, int] = {}

        def count(held: Held, sign: int) -> None:
            for name, amount in held.pod.usage.amounts.items():
                freed[name] = freed.get(name, 0) - sign * amount

        return self._plan_preemption(pod, count, partial(self._violations, pod, freed))

    def plan_eviction(self, pod: Pod) -> PreemptionPlan:
        """Return which pods of its group give way to a pod, and ask for nothing any more. Changes nothing.

        Raises:
            RequestError: the pod is none that could be counted.
        """
        require_pod(pod)
        gone: dict[str, Held] = {}

        def count(held: Held, sign: int) -> None:
            self._count(held, sign)
            if sign < 0:
                gone[held.pod.name] = held
            else:
                del gone[held.pod.name]

        try:
            plan = self._plan_preemption(pod, count, partial(self._violations, pod, {}))
            for held in gone.values():
                self._count(held, 1)
        except BaseException:
            self.recount()
            raise
        return plan

    def _plan_preemption(
        self, pod: Pod, count: Callable[[Held, int], None], check: Callable[[], Iterable[Violation]]
    ) -> PreemptionPlan:
        group = self.group_of(pod)
        may = self._preempt_in_default or group != DEFAULT_GROUP
        return plan_preemption(pod, group, self._ledger.pods_in(group) if may else (), count, check)

    def carry_out(self, plan: RevokePlan | PreemptionPlan) -> None:
        """Forget the victims of a plan. Whoever waits again after that is expected anew.

        Raises:
            RequestError: one of them is unknown; nothing has changed.
        """
        for name in plan.victims:
            self._held(name)
        for name in plan.victims:
            self.forget(name)


def _times(sign: int, amounts: Resource) -> Resource:
    return amounts if sign > 0 else Resource({name: -amount for name, amount in amounts.amounts.items()})


def _refuse(refusals: Iterable[Refusal]) -> None:
    found = tuple(refusals)
    if found:
        raise GroupError(found)
