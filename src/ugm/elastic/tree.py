"""The tree of elastic groups: their requests, their usage and their runtimes, always consistent.

A tree checks only its structure: it refuses an unknown parent and a cycle. `ugm.elastic.validation` checks changes, and
`ugm.elastic.ElasticQuota` uses both. Every change and every read follows the path from a group to the root.

Every answer follows from the present groups, requests and total. It does not depend on the order in which these came
about. Reads do not change later answers. There is no lock: the owner of the tree has one.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Final, final

from ugm.arguments import require_instance, require_items, require_resource
from ugm.elastic.group import (
    BUILT_IN,
    DEFAULT_GROUP,
    ROOT_GROUP,
    SYSTEM_GROUP,
    ElasticGroup,
    GroupError,
    Refusal,
    parent_of,
    parents_first,
    require_group,
)
from ugm.elastic.runtime import ChildShares, GroupNode, ResourceNode
from ugm.errors import InvariantError, RequestError
from ugm.resources import Resource

__all__ = ["ElasticTree", "verify"]

_NOTHING: Final = Resource()


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
        self._total = _NOTHING
        self.root: Final = GroupNode(ROOT_GROUP, None, None)
        #: All groups by name, including the built-in groups.
        self.nodes: Final = {ROOT_GROUP: self.root}
        for name in (SYSTEM_GROUP, DEFAULT_GROUP):
            self.nodes[name] = self.root.children[name] = GroupNode(name, None, self.root)
        self.set_total(total)
        given: tuple[ElasticGroup, ...] = require_items("groups", groups)
        for group in given:
            require_group(group)
        for group in parents_first(given):
            self._put_valid(group)

    def copy(self) -> ElasticTree:
        """Return an independent tree with the same groups, requests and usage.

        Takes time proportional to the number of groups.
        """
        twin = self.emptied()
        for name, group in self.nodes.items():
            same = twin.nodes[name]
            twin.count_request(same, group.amounts("own_request"), group.amounts("own_non_preemptible_request"))
            twin.count_used(same, group.amounts("own_used"), group.amounts("own_non_preemptible_used"))
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
        for name in {*self._total.amounts, *before.amounts, *self.root.resources}:
            self._refresh_root(name)
            self._trim(self.root, name)

    def _refresh_root(self, resource: str) -> None:
        """Recompute the amount to share: built-in groups are served first."""
        served = 0
        for name in (SYSTEM_GROUP, DEFAULT_GROUP):
            node = self.nodes[name].resources.get(resource)
            served += node.used if node else 0
        self._resource_node(self.root, resource).max = self._total.amounts.get(resource, 0) - served

    # Groups

    @property
    def groups(self) -> tuple[ElasticGroup, ...]:
        """All configured groups, every parent before its children."""
        return tuple(node.group for node in self.root.walk() if node.group is not None)

    def put(self, group: ElasticGroup) -> None:
        """Add a group, or replace the group of the same name. Its child groups and pods stay with it.

        Takes time proportional to the depth of the group for each resource that it names. The limits of the root have
        no effect.

        Raises:
            GroupError: the parent is unknown or below the group itself. Nothing has changed.
            RequestError: *group* is not a group, or a field has the wrong type. Nothing has changed.
        """
        require_group(group)
        self._put_valid(group)

    def _put_valid(self, group: ElasticGroup) -> None:
        """Do the same for a group whose fields were checked by `require_group`."""
        if group.name == ROOT_GROUP:
            self.root.group = group
            return
        parent, node = self._parent_for(group), self.nodes.get(group.name)
        if node is None:
            node = self.nodes[group.name] = GroupNode(group.name, None, parent)
        elif node.parent is not None:
            del node.parent.children[group.name]
        if node.parent is not parent:
            self._move(node, parent)
        node.group = group
        parent.children[group.name] = node
        for resource in node.resources.keys() | group.max.amounts.keys() | group.min.amounts.keys():
            self._resource_node(node, resource).set_terms(node.terms(resource))
            if group.name in BUILT_IN:
                self._refresh_root(resource)
            self._trim(node, resource)

    def _parent_for(self, group: ElasticGroup) -> GroupNode:
        parent = self.nodes.get(parent_of(group))
        if parent is None:
            raise GroupError((Refusal(group.name, "parent_not_found", f"there is no group {group.parent!r}"),))
        # A new group has nothing below it.
        if group.name in self.nodes and parent.is_below(group.name):
            raise GroupError((Refusal(group.name, "cycle", f"{parent.name!r} is the group itself, or below it"),))
        return parent

    def _move(self, node: GroupNode, parent: GroupNode) -> None:
        before, node.parent = node.parent, parent
        if node.name not in BUILT_IN:
            for resource_node in node.resources.values():
                resource_node.detach()
            for resource, resource_node in node.resources.items():
                resource_node.attach(self._resource_node(parent, resource))
                self._trim(before, resource)

    def drop(self, name: str) -> None:
        """Remove a group with its requests and usage.

        Raises:
            GroupError: the group is unknown or built in, or has children. Nothing has changed.
        """
        node = self.node(name)
        if name in BUILT_IN:
            raise GroupError((Refusal(name, "forbidden_delete", "a built-in group cannot be removed"),))
        if node.children:
            raise GroupError((Refusal(name, "has_children", f"{next(iter(node.children))!r} is below it"),))
        for resource_node in node.resources.values():
            resource_node.detach()
        if node.parent is not None:
            del node.parent.children[name]
        del self.nodes[name]
        for resource in node.resources:
            self._trim(node.parent, resource)

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

    # Resource nodes

    def _resource_node(self, group: GroupNode, resource: str) -> ResourceNode:
        """Return the node of a resource. Create it, and those above it, if they are missing."""
        missing: list[GroupNode] = []
        at: GroupNode | None = group
        while at is not None and resource not in at.resources:
            missing.append(at)
            at = self._above(at)
        for each in reversed(missing):
            competes = each.name not in BUILT_IN
            node = ResourceNode(each.name, each.terms(resource), competes, ChildShares(scales=self.scale_min))
            above = self._above(each)
            if above is None:
                node.max = 0
            else:
                node.attach(above.resources[resource])
            each.resources[resource] = node
        return group.resources[resource]

    def _trim(self, group: GroupNode | None, resource: str) -> None:
        """Remove the nodes of a resource from a group upward, until one is still needed.

        Without this, a resource that a single pod or group once named would stay in every group above forever.
        """
        while group is not None:
            node = group.resources.get(resource)
            if node is None or self._is_needed(group, resource, node):
                return
            node.detach()
            del group.resources[resource]
            group = self._above(group)

    def _is_needed(self, group: GroupNode, resource: str, node: ResourceNode) -> bool:
        """Return whether pods, child groups or the configuration of a group name a resource."""
        if node.own_request or node.own_used or len(node.shares):
            return True
        if group is self.root:
            served = (self.nodes[name] for name in (SYSTEM_GROUP, DEFAULT_GROUP))
            return resource in self._total.amounts or any(resource in each.resources for each in served)
        configured = group.group
        return configured is not None and (resource in configured.max.amounts or resource in configured.min.amounts)

    def _above(self, node: GroupNode) -> GroupNode | None:
        """Return the group that receives the requests of a group: for a built-in group, the root in any case."""
        return self.root if node.name in BUILT_IN and node is not self.root else node.parent

    # Requests and usage

    @property
    def has_counts(self) -> bool:
        """True if any group has requests or usage."""
        nodes = (node for group in self.nodes.values() for node in group.resources.values())
        return any(node.own_request or node.own_used for node in nodes)

    def clear_counts(self) -> None:
        """Remove all requests and usage. The groups and the total stay.

        The result is correct even if the counts were not. Takes time proportional to the number of groups.
        """
        for node in self.nodes.values():
            node.resources = {}
        for resource in self._total.amounts:
            self._refresh_root(resource)
        for node in self.nodes.values():
            if node.group is not None:
                for resource in node.group.max.amounts.keys() | node.group.min.amounts.keys():
                    self._resource_node(node, resource)

    def change_request(self, name: str, delta: Resource, *, non_preemptible: Resource = _NOTHING) -> None:
        """Count a change of the requests of the pods of a group, waiting and running.

        Args:
            name: the group.
            delta: the additional request; negative for a smaller request.
            non_preemptible: the part of *delta* that belongs to non-preemptible pods.

        Raises:
            GroupError: the group is unknown.
            RequestError: a request would become negative, or its non-preemptible part larger than the whole, or an
                argument is not a `ugm.Resource`. Nothing has changed.
        """
        group = self.node(name)
        _require_resources(delta, non_preemptible)
        if non_preemptible.amounts or min(delta.amounts.values(), default=0) < 0:
            _require_valid("request", group, delta, non_preemptible)
        self.count_request(group, delta, non_preemptible)

    def count_request(self, group: GroupNode, delta: Resource, non_preemptible: Resource) -> None:
        """Do the same for a change that is known to be valid."""
        for resource, amount in delta.amounts.items():
            node = group.resources.get(resource) or self._resource_node(group, resource)
            node.change_request(amount, non_preemptible.amounts.get(resource, 0))
            if amount <= 0:
                self._trim(group, resource)

    def change_used(self, name: str, delta: Resource, *, non_preemptible: Resource = _NOTHING) -> None:
        """Count a change of the usage of the running pods of a group. See `change_request` for the arguments."""
        group = self.node(name)
        _require_resources(delta, non_preemptible)
        _require_valid("use", group, delta, non_preemptible)
        self.count_used(group, delta, non_preemptible)

    def count_used(self, group: GroupNode, delta: Resource, non_preemptible: Resource) -> None:
        """Do the same for a change that is known to be valid."""
        for resource, amount in delta.amounts.items():
            self._resource_node(group, resource).change_used(amount, non_preemptible.amounts.get(resource, 0))
            if group.name in BUILT_IN:
                self._refresh_root(resource)
            if amount <= 0:
                self._trim(group, resource)

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


def _require_resources(delta: object, non_preemptible: object) -> None:
    if type(delta) is not Resource:
        raise RequestError("delta", delta, "expected a Resource")
    if type(non_preemptible) is not Resource:
        raise RequestError("non_preemptible", non_preemptible, "expected a Resource")


def _require_valid(verb: str, group: GroupNode, delta: Resource, non_preemptible: Resource) -> None:
    """Refuse a change after which an amount would be negative, or its non-preemptible part larger than the whole."""
    if not non_preemptible.amounts.keys() <= delta.amounts.keys():
        raise RequestError("non_preemptible", non_preemptible, "expected a part of delta, with no other resources")
    for resource, change in delta.amounts.items():
        node = group.resources.get(resource)
        own, fixed = (0, 0) if node is None else _own_counts(node)[verb == "use"]
        after, fixed_after = own + change, fixed + non_preemptible.amounts.get(resource, 0)
        if not 0 <= fixed_after <= after:
            amounts = f"{after} {resource}, {fixed_after} of it non-preemptible"
            raise RequestError("delta", delta, f"the pods of {group.name!r} would {verb} {amounts}", "state-conflict")


def _own_counts(node: ResourceNode) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the requests and the usage of the pods directly in a group, each with its non-preemptible part."""
    requests = node.own_request, node.own_non_preemptible_request
    return requests, (node.own_used, node.own_non_preemptible_used)


_COUNTS: Final = (
    "child_request", "limited_request", "used", "non_preemptible_request", "non_preemptible_used", "own_request",
    "own_used", "shares.mins",
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
