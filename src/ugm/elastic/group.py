"""Elastic groups and pods as values, and the errors of changes of groups.

A `ugm.config.ElasticGroup` is the configuration of a group: guaranteed minimum, maximum, weight, and the place in the
tree. `ugm.elastic.validation` checks the rules for groups. A tree accepts every group with valid names that has a
place.

Source: Koordinator, multi-hierarchy elastic quota management, "Key Concept", "API", "Pod" and "Compatibility".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from ugm.arguments import require_instance, require_resource
from ugm.configuration import ElasticGroup
from ugm.configuration.scheduler import ROOT_GROUP, Path
from ugm.errors import RequestError, UgmError
from ugm.identity import MAX_NAME, is_name, require_name
from ugm.resources import Resource

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
    #: The field of the group to which the rule applies; empty for the group as a whole.
    field: str = ""

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


#: The rule, the reason and the field of a `ugm.elastic.Refusal`.
BrokenRule: TypeAlias = tuple[str, str, str]


def refuse(group: str, broken: Iterable[BrokenRule]) -> None:
    """Refuse a change of a group if it violates rules.

    Raises:
        GroupError: there is a violated rule.
    """
    found = tuple(Refusal(group, *rule) for rule in broken)
    if found:
        raise GroupError(found)


def require_group(group: object) -> None:
    """Check that an argument is an elastic group with valid names.

    Raises:
        RequestError: it is not.
    """
    checked = require_instance("group", group, ElasticGroup)
    for (field, *_), reason in invalid_names(checked):
        raise RequestError(f"group.{field}", getattr(checked, str(field)), reason)


def invalid_names(group: ElasticGroup) -> Iterator[tuple[Path, str]]:
    """Yield the field of each name in a group that is too long, or missing where it is required, with a message."""
    if not is_name(group.name):
        yield ("name",), f"the elastic group has no name (allowed: 1 to {MAX_NAME} characters)"
    for field in ("parent", "namespace", "tree_id"):
        name = getattr(group, field)
        if len(name) > MAX_NAME:
            yield (field,), f"the name has {len(name)} characters (allowed: up to {MAX_NAME})"
    for field in ("namespaces", "strict_max"):
        for at, name in enumerate(getattr(group, field)):
            if not is_name(name):
                yield (field, at), f"the name has {len(name)} characters (allowed: 1 to {MAX_NAME})"


def parents_first(groups: Iterable[ElasticGroup]) -> list[ElasticGroup]:
    """Return groups in their order, but every parent before its children.

    Groups that are not connected to the root come last, because they cannot be part of a tree.
    """
    children: dict[str, list[ElasticGroup]] = {}
    for group in groups:
        children.setdefault(group.parent, []).append(group)
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
    checked = require_instance("pod", pod, Pod)
    require_name("pod.name", checked.name)
    require_resource("pod.usage", checked.usage)
    for field in ("group", "namespace"):
        name = getattr(checked, field)
        if not is_name(name) and name != "":
            raise RequestError(f"pod.{field}", name, f"expected a text of up to {MAX_NAME} characters")
    for field in ("priority", "started"):
        number = getattr(checked, field)
        if type(number) is not int and (number is not None or field == "priority"):
            raise RequestError(f"pod.{field}", number, "expected an int")
    if type(checked.preemptible) is not bool:
        raise RequestError("pod.preemptible", checked.preemptible, "expected True or False")
