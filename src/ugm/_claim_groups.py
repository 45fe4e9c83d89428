"""The group of a claim in a declared quota model, as `ugm.configuration.GroupSource` describes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from ugm.configuration import GroupSource
from ugm.model import Claim

__all__ = ["NAMESPACE_TAG", "GroupFinder", "finder_of"]

#: The tag of a namespace, unless the source names another one.
NAMESPACE_TAG: Final = "namespace"

#: Returns the group of a claim; None if the source has no name for it.
GroupFinder: TypeAlias = Callable[[Claim], str | None]


def finder_of(source: GroupSource) -> GroupFinder:
    """Return the function that finds the group of a claim in one source.

    >>> from ugm import Resource, UserGroup
    >>> claim = Claim("a-1", "app", Resource(), "root.prod.web", UserGroup("sue"), {"team": "ml"})
    >>> finder_of(GroupSource(source="tag", tag="team"))(claim)
    'ml'
    >>> finder_of(GroupSource(source="queue", names={"root.prod": "production"}))(claim)
    'production'
    """
    names = source.names
    if source.source == "queue":
        return _queue_finder({path.lower(): group for path, group in names.items()})
    values = _values_of(source)
    if not names:
        return lambda claim: next(values(claim), None)
    return lambda claim: next((names[value] for value in values(claim) if value in names), None)


def _values_of(source: GroupSource) -> Callable[[Claim], Iterator[str]]:
    """Return the function that yields the values of the property of a claim."""
    if source.source == "user":
        return lambda claim: iter((claim.user.name,))
    if source.source == "group":
        return lambda claim: iter(claim.user.groups)
    tag = source.tag or NAMESPACE_TAG
    return lambda claim: iter((value,)) if (value := claim.tags.get(tag)) else iter(())


def _queue_finder(names: Mapping[str, str]) -> GroupFinder:
    if not names:
        return lambda claim: claim.queue_path.rpartition(".")[2]

    def nearest(claim: Claim) -> str | None:
        path = claim.queue_path
        while path and path not in names:
            path = path.rpartition(".")[0]
        return names.get(path)

    return nearest
