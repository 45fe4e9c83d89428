"""The queues of a configuration, compiled: what every queue allows and is guaranteed, and who may submit to it.

Compiling checks everything that could be wrong with a configuration made by hand, before anything is touched; what is
compiled never changes. A `QueueTree` is then reshaped to it.

Source: Apache YuniKorn, resource quota management.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, Self, final

from ugm.arguments import require_amounts, require_count
from ugm.errors import RequestError
from ugm.identity import ROOT, canonical_path
from ugm.queues.acl import Acl
from ugm.resources import Resource

__all__ = ["NO_QUOTA", "Amounts", "QueueSettings", "QueueSpec", "QueueSpecs", "Quota", "Template"]


class Amounts(Protocol):
    """What a configuration says of the resources of a queue."""

    @property
    def guaranteed(self) -> Resource | None:
        """What is guaranteed; None for nothing."""
        ...

    @property
    def max(self) -> Resource | None:
        """The most that may be used; None, and a resource that is not named, is without limit."""
        ...


class Template(Protocol):
    """What a configuration says of the queues that placement creates below a queue."""

    @property
    def resources(self) -> Amounts:
        """What each of them may use and is guaranteed."""
        ...

    @property
    def max_applications(self) -> int:
        """How many applications may run in each; 0 for no limit."""
        ...


class QueueSettings(Protocol):
    """A queue of a configuration, with the queues below it."""

    @property
    def name(self) -> str:
        """The last part of its path."""
        ...

    @property
    def parent(self) -> bool:
        """Whether queues may be below it, and applications therefore not in it."""
        ...

    @property
    def resources(self) -> Amounts:
        """What it may use and is guaranteed."""
        ...

    @property
    def max_applications(self) -> int:
        """How many applications may run in it and below; 0 for no limit."""
        ...

    @property
    def child_template(self) -> Template | None:
        """What queues get that placement creates below it."""
        ...

    @property
    def submit_acl(self) -> str:
        """Who may submit applications."""
        ...

    @property
    def admin_acl(self) -> str:
        """Who may do everything, submitting applications included."""
        ...

    @property
    def queues(self) -> Sequence[QueueSettings]:
        """The queues directly below."""
        ...


class Quota(NamedTuple):
    """What a queue may use, and what it is guaranteed."""

    #: None, and a resource that is not named, is without limit; a 0 allows none.
    max_resources: Resource | None = None
    #: 0 is without limit.
    max_applications: int = 0
    guaranteed: Resource | None = None

    @property
    def names(self) -> frozenset[str]:
        """The resources that have to be counted for it."""
        return frozenset((*(self.max_resources or ()), *(self.guaranteed or ())))


#: Neither limited nor guaranteed anything.
NO_QUOTA: Final = Quota()


class QueueSpec(NamedTuple):
    """What a configuration says of one queue."""

    queue_path: str
    is_parent: bool = False
    quota: Quota = NO_QUOTA
    #: What queues get that are created below; None leaves that to the queue above.
    template: Quota | None = None
    submit_acl: Acl | None = None
    admin_acl: Acl | None = None

    @property
    def names(self) -> frozenset[str]:
        """The resources that have to be counted for it, and for queues that are created below."""
        return self.quota.names | (self.template or NO_QUOTA).names


@final
class QueueSpecs:
    """All queues of a configuration, by their path; there is always a root."""

    __slots__ = ("by_path", "names")

    def __init__(self, by_path: Mapping[str, QueueSpec]) -> None:
        #: Parents before their children.
        self.by_path: Final = by_path
        #: The resources that any queue limits or guarantees, or a queue that is created may.
        self.names: Final = frozenset().union(*(spec.names for spec in by_path.values()))

    @classmethod
    def compile(cls, root: QueueSettings | None) -> Self:
        """Compile the queues of a configuration; None is a root that limits nothing and takes no applications.

        Raises:
            RequestError: a name, an amount or a count is no such thing, or a queue is named twice.
        """
        if root is None:
            return cls({ROOT: QueueSpec(ROOT, is_parent=True)})
        by_path: dict[str, QueueSpec] = {}
        for path, queue in _walk(root, ROOT):
            if path in by_path:
                raise RequestError("queues", path, "the queue is named twice")
            by_path[path] = _spec(canonical_path(path), queue)
        by_path[ROOT] = _root(by_path[ROOT])
        return cls(by_path)


def _walk(queue: QueueSettings, path: str) -> Iterator[tuple[str, QueueSettings]]:
    yield path, queue
    for child in queue.queues:
        yield from _walk(child, f"{path}.{child.name.lower()}")


def _spec(path: str, queue: QueueSettings) -> QueueSpec:
    template = queue.child_template
    return QueueSpec(
        path,
        queue.parent or bool(queue.queues),
        _quota(path, queue),
        None if template is None else _quota(path, template),
        Acl.parse(queue.submit_acl),
        Acl.parse(queue.admin_acl),
    )


def _root(spec: QueueSpec) -> QueueSpec:
    """Return the root without resources of its own: they are those of the cluster."""
    return spec._replace(is_parent=True, quota=Quota(None, spec.quota.max_applications, None))


def _quota(path: str, settings: QueueSettings | Template) -> Quota:
    resources = settings.resources
    return Quota(
        require_amounts(f"max of {path}", resources.max),
        require_count(f"max_applications of {path}", settings.max_applications),
        require_amounts(f"guaranteed of {path}", resources.guaranteed),
    )
