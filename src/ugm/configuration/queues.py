"""Queues with their resources and access lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import final

from ugm._config_fields import ConfigValue
from ugm.configuration.limits import LimitConfig, LimitExtensions
from ugm.identity import ROOT
from ugm.resources import Resource

__all__ = ["ChildTemplate", "QueueConfig", "QueueResources"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class QueueResources(ConfigValue):
    """The guaranteed resources of a queue and its maximum."""

    #: None guarantees nothing.
    guaranteed: Resource | None = None
    #: None means unlimited; so does a missing resource.
    max: Resource | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChildTemplate(ConfigValue):
    """The settings of queues that placement creates below a queue."""

    #: 0 means unlimited.
    max_applications: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    resources: QueueResources = QueueResources()


@final
@dataclass(frozen=True, slots=True)
class QueueConfig(ConfigValue):
    """A queue, with everything below it."""

    #: In lower case.
    name: str = field(default="", metadata={"normal": str.lower})
    #: The setting ``parent`` of the file; see `parent`.
    declared_parent: bool = field(default=False, kw_only=True, metadata={"yaml": "parent"})
    resources: QueueResources = field(default=QueueResources(), kw_only=True)
    #: 0 means unlimited.
    max_applications: int = field(default=0, kw_only=True)
    properties: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    #: The users and groups that may administer the queue and submit applications to it.
    admin_acl: str = field(default="", kw_only=True)
    #: The users and groups that may submit applications.
    submit_acl: str = field(default="", kw_only=True)
    child_template: ChildTemplate | None = field(default=None, kw_only=True)
    queues: tuple[QueueConfig, ...] = field(default=(), kw_only=True)
    #: Their order decides which group of a user is charged.
    limits: tuple[LimitConfig, ...] = field(default=(), kw_only=True)
    ugm: LimitExtensions = field(default=LimitExtensions(), kw_only=True)

    def walk(self, path: str = ROOT) -> Iterator[tuple[str, QueueConfig]]:
        """Yield the queue and all queues below it, with their paths, parents before children.

        Args:
            path: the path of the queue.
        """
        yield path, self
        for child in self.queues:
            yield from child.walk(f"{path}.{child.name}")

    @property
    def parent(self) -> bool:
        """True if other queues may be below the queue; applications then cannot be in it."""
        return self.declared_parent or bool(self.queues) or self.name == ROOT

    @property
    def max_resources(self) -> Resource | None:
        """The maximum of the queue; None means unlimited, and so does a missing resource."""
        return self.resources.max

    @property
    def guaranteed(self) -> Resource | None:
        """The guaranteed resources of the queue."""
        return self.resources.guaranteed
