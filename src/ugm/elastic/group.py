"""Elastic groups and pods as values.

An `ElasticGroup` is the configuration of a group: guaranteed minimum, maximum, weight, and the place in the tree. It
may violate the rules, for example with a minimum above the maximum: `ugm.elastic.validation` checks it, and a tree
accepts every group whose parts have the right types.

Source: Koordinator, multi-hierarchy elastic quota management, "Key Concept", "API", "Pod" and "Compatibility".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Final, NamedTuple, get_type_hints

from ugm.arguments import require_items, require_name, require_resource
from ugm.errors import RequestError, UgmError
from ugm.identity import MAX_NAME
from ugm.resources import Resource

__all__ = [
    "BUILT_IN",
    "DEFAULT_GROUP",
    "ROOT_GROUP",
    "SYSTEM_GROUP",
    "ElasticGroup",
    "GroupError",
    "Pod",
    "Refusal",
    "parent_of",
    "parents_first",
    "require_group",
    "require_pod",
    "require_texts",
]

#: The root group. It has no limits, and shares what the system and default groups leave of the cluster.
ROOT_GROUP: Final = "koordinator-root-quota"
#: The group of system pods. It is served before all others, and limited only by a configured maximum.
SYSTEM_GROUP: Final = "koordinator-system-quota"
#: The group of pods that belong to no other group. It is served after the system group and before all others.
DEFAULT_GROUP: Final = "koordinator-default-quota"

#: Groups that always exist.
BUILT_IN: Final = frozenset((ROOT_GROUP, SYSTEM_GROUP, DEFAULT_GROUP))

_NOTHING: Final = Resource()


class Refusal(NamedTuple):
    """One rule that a change of the groups violates."""

    #: The group that would be created, changed, deleted or used by a pod.
    group: str
    #: A stable identifier, for example ``min_exceeds_max``.
    rule: str
    #: A message, as the end of a sentence.
    reason: str

    def __str__(self) -> str:
        return f"elastic group {self.group!r}: {self.reason} [{self.rule}]"


class GroupError(UgmError, ValueError):
    """A change of the elastic groups was refused. Nothing has changed.

    Attributes:
        refusals: all violated rules that could be checked, in the order of the rules; never empty.
    """

    code = "group-invalid"

    def __init__(self, refusals: tuple[Refusal, ...]) -> None:
        super().__init__(refusals)
        self.refusals: Final = refusals

    def __str__(self) -> str:
        return "\n".join(str(refusal) for refusal in self.refusals)


class ElasticGroup(NamedTuple):
    """The configuration of one elastic group.

    >>> team = ElasticGroup("team", min=Resource.parse(vcore="2"), max=Resource.parse(vcore="8"))
    >>> team.parent == ROOT_GROUP, team.weight
    (True, Resource(vcore=8000))
    """

    #: Unique among all groups.
    name: str
    #: The parent group; an empty text means `ugm.elastic.ROOT_GROUP`.
    parent: str = ROOT_GROUP
    #: The guaranteed amounts; 0 of a missing resource.
    min: Resource = _NOTHING
    #: The maximum amounts. Only resources that it names are counted for the group.
    max: Resource = _NOTHING
    #: The weights for dividing what is left over; None means `max`. A missing resource has no weight.
    shared_weight: Resource | None = None
    #: Whether other groups may use the part of the minimum that the group does not request.
    allow_lent: bool = True
    #: Whether the group is a parent of other groups and accepts no pods itself.
    is_parent: bool = False
    #: Pods in these namespaces belong to the group if they name no group.
    namespaces: tuple[str, ...] = ()
    #: The namespace of the Kubernetes object of the group.
    namespace: str = ""
    #: The tree of the group, if there are several; all groups of a tree have the same id. None for no id.
    tree_id: str | None = None
    #: Whether the group is the root of its tree; its minimum is then not compared with that of its parent.
    is_root: bool = False
    #: Whether to skip the rules on sums of minimums.
    force_update: bool = False
    #: Resources whose maximum must not be lowered below the reported usage.
    strict_max: tuple[str, ...] = ()
    #: The usage that the Kubernetes object reports; only compared with `strict_max`.
    reported_used: Resource = _NOTHING
    #: The text of the weights if it could not be parsed; the group then has no weights of its own.
    unparsed_weight: str = ""

    @property
    def weight(self) -> Resource:
        """The weights in force: `max` if there are none, or only zeros."""
        if self.shared_weight is None or not any(self.shared_weight.amounts.values()):
            return self.max
        return self.shared_weight


#: For each declared type of a field the type to check, and its description in messages.
_CHECKS: Final[Mapping[object, tuple[tuple[type, ...], str]]] = {
    str: ((str,), "a text"),
    str | None: ((str, NoneType), "a text or None"),
    bool: ((bool,), "True or False"),
    int: ((int,), "an int"),
    int | None: ((int, NoneType), "an int"),
    Resource: ((Resource,), "a Resource"),
    Resource | None: ((Resource, NoneType), "a Resource or None"),
    tuple[str, ...]: ((tuple,), "a tuple of names"),
}


def require_group(group: object) -> None:
    """Check that an argument is an elastic group, and that its fields have the declared types.

    Raises:
        RequestError: it is not.
    """
    if not isinstance(group, ElasticGroup):
        raise RequestError("group", group, "expected an ElasticGroup")
    _require_fields("group", group)


def _require_fields(argument: str, value: ElasticGroup | Pod) -> None:
    require_name(f"{argument}.name", value.name)
    for (field, kinds, description), each in zip(_FIELDS[type(value)], value, strict=True):
        if not isinstance(each, kinds) or (type(each) is bool and bool not in kinds):
            raise RequestError(f"{argument}.{field}", each, f"expected {description}")
        # Configurations have thousands of groups. Most fields of most groups are empty.
        if each and isinstance(each, str | tuple):
            _require_names(f"{argument}.{field}", each, description)


def _require_names(argument: str, value: str | tuple[object, ...], description: str) -> None:
    names = [value] if isinstance(value, str) else [name for name in value if name and type(name) is str]
    if isinstance(value, tuple) and len(names) < len(value):
        raise RequestError(argument, value, f"expected {description}")
    if max(map(len, names)) > MAX_NAME and argument != "group.unparsed_weight":
        raise RequestError(argument, value, f"a name has 1 to {MAX_NAME} characters")


def parent_of(group: ElasticGroup) -> str:
    """Return the name of the parent group."""
    return group.parent or ROOT_GROUP


def parents_first(groups: Iterable[ElasticGroup]) -> list[ElasticGroup]:
    """Return groups in their order, but every parent before its children.

    Groups that are not connected to the root come last, because they cannot be part of a tree.
    """
    children: dict[str, list[ElasticGroup]] = {}
    for group in groups:
        children.setdefault(parent_of(group), []).append(group)
    ordered: list[ElasticGroup] = []
    # Built-in groups exist even if they are not configured.
    configured = {group.name for siblings in children.values() for group in siblings}
    stack = sorted(BUILT_IN - configured | {ROOT_GROUP})
    while stack:
        below = children.pop(stack.pop(), [])
        ordered += below
        stack += [child.name for child in reversed(below)]
    return ordered + [group for rest in children.values() for group in rest]


class Pod(NamedTuple):
    """A running or waiting pod, with its request.

    >>> Pod("web-1", Resource.parse(vcore="500m"), group="web").non_preemptible
    Resource()
    """

    #: Unique among all pods.
    name: str
    #: The request of the pod, which is its usage while it runs.
    usage: Resource
    #: The group that the pod names; empty for none.
    group: str = ""
    namespace: str = ""
    #: Higher values are more important. Only pods of one group are compared.
    priority: int = 0
    #: Whether the pod may be evicted. A non-preemptible pod must fit the minimum of its group.
    preemptible: bool = True
    #: The start time; None if it is unknown, which counts as just now.
    started: int | None = None

    @property
    def non_preemptible(self) -> Resource:
        """The part of the request that must not be taken back: all or nothing."""
        return _NOTHING if self.preemptible else self.usage


def require_pod(pod: object) -> None:
    """Check that an argument is a pod with valid fields.

    Raises:
        RequestError: it is not, or an amount is negative.
    """
    if not isinstance(pod, Pod):
        raise RequestError("pod", pod, "expected a Pod")
    _require_fields("pod", pod)
    require_resource("pod.usage", pod.usage)


#: The fields of groups and pods with the types to check.
_FIELDS: Final = {
    kind: [(field, *_CHECKS[declared]) for field, declared in get_type_hints(kind).items()]
    for kind in (ElasticGroup, Pod)
}


def require_texts(argument: str, names: object) -> tuple[str, ...]:
    """Return several names, which may be unknown.

    Raises:
        RequestError: they are not several texts.
    """
    items = require_items(argument, names)
    for name in items:
        if not isinstance(name, str):
            raise RequestError(argument, name, "expected a text")
    return items
