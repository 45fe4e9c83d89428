"""The what-if analysis: runtimes in a changed copy of a tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ugm.arguments import require_instance, require_items, require_mapping, require_resource
from ugm.elastic.group import BUILT_IN, ElasticGroup
from ugm.elastic.tree import ElasticTree
from ugm.resources import Resource

__all__ = ["RuntimeChange", "what_if"]

_NO_REQUESTS: Final[Mapping[str, Resource]] = MappingProxyType({})


class RuntimeChange(NamedTuple):
    """The effect of a change on one group."""

    group: str
    #: None if the group does not exist before the change, or after it.
    before: Resource | None
    after: Resource | None


def what_if(
    tree: ElasticTree,
    *,
    total: Resource | None = None,
    put: Iterable[ElasticGroup] = (),
    drop: Iterable[str] = (),
    requests: Mapping[str, Resource] = _NO_REQUESTS,
) -> tuple[RuntimeChange, ...]:
    """Return the groups whose runtime a change would affect, sorted by name. Takes the time of a copy of the tree.

    Args:
        tree: the live tree, which does not change.
        total: the new amounts of the cluster.
        put: groups to add or replace, parents first.
        drop: groups to remove after that, children first.
        requests: the new requests of the pods directly in a group; resources that are not named do not change.

    Raises:
        GroupError: the changed groups do not form a tree.
        RequestError: an amount is negative, or an argument has the wrong type.

    >>> eight = Resource(gpu=8)
    >>> live = ElasticTree(eight, [ElasticGroup("a", max=eight), ElasticGroup("b", max=eight)])
    >>> live.change_request("a", eight)
    >>> for change in what_if(live, requests={"b": Resource(gpu=3)}):
    ...     print(change.group, change.before, "->", change.after)
    a gpu 8 -> gpu 5
    b gpu 0 -> gpu 3
    """
    require_instance("tree", tree, ElasticTree)
    changed = tree.copy()
    if total is not None:
        changed.set_total(total)
    for group in require_items("put", put):
        changed.put(group)
    for name in require_items("drop", drop):
        changed.drop(name)
    for name, request in require_mapping("requests", requests).items():
        _set_request(changed, name, require_resource("requests", request))
    before, after = _runtimes(tree), _runtimes(changed)
    return tuple(
        RuntimeChange(name, before.get(name), after.get(name))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    )


def _set_request(tree: ElasticTree, name: str, request: Resource) -> None:
    """Set the requests of the pods of a group. Those of non-preemptible pods are reduced if they exceed the total."""
    nodes = tree.node(name).resources
    own = {resource: nodes[resource].own_requests if resource in nodes else (0, 0) for resource in request}
    delta = {resource: amount - own[resource][0] for resource, amount in request.items()}
    fixed = {resource: min(amount - own[resource][1], 0) for resource, amount in request.items()}
    tree.change_request(name, Resource(delta), non_preemptible=Resource(fixed))


def _runtimes(tree: ElasticTree) -> dict[str, Resource]:
    return {name: tree.runtime(name) for name in tree.nodes if name not in BUILT_IN}
