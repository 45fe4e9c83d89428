"""Small configurations and people for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from ugm import Resource, UserGroup
from ugm.configuration import LimitConfig, PartitionConfig, QueueConfig
from ugm.identity import ancestors

#: What no correct caller passes, and a type checker would refuse.
Wrong: TypeAlias = Any

SUE: Final = UserGroup("sue", ("dev",))
BOB: Final = UserGroup("bob", ("dev",))
ONE: Final = Resource(memory=1)
NOTHING: Final = Resource()


def user(*names: str, applications: int = 0, **resources: int) -> LimitConfig:
    """Return a limit for users."""
    return LimitConfig(names, (), Resource(resources) if resources else None, applications)


def group(*names: str, applications: int = 0, **resources: int) -> LimitConfig:
    """Return a limit for groups."""
    return LimitConfig((), names, Resource(resources) if resources else None, applications)


def partition(limits: Mapping[str, Iterable[LimitConfig]]) -> PartitionConfig:
    """Return a partition from a mapping of queue paths to limits; queues above them are added."""
    below: dict[str, list[str]] = {}
    for path in sorted({above for named in ["root", *limits] for above in ancestors(named)}):
        below.setdefault(path.rpartition(".")[0], []).append(path)

    def queue(path: str) -> QueueConfig:
        children = tuple(queue(child) for child in below.get(path, ()))
        return QueueConfig(path.rpartition(".")[2], limits=tuple(limits.get(path, ())), queues=children)

    return PartitionConfig(queues=(queue("root"),))
