"""A naive model of queues: quotas, nodes and placement, computed again for each query.

`QueueModel` only stores the nodes of the cluster, and the queues that are not in the configuration: dynamic queues, and
queues that have been removed from the configuration while they had applications. It finds everything else by walking
through the configuration from the root. Of `ugm.queues` it uses only the placement rules and the access control lists,
which have tests of their own. It expects valid arguments.

Source: Apache YuniKorn, resource quota management; placement rules.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import NamedTuple, final

from ugm.configuration import ChildTemplate, PartitionConfig, QueueConfig, QueueResources
from ugm.errors import RequestError
from ugm.identity import ROOT, UserGroup
from ugm.queues import Acl, Placement, PlacementRules, Submission, path_allows
from ugm.resources import Resource


class DynamicQueue(NamedTuple):
    """A queue that is not in the configuration."""

    #: Its own settings, or the last ones from the configuration.
    settings: QueueConfig
    #: Whether it was removed from the configuration.
    was_configured: bool = False
    #: The quota that was set for this queue.
    quota_override: Resource | None = None


@final
@dataclass
class QueueModel:
    """The queues of one partition."""

    #: The configuration in force; None for only a root queue.
    config: PartitionConfig | None = None
    #: The queues that are not in the configuration, by path.
    made: dict[str, DynamicQueue] = field(default_factory=dict)
    #: The resources of every registered node.
    nodes: dict[str, Resource] = field(default_factory=dict)
    #: The names of resources that any node has ever had; None before the first node.
    offered: set[str] | None = None

    # Queries

    @property
    def configured(self) -> dict[str, QueueConfig]:
        """The configurations of the queues by path."""
        return {} if self.config is None else dict(self.config.root.walk())

    def paths(self) -> list[str]:
        """Return all queues, sorted."""
        return sorted({ROOT, *self.configured, *self.made})

    def children(self, path: str) -> list[str]:
        """Return the queues directly below a queue, sorted."""
        return [other for other in self.paths() if other.rpartition(".")[0] == path]

    def settings(self, path: str) -> QueueConfig:
        """Return the settings of a queue."""
        return self.made[path].settings if path in self.made else self.configured.get(path) or QueueConfig(ROOT)

    def is_leaf(self, path: str) -> bool:
        """Return whether a queue accepts applications, and is no parent, not even one without children."""
        return not self.settings(path).parent

    def is_draining(self, path: str) -> bool:
        """Return whether a queue is draining: it was removed, or its parent is draining or no longer a parent."""
        if path not in self.made:
            return False
        above = path.rpartition(".")[0]
        return self.made[path].was_configured or self.is_draining(above) or self.is_leaf(above)

    def quota(self, path: str) -> QueueResources:
        """Return the quota of a queue, where an empty vector is no limit; the root has the resources of the cluster."""
        if path == ROOT:
            return QueueResources(max=self.cluster())
        override = self.made[path].quota_override if path in self.made else None
        own = self.settings(path).resources
        return QueueResources(max=override or own.max or None, guaranteed=own.guaranteed or None)

    def cluster(self) -> Resource | None:
        """Return the sum of all nodes; None before the first node."""
        if self.offered is None:
            return None
        return Resource({name: sum(node.get(name, 0) for node in self.nodes.values()) for name in self.offered})

    def template(self, path: str) -> ChildTemplate:
        """Return the quota of a new queue directly below a queue, or below the nearest one that exists."""
        templates = (self.settings(above).child_template for above in upward(path))
        return next((one for one in templates if one is not None), ChildTemplate())

    # Placement

    def place(self, submission: Submission) -> Placement:
        """Return the queue of an application by the rules of the configuration."""
        return PlacementRules(() if self.config is None else self.config.placement_rules).place(submission, self)

    def exists(self, path: str) -> bool:
        """Return whether a queue exists."""
        return path in self.paths()

    def may_submit(self, path: str, user: UserGroup) -> bool:
        """Return whether the access control lists of a queue or of one above it admit a user."""
        queues = [self.configured[above] for above in upward(path) if above in self.configured]
        return path_allows([Acl.parse(text) for one in queues for text in (one.submit_acl, one.admin_acl)], user)

    # Changes

    def create(self, path: str) -> None:
        """Create a queue and its missing ancestors."""
        leaf = _with_quota(QueueConfig(path.rpartition(".")[2]), self.template(path))
        for above in upward(path):
            if above not in self.paths():
                parent = QueueConfig(above.rpartition(".")[2], declared_parent=True)
                self.made[above] = DynamicQueue(leaf if above == path else parent)

    def override_quota(self, path: str, quota: Resource | None) -> None:
        """Set the quota of a dynamic queue."""
        if quota and path in self.made:
            self.made[path] = self.made[path]._replace(quota_override=quota)

    def prune(self, busy: Collection[str]) -> None:
        """Remove dynamic queues without applications in or below them."""
        self.made = {path: queue for path, queue in self.made.items() if any(path in upward(other) for other in busy)}

    def configure(self, config: PartitionConfig | None) -> None:
        """Replace the configuration."""
        before = {path: DynamicQueue(one, was_configured=True) for path, one in self.configured.items()}
        self.config = config
        self.made = {path: one for path, one in {**before, **self.made}.items() if path not in {ROOT, *self.configured}}
        for path, made in self.made.items():
            if not self.is_draining(path) and self.is_leaf(path):
                settings = _with_quota(made.settings, self.template(path.rpartition(".")[0]))
                self.made[path] = made._replace(settings=settings)

    def add_node(self, name: str, offers: Resource) -> None:
        """Register a node.

        Raises:
            RequestError: the node is registered with other resources.
        """
        if self.nodes.get(name, offers) != offers:
            raise RequestError("node", name, "a node of that name is registered with other resources", "id-in-use")
        self.offered = {*(self.offered or ()), *offers}
        self.nodes[name] = offers

    def update_node(self, name: str, offers: Resource) -> None:
        """Change the resources of a node.

        Raises:
            RequestError: the node does not exist.
        """
        if name not in self.nodes:
            raise RequestError("node", name, "there is no such node", "node-unknown")
        del self.nodes[name]
        self.add_node(name, offers)

    def remove_node(self, name: str) -> bool:
        """Remove a node, and return whether it existed."""
        return self.nodes.pop(name, None) is not None


def upward(path: str) -> list[str]:
    """Return a path and its ancestors, from leaf to root."""
    names = path.split(".")
    return [".".join(names[:count]) for count in range(len(names), 0, -1)]


def _with_quota(settings: QueueConfig, template: ChildTemplate) -> QueueConfig:
    return replace(settings, resources=template.resources, max_applications=template.max_applications)
