"""The state of all groups at one moment: copied as numbers, and computed from the copy.

The problem: the runtime of a group depends on its siblings and on all groups above. A program that shows thousands of
groups must not hold the lock of the owner of the tree during that computation.

The idea: `TreeCopy` copies numbers only. It computes the runtimes from the copy, top down, with one call of
`ugm.elastic.sharing.shares_of` for each parent group and resource.

Successive copies of one tree share a `KnownGroups`. It has the numbers and results of the last computation, and a copy
computes only what differs from it: changed groups, their siblings, and groups below whose share has changed.

Invariant: the result for each group is that of `ugm.elastic.status`, as plain data. It does not depend on the known
groups.

The cost: the copy takes about a microsecond for each resource of each group, and the computation some ten for each
group that differs. The comparison takes a tenth of the copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias, final

from ugm._json_values import JsonObject
from ugm.elastic.group import ElasticGroup
from ugm.elastic.nodes import UNLIMITED
from ugm.elastic.sharing import Sharer, scaled_min, shares_of
from ugm.elastic.status import terms_of
from ugm.elastic.tree import ElasticTree
from ugm.resources import Resource

__all__ = ["KnownGroups", "TreeCopy"]

#: A copied group: its name, its parent (empty for the root), its configuration and its numbers by resource.
_Raw: TypeAlias = tuple[str, str, ElasticGroup | None, list[tuple[str, tuple[Any, ...]]]]


class _Numbers(NamedTuple):
    """One resource of one group: the attributes of its `ugm.elastic.nodes.ResourceNode`."""

    competes: bool
    is_counted: bool
    min: int
    max: int
    weight: int
    lends: bool
    child_request: int
    request: int
    limited_request: int
    used: int


#: Copying the attributes as plain tuples takes a third of the time of creating `_Numbers`.
_copy_numbers: Final = attrgetter(*_Numbers._fields)
#: The numbers that are part of the status, without zeros.
_SHOWN: Final = ("child_request", "request", "limited_request", "used")
_POSITIONS: Final = {field: position for position, field in enumerate(_Numbers._fields)}


class _Group(NamedTuple):
    """One group with its resources."""

    name: str
    #: Empty for the root.
    parent: str
    min: Mapping[str, int]
    max: Mapping[str, int]
    resources: Mapping[str, _Numbers]


class _Share(NamedTuple):
    """The computed amounts of one resource of a group."""

    runtime: int
    scaled_min: int
    #: Of groups that compete: the runtime less the minimum in force.
    borrowed: int
    #: Whether the group has a runtime of the resource, as `ugm.elastic.nodes.ResourceNode.is_shared`.
    is_shared: bool


#: The shares of a group by resource.
_Shares: TypeAlias = dict[str, _Share]


class _Known(NamedTuple):
    """A computation: the copied numbers, and what follows from them, by group."""

    raw: list[_Raw]
    total: Resource
    groups: dict[str, _Group]
    #: The names of the groups directly below each parent group.
    children: dict[str, list[str]]
    shares: dict[str, _Shares]
    #: The result, as plain data.
    statuses: dict[str, JsonObject]
    #: The same in order.
    listed: list[JsonObject]


@final
class KnownGroups:
    """The last computation of the copies of one tree. Copies may be computed in several threads, in any order.

    Attributes:
        latest: the last computation; None before the first one. It is never changed, only replaced.
    """

    __slots__ = ("latest",)

    def __init__(self) -> None:
        self.latest: _Known | None = None


@final
class TreeCopy:
    """The numbers of a tree at one moment.

    Args:
        tree: the tree; it is not used afterwards.
        known: the last computation for this tree, which a new one follows and replaces; None for an empty one.

    Attributes:
        total: the amounts of the cluster.

    >>> from ugm import Resource
    >>> from ugm.elastic import ElasticGroup
    >>> tree = ElasticTree(Resource(gpu=8), [ElasticGroup("ml", min=Resource(gpu=2), max=Resource(gpu=4))])
    >>> copy = TreeCopy(tree)
    >>> tree.change_request("ml", Resource(gpu=5))
    >>> [group["lent"] for group in copy.groups() if group["group"] == "ml"]
    [{'gpu': 2}]
    """

    __slots__ = ("_known", "_raw", "_scales", "total")

    def __init__(self, tree: ElasticTree, known: KnownGroups | None = None) -> None:
        self.total: Final = tree.total
        self._known: Final = known or KnownGroups()
        self._scales: Final = tree.scale_min
        self._raw: Final[list[_Raw]] = [
            (
                node.name,
                node.parent.name if node.parent else "",
                node.group,
                [(resource, _copy_numbers(numbers)) for resource, numbers in node.resources.items()],
            )
            for node in tree.root.walk()
        ]

    def groups(self) -> list[JsonObject]:
        """Return the result of `GroupStatus.to_dict` for every group, every parent before its children.

        Groups that have not changed since the last computation have the same object as there. If none has changed, the
        list is the same, too.
        """
        known = self._known.latest
        if known is None or not self._has_groups_of(known):
            children: dict[str, list[str]] = {}
            for name, parent, _, _ in self._raw:
                children.setdefault(parent, []).append(name)
            known = _Known([], self.total, {}, children, {}, {}, [])
            changed = self._raw
        else:
            changed = [raw for raw, before in zip(self._raw, known.raw, strict=True) if raw != before]
            if known.total != self.total:
                changed.append(self._raw[0])
        if changed:
            known = self._known.latest = self._following(known, changed)
        return known.listed

    def _has_groups_of(self, known: _Known) -> bool:
        """Return whether the same groups existed in the same places."""
        if len(self._raw) != len(known.raw):
            return False
        return all(raw[:2] == before[:2] for raw, before in zip(self._raw, known.raw, strict=True))

    def _following(self, known: _Known, changed: list[_Raw]) -> _Known:
        """Return the computation for this copy, which differs from a known one in some groups."""
        groups = known.groups | {raw[0]: _group(*raw) for raw in changed}
        shares, children = dict(known.shares), known.children
        renewed = self._share_all(groups, children, shares, [raw[0] for raw in changed])
        statuses = dict(known.statuses)
        for name in renewed:
            statuses[name] = self._status(groups[name], groups.get(groups[name].parent), shares[name])
        listed = [statuses[raw[0]] for raw in self._raw]
        return _Known(self._raw, self.total, groups, children, shares, statuses, listed)

    def _share_all(
        self,
        groups: Mapping[str, _Group],
        children: Mapping[str, list[str]],
        shares: dict[str, _Shares],
        changed: Iterable[str],
    ) -> list[str]:
        """Compute the shares that changed groups affect, and return all groups whose result may have changed."""
        renewed = set(changed)
        # A parent group is divided again if its own share, its counts or one of its children may have changed.
        divided = {groups[name].parent for name in renewed} | renewed
        if "" in divided:
            shares.update(_undivided(groups[name], None) for name in children[""])
        for raw in self._raw:
            name = raw[0]
            if name in divided and name in children:
                for child, found in self._divide(groups[name], shares[name], [groups[each] for each in children[name]]):
                    if shares.get(child) != found:
                        shares[child] = found
                        renewed.add(child)
                        divided.add(child)
        return [raw[0] for raw in self._raw if raw[0] in renewed]

    def _divide(self, group: _Group, shares: _Shares, children: list[_Group]) -> Iterable[tuple[str, _Shares]]:
        """Return the shares of the child groups of a group; a group that competes with no other has its maximum."""
        found = dict(_undivided(child, group) for child in children)
        for resource, one in group.resources.items():
            sharers = [_sharer(child.name, each) for child in children if (each := _competitor(child, resource))]
            if sharers:
                available = shares[resource].runtime
                result = shares_of(available, sharers if one.is_counted else [], scale=self._scales)
                minimums = self._scaled(available, sharers)
                for name, *_ in sharers:
                    before, runtime = found[name][resource], result.runtime.get(name)
                    least = minimums.get(name, before.scaled_min)
                    found[name][resource] = before._replace(scaled_min=least)
                    if runtime is not None:
                        found[name][resource] = _Share(runtime, least, runtime - result.min[name], before.is_shared)
        return found.items()

    def _scaled(self, available: int, children: list[Sharer]) -> dict[str, int]:
        total = sum([child.min for child in children])
        if not self._scales or not 0 < total > available:
            return {}
        return {child.name: scaled_min(available, child.min, total) for child in children}

    def _status(self, group: _Group, parent: _Group | None, shares: _Shares) -> JsonObject:
        name, parent_name, least, most, resources = group
        shared = [resource for resource in resources if shares[resource].is_shared]
        runtime = {resource: shares[resource].runtime for resource in shared}
        if parent is None:
            # As in `ElasticTree.runtime`.
            runtime = {resource: amount for resource, amount in runtime.items() if amount or resource in self.total}
        borrowed = {resource: shares[resource].borrowed for resource in shared}
        return {
            "group": name,
            "parent": parent_name,
            "min": dict(least),
            "max": dict(most),
            **{field: _without_zeros(resources, _POSITIONS[field]) for field in _SHOWN},
            "runtime": runtime,
            "scaled_min": {each: amount for each in resources if (amount := shares[each].scaled_min)},
            "borrowed": {resource: amount for resource, amount in borrowed.items() if amount > 0},
            "lent": {resource: -amount for resource, amount in borrowed.items() if amount < 0},
        }


def _group(
    name: str, parent: str, configured: ElasticGroup | None, resources: list[tuple[str, tuple[Any, ...]]]
) -> _Group:
    least, most = terms_of(configured, parent)
    numbers = {resource: _Numbers._make(each) for resource, each in resources}
    return _Group(name, parent, least.amounts, most.amounts, numbers)


def _undivided(group: _Group, parent: _Group | None) -> tuple[str, _Shares]:
    """Return the shares of a group that competes with no other."""
    return group.name, {
        resource: _Share(one.max, one.min, 0, _is_shared(one, resource, parent))
        for resource, one in group.resources.items()
    }


def _competitor(group: _Group, resource: str) -> _Numbers | None:
    """Return the numbers of a group that competes for a resource."""
    one = group.resources.get(resource)
    return one if one is not None and one.competes else None


def _sharer(name: str, one: _Numbers) -> Sharer:
    return Sharer(name, one.limited_request, one.min, one.weight, one.lends)


def _without_zeros(resources: Mapping[str, _Numbers], position: int) -> dict[str, int]:
    return {resource: amount for resource, one in resources.items() if (amount := one[position])}


def _is_shared(own: _Numbers, resource: str, parent: _Group | None) -> bool:
    return own.is_counted and own.max < UNLIMITED and (parent is None or parent.resources[resource].is_counted)
