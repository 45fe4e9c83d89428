"""Elastic quotas as one of the quota models that decide about a request together.

An `ElasticModel` answers for an `ElasticQuota` in the words of `ugm.DemandModel` and `ugm.EvictingModel`: an allocation
is a pod, expected while it waits and started when it is charged. Which group it belongs to stands in the tags of its
application.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar, final

from ugm.decision import Violation
from ugm.elastic.admission import GROUP
from ugm.elastic.pods import Pod
from ugm.elastic.quota import ElasticQuota
from ugm.errors import RequestError
from ugm.model import Claim

__all__ = ["GROUP_TAG", "NAMESPACE_TAG", "ElasticModel"]

#: The tags that say where an application belongs, in the words of Kubernetes.
GROUP_TAG: Final = "quota.scheduling.koordinator.sh/name"
NAMESPACE_TAG: Final = "namespace"

_NAMELESS: Final = "?"

AnswerT = TypeVar("AnswerT")


@final
class ElasticModel:
    """Elastic quotas that take part in the admission of a partition.

    Args:
        quota: the groups and their pods; no pod of it may have the id of an allocation.
        group_tag: the tag with the name of the group.
        namespace_tag: the tag with the namespace, for applications that name no group.

    Raises:
        RequestError: *quota* is none.

    A claim that is not expected is judged as if it were: what it asks for has its part in the runtime. Of claims of the
    same priority, the one that was charged last gives way first.

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

    __slots__ = ("_charged", "_group_tag", "_namespace_tag", "_refunded", "quota")

    quota: ElasticQuota
    #: How many claims have been charged: the time, as far as the ages of pods go.
    _charged: int
    #: When those were charged that have been refunded since anybody new was: they may come back.
    _refunded: dict[str, int]
    _group_tag: str
    _namespace_tag: str

    def __init__(self, quota: ElasticQuota, *, group_tag: str = GROUP_TAG, namespace_tag: str = NAMESPACE_TAG) -> None:
        if not isinstance(quota, ElasticQuota):
            raise RequestError("quota", quota, "expected an ElasticQuota")
        self.quota = quota
        self._charged, self._refunded = 0, {}
        self._group_tag = group_tag
        self._namespace_tag = namespace_tag

    def check(self, claim: Claim) -> Iterable[Violation]:
        """Return every limit that *claim* would exceed now.

        A group that is there for groups below it allows nothing.
        """
        pod = self._pod(claim)
        group = self.quota.tree.node(self.quota.group_of(pod)).group
        if group is not None and group.is_parent:
            asked = pod.usage.without_zeros().amounts.items()
            return [Violation(GROUP, group.name, "", "", name, 0, 0, amount) for name, amount in asked]
        return self._if_expected(pod, lambda: self.quota.check(pod).violations)

    def evictions(self, claim: Claim) -> Iterable[str]:
        """Return which allocations of lower priority in the same group would have to go for *claim*.

        None if none have to, or if it would not help.
        """
        pod = self._pod(claim)
        return self._if_expected(pod, lambda: self.quota.plan_eviction(pod).victims)

    def _if_expected(self, pod: Pod, answer: Callable[[], AnswerT]) -> AnswerT:
        return answer() if self.quota.knows(pod.name) else self.quota.if_expected(pod, answer)

    def charge(self, claim: Claim) -> None:
        """Count *claim* as running, expected before or not.

        What is put back after a refund, in its old size or another, is as old as it was.
        """
        name = claim.allocation_id
        if self.quota.knows(name):
            self.quota.forget(name)
        if name not in self._refunded:
            self._refunded.clear()
            self._charged += 1
        started = self._refunded.pop(name, self._charged)
        self.quota.adopt(self._pod(claim)._replace(started=started))

    def refund(self, claim: Claim) -> None:
        """Undo `charge`.

        Raises:
            RequestError: the allocation is unknown.
        """
        pod = self.quota.forget(claim.allocation_id)
        if pod.started is not None:
            self._refunded[pod.name] = pod.started

    def expect(self, claim: Claim) -> None:
        """Count *claim* as waiting.

        Raises:
            RequestError: there is such an allocation already.
        """
        pod = self._pod(claim)
        self.quota.adopt(pod)
        self.quota.stop(pod.name)

    def forget(self, claim: Claim) -> None:
        """Undo `expect`.

        Raises:
            RequestError: the allocation is unknown.
        """
        self.quota.forget(claim.allocation_id)

    def _pod(self, claim: Claim) -> Pod:
        group, namespace = claim.tags.get(self._group_tag, ""), claim.tags.get(self._namespace_tag, "")
        return Pod(self._name(claim), claim.usage, group, namespace, claim.priority, claim.preemptible)

    def _name(self, claim: Claim) -> str:
        """Return the id of the allocation, or one that nobody has where somebody only asks."""
        name = claim.allocation_id or _NAMELESS
        while not claim.allocation_id and self.quota.knows(name):
            name += _NAMELESS
        return name
