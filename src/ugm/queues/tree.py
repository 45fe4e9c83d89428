"""The queues of one partition, and the size of the cluster at their root.

The tree follows the configuration. It contains every queue that the configuration names. A queue that is removed from
the configuration drains: it accepts no more applications and is deleted with its last one. Placement creates further
queues below parents; they get their quota from the nearest template above and are deleted when they are empty.

The root has no quota of resources. Its maximum is the sum of the registered nodes; it is unlimited until the first node
is registered.

The tree takes no lock and checks no requests; `ugm.Partition` does both. The usage of an application is charged to the
counters of its queue together with those of its user and group; see `Queue.chain`.

Source: Apache YuniKorn, resource quota management.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, final

from ugm.counters import Counter, Layout, headroom
from ugm.identity import ROOT, UserGroup, ancestors
from ugm.queues.queue import Queue, QueueApplication
from ugm.queues.specs import NO_QUOTA, QueueSpec, QueueSpecs
from ugm.resources import Resource, smallest_amounts

__all__ = ["QueueTree", "Structure"]


class PlacedApplication(QueueApplication, Protocol):
    """The part of an application that the tree depends on."""

    @property
    def queue(self) -> Queue:
        """The queue that the application was placed in."""
        ...


class Structure(NamedTuple):
    """The queues of a tree at one moment, with the state that a `QueueTree.reshape` changes."""

    specs: QueueSpecs
    queues: Sequence[tuple[str, Queue]]
    facts: Sequence[tuple[QueueSpec, bool, bool, Resource | None]]


@final
class QueueTree:
    """All queues of a partition.

    Args:
        specs: the configured queues.
        layout: the resources that are counted.
        cluster: the size of the cluster; None until the first node is registered.
    """

    __slots__ = ("_layout", "cluster", "counters", "queues", "specs")

    #: By canonical path; always with a root.
    queues: dict[str, Queue]
    #: The counters that have running applications.
    counters: dict[str, Counter]
    cluster: Resource | None
    specs: QueueSpecs
    _layout: Layout

    def __init__(self, specs: QueueSpecs, layout: Layout, cluster: Resource | None = None) -> None:
        self.counters = {}
        self.queues = {ROOT: Queue(specs.by_path[ROOT], None, self.counters, managed=True)}
        self.cluster = cluster
        self.reshape(specs, layout)

    @property
    def root(self) -> Queue:
        """The root queue."""
        return self.queues[ROOT]

    # The view for placement

    def exists(self, queue_path: str) -> bool:
        """Return whether a queue exists."""
        return queue_path in self.queues

    def is_leaf(self, queue_path: str) -> bool:
        """Return whether an existing queue accepts applications."""
        return self.queues[queue_path].is_leaf

    def is_draining(self, queue_path: str) -> bool:
        """Return whether an existing queue is draining."""
        return self.queues[queue_path].draining

    def may_submit(self, queue_path: str, user: UserGroup) -> bool:
        """Return whether a user may submit to a queue, or create it by a submission."""
        return self.nearest(queue_path).may_submit(user)

    def nearest(self, queue_path: str) -> Queue:
        """Return the queue, or the nearest existing queue above it."""
        return next(self.queues[path] for path in ancestors(queue_path) if path in self.queues)

    # Changes

    def create(self, queue_path: str) -> Queue:
        """Create a queue that the configuration does not name, and the missing queues above it.

        The leaf gets its quota from the template above. Return the queue, which may have existed already.
        """
        above = self.nearest(queue_path)
        missing = [path for path in ancestors(queue_path) if path not in self.queues]
        for path in reversed(missing):
            is_leaf = path == queue_path
            spec = QueueSpec(path, not is_leaf, above.template if is_leaf else NO_QUOTA)
            above = self.queues[path] = Queue(spec, above, self.counters, managed=False)
            above.connect(self._layout, self.cluster)
        return above

    def override_quota(self, queue: Queue, most: Resource) -> None:
        """Set the maximum of a queue that the configuration does not name; the layout must count its resources."""
        queue.quota_override = most
        queue.connect(self._layout, self.cluster)

    def prune(self, queue: Queue) -> None:
        """Delete a queue, and the queues above it, as far as they are empty and not named by the configuration."""
        while queue.is_idle and not queue.managed and queue.parent is not None:
            del self.queues[queue.queue_path]
            del queue.parent.children[queue.queue_path.rpartition(".")[2]]
            queue = queue.parent

    def reshape(self, specs: QueueSpecs, layout: Layout, left_out: QueueSpecs | None = None) -> None:
        """Change the tree to another configuration.

        Args:
            specs: the queues of the configuration.
            layout: the layout of all counters.
            left_out: the specs of the queues that it does not name any more; by default they keep theirs.
        """
        self.specs = specs
        for path, spec in specs.by_path.items():
            queue = self.queues.get(path)
            if queue is None:
                above = self.queues[path.rpartition(".")[0]]
                self.queues[path] = Queue(spec, above, self.counters, managed=True)
            else:
                queue.spec, queue.managed, queue.was_configured, queue.quota_override = spec, True, False, None
        for queue in list(self.root.below()):
            if queue.parent is not None and queue.queue_path not in specs.by_path:
                queue.spec = _spec_outside(queue, left_out)
                self._release(queue, queue.parent)
        # Parents come before their children, and are deleted with the last of them.
        for queue in list(self.queues.values()):
            self.prune(queue)
        self.connect(layout)

    def _release(self, queue: Queue, parent: Queue) -> None:
        """Mark a queue as one that the configuration does not name; its parent has been updated before."""
        queue.was_configured = queue.was_configured or queue.managed
        queue.managed = False
        if not queue.draining and not queue.spec.is_parent:
            queue.spec = replace(queue.spec, quota=parent.template)

    def connect(self, layout: Layout) -> None:
        """Update all counters to a layout and to the size of the cluster."""
        self._layout = layout
        self.root.connect(layout, self.cluster)

    def resize(self, cluster: Resource) -> None:
        """Change the size of the cluster, whose resources the layout must count; updates one counter."""
        self.cluster = cluster
        limit = self.root.limit(cluster)
        if self.root.counter is not None and limit is not None:
            self.root.counter.replace_limit(limit)

    # Undoing, and recovery after an interruption

    def structure(self) -> Structure:
        """Return the queues and their settings, to undo a `reshape`."""
        queues = list(self.queues.items())
        facts = [(queue.spec, queue.managed, queue.was_configured, queue.quota_override) for _, queue in queues]
        return Structure(self.specs, queues, facts)

    def restore(self, structure: Structure) -> None:
        """Undo a `reshape`; the links between queues and the counters are rebuilt later."""
        self.specs = structure.specs
        self.queues.clear()
        self.queues.update(structure.queues)
        for (_, queue), facts in zip(structure.queues, structure.facts, strict=True):
            queue.spec, queue.managed, queue.was_configured, queue.quota_override = facts

    def rebuild_links(self, applications: Mapping[str, PlacedApplication]) -> None:
        """Rebuild the applications and the children of every queue, and delete empty queues."""
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
        """Rebuild the tree and all counters for the configuration in force."""
        self.counters.clear()
        for queue in self.queues.values():
            queue.counter = None
        self.cluster = cluster
        if specs is self.specs:
            self.connect(layout)
        else:
            self.reshape(specs, layout)

    # Queries

    def headroom(self, queue_path: str, *, cluster: bool) -> Resource | None:
        """Return the free amount of each limited resource: the smallest over the queues from *queue_path* up.

        Args:
            queue_path: an existing queue.
            cluster: if false, ignore the size of the cluster, which is the limit of the root.

        Returns:
            None if no queue limits resources. An amount is negative if the usage exceeds the limit.
        """
        return headroom(counter for counter in self.queues[queue_path].chain if cluster or counter.queue_path != ROOT)

    def chain_if_made(self, queue_path: str, quota: Resource | None = None) -> tuple[Counter, ...]:
        """Return the counters that a new application in a queue would be charged to, leaf to root; changes nothing.

        As in `create`, a queue that does not exist gets its quota from the template above. As in `override_quota`,
        *quota* replaces the maximum of a queue that the configuration does not name. In both cases the counter of the
        queue is temporary, and its layout counts the resources of the quota.

        Args:
            queue_path: an existing queue, or the path of a queue to create.
            quota: the maximum that the submission would set; None leaves it as it is.
        """
        nearest = self.nearest(queue_path)
        if nearest.queue_path != queue_path:
            spec, above = QueueSpec(queue_path, is_parent=False, quota=nearest.template), nearest
        elif nearest.parent is None or nearest.managed or quota is None:
            return nearest.chain
        else:
            spec, above = nearest.spec, nearest.parent
        made = Queue(spec, None, {}, managed=False)
        made.parent, made.quota_override = above, quota
        if nearest.queue_path == queue_path:
            for queue in nearest.below():
                made.applications.update(queue.applications)
        made.connect(self._layout.with_names(made.quota.names), self.cluster)
        return made.chain

    def maximum(self, queue_path: str) -> Resource | None:
        """Return the maximum of a queue and of all queues above it: the smallest amount of each limited resource.

        Returns:
            None if no queue limits resources.
        """
        queues = self.queues[queue_path].lineage()
        maxima = (self.cluster if queue.parent is None else queue.quota.max_resources for queue in queues)
        return smallest_amounts(item for maximum in maxima for item in (maximum or {}).items())

    def names_outside(self, specs: QueueSpecs, left_out: QueueSpecs | None = None) -> Iterator[str]:
        """Yield the resources of the quotas and templates of all queues that a configuration does not name.

        Args:
            specs: the queues of the configuration.
            left_out: as for `reshape`.
        """
        for path, queue in self.queues.items():
            if path not in specs.by_path:
                yield from (*_spec_outside(queue, left_out).names, *queue.quota.names)


def _spec_outside(queue: Queue, left_out: QueueSpecs | None) -> QueueSpec:
    """Return the spec of a queue that the next configuration does not name."""
    return queue.spec if left_out is None or not queue.managed else left_out.by_path[queue.queue_path]
