"""One queue: what it allows, what is charged to it, and which applications were submitted to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Protocol, final

from ugm.hierarchy import Layout, Limit, Node, charge
from ugm.identity import TrackingType, UserGroup
from ugm.queues.acl import path_allows
from ugm.queues.specs import NO_QUOTA, QueueSpec, Quota
from ugm.resources import Resource, sum_of

__all__ = ["Queue", "Tenant"]


class Tenant(Protocol):
    """An application, as far as queues care."""

    def held(self) -> Mapping[str, int] | None:
        """Return what it holds, by resource name; None if it is not running."""
        ...


@final
class Queue:
    """A queue of a `QueueTree`.

    It has a counter only where something has to be counted: at the root, and where the queue limits or guarantees
    something. What any other queue uses is summed up when somebody asks.

    Args:
        spec: what the configuration, or the template of a queue above, says of it.
        parent: the queue above; None for the root.
        nodes: the index of counters that all queues of a tree share.
        managed: whether the configuration names it.
    """

    kind: ClassVar[TrackingType] = TrackingType.QUEUE

    __slots__ = (
        "annotated",
        "applications",
        "chain",
        "children",
        "has_left",
        "managed",
        "node",
        "nodes",
        "parent",
        "queue_path",
        "spec",
    )

    queue_path: str
    parent: Queue | None
    #: By the last part of their path.
    children: dict[str, Queue]
    spec: QueueSpec
    #: Whether the configuration names it; otherwise it goes away when nothing is left in it.
    managed: bool
    #: Whether the configuration named it once, and does not any more.
    has_left: bool
    #: What it was given for itself, in the place of what `spec` says: the quota of a namespace.
    annotated: Resource | None
    #: All applications that were submitted to it and have not ended, running or not.
    applications: dict[str, Tenant]
    #: Its counter.
    node: Node | None
    #: The counters of the queue and of those above it, leaf to root. Invariant: exactly those that have one.
    chain: tuple[Node, ...]
    #: Those counters of the whole tree below which something runs.
    nodes: dict[str, Node]

    def __init__(self, spec: QueueSpec, parent: Queue | None, nodes: dict[str, Node], *, managed: bool) -> None:
        self.queue_path = spec.queue_path
        self.parent = parent
        self.children = {}
        self.spec = spec
        self.managed = managed
        self.has_left = False
        self.annotated = None
        self.applications = {}
        self.node = None
        self.chain = ()
        self.nodes = nodes
        if parent is not None:
            parent.children[self.name.rpartition(".")[2]] = self

    @property
    def name(self) -> str:
        """The path: what the counter of the queue is known by."""
        return self.queue_path

    @property
    def is_leaf(self) -> bool:
        """Whether applications may be submitted to it."""
        return not self.spec.is_parent

    @property
    def draining(self) -> bool:
        """Whether it takes no more applications: it has left the configuration, or could not be made below its parent.

        The parent may be draining itself, or be one that the configuration has made a leaf.
        """
        if self.managed or self.parent is None:
            return False
        return self.has_left or self.parent.draining or not self.parent.spec.is_parent

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left in or below it, so that it may go away."""
        return not self.applications and not self.children

    @property
    def quota(self) -> Quota:
        """What it allows and is guaranteed."""
        quota = self.spec.quota
        return quota if self.annotated is None else quota._replace(max_resources=self.annotated)

    @property
    def template(self) -> Quota:
        """What a queue gets that is created directly below: of the nearest queue that says so, upward."""
        return next((queue.spec.template for queue in self.lineage() if queue.spec.template is not None), NO_QUOTA)

    def restore_quota(self, annotated: Resource | None) -> None:
        """Undo a change of `annotated`; the counter is rebuilt."""
        self.annotated = annotated

    def lineage(self) -> Iterator[Queue]:
        """Yield the queue and those above it, leaf to root."""
        queue: Queue | None = self
        while queue is not None:
            yield queue
            queue = queue.parent

    def below(self) -> Iterator[Queue]:
        """Yield the queue and all queues below it, parents before children, in the order of their names."""
        yield self
        for name in sorted(self.children):
            yield from self.children[name].below()

    def may_submit(self, user: UserGroup) -> bool:
        """Return whether a user may submit applications to the queue, or to one that is created below it."""
        return path_allows(
            (acl for queue in self.lineage() for acl in (queue.spec.submit_acl, queue.spec.admin_acl)), user
        )

    def connect(self, layout: Layout, cluster: Resource | None) -> None:
        """Bring the counter and the chain of the queue, and of all queues below it, in line with what is configured.

        Takes time in the number of queues, and in that of the applications below every counter that has to be made.

        Args:
            layout: which resources are counted.
            cluster: what the root may use; None for no limit.
        """
        limit = self.limit(cluster)
        if limit is None:
            self.nodes.pop(self.queue_path, None)
            self.node = None
        elif self.node is not None and self.node.layout is layout:
            self.node.replace_limit(limit)
        else:
            self.node = self._counted(Node(self, self.queue_path, limit, layout))
        above = () if self.parent is None else self.parent.chain
        self.chain = above if self.node is None else (self.node, *above)
        for child in self.children.values():
            child.connect(layout, cluster)

    def limit(self, cluster: Resource | None) -> Limit | None:
        """Return the limit of the counter; None if there is nothing to count for."""
        most, applications, guaranteed = self.quota
        if self.parent is None:
            return self.cluster_limit(cluster)
        if most is None and guaranteed is None and not applications:
            return None
        return Limit(most or Resource(), applications, place=self.queue_path)

    def cluster_limit(self, cluster: Resource | None) -> Limit:
        """Return the limit of the root in a cluster of a size; None for a size that nobody knows."""
        applications = self.quota.max_applications
        return Limit(cluster or Resource(), applications, closed=cluster is not None, place=self.queue_path)

    def _counted(self, node: Node) -> Node:
        """Charge to a new counter all that runs below."""
        for held in self.running():
            charge([node], node.layout.vector(Resource(held)))
            node.running += 1
        if node.running:
            self.nodes[self.queue_path] = node
        else:
            self.nodes.pop(self.queue_path, None)
        return node

    def running(self) -> Iterator[Mapping[str, int]]:
        """Yield what every application holds that runs in or below the queue."""
        for queue in self.below():
            for tenant in queue.applications.values():
                held = tenant.held()
                if held is not None:
                    yield held

    def usage(self) -> Resource:
        """Return what is used in and below the queue, without zeros. Takes time in the number of applications there."""
        return sum_of(self.running())
