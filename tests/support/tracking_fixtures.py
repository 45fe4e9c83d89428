"""Small configurations and people for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from ugm import Resource, UserGroup
from ugm.identity import ancestors
from ugm.testing import DrawnLimit, DrawnPartition, DrawnQueue

__all__ = ["BOB", "NOTHING", "ONE", "SUE", "Wrong", "group", "partition", "user"]

#: What no correct caller passes, and a type checker would refuse.
Wrong: TypeAlias = Any

SUE: Final = UserGroup("sue", ("dev",))
BOB: Final = UserGroup("bob", ("dev",))
ONE: Final = Resource(memory=1)
NOTHING: Final = Resource()


def user(*names: str, applications: int = 0, **resources: int) -> DrawnLimit:
    """Return a limit for users."""
    return DrawnLimit(names, (), Resource(resources) if resources else None, applications)


def group(*names: str, applications: int = 0, **resources: int) -> DrawnLimit:
    """Return a limit for groups."""
    return DrawnLimit((), names, Resource(resources) if resources else None, applications)


def partition(limits: Mapping[str, Iterable[DrawnLimit]]) -> DrawnPartition:
    """Return a partition from queue path to limits; queues on the way need not be named."""
    below: dict[str, list[str]] = {}
    for path in sorted({above for named in ["root", *limits] for above in ancestors(named)}):
        below.setdefault(path.rpartition(".")[0], []).append(path)

    def queue(path: str) -> DrawnQueue:
        children = tuple(queue(child) for child in below.get(path, ()))
        return DrawnQueue(path.rpartition(".")[2], tuple(limits.get(path, ())), children)

    return DrawnPartition(queue("root"))
