"""The tree of elastic groups: their requests, their usage and their runtimes, always consistent.

A tree checks only its structure: it refuses an unknown parent and a cycle. `ugm.elastic.validation` checks changes, and
`ugm.elastic.ElasticQuota` uses both. Every read, and every change of requests and usage, follows the path from a group
to the root.

A `GroupNode` has the facts of one group: its configuration, its place, and the requests and usage of its pods. The
nodes of the resources follow from these. After a change of the groups, the next read builds them again.

A `Pod` belongs to, in this order: the group that its label names; the group whose object has the name of the pod's
namespace and is in that namespace; the group that lists the namespace; the default group. A label that names an unknown
group means the default group, until the group exists.

Every answer follows from the present groups, requests and total. It does not depend on the order in which these came
about. Reads do not change later answers. There is no lock: the owner of the tree has one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Final, TypeAlias, final

from ugm.arguments import require_instance, require_instances, require_resource
from ugm.configuration.scheduler import ROOT_GROUP, ElasticGroup
from ugm.elastic.group import (
    BUILT_IN,
    DEFAULT_GROUP,
    SYSTEM_GROUP,
    BrokenRule,
    GroupError,
    Pod,
    Refusal,
    parents_first,
    refuse,
    require_group,
)
from ugm.elastic.runtime import ChildShares, ResourceNode
from ugm.errors import InvariantError, RequestError
from ugm.resources import Resource

_NOTHING: Final = Resource()


@final
@dataclass(slots=True, eq=False, repr=False)
class GroupNode:
    """One group in the tree, with its child groups and its resources."""

    tree: ElasticTree
    name: str
    #: None for the root.
    parent: GroupNode | None
    #: None for a built-in group that is not configured.
    group: ElasticGroup | None = None
    #: By name, in the order in which they were added.
    children: dict[str, GroupNode] = field(default_factory=dict)
    #: The sums of the minimums of the child groups.
    child_mins: Counter[str] = field(default_factory=Counter)
    #: The requests and the usage of the pods directly in the group, counted or not, without zeros.
    requested: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    #: The part of the usage of non-preemptible pods.
    non_preemptible_used: dict[str, int] = field(default_factory=dict)
    #: The pods of an `ugm.elastic.ElasticQuota` that are counted in the group, by name, in the order of arrival.
    pods: dict[str, TrackedPod] = field(default_factory=dict)
    #: The nodes of the resources as they were built last.
    built: dict[str, ResourceNode] = field(default_factory=dict)

    @property
    def resources(self) -> dict[str, ResourceNode]:
        """The nodes of all resources that the group or a group below names; for a built-in group, of all resources."""
        if not self.tree.is_built:
            self.tree.build()
        return self.built

    @property
    def above(self) -> GroupNode | None:
        """The group that receives the requests of this one: for a built-in group, the root in any case."""
        return self.tree.root if self.parent is not None and self.name in BUILT_IN else self.parent

    def amounts(self, field: str) -> Resource:
        """Return a field of the nodes of all resources, without zeros."""
        return Resource({name: amount for name, node in self.resources.items() if (amount := getattr(node, field))})

    def walk(self) -> Iterator[GroupNode]:
        """Yield the group and all groups below it, parents before children."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack += reversed(node.children.values())

    def path(self) -> Iterator[GroupNode]:
        """Yield the group and all groups above it, without the root."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent

    def is_below(self, name: str) -> bool:
        """Return whether this is the group of that name, or below it."""
        return any(node.name == name for node in self.path())

    def count_min(self, group: ElasticGroup | None, sign: int) -> None:
        """Add the minimum of a child group, or subtract it."""
        for resource, amount in () if group is None else group.min.amounts.items():
            _add(self.child_mins, resource, sign * amount)


@final
@dataclass(slots=True, eq=False)
class TrackedPod:
    """A pod that is counted, with its group."""

    pod: Pod
    #: The group that the pod is counted in.
    node: GroupNode
    #: Whether the pod runs; otherwise it waits.
    is_running: bool = False


#: Adds a pod to some counts (1), or removes it from them (-1).
CountPod: TypeAlias = Callable[[TrackedPod, int], None]


def _add(amounts: dict[str, int], resource: str, amount: int) -> None:
    """Add an amount of a resource. A resource of which nothing is left is removed."""
    after = amounts.get(resource, 0) + amount
    if after:
        amounts[resource] = after
    else:
        amounts.pop(resource, None)


@final
class ElasticTree:
    """Elastic groups that share a cluster.

    Args:
        total: the amounts of the cluster; 0 of a missing resource.
        groups: in any order.
        scale_min: whether minimums are scaled down in proportion if their sum exceeds the available amount.

    Raises:
        GroupError: a group has no place in the tree.
        RequestError: an amount of *total* is negative, or an argument has the wrong type.

    >>> tree = ElasticTree(Resource(gpu=8), [
    ...     ElasticGroup("research", min=Resource(gpu=6), max=Resource(gpu=8)),
    ...     ElasticGroup("service", min=Resource(gpu=2), max=Resource(gpu=8)),
    ... ])
    >>> tree.change_request("service", Resource(gpu=8))
    >>> tree.runtime("service")
    Resource(gpu=8)
    >>> tree.change_request("research", Resource(gpu=5))
    >>> tree.runtime("service")
    Resource(gpu=3)
    """

    def __init__(
        self, total: Resource = _NOTHING, groups: Iterable[ElasticGroup] = (), *, scale_min: bool = True
    ) -> None:
        #: Whether minimums are scaled down when their sum exceeds the available amount.
        self.scale_min: Final = scale_min
        self._total = require_resource("total", total)
        self.root: Final = GroupNode(self, ROOT_GROUP, None)
        #: All groups by name, including the built-in groups.
        self.nodes: Final = {ROOT_GROUP: self.root}
        #: Whether the nodes of the resources follow from the groups.
        self.is_built: bool = False
        #: For each namespace the group that lists it.
        self.listed: Final[dict[str, str]] = {}
        for name in (SYSTEM_GROUP, DEFAULT_GROUP):
            self.nodes[name] = self.root.children[name] = GroupNode(self, name, self.root)
        for group in parents_first(require_instances("groups", groups, ElasticGroup)):
            self.put(group)

    def copy(self) -> ElasticTree:
        """Return an independent tree with the same groups, requests and usage.

        Takes time proportional to the number of groups.
        """
        twin = self.emptied()
        for name, group in self.nodes.items():
            same = twin.nodes[name]
            same.requested, same.used = dict(group.requested), dict(group.used)
            same.non_preemptible_used = dict(group.non_preemptible_used)
        return twin

    def emptied(self) -> ElasticTree:
        """Return a tree with the same groups, without requests and usage."""
        return ElasticTree(self._total, self.groups, scale_min=self.scale_min)

    # The cluster

    @property
    def total(self) -> Resource:
        """The amounts of the cluster."""
        return self._total

    def set_total(self, total: Resource) -> None:
        """Set the amounts of the cluster.

        Raises:
            RequestError: *total* is not a `ugm.Resource`, or an amount is negative.
        """
        before, self._total = self._total, require_resource("total", total)
        if self._total.amounts.keys() != before.amounts.keys():
            self.is_built = False
        elif self.is_built:
            for name, amount in self._total.amounts.items():
                self.root.built[name].max += amount - before[name]

    # Groups

    @property
    def groups(self) -> tuple[ElasticGroup, ...]:
        """All configured groups, every parent before its children."""
        return tuple(node.group for node in self.root.walk() if node.group is not None)

    def put(self, group: ElasticGroup) -> None:
        """Add a group, or replace the group of the same name. Its child groups and pods stay with it.

        Takes time proportional to the depth of the group; the next read takes time proportional to the number of
        groups. The limits of the root have no effect.

        Raises:
            GroupError: the parent is unknown or below the group itself. Nothing has changed.
            RequestError: *group* is not a group, or a field has the wrong type. Nothing has changed.
        """
        require_group(group)
        if group.name == ROOT_GROUP:
            self.root.group = group
            return
        refuse(group.name, self.misplacements(group))
        parent, node = self.nodes[group.parent], self.nodes.get(group.name)
        self.is_built = False
        if node is None:
            node = self.nodes[group.name] = GroupNode(self, group.name, parent)
        else:
            self._leave(node)
        node.parent, node.group = parent, group
        parent.children[group.name] = node
        parent.count_min(group, 1)
        for namespace in group.namespaces:
            self.listed.setdefault(namespace, group.name)

    def _leave(self, node: GroupNode) -> None:
        """Remove a group from its parent, and its namespaces."""
        if node.parent is not None:
            del node.parent.children[node.name]
            node.parent.count_min(node.group, -1)
        for namespace in () if node.group is None else node.group.namespaces:
            if self.listed.get(namespace) == node.name:
                del self.listed[namespace]

    def misplacements(self, group: ElasticGroup) -> Iterator[BrokenRule]:
        """Yield the reason why a group has no place in the tree, if there is one."""
        parent = self.nodes.get(group.parent)
        if parent is None:
            yield "parent_not_found", f"there is no group {group.parent!r}", "parent"
        # A new group has nothing below it.
        elif group.name in self.nodes and parent.is_below(group.name):
            yield "cycle", f"{parent.name!r} is the group itself, or below it", ""

    def drop(self, name: str) -> None:
        """Remove a group with its requests and usage.

        Raises:
            GroupError: the group is unknown or built in, or has children. Nothing has changed.
        """
        node = self.node(name)
        refuse(name, self.ties(node))
        self.is_built = False
        self._leave(node)
        del self.nodes[name]

    def ties(self, node: GroupNode) -> Iterator[BrokenRule]:
        """Yield the reason why a group cannot be removed, if there is one."""
        if node.name in BUILT_IN:
            yield "forbidden_delete", "the group is built in", ""
        elif node.children:
            yield "has_children", f"{next(iter(node.children))!r} is below it", ""

    def group_of(self, pod: Pod) -> str:
        """Return the group that a pod belongs to."""
        named = self.nodes.get(pod.group or pod.namespace)
        group = None if named is None else named.group
        if pod.group:
            return DEFAULT_GROUP if group is None else pod.group
        if group is not None and group.namespace == pod.namespace:
            return pod.namespace
        return self.listed.get(pod.namespace, DEFAULT_GROUP)

    def node(self, name: str) -> GroupNode:
        """Return the node of a group.

        Raises:
            GroupError: the group is unknown.
        """
        try:
            return self.nodes[name]
        except (KeyError, TypeError):
            # A name that is not hashable is unknown, too.
            raise GroupError((Refusal(name, "not_found", "there is no such group"),)) from None

    def build(self) -> None:
        """Build the nodes of the resources. Takes time proportional to the number of groups."""
        groups = list(self.root.walk())
        names = {group.name: _named(group) for group in groups}
        names[ROOT_GROUP] |= self._total.amounts.keys()
        for group in reversed(groups):
            if group.above is not None:
                names[group.above.name] |= names[group.name]
        for group in groups:
            above = {} if group.above is None else group.above.built
            name, config = group.name, None if group is self.root else group.group
            make = partial(ResourceNode, name, config, competes=name not in BUILT_IN)
            group.built = {
                resource: make(resource, parent=above.get(resource), shares=ChildShares(self.scale_min))
                for resource in sorted(names[ROOT_GROUP if config is None else name])
            }
        for resource, node in self.root.built.items():
            node.max = self._total.amounts.get(resource, 0)
        for group in groups:
            for resource, node in group.built.items():
                if node.is_counted:
                    node.pass_request_up(group.requested.get(resource, 0))
                    node.pass_usage_up(group.used.get(resource, 0), group.non_preemptible_used.get(resource, 0))
        self.is_built = True

    # Requests and usage

    def clear_counts(self) -> None:
        """Remove all pods, requests and usage. The groups and the total stay.

        The result is correct even if the counts were not.
        """
        for group in self.nodes.values():
            group.requested, group.used, group.non_preemptible_used, group.pods = {}, {}, {}, {}
        self.is_built = False

    def change_request(self, name: str, delta: Resource) -> None:
        """Count a change of the requests of the pods of a group, waiting and running.

        Args:
            name: the group.
            delta: the additional request; negative for a smaller request. A resource that the maximum of the group does
                not name, or of a built-in group without a configuration neither the cluster nor a group, is not
                counted.

        Raises:
            GroupError: the group is unknown.
            RequestError: a request would become negative, or an argument is not a `ugm.Resource`. Nothing has changed.
        """
        group = self.node(name)
        _require_valid("request", group, group.requested, delta)
        self.count_request(group, delta)

    def count_request(self, group: GroupNode, delta: Resource, sign: int = 1) -> None:
        """Do the same for a change that is known to be valid; subtract it if *sign* is -1."""
        nodes, requested = group.built if self.is_built else {}, group.requested
        for resource, more in delta.amounts.items():
            amount = sign * more
            _add(requested, resource, amount)
            node = nodes.get(resource)
            if node is not None and node.is_counted:
                node.pass_request_up(amount)

    def change_used(self, name: str, delta: Resource, *, non_preemptible: Resource = _NOTHING) -> None:
        """Count a change of the usage of the running pods of a group.

        Args:
            name: the group.
            delta: the additional usage; negative for a smaller usage. The same resources as of a request are counted.
            non_preemptible: the part of *delta* that belongs to non-preemptible pods.

        Raises:
            GroupError: the group is unknown.
            RequestError: the usage would become negative, or its non-preemptible part larger than the whole, or an
                argument is not a `ugm.Resource`. Nothing has changed.
        """
        group = self.node(name)
        _require_valid("use", group, group.used, delta, non_preemptible)
        self.count_used(group, delta, non_preemptible)

    def count_used(self, group: GroupNode, delta: Resource, non_preemptible: Resource, sign: int = 1) -> None:
        """Do the same for a change that is known to be valid; subtract it if *sign* is -1."""
        nodes = group.built if self.is_built else {}
        for resource, more in delta.amounts.items():
            amount, fixed = sign * more, sign * non_preemptible.amounts.get(resource, 0)
            _add(group.used, resource, amount)
            _add(group.non_preemptible_used, resource, fixed)
            node = nodes.get(resource)
            if node is not None and node.is_counted:
                node.pass_usage_up(amount, fixed)

    # Reads

    def runtime(self, name: str) -> Resource:
        """Return the runtime of a group, for every resource that its maximum names and its parent shares.

        Takes time proportional to the depth of the group if sums decide, and otherwise a pass over the hungry siblings
        for each round. The runtime of the root is the amount for all groups; a built-in group gets its maximum.

        Raises:
            GroupError: the group is unknown.
        """
        group = self.node(name)
        runtimes = {resource: node.runtime() for resource, node in group.resources.items() if node.is_shared}
        if group is self.root:
            # Omit a resource that a pod requests but the cluster never had.
            runtimes = {name: amount for name, amount in runtimes.items() if amount or name in self._total}
        return Resource(runtimes)

    def limit(self, name: str) -> Resource:
        """Return the limit of a group: its runtime, or its maximum for resources that its parent does not share."""
        group = self.node(name)
        return Resource({resource: node.runtime() for resource, node in group.resources.items() if node.is_limited})

    def scaled_min(self, name: str) -> Resource:
        """Return the minimum of a group, scaled down if the sum of the minimums exceeds the available amount.

        If there is enough for all requests, the configured minimum is in force nevertheless.
        """
        nodes = self.node(name).resources.items()
        return Resource({resource: amount for resource, node in nodes if (amount := node.scaled_min())})

    def child_request(self, name: str) -> Resource:
        """Return the requests of the pods in a group, plus the limited requests of its child groups."""
        return self.node(name).amounts("child_request")

    def request(self, name: str) -> Resource:
        """Return the same as `child_request`, but at least the minimum if the group does not lend it."""
        return self.node(name).amounts("request")

    def limited_request(self, name: str) -> Resource:
        """Return the request of a group to its parent: its request up to its maximum."""
        return self.node(name).amounts("limited_request")

    def used(self, name: str) -> Resource:
        """Return the usage in and below a group."""
        return self.node(name).amounts("used")


def _require_valid(
    verb: str, group: GroupNode, own: Mapping[str, int], delta: object, non_preemptible: object = _NOTHING
) -> None:
    """Refuse a change after which an amount would be negative, or its non-preemptible part larger than the whole."""
    # Not `require_instance`, because a call takes longer.
    if type(delta) is not Resource:
        raise RequestError("delta", delta, "expected a Resource")
    if type(non_preemptible) is not Resource:
        raise RequestError("non_preemptible", non_preemptible, "expected a Resource")
    if not non_preemptible.amounts.keys() <= delta.amounts.keys():
        raise RequestError("non_preemptible", non_preemptible, "expected a part of delta, with no other resources")
    for resource, change in delta.amounts.items():
        after, fixed = own.get(resource, 0) + change, 0
        if verb == "use":
            fixed = group.non_preemptible_used.get(resource, 0) + non_preemptible.amounts.get(resource, 0)
        if not 0 <= fixed <= after:
            amounts = f"{after} {resource}, {fixed} of it non-preemptible"
            raise RequestError("delta", delta, f"the pods of {group.name!r} would {verb} {amounts}", "state-conflict")


def _named(group: GroupNode) -> set[str]:
    """Return the resources that the configuration of a group names. Limits of the root have no effect."""
    configured = group.group
    if configured is None or group.parent is None:
        return set()
    return {*configured.max.amounts, *configured.min.amounts}


_COUNTS: Final = (
    "child_request", "limited_request", "used", "non_preemptible_used", "shares.mins", "shares.floors",
)  # fmt: skip
_counts: Final = attrgetter(*_COUNTS)


def verify(tree: ElasticTree, *, expected: ElasticTree | None = None) -> None:
    """Compare all sums and runtimes of a tree with those of a new tree. A difference is a bug in ugm.

    Args:
        tree: the tree.
        expected: a tree with the same groups, whose pods have the expected requests and usage; None for a copy.

    Raises:
        InvariantError: with a message for each difference.
        RequestError: an argument is not an ElasticTree, or the trees have different groups.
    """
    twin = require_instance("tree", tree, ElasticTree).copy() if expected is None else expected
    if require_instance("expected", twin, ElasticTree).nodes.keys() != tree.nodes.keys():
        raise RequestError("expected", twin, "expected a tree with the same groups")
    findings = []
    for name in tree.nodes:
        found, due = (_sums(one.nodes[name]) for one in (tree, twin))
        for resource in sorted(found.keys() | due.keys()):
            if found.get(resource) != due.get(resource):
                differ = f"{found.get(resource)}, expected {due.get(resource)}"
                findings.append(f"elastic group {name!r}, {resource}: counts {differ}")
    if findings:
        raise InvariantError(tuple(findings))


def _sums(group: GroupNode) -> dict[str, dict[str, int]]:
    """Return all sums of the resources of a group, and its runtimes, that are not 0."""
    sums = {
        resource: {**dict(zip(_COUNTS, _counts(node), strict=True)), "runtime": node.runtime()}
        for resource, node in group.resources.items()
    }
    return {resource: values for resource, values in sums.items() if any(values.values())}
