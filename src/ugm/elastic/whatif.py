"""What would be: the runtimes of a changed tree, without touching the live one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ugm.arguments import require_resource
from ugm.elastic.group import BUILT_IN, ElasticGroup
from ugm.elastic.tree import ElasticTree
from ugm.resources import Resource

__all__ = ["RuntimeChange", "what_if"]

_NOBODY: Final[Mapping[str, Resource]] = MappingProxyType({})


class RuntimeChange(NamedTuple):
    """What a change does to one group."""

    group: str
    #: None if the group is not there before, or after.
    before: Resource | None
    after: Resource | None


def what_if(
    tree: ElasticTree,
    *,
    total: Resource | None = None,
    put: Iterable[ElasticGroup] = (),
    drop: Iterable[str] = (),
    requests: Mapping[str, Resource] = _NOBODY,
) -> tuple[RuntimeChange, ...]:
    """Return whose runtime would change, sorted by group. Costs a copy of the tree.

    Args:
        tree: the live tree, which stays as it is.
        total: what the cluster would have.
        put: groups that would be added or replaced, parents first.
        drop: groups that would be removed after that, children first.
        requests: what the pods directly in a group would ask for, of the resources named; nothing else of them changes.

    Raises:
        GroupError: the changed groups would not be a tree.
        RequestError: an amount is negative.

    >>> eight = Resource(gpu=8)
    >>> live = ElasticTree(eight, [ElasticGroup("a", max=eight), ElasticGroup("b", max=eight)])
    >>> live.change_request("a", eight)
    >>> for change in what_if(live, requests={"b": Resource(gpu=3)}):
    ...     print(change.group, change.before, "->", change.after)
    a gpu 8 -> gpu 5
    b gpu 0 -> gpu 3
    """
    changed = tree.copy()
    if total is not None:
        changed.set_total(total)
    for group in put:
        changed.put(group)
    for name in drop:
        changed.drop(name)
    for name, request in requests.items():
        _ask_for(changed, name, require_resource("requests", request))
    before, after = _runtimes(tree), _runtimes(changed)
    return tuple(
        RuntimeChange(name, before.get(name), after.get(name))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    )


def _ask_for(tree: ElasticTree, name: str, request: Resource) -> None:
    """Let the pods of a group ask for just that, the firm ones for no more than all."""
    cells = tree.node(name).cells
    own = {resource: cells[resource].own(asks=True) if resource in cells else (0, 0) for resource in request}
    delta = {resource: amount - own[resource][0] for resource, amount in request.items()}
    firm = {resource: min(amount - own[resource][1], 0) for resource, amount in request.items()}
    tree.change_request(name, Resource(delta), firm=Resource(firm))


def _runtimes(tree: ElasticTree) -> dict[str, Resource]:
    return {name: tree.runtime(name) for name in tree.nodes if name not in BUILT_IN}
