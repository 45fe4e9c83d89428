"""Elastic quotas as a quota model of a partition.

An `ElasticModel` represents an `ElasticQuota` as a `ugm.model.DemandModel` and `ugm.model.EvictingModel`. An allocation
is a pod: it is expected while it waits, and runs when it is charged. The tags of its application name its group.

A claim without a group is denied, so that a misspelt group or a missing tag does not remove a limit. It is accepted
only if a default group is configured, or if the model is unrestricted.

If an exception from outside interrupts a call, the call either takes effect or changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar, final

from ugm.arguments import require_name
from ugm.decision import Violation
from ugm.elastic.admission import GROUP
from ugm.elastic.group import DEFAULT_GROUP
from ugm.elastic.pods import Pod
from ugm.elastic.quota import ElasticQuota
from ugm.errors import RequestError
from ugm.model import Claim, SetupViolation

__all__ = ["GROUP_TAG", "NAMESPACE_TAG", "ElasticModel"]

#: The tags for the group and the namespace of an application, as in Kubernetes.
GROUP_TAG: Final = "quota.scheduling.koordinator.sh/name"
NAMESPACE_TAG: Final = "namespace"

#: The name of the pod of a claim without an allocation id; repeated if there is such a pod.
_PLACEHOLDER_NAME: Final = "?"

AnswerT = TypeVar("AnswerT")


class _UnknownGroup(SetupViolation):
    """The tags name an elastic group that does not exist."""

    __slots__ = ()
    reason = "there is no such group, and no default group is configured"


class _MissingGroupTag(SetupViolation):
    """The tags of an application lead to no elastic group."""

    __slots__ = ()
    reason = "the application has no such tag, its namespace has no group, and no default group is configured"


@final
class ElasticModel:
    """Elastic quotas that take part in the admission of a partition.

    Args:
        quota: the groups and their pods; no other pod may have the id of an allocation.
        group_tag: the tag with the name of the group.
        namespace_tag: the tag with the namespace, for applications that name no group.
        unrestricted: whether claims without a group are accepted if no default group is configured.

    Raises:
        RequestError: *quota* is not an ElasticQuota, a tag is not a text, or *unrestricted* is not a bool.

    A claim is checked as if it were expected, so its request is part of the runtime. Of claims of equal priority, the
    one that was charged last is evicted first.

    >>> from ugm import Resource, UserGroup
    >>> from ugm.elastic import ElasticGroup, ElasticTree
    >>> model = ElasticModel(ElasticQuota(ElasticTree(Resource(gpu=8), [ElasticGroup("ml", max=Resource(gpu=4))])))
    >>> claim = Claim("a-1", "app", Resource(gpu=3), "root.ml", UserGroup("sue"), {GROUP_TAG: "ml"})
    >>> list(model.check(claim))
    []
    >>> model.charge(claim)
    >>> print(*model.check(claim._replace(allocation_id="a-2")))
    elastic group 'ml': 3 gpu requested, 3 of 4 used, 2 too much
    """

    __slots__ = ("_charged", "_claims", "_group_tag", "_namespace_tag", "_refunded", "_unrestricted", "quota")

    quota: ElasticQuota
    #: The names of all pods that are claims. After an interruption it may include pods that no longer exist.
    _claims: set[str]
    #: The number of charges, used as the start time of pods.
    _charged: int
    #: The start times of claims that were refunded since the last new claim was charged, because they may return.
    _refunded: dict[str, int]
    _group_tag: str
    _namespace_tag: str
    _unrestricted: bool

    def __init__(
        self,
        quota: ElasticQuota,
        *,
        group_tag: str = GROUP_TAG,
        namespace_tag: str = NAMESPACE_TAG,
        unrestricted: bool = False,
    ) -> None:
        if not isinstance(quota, ElasticQuota):
            raise RequestError("quota", quota, "expected an ElasticQuota")
        if type(unrestricted) is not bool:
            raise RequestError("unrestricted", unrestricted, "expected True or False")
        self.quota = quota
        self._claims = set()
        self._charged, self._refunded = 0, {}
        self._group_tag = require_name("group_tag", group_tag)
        self._namespace_tag = require_name("namespace_tag", namespace_tag)
        self._unrestricted = unrestricted

    def reset(self) -> None:
        """Remove all claims, charged or waiting. Groups, and pods that are not claims, stay.

        The result is correct after an interrupted call, too. A partition then charges and expects all claims again.
        """
        self.quota.forget_all(self._claims)
        self._charged = 0
        self._refunded.clear()
        self._claims.clear()

    def check(self, claim: Claim) -> Iterable[Violation]:
        """Return every limit that *claim* would exceed now.

        A group that is marked as a parent allows nothing, except the default group. A claim without a group is denied
        with a `ugm.model.SetupViolation`, unless a default group is configured or the model is unrestricted.
        """
        pod = self._pod(claim)
        group = self.quota.group_of(pod)
        if self._has_no_group(group):
            return (self._setup_violation(pod),)
        if self.quota.refuses_pods(group):
            requested = pod.usage.without_zeros().amounts.items()
            return [Violation(GROUP, group, "", "", name, 0, 0, amount) for name, amount in requested]
        return self._if_expected(pod, lambda: self.quota.check(pod).violations)

    def _has_no_group(self, group: str) -> bool:
        """Return whether a claim has no group and needs one."""
        return group == DEFAULT_GROUP and not self._unrestricted and self.quota.tree.node(group).group is None

    def _setup_violation(self, pod: Pod) -> SetupViolation:
        if pod.group:
            return _UnknownGroup.of(GROUP, pod.group)
        return _MissingGroupTag.of("elastic group tag", self._group_tag)

    def evictions(self, claim: Claim) -> Iterable[str]:
        """Return the allocations of lower priority in the same group to evict for *claim*.

        Empty if no eviction is necessary, or if none would help.
        """
        pod = self._pod(claim)
        if self._has_no_group(self.quota.group_of(pod)):
            return ()
        return self._if_expected(pod, lambda: self.quota.plan_eviction(pod).victims)

    def _if_expected(self, pod: Pod, answer: Callable[[], AnswerT]) -> AnswerT:
        return answer() if self.quota.has_pod(pod.name) else self.quota.if_expected(pod, answer)

    def charge(self, claim: Claim) -> None:
        """Count *claim* as running, whether or not it was expected.

        A claim that was refunded and returns, in the same size or another, keeps its start time.
        """
        pod = self._pod(claim)
        started = self._refunded.get(pod.name)
        if started is None:
            self._charged += 1
        self._claims.add(pod.name)
        self.quota.replace(pod._replace(started=self._charged if started is None else started))
        if started is None:
            self._refunded.clear()
        else:
            del self._refunded[pod.name]

    def refund(self, claim: Claim) -> None:
        """Undo `charge`.

        Raises:
            RequestError: the allocation is unknown.
        """
        pod = self.quota.forget(claim.allocation_id)
        if pod.started is not None:
            self._refunded[pod.name] = pod.started
        self._claims.discard(pod.name)

    def expect(self, claim: Claim) -> None:
        """Count *claim* as waiting.

        Raises:
            RequestError: there is already such an allocation.
        """
        pod = self._pod(claim)
        if not self.quota.has_pod(pod.name):
            self._claims.add(pod.name)
        self.quota.adopt_waiting(pod)

    def forget(self, claim: Claim) -> None:
        """Undo `expect`.

        Raises:
            RequestError: the allocation is unknown.
        """
        self.quota.forget(claim.allocation_id)
        self._claims.discard(claim.allocation_id)

    def _pod(self, claim: Claim) -> Pod:
        group, namespace = claim.tags.get(self._group_tag, ""), claim.tags.get(self._namespace_tag, "")
        return Pod(self._name(claim), claim.usage, group, namespace, claim.priority, claim.preemptible)

    def _name(self, claim: Claim) -> str:
        """Return the allocation id, or an unused name if the claim is only a query."""
        name = claim.allocation_id or _PLACEHOLDER_NAME
        while not claim.allocation_id and self.quota.has_pod(name):
            name += _PLACEHOLDER_NAME
        return name
