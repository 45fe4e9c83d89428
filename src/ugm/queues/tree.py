"""The queues of one partition, and the size of the cluster at their root.

The tree follows the configuration: queues that it names are there, those that leave it are drained, which means that
they take no more applications and go away with their last one. Placement creates further queues below parents; those
get what the template of the parent says and go away when they are empty.

The root has no quota of its own. It allows what the registered nodes add up to, and anything until a first node is
registered.

The tree takes no lock and checks no requests; a `ugm.Partition` does both. What an application holds is charged to the
counters of its queue together with those of its user and group, see `Queue.chain`.

Source: Apache YuniKorn, resource quota management.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, final

from ugm.hierarchy import Layout, Node, headroom
from ugm.identity import ROOT, UserGroup, ancestors
from ugm.queues.queue import Queue, Tenant
from ugm.queues.specs import NO_QUOTA, QueueSpec, QueueSpecs
from ugm.resources import Resource

__all__ = ["QueueTree", "Structure"]


class PlacedTenant(Tenant, Protocol):
    """An application that was placed in a queue."""

    @property
    def queue(self) -> Queue:
        """The queue."""
        ...


class Structure(NamedTuple):
    """The queues of a tree at one moment, with what the configuration says of each."""

    specs: QueueSpecs
    queues: Sequence[tuple[str, Queue]]
    facts: Sequence[tuple[QueueSpec, bool, bool, Resource | None]]


@final
class QueueTree:
    """All queues of a partition.

    Args:
        specs: the configured queues.
        layout: which resources are counted.
        cluster: what the root allows; None until a first node is registered.
    """

    __slots__ = ("_layout", "cluster", "nodes", "queues", "specs")

    #: By canonical path; always with a root.
    queues: dict[str, Queue]
    #: The counters below which something runs.
    nodes: dict[str, Node]
    cluster: Resource | None
    specs: QueueSpecs
    _layout: Layout

    def __init__(self, specs: QueueSpecs, layout: Layout, cluster: Resource | None = None) -> None:
        self.nodes = {}
        self.queues = {ROOT: Queue(specs.by_path[ROOT], None, self.nodes, managed=True)}
        self.cluster = cluster
        self.reshape(specs, layout)

    @property
    def root(self) -> Queue:
        """The queue above all others."""
        return self.queues[ROOT]

    # What placement asks

    def exists(self, queue_path: str) -> bool:
        """Return whether there is such a queue."""
        return queue_path in self.queues

    def is_leaf(self, queue_path: str) -> bool:
        """Return whether an existing queue takes applications."""
        return self.queues[queue_path].is_leaf

    def is_draining(self, queue_path: str) -> bool:
        """Return whether an existing queue is about to go away."""
        return self.queues[queue_path].draining

    def may_submit(self, queue_path: str, user: UserGroup) -> bool:
        """Return whether a user may submit to a queue, or create it by submitting."""
        return self.nearest(queue_path).may_submit(user)

    def nearest(self, queue_path: str) -> Queue:
        """Return the queue, or the nearest above it that exists."""
        return next(self.queues[path] for path in ancestors(queue_path) if path in self.queues)

    # Changes

    def create(self, queue_path: str) -> Queue:
        """Create a queue that the configuration does not name, with those above it that are missing.

        The leaf gets what the template above it says. Return the queue, which may have been there already.
        """
        above = self.nearest(queue_path)
        missing = [path for path in ancestors(queue_path) if path not in self.queues]
        for path in reversed(missing):
            is_leaf = path == queue_path
            spec = QueueSpec(path, not is_leaf, above.template if is_leaf else NO_QUOTA)
            above = self.queues[path] = Queue(spec, above, self.nodes, managed=False)
            above.connect(self._layout, self.cluster)
        return above

    def annotate(self, queue: Queue, most: Resource) -> None:
        """Let a queue that the configuration does not name use *most*, which its layout counts."""
        queue.annotated = most
        queue.connect(self._layout, self.cluster)

    def prune(self, queue: Queue) -> None:
        """Drop a queue, and those above it, that neither the configuration names nor anything is left in."""
        while queue.is_idle and not queue.managed and queue.parent is not None:
            del self.queues[queue.queue_path]
            del queue.parent.children[queue.queue_path.rpartition(".")[2]]
            queue = queue.parent

    def reshape(self, specs: QueueSpecs, layout: Layout) -> None:
        """Follow another configuration."""
        self.specs = specs
        for path, spec in specs.by_path.items():
            queue = self.queues.get(path)
            if queue is None:
                above = self.queues[path.rpartition(".")[0]]
                self.queues[path] = Queue(spec, above, self.nodes, managed=True)
            else:
                queue.spec, queue.managed, queue.has_left, queue.annotated = spec, True, False, None
        for queue in list(self.root.below()):
            if queue.parent is not None and queue.queue_path not in specs.by_path:
                self._release(queue, queue.parent)
        # Parents are looked at before their children, and go with the last of them.
        for queue in list(self.queues.values()):
            self.prune(queue)
        self.connect(layout)

    def _release(self, queue: Queue, parent: Queue) -> None:
        """Make a queue one that the configuration does not name. Its parent has been looked at before."""
        queue.has_left = queue.has_left or queue.managed
        queue.managed = False
        if not queue.draining and not queue.spec.is_parent:
            queue.spec = queue.spec._replace(quota=parent.template)

    def connect(self, layout: Layout) -> None:
        """Bring all counters in line with a layout, and with the size of the cluster."""
        self._layout = layout
        self.root.connect(layout, self.cluster)

    def resize(self, cluster: Resource) -> None:
        """Let the root use *cluster*, all of whose resources the layout counts; as cheap as one counter."""
        self.cluster = cluster
        for node in self.root.chain:
            node.replace_limit(self.root.cluster_limit(cluster))

    # Undoing, and recovery after an interruption

    def structure(self) -> Structure:
        """Return which queues there are, and what the configuration says of each, to undo a `reshape`."""
        queues = list(self.queues.items())
        facts = [(queue.spec, queue.managed, queue.has_left, queue.annotated) for _, queue in queues]
        return Structure(self.specs, queues, facts)

    def restore(self, structure: Structure) -> None:
        """Undo a `reshape`; links between queues, and counters, are rebuilt."""
        self.specs = structure.specs
        self.queues.clear()
        self.queues.update(structure.queues)
        for (_, queue), facts in zip(structure.queues, structure.facts, strict=True):
            queue.spec, queue.managed, queue.has_left, queue.annotated = facts

    def list_applications(self, applications: Mapping[str, PlacedTenant]) -> None:
        """List every application in the queue where it was placed, and drop queues that are left without any."""
        for application in applications.values():
            for queue in application.queue.lineage():
                self.queues.setdefault(queue.queue_path, queue)
        for queue in self.queues.values():
            queue.applications.clear()
            queue.children.clear()
        for queue in self.queues.values():
            if queue.parent is not None:
                queue.parent.children[queue.queue_path.rpartition(".")[2]] = queue
        for application_id, application in applications.items():
            application.queue.applications[application_id] = application
        for queue in list(self.queues.values()):
            if queue.queue_path in self.queues:
                self.prune(queue)

    def rebuild(self, specs: QueueSpecs, layout: Layout, cluster: Resource | None) -> None:
        """Follow the configuration in force with new counters for all queues."""
        self.nodes.clear()
        for queue in self.queues.values():
            queue.node = None
        self.cluster = cluster
        if specs is self.specs:
            self.connect(layout)
        else:
            self.reshape(specs, layout)

    # Reading

    def headroom(self, queue_path: str, *, cluster: bool) -> Resource | None:
        """Return the least that any queue from *queue_path* up leaves, for each limited resource.

        Args:
            queue_path: a queue that exists.
            cluster: whether the size of the cluster, which is the limit of the root, counts.

        Returns:
            None where nothing limits resources. An amount is negative where more is used than allowed.
        """
        return headroom(node for node in self.queues[queue_path].chain if cluster or node.queue_path != ROOT)

    def chain_if_made(self, queue_path: str, quota: Resource | None = None) -> tuple[Node, ...]:
        """Return the counters that a new application in a queue would be charged to, leaf to root; changes nothing.

        A queue that does not exist gets what the template above it says, as in `create`. A queue that the configuration
        does not name uses *quota*, as in `annotate`. In both cases the counter of the queue is made for the occasion,
        and its layout counts what the quota names.

        Args:
            queue_path: a queue, or a path where one would be created.
            quota: what the submission would let the queue use; None leaves it as it is.
        """
        nearest = self.nearest(queue_path)
        if nearest.queue_path != queue_path:
            spec, above = QueueSpec(queue_path, is_parent=False, quota=nearest.template), nearest
        elif nearest.parent is None or nearest.managed or quota is None:
            return nearest.chain
        else:
            spec, above = nearest.spec, nearest.parent
        made = Queue(spec, None, {}, managed=False)
        made.parent, made.annotated = above, quota
        if nearest.queue_path == queue_path:
            for queue in nearest.below():
                made.applications.update(queue.applications)
        made.connect(self._layout.with_names(made.quota.names), self.cluster)
        return made.chain

    def most(self, queue_path: str) -> Resource | None:
        """Return the most that could ever be used in a queue: the least that any queue from there up allows.

        Returns:
            None where nothing limits resources.
        """
        most: dict[str, int] = {}
        for queue in self.queues[queue_path].lineage():
            allowed = self.cluster if queue.parent is None else queue.quota.max_resources
            for name, amount in (allowed or {}).items():
                most[name] = min(amount, most.get(name, amount))
        return Resource(most) if most else None

    def names_beside(self, specs: QueueSpecs) -> Iterator[str]:
        """Yield the resources that queues limit or guarantee, or pass on, which a configuration does not name."""
        for path, queue in self.queues.items():
            if path not in specs.by_path:
                yield from (*queue.spec.names, *queue.quota.names)
