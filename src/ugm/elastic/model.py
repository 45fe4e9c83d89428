"""Elastic quotas as a quota model of a partition.

An `ElasticModel` represents an `ElasticQuota` as a `ugm.model.PendingModel` and `ugm.model.EvictingModel`. An
allocation is a pod: it waits while it is pending, and runs when it is charged. The tags of its application name its
group.

A claim without a group is denied, so that a misspelt group or a missing tag does not remove a limit. It is accepted
only if a default group is configured, or if the model is unrestricted.

If a call does not return, a partition resets the model and charges all claims again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, Self, TypeVar, final

from ugm._json_values import JsonMapping
from ugm.arguments import require_instance
from ugm.configuration import ElasticConfig
from ugm.configuration.fields import to_data
from ugm.configuration.model_kinds import NAMESPACE_TAG, GroupFinder, finder_of
from ugm.decision import EffectiveLimit, Violation
from ugm.elastic.admission import GROUP, AdmissionRules, borrowers, overuse, status
from ugm.elastic.group import DEFAULT_GROUP, GroupError, Pod, Refusal, parents_first, require_pod
from ugm.elastic.quota import ElasticQuota
from ugm.elastic.tree import ElasticTree, GroupNode
from ugm.errors import InvariantError, RequestError
from ugm.identity import require_name
from ugm.model import Borrower, Claim, GuaranteedGroup, Guarantees, OrderNode, ReportingModel, SetupViolation
from ugm.resources import MAX_QUANTITY, Resource

#: The tag for the group of an application, as in Kubernetes.
GROUP_TAG: Final = "quota.scheduling.koordinator.sh/name"

_NOTHING: Final = Resource()

#: The name of the tree of all groups for scheduling passes.
_ORDER_TREE: Final = "elastic groups"

#: The name of the pod of a claim without an allocation id.
_QUERY_POD_NAME: Final = "\0"

AnswerT = TypeVar("AnswerT")


class _UnknownGroup(SetupViolation):
    """The tags name an elastic group that does not exist."""

    reason = "there is no such group, and no default group is configured"


class _MissingGroupTag(SetupViolation):
    """The tags of an application lead to no elastic group."""

    reason = "the application has no such tag, its namespace has no group, and no default group is configured"


class _UnnamedGroup(SetupViolation):
    """The configured sources name no elastic group."""

    reason = "no source names a group of the application, and no default group is configured"


@final
class ElasticModel(ReportingModel):
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

    sees_nodes: Final = False

    def __init__(
        self,
        quota: ElasticQuota,
        *,
        group_tag: str = GROUP_TAG,
        namespace_tag: str = NAMESPACE_TAG,
        unrestricted: bool = False,
    ) -> None:
        if type(unrestricted) is not bool:
            raise RequestError("unrestricted", unrestricted, "expected True or False")
        self.quota: Final = require_instance("quota", quota, ElasticQuota)
        #: The names of all pods that are claims. After an interruption it may include pods that no longer exist.
        self._claims: Final[set[str]] = set()
        #: The number of charges, used as the start time of pods.
        self._charged = 0
        #: The start times of claims that were refunded since the last new claim was charged, because they may return.
        self._refunded: Final[dict[str, int]] = {}
        self._group_tag: Final = require_name("group_tag", group_tag)
        self._namespace_tag: Final = require_name("namespace_tag", namespace_tag)
        self._unrestricted: Final = unrestricted
        #: The configuration that declares the model; None for a model of the program.
        self._config: ElasticConfig | None = None
        #: The configured sources of the group, and whether they name a namespace; empty for the two tags.
        self._sources: tuple[tuple[GroupFinder, bool], ...] = ()

    @classmethod
    def declared(cls, config: ElasticConfig) -> Self:
        """Return the model that a configuration declares, without claims.

        Raises:
            GroupError: the groups violate rules.
            RequestError: a group has no name, or another field is invalid.
        """
        quota, refused = declared_quota(config)
        if refused:
            raise GroupError(tuple(refusal for _, refusal in refused))
        model = cls(quota, unrestricted=config.unrestricted)
        model._config = config
        model._sources = tuple((finder_of(one), one.source == "namespace" and not one.names) for one in config.group_by)
        return model

    def set_cluster(self, total: Resource | None) -> None:
        """Share the amounts of the cluster, if the configuration declares the model without a total.

        Args:
            total: the sum of the nodes; None if no node was registered yet. Then only the maximums limit.
        """
        if self._config is not None and self._config.total is None:
            self.quota.tree.set_total(_unlimited_total(self._config) if total is None else total)

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
        if group == DEFAULT_GROUP and self._has_no_group(group):
            return (_UnknownGroup.of(GROUP, pod.group) if pod.group else self._missing(),)
        if self.quota.refuses_pods(group):
            requested = pod.usage.without_zeros().amounts.items()
            return [Violation(GROUP, group, "", "", name, 0, 0, amount) for name, amount in requested]
        return self._if_expected(pod, lambda: self.quota.violations(pod))

    def never(self, claims: Sequence[Claim]) -> Iterable[Violation]:
        """Return every limit that some claims exceed together even if nothing else is charged, each with their sum."""
        pods = [self._pod(claim) for claim in claims]
        return self.quota.never([pod for pod in pods if not self._is_refused(self.quota.group_of(pod))])

    def _is_refused(self, group: str) -> bool:
        return self._has_no_group(group) or self.quota.refuses_pods(group)

    def _missing(self) -> SetupViolation:
        if self._config is None or not self._config.group_by:
            return _MissingGroupTag.of("elastic group tag", self._group_tag)
        return _UnnamedGroup.of(
            "elastic group source", ", ".join(f"{one.source} {one.tag}".strip() for one in self._config.group_by)
        )

    def limits(self, claim: Claim) -> Iterable[EffectiveLimit]:
        """Return the limits of the group of *claim*, with the largest amounts that it can get now.

        ``EffectiveLimit.guaranteed`` is the minimum of the group. A claim that is denied for its setup has no limits.
        """
        pod = self._pod(claim)
        return () if self._has_no_group(self.quota.group_of(pod)) else self.quota.limits(pod)

    def room(self, kind: str, name: str, resource: str) -> int | None:
        """Return what the runtime of a group leaves for its pending claims; None for another kind of limit."""
        return self.quota.room(name, resource) if kind == GROUP else None

    def owners(self, claim: Claim) -> Iterable[tuple[str, str]]:
        """Return the group of *claim* and the groups above it, without the root."""
        group = self.quota.group_of(self._pod(claim))
        path = () if self._has_no_group(group) else self.quota.tree.node(group).path()
        return [(GROUP, node.name) for node in path]

    def all_limits(self) -> Iterable[EffectiveLimit]:
        """Return the limits of all groups: their runtimes for the present requests."""
        return self.quota.all_limits()

    def capture_state(self) -> Callable[[], JsonMapping]:
        """Copy the groups; the returned function computes their runtimes."""
        copy = self.quota.tree.copy()
        return lambda: {
            "kind": "elastic",
            "total": dict(copy.total),
            "groups": [status(copy, node.name).to_dict() for node in copy.root.walk()],
        }

    def state(self) -> JsonMapping:
        """Return the total of the cluster, and the status of every group, every parent before its children."""
        return self.capture_state()()

    def definition(self) -> JsonMapping | None:
        """Return the configuration that declares the model, with amounts in base units; None without one."""
        return None if self._config is None else {"elastic": to_data(self._config)}

    def verify(self, held: Mapping[str, Claim], pending: Mapping[str, Claim]) -> Iterable[str]:
        """Yield a message for each difference between the claims and the pods, and between the pods and all counts."""
        for claims, waits in ((held, False), (pending, True)):
            for name, claim in claims.items():
                pod = self.quota.pod(name)
                if pod is None or self.quota.is_running(name) is waits or pod.usage != claim.usage:
                    yield f"the pod of allocation {name!r} differs from the ledger"
        for name in sorted(self._claims - held.keys() - pending.keys()):
            if self.quota.has_pod(name):
                yield f"there is a pod for {name!r}, which is not in the ledger"
        try:
            self.quota.verify()
        except InvariantError as error:
            yield from error.findings

    def _has_no_group(self, group: str) -> bool:
        """Return whether a claim has no group and needs one."""
        return group == DEFAULT_GROUP and not self._unrestricted and self.quota.tree.nodes[group].group is None

    def evictions(self, claim: Claim) -> Iterable[str]:
        """Return the allocations of lower priority in the same group to evict for *claim*.

        Empty if no eviction is necessary, or if none would help.
        """
        pod = self._pod(claim)
        if self._has_no_group(self.quota.group_of(pod)) or not self.quota.may_evict(pod):
            return ()
        return self._if_expected(pod, lambda: self.quota.plan_eviction(pod).victims)

    def shortage(self, claim: Claim, without: Collection[str]) -> Iterable[Violation]:
        """Return what `check` would return without some allocations, and what all groups use beyond the cluster."""
        group = self.quota.group_of(self._pod(claim))

        def answer() -> list[Violation]:
            return [*self.check(claim), *overuse(self.quota.tree, group, claim.usage)]

        return self.quota.if_forgotten(without, answer)

    def guarantees(self, claim: Claim | None) -> Iterable[Guarantees]:
        """Return the minimums of all groups, with what they use of the total."""
        tree, path = self.quota.tree, set[GroupNode]()
        if claim is not None:
            group = self.quota.group_of(self._pod(claim))
            if self._is_refused(group):
                return ()
            path = {*tree.node(group).path()}
        nodes = [node for node in tree.root.walk() if node is not tree.root]
        positions = {node: at for at, node in enumerate(nodes)}
        groups = tuple(
            GuaranteedGroup(
                node.name,
                positions.get(node.parent or node, -1),
                {name: one.scaled_min() for name, one in node.resources.items()},
                {name: one.used for name, one in node.resources.items()},
                node in path,
            )
            for node in nodes
        )
        used = {name: one.used for name, one in tree.root.resources.items()}
        return (Guarantees("elastic groups", tree.total, used, groups),)

    def borrowers(self, claim: Claim, without: Collection[str]) -> Iterable[Borrower]:
        """Return all groups with allocations except that of *claim*, as they are while it is expected."""
        pod, quota = self._pod(claim), self.quota
        group = quota.group_of(pod)
        if self._is_refused(group):
            return ()
        running = {
            name: [pod_name for pod_name in names if pod_name not in without]
            for name, names in quota.running_pods().items()
        }

        def answer() -> list[Borrower]:
            return list(borrowers(quota.tree, group, pod.usage, running))

        return quota.if_forgotten(without, lambda: self._if_expected(pod, answer))

    def _if_expected(self, pod: Pod, answer: Callable[[], AnswerT]) -> AnswerT:
        known = self.quota.pod(pod.name)
        if known is None:
            return self.quota.if_expected(pod, answer)
        if known.usage == pod.usage:
            return answer()
        # A pending claim whose amounts of any variant are assigned now.
        return self.quota.if_forgotten((pod.name,), lambda: self.quota.if_expected(pod, answer))

    def charge(self, claim: Claim) -> None:
        """Count *claim* as running, whether or not it was expected.

        A claim that was refunded and returns, in the same size or another, keeps its start time.
        """
        pod = self._pod(claim)
        started = self._refunded.pop(pod.name, None)
        if started is None:
            self._refunded.clear()
            started = self._charged = self._charged + 1
        self._claims.add(pod.name)
        self.quota.charge(pod._replace(started=started))

    def refund(self, claim: Claim) -> None:
        """Undo `charge`.

        Raises:
            RequestError: the allocation is unknown.
        """
        pod = self.quota.forget(claim.allocation_id)
        if pod.started is not None:
            self._refunded[pod.name] = pod.started
        self._claims.discard(pod.name)

    def add_pending(self, claim: Claim) -> None:
        """Count *claim* as waiting.

        Raises:
            RequestError: there is already such an allocation.
        """
        pod = self._pod(claim)
        if not self.quota.has_pod(pod.name):
            self._claims.add(pod.name)
        self.quota.adopt_waiting(pod)

    def remove_pending(self, claim: Claim) -> None:
        """Undo `add_pending`.

        Raises:
            RequestError: the allocation is unknown.
        """
        self.quota.forget(claim.allocation_id)
        self._claims.discard(claim.allocation_id)

    # The scheduling order

    def order_trees(self) -> tuple[str]:
        """Return the name under which a scheduling pass traverses the groups."""
        return (_ORDER_TREE,)

    def order_nodes(self, tree: str) -> Iterator[OrderNode]:  # noqa: ARG002 - there is one tree
        """Yield all groups with their runtimes, every parent before its children."""
        groups = self.quota.tree
        for node in groups.root.walk():
            if node.parent is not None:
                above = "" if node.parent is groups.root else node.parent.name
                yield OrderNode(node.name, above, groups.runtime(node.name))

    def order_node(self, tree: str, claim: Claim) -> str | None:  # noqa: ARG002 - as above
        """Return the group of a claim."""
        return self.quota.group_of(self._pod(claim))

    def _pod(self, claim: Claim) -> Pod:
        """Return the pod of a claim. Its name is the allocation id, or unused if the claim is only a query."""
        name = claim.allocation_id or _QUERY_POD_NAME
        if self._sources:
            group, namespace = self._named(claim)
        else:
            group, namespace = claim.tags.get(self._group_tag, ""), claim.tags.get(self._namespace_tag, "")
        usage = claim.usage
        pod = Pod(name, usage, group, namespace, claim.priority, claim.preemptible)
        # A partition has checked its claims, so the whole check would take too long for each of them.
        is_plain = type(group) is str and type(namespace) is str and type(usage) is Resource
        if not is_plain or min(usage.amounts.values(), default=0) < 0:
            require_pod(pod)
        return pod

    def _named(self, claim: Claim) -> tuple[str, str]:
        """Return the group that the configured sources name, or a namespace that has a group."""
        for find, is_namespace in self._sources:
            found = find(claim)
            if found and not is_namespace:
                return found, ""
            if found and self.quota.group_of(Pod(_QUERY_POD_NAME, _NOTHING, namespace=found)) != DEFAULT_GROUP:
                return "", found
        return "", ""


def declared_quota(config: ElasticConfig) -> tuple[ElasticQuota, list[tuple[int, Refusal]]]:
    """Return elastic quotas with the groups of a configuration, without pods, and the rules that are violated.

    Each refusal has the position of its group. A group is compared with the groups above it even if these violate rules
    themselves.

    Raises:
        RequestError: a group has an invalid name.
    """
    total = _unlimited_total(config) if config.total is None else config.total
    rules = AdmissionRules(by_runtime=not config.ignore_runtime, check_parents=config.check_parents)
    tree = ElasticTree(total, scale_min=config.scale_min)
    quota = ElasticQuota(tree, rules=rules, preempt_in_default=config.preempt_in_default)
    positions = {id(group): position for position, group in enumerate(config.groups)}
    refused: list[tuple[int, Refusal]] = []
    for group in parents_first(config.groups):
        try:
            quota.create(group)
        except GroupError as error:
            refused += [(positions[id(group)], refusal) for refusal in error.refusals]
            if group.name not in tree.nodes:
                # The groups below it are compared with it nevertheless.
                with suppress(GroupError):
                    tree.put(group)
    return quota, refused


def _unlimited_total(config: ElasticConfig) -> Resource:
    """Return an amount of every resource of the groups that is never exhausted.

    It is twice the sum of the maximums, which leaves as much for the default group, but at least the largest amount of
    a configuration. It may exceed 64 bits.
    """
    sums = Counter[str]()
    for group in config.groups:
        sums.update(group.max.amounts)
    return Resource({name: max(2 * amount, MAX_QUANTITY) for name, amount in sums.items()})
