"""Elastic groups as they are configured: what each is guaranteed, what it may reach, how it competes.

An `ElasticGroup` is an immutable value. It may say what no rule allows (a minimum above the maximum, say, or a negative
weight): `ugm.elastic.rules` judges it, and the engine takes what it is given, as long as it is made of the right parts.

Source: Koordinator, multi-hierarchy elastic quota management, "Key Concept" and "API".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Final, NamedTuple

from ugm.arguments import require_name
from ugm.errors import RequestError
from ugm.identity import MAX_NAME
from ugm.resources import Resource

__all__ = [
    "BUILT_IN",
    "DEFAULT_GROUP",
    "ROOT_GROUP",
    "SYSTEM_GROUP",
    "ElasticGroup",
    "parent_of",
    "parents_first",
    "require_group",
]

#: Above all groups. It has no limits; what it shares out is the cluster.
ROOT_GROUP: Final = "koordinator-root-quota"
#: For pods of the system: never limited, and served before all others.
SYSTEM_GROUP: Final = "koordinator-system-quota"
#: For pods that belong to no other group.
DEFAULT_GROUP: Final = "koordinator-default-quota"

#: Groups that are always there.
BUILT_IN: Final = frozenset((ROOT_GROUP, SYSTEM_GROUP, DEFAULT_GROUP))

_NOTHING: Final = Resource()


class ElasticGroup(NamedTuple):
    """The configuration of one elastic group.

    >>> team = ElasticGroup("team", min=Resource(vcore=2000), max=Resource(vcore=8000))
    >>> team.parent == ROOT_GROUP, team.weight
    (True, Resource(vcore=8000))
    """

    #: Unique among all groups.
    name: str
    #: The group above; the empty text stands for `ugm.elastic.ROOT_GROUP`.
    parent: str = ROOT_GROUP
    #: What the group is guaranteed; a missing name is nothing.
    min: Resource = _NOTHING
    #: The most that the group may reach. Only resources that it names are counted for the group at all.
    max: Resource = _NOTHING
    #: How strongly the group competes for what is left over; None stands for `max`, a missing name for no weight.
    shared_weight: Resource | None = None
    #: Whether others may use what the group does not ask for of its minimum.
    allow_lent: bool = True
    #: Whether the group is there for the sake of groups below it, and takes no pods itself.
    is_parent: bool = False
    #: Pods from these namespaces belong to the group if they name none.
    namespaces: tuple[str, ...] = ()
    #: The namespace that the object of the group lives in.
    namespace: str = ""
    #: Of several trees, the one that the group belongs to; groups of one tree share it. None if it is not said.
    tree_id: str | None = None
    #: Whether the group is the uppermost of its tree; its minimum is then not compared with what is above.
    is_root: bool = False
    #: Whether to pass over the rules on sums of minimums.
    force_update: bool = False
    #: Resources whose maximum must not be lowered below what is used.
    strict_max: tuple[str, ...] = ()
    #: What the object reports as used; only compared with `strict_max`.
    reported_used: Resource = _NOTHING
    #: A text in place of the weights that cannot be read as weights; the group then has none of its own.
    unread_weight: str = ""

    @property
    def weight(self) -> Resource:
        """The weights in force: an absent vector, and one of nothing but zeros, stand for `max`."""
        if self.shared_weight is None or not any(self.shared_weight.amounts.values()):
            return self.max
        return self.shared_weight


#: What the parts of a group are, and how to say it.
_KINDS: Final[Mapping[str, tuple[type | UnionType, str]]] = {
    "name": (str, "a text"),
    "parent": (str, "a text"),
    "min": (Resource, "a Resource"),
    "max": (Resource, "a Resource"),
    "shared_weight": (Resource | None, "a Resource or None"),
    "allow_lent": (bool, "True or False"),
    "is_parent": (bool, "True or False"),
    "namespaces": (tuple, "a tuple of names"),
    "namespace": (str, "a text"),
    "tree_id": (str | None, "a text or None"),
    "is_root": (bool, "True or False"),
    "force_update": (bool, "True or False"),
    "strict_max": (tuple, "a tuple of names"),
    "reported_used": (Resource, "a Resource"),
    "unread_weight": (str, "a text"),
}


def require_group(group: object) -> None:
    """Make sure that this is an elastic group, made of what its parts are declared to be.

    Raises:
        RequestError: it is not.
    """
    if not isinstance(group, ElasticGroup):
        raise RequestError("group", group, "expected an ElasticGroup")
    require_name("group.name", group.name)
    for (field, (kind, told)), value in zip(_KINDS.items(), group, strict=True):
        names = value if isinstance(value, tuple) else ()
        if not isinstance(value, kind) or not all(name and type(name) is str for name in names):
            raise RequestError(f"group.{field}", value, f"expected {told}")
        longest = max(map(len, (*names, value) if isinstance(value, str) else names), default=0)
        if longest > MAX_NAME and field != "unread_weight":
            raise RequestError(f"group.{field}", value, f"a name has 1 to {MAX_NAME} characters")


def parent_of(group: ElasticGroup) -> str:
    """Return the name of the group above."""
    return group.parent or ROOT_GROUP


def parents_first(groups: Iterable[ElasticGroup]) -> list[ElasticGroup]:
    """Return groups in their order, but every parent before its children.

    Groups whose parent is not among those that follow from the root come last: they have no place in a tree.
    """
    below: dict[str, list[ElasticGroup]] = {}
    for group in groups:
        below.setdefault(parent_of(group), []).append(group)
    ordered: list[ElasticGroup] = []
    # Built-in groups are there even if nobody has configured them.
    waiting = sorted(BUILT_IN - {each.name for named in below.values() for each in named} | {ROOT_GROUP})
    while waiting:
        children = below.pop(waiting.pop(), [])
        ordered += children
        waiting += [child.name for child in reversed(children)]
    return ordered + [group for rest in below.values() for group in rest]
