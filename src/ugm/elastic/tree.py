"""The tree of elastic groups: what each asks for, uses and gets, always settled.

A tree takes the groups that it is given, as a scheduler does that starts and finds them configured; only what could not
be a tree (an unknown parent, a group below itself) is refused. `ugm.elastic.rules` judges changes, and
`ugm.elastic.ElasticQuota` does both.

What is read is worked out from the configuration, the requests and the total as they are now. It does not depend on the
order in which they came about. Reads change nothing that is shown. There is no lock: the owner has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, final

from ugm.arguments import require_resource
from ugm.elastic.cell import Cell
from ugm.elastic.errors import GroupError, Refusal
from ugm.elastic.group import (
    BUILT_IN,
    DEFAULT_GROUP,
    ROOT_GROUP,
    SYSTEM_GROUP,
    ElasticGroup,
    parent_of,
    parents_first,
    require_group,
)
from ugm.elastic.node import TreeNode
from ugm.errors import RequestError
from ugm.resources import Resource

__all__ = ["ElasticTree"]

_NOTHING: Final = Resource()


@final
class ElasticTree:
    """Groups that share a cluster.

    Args:
        total: what the cluster has; a missing name is nothing.
        groups: in any order.
        scale_min: whether minimums are scaled down in proportion where they are more than there is.

    Raises:
        GroupError: a group has no place in the tree.
        RequestError: an amount of *total* is negative, or something is of the wrong kind.

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

    __slots__ = ("_scales", "_total", "nodes", "root")

    #: All groups by name, the built-in ones among them.
    nodes: dict[str, TreeNode]
    root: TreeNode
    _total: Resource
    _scales: bool

    def __init__(
        self, total: Resource = _NOTHING, groups: Iterable[ElasticGroup] = (), *, scale_min: bool = True
    ) -> None:
        self._scales = scale_min
        self._total = _NOTHING
        self.root = TreeNode(ROOT_GROUP, None, None)
        self.nodes = {ROOT_GROUP: self.root}
        for name in (SYSTEM_GROUP, DEFAULT_GROUP):
            self.nodes[name] = self.root.children[name] = TreeNode(name, None, self.root)
        self.set_total(total)
        given = tuple(groups)
        for group in given:
            require_group(group)
        for group in parents_first(given):
            self.put(group)

    @property
    def total(self) -> Resource:
        """What the cluster has."""
        return self._total

    @property
    def scale_min(self) -> bool:
        """Whether minimums are scaled down where they are more than there is."""
        return self._scales

    @property
    def groups(self) -> tuple[ElasticGroup, ...]:
        """All configured groups, every parent before its children."""
        found, waiting = [], [self.root]
        while waiting:
            node = waiting.pop()
            if node.group is not None:
                found.append(node.group)
            waiting.extend(reversed(node.children.values()))
        return tuple(found)

    def set_total(self, total: Resource) -> None:
        """Say what the cluster has now.

        Raises:
            RequestError: it is no `ugm.Resource`, or an amount is negative.
        """
        self._total = require_resource("total", total)
        for name in {*total.amounts, *self.root.cells}:
            self._refresh_root(name)
            self._trim(self.root, name)

    def _refresh_root(self, resource: str) -> None:
        """Work out anew what there is for groups: built-in ones are served first."""
        served = 0
        for name in (SYSTEM_GROUP, DEFAULT_GROUP):
            cell = self.nodes[name].cells.get(resource)
            served += cell.used if cell else 0
        self._cell(self.root, resource).most = self._total.amounts.get(resource, 0) - served

    def copy(self) -> ElasticTree:
        """Return a tree of its own with the same groups, and the same asked for and used. Costs all groups."""
        twin = ElasticTree(self._total, self.groups, scale_min=self._scales)
        twin.count_like(self)
        return twin

    @property
    def has_counts(self) -> bool:
        """Whether anything is requested or used in any group."""
        cells = (cell for node in self.nodes.values() for cell in node.cells.values())
        return any(cell.own_request or cell.own_used for cell in cells)

    def count_like(self, other: ElasticTree) -> None:
        """Count what is requested and used directly in the groups of another tree, of those that are here, too."""
        for name, node in other.nodes.items():
            for resource, cell in node.cells.items() if name in self.nodes else ():
                (request, firm_request), (used, firm_used) = cell.own(asks=True), cell.own(asks=False)
                if request:
                    self.change_request(name, Resource({resource: request}), firm=Resource({resource: firm_request}))
                if used:
                    self.change_used(name, Resource({resource: used}), firm=Resource({resource: firm_used}))

    # Groups

    def put(self, group: ElasticGroup) -> None:
        """Add a group, or replace the one of the same name; what is below it and what its pods hold stays with it.

        Costs the depth of the group for each resource that it names. What is said of the root has no effect.

        Raises:
            GroupError: the parent is unknown or below the group itself. Nothing has changed.
            RequestError: this is no group, or one of its parts is of the wrong kind. Nothing has changed.
        """
        require_group(group)
        if group.name == ROOT_GROUP:
            self.root.group = group
            return
        parent = self._parent_for(group)
        node = self.nodes.get(group.name)
        if node is None:
            node = self.nodes[group.name] = TreeNode(group.name, None, parent)
        elif node.parent is not None:
            node.parent.forget(node)
        if node.parent is not parent:
            self._move(node, parent)
        node.group = group
        parent.take(node)
        for resource in node.cells.keys() | group.max.amounts.keys() | group.min.amounts.keys():
            self._cell(node, resource).set_terms(node.terms(resource))
            if group.name in BUILT_IN:
                self._refresh_root(resource)
            self._trim(node, resource)

    def _parent_for(self, group: ElasticGroup) -> TreeNode:
        parent = self.nodes.get(parent_of(group))
        if parent is None:
            raise GroupError((Refusal(group.name, "parent_not_found", f"there is no group {group.parent!r}"),))
        if any(above.name == group.name for above in parent.path()):
            raise GroupError((Refusal(group.name, "cycle", f"{parent.name!r} is the group itself, or below it"),))
        return parent

    def _move(self, node: TreeNode, parent: TreeNode) -> None:
        before, node.parent = node.parent, parent
        if node.name not in BUILT_IN:
            for cell in node.cells.values():
                cell.detach()
            for resource, cell in node.cells.items():
                cell.attach(self._cell(parent, resource))
                self._trim(before, resource)

    def drop(self, name: str) -> None:
        """Remove a group, with all that is asked for and used in it.

        Raises:
            GroupError: the group is unknown or built in, or has children. Nothing has changed.
        """
        node = self.node(name)
        if name in BUILT_IN:
            raise GroupError((Refusal(name, "forbidden_delete", "a built-in group stays"),))
        if node.children:
            raise GroupError((Refusal(name, "has_children", f"{next(iter(node.children))!r} is below it"),))
        for cell in node.cells.values():
            cell.detach()
        if node.parent is not None:
            node.parent.forget(node)
        del self.nodes[name]
        for resource in node.cells:
            self._trim(node.parent, resource)

    def node(self, name: str) -> TreeNode:
        """Return a group's place in the tree.

        Raises:
            GroupError: there is none.
        """
        node = self.nodes.get(name)
        if node is None:
            raise GroupError((Refusal(name, "not_found", "there is no such group"),))
        return node

    def _cell(self, node: TreeNode, resource: str) -> Cell:
        """Return the cell of a group, made with all that it takes above it if there is none."""
        missing: list[TreeNode] = []
        at: TreeNode | None = node
        while at is not None and resource not in at.cells:
            missing.append(at)
            at = self._above(at)
        for each in reversed(missing):
            cell = Cell(each.name, each.terms(resource), competes=each.name not in BUILT_IN, scales=self._scales)
            above = self._above(each)
            if above is None:
                cell.most = 0
            else:
                cell.attach(above.cells[resource])
            each.cells[resource] = cell
        return node.cells[resource]

    def _trim(self, node: TreeNode | None, resource: str) -> None:
        """Drop the cells of a resource, from a group upward, as far as nothing needs them.

        A resource that only one pod or group ever named would otherwise stay in every group above for good.
        """
        while node is not None:
            cell = node.cells.get(resource)
            if cell is None or self._is_needed(node, resource, cell):
                return
            cell.detach()
            del node.cells[resource]
            node = self._above(node)

    def _is_needed(self, node: TreeNode, resource: str, cell: Cell) -> bool:
        """Return whether pods, groups below or the configuration have something to say of a resource in a group."""
        if cell.own_request or cell.own_used or len(cell.pool):
            return True
        if node is self.root:
            served = (self.nodes[name] for name in (SYSTEM_GROUP, DEFAULT_GROUP))
            return resource in self._total.amounts or any(resource in each.cells for each in served)
        group = node.group
        return group is not None and (resource in group.max.amounts or resource in group.min.amounts)

    def _above(self, node: TreeNode) -> TreeNode | None:
        """Return whom a group feeds: wherever a built-in group stands, it is served from the root."""
        return self.root if node.name in BUILT_IN and node is not self.root else node.parent

    # What is asked for and used

    def forget_counts(self) -> None:
        """Count nothing as requested or used any more; the groups and the total stay as they are.

        All counts are rebuilt, whatever state they were in. Takes time in the number of groups.
        """
        for node in self.nodes.values():
            node.cells = {}
        for resource in self._total.amounts:
            self._refresh_root(resource)
        for node in self.nodes.values():
            if node.group is not None:
                for resource in node.group.max.amounts.keys() | node.group.min.amounts.keys():
                    self._cell(node, resource)

    def change_request(self, name: str, delta: Resource, *, firm: Resource = _NOTHING) -> None:
        """Count a change of what the pods of a group ask for, the waiting and the running ones.

        Args:
            name: the group.
            delta: what is asked for in addition; less than nothing where less is asked for.
            firm: the part of *delta* that its pods do not want to be taken back.

        Raises:
            GroupError: the group is unknown.
            RequestError: the pods would ask for less than nothing, or more of it be firm than there is, or an argument
                is no `ugm.Resource`. Nothing has changed.
        """
        node = self.node(name)
        _require_amounts(delta, firm)
        if firm.amounts or min(delta.amounts.values(), default=0) < 0:
            _check_counts("ask for", node, delta, firm)
        for resource, amount in delta.amounts.items():
            cell = node.cells.get(resource) or self._cell(node, resource)
            cell.ask(amount, firm.amounts.get(resource, 0))
            if amount <= 0:
                self._trim(node, resource)

    def change_used(self, name: str, delta: Resource, *, firm: Resource = _NOTHING) -> None:
        """Count a change of what the running pods of a group use; otherwise like `change_request`."""
        node = self.node(name)
        _require_amounts(delta, firm)
        _check_counts("use", node, delta, firm)
        for resource, amount in delta.amounts.items():
            self._cell(node, resource).use(amount, firm.amounts.get(resource, 0))
            if name in BUILT_IN:
                self._refresh_root(resource)
            if amount <= 0:
                self._trim(node, resource)

    # Reads

    def runtime(self, name: str) -> Resource:
        """Return what a group may use now, of every resource that its maximum names and the group above shares.

        Costs the depth of the group where sums decide, and a pass over hungry siblings for each round where they do
        not. What there is for all groups is the runtime of the root; a built-in group gets its maximum.

        Raises:
            GroupError: the group is unknown.
        """
        node = self.node(name)
        runtimes = {resource: cell.runtime() for resource, cell in node.cells.items() if cell.is_shared}
        if node is self.root:
            # What some pod has asked for once, and the cluster never had, is not there to be shown.
            runtimes = {name: most for name, most in runtimes.items() if most or name in self._total}
        return Resource(runtimes)

    def limit(self, name: str) -> Resource:
        """Return what holds a group: its runtime, and its maximum of what the group above does not share."""
        node = self.node(name)
        return Resource({resource: cell.runtime() for resource, cell in node.cells.items() if cell.is_limited})

    def scaled_min(self, name: str) -> Resource:
        """Return the minimum of a group, scaled down where the minimums are more than there is.

        Where there is as much as everybody asks for nothing is short, and the configured minimum is in force all the
        same.
        """
        node = self.node(name)
        return self._read(node, lambda cell: cell.scaled_min())

    def child_request(self, name: str) -> Resource:
        """Return what the pods in a group ask for, with what the groups below it ask of it."""
        return self._read(self.node(name), lambda cell: cell.child_request)

    def request(self, name: str) -> Resource:
        """Return the same, but at least the minimum if the group does not lend it."""
        return self._read(self.node(name), lambda cell: cell.request)

    def limited_request(self, name: str) -> Resource:
        """Return what a group asks of the one above: its request, up to its maximum."""
        return self._read(self.node(name), lambda cell: cell.limited)

    def firm_request(self, name: str) -> Resource:
        """Return what is asked for in and below a group by pods that must not be taken back."""
        return self._read(self.node(name), lambda cell: cell.firm_request)

    def used(self, name: str) -> Resource:
        """Return what is used in and below a group."""
        return self._read(self.node(name), lambda cell: cell.used)

    def firm_used(self, name: str) -> Resource:
        """Return what is used in and below a group by pods that must not be taken back."""
        return self._read(self.node(name), lambda cell: cell.firm_used)

    def _read(self, node: TreeNode, field: Callable[[Cell], int]) -> Resource:
        return Resource({resource: amount for resource, cell in node.cells.items() if (amount := field(cell))})


def _require_amounts(delta: object, firm: object) -> None:
    if type(delta) is not Resource:
        raise RequestError("delta", delta, "expected a Resource")
    if type(firm) is not Resource:
        raise RequestError("firm", firm, "expected a Resource")


def _check_counts(verb: str, node: TreeNode, delta: Resource, firm: Resource) -> None:
    """Refuse a change after which counts would be less than nothing, or more firm than there is."""
    asks = verb == "ask for"
    if not firm.amounts.keys() <= delta.amounts.keys():
        raise RequestError("firm", firm, "it is a part of the change, and names no other resources")
    for resource, change in delta.amounts.items():
        cell = node.cells.get(resource)
        own, own_firm = (0, 0) if cell is None else cell.own(asks=asks)
        after, firm_after = own + change, own_firm + firm.amounts.get(resource, 0)
        if not 0 <= firm_after <= after:
            held = f"{after} {resource}, {firm_after} of it firm"
            raise RequestError("delta", delta, f"the pods of {node.name!r} would {verb} {held}")
